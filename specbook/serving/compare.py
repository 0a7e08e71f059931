"""Several configurations under one load, with the same luck, as one table with the gate's reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import BadInput
from specbook.progress import Progress, silent
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.gate import judge
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
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


def compare_serving(
    configs: Mapping[str, ServingConfig],
    workload: Workload,
    *,
    seed: int,
    slo: Slo | None = None,
    loop: ClosedLoop | None = None,
    progress: Progress = silent,
) -> pl.DataFrame:
    """Simulate each configuration under the same requests and the same luck, and judge it.

    Parameters
    ----------
    configs : mapping of str to ServingConfig
        By name. The first one without speculation, if there is one, is what the others are compared with.
    workload : Workload
    seed : int
        Of the acceptance stream; each configuration gets the same.
    slo : Slo or None
        Without one, only stability and the comparison count.
    loop : ClosedLoop or None
    progress : callable
        Called with 1 for each request of each configuration.

    Returns
    -------
    DataFrame
        One row per configuration: name, parameters, latencies in seconds, figures, ``viable`` and ``reason``.

    Raises
    ------
    BadInput
        If there is no configuration, or one cannot run.

    Examples
    --------
    >>> plain = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.01))
    >>> workload = Workload(arrival_s=[0.0, 0.1], prompt_tokens=[100, 100], output_tokens=[30, 30])
    >>> table = compare_serving({"no speculation": plain}, workload, seed=0, slo=Slo(tpot_s=0.005))
    >>> table.select("draft_length", "viable", "reason").rows()
    [('0', False, 'p90 TPOT 10.0 ms > 5 ms')]
    """
    if not configs:
        raise BadInput("nothing to compare", field="configs", remedy="give at least one configuration")
    slo = slo or Slo()
    summaries = {
        name: simulate_serving(
            config, workload, rng=np.random.default_rng(seed), loop=loop, slo=slo, progress=progress
        ).summary
        for name, config in configs.items()
    }
    plain = next((name for name, config in configs.items() if not config.largest_draft), None)
    rows = []
    for name, summary in summaries.items():
        baseline = summaries[plain] if plain is not None and name != plain else None
        verdict = judge(summary, baseline, slo)
        rows.append(
            _row(name, configs[name], summary, workload, seed)
            | {"viable": verdict.stays, "reason": "; ".join(verdict.reasons)}
        )
    return pl.DataFrame(rows)


def _row(name: str, config: ServingConfig, summary: ServingSummary, workload: Workload, seed: int) -> dict[str, Any]:
    latencies = {
        f"{latency.removesuffix('_s')}_{point}_s": getattr(getattr(summary, latency), point)
        for latency in _LATENCIES
        for point in ("p50", "p90", "p99", "mean")
    }
    return {
        "name": name,
        "workload": workload.name,
        "n_requests": workload.n_requests,
        "requests_per_s": workload.rate_per_s,
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


def example_summaries() -> tuple[ServingSummary, ServingSummary]:
    """Figures of one small load without and with speculation, for examples.

    Examples
    --------
    >>> plain, drafting = example_summaries()
    >>> plain.tpot_s.p50 > drafting.tpot_s.p50
    True
    """
    from specbook.serving.draft_policy import FixedDraft
    from specbook.serving.round_law import chain_law

    lengths = np.array([100, 100]), np.array([30, 30])
    workload = Workload(arrival_s=np.array([0.0, 0.1]), prompt_tokens=lengths[0], output_tokens=lengths[1])
    plain, drafting = (
        ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=ConstantIterationTime(seconds=0.01), policy=policy)
        for policy in (FixedDraft(), FixedDraft(law=chain_law([0.8] * 4)))
    )
    rng = np.random.default_rng
    return tuple(simulate_serving(each, workload, rng=rng(0)).summary for each in (plain, drafting))  # type: ignore[return-value]
