"""Vidur and our simulator on the same requests with the same iteration time, taking turns in one run."""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from specbook.serving.iteration_time import AffineIterationTime
from specbook.serving.recorder import Recorder
from specbook.serving.serving_config import ServingConfig
from specbook.serving.simulator import drive
from specbook.serving.sources import OpenSource
from specbook.serving.workload import Workload

Row = tuple[str, str, str]
Run = tuple[int, float, list[float]]
"""Iterations, seconds, and the second at which each request ended."""

INTERPRETER = "SPECBOOK_VIDUR_PYTHON"
N_REQUESTS, N_TURNS = 1_000, 5
_PEER = Path(__file__).with_name("vidur_peer.py")
_INSTALL = (
    "not installed: uv venv --python 3.11 vidur && uv pip install --python vidur/bin/python vidur==0.0.26, "
    f"then {INTERPRETER}=vidur/bin/python"
)


def vidur_rows(workload: Workload) -> Iterator[Row]:
    """Yield the speed of both event loops on the workload's first 1,000 requests, and whether requests end alike.

    Vidur runs in processes of its own, under the interpreter that the environment names; that it starts up and reads
    the trace is not timed. Its loop keeps no metrics, while ours fills its logs.
    """
    from tests.benchmarks.serving_rows import a30_engine  # here, so that its module may import this one

    interpreter = os.environ.get(INTERPRETER)
    if not interpreter:
        yield "serving, Vidur 0.0.26 in the same run", "", _INSTALL
        return
    config, first = a30_engine("vidur-sarathi"), _first(workload)
    _run_ours(config, first)  # a first run is slower than all that follow, and Vidur's is long enough not to show it
    with tempfile.TemporaryDirectory() as folder:
        trace = _write_trace(first, Path(folder) / "trace.csv")
        turns = [(_run_vidur(interpreter, config, trace), _run_ours(config, first)) for _ in range(N_TURNS)]
    yield from _rows(turns)


def _rows(turns: list[tuple[Run, Run]]) -> Iterator[Row]:
    for index, name in enumerate(("Vidur 0.0.26", "ours, vidur-sarathi")):
        n_iterations = turns[0][index][0]
        rate = statistics.median(turn[index][0] / turn[index][1] for turn in turns)
        what = f"serving, {N_REQUESTS:,} requests side by side, {name}, {n_iterations:,} iterations"
        yield f"{what}: iterations a second", "", f"{rate:,.0f}"
    ratio = statistics.median(vidur[1] / ours[1] * ours[0] / vidur[0] for vidur, ours in turns)
    yield "serving, side by side: our iterations a second ÷ Vidur's", "", f"{ratio:.0f}"
    difference_s = max(float(np.abs(np.subtract(vidur[2], ours[2])).max()) for vidur, ours in turns)
    yield "serving, side by side: largest difference of the ends of requests", "0 s", f"{difference_s:.3g} s"


def _first(workload: Workload) -> Workload:
    return Workload(
        arrival_s=workload.arrival_s[:N_REQUESTS],
        prompt_tokens=workload.prompt_tokens[:N_REQUESTS],
        output_tokens=workload.output_tokens[:N_REQUESTS],
    )


def _write_trace(workload: Workload, path: Path) -> Path:
    columns = (workload.arrival_s, workload.prompt_tokens, workload.output_tokens)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["arrived_at", "num_prefill_tokens", "num_decode_tokens"])
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
    return path


def _run_vidur(interpreter: str, config: ServingConfig, trace: Path) -> Run:
    affine, ends = config.iteration_time, trace.with_name("ends.txt")
    assert isinstance(affine, AffineIterationTime)
    coefficients_ms = (affine.c0_ms, affine.c1_ms, affine.c2_ms, affine.c3_ms)
    sizes = {"--cap": config.max_batch, "--chunk": config.chunk_tokens, "--blocks": config.kv.n_blocks}
    command = [interpreter, str(_PEER), str(trace), "--ends", str(ends), "--affine-ms", *map(str, coefficients_ms)]
    command += [str(word) for size in sizes.items() for word in size]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    _, n_iterations, seconds = done.stdout.split()
    return int(n_iterations), float(seconds), [float(line) for line in ends.read_text().splitlines()]


def _run_ours(config: ServingConfig, workload: Workload) -> Run:
    requests: list[pl.DataFrame] = []
    recorder = Recorder(requests.append, _forget)
    start = time.perf_counter()
    drive(config, OpenSource([workload]), recorder, np.random.default_rng(0))
    recorder.close()
    seconds = time.perf_counter() - start
    return recorder.iterations.n_iterations, seconds, pl.concat(requests)["end_s"].to_list()


def _forget(_: pl.DataFrame) -> None:
    """Keep no rows of iterations."""
