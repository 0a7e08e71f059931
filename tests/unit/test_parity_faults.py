"""Every gate can fail: faults as people make them, planted into the engine, each with the gates that see it.

The target and the draft model are random and tiny, so that a fault shows in a second; the gates are those of
``specbook parity``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from specbook.engine import decoding, layout, sampling, verification
from specbook.engine.draft import Draft, tree_shape
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.kv_cache import KVCache
from specbook.engine.sampling import SamplingConfig
from specbook.engine.transformer import Transformer
from specbook.engine.verification import Verdict
from specbook.engine.weights import StoredWeights
from specbook.parity import distribution
from specbook.parity.cases import Case, drafter_cases
from specbook.parity.distribution import check_distribution
from specbook.parity.gates import guarded
from specbook.parity.greedy import check_greedy
from specbook.parity.report import GATE_NAMES, GateName, GateResult
from specbook.parity.rollback import check_rollback
from specbook.parity.sampled_law import compare_pool, draw_pool, exact_cells
from specbook.parity.tree_mask import check_tree_mask
from tests.tiny_models import random_tensors, tiny_transformer

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and which gates fail for it; the others pass."""

    name: str
    plant: Plant
    gates: frozenset[GateName]


def replace_everywhere(monkeypatch: pytest.MonkeyPatch, original: Any, replacement: Any) -> None:
    """Put another function where any module of the package has bound this one."""
    for name, module in list(sys.modules.items()):
        if name.startswith("specbook."):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    monkeypatch.setattr(module, attribute, replacement)


def accept_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = verification.verify

    def verify(draft: Draft, target: Sequence[Any], chance: Any) -> Verdict:
        verdict = honest(draft, target, chance)
        last = verdict.path[-1] if verdict.path else -1
        rejected = draft.children().get(last, [])
        return replace(verdict, path=(*verdict.path, rejected[0])) if rejected else verdict

    replace_everywhere(monkeypatch, honest, verify)


def forget_the_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_everywhere(monkeypatch, verification.residual, lambda target, token, drawn_from: target)  # noqa: ARG005


def put_siblings_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Siblings are drawn without replacement, and verified as if each had been drawn from all tokens."""
    honest = sampling.draw_distinct

    def draw_distinct(probabilities: Any, n_tokens: int, chance: Any) -> list[tuple[int, Any]]:
        return [(token, probabilities) for token, _ in honest(probabilities, n_tokens, chance)]

    replace_everywhere(monkeypatch, honest, draw_distinct)


def draw_at_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = decoding.distribution

    def warmer(logits: Any, config: Any) -> Any:
        return honest(logits, replace(config, temperature=1.5 * config.temperature))

    monkeypatch.setattr(decoding, "distribution", warmer)


def claim_another_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts are drawn from one distribution and verified as if drawn from a flatter one."""
    honest = sampling.draw_distinct

    def draw_distinct(probabilities: Any, n_tokens: int, chance: Any) -> list[tuple[int, Any]]:
        drawn = honest(probabilities, n_tokens, chance)
        flat = [np.sqrt(drawn_from) for _, drawn_from in drawn]
        return [(token, claimed / claimed.sum()) for (token, _), claimed in zip(drawn, flat, strict=True)]

    replace_everywhere(monkeypatch, honest, draw_distinct)


def leave_a_stale_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row of an accepted path stays where it was."""
    honest = KVCache._move

    def move(cache: KVCache, sequence: int, indices: Any) -> None:
        honest(cache, sequence, indices[:-1])

    monkeypatch.setattr(KVCache, "_move", move)


def commit_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = KVCache.commit

    def commit(cache: KVCache, kept: Any) -> None:
        n_pending = cache.n_pending.copy()
        honest(cache, kept)
        cache.lengths = cache.lengths + (n_pending > [len(rows) for rows in kept])

    monkeypatch.setattr(KVCache, "commit", commit)


def give_back_one_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = KVCache.rollback

    def rollback(cache: KVCache, lengths: Any) -> None:
        honest(cache, np.minimum(np.asarray(lengths) + 1, cache.lengths))

    monkeypatch.setattr(KVCache, "rollback", rollback)


def let_a_cousin_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node sees every node before it, and stands at the right position."""
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        positions, mask = honest(length, parents)
        return positions, np.tri(mask.shape[1], dtype=np.bool_)[None] | mask

    replace_everywhere(monkeypatch, honest, tree_rows)


