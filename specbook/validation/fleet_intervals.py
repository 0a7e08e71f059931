"""Intervals of fitted constants: whole series drawn again, or one measured time after the other left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from specbook.acceptance.intervals import percentile_interval
from specbook.checks import Floats
from specbook.validation.fleet_bounds import Bounds
from specbook.validation.fleet_constants import CONSTANTS, KV_PASSES, MBU, MFU
from specbook.validation.fleet_fit import UNTOLD, TimesFit, fit_times, refitted
from specbook.validation.fleet_times import MeasuredTimes

# Resampling fewer series than this tells nothing of their spread.
FEWEST_SERIES = 5
_SHARES = [MBU, MFU]


def fit_with_intervals(
    times: MeasuredTimes, bounds: Bounds, asked: tuple[int, ...], n_resamples: int, rng: np.random.Generator
) -> tuple[TimesFit, Floats]:
    """Fit what the times can tell, each constant with its 95 % interval.

    What an interval between both bounds shows to be untold after all is given up as well.

    Parameters
    ----------
    times : MeasuredTimes
    bounds : Bounds
    asked : tuple of int
        Positions in ``CONSTANTS``.
    n_resamples : int
    rng : numpy.random.Generator

    Returns
    -------
    TimesFit
    (5, 2) ndarray of float64
        Lower and upper end; NaN where nothing was fitted.

    References
    ----------
    davison1997, sections 2.7 and 3.8; hesterberg2015

    Examples
    --------
    >>> from specbook.validation.fleet_bounds import bounds_of
    >>> from specbook.validation.fleet_times import example_times
    >>> from specbook.validation.settings import example_setting
    >>> times = example_times()
    >>> bounds = bounds_of(times, example_setting().device)
    >>> fit, ends = fit_with_intervals(times, bounds, (3,), 200, np.random.default_rng(0))
    >>> bool(ends[3, 0] <= fit.values[3] <= ends[3, 1])
    True
    """
    given_up: dict[int, str] = {}
    while True:
        fit = fit_times(times, bounds, [each for each in asked if each not in given_up])
        ends = _ends(times, bounds, fit, n_resamples, rng)
        untold = [
            each for each in fit.fitted if ends[each, 0] <= bounds.low[each] and ends[each, 1] >= bounds.high[each]
        ]
        if not untold:
            return replace(fit, notes={**fit.notes, **given_up}), ends
        given_up |= dict.fromkeys(untold, UNTOLD)


def _ends(times: MeasuredTimes, bounds: Bounds, fit: TimesFit, n_resamples: int, rng: np.random.Generator) -> Floats:
    ends = np.full((len(CONSTANTS), 2), np.nan)
    if not fit.fitted:
        return ends
    is_over_series = len(set(times.series)) >= FEWEST_SERIES
    found = _resampled(times, bounds, fit, n_resamples, rng) if is_over_series else _left_out(times, bounds, fit)
    for each in fit.free:
        ends[each] = np.clip(found[each], bounds.low[each], bounds.high[each])
        ends[each] = min(ends[each, 0], fit.values[each]), max(ends[each, 1], fit.values[each])
    if fit.rows_that_fit:
        seen = (*fit.rows_that_fit, *(found[KV_PASSES] if is_over_series else ()))
        ends[KV_PASSES] = min(seen), max(seen)
    return ends


def _resampled(
    times: MeasuredTimes, bounds: Bounds, fit: TimesFit, n_resamples: int, rng: np.random.Generator
) -> Floats:
    """Intervals over series drawn with replacement, since the rows of one are alike."""
    names = np.asarray(times.series)
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(times.series)]
    draws = rng.integers(len(members), size=(n_resamples, len(members)))
    values = [refitted(times, bounds, fit, np.concatenate([members[i] for i in draw])) for draw in draws]
    return percentile_interval(np.array(values), len(members))


def _left_out(times: MeasuredTimes, bounds: Bounds, fit: TimesFit) -> Floats:
    """Intervals from how the constants move when one measured time after the other is left out."""
    n_times = times.seconds.size
    everything: NDArray[np.int64] = np.arange(n_times)
    values = np.array([refitted(times, bounds, fit, np.delete(everything, i)) for i in everything])
    moved, middle = _logged(values), _logged(fit.values)
    spread = np.sqrt((n_times - 1.0) / n_times * np.sum((moved - moved.mean(axis=0)) ** 2, axis=0))
    reach = float(stdtrit(max(n_times - 1 - len(fit.free), 1), 0.975)) * spread
    return np.stack([_unlogged(middle - reach), _unlogged(middle + reach)], axis=-1)


def _logged(values: Floats) -> Floats:
    """Shares as logarithms."""
    logged = values.copy()
    logged[..., _SHARES] = np.log(values[..., _SHARES])
    return logged


def _unlogged(logged: Floats) -> Floats:
    values = logged.copy()
    values[..., _SHARES] = np.exp(logged[..., _SHARES])
    return values
