"""Laws of lengths: their range, their moments within four standard errors, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from specbook.serving.lengths import (
    MAX_TOKENS,
    EmpiricalLength,
    FixedLength,
    GeometricLength,
    Lengths,
    LogNormalLength,
    UniformLength,
)

N = 100_000
LAWS: dict[str, tuple[Lengths, float]] = {
    "fixed": (FixedLength(value=512), 512.0),
    "uniform": (UniformLength(low=10, high=20), 15.0),
    "geometric": (GeometricLength(mean=80.0), 80.0),
    "empirical": (EmpiricalLength(values=np.array([1, 1, 1, 97])), 25.0),
    # So long that rounding and the maximum do not move the mean.
    "log-normal": (LogNormalLength(median=5000.0, sigma=0.5, maximum=MAX_TOKENS), 5000.0 * math.exp(0.125)),
}


@pytest.mark.parametrize("name", LAWS)
def test_mean_is_the_law_s(name: str):
    law, mean = LAWS[name]
    tokens = law.tokens(N, np.random.default_rng(5))
    assert law.name == name
    assert tokens.dtype == np.int64
    assert tokens.min() >= 1
    assert abs(tokens.mean() - mean) <= 4.0 * tokens.std() / math.sqrt(N)


@pytest.mark.parametrize("name", LAWS)
def test_no_request_and_one_are_drawn_too(name: str):
    law, _ = LAWS[name]
    assert law.tokens(0, np.random.default_rng(5)).shape == (0,)
    assert law.tokens(1, np.random.default_rng(5)).shape == (1,)


def test_uniform_takes_both_ends():
    tokens = UniformLength(low=3, high=5).tokens(1000, np.random.default_rng(5))
    assert np.unique(tokens).tolist() == [3, 4, 5]
    assert UniformLength(low=3, high=3).tokens(2, np.random.default_rng(5)).tolist() == [3, 3]


def test_geometric_shares_are_the_law_s():
    tokens = GeometricLength(mean=4.0).tokens(N, np.random.default_rng(5))
    for length in (1, 2, 5):
        share = 0.25 * 0.75 ** (length - 1)
        error = math.sqrt(share * (1.0 - share) / N)
        assert abs(np.mean(tokens == length) - share) <= 4.0 * error


def test_log_normal_median_and_cut():
    law = LogNormalLength(median=200.0, sigma=1.0, maximum=400)
    tokens = law.tokens(N, np.random.default_rng(5))
    assert tokens.max() == 400
    beyond = 0.5 * math.erfc(math.log(399.5 / 200.0) / math.sqrt(2.0))
    assert abs(np.mean(tokens == 400) - beyond) <= 4.0 * math.sqrt(beyond * (1.0 - beyond) / N)
    below = 0.5 * math.erfc(-math.log(200.5 / 200.0) / math.sqrt(2.0))
    assert abs(np.mean(tokens <= 200) - below) <= 4.0 * 0.5 / math.sqrt(N)


def test_log_normal_of_any_width_stays_in_range():
    tokens = LogNormalLength(median=200.0, sigma=1e6, maximum=4096).tokens(1000, np.random.default_rng(5))
    assert np.unique(tokens).tolist() == [1, 4096]
    assert LogNormalLength(median=200.0, sigma=0.0, maximum=4096).tokens(1, np.random.default_rng(5)).tolist() == [200]


def test_empirical_keeps_its_values():
    values = np.array([5, 9])
    law = EmpiricalLength(values=values)
    values[0] = 1
    assert set(law.tokens(100, np.random.default_rng(5)).tolist()) == {5, 9}


REFUSED: dict[str, tuple[type, dict[str, Any]]] = {
    "fixed at 0": (FixedLength, {"value": 0}),
    "fixed at half a token": (FixedLength, {"value": 1.5}),
    "fixed beyond any context": (FixedLength, {"value": MAX_TOKENS + 1}),
    "uniform from 0": (UniformLength, {"low": 0, "high": 5}),
    "uniform exchanged": (UniformLength, {"low": 6, "high": 5}),
    "median of 0": (LogNormalLength, {"median": 0.0, "sigma": 1.0, "maximum": 10}),
    "median beyond the maximum": (LogNormalLength, {"median": 11.0, "sigma": 1.0, "maximum": 10}),
    "negative sigma": (LogNormalLength, {"median": 5.0, "sigma": -1.0, "maximum": 10}),
    "no maximum": (LogNormalLength, {"median": 5.0, "sigma": 1.0, "maximum": 0}),
    "mean below 1": (GeometricLength, {"mean": 0.5}),
    "mean of NaN": (GeometricLength, {"mean": math.nan}),
    "huge mean": (GeometricLength, {"mean": 1e6}),
    "nothing seen": (EmpiricalLength, {"values": []}),
    "0 seen": (EmpiricalLength, {"values": [0, 4]}),
    "a scalar seen": (EmpiricalLength, {"values": 4}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_law_is_refused(case: str):
    law, arguments = REFUSED[case]
    with pytest.raises(ValueError, match="got"):
        law(**arguments)
