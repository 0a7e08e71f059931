"""Laws of arrivals: what they refuse, and when the first request comes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specbook.serving.arrivals import (
    Arrivals,
    ClosedLoop,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    TogetherArrivals,
)

LAWS: tuple[Arrivals, ...] = (
    PoissonArrivals(requests_per_s=4.0),
    GammaArrivals(requests_per_s=4.0, burstiness=0.2),
    ConstantArrivals(requests_per_s=4.0),
    TogetherArrivals(),
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_gaps_are_finite_and_not_negative(law: Arrivals, n: int):
    gaps_s = law.gaps_s(n, np.random.default_rng(1))
    assert gaps_s.shape == (n,)
    assert gaps_s.dtype == np.float64
    assert np.all(np.isfinite(gaps_s) & (gaps_s >= 0.0))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_gaps_repeat_with_the_seed(law: Arrivals):
    first, second = (law.gaps_s(100, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)


def test_first_request_waits_for_a_gap_if_gaps_are_drawn():
    assert LAWS[0].gaps_s(1, np.random.default_rng(1))[0] > 0.0
    assert LAWS[1].gaps_s(1, np.random.default_rng(1))[0] > 0.0


def test_constant_arrivals_begin_at_zero():
    assert np.cumsum(LAWS[2].gaps_s(4, np.random.default_rng(1))).tolist() == [0.0, 0.25, 0.5, 0.75]


def test_names_differ():
    assert len({law.name for law in LAWS}) == len(LAWS)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_rate_and_burstiness_must_be_positive(value: float):
    for law in (PoissonArrivals, ConstantArrivals):
        with pytest.raises(ValueError, match="requests_per_s must be"):
            law(requests_per_s=value)
    with pytest.raises(ValueError, match="requests_per_s must be"):
        GammaArrivals(requests_per_s=value, burstiness=1.0)
    with pytest.raises(ValueError, match="burstiness must be"):
        GammaArrivals(requests_per_s=1.0, burstiness=value)


def test_closed_loop_refuses_what_no_clients_do():
    assert ClosedLoop(n_clients=1, think_s=0.0).think_s == 0.0
    with pytest.raises(ValueError, match="n_clients must be whole and at least 1"):
        ClosedLoop(n_clients=0, think_s=1.0)
    with pytest.raises(ValueError, match="think_s must not be negative"):
        ClosedLoop(n_clients=1, think_s=-1.0)
