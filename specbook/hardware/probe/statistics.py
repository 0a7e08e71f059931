"""Medians with their spread, noise and drift."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from specbook.checks import check_positive
from specbook.hardware.probe_record import Spread

NOISY = 0.15
DRIFTED = (0.9, 1.1)

_LOW, _HIGH = 10.0, 90.0
_DIGITS = 6
_LEAST_REPEATS = 3


def spread_of(values: Sequence[float]) -> Spread:
    """Median, 10th and 90th percentile (linear interpolation), and how many there were.

    Parameters
    ----------
    values : sequence of float
        Positive; at least one.

    Returns
    -------
    Spread
        Rounded to six digits, which is more than any of them means.

    Raises
    ------
    ValueError
        If there are none, or one is not positive.

    Examples
    --------
    >>> spread_of([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.2, high=2.8, n=3)
    """
    found = check_positive("values", list(values))
    if found.size == 0:
        raise ValueError("values must not be empty; got 0 of them")
    low, median, high = (_rounded(float(value)) for value in np.percentile(found, (_LOW, 50.0, _HIGH)))
    return Spread(median=median, low=min(low, median), high=max(high, median), n=found.size)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def noise_of(spreads: Iterable[Spread]) -> float:
    """Median of (high − low) ÷ median over what was measured at least three times; over all if nothing was.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> noise_of([Spread(median=2.0, low=1.9, high=2.1, n=5), Spread(median=1.0, low=1.0, high=1.0, n=1)])
    0.1
    """
    known = list(spreads)
    if not known:
        raise ValueError("spreads must not be empty; got 0 of them")
    repeated = [spread for spread in known if spread.n >= _LEAST_REPEATS] or known
    return _rounded(float(np.median([(spread.high - spread.low) / spread.median for spread in repeated])))


def drift_of(before: Iterable[Sequence[float]], after: Iterable[Sequence[float]]) -> float:
    """How fast the same work was at the end, relative to the start: median over its kinds.

    Parameters
    ----------
    before, after : iterable of sequence of float
        Seconds of each kind of work, in the same order.

    Returns
    -------
    float
        Below 1 if the machine became slower.

    Examples
    --------
    >>> drift_of([[1.0, 1.0], [2.0]], [[2.0], [4.0, 4.0]])
    0.5
    """
    ratios = [np.median(first) / np.median(last) for first, last in zip(before, after, strict=True)]
    return _rounded(float(np.median(ratios)))
