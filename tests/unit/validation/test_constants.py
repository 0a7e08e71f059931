"""The vector of constants and what a fit is made of; ``tests/theory`` recovers constants that are known."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.constants import FittedConstants, fit_constants, fitted_constants, telling
from specbook.validation.published_errors import KNOWN, comparable

SGLANG = comparable("sglang")


def test_a_fit_stays_within_what_is_possible():
    for factor in (0.2, 1.0, 5.0):
        found = fit_constants(SGLANG.passes, factor * SGLANG.speedups)
        assert found.shape == (len(CONSTANTS),)
        assert np.all(found >= 0.0)
        assert np.all(found <= [2e-2, 2e-2, 1.0, 0.3])


def test_slower_rows_need_larger_constants():
    slow, fast = (fit_constants(SGLANG.passes, factor * SGLANG.speedups, KNOWN["sglang"]) for factor in (0.8, 1.0))
    assert slow[0] + slow[1] > fast[0] + fast[1]


def test_a_fit_does_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(0).permutation(SGLANG.speedups.size)
    found = fit_constants(SGLANG.passes.part(order), SGLANG.speedups[order], KNOWN["sglang"])
    assert found == pytest.approx(fit_constants(SGLANG.passes, SGLANG.speedups, KNOWN["sglang"]), rel=1e-4)


def test_intervals_are_drawn_by_the_generator_that_is_given():
    def fitted(seed: int) -> FittedConstants:
        groups = SGLANG.groups("series")
        return fitted_constants(SGLANG.passes, SGLANG.speedups, groups, np.random.default_rng(seed), KNOWN["sglang"])

    first, again, other = fitted(1), fitted(1), fitted(2)
    assert np.array_equal(first.low, again.low)
    assert np.array_equal(first.high, again.high)
    assert not np.array_equal(first.low, other.low)
    assert np.array_equal(first.values, other.values)


def test_what_rows_can_tell_of_the_shipped_ones():
    assert telling(SGLANG.passes).tolist() == [True, True, True, True]
    assert telling(comparable("llama.cpp").passes).tolist() == [True, True, True, False]
