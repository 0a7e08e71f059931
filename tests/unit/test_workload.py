"""A workload: what it refuses, its rate and its scaling, and that its parts are drawn apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from specbook.serving.arrivals import ConstantArrivals, PoissonArrivals, TogetherArrivals
from specbook.serving.lengths import FixedLength, GeometricLength, UniformLength
from specbook.serving.workload import Workload, make_workload


def _workload(**changes: Any) -> Workload:
    parts = {"arrival_s": [0.5, 0.5, 2.5], "prompt_tokens": [9, 5, 7], "output_tokens": [3, 4, 2]}
    return Workload(**(parts | changes))


def _drawn(**changes: Any) -> Workload:
    parts = {
        "arrivals": PoissonArrivals(requests_per_s=4.0),
        "prompts": UniformLength(low=1, high=1000),
        "outputs": GeometricLength(mean=50.0),
        "n_requests": 200,
        "rng": np.random.default_rng(7),
    }
    return make_workload(**(parts | changes))


REFUSED = {
    "time goes back": ({"arrival_s": [0.0, 2.0, 1.0]}, "arrival_s must not fall; got 1.0 after 2.0"),
    "negative time": ({"arrival_s": [-1.0, 0.0, 1.0]}, "arrival_s must not be negative; got -1.0"),
    "NaN": ({"arrival_s": [0.0, math.nan, 1.0]}, "arrival_s must be finite; got nan"),
    "infinite": ({"arrival_s": [0.0, 1.0, math.inf]}, "arrival_s must be finite; got inf"),
    "no prompt": ({"prompt_tokens": [9, 0, 7]}, "prompt_tokens must be whole and at least 1; got 0"),
    "no output": ({"output_tokens": [3, 4, 0]}, "output_tokens must be whole and at least 1; got 0"),
    "half a token": ({"output_tokens": [3, 4, 1.5]}, "output_tokens must be whole and at least 1; got 1.5"),
    "too long": ({"prompt_tokens": [9, 5, 2**24 + 1]}, "prompt_tokens must be at most 16777216; got 16777217"),
    "lengths differ": ({"prompt_tokens": [9, 5]}, "lists of one length; got the shapes"),
    "two axes": (
        {name: [[1, 1]] for name in ("arrival_s", "prompt_tokens", "output_tokens")},
        "lists of one length; got the shapes",
    ),
    "no request": (
        {name: [] for name in ("arrival_s", "prompt_tokens", "output_tokens")},
        "a workload must hold at least 1 request; got 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_workload_is_refused(case: str):
    changes, expected = REFUSED[case]
    with pytest.raises(ValueError, match="got") as caught:
        _workload(**changes)
    assert expected in str(caught.value)


def test_arrays_are_typed_copies_that_nobody_changes():
    arrival_s = np.array([0.5, 0.5, 2.5])
    load = _workload(arrival_s=arrival_s)
    arrival_s[0] = 0.0
    assert load.arrival_s.tolist() == [0.5, 0.5, 2.5]
    assert (load.arrival_s.dtype, load.prompt_tokens.dtype, load.output_tokens.dtype) == (float, np.int64, np.int64)
    with pytest.raises(ValueError, match="read-only"):
        load.prompt_tokens[0] = 1


def test_rate_counts_gaps():
    load = _workload()
    assert (load.n_requests, load.duration_s, load.rate_per_s) == (3, 2.0, 1.0)


@pytest.mark.parametrize("n", [1, 3])
def test_rate_of_one_instant_is_infinite(n: int):
    load = _drawn(arrivals=TogetherArrivals(), n_requests=n)
    assert load.duration_s == 0.0
    assert math.isinf(load.rate_per_s)
    with pytest.raises(ValueError, match="two instants or more"):
        load.at_rate(2.0)


def test_scaled_moves_arrivals_and_leaves_lengths():
    load = _workload(name="mine").scaled(0.5)
    assert load.arrival_s.tolist() == [0.25, 0.25, 1.25]
    assert load.prompt_tokens.tolist() == [9, 5, 7]
    assert load.output_tokens.tolist() == [3, 4, 2]
    assert (load.rate_per_s, load.name) == (2.0, "mine")


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, 1.7e308])
def test_scaled_refuses_a_factor_that_leaves_no_time(factor: float):
    with pytest.raises(ValueError, match="must be"):
        _workload().scaled(factor)


@pytest.mark.parametrize("rate", [0.01, 1.0, 350.0])
def test_at_rate_gives_the_rate(rate: float):
    assert _drawn().at_rate(rate).rate_per_s == pytest.approx(rate, rel=1e-12)


def test_first_takes_the_head_and_no_more_than_there_is():
    load = _workload()
    assert load.first(2).output_tokens.tolist() == [3, 4]
    assert load.first(3).arrival_s.tolist() == load.arrival_s.tolist()
    for n, expected in ((4, "at most the 3 requests"), (0, "at least 1"), (1.5, "whole")):
        with pytest.raises(ValueError, match=expected):
            load.first(n)  # type: ignore[arg-type]


def test_one_law_leaves_the_draws_of_the_others():
    before = _drawn()
    other_arrivals = _drawn(arrivals=ConstantArrivals(requests_per_s=1.0))
    other_prompts = _drawn(prompts=FixedLength(value=7))
    other_outputs = _drawn(outputs=FixedLength(value=7))
    assert np.array_equal(before.prompt_tokens, other_arrivals.prompt_tokens)
    assert np.array_equal(before.output_tokens, other_arrivals.output_tokens)
    assert np.array_equal(before.arrival_s, other_prompts.arrival_s)
    assert np.array_equal(before.output_tokens, other_prompts.output_tokens)
    assert np.array_equal(before.arrival_s, other_outputs.arrival_s)
    assert np.array_equal(before.prompt_tokens, other_outputs.prompt_tokens)


def test_first_requests_do_not_depend_on_how_many_follow():
    short, long = _drawn(n_requests=50), _drawn(n_requests=500)
    assert np.array_equal(short.arrival_s, long.first(50).arrival_s)
    assert np.array_equal(short.prompt_tokens, long.first(50).prompt_tokens)
    assert np.array_equal(short.output_tokens, long.first(50).output_tokens)


def test_one_generator_draws_one_workload_after_another():
    rng = np.random.default_rng(7)
    first, second = _drawn(rng=rng), _drawn(rng=rng)
    assert np.array_equal(first.arrival_s, _drawn().arrival_s)
    assert not np.array_equal(first.arrival_s, second.arrival_s)


def test_no_request_is_no_workload():
    with pytest.raises(ValueError, match="n_requests must be whole and at least 1; got 0"):
        _drawn(n_requests=0)


def test_rate_beyond_floats_is_refused():
    with pytest.raises(ValueError, match="arrival_s must be finite"):
        _drawn(arrivals=PoissonArrivals(requests_per_s=1e-320))
