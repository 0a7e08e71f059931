"""Pools of sampled tokens against the exact law of the first two: a chi-square test, and a bound on the divergence.

The divergence of a pool from the law that it was drawn from is not 0: with V cells and N samples its mean is
(V − 1) / 2N, and 2N times it follows a chi-square law of V − 1 degrees (both to first order). So a bound on it means
something only beside N, and to ask for 1e-4 takes hundreds of thousands of samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.sampling import SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from specbook.parity.cases import Case
from specbook.parity.observation import peek, read_by_steps
from specbook.progress import Progress, silent

Pair = tuple[int, int]
Cells = Mapping[tuple[int, ...], float]

# Chi-square is trusted where each cell expects this many samples.
LEAST_EXPECTED = 8.0

_REST: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolTest:
    """One pool against the exact law.

    Attributes
    ----------
    n_samples, n_cells : int
    statistic : float
        Pearson's chi-square.
    p_value : float
    divergence : float
        Plug-in Kullback–Leibler divergence of the pool from the law over the cells, in nats.
    bias : float
        What it is on average for a pool of the law itself.
    bound : float
        What it exceeds with the probability at which the p-value is refused.
    """

    n_samples: int
    n_cells: int
    statistic: float
    p_value: float
    divergence: float
    bias: float
    bound: float


@dataclass(kw_only=True, slots=True)
class Pool:
    """How often each pair of first tokens came up, and what their rounds drafted and accepted."""

    pairs: Counter[Pair] = field(default_factory=Counter)
    drafted: int = 0
    accepted: int = 0

    def add(self, other: Pool) -> None:
        """Take in another pool of the same law."""
        self.pairs += other.pairs
        self.drafted += other.drafted
        self.accepted += other.accepted


def draw_pool(
    target: Transformer,
    case: Case,
    prompt: Sequence[int],
    sampling: SamplingConfig,
    seeds: Sequence[int],
    advance: Progress = silent,
) -> Pool:
    """The first two tokens behind a prompt, one decoding a seed; the context has room for drafts of two tokens."""
    pool = Pool()
    for seed in seeds:
        config = DecodingConfig(max_new_tokens=2, max_context=len(prompt) + 3, sampling=sampling, seed=seed)
        rounds = list(speculative(target, case.drafter, prompt, config, case.shape))
        first, second = (token for round_ in rounds for token in round_.tokens)
        pool.pairs[first, second] += 1
        pool.drafted += sum(round_.record.drafted for round_ in rounds)
        pool.accepted += sum(round_.record.accepted for round_ in rounds)
        advance(1)
    return pool


def exact_cells(target: Transformer, prompt: Sequence[int], sampling: SamplingConfig, n_samples: int) -> Cells:
    """The target's law of the first two tokens from single steps, in cells that expect enough of ``n_samples``.

    A cell is a pair; a first token with any second that has no cell of its own; or, ``()``, all that is left.

    Returns
    -------
    mapping of tuple of int to float
        Cell → probability; they sum to 1.
    """
    least = LEAST_EXPECTED / n_samples
    cells: dict[tuple[int, ...], float] = {}
    steps = read_by_steps(target, prompt)
    first = distribution(steps.logits[-1], sampling)
    for token in np.flatnonzero(first >= least).tolist():
        second = first[token] * distribution(peek(target, steps.cache, token), sampling)
        likely = np.flatnonzero(second >= least).tolist()
        cells |= {(token, other): float(second[other]) for other in likely}
        cells[token,] = max(0.0, float(first[token] - second[likely].sum()))
        if cells[token,] < least:
            del cells[token,]
    return _with_rest(cells, least)


def _with_rest(cells: dict[tuple[int, ...], float], least: float) -> Cells:
    """Add the cell of all that is left, and the smallest other cells to it until it expects enough."""
    rest = max(0.0, 1.0 - sum(cells.values()))
    while rest < least and cells:
        whole = [cell for cell in cells if len(cell) == 1 or cell[:1] not in cells]
        smallest = min(whole, key=lambda cell: cells[cell])
        rest += cells.pop(smallest)
    return cells | {_REST: rest}


def compare_pool(pool: Pool, cells: Cells, least_p: float) -> PoolTest:
    """Compare counts with what the law expects; ``least_p`` is the probability of a false alarm."""
    n_samples = pool.pairs.total()
    observed = np.array(list(_counts(pool.pairs, cells).values()), np.float64)
    law = np.array(list(cells.values()))
    degrees = max(1, len(law) - 1)
    statistic = float(((observed - n_samples * law) ** 2 / (n_samples * law)).sum())
    return PoolTest(
        n_samples=n_samples,
        n_cells=len(law),
        statistic=statistic,
        p_value=float(chi2.sf(statistic, degrees)),
        divergence=divergence(observed / n_samples, law),
        bias=degrees / (2 * n_samples),
        bound=float(chi2.isf(least_p, degrees)) / (2 * n_samples),
    )


def _counts(pairs: Counter[Pair], cells: Cells) -> dict[tuple[int, ...], int]:
    counts = dict.fromkeys(cells, 0)
    for (first, second), count in pairs.items():
        cell = next((known for known in ((first, second), (first,)) if known in counts), _REST)
        counts[cell] = counts.get(cell, 0) + count
    return counts


def divergence(found: NDArray[np.float64], law: NDArray[np.float64]) -> float:
    """Kullback–Leibler divergence of ``found`` from ``law``, in nats; infinite where the law has nothing.

    Examples
    --------
    >>> round(divergence(np.array([0.5, 0.5]), np.array([0.25, 0.75])), 6)
    0.143841
    """
    seen = found > 0.0
    if (law[seen] == 0.0).any():
        return float("inf")
    return float((found[seen] * np.log(found[seen] / law[seen])).sum())


def samples_for_bound(n_cells: int, bound: float, least_p: float) -> int:
    """Samples at which the divergence of a true pool stays below ``bound``.

    Examples
    --------
    >>> samples_for_bound(50, 1e-4, 1e-3)
    426753
    """
    return int(np.ceil(chi2.isf(least_p, max(1, n_cells - 1)) / (2 * bound)))
