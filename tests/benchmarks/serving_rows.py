"""The serving simulator: iterations a second, a million requests streamed, and memory that does not grow with them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from specbook.serving.arrivals import PoissonArrivals
from specbook.serving.draft_policy import DraftPolicy, FixedDraft, ScheduledDraft, batch_schedule
from specbook.serving.draft_time import ConstantDraft
from specbook.serving.iteration_time import AffineIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.lengths import LogNormalLength
from specbook.serving.recorder import Recorder
from specbook.serving.result import stream_serving
from specbook.serving.round_law import chain_law, no_draft
from specbook.serving.serving_config import SchedulerName, ServingConfig
from specbook.serving.simulator import drive
from specbook.serving.sources import OpenSource
from specbook.serving.workload import Workload, make_workload
from tests.benchmarks.vidur_rows import vidur_rows

Row = tuple[str, str, str]
_N_RUNS = 5


def a30_workload(n_requests: int, seed: int = 0) -> Workload:
    """Requests like those of a chat trace at 1.5 a second, cut at 4,096 tokens in all."""
    return make_workload(
        arrivals=PoissonArrivals(requests_per_s=1.5),
        prompts=LogNormalLength(median=1020, sigma=0.7, maximum=3500),
        outputs=LogNormalLength(median=129, sigma=1.0, maximum=596),
        n_requests=n_requests,
        rng=np.random.default_rng(seed),
        name="A30-style chat",
    )


def a30_engine(scheduler: SchedulerName, policy: DraftPolicy | None = None) -> ServingConfig:
    """An A30 with a model of seven billion parameters, its iterations by an affine time."""
    return ServingConfig(
        scheduler=scheduler,
        max_batch=48,
        chunk_tokens=512,
        kv=KvConfig(n_blocks=6000, watermark_blocks=60),
        iteration_time=AffineIterationTime(c0_ms=19.0, c1_ms=0.12, c2_ms=0.0001, c3_ms=0.00002),
        draft_time=ConstantDraft(seconds_per_pass=1e-3),
        policy=policy or FixedDraft(),
    )


def _policies() -> dict[str, tuple[SchedulerName, DraftPolicy]]:
    laws = {0: no_draft(), 2: chain_law([0.8] * 2), 4: chain_law([0.8] * 4)}
    by_batch = ScheduledDraft(schedule=batch_schedule({1: 4, 8: 2, 16: 0}), law_by_length=laws)
    return {
        "vidur-sarathi, no speculation": ("vidur-sarathi", FixedDraft()),
        "vllm-v1, K = 4": ("vllm-v1", FixedDraft(law=laws[4])),
        "vllm-v1, K by batch": ("vllm-v1", by_batch),
    }


def serving_rows() -> Iterator[Row]:
    """Yield speeds on 10,000 requests, medians of runs taken in turn, then the long trace."""
    workload = a30_workload(10_000)
    rates: dict[str, list[float]] = {name: [] for name in _policies()}
    counts: dict[str, int] = {}
    for _ in range(_N_RUNS):
        for name, (scheduler, policy) in _policies().items():
            counts[name], seconds = _timed(a30_engine(scheduler, policy), workload)
            rates[name].append(counts[name] / seconds)
    for name, found in rates.items():
        promised = "≥ 300,000" if name.startswith("vidur") else ""
        what = f"serving, {name}, 10,000 requests, {counts[name]:,} iterations: iterations a second"
        yield what, promised, f"{np.median(found):,.0f}"
    yield from vidur_rows(workload)
    yield from _long_rows()


def _timed(config: ServingConfig, workload: Workload) -> tuple[int, float]:
    recorder = Recorder(_forget, _forget)
    start = time.perf_counter()
    drive(config, OpenSource([workload]), recorder, np.random.default_rng(0))
    recorder.close()
    return recorder.iterations.n_iterations, time.perf_counter() - start


def _forget(_: object) -> None:
    """Keep no rows: what is timed is the simulation."""


# Streams a trace in a process of its own, and prints seconds, iterations, and the largest memory that it ever held.
_LONG = """
import sys
from tests.benchmarks.serving_rows import print_long_run
print_long_run(int(sys.argv[1]))
"""


def print_long_run(n_requests: int) -> None:
    """Simulate that many requests from parts into files."""
    parts = (_part(number) for number in range(n_requests // 50_000))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        law = chain_law([0.8] * 4)
        config = a30_engine("vllm-v1", FixedDraft(law=law))
        summary = stream_serving(config, parts, Path(folder), rng=np.random.default_rng(0))
        seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text().splitlines()
    peak_bytes = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    sys.stdout.write(f"{seconds} {summary.n_iterations} {peak_bytes}\n")


def _part(number: int) -> Workload:
    """The next 50,000 requests, after those before."""
    part = a30_workload(50_000, seed=number)
    length_s = 50_000 / 1.5
    times_s = number * length_s + part.arrival_s * (length_s / (part.arrival_s[-1] * (1.0 + 1e-9)))
    return Workload(arrival_s=times_s, prompt_tokens=part.prompt_tokens, output_tokens=part.output_tokens)


def _long_rows() -> Iterator[Row]:
    found = {}
    for n_requests in (100_000, 1_000_000):
        done = subprocess.run(
            [sys.executable, "-c", _LONG, str(n_requests)], check=True, stdout=subprocess.PIPE, text=True
        )
        found[n_requests] = [float(value) for value in done.stdout.split()]
    seconds, iterations, peak_bytes = found[1_000_000]
    what = f"serving, vllm-v1, K = 4, 1,000,000 requests streamed to files, {iterations:,.0f} iterations"
    yield f"{what}: time", "≤ 300 s", f"{seconds:.0f} s"
    yield f"{what}: largest memory", "≤ 2 GiB", f"{peak_bytes / 2**30:.2f} GiB"
    yield f"{what}: memory ÷ that of 100,000 requests", "flat", f"{peak_bytes / found[100_000][2]:.2f}"
