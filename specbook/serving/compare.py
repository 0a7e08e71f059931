"""Several configurations under one load, with the same luck, as one table with the gate's reasons."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor

import numpy as np
import polars as pl

from specbook.progress import Progress, silent
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.many import simulate_many
from specbook.serving.result import simulate_serving
from specbook.serving.serving_config import ServingConfig
from specbook.serving.slo import Slo
from specbook.serving.summary import ServingSummary
from specbook.serving.workload import Workload


def compare_serving(
    configs: Mapping[str, ServingConfig],
    workload: Workload,
    *,
    seed: int,
    slo: Slo | None = None,
    loop: ClosedLoop | None = None,
    executor: Executor | None = None,
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
    executor : concurrent.futures.Executor or None
        Simulates the configurations side by side; None one after the other. The table is the same.
    progress : callable
        Called with 1 for each request of each configuration, or with all of one that an executor has ended.

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
    return simulate_many(
        configs,
        lambda _: workload,
        seeds=(seed,),
        slo=slo or Slo(),
        loop=loop,
        executor=executor,
        progress=progress,
    )


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
