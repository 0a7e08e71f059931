"""Summaries of latencies: from values, from a sketch, from nothing, and as JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from specbook.serving.batch_means import BatchMeans, interval_of_quantile
from specbook.serving.latency_sketch import LatencySketch
from specbook.serving.percentiles import LatencySummary, summary_of, summary_of_sketch


@pytest.fixture
def latencies() -> np.ndarray:
    return np.random.default_rng(1).lognormal(-3.0, 0.7, 6000)


def test_a_summary_has_the_percentiles_of_numpy_and_the_intervals_of_batches(latencies):
    summary, stream = summary_of(latencies), BatchMeans()
    stream.add(latencies)
    assert (summary.p50, summary.p90, summary.p99) == tuple(np.quantile(latencies, [0.5, 0.9, 0.99]))
    assert (summary.mean, summary.count) == (latencies.mean(), 6000)
    assert summary.mean_interval == stream.interval()
    assert summary.p90_interval == interval_of_quantile(latencies, 0.9)
    for name in ("p50", "p90", "p99", "mean"):
        low, high = getattr(summary, f"{name}_interval")
        assert low < getattr(summary, name) < high


@pytest.mark.parametrize(
    ("count", "known"),
    [
        (1, []),
        (119, []),
        (120, ["p50"]),
        (160, ["p50", "mean"]),
        (600, ["p50", "mean", "p90"]),
        (6000, ["p50", "mean", "p90", "p99"]),
    ],
)
def test_intervals_come_with_the_values_they_need(latencies, count: int, known: list[str]):
    document = summary_of(latencies[:count]).as_dict()
    assert {name for name in ("p50", "p90", "p99", "mean") if document[f"{name}_interval"]} == set(known)


def test_a_sketch_has_percentiles_and_mean_but_no_intervals(latencies):
    sketch = LatencySketch()
    sketch.add(latencies)
    counted, exact = summary_of_sketch(sketch), summary_of(latencies)
    assert (counted.p50, counted.p90, counted.p99) == pytest.approx((exact.p50, exact.p90, exact.p99), rel=5e-3)
    assert counted.mean == pytest.approx(exact.mean, rel=1e-12)
    assert counted.count == 6000
    assert counted.p50_interval is counted.p90_interval is counted.p99_interval is counted.mean_interval is None


def test_no_values_have_no_summary_but_a_count():
    empty = summary_of([])
    assert empty == summary_of_sketch(LatencySketch())
    assert empty.count == 0
    assert {value for name, value in empty.as_dict().items() if name != "count"} == {None}


def test_a_summary_is_json_with_its_fields_in_order(latencies):
    document = json.loads(json.dumps(summary_of(latencies[:600]).as_dict(), allow_nan=False))
    assert list(document) == [
        *("p50", "p90", "p99", "mean"),
        *("p50_interval", "p90_interval", "p99_interval", "mean_interval", "count"),
    ]
    assert isinstance(document["p50_interval"], list)
    assert len(document["p50_interval"]) == 2
    assert document["p99_interval"] is None


@pytest.mark.parametrize("values", [[-0.1], [np.nan], [0.1, np.inf]])
def test_values_that_are_no_latencies_are_refused(values):
    with pytest.raises(ValueError, match="values must"):
        summary_of(values)


def test_a_summary_is_checked_and_stays_as_it_is():
    summary = summary_of([0.1])
    with pytest.raises(ValueError, match="p99 must be finite"):
        replace(summary, p99=np.nan)
    with pytest.raises(ValueError, match="count must be whole"):
        replace(summary, count=-1)
    with pytest.raises(FrozenInstanceError):
        summary.p50 = 0.2  # type: ignore[misc]
    assert isinstance(summary, LatencySummary)
