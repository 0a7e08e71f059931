"""A probe from beginning to end."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specbook.hardware.probe.backend import Backend, seconds_of
from specbook.hardware.probe.cases import CALL, MATMUL, StreamCase
from specbook.hardware.probe.plan import ProbePlan, plan_probe
from specbook.hardware.probe.record import Conditions, hardware_profile, probe_record
from specbook.hardware.probe.schedule import HEADROOM, Outcome, Samples, run_tasks
from specbook.hardware.probe.statistics import drift_of
from specbook.hardware.probe.tasks import Bench, Rates, Tasks
from specbook.hardware.profile import Figure, HardwareProfile
from specbook.progress import Progress, silent

# For starting the interpreter before any clock runs, and for writing the file at the end.
RESERVE_S = 1.5

# Of every general measurement, at both ends.
_REPEATS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeConfig:
    """A choice of what to probe.

    Parameters
    ----------
    name : str
        Short id of the machine.
    budget_s : float
        Wall time for everything.
    peak : Figure, optional
        Theoretical bandwidth.
    date : str
        Day, ISO 8601.
    seed : int
        Of the order of measurements.
    spent_s : float
        What is gone of the budget before the probe starts.
    """

    name: str
    budget_s: float = 60.0
    peak: Figure | None = None
    date: str = ""
    seed: int = 0
    spent_s: float = 0.0


def no_announcement(_: ProbePlan) -> None:
    """Say nothing of the plan."""


def run_probe(
    config: ProbeConfig,
    backend: Backend,
    *,
    announce: Callable[[ProbePlan], None] = no_announcement,
    progress: Progress = silent,
) -> HardwareProfile:
    """Measure a machine.

    Parameters
    ----------
    config : ProbeConfig
    backend : Backend
    announce : callable
        Receives the plan before any memory is taken.
    progress : callable
        Receives milliseconds of the budget since its last call.

    Returns
    -------
    HardwareProfile
        With the probe's record and its tables of step times.

    Raises
    ------
    BadInput
        If the budget is none, memory is short, or the stated peak is below what was sustained.
    """
    start_s = backend.clock() - config.spent_s
    rng = np.random.default_rng(config.seed)
    plan = plan_probe(config.budget_s, backend)
    announce(plan)
    bench = Bench(backend, plan)
    first_s = backend.clock()
    before = _general_samples(bench)
    last_s = HEADROOM * (backend.clock() - first_s)
    tasks = Tasks(bench, _rates(bench, before), rng).all()
    progress(round(1e3 * (backend.clock() - start_s)))
    until_s = start_s + config.budget_s - RESERVE_S - last_s
    outcome = run_tasks(tasks, clock=backend.clock, until_s=until_s, rng=rng, progress=progress)
    after = _general_samples(bench)
    conditions = Conditions(
        date=config.date or datetime.datetime.now(datetime.UTC).date().isoformat(),
        budget_s=config.budget_s,
        wall_s=backend.clock() - start_s,
        drift=drift_of([before[case] for case in bench.kernels], [after[case] for case in bench.kernels]),
    )
    record = probe_record(backend, bench.plan, _with_ends(before, outcome, after), conditions)
    return hardware_profile(config.name, config.peak, backend, record)


def _general_samples(bench: Bench) -> Samples:
    """Each general measurement a few times in turn, once more at first, which is not counted."""
    samples: Samples = {case: [] for case in bench.general}
    for turn in range(1 + _REPEATS):
        for case, calls in bench.general.items():
            seconds = seconds_of(bench.backend, calls)
            samples[case] += [seconds] if turn else []
    return samples


def _with_ends(before: Samples, outcome: Outcome, after: Samples) -> Outcome:
    """All samples, those of both ends too, in the order of time."""
    ends = {case: [*before[case], *outcome.samples.get(case, []), *after[case]] for case in before}
    return replace(outcome, samples={**outcome.samples, **ends})


def _rates(bench: Bench, samples: Samples) -> Rates:
    """What to expect of this machine."""
    read_s, product_s, call_s = (float(np.median(samples[case])) for case in (StreamCase("read"), MATMUL, CALL))
    return Rates(
        bytes_per_s=bench.plan.array_bytes / read_s,
        flops_per_s=2.0 * bench.plan.square_size**3 / product_s,
        call_s=call_s,
    )
