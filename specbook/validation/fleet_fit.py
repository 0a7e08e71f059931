"""Constants of a backend out of measured times, and which of them the times can tell.

Times are met in their logarithm with a soft loss, so that a row whose two runs differ in more than speculation bends
little. A constant that could be anything between its bounds without the times contradicting it beyond doubt is not
fitted: it keeps what it was, and the others are fitted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.calibrated import ALL_ROWS
from specbook.validation.fleet_bounds import Bounds
from specbook.validation.fleet_constants import CONSTANTS, KV_PASSES, LAYER, MBU, MFU, STEP
from specbook.validation.fleet_solver import (
    MICROSECOND,
    coordinates,
    least_squares_fit,
    loss_of,
    spread,
    standard_errors,
)
from specbook.validation.fleet_times import MeasuredTimes

# Of the constants that cannot be told, the first of these is given up, and the others are looked at again.
_GIVEN_UP_FIRST = (MFU, LAYER, STEP, MBU)
_CONTINUOUS = (STEP, LAYER, MBU, MFU)
# Of chi-squared with one degree of freedom: 95 % for an interval, and 99.9 % for putting a value that noise alone may
# have made in the place of a known one; of a normal error to either side, the latter.
_WITHIN, _BEYOND_DOUBT, _NORMAL = 3.841, 10.828, 3.291
_ROWS_THAT_SHARE = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
AT_BOUND = "at its bound: these rows would have it beyond"
UNTOLD = "these rows cannot tell: no value between its bounds contradicts them"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimesFit:
    """Constants that meet measured times.

    Attributes
    ----------
    values : (5,) ndarray of float64
        In the order of ``CONSTANTS``.
    free : tuple of int
        Which of the continuous ones were fitted.
    rows_that_fit : tuple of float
        Of ``kv_passes``, what the times do not contradict; empty if it was not fitted.
    by_rows : dict of float to (5,) ndarray of float64
        The fit for each number of positions that may share a read of the cache.
    notes : dict of int to str
        Why a constant was not fitted, or what its value is worth.
    """

    values: Floats
    free: tuple[int, ...]
    rows_that_fit: tuple[float, ...]
    by_rows: Mapping[float, Floats]
    notes: Mapping[int, str]

    @property
    def fitted(self) -> tuple[int, ...]:
        """All that were fitted."""
        return (*self.free, *((KV_PASSES,) if self.rows_that_fit else ()))


def fit_times(times: MeasuredTimes, bounds: Bounds, asked: Sequence[int]) -> TimesFit:
    """Fit what is asked for, as far as the times can tell it.

    Parameters
    ----------
    times : MeasuredTimes
    bounds : Bounds
    asked : sequence of int
        Positions in ``CONSTANTS``.

    Returns
    -------
    TimesFit

    Examples
    --------
    >>> from specbook.validation.fleet_bounds import bounds_of
    >>> from specbook.validation.fleet_times import example_times
    >>> from specbook.validation.settings import example_setting
    >>> times = example_times()
    >>> found = fit_times(times, bounds_of(times, example_setting().device), range(5))
    >>> found.notes[1]
    'these rows cannot tell it from the overhead of a step: all their targets have 32 layers'
    """
    notes: dict[int, str] = {}
    free = tuple(each for each in _CONTINUOUS if each in asked)
    alone = _layers_of_the_only_kind(times)
    if alone is not None and {STEP, LAYER} <= set(free):
        free = tuple(each for each in free if each != LAYER)
        notes[LAYER] = f"these rows cannot tell it from the overhead of a step: all their targets have {alone} layers"
    values, by_rows, rows_that_fit = _with_rows(times, bounds, free, _candidates(times) if KV_PASSES in asked else ())
    while (untold := _untold(times, bounds, values, free)) is not None:
        notes[untold] = UNTOLD
        free = tuple(each for each in free if each != untold)
        values, by_rows, rows_that_fit = _with_rows(times, bounds, free, tuple(by_rows))
    if KV_PASSES in asked and not rows_that_fit:
        notes[KV_PASSES] = "these rows cannot tell: how often a pass reads the caches makes no difference to them"
    if LAYER in notes and STEP in free and alone is not None:
        kept = values[LAYER] / MICROSECOND
        notes[STEP] = f"with {kept:.1f} µs a layer kept: these rows tell the sum alone"
    notes |= {each: AT_BOUND for each in free if _is_at_bound(values, bounds, each)}
    return TimesFit(values=values, free=free, rows_that_fit=rows_that_fit, by_rows=by_rows, notes=notes)


def _layers_of_the_only_kind(times: MeasuredTimes) -> int | None:
    """The number of layers, if all targets have the same; drafters pay an engine's share of their own."""
    found = {int(each) for each in times.n_target_layers}
    return found.pop() if len(found) == 1 else None


