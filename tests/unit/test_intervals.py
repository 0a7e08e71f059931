"""Resampling: sums, percentiles, what is refused, and the clusters that hold a file of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from specbook.acceptance.estimates import acceptance_from_counts, product_limit
from specbook.acceptance.importing.clusters import FEWEST_PROMPTS, LARGEST_NUMBER_OF_CLUSTERS, Clusters
from specbook.acceptance.intervals import bootstrap_interval, percentile_interval, resampled_sums
from specbook.acceptance.readers.observation import Observation


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261130)


def test_resampled_sums_draw_as_many_prompts_as_there_are(rng):
    sums = resampled_sums(np.ones((17, 1)), 200, rng)
    assert_allclose(sums, 17.0)


def test_resampled_sums_keep_a_prompt_together(rng):
    rows = np.arange(10)[:, None] * np.array([1.0, 3.0])
    sums = resampled_sums(rows, 300, rng)
    assert_allclose(sums[:, 1], 3.0 * sums[:, 0])


def test_resampled_sums_are_the_same_in_one_block_or_many(monkeypatch):
    rows = np.random.default_rng(1).random((7, 2))
    whole = resampled_sums(rows, 50, np.random.default_rng(2))
    monkeypatch.setattr("specbook.acceptance.intervals._BLOCK_CELLS", 21)
    assert_allclose(resampled_sums(rows, 50, np.random.default_rng(2)), whole)


def test_resampled_sums_have_the_moments_of_drawing_with_replacement(rng):
    """Mean n·x̄ and variance n·s² (with divisor n), each inside four standard errors."""
    values = rng.gamma(2.0, size=(40, 1))
    sums = resampled_sums(values, 40_000, rng)[:, 0]
    mean, variance = values.sum(), 40 * values.var()
    assert abs(sums.mean() - mean) < 4 * np.sqrt(variance / sums.size)
    assert abs(sums.var() / variance - 1.0) < 4 * np.sqrt(2.0 / sums.size) * 1.2


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), np.ones(3), [[np.nan]], [[np.inf]]])
def test_resampled_sums_refuse_what_is_no_table_of_prompts(rows, rng):
    with pytest.raises(ValueError, match="sums_by_prompt"):
        resampled_sums(rows, 10, rng)


@pytest.mark.parametrize("n_replicates", [0, -1, 1.5])
def test_resampled_sums_refuse_no_replicates(n_replicates, rng):
    with pytest.raises(ValueError, match="n_replicates must be whole and at least 1"):
        resampled_sums([[1.0]], n_replicates, rng)


def test_percentile_interval_is_wider_for_fewer_prompts(rng):
    replicates = rng.normal(size=5000)
    widths = [float(np.diff(percentile_interval(replicates, n))[0]) for n in (5, 10, 40, 10**6)]
    assert widths == sorted(widths, reverse=True)


def test_percentile_interval_of_many_columns_has_one_pair_each(rng):
    assert percentile_interval(rng.normal(size=(500, 3, 2)), 50).shape == (3, 2, 2)


@pytest.mark.parametrize(("n_prompts", "level"), [(1, 0.95), (10, 0.0), (10, 1.0), (10, float("nan"))])
def test_percentile_interval_refuses_one_prompt_and_no_level(n_prompts, level):
    with pytest.raises(ValueError, match=r"n_prompts|level"):
        percentile_interval(np.arange(9.0), n_prompts, level)


def test_bootstrap_interval_of_any_statistic(rng):
    """A speedup, from the same resampled sums as the length that it follows from."""
    rows = np.column_stack([np.full(60, 50.0), rng.integers(60, 120, size=60)])
    length = bootstrap_interval(rows, lambda s: 1.0 + s[:, 1] / s[:, 0], rng=np.random.default_rng(3))
    speedup = bootstrap_interval(rows, lambda s: (1.0 + s[:, 1] / s[:, 0]) / 1.4, rng=np.random.default_rng(3))
    assert_allclose(speedup, length / 1.4)


@pytest.mark.parametrize("table", [{3: [5, 3, 2, 7]}, {1: [2, 4], 3: [1, 0, 2, 2]}, {2: [4, 0, 0]}, {2: [0, 0, 9]}])
def test_product_limit_is_that_of_the_counts(table):
    seen = Observation(by_drafted=table).completed()
    clusters = Clusters()
    clusters.add(seen)
    marginal, conditional = acceptance_from_counts(table)
    got_marginal, got_conditional = product_limit(clusters._reached[0], clusters._survived[0])
    assert_allclose(got_marginal[: marginal.size], marginal)
    assert_allclose(got_conditional[: conditional.size], conditional)


def _request(accepted: list[int], prompt: str | None = None, n_drafted: int | None = None) -> Observation:
    return Observation(by_accepted=accepted, prompt=prompt, n_drafted_tokens=n_drafted).completed()


def test_clusters_of_alike_prompts_have_intervals_of_no_width():
    clusters = Clusters()
    for _ in range(20):
        clusters.add(_request([2, 1, 1], n_drafted=8))
    intervals = clusters.intervals(2, shares=False, n_replicates=100, seed=0)
    assert intervals is not None
    assert_allclose(intervals.mean_acceptance_length, 1.75)
    assert intervals.draft_acceptance_rate is not None
    assert_allclose(intervals.draft_acceptance_rate, 3 / 8)
    assert_allclose(intervals.marginal_acceptance, [[0.5, 0.5], [0.25, 0.25]])
    assert_allclose(np.array(intervals.conditional_acceptance, dtype=float), [[0.5, 0.5], [0.5, 0.5]])


def test_clusters_without_drafted_tokens_have_no_interval_of_the_rate():
    clusters = Clusters()
    for index in range(20):
        clusters.add(_request([2, 1], n_drafted=None if index == 3 else 5))
    intervals = clusters.intervals(1, shares=False, n_replicates=100, seed=0)
    assert intervals is not None
    assert intervals.draft_acceptance_rate is None


def test_clusters_position_never_reached_in_a_resample_has_no_conditional_interval():
    clusters = Clusters()
    for index in range(FEWEST_PROMPTS):
        clusters.add(_request([3, 1, 1] if index == 0 else [3]))
    intervals = clusters.intervals(2, shares=False, n_replicates=400, seed=0)
    assert intervals is not None
    assert intervals.conditional_acceptance[0] is not None
    assert intervals.conditional_acceptance[1] is None


def test_clusters_beyond_the_largest_number_join_others():
    clusters = Clusters()
    for index in range(LARGEST_NUMBER_OF_CLUSTERS + 500):
        clusters.add(_request([1, 1], prompt=str(index)))
    assert clusters.n_prompts == LARGEST_NUMBER_OF_CLUSTERS + 500
    assert clusters._sums.shape[0] == LARGEST_NUMBER_OF_CLUSTERS
    assert clusters._sums[:, 0].sum() == 2 * (LARGEST_NUMBER_OF_CLUSTERS + 500)


def test_clusters_are_the_same_whatever_the_order():
    requests = [_request([index % 3 + 1, 2, index % 2], prompt=str(index)) for index in range(40)]
    forward, backward = Clusters(), Clusters()
    for request in requests:
        forward.add(request)
    for request in requests[::-1]:
        backward.add(request)
    assert_allclose(np.sort(forward._sums[:40], axis=0), np.sort(backward._sums[:40], axis=0))


def test_clusters_of_positions_alone_have_marginal_intervals_and_no_conditional_ones():
    clusters = Clusters()
    for _ in range(20):
        seen = Observation(
            accepted_by_position=[6.0, 2.0], drafted_by_position=[8, 4], n_rounds=8, n_accepted_tokens=8
        ).completed()
        clusters.add(seen)
    intervals = clusters.intervals(2, shares=True, n_replicates=50, seed=0)
    assert intervals is not None
    assert_allclose(intervals.marginal_acceptance, [[0.75, 0.75], [0.5, 0.5]])
    assert intervals.conditional_acceptance == [None, None]


@pytest.mark.parametrize("n_prompts", [5, 10, 20, 200])
def test_percentile_interval_is_widened_as_published(n_prompts: int):
    """Hesterberg's expanded percentile: normal tails at the t quantile, blown up by sqrt(n / (n - 1))."""
    quantile = stats.t.ppf(0.975, n_prompts - 1) * np.sqrt(n_prompts / (n_prompts - 1))
    tail = stats.norm.cdf(-quantile)
    ends = percentile_interval(np.linspace(0.0, 1.0, 100_001), n_prompts)
    assert_allclose(ends, [tail, 1.0 - tail], atol=1e-5)


