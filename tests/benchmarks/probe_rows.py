"""The probe's bandwidth beside a STREAM program in C, compiled here and run in turn with it, one thread each."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from specbook.engine.threads import blas_threads
from specbook.hardware.probe.backend import ARRAYS_MOVED, seconds_of
from specbook.hardware.probe.numpy_backend import NumpyBackend
from specbook.hardware.profile import load_hardware

Row = tuple[str, str, str]
Rates = dict[str, list[float]]

KERNELS = ("copy", "scale", "add", "triad")
N_TURNS, N_REPEATS = 16, 9
_ARRAY_BYTES = 128 * 2**20
_SOURCE = Path(__file__).with_name("stream.c")
_ROOT = Path(__file__).parents[2]

# The probe's kernels in a process of their own, since where a process's arrays lie in memory moves their bandwidth by
# some per cent: each turn draws a place for the probe and one for the program.
_PROBE = "from tests.benchmarks.probe_rows import print_probe_seconds; print_probe_seconds()"


def probe_rows() -> Iterator[Row]:
    """Yield the ratio of both, a row a kernel; both rates are medians over all turns."""
    with tempfile.TemporaryDirectory() as folder:
        program = _compiled(Path(folder))
        array_bytes = NumpyBackend().stream(_ARRAY_BYTES).array_bytes
        ours: Rates = {kernel: [] for kernel in KERNELS}
        theirs: Rates = {kernel: [] for kernel in KERNELS}
        for _ in range(N_TURNS):
            _add_rates(ours, [sys.executable, "-c", _PROBE], array_bytes)
            _add_rates(theirs, [str(program), str(array_bytes), str(N_REPEATS)], array_bytes)
    for kernel in KERNELS:
        probe, stream = (statistics.median(rates[kernel]) for rates in (ours, theirs))
        what = f"probe ÷ C STREAM, {kernel}, C {stream / 1e9:.1f} GB/s"
        yield what, "0.95 to 1.05", f"{probe / stream:.2f}"
    yield from _minute_rows()


def _minute_rows() -> Iterator[Row]:
    """Yield a whole probe of this machine: its time, and the error of its calibrated models on held-out passes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "here.json"
        start = time.perf_counter()
        command = [sys.executable, "-c", "from specbook.cli import main; main()", "probe", "--out", str(path)]
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        profile = load_hardware(str(path))
    yield "specbook probe, from start to end", "≤ 60 s", f"{seconds:.1f} s"
    for name, calibration in profile.calibrations.items():
        if calibration.error is not None:
            what = f"calibrated model on {calibration.error.n_held_out} held-out passes, {name}: median error"
            yield what, "≤ 10 %", f"{100 * calibration.error.median:.1f} %"


def _compiled(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("cc is needed to compile the STREAM program that the probe is compared with")
    program = folder / "stream"
    subprocess.run([compiler, "-O3", "-march=native", "-o", program, _SOURCE], check=True)
    return program


def _add_rates(rates: Rates, command: list[str], array_bytes: int) -> None:
    """Bandwidth of every repeat of a run, but for its first."""
    run = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    seconds = np.array([[float(value) for value in line.split()] for line in run.stdout.splitlines()])
    for column, kernel in enumerate(KERNELS):
        rates[kernel] += (ARRAYS_MOVED[kernel] * array_bytes / seconds[1:, column]).tolist()


def print_probe_seconds() -> None:
    """Seconds of the probe's kernels, as the C program prints its own."""
    with blas_threads(1):
        backend = NumpyBackend()
        kernels = backend.stream(_ARRAY_BYTES).kernels
        for _ in range(N_REPEATS):
            seconds = [seconds_of(backend, kernels[kernel]) for kernel in KERNELS]
            sys.stdout.write(" ".join(f"{value:.9f}" for value in seconds) + "\n")
