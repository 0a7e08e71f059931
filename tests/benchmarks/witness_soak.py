"""Twenty witness runs alone, and ten beside two busy processes.

``python -m tests.benchmarks.witness_soak [ALONE BESIDE]`` prints a line for each run, with all errors. The exit
code is 1 if a run alone fails or more than one is inconclusive, or if a run beside busy processes passes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from specbook.hardware.profile import HardwareProfile
from specbook.witness.result import WitnessResult
from tests.benchmarks.witness_rows import errors_of, forecast_errors_of, probed_machine, witnessed

N_ALONE, N_BESIDE = 20, 10
N_BUSY = 2
_SETTLING_S = 2.0

# Wants a processor and memory bandwidth all the time, and ends where nobody waits for it any more.
_BUSY = """
import os, sys
import numpy
source = numpy.ones(8_000_000)
target = numpy.empty_like(source)
while os.getppid() == int(sys.argv[1]):
    numpy.copyto(target, source)
"""


@contextmanager
def busy_processes(n_processes: int) -> Iterator[None]:
    """Other processes that work as hard as they can inside the block."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(n_processes)]
    try:
        time.sleep(_SETTLING_S)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def soak(where: str, n_runs: int, hardware: HardwareProfile) -> list[WitnessResult]:
    """So many runs one after the other, each told when it ends."""
    runs = []
    for seed in range(n_runs):
        runs.append(witnessed(seed, hardware))
        _tell_run(where, seed, runs[-1])
    return runs


_LINE = "{:<8}{:>4}  {:<14}{:<12}{:>9}{:>20}{:>10}{:>8}{:>8}{:>8}{:>6}\n"


def _tell_run(where: str, seed: int, run: WitnessResult) -> None:
    control = run.control
    share = min(block.processor_share for block in control.blocks)
    load = "" if control.load_average is None else f"{control.load_average:.1f}"
    machine = (f"{control.spread:.0%}", f"{control.drift:.0%}", f"{share:.0%}", load)
    for each in run.results:
        interval = f"[{each.replay.error_low:+.1%}, {each.replay.error_high:+.1%}]"
        forecast = "" if each.forecast is None else f"{each.forecast.error:+.1%}"
        error = f"{each.replay.error:+.1%}"
        row = (where, seed, each.verdict, each.configuration.name, error, interval, forecast, *machine)
        sys.stdout.write(_LINE.format(*row))
        if each.verdict != "pass":
            sys.stdout.write(f"              {'; '.join(each.reasons)}\n")
    sys.stdout.flush()


def _tell_all(where: str, runs: Sequence[WitnessResult]) -> Counter[str]:
    verdicts = Counter(run.verdict for run in runs)
    counted = ", ".join(f"{verdicts[name]} {name}" for name in ("pass", "inconclusive", "fail"))
    errors, forecasts = errors_of(runs), forecast_errors_of(runs)
    replayed = f"mean {statistics.mean(errors):.1%}, largest {max(errors):.1%}"
    forecast = f"mean {statistics.mean(forecasts):+.1%}, from {min(forecasts):+.1%} to {max(forecasts):+.1%}"
    sys.stdout.write(
        f"{where}: {len(runs)} runs: {counted}; |error| of the replay {replayed}; of the forecast {forecast}\n"
    )
    return verdicts


def main() -> int:
    """Probe the machine, run alone, run beside busy processes, and say whether the promises held."""
    n_alone, n_beside = (int(text) for text in sys.argv[1:3]) if len(sys.argv) > 2 else (N_ALONE, N_BESIDE)
    hardware = probed_machine()
    names = ("where", "run", "verdict", "drafts", "error", "95 %", "forecast", "spread", "drift", "share", "load")
    sys.stdout.write(_LINE.format(*names))
    alone = soak("alone", n_alone, hardware)
    with busy_processes(N_BUSY):
        beside = soak("beside", n_beside, hardware)
    quiet, noisy = _tell_all("alone", alone), _tell_all(f"beside {N_BUSY} busy processes", beside)
    return int(quiet["fail"] > 0 or quiet["inconclusive"] > 1 or noisy["pass"] > 0)


if __name__ == "__main__":
    sys.exit(main())