def _intervals(clusters: Clusters, n_positions: int = 0, **options: Any) -> Any:
    intervals = clusters.intervals(n_positions, shares=False, n_replicates=400, seed=0, **options)
    assert intervals is not None
    return intervals


def test_clusters_intervals_are_those_of_their_sums():
    """Requests of unequal number and length by prompt, eight positions: each figure against its own bootstrap."""
    rng = np.random.default_rng(8)
    clusters, rows = Clusters(), []
    for prompt in range(25):
        sums = np.zeros(4)
        for _ in range(1 + prompt % 3):
            counts = rng.multinomial(10 + 5 * prompt, np.full(9, 1 / 9))
            accepted = int(counts @ np.arange(9))
            clusters.add(Observation(by_drafted={8: counts.tolist()}, prompt=str(prompt)).completed())
            sums += [counts.sum(), accepted, 1.0, 1.0 + accepted / counts.sum()]
        rows.append(sums)
    intervals = _intervals(clusters, 8)
    sums = resampled_sums(rows, 400, np.random.default_rng(0))
    assert_allclose(intervals.mean_acceptance_length, percentile_interval(1.0 + sums[:, 1] / sums[:, 0], 25))
    per_request = percentile_interval(sums[:, 3] / sums[:, 2], 25)
    assert_allclose(intervals.mean_acceptance_length_per_request, per_request)
    assert_allclose(intervals.draft_acceptance_rate, percentile_interval(sums[:, 1] / (8 * sums[:, 0]), 25))
    assert len(intervals.marginal_acceptance) == len(intervals.conditional_acceptance) == 8


