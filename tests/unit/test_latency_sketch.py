"""The sketch of latencies: what waits, what merges, what is refused, and how little it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from specbook.serving.latency_sketch import LONGEST_S, SHORTEST_S, LatencySketch, nearest_rank


def _answers(sketch: LatencySketch) -> list[float]:
    return [sketch.quantile(q) for q in np.linspace(0.0, 1.0, 41)]


def test_every_bucket_of_the_range_keeps_its_promise():
    for value in np.geomspace(SHORTEST_S, LONGEST_S, 997):
        sketch = LatencySketch(relative_accuracy=0.01)
        sketch.add(value)
        assert abs(sketch.quantile(0.5) / value - 1.0) <= 0.01


def test_large_arrays_and_many_small_ones_count_alike(monkeypatch):
    monkeypatch.setattr("specbook.serving.latency_sketch._WAITING_ROOM", 64)
    values = np.random.default_rng(1).lognormal(-4.0, 1.0, 1000)
    whole, parts, singles = LatencySketch(), LatencySketch(), LatencySketch()
    whole.add(values)
    for part in np.array_split(values, 23):
        parts.add(part)
    for value in values:
        singles.add(value)
    assert _answers(whole) == _answers(parts) == _answers(singles)
    assert whole.count == parts.count == singles.count == 1000
    assert whole.mean == pytest.approx(values.mean(), rel=1e-13)


def test_counts_are_repetitions():
    weighted, repeated = LatencySketch(), LatencySketch()
    weighted.add([0.1, 0.2, 0.3], [2, 0, 5])
    weighted.add([0.4, 0.5], 3)
    repeated.add([0.1] * 2 + [0.3] * 5 + [0.4] * 3 + [0.5] * 3)
    assert _answers(weighted) == _answers(repeated)
    assert weighted.count == 13
    assert weighted.mean == pytest.approx(4.4 / 13)


def test_what_is_added_may_be_changed_afterwards():
    values, sketch = np.array([0.5]), LatencySketch()
    sketch.add(values)
    values[0] = 9.0
    assert sketch.quantile(1.0) == pytest.approx(0.5, rel=5e-4)


def test_zero_and_less_than_a_microsecond_count_as_zero_but_in_the_mean():
    sketch = LatencySketch()
    sketch.add([0.0, 1e-7, 1.0, 1.0])
    assert sketch.quantile(0.5) == 0.0
    assert sketch.quantile(0.51) == pytest.approx(1.0, rel=5e-4)
    assert sketch.mean == pytest.approx((2.0 + 1e-7) / 4, rel=1e-15)


def test_the_ends_of_the_range_are_inside():
    sketch = LatencySketch()
    sketch.add([SHORTEST_S, LONGEST_S])
    assert sketch.quantile(0.0) == pytest.approx(SHORTEST_S, rel=5e-4)
    assert sketch.quantile(1.0) == pytest.approx(LONGEST_S, rel=5e-4)


def test_merging_leaves_the_other_as_it_was():
    one, other = LatencySketch(), LatencySketch()
    one.add([0.0, 0.1])
    other.add([0.2, 0.3])
    one.merge(other)
    assert (one.count, other.count) == (4, 2)
    assert one.mean == pytest.approx(0.15)
    assert other.quantile(0.0) == pytest.approx(0.2, rel=5e-4)
    one.merge(one)
    assert (one.count, one.mean) == (8, pytest.approx(0.15))


def _arrays(sketch: LatencySketch) -> tuple[np.ndarray, ...]:
    return sketch._buckets, sketch._waiting_s, sketch._waiting_counts


def test_memory_does_not_grow_and_is_what_the_docstring_says():
    sketch = LatencySketch()
    arrays = _arrays(sketch)
    assert sketch._buckets.size == 27_632
    assert sum(array.nbytes for array in arrays) == pytest.approx(1.3e6, rel=0.03)
    for _ in range(10):
        sketch.add(np.geomspace(1e-6, 1e6, 30_000))
    assert sketch.count == 300_000
    assert all(now is before for now, before in zip(_arrays(sketch), arrays, strict=True))


def test_nothing_is_added_by_empty_arrays_or_counts_of_zero():
    sketch = LatencySketch()
    sketch.add([])
    sketch.add([0.1, 0.2], 0)
    assert sketch.count == 0


def test_the_mean_does_not_depend_on_the_number_of_threads():
    seconds, means = np.random.default_rng(0).exponential(0.01, 60_000), set()
    for threads in (1, 2, 3):
        sketch = LatencySketch()
        with threadpool_limits(threads):
            sketch.add(seconds, np.arange(60_000))
            means.add(sketch.mean)
    assert len(means) == 1


def test_an_empty_sketch_has_no_answers():
    sketch = LatencySketch()
    with pytest.raises(ValueError, match="without values"):
        sketch.quantile(0.5)
    with pytest.raises(ValueError, match="without values"):
        _ = sketch.mean


@pytest.mark.parametrize("seconds", [-1e-9, np.nan, np.inf, [0.1, -1.0], [0.1, np.nan]])
def test_latencies_out_of_range_are_refused_and_nothing_is_added(seconds):
    sketch = LatencySketch()
    with pytest.raises(ValueError, match=r"^seconds must"):
        sketch.add(seconds)
    assert sketch.count == 0


@pytest.mark.parametrize("counts", [-1, 0.5, [1, -1], [1, np.nan], [1, 2, 3]])
def test_counts_that_count_nothing_are_refused(counts):
    sketch = LatencySketch()
    with pytest.raises(ValueError, match=r"counts|shape"):
        sketch.add([0.1, 0.2], counts)
    assert sketch.count == 0


def test_tables_and_unknown_accuracies_are_refused():
    with pytest.raises(ValueError, match="one axis"):
        LatencySketch().add([[0.1]])
    with pytest.raises(ValueError, match="relative_accuracy must lie in"):
        LatencySketch(relative_accuracy=0.5)
    with pytest.raises(ValueError, match="do not merge"):
        LatencySketch().merge(LatencySketch(relative_accuracy=0.01))
    with pytest.raises(ValueError, match="q must lie in"):
        nearest_rank(1.5, 10)


def test_nearest_rank_is_the_first_that_reaches_the_share():
    for count in (1, 2, 3, 7, 10, 99, 100, 1000):
        for q in np.linspace(0.0, 1.0, 101):
            ranks = np.arange(1, count + 1)
            assert nearest_rank(q, count) == ranks[np.argmax(ranks / count >= q)]
