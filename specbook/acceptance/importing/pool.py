"""Observations of one thing, summed while they stream by; and the profile that the sums give.

The profile is as weak as the weakest observation: counts if every one has them, else rounds by accepted tokens, else
positions, else totals. Means without rounds behind them are not averaged, since nobody knows with which weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specbook.acceptance.importing.clusters import Clusters
from specbook.acceptance.readers.observation import Observation, Table
from specbook.acceptance.readers.values import LONGEST_DRAFT, MOSTLY
from specbook.checks import Floats

# More values of one label than this are shown to nobody; they only have to disagree.
_MOST_VALUES = 64
_MOST_NOTES = 50


@dataclass
class Sum:
    """A sum that is unknown once a part of it is."""

    value: float = 0  # stays an exact integer while every part is one
    known: bool = True

    def add(self, part: float | None) -> None:
        """Add a part; None makes the sum unknown."""
        self.known &= part is not None
        self.value += part or 0

    @property
    def total(self) -> int | None:
        """The sum as a whole number, or None."""
        return int(self.value) if self.known else None


@dataclass
class Pool:
    """Sums over observations; its size does not grow with the files."""

    labels: dict[str, set[Any]] = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    n_observations: int = 0
    n_requests: int = 0
    n_empty: int = 0
    n_counted: int = 0
    n_histograms: int = 0
    n_positioned: int = 0
    n_judged: int = 0
    by_accepted: Counter[int] = field(default_factory=Counter)
    by_drafted: dict[int, Counter[int]] = field(default_factory=dict)
    accepted_by_position: Floats = field(default_factory=lambda: np.zeros(0))
    drafted_by_position: Floats = field(default_factory=lambda: np.zeros(0))
    rounds: Sum = field(default_factory=Sum)
    drafted: Sum = field(default_factory=Sum)
    accepted: Sum = field(default_factory=Sum)
    weighted_tokens: Sum = field(default_factory=Sum)
    weights: Sum = field(default_factory=Sum)
    means: Sum = field(default_factory=Sum)
    rounds_inferred: bool = False
    is_tree: bool = False
    tree_nodes: set[int | None] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)
    clusters: Clusters = field(default_factory=Clusters)
    only: Observation | None = None

    def add(self, raw: Observation, format_name: str) -> Observation | None:
        """Add what one record says, and return it completed; one without rounds is counted, left out and None."""
        seen = raw.completed()
        if seen.is_empty:
            self.n_empty += 1
            return None
        self.n_observations += 1
        self.n_requests += seen.is_request
        self.formats.add(format_name)
        self.only = seen if self.n_observations == 1 else None
        self._add_labels(seen)
        self._add_totals(seen)
        self._add_rounds(seen)
        self._add_positions(seen)
        self.rounds_inferred |= seen.rounds_inferred
        if seen.is_request and seen.n_rounds and seen.n_accepted_tokens is not None:
            self.clusters.add(seen)
        return seen

    def _add_labels(self, seen: Observation) -> None:
        for name in LABELS:
            values = self.labels.setdefault(name, set())
            if len(values) < _MOST_VALUES:
                values.add(seen.labels.get(name))
        self.is_tree |= seen.is_tree
        self.tree_nodes.add(seen.n_tree_nodes)
        for note in seen.notes:
            if len(self.notes) < _MOST_NOTES:
                self.notes.setdefault(note)

    def _add_totals(self, seen: Observation) -> None:
        self.rounds.add(seen.n_rounds)
        self.drafted.add(seen.n_drafted_tokens)
        self.accepted.add(seen.n_accepted_tokens)
        length = seen.mean_acceptance_length
        if seen.n_rounds and seen.n_accepted_tokens is not None:
            length = 1.0 + seen.n_accepted_tokens / seen.n_rounds
        weight = seen.n_rounds if seen.n_rounds is not None else seen.weight
        self.weights.add(weight)
        self.weighted_tokens.add(None if weight is None or length is None else weight * length)
        self.means.add(length if seen.is_request else None)

    def _add_rounds(self, seen: Observation) -> None:
        if seen.by_accepted is not None:
            self.n_histograms += 1
            self.by_accepted.update(dict(enumerate(seen.by_accepted)))
        if seen.by_drafted is not None:
            self.n_counted += 1
            for drafted, row in seen.by_drafted.items():
                self.by_drafted.setdefault(drafted, Counter()).update(dict(enumerate(row)))

    def _add_positions(self, seen: Observation) -> None:
        accepted = _by_position(seen)
        if accepted is None or seen.n_rounds is None:
            return
        self.n_positioned += 1
        drafted = seen.drafted_by_position
        self.n_judged += drafted is not None
        judged = np.full(len(accepted), float(seen.n_rounds)) if drafted is None else np.asarray(drafted, dtype=float)
        self.accepted_by_position = _added(self.accepted_by_position, accepted)
        self.drafted_by_position = _added(self.drafted_by_position, judged)

    @property
    def all_counted(self) -> bool:
        """Whether every observation says what its rounds drafted."""
        return self.n_counted == self.n_observations > 0

    @property
    def all_histograms(self) -> bool:
        """Whether every observation has its rounds by accepted tokens."""
        return self.n_histograms == self.n_observations > 0

    @property
    def all_positioned(self) -> bool:
        """Whether every observation has rounds and acceptance by position."""
        return self.n_positioned == self.n_observations > 0

    def table(self) -> Table:
        """Rounds by drafted and accepted tokens."""
        return {k: dense(self.by_drafted[k], k + 1) for k in sorted(self.by_drafted)}

    def mostly_full_length(self) -> bool:
        """Whether all rounds but a few, cut at the end of a sequence, are known to have drafted every position."""
        n_positions, rounds = self.drafted_by_position.size, self.rounds.value
        if self.drafted.total is not None:
            return bool(MOSTLY * n_positions * rounds <= self.drafted.total <= n_positions * rounds)
        return bool(self.n_judged == self.n_observations and self.drafted_by_position[-1:] >= MOSTLY * rounds)

    def positions(self) -> list[float] | None:
        """Marginal acceptance from rounds by position; None if it rises, which no marginal does."""
        with np.errstate(invalid="ignore", divide="ignore"):
            marginal = self.accepted_by_position / self.drafted_by_position
        judged = self.drafted_by_position > 0
        marginal = marginal[: int(np.argmin(judged)) if not judged.all() else None]
        if np.any(np.diff(marginal) > _PRINTED_STEP):
            return None
        return [float(value) for value in np.minimum.accumulate(np.clip(marginal, 0.0, 1.0))]


LABELS = ("target", "drafter", "method", "domain", "temperature", "draft_length", "run")

# Shares printed with three digits may seem to rise by this much where they are equal.
_PRINTED_STEP = 0.0011


def dense(counts: Counter[int], width: int = 0) -> list[int]:
    """A counter as a list of at least ``width`` entries.

    Examples
    --------
    >>> dense(Counter({0: 2, 2: 1}))
    [2, 0, 1]
    """
    return [counts[j] for j in range(max(width, max(counts, default=0) + 1))]


def _by_position(seen: Observation) -> Floats | None:
    """Rounds that accepted positions 1 to i; from a histogram only where the draft length says how far to look."""
    if seen.accepted_by_position is not None:
        return np.asarray(seen.accepted_by_position, dtype=np.float64)
    length = seen.labels.get("draft_length")
    if seen.by_accepted is None or length is None:
        return None
    at_least = np.cumsum(np.asarray(seen.by_accepted, dtype=np.float64)[::-1])[::-1][1:]
    return _added(at_least, np.zeros(min(length, LONGEST_DRAFT)))[:length]


def _added(left: Floats, right: Floats) -> Floats:
    width = max(left.size, right.size)
    return np.asarray(np.pad(left, (0, width - left.size)) + np.pad(right, (0, width - right.size)))


def found(values: set[Any]) -> Iterator[str]:
    """Values of a label as people read them, in order; what is not known as a dash."""
    yield from sorted("–" if value is None else str(value) for value in values)