def test_clusters_answers_to_known_prompts_stay_with_them_beyond_the_largest_number(monkeypatch):
    monkeypatch.setattr("specbook.acceptance.importing.clusters.LARGEST_NUMBER_OF_CLUSTERS", 64)
    clusters = Clusters()
    for _ in range(10):
        for prompt in range(80):
            clusters.add(_request([1, 1], prompt=f"p{prompt}"))
    assert clusters.n_prompts == 80
    rounds = clusters._sums[:64, 0]
    assert rounds.sum() == 2 * 800
    assert set(rounds % 20) == {0.0}  # ten answers of two rounds each, all in one place


def test_clusters_merge_prompts_evenly(monkeypatch):
    monkeypatch.setattr("specbook.acceptance.importing.clusters.LARGEST_NUMBER_OF_CLUSTERS", 64)
    clusters = Clusters()
    for _ in range(64 * 50):
        clusters.add(_request([1]))
    sizes = clusters._sums[:64, 0]
    assert sizes.sum() == 64 * 50
    assert sizes.min() > 20
    assert sizes.max() < 90


def test_clusters_effective_number_of_prompts():
    clusters = Clusters()
    for n_rounds in (100, 1, 1, 1):
        clusters.add(_request([n_rounds]))
    assert clusters.effective_prompts() == pytest.approx(103**2 / 10_003)
