"""Which draft length the next iteration uses: one for all, or by how many requests run and how long they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from specbook.checks import check_counts
from specbook.serving.round_law import RoundLaw, no_draft


class DraftPolicy(Protocol):
    """Chooses the law of the next round of all running requests."""

    @property
    def laws(self) -> tuple[RoundLaw, ...]:
        """All that may be chosen."""

    def choose(self, n_decodes: int, mean_context_tokens: float) -> RoundLaw:
        """The law for so many requests that decode, with so many tokens of context each in the mean."""

    def holds_below(self, n_decodes: int, mean_context_tokens: float) -> float:
        """The mean context from which on another law may be chosen, if the number of requests stays."""


def policy_in_words(policy: DraftPolicy) -> str:
    """What is drafted, as tables and files name it.

    Examples
    --------
    >>> from specbook.serving.round_law import chain_law
    >>> policy_in_words(FixedDraft()), policy_in_words(FixedDraft(law=chain_law([0.8, 0.7])))
    ('no speculation', 'K = 2')
    """
    if not any(law.n_nodes for law in policy.laws):
        return "no speculation"
    lengths = " or ".join(str(law.draft_length) for law in policy.laws)
    trees = [str(law.n_nodes) for law in policy.laws if law.n_nodes != law.draft_length]
    return f"K = {lengths}" + (f", {' or '.join(trees)} nodes" if trees else "")


@dataclass(frozen=True, kw_only=True)
class FixedDraft:
    """One law, whatever the load.

    Examples
    --------
    >>> FixedDraft().choose(64, 512.0).draft_length
    0
    """

    law: RoundLaw = field(default_factory=no_draft)

    @property
    def laws(self) -> tuple[RoundLaw, ...]:
        """The one."""
        return (self.law,)

    def choose(self, n_decodes: int, mean_context_tokens: float) -> RoundLaw:
        """The law."""
        del n_decodes, mean_context_tokens
        return self.law

    def holds_below(self, n_decodes: int, mean_context_tokens: float) -> float:
        """Everywhere."""
        del n_decodes, mean_context_tokens
        return math.inf


@dataclass(frozen=True, kw_only=True)
class ScheduledDraft:
    """A table from batch, or batch and context, to draft length, as serving engines take it.

    Attributes
    ----------
    schedule : mapping of (int, int) to int
        (smallest number of decoding requests, smallest mean context in tokens) → draft length. The row with the
        largest batch that is not above the present one counts, and in it the largest context that is not above.
    law_by_length : mapping of int to RoundLaw
        A law for each draft length of the table.

    Raises
    ------
    ValueError
        If nothing covers a batch of 1 at context 0, a number is not whole, or a draft length has no law, or one of
        another length.

    References
    ----------
    vllm32374 for the table by batch, vllm48627 for the one by batch and context

    Examples
    --------
    >>> from specbook.serving.round_law import chain_law
    >>> laws = {0: no_draft(), 4: chain_law([0.8] * 4)}
    >>> policy = ScheduledDraft(schedule={(1, 0): 4, (16, 0): 0, (16, 8192): 4}, law_by_length=laws)
    >>> [policy.choose(*at).draft_length for at in ((8, 512.0), (16, 512.0), (32, 9000.0))]
    [4, 0, 4]
    >>> policy.holds_below(32, 512.0)
    8192.0
    """

    schedule: Mapping[tuple[int, int], int]
    law_by_length: Mapping[int, RoundLaw]

    def __post_init__(self) -> None:
        if (1, 0) not in self.schedule:
            raise ValueError("schedule must say what holds from batch 1 and context 0 on, as (1, 0)")
        check_counts("batches of schedule", [batch for batch, _ in self.schedule], minimum=1)
        check_counts("contexts of schedule", [context for _, context in self.schedule])
        missing = sorted(set(self.schedule.values()) - set(self.law_by_length))
        if missing:
            raise ValueError(f"law_by_length must hold every draft length of the schedule; it lacks {missing}")
        wrong = {length: law.draft_length for length, law in self.law_by_length.items() if law.draft_length != length}
        if wrong:
            raise ValueError(f"law_by_length must hold each law under its own draft length; got {wrong}")

    @property
    def laws(self) -> tuple[RoundLaw, ...]:
        """Those of the table."""
        return tuple(self.law_by_length[length] for length in sorted(set(self.schedule.values())))

    def choose(self, n_decodes: int, mean_context_tokens: float) -> RoundLaw:
        """The law of the row and column that count."""
        contexts = self._row(n_decodes)
        return self.law_by_length[contexts[max(c for c in contexts if c <= mean_context_tokens)]]

    def holds_below(self, n_decodes: int, mean_context_tokens: float) -> float:
        """The next context of the row."""
        return float(min((c for c in self._row(n_decodes) if c > mean_context_tokens), default=math.inf))

    def _row(self, n_decodes: int) -> dict[int, int]:
        """Context → draft length of the row that counts, with what smaller batches say of context 0 if it is silent."""
        batch = max(batch for batch, _ in self.schedule if batch <= max(n_decodes, 1))
        row = {context: length for (each, context), length in self.schedule.items() if each == batch}
        return row if 0 in row else {0: self._below(batch), **row}

    def _below(self, batch: int) -> int:
        return self.schedule[max((each, context) for each, context in self.schedule if each < batch and context == 0)]


def batch_schedule(length_by_batch: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """A schedule by batch alone, in the form of :class:`ScheduledDraft`.

    Examples
    --------
    >>> batch_schedule({1: 4, 16: 0})
    {(1, 0): 4, (16, 0): 0}
    """
    return {(batch, 0): length for batch, length in length_by_batch.items()}
