"""What is reported of a latency: three percentiles and the mean, with intervals where there are values enough."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specbook.checks import check_counts, check_non_negative
from specbook.serving.batch_means import BatchMeans, Interval, interval_of_quantile
from specbook.serving.latency_sketch import LatencySketch


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencySummary:
    """Percentiles and mean of one latency, such as TTFT, TPOT or the time of a whole request.

    Attributes
    ----------
    p50, p90, p99, mean : float or None
        Seconds; None if there was no value.
    p50_interval, p90_interval, p99_interval, mean_interval : (float, float) or None
        95 % intervals in seconds; None where there were too few values, or their order is not known.
    count : int
        Number of values.

    Raises
    ------
    ValueError
        If a latency is negative or not finite, or ``count`` is no count.
    """

    p50: float | None
    p90: float | None
    p99: float | None
    mean: float | None
    p50_interval: Interval | None
    p90_interval: Interval | None
    p99_interval: Interval | None
    mean_interval: Interval | None
    count: int

    def __post_init__(self) -> None:
        check_counts("count", self.count)
        for name in ("p50", "p90", "p99", "mean"):
            if (value := getattr(self, name)) is not None:
                check_non_negative(name, value)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it: intervals are lists of two numbers, and what is not known is null."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def summary_of(values: ArrayLike) -> LatencySummary:
    """Summary of one latency of each request.

    Parameters
    ----------
    values : (n,) array_like of float
        Seconds in order of time, of the steady state; requests that have none (such as the TPOT of one token) left out.

    Returns
    -------
    LatencySummary
        Percentiles by linear interpolation, as ``numpy.quantile`` has them; intervals need 120, 600 and 6,000 values,
        that of the mean 160.

    Raises
    ------
    ValueError
        If a value is negative or not finite.

    References
    ----------
    asmussen2007; nakayama2014

    Examples
    --------
    >>> summary = summary_of([0.1, 0.2, 0.3])
    >>> print(summary.p50, round(summary.p90, 4), summary.p50_interval, summary.count)
    0.2 0.28 None 3
    """
    array = check_non_negative("values", values).ravel()
    if not array.size:
        return _nothing()
    p50, p90, p99 = np.quantile(array, [0.5, 0.9, 0.99]).tolist()
    stream = BatchMeans()
    stream.add(array)
    return LatencySummary(
        p50=p50,
        p90=p90,
        p99=p99,
        mean=float(array.mean()),
        p50_interval=interval_of_quantile(array, 0.5),
        p90_interval=interval_of_quantile(array, 0.9),
        p99_interval=interval_of_quantile(array, 0.99),
        mean_interval=stream.interval(),
        count=array.size,
    )


def summary_of_sketch(sketch: LatencySketch) -> LatencySummary:
    """Summary of latencies that were only counted, such as the gaps between all tokens.

    Parameters
    ----------
    sketch : LatencySketch

    Returns
    -------
    LatencySummary
        Percentiles by nearest rank, within the accuracy of the sketch, and the mean; no intervals, since a sketch
        forgets the order in which values came.

    References
    ----------
    masson2019

    Examples
    --------
    >>> sketch = LatencySketch()
    >>> sketch.add([0.010, 0.030])
    >>> print(round(summary_of_sketch(sketch).p99, 3), summary_of_sketch(sketch).mean)
    0.03 0.02
    """
    if not sketch.count:
        return _nothing()
    p50, p90, p99 = (sketch.quantile(q) for q in (0.5, 0.9, 0.99))
    return _without_intervals(p50, p90, p99, sketch.mean, sketch.count)


def _nothing() -> LatencySummary:
    return _without_intervals(None, None, None, None, 0)


def _without_intervals(
    p50: float | None, p90: float | None, p99: float | None, mean: float | None, count: int
) -> LatencySummary:
    return LatencySummary(
        p50=p50,
        p90=p90,
        p99=p99,
        mean=mean,
        p50_interval=None,
        p90_interval=None,
        p99_interval=None,
        mean_interval=None,
        count=count,
    )
