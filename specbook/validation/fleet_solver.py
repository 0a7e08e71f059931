"""Least squares over the logarithms of times: the numbers behind a fit of a backend's constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specbook.checks import Floats
from specbook.validation.fleet_bounds import Bounds
from specbook.validation.fleet_constants import CONSTANTS, LAYER, MBU, MFU, STEP
from specbook.validation.fleet_times import MeasuredTimes

# Beyond this error of the logarithm, a time counts less than its square.
_SOFT = 0.05
# No benchmark repeats better than this, however well a model meets it.
_LEAST_ERROR = 0.01
# The solver starts so far from its bounds, as a share of what is between them: on one, it would not move.
_INSIDE = 0.02
_SHARES = (MBU, MFU)
MICROSECOND = 1e-6


def least_squares_fit(
    times: MeasuredTimes,
    bounds: Bounds,
    free: tuple[int, ...],
    start: Floats,
    drawn: NDArray[np.int64] | None = None,
) -> tuple[Floats, float]:
    """Values that meet the times best, those that are not free as in ``start``, and the loss."""
    chosen = np.arange(times.seconds.size) if drawn is None else drawn
    logs = np.log(times.seconds)[chosen]
    if not free:
        return start, _loss(np.log(times.predicted(start))[chosen] - logs)
    low, high = coordinates(bounds.low, free), coordinates(bounds.high, free)

    def errors(scaled: Floats) -> Floats:
        return np.log(times.predicted(_constants_at(scaled, free, start)))[chosen] - logs

    def slopes(scaled: Floats) -> Floats:
        steps = 1e-6 * np.maximum(np.abs(scaled), 1.0)
        steps = np.where(scaled + steps > high, -steps, steps)
        moved = np.vstack([scaled, scaled + np.diag(steps)])
        logged = np.log(times.predicted(_constants_at(moved, free, start)))[:, chosen]
        return np.asarray(((logged[1:] - logged[0]) / steps[:, None]).T)

    inside = np.clip(coordinates(start, free), low + _INSIDE * (high - low), high - _INSIDE * (high - low))
    found = least_squares(
        errors, inside, jac=slopes, bounds=(low, high), x_scale=_scales(free), loss="soft_l1", f_scale=_SOFT
    )
    return _constants_at(_on_bounds(found.x, low, high), free, start), float(found.cost)


def _on_bounds(scaled: Floats, low: Floats, high: Floats) -> Floats:
    """The solver stays a little inside its bounds; what it would have put on one is put there."""
    margin = 1e-6 * (high - low)
    return np.where(scaled < low + margin, low, np.where(scaled > high - margin, high, scaled))


def _loss(errors: Floats) -> float:
    """As ``scipy.optimize.least_squares`` has it."""
    return float(_SOFT**2 * np.sum(np.sqrt(1.0 + (errors / _SOFT) ** 2) - 1.0))


def coordinates(values: Floats, free: Sequence[int]) -> Floats:
    """Overheads in microseconds and shares as logarithms, so that all are of a size."""
    return np.array([np.log(values[i]) if i in _SHARES else values[i] / MICROSECOND for i in free])


def _constants_at(scaled: Floats, free: Sequence[int], start: Floats) -> Floats:
    values = np.broadcast_to(start, (*scaled.shape[:-1], len(CONSTANTS))).copy()
    for position, i in enumerate(free):
        each = scaled[..., position]
        values[..., i] = np.exp(each) if i in _SHARES else each * MICROSECOND
    return values


def _scales(free: Sequence[int]) -> Floats:
    sizes = {STEP: 100.0, LAYER: 5.0, MBU: 0.2, MFU: 0.2}
    return np.array([sizes[i] for i in free])


def spread(times: MeasuredTimes, values: Floats, n_free: int) -> float:
    """Spread of the errors by the soft loss, at least what any benchmark has."""
    errors = np.log(times.predicted(values) / times.seconds)
    return max(float(np.sqrt(2.0 * _loss(errors) / max(errors.size - n_free, 1))), _LEAST_ERROR)


def standard_errors(times: MeasuredTimes, bounds: Bounds, values: Floats, free: tuple[int, ...]) -> Floats:
    """Standard error of each constant where logarithms err by 1; without end if no time changes with it."""
    scaled = coordinates(values, free)
    steps = 1e-4 * _scales(free)
    steps = np.where(scaled + steps > coordinates(bounds.high, free), -steps, steps)
    moved = np.vstack([scaled, scaled + np.diag(steps)])
    logged = np.log(times.predicted(_constants_at(moved, free, values)))
    errors = logged[0] - np.log(times.seconds)
    weights = (1.0 + (errors / _SOFT) ** 2) ** -0.25  # of the soft loss
    slopes = ((logged[1:] - logged[0]) / steps[:, None] * weights).T * _scales(free)
    _, sizes, directions = np.linalg.svd(slopes, full_matrices=True)
    sizes = np.pad(sizes, (0, len(free) - sizes.size))
    variances = np.sum((directions / np.maximum(sizes, 1e-12)[:, None]) ** 2, axis=0)
    return np.asarray(_scales(free) * np.sqrt(variances))


def loss_of(times: MeasuredTimes, values: Floats, drawn: NDArray[np.int64] | None = None) -> float:
    """The loss under constants, of all times or of those drawn by index."""
    errors = np.log(times.predicted(values) / times.seconds)
    return _loss(errors if drawn is None else errors[drawn])
