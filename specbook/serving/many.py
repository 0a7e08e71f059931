"""Many simulations, of configurations and seeds, on one processor, on several, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import BadInput
from specbook.progress import Progress, silent
from specbook.scale.in_order import in_order
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.gate import judge
from specbook.serving.result import simulate_serving
from specbook.serving.serving_config import ServingConfig
from specbook.serving.slo import Slo
from specbook.serving.summary import ServingSummary
from specbook.serving.workload import Workload

_LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "wait_s")
_FIGURES = (
    "throughput_tokens_per_s", "goodput_requests_per_s", "n_preemptions", "utilisation", "mean_batch_size",
    "mean_kv_use", "peak_kv_use", "stable",
)  # fmt: skip
# Name, requests, and requests a second; None where all come at one instant.
_WorkloadFigures = tuple[str, int, float | None]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """One run, with everything that it depends on.

    Attributes
    ----------
    config : ServingConfig
    workload : Workload
    seed : int
        Of the acceptance stream; at least 0.
    loop : ClosedLoop or None
    slo : Slo or None
        For goodput.
    flops_per_token : float or None
        Arithmetic of one position of the target's pass, for the waste.
    """

    config: ServingConfig
    workload: Workload
    seed: int
    loop: ClosedLoop | None = None
    slo: Slo | None = None
    flops_per_token: float | None = None


def run_simulations(
    simulations: Iterable[Simulation], executor: Executor | None = None, progress: Progress = silent
) -> Iterator[ServingSummary]:
    """Figures of each run, in their order.

    Parameters
    ----------
    simulations : iterable of Simulation
        Taken as they are needed.
    executor : concurrent.futures.Executor or None
        Runs them; the first ones are sent at once. None runs each here when its figures are asked for.
    progress : callable
        Called with 1 for each request, or with the requests of each run that an executor has ended.

    Yields
    ------
    ServingSummary
        The same in every bit, whatever the executor.

    Raises
    ------
    BadInput
        If one cannot run, when its turn comes.

    Examples
    --------
    >>> from specbook.serving.iteration_time import ConstantIterationTime
    >>> from specbook.serving.kv_blocks import KvConfig
    >>> config = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.5))
    >>> workload = Workload(arrival_s=[0.0], prompt_tokens=[100], output_tokens=[3])
    >>> runs = (Simulation(config=config, workload=workload, seed=seed) for seed in (0, 1))
    >>> [summary.ttft_s.p50 for summary in run_simulations(runs)]
    [0.5, 0.5]
    """
    if executor is None:
        return map(partial(_figures, progress=progress), simulations)
    return _told(in_order(_counted_figures, simulations, executor), progress)


def _figures(run: Simulation, progress: Progress = silent) -> ServingSummary:
    return simulate_serving(
        run.config,
        run.workload,
        rng=np.random.default_rng(run.seed),
        loop=run.loop,
        slo=run.slo,
        flops_per_token=run.flops_per_token,
        progress=progress,
    ).summary


def _counted_figures(run: Simulation) -> tuple[int, ServingSummary]:
    return run.workload.n_requests, _figures(run)


def _told(counted: Iterable[tuple[int, ServingSummary]], progress: Progress) -> Iterator[ServingSummary]:
    for n_requests, summary in counted:
        progress(n_requests)
        yield summary


def simulate_many(
    configs: Mapping[str, ServingConfig],
    workload_of: Callable[[int], Workload],
    *,
    seeds: Sequence[int],
    slo: Slo | None = None,
    loop: ClosedLoop | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Simulate each configuration with each seed, and judge it.

    Parameters
    ----------
    configs : mapping of str to ServingConfig
        By name. The first one without speculation, if there is one, is what the others are compared with.
    workload_of : callable
        Seed → requests, which all configurations get; called here, once for each seed.
    seeds : sequence of int
        Of acceptance. Runs of one seed share their luck, so that within a seed they differ by their configurations.
    slo : Slo or None
        Without one, only stability and the comparison count.
    loop : ClosedLoop or None
    executor, progress
        As in :func:`run_simulations`.

    Returns
    -------
    DataFrame
        One row per seed and configuration, seed by seed: name, parameters, latencies in seconds, figures, ``viable``
        and ``reason``. The same in every bit, whatever the executor.

    Raises
    ------
    BadInput
        If there is no configuration or no seed, a seed stands twice, or one cannot run.

    Examples
    --------
    >>> from specbook.serving.iteration_time import ConstantIterationTime
    >>> from specbook.serving.kv_blocks import KvConfig
    >>> plain = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.01))
    >>> workload = Workload(arrival_s=[0.0, 0.1], prompt_tokens=[100, 100], output_tokens=[30, 30])
    >>> table = simulate_many({"no speculation": plain}, lambda seed: workload, seeds=[0, 1])
    >>> table.select("name", "seed", "viable").rows()
    [('no speculation', 0, True), ('no speculation', 1, True)]
    """
    _check_seeds(configs, seeds)
    workloads: dict[int, _WorkloadFigures] = {}

    def runs() -> Iterator[Simulation]:
        for seed in seeds:
            workload = workload_of(seed)
            rate = workload.rate_per_s
            workloads[seed] = (workload.name, workload.n_requests, rate if np.isfinite(rate) else None)
            for config in configs.values():
                yield Simulation(config=config, workload=workload, seed=seed, loop=loop, slo=slo)

    summaries = run_simulations(runs(), executor, progress)
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        found = dict(zip(configs, islice(summaries, len(configs)), strict=True))
        rows += _judged_rows(configs, found, workloads[seed], seed, slo or Slo())
    return pl.DataFrame(rows, infer_schema_length=None)


