"""Batches: their bookkeeping, how often their intervals hold, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from specbook.serving.batch_means import BatchMeans, fewest_values_of_quantile, interval_of_quantile


def _fed(values, sizes: int = 1, n_batches: int = 20) -> BatchMeans:
    stream = BatchMeans(n_batches)
    for part in np.array_split(np.asarray(values, dtype=float), sizes):
        stream.add(part)
    return stream


@pytest.mark.parametrize(
    ("count", "size", "complete"), [(0, 1, 0), (39, 1, 39), (40, 2, 20), (79, 2, 39), (80, 4, 20), (1000, 32, 31)]
)
def test_batches_double_when_twice_as_many_are_full(count: int, size: int, complete: int):
    values = np.arange(float(count))
    stream = _fed(values)
    assert (stream.count, stream.batch_size, stream.batch_means.size) == (count, size, complete)
    assert_allclose(stream.batch_means, values[: size * complete].reshape(complete, size).mean(axis=1))


@pytest.mark.parametrize("sizes", [2, 7, 100, 777])
def test_the_cuts_of_the_stream_do_not_matter(sizes: int):
    values = np.random.default_rng(1).normal(size=777)
    whole, parts = _fed(values), _fed(values, sizes)
    assert_allclose(parts.batch_means, whole.batch_means, rtol=1e-12)
    assert parts.mean == pytest.approx(values.mean(), rel=1e-12)


def test_there_are_never_fewer_batches_than_asked_for_nor_twice_as_many():
    stream = BatchMeans(5)
    for count in range(1, 400):
        stream.add(count)
        if count >= 5:
            assert 5 <= stream.batch_means.size < 10


def test_there_is_no_interval_of_few_or_short_batches():
    assert _fed(np.arange(159)).interval() is None
    assert _fed(np.arange(160)).interval() is not None


def test_the_interval_is_that_of_student_over_the_batches():
    means = _fed(np.random.default_rng(2).normal(size=160)).batch_means
    low, high = _fed(np.random.default_rng(2).normal(size=160)).interval()
    assert (low + high) / 2 == pytest.approx(means.mean())
    assert high - low == pytest.approx(2 * 2.0930 * means.std(ddof=1) / np.sqrt(20), rel=1e-4)
    wide = _fed(np.random.default_rng(2).normal(size=160)).interval(0.99)
    assert wide[0] < low < high < wide[1]


def _autoregressive(rng: np.random.Generator, n_series: int, length: int, memory: float) -> np.ndarray:
    """Stationary series of mean 0, each value ``memory`` times the one before and some noise."""
    series = rng.normal(size=(length, n_series))
    series[0] /= np.sqrt(1 - memory**2)
    for now in range(1, length):
        series[now] += memory * series[now - 1]
    return series.T


def test_intervals_of_dependent_values_hold_where_those_of_independent_ones_do_not():
    series = _autoregressive(np.random.default_rng(3), 1000, 4000, 0.8)
    inside = [low <= 0.0 <= high for low, high in (_fed(values).interval() for values in series)]
    naive = np.abs(series.mean(axis=1)) <= 1.96 * series.std(axis=1) / np.sqrt(4000)
    assert 0.92 <= np.mean(inside) <= 0.98  # four standard errors of a share of 95 % are 0.028
    assert naive.mean() < 0.6


@pytest.mark.parametrize(("q", "draws", "n_series"), [(0.5, 120, 1500), (0.9, 600, 1500), (0.99, 6000, 600)])
def test_intervals_of_quantiles_hold_with_as_few_values_as_they_accept(q: float, draws: int, n_series: int):
    assert fewest_values_of_quantile(q) == draws
    samples = np.random.default_rng(4).exponential(size=(n_series, draws))
    exact = -np.log1p(-q)
    inside = [low <= exact <= high for low, high in (interval_of_quantile(values, q) for values in samples)]
    assert 0.95 - 0.015 - 4 * np.sqrt(0.0475 / n_series) <= np.mean(inside) <= 0.95 + 4 * np.sqrt(0.0475 / n_series)


def test_intervals_around_the_mean_of_the_batches_would_miss_a_high_quantile():
    of_batches = np.quantile(np.random.default_rng(4).exponential(size=(600, 20, 300)), 0.99, axis=2)
    errors = of_batches.std(axis=1, ddof=1) / np.sqrt(20)
    inside = np.abs(of_batches.mean(axis=1) + np.log(0.01)) <= 2.093 * errors
    assert 0.74 - 0.072 <= inside.mean() <= 0.74 + 0.072  # four standard errors


def test_intervals_of_quantiles_of_dependent_values_hold():
    series = _autoregressive(np.random.default_rng(5), 600, 4000, 0.8)
    exact = 1.2815515655446004 / np.sqrt(1 - 0.8**2)
    inside = [low <= exact <= high for low, high in (interval_of_quantile(values, 0.9) for values in series)]
    assert 0.90 <= np.mean(inside) <= 0.985


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_the_interval_of_a_quantile_is_around_that_of_all_values(q: float):
    values = np.random.default_rng(6).exponential(size=6007)
    low, high = interval_of_quantile(values, q)
    assert (low + high) / 2 == pytest.approx(np.quantile(values, q))


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_quantiles_of_few_values_have_no_interval(q: float):
    fewest = fewest_values_of_quantile(q)
    assert fewest == fewest_values_of_quantile(1 - q)
    assert interval_of_quantile(np.zeros(fewest - 1), q) is None
    assert interval_of_quantile(np.zeros(fewest), q) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: BatchMeans(1), "n_batches must be whole and at least 2"),
        (lambda: BatchMeans().add([1.0, np.nan]), "values must be finite"),
        (lambda: BatchMeans().mean, "without values"),
        (lambda: _fed(np.arange(200)).interval(1.0), "level must lie between 0 and 1"),
        (lambda: interval_of_quantile([1.0], 1.0), "q must lie between 0 and 1"),
        (lambda: interval_of_quantile([np.inf], 0.5), "values must be finite"),
        (lambda: interval_of_quantile([1.0], 0.5, n_batches=1), "n_batches must be whole and at least 2"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(call, problem: str):
    with pytest.raises(ValueError, match=problem):
        call()
