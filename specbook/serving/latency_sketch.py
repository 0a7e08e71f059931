"""Percentiles of more latencies than anyone keeps: a histogram with logarithmic buckets, in fixed memory."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from specbook.checks import check_counts, check_non_negative, check_positive, check_probability

SHORTEST_S, LONGEST_S = 1e-6, 1e6

# Values that wait to be sorted into buckets together, since numpy takes as long over a handful as over a thousand.
_WAITING_ROOM = 2**16

# Buckets are this much narrower than they may be: a logarithm rounded over an edge then still keeps the promise.
_MARGIN = 1e-6


class LatencySketch:
    r"""Counts of latencies by logarithmic bucket: any quantile within a known relative error, mergeable.

    Memory does not grow with the number of values: 27,632 counts and two waiting rooms of 65,536 entries are 1.3 MB at
    the default accuracy.

    Parameters
    ----------
    relative_accuracy : float
        Largest relative error of a quantile, from 1e-6 to 0.1.

    Raises
    ------
    ValueError
        If the accuracy lies outside its range.

    Notes
    -----
    With :math:`\gamma = (1 + \epsilon) / (1 - \epsilon)`, bucket :math:`i` holds what lies in
    :math:`[\gamma^i, \gamma^{i+1})` µs and answers :math:`2 \gamma^{i+1} / (1 + \gamma)` µs, which is
    :math:`1 + \epsilon` times the lower edge and :math:`1 - \epsilon` times the upper one. Shorter than 1 µs counts as
    0, apart from the buckets; longer than a million seconds counts as that in quantiles, and as it is in the mean.

    References
    ----------
    masson2019

    Examples
    --------
    >>> sketch = LatencySketch()
    >>> sketch.add([0.0, 0.010, 0.020], counts=[1, 2, 1])
    >>> print(sketch.count, sketch.mean, round(sketch.quantile(0.5), 4))
    4 0.01 0.01
    """

    __slots__ = ("_buckets", "_log_growth", "_n_short", "_n_waiting", "_sum_s", "_waiting_counts", "_waiting_s")

    def __init__(self, *, relative_accuracy: float = 5e-4) -> None:
        accuracy = float(check_positive("relative_accuracy", relative_accuracy))
        if not 1e-6 <= accuracy <= 0.1:
            raise ValueError(f"relative_accuracy must lie in [1e-06, 0.1]; got {accuracy}")
        self._log_growth = 2.0 * math.atanh(accuracy * (1.0 - _MARGIN))
        n_buckets = int(math.log(LONGEST_S / SHORTEST_S) / self._log_growth) + 1
        self._buckets = np.zeros(n_buckets, dtype=np.int64)
        self._n_short, self._sum_s = 0, 0.0
        self._waiting_s = np.empty(_WAITING_ROOM)
        self._waiting_counts = np.empty(_WAITING_ROOM, dtype=np.int64)
        self._n_waiting = 0

    def add(self, seconds: ArrayLike, counts: ArrayLike | int = 1) -> None:
        """Count latencies; they are sorted into buckets when enough of them wait.

        Parameters
        ----------
        seconds : (n,) array_like of float
            Latencies, at least 0; copied.
        counts : (n,) array_like of int, or int
            How often each one occurred.

        Raises
        ------
        ValueError
            If a latency is negative or not finite, a count is negative or not whole, or the shapes do not fit. Nothing
            is added then.
        """
        values = np.atleast_1d(check_non_negative("seconds", seconds))
        times = counts if type(counts) is int and counts >= 0 else check_counts("counts", counts)
        weights = np.broadcast_to(times, values.shape)
        if values.ndim != 1:
            raise ValueError(f"seconds needs one axis; got shape {values.shape}")
        for begin in range(0, values.size, _WAITING_ROOM):
            self._let_wait(values[begin : begin + _WAITING_ROOM], weights[begin : begin + _WAITING_ROOM])

    def _let_wait(self, seconds: np.ndarray, counts: np.ndarray) -> None:
        """Take at most a whole waiting room of values, which is emptied first where they do not fit."""
        if self._n_waiting + seconds.size > _WAITING_ROOM:
            self._sort_waiting()
        begin, self._n_waiting = self._n_waiting, self._n_waiting + seconds.size
        self._waiting_s[begin : self._n_waiting] = seconds
        self._waiting_counts[begin : self._n_waiting] = counts

    def _sort_waiting(self) -> None:
        """Move what waits into the buckets."""
        if not self._n_waiting:
            return
        seconds, counts = self._waiting_s[: self._n_waiting], self._waiting_counts[: self._n_waiting]
        self._n_waiting = 0
        self._sum_s += float((seconds * counts).sum())  # a dot product depends on the number of threads
        is_short = seconds < SHORTEST_S
        self._n_short += int(counts[is_short].sum())
        bucket = (np.log(seconds[~is_short] / SHORTEST_S) / self._log_growth).astype(np.intp)
        bucket = np.minimum(bucket, self._buckets.size - 1)
        # Floats hold whole numbers up to 2 ** 53, more than anyone counts.
        added = np.bincount(bucket, weights=counts[~is_short], minlength=self._buckets.size)
        self._buckets += added.astype(np.int64)

    def merge(self, other: LatencySketch) -> None:
        """Add all that another sketch of the same accuracy has counted, which stays as it is.

        Raises
        ------
        ValueError
            If the accuracies differ.
        """
        if self._log_growth != other._log_growth:
            raise ValueError("sketches of different relative_accuracy do not merge; make both with the same one")
        self._sort_waiting()
        other._sort_waiting()
        self._buckets += other._buckets
        self._n_short += other._n_short
        self._sum_s += other._sum_s

    @property
    def count(self) -> int:
        """Number of latencies."""
        self._sort_waiting()
        return self._n_short + int(self._buckets.sum())

    @property
    def mean(self) -> float:
        """Mean in seconds, of the values themselves and not of their buckets; raises ``ValueError`` without any."""
        count = self._count_of_some()  # sorts what waits, which the sum needs too
        return self._sum_s / count

    def quantile(self, q: float) -> float:
        """Latency that a share ``q`` of all does not exceed, by nearest rank.

        Parameters
        ----------
        q : float
            In [0, 1].

        Returns
        -------
        float
            Seconds; within the relative accuracy of the ``r``-th smallest value, where ``r``, at least 1, is the
            smallest rank with ``r / count >= q``. 0 if that value is shorter than 1 µs.

        Raises
        ------
        ValueError
            If ``q`` lies outside [0, 1], or nothing was counted.
        """
        rank = nearest_rank(q, self._count_of_some())
        if rank <= self._n_short:
            return 0.0
        bucket = int(np.searchsorted(np.cumsum(self._buckets), rank - self._n_short))
        # 2 γ / (1 + γ) = 1 + tanh(ln(γ) / 2): the lower edge is answered by so much more.
        return SHORTEST_S * math.exp(bucket * self._log_growth) * (1.0 + math.tanh(self._log_growth / 2.0))

    def _count_of_some(self) -> int:
        count = self.count
        if not count:
            raise ValueError("a sketch without values has no mean and no quantiles; add some first")
        return count


def nearest_rank(q: float, count: int) -> int:
    """Smallest rank from 1 on with ``rank / count >= q``.

    Examples
    --------
    >>> nearest_rank(0.07, 100), nearest_rank(0.0, 100), nearest_rank(0.5, 3)
    (7, 1, 2)
    """
    share = float(check_probability("q", q))
    rank = max(1, int(share * count))  # the product may round down to a rank that is one too small
    while rank / count < share:
        rank += 1
    return rank
