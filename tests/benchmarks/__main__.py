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
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from specbook.acceptance.candidates import DraftCandidates
from specbook.acceptance.readers import import_profile
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.grid import GridConfig, evaluate_grid, project
from specbook.roofline.model_spec import model
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
    """Yield the doctrine's grid: arrays alone, and as a table."""
    grid = doctrine_grid()
    size = f"{np.prod(grid.shape):,} configurations"
    yield f"grid of {size}: arrays", "", f"{median_ms(lambda: evaluate_grid(grid)):.1f} ms"
    yield f"grid of {size}: table with regime and viable", "≤ 20 ms", f"{median_ms(lambda: project(grid)):.1f} ms"


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
    """Yield ``make book`` from an empty clone with a warm package cache, and again with nothing to do."""
    make, git = shutil.which("make"), shutil.which("git")
    if make is None or git is None:
        raise FileNotFoundError("make and git are needed to measure a build from an empty clone")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run([git, "clone", "-q", str(ROOT), str(clone)], check=True)
        first = _timed([make, "book"], clone)
        again = statistics.median(_timed([make, "book"], clone) for _ in range(3))
    yield "make book from an empty clone, warm package cache", "≤ 60 s", f"{first:.1f} s"
    yield "make book again", "≤ 5 s", f"{again:.1f} s"


def main() -> None:
    """Print the table."""
    where = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}"
    table = Table(title=f"specbook, {where}", title_justify="left")
    table.add_column("what")
    table.add_column("promised", justify="right")
    table.add_column("measured", justify="right")
    for rows in (grid_rows, reader_rows, page_rows, notebook_rows, build_rows):
        for row in rows():
            table.add_row(*row)
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
