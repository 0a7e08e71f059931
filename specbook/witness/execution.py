"""Doing a job with the clock running: a reading at each round, nothing else between them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np

from specbook.checks import Floats
from specbook.engine.decoding import Round, RoundRecord
from specbook.witness.clock import Clock
from specbook.witness.jobs import Job


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """What a job took.

    Attributes
    ----------
    job : Job
    order : int
        Its place in the run.
    periods_s : (n_rounds,) ndarray of float64
        From the end of the round before to the end of each round; the first one from the start, its prompt included.
    records : tuple of RoundRecord
        What the engine measured of each round.
    tokens : tuple of int
    processor_s : float
        Processor time of the thread.
    """

    job: Job
    order: int
    periods_s: Floats
    records: tuple[RoundRecord, ...]
    tokens: tuple[int, ...]
    processor_s: float

    @property
    def ttft_s(self) -> float:
        """From the start to the end of the first round."""
        return float(self.periods_s[0])

    @property
    def tpot_s(self) -> float:
        """From the end of the first round to the end, by tokens but the first; 0 for a single token."""
        return float(self.periods_s[1:].sum()) / max(1, len(self.tokens) - 1)


def run_job(job: Job, rounds: Iterator[Round], order: int, clock: Clock) -> JobRun:
    """Take a job's rounds one after the other, and the time at the end of each.

    Parameters
    ----------
    job : Job
    rounds : iterator of Round
        Which starts nothing before its first round is asked for.
    order : int
    clock : Clock
    """
    records: list[RoundRecord] = []
    tokens: list[int] = []
    with no_garbage_collection():
        processor_s = clock.processor_s()
        marks = [clock.now_s()]
        for round_ in islice(rounds, job.max_rounds):
            marks.append(clock.now_s())
            records.append(round_.record)
            tokens += round_.tokens
        processor_s = clock.processor_s() - processor_s
    return JobRun(
        job=job,
        order=order,
        periods_s=np.diff(marks),
        records=tuple(records),
        tokens=tuple(tokens),
        processor_s=processor_s,
    )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector from running inside; it works through what is left behind before it starts."""
    was_enabled = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