def stand_one_position_off(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        positions, mask = honest(length, parents)
        return positions + 1, mask

    replace_everywhere(monkeypatch, honest, tree_rows)


def count_siblings_as_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of a tree stand one behind the other instead of at their depth."""
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        _, mask = honest(length, parents)
        return length + np.arange(mask.shape[1])[None], mask

    replace_everywhere(monkeypatch, honest, tree_rows)


def draft_into_the_targets_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that shares the target's cache writes into a token that is committed."""
    honest = EarlyExitDrafter.propose

    def propose(drafter: EarlyExitDrafter, request: Any) -> Draft:
        draft = honest(drafter, request)
        length = int(drafter._cache.lengths[0])
        if draft.n_nodes and length:
            drafter._cache.values[0, 0, :, length - 1] *= 1.0 + 2**-20
        return draft

    monkeypatch.setattr(EarlyExitDrafter, "propose", propose)


def leave_drafts_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that shares the target's cache leaves its rows there."""
    monkeypatch.setattr(KVCache, "drop_pending", lambda cache: None)  # noqa: ARG005


def quantise_the_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of several rows rounds its logits to float16."""
    honest = Transformer.logits

    def logits(model: Transformer, hidden: Any) -> Any:
        found = honest(model, hidden)
        return found if found.shape[-2] == 1 else found.astype(np.float16).astype(np.float32)

    monkeypatch.setattr(Transformer, "logits", logits)


def take_the_bonus_from_the_row_before(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = verification.verify

    def verify(draft: Draft, target: Sequence[Any], chance: Any) -> Verdict:
        return honest(draft, [target[0], *target[:-1]], chance)

    replace_everywhere(monkeypatch, honest, verify)


def keep_the_wrong_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft model's own cache keeps rows of drafts that were rejected: worse drafts, the same text."""

    def accept(drafter: SmallModelDrafter, path: Sequence[int]) -> None:
        n_pending = int(drafter._cache.n_pending[0])
        drafter._cache.commit([range(n_pending - min(len(path), n_pending), n_pending)])

    monkeypatch.setattr(SmallModelDrafter, "accept", accept)


def _fault(plant: Plant, *gates: GateName) -> Fault:
    return Fault(plant.__name__.replace("_", " "), plant, frozenset(gates))


FAULTS = (
    _fault(accept_one_too_many, "greedy", "distribution", "rollback"),
    _fault(take_the_bonus_from_the_row_before, "greedy", "distribution", "rollback"),
    _fault(forget_the_residual, "distribution"),
    _fault(put_siblings_back, "distribution"),
    _fault(draw_at_another_temperature, "distribution"),
    _fault(claim_another_temperature, "distribution"),
    _fault(quantise_the_logits, "greedy", "distribution"),
    _fault(leave_a_stale_row, "greedy", "distribution", "rollback"),
    _fault(commit_one_too_many, "greedy", "distribution", "rollback"),
    _fault(give_back_one_too_few, "rollback"),
    _fault(draft_into_the_targets_cache, "greedy", "rollback"),
    _fault(leave_drafts_pending, *GATE_NAMES),
    _fault(let_a_cousin_be_seen, *GATE_NAMES),
    _fault(stand_one_position_off, *GATE_NAMES),
    _fault(count_siblings_as_positions, *GATE_NAMES),
    _fault(keep_the_wrong_drafts),
)


@dataclass(frozen=True)
class World:
    """A target, two drafters in both forms, prompts."""

    target: Transformer
    cases: list[Case]
    prompts: list[list[int]]

    def run(self, gate: GateName) -> GateResult:
        rng = np.random.default_rng(0)
        gates: dict[GateName, Callable[[], GateResult]] = {
            "greedy": lambda: check_greedy(self.target, self.cases, self.prompts, 160),
            "distribution": lambda: check_distribution(self.target, self.cases, self.prompts, 120, rng),
            "rollback": lambda: check_rollback(self.target, self.cases, self.prompts, 40, rng),
            "tree-mask": lambda: check_tree_mask(self.target, self.prompts, 15, rng),
        }
        return guarded(gate, self.target, gates[gate])


def tiny_world(arithmetic: str) -> World:
    """The draft model is the target with noise on its weights; the early exit has no correction."""
    rng = np.random.default_rng(5)
    target = tiny_transformer(arithmetic, max_context=96)
    tensors = random_tensors(target.spec)
    for name, values in tensors.items():
        if values.ndim == 2:
            noise = 0.15 * values.std() * rng.standard_normal(values.shape)
            tensors[name] = (values + noise).astype(np.float32)
    exits = {"exits.0": np.zeros((target.spec.n_embedding,) * 2, np.float32)}
    stored = StoredWeights(kind="medusa", config={"n_exits": 1}, sha256="", tensors=exits)
    drafters = {
        "small": SmallModelDrafter(Transformer(target.spec, tensors, arithmetic)),
        "early_exit": EarlyExitDrafter(stored, target, 1),
    }
    return World(
        target=target,
        cases=[case for name, drafter in drafters.items() for case in drafter_cases(name, drafter, 3)],
        prompts=[rng.integers(0, target.n_vocab, size=size).tolist() for size in (12, 7, 9)],
    )


@pytest.fixture(scope="module")
def world() -> World:
    return tiny_world("exact")


@pytest.fixture
def few_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain, siblings and a tree as tables, and a whole decoding."""
    names = {("chain of 2", 5), ("2 siblings", 5), ("tree, greedy", 6)}
    few = tuple(case for case in distribution.EXACT_CASES if (case.name, case.n_vocab) in names)
    assert len(few) == len(names)
    monkeypatch.setattr(distribution, "EXACT_CASES", few)
    monkeypatch.setattr(distribution, "DECODED_SHAPES", {"whole decoding, tree": tree_shape((2,))})


@pytest.mark.usefixtures("few_laws")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_fails_the_gates_that_see_it_and_no_other(world, fault, monkeypatch):
    fault.plant(monkeypatch)
    results = [world.run(gate) for gate in GATE_NAMES]
    assert {result.gate for result in results if not result.passed} == fault.gates
    for result in results:
        assert (result.first_failure is None) == result.passed


@pytest.mark.usefixtures("few_laws")
@pytest.mark.parametrize("arithmetic", ["exact", "fast", "ref64", "naive"])
def test_without_a_fault_every_gate_passes(arithmetic):
    world = tiny_world(arithmetic)
    for gate in GATE_NAMES:
        result = world.run(gate)
        assert result.passed, result.first_failure
        assert result.arithmetic == arithmetic


def test_every_gate_sees_a_fault_and_one_fault_is_no_gates_business():
    seen = [gate for fault in FAULTS for gate in fault.gates]
    assert set(seen) == set(GATE_NAMES)
    assert [fault.name for fault in FAULTS if not fault.gates] == ["keep the wrong drafts"]


def test_the_fault_that_no_gate_sees_costs_acceptance(world, monkeypatch):
    before = world.run("greedy").counts
    keep_the_wrong_drafts(monkeypatch)
    after = world.run("greedy").counts
    assert after["divergences"] == 0
    assert after["accepted"] < before["accepted"]


@pytest.mark.parametrize("plant", [quantise_the_logits, stand_one_position_off, accept_one_too_many])
@pytest.mark.parametrize("arithmetic", ["fast", "naive"])
def test_greedy_fails_without_bit_equality_too(arithmetic, plant, monkeypatch):
    world = tiny_world(arithmetic)
    plant(monkeypatch)
    assert not world.run("greedy").passed


@pytest.mark.parametrize("plant", [let_a_cousin_be_seen, stand_one_position_off])
def test_tree_mask_fails_without_bit_equality_too(plant, monkeypatch):
    world = tiny_world("fast")
    plant(monkeypatch)
    assert not world.run("tree-mask").passed


@pytest.mark.parametrize("plant", [leave_a_stale_row, give_back_one_too_few, draft_into_the_targets_cache])
def test_rollback_fails_without_bit_equality_too(plant, monkeypatch):
    world = tiny_world("fast")
    plant(monkeypatch)
    assert not world.run("rollback").passed


@pytest.mark.parametrize("plant", [None, forget_the_residual, draw_at_another_temperature])
def test_a_pool_of_samples_alone_sees_a_wrong_law(world, plant, monkeypatch):
    sampled, n_samples = SamplingConfig(temperature=2.0), 600
    cells = exact_cells(world.target, [3, 1], sampled, n_samples)
    if plant is not None:
        plant(monkeypatch)
    stranger = SmallModelDrafter(tiny_transformer(seed=9, max_context=96))
    case = drafter_cases("stranger", stranger, 1)[0]
    result = compare_pool(draw_pool(world.target, case, [3, 1], sampled, range(n_samples)), cells, 1e-3)
    assert result.n_cells >= 8
    assert (result.p_value < 1e-3, result.divergence > result.bound) == (plant is not None,) * 2


def test_the_first_failure_is_told_in_full(world, monkeypatch):
    accept_one_too_many(monkeypatch)
    found = world.run("greedy").first_failure
    assert found["what"] == "the token differs"
    expected, other = found["tokens"]
    assert expected != other
    assert found["single_step_logits"] == found["verify_logits"]
    assert found["gap"] == found["single_step_logits"][0] - found["single_step_logits"][1] > 0.0
    assert {"drafter", "form", "prompt", "position", "near_tie"} < found.keys()
