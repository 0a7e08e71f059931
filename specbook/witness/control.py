"""Is the machine quiet enough to judge by? Steps without drafts before, amid and after the run decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from specbook.witness.execution import JobRun
from specbook.witness.jobs import COLD_STEPS
from specbook.witness.result import Control, ControlBlock, When

# The 90th percentile of a quiet block lay a fifth above its median on one machine of two cores, a twentieth on another,
# and once more than a third, while the replay was right. Beside two busy processes it lay a half to twice above it.
MOST_SPREAD = 0.5
# Medians of quiet blocks lay up to a fifth apart there, since other tenants share the last cache.
MOST_DRIFT = 0.25
# Interrupts and the kernel take a hundredth; a process that wants the same processor takes a third or half.
LEAST_PROCESSOR_SHARE = 0.97
# The witness is one itself. A second one takes memory bandwidth even where it has a processor of its own.
MOST_RUNNING = 1.5


def control_block(when: When, run: JobRun) -> ControlBlock:
    """What a control job says of the machine, without its first, cold steps.

    Parameters
    ----------
    when : str
    run : JobRun
        Of :func:`~specbook.witness.jobs.control_job`.
    """
    warm_s = run.periods_s[COLD_STEPS:]
    return ControlBlock(
        when=when,
        mean_s=float(warm_s.mean()),
        median_s=float(np.median(warm_s)),
        p90_s=float(np.quantile(warm_s, 0.9)),
        processor_share=run.processor_s / float(run.periods_s.sum()),
    )


def judge_control(blocks: Sequence[ControlBlock], jobs: Sequence[JobRun], running: float | None) -> Control:
    """Whether the machine was quiet.

    Parameters
    ----------
    blocks : sequence of ControlBlock
    jobs : sequence of JobRun
        The run itself: whoever took the processor between two control blocks shows in its processor time.
    running : float or None
        Processes that ran meanwhile, this one included; None where nobody knows.

    Notes
    -----
    Each limit is a constant of this module, set once from quiet and disturbed runs of two machines, and for all
    configurations alike: a quiet machine stays below it, and one busy process beside the witness crosses at least one.
    """
    quiet = Control(blocks=tuple(blocks), load_average=running, reasons=())
    return Control(blocks=quiet.blocks, load_average=running, reasons=tuple(_reasons(quiet, jobs)))


def _reasons(control: Control, jobs: Sequence[JobRun]) -> Iterator[str]:
    if control.spread > MOST_SPREAD:
        yield f"steps without drafts scatter: P90 {control.spread:.0%} above the median, at most {MOST_SPREAD:.0%}"
    if control.drift > MOST_DRIFT:
        yield f"steps without drafts drift: medians {control.drift:.0%} apart, at most {MOST_DRIFT:.0%}"
    shares = [block.processor_share for block in control.blocks]
    share = min([*shares, processor_share(jobs)])
    if share < LEAST_PROCESSOR_SHARE:
        yield f"other processes had the processor: the witness got {share:.0%}, at least {LEAST_PROCESSOR_SHARE:.0%}"
    if control.load_average is not None and control.load_average > MOST_RUNNING:
        yield f"{control.load_average:.1f} processes ran in the mean, at most {MOST_RUNNING:g}, the witness included"


def processor_share(jobs: Sequence[JobRun]) -> float:
    """Processor time by wall time of jobs; 1 for none."""
    wall_s = sum(float(job.periods_s.sum()) for job in jobs)
    return sum(job.processor_s for job in jobs) / wall_s if wall_s else 1.0
