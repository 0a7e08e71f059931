"""Tasks that another process can find by name, among them some that kill it; and small grids and loads to share."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from specbook.checks import BadInput
from specbook.engine.threads import blas_description
from specbook.funnel import example_funnel
from specbook.funnel_config import FunnelConfig
from specbook.funnel_sweep import sweep_config, write_sweep
from specbook.hardware.profile import catalogue_device
from specbook.progress import Progress, silent
from specbook.roofline.sweep import SweepConfig, sweep
from specbook.serving.arrivals import PoissonArrivals
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.lengths import GeometricLength
from specbook.serving.many import simulate_many
from specbook.serving.round_law import chain_law
from specbook.serving.serving_config import ServingConfig
from specbook.serving.workload import Workload, make_workload


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    if number == 2:
        raise BadInput("is two", field="number", value=number, remedy="take another")
    return number


def threads(_: int) -> tuple[int, int]:
    """Threads that BLAS and polars may use here."""
    return int(blas_description()["threads"]), pl.thread_pool_size()


def square_once_dead(task: tuple[Path, int]) -> int:
    """Log that the task began; the first time that the fifth does, kill the process."""
    folder, number = task
    descriptor = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{number}\n".encode())
    os.close(descriptor)
    if number == 5 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def kill_worker(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def times_begun(folder: Path) -> dict[int, int]:
    """How often each task of :func:`square_once_dead` began."""
    lines = [int(line) for line in (folder / "log").read_text(encoding="utf-8").split()]
    return {number: lines.count(number) for number in set(lines)}


def small_funnel() -> FunnelConfig:
    """Some devices and contexts, so that there are slices to share."""
    devices = tuple(map(catalogue_device, ("h100-sxm5", "l4", "m3-max")))
    return replace(example_funnel(), hardware=devices, batches=(1, 4, 16, 64), contexts=(128, 512, 2048, 8192))


def small_sweep() -> SweepConfig:
    """Eleven or more slices of two contests."""
    both = [small_funnel(), replace(small_funnel(), precision="int4")]
    return replace(sweep_config(both), slice_cells=20)


def sweep_files(folder: Path, executor: Executor | None, progress: Progress = silent) -> dict[str, bytes]:
    """Every file that the sweep writes."""
    configs = [small_funnel(), replace(small_funnel(), precision="int4")]
    write_sweep(configs, sweep(small_sweep(), progress, executor), folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def runs_of(executor: Executor | None) -> pl.DataFrame:
    """Six simulations: two engines, and three seeds that draw their own requests."""
    plain = ServingConfig(kv=KvConfig(n_blocks=400), iteration_time=ConstantIterationTime(seconds=0.01))
    drafting = replace(plain, policy=FixedDraft(law=chain_law([0.8, 0.7])))

    def workload(seed: int) -> Workload:
        return make_workload(
            arrivals=PoissonArrivals(requests_per_s=20.0),
            prompts=GeometricLength(mean=100.0),
            outputs=GeometricLength(mean=20.0),
            n_requests=40,
            rng=np.random.default_rng([seed, 1]),
        )

    return simulate_many({"plain": plain, "K = 2": drafting}, workload, seeds=(0, 1, 5), executor=executor)
