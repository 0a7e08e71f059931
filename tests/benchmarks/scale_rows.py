"""The same sweep and the same simulations by one worker and by two, of a dask cluster and of processes beside it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path

from specbook.roofline.sweep import sweep
from specbook.scale.cluster import cluster_workers
from specbook.scale.in_order import in_order
from specbook.scale.processes import process_workers
from specbook.scale.workers import Workers
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.many import simulate_many
from specbook.serving.round_law import chain_law
from tests.benchmarks.serving_rows import a30_engine, a30_workload
from tests.benchmarks.sweep_rows import PRECISIONS, doctrine_space
from tests.dask_cluster import dask_cluster

Row = tuple[str, str, str]
_N_RUNS = 3
_SPACE = doctrine_space(3, PRECISIONS, 64, 116)
_ENGINES = {f"K = {k}": a30_engine("vllm-v1", FixedDraft(law=chain_law([0.8] * k))) for k in (1, 2, 3, 4)}
_SEEDS, _N_REQUESTS = (0, 1, 2, 3), 6000


def _sweep(executor: Executor | None) -> object:
    return sweep(_SPACE, executor=executor)


def _simulations(executor: Executor | None) -> object:
    return simulate_many(_ENGINES, lambda seed: a30_workload(_N_REQUESTS, seed), seeds=_SEEDS, executor=executor)


_WORK: dict[str, Callable[[Executor | None], object]] = {
    f"sweep of {_SPACE.n_configurations:,} configurations": _sweep,
    f"{len(_ENGINES) * len(_SEEDS)} simulations of {_N_REQUESTS:,} requests": _simulations,
}


def scale_rows() -> Iterator[Row]:
    """Yield times by executor, taken in turn, and what the second worker gains: medians of three runs."""
    with ExitStack() as stack:
        executors = {"this process": None, **_executors(stack)}
        for what, work in _WORK.items():
            seconds = _medians(work, executors)
            for name, median_s in seconds.items():
                yield f"{what}: {name}", "", f"{median_s:.1f} s"
            for kind, promised in (("dask", "≥ 1.70 ×"), ("process", "")):
                gain = seconds[f"1 {kind} worker"] / seconds[f"2 {kind} workers"]
                yield f"{what}: two {kind} workers over one", promised, f"{gain:.2f} ×"


def _executors(stack: ExitStack) -> dict[str, Workers]:
    """One and two workers of each kind, who have all imported what they need."""
    found: dict[str, Workers] = {}
    for count in (1, 2):
        name = "worker" if count == 1 else "workers"
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(dask_cluster(folder, count))
        found[f"{count} dask {name}"] = dask = stack.enter_context(cluster_workers(cluster.address, connect_s=60.0))
        while dask.n_workers < count:
            time.sleep(0.1)
        found[f"{count} process {name}"] = stack.enter_context(process_workers(count))
    for executor in found.values():
        list(in_order(_warm, range(8 * executor.n_workers), executor))
    return found


def _warm(_: int) -> None:
    simulate_many({"warm": a30_engine("vllm-v1")}, lambda seed: a30_workload(400, seed), seeds=(0,))
    sweep(doctrine_space(1, PRECISIONS[:1], 2, 2))


def _medians(work: Callable[[Executor | None], object], executors: dict[str, Workers | None]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in executors}
    for _ in range(_N_RUNS):
        for name, executor in executors.items():
            start = time.perf_counter()
            work(executor)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}
