"""Fronts against the definition, point by point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.roofline.pareto import pareto_mask


def _by_definition(tpot: np.ndarray, throughput: np.ndarray, cache: np.ndarray, taking_part: np.ndarray) -> list[bool]:
    points = [(a, -b, c) for a, b, c in zip(tpot, throughput, cache, strict=True)]
    front = []
    for index, point in enumerate(points):
        beaten = False
        for other_index, other in enumerate(points):
            no_worse = all(theirs <= ours for theirs, ours in zip(other, point, strict=True))
            earlier = other == point and other_index < index
            beaten |= bool(taking_part[other_index]) and no_worse and (other != point or earlier)
        front.append(bool(taking_part[index]) and not beaten)
    return front


@given(
    st.integers(1, 4).flatmap(
        lambda groups: st.integers(1, 9).flatmap(
            lambda points: st.lists(
                st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans()),
                min_size=groups * points,
                max_size=groups * points,
            ).map(lambda rows: np.array(rows, dtype=float).reshape(groups, points, 4))
        )
    )
)
def test_front_is_that_of_the_definition(rows: np.ndarray):
    tpot, throughput, cache, part = (rows[..., i] for i in range(4))
    mask = pareto_mask(tpot, throughput, cache, part.astype(bool))
    for group in range(len(rows)):
        expected = _by_definition(tpot[group], throughput[group], cache[group], part[group])
        assert mask[group].tolist() == expected


def test_front_of_no_candidates_is_empty():
    ones = np.ones((2, 3))
    assert not pareto_mask(ones, ones, ones, np.zeros((2, 3), dtype=bool)).any()


def test_front_of_different_shapes_is_refused():
    with pytest.raises(ValueError, match="one shape"):
        pareto_mask(np.ones((1, 2)), np.ones((1, 3)), np.ones((1, 2)), np.ones((1, 2), dtype=bool))
