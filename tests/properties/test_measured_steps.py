"""Interpolation in any table: exact at its points, between its neighbours' times, and as monotone as they are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specbook.hardware.step_times import StepTimePoint, StepTimeTable
from specbook.roofline.measured_steps import MeasuredSteps

TIMES = st.floats(1e-6, 1e2)


def _axis(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=1, max_size=4, unique=True).map(sorted)


@st.composite
def tables(draw: st.DrawFn) -> tuple[MeasuredSteps, np.ndarray]:
    """A step time out of a full grid, and its times along width, batch and context."""
    widths, batches, contexts = draw(_axis(1, 64)), draw(_axis(1, 256)), draw(_axis(0, 2**20))
    size = len(widths) * len(batches) * len(contexts)
    times = np.array(draw(st.lists(TIMES, min_size=size, max_size=size)))
    times = times.reshape(len(widths), len(batches), len(contexts))
    if draw(st.booleans()):
        times = np.maximum.accumulate(np.maximum.accumulate(np.maximum.accumulate(times, 0), 1), 2)
    points = [
        StepTimePoint(width=width, batch=batch, context=context, seconds=float(times[i, j, k]))
        for i, width in enumerate(widths)
        for j, batch in enumerate(batches)
        for k, context in enumerate(contexts)
    ]
    shuffled = draw(st.permutations(points))
    return MeasuredSteps.from_table(StepTimeTable(source="drawn", points=shuffled)), times


def _between(axis: np.ndarray) -> st.SearchStrategy[float]:
    return st.floats(float(axis[0]), float(axis[-1]))


@given(tables())
def test_measured_steps_are_exact_at_their_points(drawn: tuple[MeasuredSteps, np.ndarray]):
    step, times = drawn
    grid = np.meshgrid(step.width, step.batch, step.context, indexing="ij")
    np.testing.assert_array_equal(step(*grid), times)


@given(tables(), st.data())
def test_measured_steps_lie_between_the_corners_of_their_cell(
    drawn: tuple[MeasuredSteps, np.ndarray], data: st.DataObject
):
    step, times = drawn
    axes = (step.width, step.batch, step.context)
    place = [data.draw(_between(axis)) for axis in axes]
    corners = times
    for dimension, (axis, value) in enumerate(zip(axes, place, strict=True)):
        low = max(0, int(np.searchsorted(axis, value, side="right")) - 1)
        high = min(len(axis) - 1, int(np.searchsorted(axis, value, side="left")))
        corners = np.take(corners, [low, high], axis=dimension)
    seconds = float(step(*place))
    assert corners.min() * (1 - 1e-12) <= seconds <= corners.max() * (1 + 1e-12)


@given(tables(), st.data())
def test_measured_steps_rise_where_their_points_do(drawn: tuple[MeasuredSteps, np.ndarray], data: st.DataObject):
    step, times = drawn
    axes = (step.width, step.batch, step.context)
    first, second = ([data.draw(_between(axis)) for axis in axes] for _ in range(2))
    rises = all(np.all(np.diff(times, axis=dimension) >= 0.0) for dimension in range(3))
    if rises:
        low, high = np.minimum(first, second), np.maximum(first, second)
        assert step(*low) <= step(*high) * (1 + 1e-12)


@given(tables(), st.data())
def test_measured_steps_in_one_call_equal_many(drawn: tuple[MeasuredSteps, np.ndarray], data: st.DataObject):
    step, _ = drawn
    axes = (step.width, step.batch, step.context)
    places = np.array([[data.draw(_between(axis)) for axis in axes] for _ in range(3)])
    np.testing.assert_array_equal(step(*places.T), [step(*place) for place in places])
