"""Intervals for quantiles and means of latencies that are only counted: histograms of batches, in fixed memory."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats, check_probability
from specbook.serving.batch_means import FEWEST_BEYOND, Interval, around
from specbook.serving.latency_sketch import LONGEST_S, SHORTEST_S

_N_BATCHES = 20
_ACCURACY = 2e-3
_LOG_GROWTH = 2.0 * math.atanh(_ACCURACY)
_N_BUCKETS = int(math.log(LONGEST_S / SHORTEST_S) / _LOG_GROWTH) + 2


class SketchBatches:
    r"""Histograms of a stream, batch by batch; their number stays between 20 and 40, and batches double instead.

    Each histogram is exact to two parts in a thousand, which is far below the spread that it is there to show.

    Notes
    -----
    .. math:: q \pm t_{b-1} \, s / \sqrt{b}

    around the quantile of all values, with the spread of the batches' own. It holds when a batch is longer than the
    memory of the process.

    References
    ----------
    nakayama2014, masson2019

    Examples
    --------
    >>> batches = SketchBatches()
    >>> for _ in range(30):
    ...     batches.add(np.array([0.01, 0.02, 0.03]), np.array([20, 20, 20]))
    >>> low, high = batches.interval(0.5, 0.02)
    >>> bool(low <= 0.02 <= high)
    True
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2 * _N_BATCHES, _N_BUCKETS), dtype=np.int64)
        self._zeros = np.zeros(2 * _N_BATCHES, dtype=np.int64)
        self._sums_s = np.zeros(2 * _N_BATCHES)
        self._n_full = self._n_parts = 0
        self._parts_per_batch = 1

    def add(self, seconds: Floats, counts: NDArray[np.int64], zeros: int = 0) -> None:
        """Count a part of the stream; a batch is one or more of them.

        Parameters
        ----------
        seconds : (n,) ndarray of float64
        counts : (n,) ndarray of int64
        zeros : int
            Further values of 0 seconds, which intervals leave out unless they are asked for.
        """
        logs = np.log(np.maximum(seconds, SHORTEST_S) * (1.0 / SHORTEST_S))
        buckets = np.minimum((logs * (1.0 / _LOG_GROWTH)).astype(np.intp), _N_BUCKETS - 1)
        np.add.at(self._counts[self._n_full], buckets, counts)
        self._zeros[self._n_full] += zeros
        self._sums_s[self._n_full] += (seconds * counts).sum()
        self._n_parts += 1
        if self._n_parts == self._parts_per_batch:
            self._close_batch()

    def _close_batch(self) -> None:
        self._n_parts = 0
        self._n_full += 1
        if self._n_full == 2 * _N_BATCHES:
            for kept in (self._counts, self._zeros, self._sums_s):
                kept[:_N_BATCHES] = kept[::2] + kept[1::2]
                kept[_N_BATCHES:] = 0
            self._n_full = _N_BATCHES
            self._parts_per_batch *= 2

    def interval(self, q: float, overall_s: float, *, with_zeros: bool = False) -> Interval | None:
        """A 95 % interval around the quantile of all values, in seconds.

        Parameters
        ----------
        q : float
            In (0, 1).
        overall_s : float
            The quantile of all values.
        with_zeros : bool
            Whether the further values of 0 seconds count.

        Returns
        -------
        (float, float) or None
            None with fewer than 20 batches, or fewer than three values beyond the quantile in one of them.
        """
        check_probability("q", q)
        full, zeros = self._counts[: self._n_full], self._zeros[: self._n_full] * with_zeros
        totals = full.sum(axis=1) + zeros
        if self._n_full < _N_BATCHES or totals.min() * (1.0 - q) < FEWEST_BEYOND:
            return None
        ranks = np.maximum(np.ceil(q * totals), 1.0) - zeros
        buckets = np.array([np.searchsorted(row.cumsum(), rank) for row, rank in zip(full, ranks, strict=True)])
        seconds = np.where(ranks > 0.0, SHORTEST_S * np.exp((buckets + 0.5) * _LOG_GROWTH), 0.0)
        return around(overall_s, seconds, 0.95)

    def mean_interval(self, overall_s: float, *, with_zeros: bool = False) -> Interval | None:
        """A 95 % interval around the mean of all values, in seconds; None with fewer than 20 batches."""
        totals = self._counts[: self._n_full].sum(axis=1) + self._zeros[: self._n_full] * with_zeros
        if self._n_full < _N_BATCHES or not totals.all():
            return None
        return around(overall_s, self._sums_s[: self._n_full] / totals, 0.95)
