"""An engine's constants out of measured rows, and how far they reach: rows that were left out, and resampled series.

A constant is one number for an engine, whatever the target, the batch or the workload: there is none per row. Errors
are met in the logarithm of the speedup with a soft loss, so that a run whose two halves differ in more than
speculation does not bend what all others say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specbook.checks import BadInput, Floats
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.passes import Passes
from specbook.validation.rounds import Model, modelled_speedups

_START = np.array([1e-4, 3e-4, 0.01, 0.03])
_LARGEST = np.array([2e-2, 2e-2, 1.0, 0.3])
_SCALE = np.array([1e-4, 1e-3, 1e-2, 1e-2])
# Beyond this error of the logarithm, a row counts less than its square.
_SOFT = 0.05
_RESAMPLES = 200

EVERY_CONSTANT = (True,) * len(CONSTANTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedConstants:
    """Constants with the evidence they rest on.

    Attributes
    ----------
    values : (4,) ndarray of float64
        In the order of ``CONSTANTS``.
    low, high : (4,) ndarray of float64
        95 % intervals over resampled series.
    is_free : (4,) ndarray of bool
        Those that the rows can tell; the others are 0, as no row has what they cost.
    n_rows, n_series : int
    """

    values: Floats
    low: Floats
    high: Floats
    is_free: NDArray[np.bool_]
    n_rows: int
    n_series: int

    @property
    def n_constants(self) -> int:
        """How many numbers were fitted."""
        return int(self.is_free.sum())


def telling(passes: Passes) -> NDArray[np.bool_]:
    """Which constants the rows can tell, (4,).

    A draft pass needs one, and the share outside decoding two workloads of one server.

    Examples
    --------
    >>> from specbook.validation.passes import passes_of
    >>> from specbook.validation.settings import example_setting
    >>> telling(passes_of([example_setting()])).tolist()
    [True, True, True, False]
    """
    workloads = bool(np.any(passes.baseline_tpot_s > passes.fastest_tpot_s))
    return np.array([bool(passes.n_draft_passes.any()), True, True, workloads])


def fit_constants(
    passes: Passes,
    speedups: Floats,
    known: Mapping[str, float] | None = None,
    *,
    model: Model = modelled_speedups,
    told: Sequence[bool] | None = None,
) -> Floats:
    """Constants that meet measured speedups best.

    Parameters
    ----------
    passes : Passes
        Of n settings of one engine, with measured baselines.
    speedups : (n,) ndarray of float64
        Measured.
    known : mapping of str to float, optional
        Constants that come from elsewhere and are not fitted.
    model : callable, optional
        From passes and constants to speedups.
    told : (4,) sequence of bool, optional
        Constants that the rows can tell by this model; those of :func:`telling` if not given.

    Returns
    -------
    (4,) ndarray of float64

    Raises
    ------
    BadInput
        If there are fewer rows than constants.

    References
    ----------
    specbundle

    Examples
    --------
    >>> from specbook.validation.published_errors import comparable
    >>> rows = comparable("sglang")
    >>> print(f"{1e3 * fit_constants(rows.passes, rows.speedups)[1]:.1f} ms a round")
    0.6 ms a round
    """
    fixed = known or {}
    can_tell = telling(passes) if told is None else np.array(told)
    free, given = can_tell & [name not in fixed for name in CONSTANTS], _given(fixed)
    if speedups.size < free.sum():
        remedy = "bring more rows, or take another engine's constants"
        raise BadInput(f"{speedups.size} rows cannot tell {free.sum()} constants", field="engine", remedy=remedy)
    logs = np.log(speedups)

    def errors(values: Floats) -> Floats:
        return np.log(model(passes, _whole(values, free, given))) - logs

    found = least_squares(
        errors,
        _START[free],
        bounds=(np.zeros(free.sum()), _LARGEST[free]),
        x_scale=_SCALE[free],
        loss="soft_l1",
        f_scale=_SOFT,
    )
    return _whole(found.x, free, given)


def _given(known: Mapping[str, float]) -> Floats:
    return np.array([known.get(name, 0.0) for name in CONSTANTS], dtype=np.float64)


def _whole(values: Floats, free: NDArray[np.bool_], given: Floats) -> Floats:
    constants = given.copy()
    constants[free] = values
    return constants


def left_out_constants(
    passes: Passes,
    speedups: Floats,
    groups: Sequence[str],
    known: Mapping[str, float] | None = None,
    *,
    model: Model = modelled_speedups,
    told: Sequence[bool] | None = None,
) -> Floats:
    """Constants for each row that were fitted to all groups but its own.

    Parameters
    ----------
    passes : Passes
    speedups : (n,) ndarray of float64
    groups : (n,) sequence of str
        Such as the series of each row.
    known, model, told
        As of :func:`fit_constants`.

    Returns
    -------
    (n, 4) ndarray of float64

    Raises
    ------
    BadInput
        If there is one group alone, or too few rows outside one.

    Examples
    --------
    >>> from specbook.validation.published_errors import comparable
    >>> rows = comparable("sglang")
    >>> constants = left_out_constants(rows.passes, rows.speedups, rows.groups("series"))
    >>> speedups = modelled_speedups(rows.passes, constants)
    >>> bool(np.median(np.abs(speedups / rows.speedups - 1)) < 0.08)
    True
    """
    names = np.asarray(groups)
    constants = np.empty((speedups.size, len(CONSTANTS)))
    for name in dict.fromkeys(groups):
        out = names == name
        constants[out] = fit_constants(passes.part(~out), speedups[~out], known, model=model, told=told)
    return constants


def fitted_constants(
    passes: Passes,
    speedups: Floats,
    groups: Sequence[str],
    rng: np.random.Generator,
    known: Mapping[str, float] | None = None,
) -> FittedConstants:
    """Constants with intervals: whole groups are drawn with replacement, since rows of a series are alike.

    Parameters
    ----------
    passes : Passes
    speedups : (n,) ndarray of float64
    groups : (n,) sequence of str
    rng : numpy.random.Generator
    known : mapping of str to float, optional

    Returns
    -------
    FittedConstants

    References
    ----------
    fieldwelsh2007

    Examples
    --------
    >>> from specbook.validation.published_errors import comparable
    >>> rows = comparable("sglang")
    >>> fitted = fitted_constants(rows.passes, rows.speedups, rows.groups("series"), np.random.default_rng(0))
    >>> bool(np.all((fitted.low <= fitted.values) & (fitted.values <= fitted.high)))
    True
    """
    names = np.asarray(groups)
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(groups)]
    resampled = np.array([_resampled(passes, speedups, members, rng, known) for _ in range(_RESAMPLES)])
    values = fit_constants(passes, speedups, known)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    return FittedConstants(
        values=values,
        low=np.minimum(low, values),
        high=np.maximum(high, values),
        is_free=telling(passes) & [name not in (known or {}) for name in CONSTANTS],
        n_rows=speedups.size,
        n_series=len(members),
    )


def _resampled(
    passes: Passes,
    speedups: Floats,
    members: list[NDArray[np.int64]],
    rng: np.random.Generator,
    known: Mapping[str, float] | None,
) -> Floats:
    drawn = np.concatenate([members[index] for index in rng.integers(len(members), size=len(members))])
    return fit_constants(passes.part(drawn), speedups[drawn], known)
