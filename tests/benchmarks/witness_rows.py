"""Rows of ``make bench`` about the witness: what it says on a quiet machine, and how far both predictions are off."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from specbook.engine.threads import blas_threads
from specbook.hardware.probe.numpy_backend import NumpyBackend
from specbook.hardware.probe.run import ProbeConfig, run_probe
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.fit import with_calibrations
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.result import WitnessResult
from specbook.witness.run import run_witness

Row = tuple[str, str, str]

N_RUNS = 3
_PROBE_S = 40.0  # on a slow machine fewer seconds hold too few passes for a fit
_CONFIGURATIONS = (
    Configuration(name="small K=4", drafter="small", draft_length=4),
    Configuration(name="eagle K=4", drafter="eagle", draft_length=4),
)


def probed_machine() -> HardwareProfile:
    """The profile of this machine, as a forecast needs it."""
    with blas_threads(1):
        return with_calibrations(run_probe(ProbeConfig(name="this-machine", budget_s=_PROBE_S), NumpyBackend(1)))


def witnessed(seed: int, hardware: HardwareProfile) -> WitnessResult:
    """A default run at R = 8; each seed takes other prompts in another order."""
    return run_witness(WitnessConfig(configurations=_CONFIGURATIONS, seed=seed), hardware=hardware)


def errors_of(runs: Sequence[WitnessResult]) -> list[float]:
    """Size of the replay's error of each configuration of each run."""
    return [abs(each.replay.error) for run in runs for each in run.results]


def forecast_errors_of(runs: Sequence[WitnessResult]) -> list[float]:
    """Error of each forecast, with its sign."""
    return [each.forecast.error for run in runs for each in run.results if each.forecast is not None]


def witness_rows() -> Iterator[Row]:
    """Yield verdicts, errors and time of three runs on the machine as it is; ``make soak`` runs twenty."""
    hardware = probed_machine()
    runs = [witnessed(seed, hardware) for seed in range(N_RUNS)]
    errors, forecasts = errors_of(runs), forecast_errors_of(runs)
    verdicts = ", ".join(run.verdict for run in runs)
    yield f"witness, R = 8: {N_RUNS} runs of 2 configurations", "no fail", verdicts
    mean, worst = f"{statistics.mean(errors):.1%}", f"{max(errors):.1%}"
    yield "witness: replayed P90 TPOT, mean |error|", "", mean
    yield "witness: replayed P90 TPOT, largest |error|", "≤ 8.0%", worst
    mean, worst = f"{statistics.mean(forecasts):+.1%}", f"{max(forecasts, key=abs):+.1%}"
    yield "witness: forecast P90 TPOT, mean error", "", mean
    yield "witness: forecast P90 TPOT, largest error", "", worst
    yield "witness: time of a run", "≤ 45 s", f"{statistics.median(run.elapsed_s for run in runs):.0f} s"
