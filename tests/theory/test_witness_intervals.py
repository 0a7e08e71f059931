"""The interval of a P90 covers it about as often as it says, and the replay's error is nothing but composition."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.witness.clock import running_meanwhile
from specbook.witness.period_table import period_table
from specbook.witness.statistics import p90_of, p90_of_groups, percentile_90

N_EXPERIMENTS = 400


def _coverage(n_requests: int, rng: np.random.Generator) -> float:
    truth = float(np.exp(0.25 * 1.2815515655446004))  # 90th percentile of a log-normal
    hits = 0
    for _ in range(N_EXPERIMENTS):
        found = p90_of(rng.lognormal(0.0, 0.25, size=n_requests), rng)
        hits += found.low_s <= truth <= found.high_s
    return hits / N_EXPERIMENTS


@pytest.mark.parametrize(("n_requests", "least"), [(12, 0.70), (40, 0.88), (200, 0.91)])
def test_the_interval_of_a_p90_covers_it(n_requests: int, least: float):
    """A tail quantile of twelve requests is the second largest of them: beyond the largest no resample can go."""
    assert least <= _coverage(n_requests, np.random.default_rng(90 + n_requests)) <= 0.99


def test_a_p90_of_few_requests_is_compared_with_p90s_of_as_few():
    rng = np.random.default_rng(7)
    population = rng.lognormal(0.0, 0.25, size=20_000)
    groups = p90_of_groups(population, 12, rng)
    expected = np.quantile(rng.lognormal(0.0, 0.25, size=(20_000, 12)), 0.9, axis=1)
    assert groups.value_s == pytest.approx(expected.mean(), rel=0.01)
    low, high = np.quantile(expected, [0.025, 0.975])
    assert (groups.low_s, groups.high_s) == pytest.approx((low, high), rel=0.03)
    assert groups.value_s < percentile_90(population)


def test_a_table_of_means_gives_back_the_mean_of_what_it_was_made_of():
    rng = np.random.default_rng(3)
    positions, seconds = rng.integers(1, 9, size=300), rng.lognormal(-4.0, 0.3, size=300)
    table = period_table(positions, seconds)
    assert table.at(positions).mean() == pytest.approx(seconds.mean(), rel=1e-12)


def test_a_table_never_falls_with_positions_that_it_has_not_seen():
    table = period_table([2, 2, 4, 4], [0.03, 0.03, 0.02, 0.02])
    assert table.slope_s == 0.0
    assert table.at([8]).tolist() == [0.02]


def _load_after(before: float, running: float, n_samples: int) -> float:
    """The system's own recursion, every five seconds in fixed point."""
    load, kept = before, 1884 / 2048
    for _ in range(n_samples):
        load = load * kept + running * (1.0 - kept)
    return load


@pytest.mark.parametrize("running", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("before", [0.0, 1.0, 6.0])
def test_what_ran_meanwhile_is_told_from_what_ran_before(running: float, before: float):
    found = running_meanwhile(before, _load_after(before, running, 8), 40.0)
    assert found == pytest.approx(running, abs=0.02 * max(1.0, before))


@pytest.mark.parametrize("n_samples", [3, 4])
def test_nobody_is_blamed_for_a_sample_that_may_not_have_been_taken(n_samples: int):
    quiet = running_meanwhile(5.0, _load_after(5.0, 1.0, n_samples), 17.0)
    busy = running_meanwhile(1.0, _load_after(1.0, 3.0, n_samples), 17.0)
    assert 0.0 <= quiet <= 1.05
    assert 2.2 <= busy <= 3.05


def test_nothing_is_said_of_less_time_than_a_sample_takes():
    with pytest.raises(ValueError, match="elapsed_s must be at least 5"):
        running_meanwhile(1.0, 1.0, 4.9)
