"""Measure each promise on this machine: medians of repeated runs, beside what was promised."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from specbook.acceptance.candidates import DraftCandidates
from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
from specbook.acceptance.importing import import_profile
from specbook.acceptance.intervals import resampled_sums
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.grid import GridConfig, evaluate_grid, project
from specbook.roofline.model_spec import model
from tests.benchmarks.engine_rows import engine_rows
from tests.benchmarks.funnel_rows import funnel_rows
from tests.benchmarks.parity_rows import parity_rows
from tests.benchmarks.probe_rows import probe_rows
from tests.benchmarks.scale_rows import scale_rows
from tests.benchmarks.serving_rows import serving_rows
from tests.benchmarks.smollm_rows import smollm_rows
from tests.benchmarks.sweep_rows import doctrine_space, sweep_rows
from tests.benchmarks.validation_rows import validation_rows
from tests.benchmarks.witness_rows import witness_rows
from tests.browser.chromium import browser, open_page, served
from tests.browser.test_explorer_page import FIND, PAGE

ROOT = Path(__file__).resolve().parents[2]
Row = tuple[str, str, str]

# One slider event: from the input event to the end of the redraw in the page's own clock.
REACT = (
    FIND
    + """
const control = view.container().querySelector('[name=batch]');
const times = [];
const once = async (value) => {
  control.value = value;
  const start = performance.now();
  control.dispatchEvent(new Event('input', {bubbles: true}));
  await view.runAsync();
  times.push(performance.now() - start);
};
const run = async () => { for (let i = 0; i < 60; i++) await once(1 + (i * 37) % 256); return times; };
return run();
"""
)


def median_ms(work: Callable[[], object], n_runs: int = 15) -> float:
    """Median milliseconds of a call, after one that is not counted."""
    work()
    seconds = []
    for _ in range(n_runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds)


def doctrine_grid() -> GridConfig:
    """A hundred thousand configurations: draft lengths 0 to 10, the catalogue, batches 1 to 64, contexts to 32,768."""
    marginal = 0.8 ** np.arange(1, 11)
    candidates = DraftCandidates(
        draft_lengths=tuple(range(11)),
        expected_tokens=(1.0, *(1.0 + np.cumsum(marginal)).tolist()),
        assumptions=("measured",) * 11,
    )
    return GridConfig(
        hardware=tuple(map(catalogue_device, catalogue_names()[:13])),
        target=model("Llama-3.1-70B"),
        draft=model("Llama-3.2-1B"),
        candidates=candidates,
        batches=tuple(range(1, 65)),
        contexts=tuple(np.geomspace(512, 32768, 11).astype(int).tolist()),
    )


def grid_rows() -> Iterator[Row]:
    """Yield the doctrine's grid by each kind of step time: arrays alone, and as a table."""
    grid = doctrine_grid()
    size = f"{np.prod(grid.shape):,} configurations"
    for kind in ("doctrine", "calibrated"):
        config = replace(grid, step_time=kind)
        arrays, table = median_ms(partial(evaluate_grid, config)), median_ms(partial(project, config))
        yield f"{kind} grid of {size}: arrays", "", f"{arrays:.1f} ms"
        yield f"{kind} grid of {size}: table with regime and viable", "≤ 20 ms", f"{table:.1f} ms"
    space = doctrine_space(2, ("bf16", "fp8"), 7, 7)
    milliseconds = median_ms(lambda: [evaluate_grid(each) for each in space.grids], n_runs=5)
    name = f"calibrated grid over methods, targets and precisions, {space.n_configurations:,} configurations"
    yield f"{name}, for each 100,000", "≤ 20 ms", f"{milliseconds * 1e5 / space.n_configurations:.1f} ms"


