"""The clock of a witness: wall time, processor time and the machine's load; tests bring one of their own."""

from __future__ import annotations

import math
import os
import time
from typing import Protocol


class Clock(Protocol):
    """What a witness reads of the machine."""

    def now_s(self) -> float:
        """Wall time, seconds from some fixed instant."""

    def processor_s(self) -> float:
        """Processor time of this thread, seconds from some fixed instant."""

    def load_average(self) -> float | None:
        """Processes that ran or wanted to, averaged over the last minute; None where the system does not say."""


class MachineClock:
    """The machine's own clocks; a :class:`Clock`.

    Examples
    --------
    >>> clock = MachineClock()
    >>> clock.now_s() <= clock.now_s()
    True
    """

    def now_s(self) -> float:
        """Wall time, as in :class:`Clock`."""
        return time.perf_counter()

    def processor_s(self) -> float:
        """Processor time of the thread, as in :class:`Clock`."""
        return time.thread_time()

    def load_average(self) -> float | None:
        """Load over the last minute, as in :class:`Clock`."""
        try:
            return os.getloadavg()[0]
        except (AttributeError, OSError):
            return None


# A load average forgets with this time constant, and takes a sample so often.
_MEMORY_S, _SAMPLED_EVERY_S = 60.0, 5.0


def running_meanwhile(before: float, after: float, elapsed_s: float) -> float:
    r"""Processes that ran in the mean between two readings of the load average: at least so many.

    Parameters
    ----------
    before, after : float
        Load averages over one minute.
    elapsed_s : float
        Between them, at least as long as the system takes for one sample, 5 s.

    Raises
    ------
    ValueError
        If too little time lies between them.

    Notes
    -----
    The average forgets exponentially, with :math:`\tau` = 60 s. If n processes run during k samples, which are
    :math:`\Delta` apart,

    .. math:: L_1 = L_0 e^{-k \Delta / \tau} + n\,(1 - e^{-k \Delta / \tau})

    which is solved for n. Nobody says when the samples are taken, so that k is one of the two whole numbers beside
    :math:`t / \Delta`; the smaller n of both is returned.

    Examples
    --------
    >>> round(running_meanwhile(0.0, 3.0 * (1.0 - math.exp(-0.5)), 30.0), 6)
    3.0
    """
    fewest, most = math.floor(elapsed_s / _SAMPLED_EVERY_S), math.ceil(elapsed_s / _SAMPLED_EVERY_S)
    if fewest < 1:
        raise ValueError(f"elapsed_s must be at least {_SAMPLED_EVERY_S:g}; got {elapsed_s}")
    return min(_solved(before, after, n_samples) for n_samples in (fewest, most))


def _solved(before: float, after: float, n_samples: int) -> float:
    kept = math.exp(-n_samples * _SAMPLED_EVERY_S / _MEMORY_S)
    return max(0.0, (after - kept * before) / (1.0 - kept))
