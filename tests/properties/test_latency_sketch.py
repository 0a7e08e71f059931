"""The sketch of latencies against exact weighted quantiles: its promise, merging in any way, order of values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specbook.serving.latency_sketch import SHORTEST_S, LatencySketch

LATENCIES = st.one_of(st.just(0.0), st.floats(0.0, 1e-5), st.floats(1e-6, 1e6), st.floats(0.001, 0.1))
COUNTED = st.lists(st.tuples(LATENCIES, st.integers(0, 50)), max_size=40)
ACCURACIES = st.sampled_from([1e-3, 0.01, 0.1])
SHARES = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))


def _sketch(counted: list[tuple[float, int]], accuracy: float) -> LatencySketch:
    sketch = LatencySketch(relative_accuracy=accuracy)
    sketch.add([value for value, _ in counted], [count for _, count in counted])
    return sketch


def _exact(counted: list[tuple[float, int]], q: float) -> float:
    values = np.sort(np.repeat([value for value, _ in counted], [count for _, count in counted]))
    return float(values[np.argmax(np.arange(1, values.size + 1) / values.size >= q)])


@given(COUNTED, SHARES, ACCURACIES)
def test_quantiles_are_within_the_accuracy_of_exact_ones(counted, q, accuracy):
    sketch, count = _sketch(counted, accuracy), sum(count for _, count in counted)
    assert sketch.count == count
    if not count:
        return
    exact, answer = _exact(counted, q), sketch.quantile(q)
    if exact < SHORTEST_S:
        assert answer == 0.0
    else:
        assert abs(answer / exact - 1.0) <= accuracy


@given(COUNTED)
def test_means_are_those_of_the_values(counted):
    sketch, count = _sketch(counted, 0.1), sum(count for _, count in counted)
    if count:
        total = sum(value * times for value, times in counted)
        assert abs(sketch.mean * count - total) <= 1e-12 * total


@given(COUNTED, COUNTED, SHARES)
def test_merged_sketches_answer_as_one_that_saw_all(first, second, q):
    merged, whole = _sketch(first, 0.01), _sketch(first + second, 0.01)
    merged.merge(_sketch(second, 0.01))
    assert merged.count == whole.count
    if whole.count:
        assert merged.quantile(q) == whole.quantile(q)


@given(COUNTED, st.lists(SHARES, min_size=2, max_size=6))
def test_quantiles_never_fall_and_do_not_know_the_order(counted, shares):
    sketch, turned = _sketch(counted, 0.01), _sketch(counted[::-1], 0.01)
    if sketch.count:
        answers = [sketch.quantile(q) for q in sorted(shares)]
        assert answers == sorted(answers) == [turned.quantile(q) for q in sorted(shares)]