def _is_at_bound(values: Floats, bounds: Bounds, each: int) -> bool:
    span = bounds.high[each] - bounds.low[each]
    nearest = min(values[each] - bounds.low[each], bounds.high[each] - values[each])
    return bool(nearest < 1e-6 * span)


def _candidates(times: MeasuredTimes) -> tuple[float, ...]:
    """How many positions may share a read of the cache, as far as the passes differ by it; what it was comes first."""
    widths = np.unique(times.passes.tokens)
    before = times.passes.before[KV_PASSES]
    distinct: dict[tuple[float, ...], float] = {}
    for rows in (before, ALL_ROWS, *_ROWS_THAT_SHARE):
        distinct.setdefault(tuple(np.ceil(widths / rows)), rows)
    return tuple(distinct.values())


def _with_rows(
    times: MeasuredTimes, bounds: Bounds, free: tuple[int, ...], candidates: tuple[float, ...]
) -> tuple[Floats, dict[float, Floats], tuple[float, ...]]:
    """The best fit, that of each candidate, and those that the times do not contradict; none if they cannot tell."""
    before = times.passes.before
    if len(candidates) < 2:
        return least_squares_fit(times, bounds, free, before)[0], {}, ()
    starts = [np.where(np.arange(len(CONSTANTS)) == KV_PASSES, rows, before) for rows in candidates]
    fits = [least_squares_fit(times, bounds, free, start) for start in starts]
    best_values, least = min(fits, key=lambda fit: fit[1])
    variance = spread(times, best_values, len(free)) ** 2
    by_rows = {rows: values for rows, (values, _) in zip(candidates, fits, strict=True)}
    within, possible = (
        {rows for rows, (_, loss) in zip(candidates, fits, strict=True) if loss <= least + 0.5 * level * variance}
        for level in (_WITHIN, _BEYOND_DOUBT)
    )
    if {min(candidates), max(candidates)} <= possible:
        return fits[0][0], by_rows, ()
    values = fits[0][0] if candidates[0] in possible else best_values
    return values, by_rows, tuple(sorted(within | {float(values[KV_PASSES])}))


def _untold(times: MeasuredTimes, bounds: Bounds, values: Floats, free: tuple[int, ...]) -> int | None:
    """The constant to give up: one whose interval of 99.9 % reaches both its bounds.

    By how the times change about the fit, which shows two constants that do the same; or by the fits of the others with
    the constant on each of its bounds, which shows one that does nothing once it is away from noise that it meets.
    """
    if not free:
        return None
    error = spread(times, values, len(free))
    reach = _NORMAL * error * standard_errors(times, bounds, values, free)
    middle, low, high = (coordinates(each, free) for each in (values, bounds.low, bounds.high))
    is_wide = (middle - reach <= low) & (middle + reach >= high)
    wide = {each for position, each in enumerate(free) if is_wide[position]}
    limit = loss_of(times, values) + 0.5 * _BEYOND_DOUBT * error**2
    untold = (
        i for i in _GIVEN_UP_FIRST if i in wide or (i in free and _is_flat(times, bounds, values, free, i, limit))
    )
    return next(untold, None)


def _is_flat(
    times: MeasuredTimes, bounds: Bounds, values: Floats, free: tuple[int, ...], each: int, limit: float
) -> bool:
    """Whether the others meet the times about as well with a constant on either of its bounds."""
    others = tuple(other for other in free if other != each)
    ends = (np.where(np.arange(len(CONSTANTS)) == each, end, values) for end in (bounds.low, bounds.high))
    return all(least_squares_fit(times, bounds, others, end)[1] <= limit for end in ends)


def refitted(times: MeasuredTimes, bounds: Bounds, fit: TimesFit, drawn: NDArray[np.int64]) -> Floats:
    """The same constants fitted to other times, drawn by index; how often a cache is read is chosen among the fits.

    Returns
    -------
    (5,) ndarray of float64
    """
    start = fit.values
    if fit.rows_that_fit:
        losses = {rows: loss_of(times, values, drawn) for rows, values in fit.by_rows.items()}
        least = min(losses.values())
        start = start if losses[float(start[KV_PASSES])] <= least else fit.by_rows[min(losses, key=losses.__getitem__)]
    return least_squares_fit(times, bounds, fit.free, start, drawn)[0]
