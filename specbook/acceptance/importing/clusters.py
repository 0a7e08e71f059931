"""Sums by prompt while files are streamed, in memory that does not grow with them, and the intervals they give."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from specbook.acceptance.estimates import product_limit, risk_table
from specbook.acceptance.intervals import percentile_interval, resampled_sums
from specbook.acceptance.profile import Intervals
from specbook.acceptance.readers.observation import Observation
from specbook.checks import Floats

# Beyond this many prompts each further one joins a cluster chosen by its hash: ratios of sums keep their spread when
# prompts are drawn together, and memory stays bounded.
LARGEST_NUMBER_OF_CLUSTERS = 8192
# Positions with an interval; a draft of 4,096 tokens would need gigabytes.
_N_POSITIONS = 32
# With fewer prompts the interval covers clearly less than it says.
FEWEST_PROMPTS = 10

# Names of prompts that are known again; without a bound a long file would fill the memory with them.
_MOST_NAMES = 1_000_000

_ROUNDS, _ACCEPTED, _DRAFTED, _REQUESTS, _MEANS = range(5)


class Clusters:
    """Rounds, tokens and acceptance by position of each prompt.

    Examples
    --------
    >>> clusters = Clusters()
    >>> clusters.add(Observation(by_drafted={2: [1, 1, 2]}).completed())
    >>> clusters.n_prompts
    1
    """

    def __init__(self) -> None:
        self._sums = np.zeros((64, 5))
        self._reached, self._survived = np.zeros((64, 4)), np.zeros((64, 4))
        self._index: dict[bytes, int] = {}
        self.n_prompts = 0

    def add(self, seen: Observation) -> None:
        """Add a completed observation of one request that has rounds."""
        rounds, accepted, drafted = seen.n_rounds or 0, seen.n_accepted_tokens or 0, seen.n_drafted_tokens
        row = self._row(seen.prompt)
        self._sums[row] += (rounds, accepted, np.nan if drafted is None else drafted, 1.0, 1.0 + accepted / rounds)
        reached, survived = _positions(seen)
        width = min(len(reached), _N_POSITIONS)
        self._widen(width)
        self._reached[row, :width] += reached[:width]
        self._survived[row, :width] += survived[:width]

    def _row(self, prompt: str | None) -> int:
        name = f"{self.n_prompts}" if prompt is None else prompt
        digest = blake2b(name.encode(errors="backslashreplace"), digest_size=8).digest()
        if prompt is not None and digest in self._index:
            return self._index[digest]
        row = self.n_prompts
        if row >= LARGEST_NUMBER_OF_CLUSTERS:
            row = int.from_bytes(digest, "big") % LARGEST_NUMBER_OF_CLUSTERS
        self.n_prompts += 1
        if prompt is not None and len(self._index) < _MOST_NAMES:
            self._index[digest] = row
        if row >= len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._reached = np.concatenate([self._reached, np.zeros_like(self._reached)])
            self._survived = np.concatenate([self._survived, np.zeros_like(self._survived)])
        return row

    def _widen(self, width: int) -> None:
        more = width - self._reached.shape[1]
        if more > 0:
            self._reached = np.pad(self._reached, ((0, 0), (0, more)))
            self._survived = np.pad(self._survived, ((0, 0), (0, more)))

    def effective_prompts(self) -> float:
        """Prompts of equal length that would weigh as much: (Σ rounds)² ÷ Σ rounds²."""
        rounds = self._sums[:, _ROUNDS]
        return float(rounds.sum() ** 2 / (rounds**2).sum()) if rounds.any() else 0.0

    def intervals(self, n_positions: int, *, shares: bool, n_replicates: int, seed: int) -> Intervals | None:
        """95 % intervals of what a profile says, or None with too few prompts.

        Parameters
        ----------
        n_positions : int
            Positions that get an interval; 0 where requests differ in what they hold.
        shares : bool
            Whether positions were given as shares of the rounds that drafted them, so that they are marginal as they
            stand and nothing is known of conditional acceptance.
        n_replicates, seed : int
            Of the bootstrap.
        """
        n_clusters = min(self.n_prompts, LARGEST_NUMBER_OF_CLUSTERS)
        if n_clusters < FEWEST_PROMPTS:
            return None
        width = min(n_positions, self._reached.shape[1])
        columns = [self._sums[:n_clusters], self._reached[:n_clusters, :width], self._survived[:n_clusters, :width]]
        rows = np.concatenate(columns, axis=1)
        drafted_known = not np.isnan(rows[:, _DRAFTED]).any()
        rows = np.nan_to_num(rows)
        sums = resampled_sums(rows, n_replicates, np.random.default_rng(seed))
        marginal, conditional = product_limit(sums[:, 5 : 5 + width], sums[:, 5 + width :])
        if shares:
            marginal, conditional = conditional, np.full_like(conditional, np.nan)

        def interval(values: Floats) -> Floats:
            return percentile_interval(values, n_clusters)

        return Intervals(
            n_prompts=self.n_prompts,
            n_replicates=n_replicates,
            seed=seed,
            mean_acceptance_length=_pair(interval(1.0 + sums[:, _ACCEPTED] / sums[:, _ROUNDS])),
            mean_acceptance_length_per_request=_pair(interval(sums[:, _MEANS] / sums[:, _REQUESTS])),
            draft_acceptance_rate=(
                _pair(interval(sums[:, _ACCEPTED] / sums[:, _DRAFTED]))
                if drafted_known and bool((sums[:, _DRAFTED] > 0).all())
                else None
            ),
            marginal_acceptance=[_pair(pair) for pair in interval(marginal) if not np.isnan(pair).any()],
            conditional_acceptance=[None if np.isnan(pair).any() else _pair(pair) for pair in interval(conditional)],
        )


def _positions(seen: Observation) -> tuple[Floats, Floats]:
    """Rounds that reached each position, or drafted it where only positions are known, and those that accepted it."""
    if seen.by_drafted is None and seen.by_accepted is None and seen.accepted_by_position is not None:
        accepted = np.asarray(seen.accepted_by_position, dtype=np.float64)
        drafted = seen.drafted_by_position
        return np.full_like(accepted, seen.n_rounds or 0) if drafted is None else np.asarray(drafted, float), accepted
    table = seen.by_drafted if seen.by_drafted is not None else _endless(seen.by_accepted or ())
    return risk_table({k: counts for k, counts in table.items() if sum(counts)})


def _endless(by_accepted: Sequence[int]) -> dict[int, list[int]]:
    """Rounds as if each had drafted one token more than any accepted: a draft that ended early counts as rejected."""
    return {len(by_accepted): [*by_accepted, 0]} if by_accepted else {}


def _pair(ends: Floats) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])
