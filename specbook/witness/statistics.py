"""P90 over requests, and how far it is known: requests are drawn again with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.acceptance.intervals import percentile_interval
from specbook.checks import Floats, check_non_negative

N_REPLICATES = 2000
_P90 = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class P90:
    """A 90th percentile over requests.

    Attributes
    ----------
    value_s, low_s, high_s : float
        Seconds per token, with a 95 % interval.
    n : int
        Requests.

    Raises
    ------
    ValueError
        If a number is negative or the value lies outside its interval.
    """

    value_s: float
    low_s: float
    high_s: float
    n: int

    def __post_init__(self) -> None:
        check_non_negative("a percentile", [self.value_s, self.low_s, self.high_s, self.n])
        if not self.low_s <= self.value_s <= self.high_s:
            raise ValueError(f"value_s must lie in its interval; got {self.value_s} in [{self.low_s}, {self.high_s}]")


def percentile_90(values: ArrayLike) -> float:
    """90th percentile by linear interpolation, as the summaries of the simulator have it.

    Examples
    --------
    >>> round(percentile_90([0.1, 0.2, 0.3]), 4)
    0.28
    """
    return float(np.quantile(np.asarray(values, dtype=np.float64), _P90))


def resamples(
    n: int, rng: np.random.Generator, n_replicates: int = N_REPLICATES, size: int | None = None
) -> NDArray[np.int64]:
    """Numbers of items drawn with replacement, (n_replicates, size or n) ndarray."""
    return rng.integers(n, size=(n_replicates, size or n))


def p90_of(tpot_s: Floats, rng: np.random.Generator) -> P90:
    """P90 of requests with a bootstrap interval over them.

    Parameters
    ----------
    tpot_s : (n_requests,) ndarray of float64
        At least two.
    rng : Generator

    Examples
    --------
    >>> found = p90_of(np.array([0.01, 0.01, 0.01]), np.random.default_rng(0))
    >>> found.value_s, found.low_s, found.high_s, found.n
    (0.01, 0.01, 0.01, 3)
    """
    drawn = np.quantile(tpot_s[resamples(tpot_s.size, rng)], _P90, axis=1)
    return p90_with(percentile_90(tpot_s), drawn, tpot_s.size)


def p90_of_groups(tpot_s: Floats, size: int, rng: np.random.Generator) -> P90:
    """P90 of a run of so many requests, each like one of those given: mean over such runs, and where 95 % of them lie.

    A P90 of few requests is lower in the mean than that of many, and scatters; what is compared with a run of twelve
    has to be a P90 of twelve.

    Parameters
    ----------
    tpot_s : (n_requests,) ndarray of float64
    size : int
        Requests of a run.
    rng : Generator
    """
    drawn = np.quantile(tpot_s[resamples(tpot_s.size, rng, size=size)], _P90, axis=1)
    low_s, high_s = np.quantile(drawn, [0.025, 0.975]).tolist()
    value_s = float(drawn.mean())
    return P90(value_s=value_s, low_s=min(low_s, value_s), high_s=max(high_s, value_s), n=tpot_s.size)


def p90_with(value_s: float, drawn: Floats, n: int) -> P90:
    """A P90 and its replicates as a result; the interval is widened for few requests, and holds the value.

    Parameters
    ----------
    value_s : float
    drawn : (n_replicates,) ndarray of float64
    n : int
        Requests that were drawn again, at least two.
    """
    low_s, high_s = interval_of(value_s, drawn, n)
    return P90(value_s=value_s, low_s=max(0.0, low_s), high_s=high_s, n=n)


def interval_of(value: float, drawn: Floats, n: int) -> tuple[float, float]:
    """95 % interval from replicates, which holds the value itself."""
    low, high = percentile_interval(drawn, n).tolist()
    return min(low, value), max(high, value)
