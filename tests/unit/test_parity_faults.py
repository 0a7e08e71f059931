"""Every gate can fail: each fault that can be planted into the engine fails the gates that see it, and no other.

The target and the draft model are random and tiny, so that a fault shows in a second; the gates are those of
``specbook parity``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

from specbook.engine.draft import tree_shape
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.sampling import SamplingConfig
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights
from specbook.parity import distribution
from specbook.parity.cases import Case, drafter_cases
from specbook.parity.distribution import check_distribution
from specbook.parity.faults import FAULTS, planted
from specbook.parity.gates import guarded
from specbook.parity.greedy import check_greedy
from specbook.parity.report import GATE_NAMES, GateName, GateResult
from specbook.parity.rollback import check_rollback
from specbook.parity.sampled_law import compare_pool, draw_pool, exact_cells
from specbook.parity.tree_mask import check_tree_mask
from tests.tiny_models import random_tensors, tiny_transformer


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
    names = {("chain of 1", 4), ("2 siblings", 5), ("tree, greedy", 6)}
    few = tuple(case for case in distribution.EXACT_CASES if (case.name, case.n_vocab) in names)
    assert len(few) == len(names)
    monkeypatch.setattr(distribution, "EXACT_CASES", few)
    monkeypatch.setattr(distribution, "DECODED_SHAPES", {"whole decoding, tree": tree_shape((2,))})


@pytest.mark.usefixtures("few_laws")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_fails_the_gates_that_see_it_and_no_other(world, fault):
    with planted(fault.name):
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


def test_the_fault_that_no_gate_sees_costs_acceptance(world):
    before = world.run("greedy").counts
    with planted("keep the wrong drafts"):
        after = world.run("greedy").counts
    assert after["divergences"] == 0
    assert after["accepted"] < before["accepted"]


WITHOUT_BITS: dict[GateName, tuple[str, ...]] = {
    "greedy": ("quantise the logits", "stand one position off", "accept one too many"),
    "rollback": ("leave a stale row", "give back one too few", "draft into the targets cache"),
    "tree-mask": ("let a cousin be seen", "stand one position off"),
}


@pytest.mark.parametrize("arithmetic", ["fast", "naive"])
def test_gates_fail_where_only_tokens_must_be_equal(arithmetic):
    world = tiny_world(arithmetic)
    for gate, faults in WITHOUT_BITS.items():
        for fault in faults:
            with planted(fault):
                assert not world.run(gate).passed, fault


@pytest.mark.parametrize("fault", [None, "forget the residual", "draw at another temperature"])
def test_a_pool_of_samples_alone_sees_a_wrong_law(world, fault):
    sampled, n_samples = SamplingConfig(temperature=2.0), 600
    cells = exact_cells(world.target, [3, 1], sampled, n_samples)
    stranger = SmallModelDrafter(tiny_transformer(seed=9, max_context=96))
    case = drafter_cases("stranger", stranger, 1)[0]
    with nullcontext() if fault is None else planted(fault):
        pool = draw_pool(world.target, case, [3, 1], sampled, range(n_samples))
    result = compare_pool(pool, cells, 1e-3)
    assert result.n_cells >= 8
    assert (result.p_value < 1e-3, result.divergence > result.bound) == (fault is not None,) * 2


def test_the_first_failure_is_told_in_full(world):
    with planted("accept one too many"):
        found = world.run("greedy").first_failure
    assert found["what"] == "the token differs"
    expected, other = found["tokens"]
    assert expected != other
    assert found["single_step_logits"] == found["verify_logits"]
    assert found["gap"] == found["single_step_logits"][0] - found["single_step_logits"][1] > 0.0
    assert {"drafter", "form", "prompt", "position", "near_tie"} < found.keys()


def test_the_engine_is_mended_after_a_fault(world):
    with planted("let a cousin be seen"):
        assert not world.run("tree-mask").passed
    assert world.run("tree-mask").passed
    with pytest.raises(ValueError, match=r"fault must be one of accept one too many, .*; got 'none'"), planted("none"):
        pass
