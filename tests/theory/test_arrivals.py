"""Arrivals against their laws: gaps by Kolmogorov and Smirnov, their spread, and counts of a Poisson process.

A statistic D of n gaps exceeds 2.5 / √n with probability 2 exp(-12.5) = 7e-6 if the gaps are of the law.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specbook.serving.arrivals import Arrivals, GammaArrivals, PoissonArrivals

N = 40_000
RATE = 4.0
D_MOST = 2.5 / math.sqrt(N)


def _gaps_s(law: Arrivals, seed: int) -> np.ndarray:
    return law.gaps_s(N, np.random.default_rng(seed))


def _distance(gaps_s: np.ndarray) -> float:
    return float(stats.kstest(gaps_s, stats.expon(scale=1.0 / RATE).cdf).statistic)


@pytest.mark.parametrize("seed", range(5))
def test_poisson_gaps_are_exponential(seed: int):
    assert _distance(_gaps_s(PoissonArrivals(requests_per_s=RATE), seed)) <= D_MOST


@pytest.mark.parametrize("seed", range(5))
def test_gaps_cut_at_three_means_are_not_and_offer_five_percent_more(seed: int):
    gaps_s = _gaps_s(PoissonArrivals(requests_per_s=RATE), seed)
    cut_s = np.minimum(gaps_s, 3.0 / RATE)
    assert _distance(cut_s) == pytest.approx(math.exp(-3.0), abs=D_MOST)
    assert _distance(cut_s) > 2.0 * D_MOST
    offered = 1.0 / (1.0 - math.exp(-3.0))
    assert offered == pytest.approx(1.0524, abs=5e-5)
    error = 4.0 * cut_s.std() / math.sqrt(N)
    assert abs(cut_s.mean() - 1.0 / RATE / offered) <= error
    assert abs(gaps_s.mean() - 1.0 / RATE) <= 4.0 * gaps_s.std() / math.sqrt(N)
    assert error < 0.04 / RATE  # so fine that the test tells the two apart


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_a_poisson_process_vary_as_much_as_their_mean(seed: int):
    arrival_s = np.cumsum(_gaps_s(PoissonArrivals(requests_per_s=RATE), seed))
    n_windows = int(arrival_s[-1] // 2.0)
    counts = np.bincount((arrival_s // 2.0).astype(int))[:n_windows]
    assert abs(counts.var() / counts.mean() - 1.0) <= 4.0 * math.sqrt(2.0 / n_windows)
    empty = math.exp(-2.0 * RATE)
    assert abs(np.mean(counts == 0) - empty) <= 4.0 * math.sqrt(empty / n_windows)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_their_law_and_spread(burstiness: float):
    gaps_s = _gaps_s(GammaArrivals(requests_per_s=RATE, burstiness=burstiness), 11)
    law = stats.gamma(burstiness, scale=1.0 / (RATE * burstiness))
    assert stats.kstest(gaps_s, law.cdf).statistic <= D_MOST
    # The variance of an estimated variance follows from the fourth moment.
    relative = gaps_s * RATE
    squares = (relative - 1.0) ** 2
    assert abs(squares.mean() - 1.0 / burstiness) <= 4.0 * squares.std() / math.sqrt(N)


def test_burstiness_one_is_a_poisson_process():
    assert _distance(_gaps_s(GammaArrivals(requests_per_s=RATE, burstiness=1.0), 12)) <= D_MOST
