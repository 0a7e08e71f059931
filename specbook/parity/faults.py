"""Faults as people make them, to be planted into the engine on purpose: a gate is worth what it catches.

``specbook parity --fault NAME`` runs the gates on an engine with a fault in it, and fails. Nothing here is imported by
the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specbook.engine import decoding, layout, sampling, verification
from specbook.engine.draft import Draft
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.kv_cache import KVCache
from specbook.engine.transformer import Transformer
from specbook.engine.verification import Verdict
from specbook.parity.patches import Patches
from specbook.parity.report import GATE_NAMES, GateName

Plant = Callable[[Patches], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and the gates that see it; the others cannot."""

    name: str
    plant: Plant
    gates: frozenset[GateName]


def accept_one_too_many(patches: Patches) -> None:
    """The first rejected draft stays as well."""
    honest = verification.verify

    def verify(draft: Draft, target: Sequence[Any], chance: Any) -> Verdict:
        verdict = honest(draft, target, chance)
        last = verdict.path[-1] if verdict.path else -1
        rejected = draft.children().get(last, [])
        return replace(verdict, path=(*verdict.path, rejected[0])) if rejected else verdict

    patches.replace(honest, verify)


def forget_the_residual(patches: Patches) -> None:
    """After a rejection the token is drawn from the whole distribution."""
    patches.replace(verification.residual, lambda target, token, drawn_from: target)  # noqa: ARG005


def put_siblings_back(patches: Patches) -> None:
    """Siblings are drawn without replacement, and verified as if each had been drawn from all tokens."""
    honest = sampling.draw_distinct

    def draw_distinct(probabilities: Any, n_tokens: int, chance: Any) -> list[tuple[int, Any]]:
        return [(token, probabilities) for token, _ in honest(probabilities, n_tokens, chance)]

    patches.replace(honest, draw_distinct)


def draw_at_another_temperature(patches: Patches) -> None:
    """Verification samples warmer than it was asked to."""
    honest = sampling.distribution

    def warmer(logits: Any, config: Any) -> Any:
        return honest(logits, replace(config, temperature=1.5 * config.temperature))

    patches.set(decoding, "distribution", warmer)


def claim_another_temperature(patches: Patches) -> None:
    """Drafts are drawn from one distribution and verified as if drawn from a flatter one."""
    honest = sampling.draw_distinct

    def draw_distinct(probabilities: Any, n_tokens: int, chance: Any) -> list[tuple[int, Any]]:
        drawn = honest(probabilities, n_tokens, chance)
        flat = [np.sqrt(drawn_from) for _, drawn_from in drawn]
        return [(token, claimed / claimed.sum()) for (token, _), claimed in zip(drawn, flat, strict=True)]

    patches.replace(honest, draw_distinct)


def leave_a_stale_row(patches: Patches) -> None:
    """The last row of an accepted path stays where it was."""
    honest = KVCache._move

    def move(cache: KVCache, sequence: int, indices: Any) -> None:
        honest(cache, sequence, indices[:-1])

    patches.set(KVCache, "_move", move)


def commit_one_too_many(patches: Patches) -> None:
    """The length counts a rejected row."""
    honest = KVCache.commit

    def commit(cache: KVCache, kept: Any) -> None:
        n_pending = cache.n_pending.copy()
        honest(cache, kept)
        cache.lengths = cache.lengths + (n_pending > [len(rows) for rows in kept])

    patches.set(KVCache, "commit", commit)


def give_back_one_too_few(patches: Patches) -> None:
    """A rollback leaves one token more than asked."""
    honest = KVCache.rollback

    def rollback(cache: KVCache, lengths: Any) -> None:
        honest(cache, np.minimum(np.asarray(lengths) + 1, cache.lengths))

    patches.set(KVCache, "rollback", rollback)


def let_a_cousin_be_seen(patches: Patches) -> None:
    """A node sees every node before it, and stands at the right position."""
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        positions, mask = honest(length, parents)
        return positions, np.tri(mask.shape[1], dtype=np.bool_)[None] | mask

    patches.replace(honest, tree_rows)


def stand_one_position_off(patches: Patches) -> None:
    """A verify pass rotates by the next position."""
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        positions, mask = honest(length, parents)
        return positions + 1, mask

    patches.replace(honest, tree_rows)


def count_siblings_as_positions(patches: Patches) -> None:
    """Nodes of a tree stand one behind the other instead of at their depth."""
    honest = layout.tree_rows

    def tree_rows(length: int, parents: Sequence[int]) -> Any:
        _, mask = honest(length, parents)
        return length + np.arange(mask.shape[1])[None], mask

    patches.replace(honest, tree_rows)


def draft_into_the_targets_cache(patches: Patches) -> None:
    """A drafter that shares the target's cache writes into a token that is committed."""
    honest = EarlyExitDrafter.propose

    def propose(drafter: EarlyExitDrafter, request: Any) -> Draft:
        draft = honest(drafter, request)
        length = int(drafter._cache.lengths[0])
        if draft.n_nodes and length:
            drafter._cache.values[0, 0, :, length - 1] *= 1.0 + 2**-20
        return draft

    patches.set(EarlyExitDrafter, "propose", propose)


def leave_drafts_pending(patches: Patches) -> None:
    """A drafter that shares the target's cache leaves its rows there."""
    patches.set(KVCache, "drop_pending", lambda cache: None)  # noqa: ARG005


def quantise_the_logits(patches: Patches) -> None:
    """A pass of several rows rounds its logits to float16."""
    honest = Transformer.logits

    def logits(model: Transformer, hidden: Any) -> Any:
        found = honest(model, hidden)
        return found if found.shape[-2] == 1 else found.astype(np.float16).astype(np.float32)

    patches.set(Transformer, "logits", logits)


def take_the_bonus_from_the_row_before(patches: Patches) -> None:
    """Each row is read one place too late."""
    honest = verification.verify

    def verify(draft: Draft, target: Sequence[Any], chance: Any) -> Verdict:
        return honest(draft, [target[0], *target[:-1]], chance)

    patches.replace(honest, verify)


def keep_the_wrong_drafts(patches: Patches) -> None:
    """The draft model's own cache keeps rows of drafts that were rejected: worse drafts, the same text."""

    def accept(drafter: SmallModelDrafter, path: Sequence[int]) -> None:
        n_pending = int(drafter._cache.n_pending[0])
        drafter._cache.commit([range(n_pending - min(len(path), n_pending), n_pending)])

    patches.set(SmallModelDrafter, "accept", accept)


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


def fault_names() -> list[str]:
    """Names of all faults.

    Examples
    --------
    >>> fault_names()[0]
    'accept one too many'
    """
    return [fault.name for fault in FAULTS]


@contextmanager
def planted(name: str) -> Iterator[Fault]:
    """Break the engine inside the block, and mend it afterwards. Not for use by several threads.

    Parameters
    ----------
    name : str
        One of :func:`fault_names`.

    Raises
    ------
    ValueError
        If there is no such fault.

    Examples
    --------
    >>> with planted("forget the residual") as fault:
    ...     sorted(fault.gates)
    ['distribution']
    """
    fault = next((fault for fault in FAULTS if fault.name == name), None)
    if fault is None:
        raise ValueError(f"fault must be one of {', '.join(fault_names())}; got {name!r}")
    patches = Patches()
    try:
        fault.plant(patches)
        yield fault
    finally:
        patches.undo()
