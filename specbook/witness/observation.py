"""Doing all jobs of a run in their order, with control blocks between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from specbook.engine.decoding import Round
from specbook.progress import Progress, silent
from specbook.witness.clock import Clock, running_meanwhile
from specbook.witness.config import Configuration
from specbook.witness.control import control_block
from specbook.witness.execution import JobRun, run_job
from specbook.witness.jobs import Job, Kind, control_job, warm_up_jobs
from specbook.witness.result import ControlBlock, When

# A load average takes a sample every five seconds; of fewer than three nothing can be said.
_LEAST_LOAD_S = 15.0


class Decoder(Protocol):
    """What is under test: the native engine, or an invented one in tests."""

    def prompt_tokens(self, job: Job) -> int:
        """Tokens of a job's prompt."""

    def rounds(self, job: Job) -> Iterator[Round]:
        """Rounds of a job, none of which has begun."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the jobs of a run took.

    Attributes
    ----------
    runs : tuple of JobRun
        In the order in which they were done, without warm-up and control.
    control : tuple of ControlBlock
    running : float or None
        Processes that ran meanwhile; None where the system does not say, or not for so short a run.
    """

    runs: tuple[JobRun, ...]
    control: tuple[ControlBlock, ...]
    running: float | None

    def of(self, kind: Kind, configuration: Configuration) -> list[JobRun]:
        """Requests or probes of a configuration by number, or the same prompts without drafts."""
        if kind == "autoregressive":
            prompts = {run.job.prompt.identifier for run in self.of("speculative", configuration)}
            alone = (run for run in self.runs if run.job.kind == kind and run.job.prompt.identifier in prompts)
            return [run for run in alone if run.job.temperature == configuration.temperature]
        own = (run for run in self.runs if run.job.kind == kind and run.job.configuration == configuration)
        return sorted(own, key=lambda run: run.job.number)


def observe(decoder: Decoder, jobs: Sequence[Job], clock: Clock, progress: Progress = silent) -> Observation:
    """Do all jobs of a run.

    Parameters
    ----------
    decoder : Decoder
    jobs : sequence of Job
        In the order in which they are to be done; the control runs before, in the middle and after.
    clock : Clock
    progress : callable
        Called with 1 for each job, warm-up and control blocks included.
    """

    def done(job: Job, order: int) -> JobRun:
        run = run_job(job, decoder.rounds(job), order, clock)
        progress(1)
        return run

    def control(when: When) -> ControlBlock:
        return control_block(when, done(control_job(jobs), order=-1))

    for job in warm_up_jobs(jobs):
        done(job, order=-1)
    start_s, load = clock.now_s(), clock.load_average()
    blocks, runs, half = [control("before")], [], len(jobs) // 2
    for order, job in enumerate(jobs):
        if order == half:
            blocks.append(control("middle"))
        runs.append(done(job, order))
    blocks.append(control("after"))
    running = _running(load, clock.load_average(), clock.now_s() - start_s)
    return Observation(runs=tuple(runs), control=tuple(blocks), running=running)


def _running(before: float | None, after: float | None, elapsed_s: float) -> float | None:
    if before is None or after is None or elapsed_s < _LEAST_LOAD_S:
        return None
    return running_meanwhile(before, after, elapsed_s)
