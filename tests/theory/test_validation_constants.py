"""Constants out of series that the model made: recovered where they are known, and never from the rows they predict."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from numpy.typing import NDArray

from specbook.checks import BadInput
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.constants import fit_constants, fitted_constants, left_out_constants, telling
from specbook.validation.passes import Passes
from specbook.validation.published_errors import LeftOut, comparable
from specbook.validation.rounds import predict_rounds

SGLANG = comparable("sglang")
SERIES = SGLANG.groups("series")
TRUTHS = [(2e-4, 1e-3, 0.0, 0.02), (5e-5, 2e-3, 0.0, 0.1), (8e-4, 1e-4, 0.0, 0.05)]
KNOWN = {"row_share": 0.0}


def _made(constants: tuple[float, ...], passes: Passes = SGLANG.passes) -> NDArray[np.float64]:
    return np.asarray(predict_rounds(passes, np.array(constants)).speedup)


@pytest.mark.parametrize("truth", TRUTHS)
def test_constants_come_back_from_the_rows_they_made(truth: tuple[float, ...]):
    assert fit_constants(SGLANG.passes, _made(truth), KNOWN) == pytest.approx(truth, rel=1e-4, abs=1e-9)


def test_all_four_constants_come_back_where_none_is_known():
    truth = (2e-4, 1e-3, 0.004, 0.02)
    assert fit_constants(SGLANG.passes, _made(truth)) == pytest.approx(truth, rel=1e-3)


def test_a_known_constant_is_taken_and_not_fitted():
    truth = (2e-4, 1e-3, 0.004, 0.02)
    found = fit_constants(SGLANG.passes, _made(truth), {"row_share": 0.004, "outside_share": 0.02})
    assert found[2:].tolist() == [0.004, 0.02]
    assert found == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("truth", TRUTHS)
def test_intervals_hold_the_constants_that_made_noisy_rows(truth: tuple[float, ...]):
    inside = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        of_series = dict(zip(dict.fromkeys(SERIES), rng.normal(0.0, 0.02, len(set(SERIES))), strict=True))
        noise = np.array([of_series[name] for name in SERIES]) + rng.normal(0.0, 0.02, len(SERIES))
        fitted = fitted_constants(SGLANG.passes, _made(truth) * np.exp(noise), SERIES, rng, KNOWN)
        inside += [
            low <= true <= high
            for name, low, true, high in zip(CONSTANTS, fitted.low, truth, fitted.high, strict=True)
            if name not in KNOWN
        ]
    # Intervals of 95 %: 15 of them, not independent, of which a fifth may miss before something is wrong.
    assert sum(inside) >= 0.8 * len(inside)


def test_intervals_narrow_with_the_noise():
    widths = []
    for noise in (0.01, 0.1):
        rng = np.random.default_rng(1)
        speedups = _made(TRUTHS[0]) * np.exp(rng.normal(0.0, noise, len(SERIES)))
        fitted = fitted_constants(SGLANG.passes, speedups, SERIES, rng, KNOWN)
        widths.append(fitted.high - fitted.low)
        assert np.all((fitted.low <= fitted.values) & (fitted.values <= fitted.high))
        assert (fitted.n_rows, fitted.n_series, fitted.n_constants) == (len(SERIES), len(set(SERIES)), 3)
    free = [name not in KNOWN for name in CONSTANTS]
    assert np.all(widths[0][free] < widths[1][free])


def test_one_wild_series_bends_the_constants_little():
    speedups = _made(TRUTHS[0])
    wild = np.array(SERIES) == SERIES[0]
    found = fit_constants(SGLANG.passes, np.where(wild, 3.0 * speedups, speedups), KNOWN)
    assert found == pytest.approx(TRUTHS[0], rel=0.25, abs=0.01)


@pytest.mark.parametrize("left_out", ["series", "target"])
def test_a_prediction_never_saw_its_own_group(left_out: LeftOut):
    groups = SGLANG.groups(left_out)
    speedups = SGLANG.speedups
    before = left_out_constants(SGLANG.passes, speedups, groups, KNOWN)
    for name in list(dict.fromkeys(groups))[:: max(1, len(set(groups)) // 4)]:
        own = np.array(groups) == name
        after = left_out_constants(SGLANG.passes, np.where(own, 7.0 * speedups, speedups), groups, KNOWN)
        assert np.array_equal(after[own], before[own])
        assert not np.any(np.all(after[~own] == before[~own], axis=1))


def test_all_rows_of_a_group_have_the_same_constants():
    constants = left_out_constants(SGLANG.passes, SGLANG.speedups, SERIES, KNOWN)
    for name in set(SERIES):
        assert len(np.unique(constants[np.array(SERIES) == name], axis=0)) == 1
    assert len(np.unique(constants, axis=0)) > 10


def _part(**changes: float) -> Passes:
    columns = {item.name: getattr(SGLANG.passes, item.name)[:6].copy() for item in fields(Passes)}
    return Passes(**{name: np.full(6, changes[name]) if name in changes else each for name, each in columns.items()})


def test_what_no_row_can_tell_is_nothing_and_is_not_fitted():
    lookups = _part(n_draft_passes=0.0)
    alike = _part(baseline_tpot_s=5e-3, fastest_tpot_s=5e-3)
    assert telling(lookups).tolist()[0] is False
    assert telling(alike).tolist() == [True, True, True, False]
    assert fit_constants(lookups, np.full(6, 1.5))[0] == 0.0
    assert fit_constants(alike, np.full(6, 1.5))[3] == 0.0
    fitted = fitted_constants(alike, np.full(6, 1.5), list("aabbcc"), np.random.default_rng(0), {"row_share": 0.0})
    assert fitted.is_free.tolist() == [True, True, False, False]
    assert (fitted.low[3], fitted.high[3]) == (0.0, 0.0)


def test_fewer_rows_than_constants_are_refused():
    few = SGLANG.passes.part(np.array([0, 60]))
    with pytest.raises(BadInput, match="2 rows cannot tell 3 constants"):
        fit_constants(few, SGLANG.speedups[:2], {"outside_share": 0.0})
    with pytest.raises(BadInput, match="0 rows"):
        left_out_constants(SGLANG.passes, SGLANG.speedups, ["one"] * len(SERIES), KNOWN)