def reader_rows() -> Iterator[Row]:
    """Yield the speed of the streaming reader."""
    choice = {"index": 0, "turns": ["x" * 1200], "accept_lengths": [2, 1, 3] * 100}
    answer = {"question_id": 1, "category": "qa", "model_id": "m-sps-float16-temp-0.0", "choices": [choice]}
    text = json.dumps(answer) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text(text * (20_000_000 // len(text)), encoding="utf-8")
        size_mb = path.stat().st_size / 1e6
        rate = size_mb / (median_ms(lambda: import_profile([path]), n_runs=3) / 1e3)
    yield "reader of JSON Lines, streamed", "", f"{rate:.0f} MB/s"


def rounds_rows() -> Iterator[Row]:
    """Yield how long a million recorded rounds take, in the two forms that hold every round."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, record in (("Spec-Bench", _spec_bench_record), ("vLLM, per step", _vllm_record)):
            path = Path(folder) / "rounds.jsonl"
            accepted = rng.integers(0, 4, size=(8000, 125))
            path.write_text("".join(f"{json.dumps(record(row.tolist()))}\n" for row in accepted), encoding="utf-8")
            seconds = median_ms(lambda path=path: import_profile([path]), n_runs=3) / 1e3
            yield f"1,000,000 recorded rounds read and profiled ({name})", "≤ 2 s", f"{seconds:.2f} s"


def _spec_bench_record(accepted: list[int]) -> dict[str, Any]:
    return {
        "category": "qa",
        "model_id": "m-sps-float16-temp-0.0",
        "choices": [{"accept_lengths": [1 + a for a in accepted]}],
    }


def _vllm_record(accepted: list[int]) -> dict[str, Any]:
    histogram = np.bincount(accepted, minlength=4).tolist()
    steps = {"per_step_accepted": accepted, "per_step_drafted": [3] * len(accepted)}
    return {"model": "m", "speculative_decoding": {"acceptance_histogram": histogram, **steps}}


# Reads a file in a process of its own and prints the largest memory that the process ever held.
# The system's ru_maxrss would start at what this process holds, since a fork hands it on.
_PEAK = """
import sys
from pathlib import Path
from specbook.acceptance.importing import import_profile
import_profile([Path(sys.argv[1])])
status = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM")))
"""


def memory_rows() -> Iterator[Row]:
    """Yield the memory that a file of 1 GiB takes, and the time."""
    line = json.dumps(_spec_bench_record([2, 0, 1, 3] * 30) | {"turns": ["x" * 2500]}) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        with path.open("w", encoding="utf-8") as stream:
            for _ in range(2**30 // len(line) + 1):
                stream.write(line)
        start = time.perf_counter()
        peak = subprocess.run([sys.executable, "-c", _PEAK, str(path)], check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
    yield "JSON Lines of 1 GiB: largest memory", "≤ 300 MiB", f"{int(peak.stdout) / 2**20:.0f} MiB"
    yield "JSON Lines of 1 GiB: time", "", f"{seconds:.0f} s"


def bootstrap_rows() -> Iterator[Row]:
    """Yield the bootstrap of a thousand prompts with eight positions."""
    rows = np.random.default_rng(0).random((1000, 20))
    seconds = median_ms(lambda: resampled_sums(rows, 10_000, np.random.default_rng(1)), n_runs=5) / 1e3
    yield "10,000 bootstrap replicates over 1,000 prompts", "≤ 1 s", f"{seconds:.2f} s"


def cycles_rows() -> Iterator[Row]:
    """Yield the sweep of the cycle simulator."""
    seconds = median_ms(lambda: sweep_cycles(SweepConfig()), n_runs=3) / 1e3
    yield "cycles-sweep, 576 configurations", "≤ 10 s", f"{seconds:.1f} s"


def page_rows() -> Iterator[Row]:
    """Yield the reaction of the published Explorer to a slider."""
    with served(ROOT / "_build" / "html") as site, browser() as chrome:
        open_page(chrome, f"{site}/{PAGE}")
        times = sorted(chrome.execute_script(REACT))
    yield "Explorer's page: slider to redraw, median", "≤ 16 ms", f"{statistics.median(times):.1f} ms"
    yield "Explorer's page: slider to redraw, 95th percentile", "", f"{times[int(0.95 * len(times))]:.1f} ms"


def notebook_rows() -> Iterator[Row]:
    """Yield the size of each chapter."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield path.name, "≤ 200 kB", f"{path.stat().st_size / 1e3:.0f} kB"


def _timed(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def build_rows() -> Iterator[Row]:
    """Yield ``make html`` and ``make book`` from an empty clone with a warm package cache, and with nothing to do."""
    make, git = shutil.which("make"), shutil.which("git")
    if make is None or git is None:
        raise FileNotFoundError("make and git are needed to measure a build from an empty clone")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run([git, "clone", "-q", str(ROOT), str(clone)], check=True)
        plain = _timed([make, "html"], clone)
        whole = plain + _timed([make, "book"], clone)
        again = statistics.median(_timed([make, "book"], clone) for _ in range(3))
    yield "make html from an empty clone, warm package cache", "≤ 60 s", f"{plain:.1f} s"
    yield "make book after it, with the short funnel: both", "≤ 150 s", f"{whole:.1f} s"
    yield "make book again", "≤ 5 s", f"{again:.1f} s"


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "grid": grid_rows,
    "sweep": sweep_rows,
    "reader": reader_rows,
    "rounds": rounds_rows,
    "memory": memory_rows,
    "bootstrap": bootstrap_rows,
    "cycles": cycles_rows,
    "engine": engine_rows,
    "parity": parity_rows,
    "probe": probe_rows,
    "serving": serving_rows,
    "funnel": funnel_rows,
    "validation": validation_rows,
    "witness": witness_rows,
    "scale": scale_rows,
    "smollm": smollm_rows,
    "page": page_rows,
    "notebooks": notebook_rows,
    "build": build_rows,
}


def main() -> None:
    """Print a line for each promise as it is measured; arguments choose parts by name."""
    where = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}"
    line = "{:<76}{:>12} {:>11}\n"
    sys.stdout.write(f"specbook, {where}\n{line.format('what', 'promised', 'measured')}")
    for name in sys.argv[1:] or PARTS:
        for row in PARTS[name]():
            sys.stdout.write(line.format(*row))
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
