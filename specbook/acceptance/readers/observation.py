"""The one shape that every reader gives: what a record says about acceptance, as strong as the source has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from specbook.acceptance import estimates

Table = dict[int, list[int]]

# For formats whose answers do not say to which prompt they belong.
UNNAMED = (
    "answers do not name their prompts: each counts as a prompt of its own, so intervals are too narrow where a prompt "
    "was answered more than once"
)
# How the note of a reader begins that has inferred the number of rounds.
INFERRED = "rounds are not in the source"


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """Acceptance of one request, or of one whole run.

    A reader fills what the record states and leaves the rest None; weaker fields follow from stronger ones by
    :meth:`completed`.

    Attributes
    ----------
    labels : dict
        Fields of the profile that the record states, such as ``target`` or ``draft_length``; ``run`` names one of
        several runs in a file, which are never pooled in silence.
    is_request : bool
        True for one request, whose rounds are alike and make one cluster of the bootstrap; False for totals of a run.
    prompt : str or None
        What the prompt is called, so that two answers to it are one cluster.
    by_drafted : dict of int to list of int, or None
        Rounds by accepted tokens for each number of drafted tokens.
    by_accepted : list of int, or None
        Rounds by accepted tokens: 0, 1, 2, …
    accepted_by_position : list of float, or None
        Rounds that accepted draft positions 1, …, i; fractional where the source prints rounded shares.
    drafted_by_position : list of int, or None
        Rounds that drafted position i, where drafts vary in length.
    n_rounds, n_drafted_tokens, n_accepted_tokens : int or None
        Totals.
    marginal_acceptance, conditional_acceptance : list, or None
        Typed vectors without counts behind them.
    mean_acceptance_length : float or None
        Tokens per round, bonus token included, where rounds were not counted.
    mean_acceptance_length_per_request : float or None
        The mean over requests that totals of a run state beside the pooled one.
    draft_acceptance_rate : float or None
        Accepted ÷ drafted as a fraction, where tokens were not counted.
    weight : float or None
        Estimated rounds behind ``mean_acceptance_length``, for averaging it.
    rounds_inferred : bool
        Whether ``n_rounds`` is an inference of the reader; then the source itself holds a rate and no length.
    answer : str or None
        A name that no other answer has, by which a copy is told.
    is_tree : bool
        Whether the drafts were trees, to which the chain formula does not apply.
    n_tree_nodes : int or None
        Tokens of the tree.
    notes : tuple of str
        What was inferred or cannot be known.
    """

    labels: dict[str, Any] = field(default_factory=dict)
    is_request: bool = True
    prompt: str | None = None
    by_drafted: Table | None = None
    by_accepted: list[int] | None = None
    accepted_by_position: list[float] | None = None
    drafted_by_position: list[int] | None = None
    n_rounds: int | None = None
    n_drafted_tokens: int | None = None
    n_accepted_tokens: int | None = None
    marginal_acceptance: list[float] | None = None
    conditional_acceptance: list[float | None] | None = None
    mean_acceptance_length: float | None = None
    mean_acceptance_length_per_request: float | None = None
    draft_acceptance_rate: float | None = None
    weight: float | None = None
    rounds_inferred: bool = False
    answer: str | None = None
    is_tree: bool = False
    n_tree_nodes: int | None = None
    notes: tuple[str, ...] = ()

    def completed(self) -> Observation:
        """The same with every field that follows from a stronger one.

        Examples
        --------
        >>> full = Observation(by_drafted={2: [1, 1, 2]}).completed()
        >>> full.by_accepted, full.n_rounds, full.n_drafted_tokens, full.n_accepted_tokens
        ([1, 1, 2], 4, 8, 5)
        """
        if self.by_drafted is not None:
            rounds, drafted, accepted = estimates.totals(self.by_drafted)
            return replace(
                self,
                by_accepted=estimates.by_accepted(self.by_drafted),
                n_rounds=rounds,
                n_drafted_tokens=drafted,
                n_accepted_tokens=accepted,
            )
        if self.by_accepted is not None:
            accepted = estimates.weighted(self.by_accepted)
            return replace(self, n_rounds=sum(self.by_accepted), n_accepted_tokens=accepted)
        return self

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing: a request that failed, or ran without speculation."""
        if self.n_rounds is not None or self.by_accepted is not None:
            return not (self.n_rounds or sum(self.by_accepted or []))
        scalars = (self.mean_acceptance_length, self.draft_acceptance_rate, self.n_drafted_tokens or None)
        return all(value is None for value in (*scalars, self.marginal_acceptance, self.conditional_acceptance))


class Reader(Protocol):
    """One format.

    ``NAME`` is what ``--format`` takes; ``WARNINGS`` stand in every profile made from the format; ``CUMULATIVE`` says
    that a file holds totals since a server started, so that two files may count the same rounds.
    """

    NAME: str
    WARNINGS: tuple[str, ...]
    CUMULATIVE: bool


class RecordReader(Reader, Protocol):
    """A format of JSON records: how to recognise one, and how to read it."""

    def recognises(self, record: Any) -> bool:
        """Whether a parsed JSON value is a record of this format."""

    def read(self, record: Any, where: str) -> Iterator[Observation]:
        """Yield what the record says; ``where`` names file and line for errors."""


class TextReader(Reader, Protocol):
    """A format of lines: one of them gives it away."""

    def recognises_line(self, line: str) -> bool:
        """Whether a line can only stand in a file of this format."""

    def read_lines(self, lines: Iterable[str], where: str) -> Iterator[Observation]:
        """Yield what the lines of one file say; ``where`` names the file for errors."""
