"""How good predictions of the shipped series are beside what was asked, and how long a thousand rows take."""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specbook.validation import published_series
from specbook.validation.left_out import left_out_validation
from specbook.validation.published_errors import LEFT_OUT

Row = tuple[str, str, str]

_N_ROWS = 1000
_N_RUNS = 5
_PUBLISHED = Path(published_series.__file__).with_name("published") / "series.csv"


def write_long_series(path: Path, n_rows: int) -> None:
    """The shipped rows again and again, each round in series of its own."""
    with _PUBLISHED.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for index in range(n_rows):
            name, *cells = rows[index % len(rows)]
            writer.writerow([f"{name} {index // len(rows)}", *cells])


def validation_rows() -> Iterator[Row]:
    """Yield the time of a whole process over a thousand rows, and the figures of rows that were left out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.csv"
        write_long_series(path, _N_ROWS)
        command = [sys.executable, "-c", "from specbook.cli import main; main()", "validate", str(path)]
        seconds = []
        for _ in range(_N_RUNS):
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            seconds.append(time.perf_counter() - start)
    yield "specbook validate, 1,000 rows, whole process", "≤ 2 s", f"{statistics.median(seconds):.2f} s"
    for left_out in LEFT_OUT:
        yield from _figures(left_out, left_out_validation(left_out).scores.row(0, named=True))


def _figures(left_out: str, score: dict[str, Any]) -> Iterator[Row]:
    without = f"each row's {left_out} left out"
    always = f"always drafting {score['always_right']:.1%}"
    yield f"win or lose outside ±5 %, {without}", "≥ 95 %", f"{score['win_lose_right']:.1%} ({always})"
    tried = f"of the tried {score['best_k_within_one_tried']:.0%}, costs {score['regret']:.1%}"
    yield f"best K within one token, {without}", "≥ 90 %", f"{score['best_k_within_one']:.0%} ({tried})"
    median, rows = score["median_absolute_error"], score["n_rows"]
    yield f"median error of the speedup, {without}", "≤ 8 %", f"{median:.1%} of {rows} rows"