def _judged_rows(
    configs: Mapping[str, ServingConfig],
    summaries: Mapping[str, ServingSummary],
    workload: _WorkloadFigures,
    seed: int,
    slo: Slo,
) -> Iterator[dict[str, Any]]:
    plain = next((name for name, config in configs.items() if not config.largest_draft), None)
    for name, summary in summaries.items():
        verdict = judge(summary, summaries[plain] if plain is not None and name != plain else None, slo)
        row = _figures_row(name, configs[name], summary, workload, seed)
        yield row | {"viable": verdict.stays, "reason": "; ".join(verdict.reasons)}


def _check_seeds(configs: Mapping[str, ServingConfig], seeds: Sequence[int]) -> None:
    if not configs:
        raise BadInput("nothing to compare", field="configs", remedy="give at least one configuration")
    if not seeds or len(set(seeds)) != len(seeds):
        raise BadInput("must be at least one, each once", field="seeds", value=seeds, remedy="name each seed once")


def _figures_row(
    name: str, config: ServingConfig, summary: ServingSummary, workload: _WorkloadFigures, seed: int
) -> dict[str, Any]:
    latencies = {
        f"{latency.removesuffix('_s')}_{point}_s": getattr(getattr(summary, latency), point)
        for latency in _LATENCIES
        for point in ("p50", "p90", "p99", "mean")
    }
    workload_name, n_requests, requests_per_s = workload
    return {
        "name": name,
        "workload": workload_name,
        "n_requests": n_requests,
        "requests_per_s": requests_per_s,
        "scheduler": config.scheduler,
        "max_batch": config.max_batch,
        "chunk_tokens": config.chunk_tokens,
        "kv_blocks": config.kv.n_blocks,
        "watermark_blocks": config.kv.watermark_blocks,
        "n_replicas": config.n_replicas,
        "routing": config.routing,
        "step_time_kind": config.iteration_time.kind,
        "draft_length": ",".join(str(law.draft_length) for law in config.policy.laws),
        "seed": seed,
        **latencies,
        **{figure: getattr(summary, figure) for figure in _FIGURES},
        "rejected_tokens": summary.waste.rejected_tokens,
        "rejected_slot_seconds": summary.waste.rejected_slot_seconds,
    }
