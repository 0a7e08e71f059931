"""Seconds that drafting adds to the rounds of a serving engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats, check_non_negative
from specbook.roofline.drafting import Drafter
from specbook.roofline.hosted import HostedDrafter, sequential_part
from specbook.roofline.step_time import StepTime
from specbook.serving.context_tables import ContextTables, by_distinct, check_context_range, context_nodes
from specbook.serving.stepped_time import SteppedTime


class DraftTime(Protocol):
    """Seconds of drafting, for many rounds at once."""

    def seconds(self, draft_length: int, n_nodes: int, n_decodes: int, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of drafting in each of n rounds; 0 for a draft length of 0.

        Parameters
        ----------
        draft_length : int
            Tokens from the root to the deepest draft: passes of a drafter that takes one a token.
        n_nodes : int
            Tokens drafted for each sequence; ``draft_length`` for a chain.
        n_decodes : int
            Sequences in each round, at least 1.
        context_tokens : (n,) ndarray of int64
            Sum over the sequences of the tokens already processed.

        Returns
        -------
        (n,) ndarray of float64
            Seconds.
        """

    def cut_seconds(self, reached: NDArray[np.int64], context_tokens: NDArray[np.int64], n_decodes: int) -> Floats:
        """Seconds of drafting in each of n rounds in which sequences stop one by one, as a cut decides for each.

        A drafter that takes one pass a token goes on with those that are left. One that drafts all at once is charged
        once a round, for the longest draft in it.

        Parameters
        ----------
        reached : (K, n) ndarray of int64
            Sequences that draft a first token, a second one, and so on, in each round; a row is nowhere above the one
            before. A pass without sequences costs nothing.
        context_tokens : (n,) ndarray of int64
            Sum over all sequences of the tokens already processed, of those that stop too.
        n_decodes : int
            Sequences in each round, at least 1.

        Returns
        -------
        (n,) ndarray of float64
            Seconds.
        """

    def prefill_seconds(self, prefills: Sequence[tuple[int, int]]) -> float:
        """Seconds of the drafter's own pass over chunks of prompts, as in ``IterationTime``; 0 if it makes none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoDraft:
    """Drafting that costs nothing; a :class:`DraftTime`.

    Examples
    --------
    >>> NoDraft().seconds(4, 4, 8, np.array([100, 200]))
    array([0., 0.])
    """

    def seconds(self, draft_length: int, n_nodes: int, n_decodes: int, context_tokens: NDArray[np.int64]) -> Floats:
        """Zeros."""
        del draft_length, n_nodes, n_decodes
        return np.zeros(np.shape(context_tokens))

    def cut_seconds(self, reached: NDArray[np.int64], context_tokens: NDArray[np.int64], n_decodes: int) -> Floats:
        """Zeros."""
        del reached, n_decodes
        return np.zeros(np.shape(context_tokens))

    def prefill_seconds(self, prefills: Sequence[tuple[int, int]]) -> float:
        """Zero."""
        del prefills
        return 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstantDraft:
    """The same seconds for each draft pass, whatever is in it; a :class:`DraftTime`.

    Attributes
    ----------
    seconds_per_pass : float

    Raises
    ------
    ValueError
        If it is negative.

    Examples
    --------
    >>> ConstantDraft(seconds_per_pass=0.002).seconds(4, 4, 8, np.array([100, 200]))
    array([0.008, 0.008])
    """

    seconds_per_pass: float

    def __post_init__(self) -> None:
        check_non_negative("seconds_per_pass", self.seconds_per_pass)

    def seconds(self, draft_length: int, n_nodes: int, n_decodes: int, context_tokens: NDArray[np.int64]) -> Floats:
        """One pass for each token of depth."""
        del n_nodes, n_decodes
        return np.full(np.shape(context_tokens), draft_length * self.seconds_per_pass)

    def cut_seconds(self, reached: NDArray[np.int64], context_tokens: NDArray[np.int64], n_decodes: int) -> Floats:
        """One pass for each token that at least one sequence drafts."""
        del context_tokens, n_decodes
        return np.multiply(_longest(reached), self.seconds_per_pass, dtype=np.float64)

    def prefill_seconds(self, prefills: Sequence[tuple[int, int]]) -> float:
        """Zero: prompts cost this drafter nothing."""
        del prefills
        return 0.0


@dataclass(frozen=True, kw_only=True)
class SteppedDraft:
    """Drafting by a drafter of the roofline, at the mean context; a :class:`DraftTime`.

    Attributes
    ----------
    drafter : Drafter
    prefill_step : StepTime or None
        Step time of a draft model, which processes each prompt like the target; None for drafters without a prompt of
        their own.
    max_context_tokens : int
        The longest mean context, and the longest of a chunk.
    min_context_tokens : int
        The shortest mean context, for measured times that begin above 0.

    Raises
    ------
    ValueError
        If ``max_context_tokens`` is below ``min_context_tokens``, or one of them is no whole number.

    Notes
    -----
    Times are tabulated over the context, as those of ``SteppedTime`` are. Where sequences stop one by one, a
    ``SequentialDrafter`` takes a pass over those that are left, at the mean context of all, for each token; any other
    drafter costs what the longest draft of the round does. An engine's share of a round is paid once in either case.

    Examples
    --------
    >>> from specbook.roofline.drafting import HostLookup
    >>> draft = SteppedDraft(drafter=HostLookup(), prefill_step=None, max_context_tokens=8192)
    >>> print(1e6 * draft.seconds(8, 8, 4, np.array([4 * 4096])).round(9), draft.prefill_seconds([(512, 0)]))
    [265.536] 0.0
    """

    drafter: Drafter
    prefill_step: StepTime | None
    max_context_tokens: int
    min_context_tokens: int = 0

    def __post_init__(self) -> None:
        check_context_range(self.min_context_tokens, self.max_context_tokens)

    def seconds(self, draft_length: int, n_nodes: int, n_decodes: int, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of drafting in each of n rounds, as in :class:`DraftTime`.

        Raises
        ------
        BadInput
            If a mean context was not tabulated, or the drafter's step time refuses the batch.
        """
        if not draft_length:
            return np.zeros(np.shape(context_tokens))
        return self._drafted(draft_length, n_nodes, n_decodes, context_tokens / n_decodes)

    def cut_seconds(self, reached: NDArray[np.int64], context_tokens: NDArray[np.int64], n_decodes: int) -> Floats:
        """Seconds of drafting in each of n rounds with cuts, as in :class:`DraftTime`.

        Raises
        ------
        BadInput
            If a mean context was not tabulated, or the drafter's step time refuses a batch.
        """
        mean_tokens = context_tokens / n_decodes
        if sequential_part(self.drafter) is not None:
            passes = by_distinct(reached, np.broadcast_to(mean_tokens, reached.shape), self._one_pass)
            # One after the other, so that a round alone adds up to the same bits as among many.
            return sum(passes, start=np.where(_longest(reached) > 0, self._round_s, 0.0))
        return by_distinct(
            _longest(reached), mean_tokens, lambda length, mean: self._drafted(length, length, n_decodes, mean)
        )

    def prefill_seconds(self, prefills: Sequence[tuple[int, int]]) -> float:
        """Seconds of one pass of the draft model over the chunks, its attention added for each.

        Raises
        ------
        BadInput
            If a context was not tabulated, or the step time refuses the chunk.
        """
        if self._prefill is None or not prefills:
            return 0.0
        return self._prefill.mixed_seconds(0, 0, 0, prefills)

    @cached_property
    def _prefill(self) -> SteppedTime | None:
        if self.prefill_step is None:
            return None
        return SteppedTime(step=self.prefill_step, max_context_tokens=self.max_context_tokens)

    @cached_property
    def _tables(self) -> ContextTables:
        sequential = sequential_part(self.drafter)
        step = None if sequential is None else sequential.step
        nodes = context_nodes(self.min_context_tokens, self.max_context_tokens, step)
        return ContextTables(seconds=self.drafter.seconds, nodes=nodes)

    @cached_property
    def _pass_tables(self) -> ContextTables:
        """Of passes alone, without what an engine adds to a round."""
        if not isinstance(self.drafter, HostedDrafter):
            return self._tables
        return ContextTables(seconds=replace(self.drafter, round_s=0.0).seconds, nodes=self._tables.nodes)

    @property
    def _round_s(self) -> float:
        return self.drafter.round_s if isinstance(self.drafter, HostedDrafter) else 0.0

    def _drafted(self, draft_length: float, n_nodes: float, n_decodes: float, mean_tokens: Floats) -> Floats:
        seconds: Floats = self._tables.at((draft_length, n_nodes, n_decodes), mean_tokens)
        return seconds

    def _one_pass(self, batch: float, mean_tokens: Floats) -> Floats:
        seconds: Floats = self._pass_tables.at((1, 1, batch), mean_tokens) if batch else np.zeros(mean_tokens.shape)
        return seconds


def _longest(reached: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of the longest draft in each round."""
    return np.asarray(np.count_nonzero(reached, axis=0))
