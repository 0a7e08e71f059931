"""A run in figures: latencies, throughput, goodput, waste, memory, and whether the system was stable."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from specbook.checks import Floats
from specbook.serving.latency_sketch import LatencySketch
from specbook.serving.percentiles import LatencySummary, summary_of, summary_of_sketch
from specbook.serving.recorder import Recorder
from specbook.serving.serving_config import ServingConfig
from specbook.serving.sketch_batches import SketchBatches
from specbook.serving.slo import Slo, keeps, latencies

# Waiting grew to the end where the last fifth of the requests waited this many times as long as the earlier half did,
# and none of them as short as that half in the mean: the queue never came back.
_GROWTH = 2.0
# An engine that was idle for more than the rest of this share could have served more.
_BUSY = 0.9
# Nor is it judged of fewer requests, or of waits that chance alone may make of so many: the number that comes in a time
# strays by its square root, so the time that it takes strays by this over the square root.
_FEWEST, _CHANCE = 50, 1.5


@dataclass(frozen=True, kw_only=True)
class Waste:
    """What was spent on drafts that came to nothing.

    Attributes
    ----------
    drafted_tokens, accepted_tokens, rejected_tokens : int
        Of requests that ended. Drafted is the sum of the two others; a token that was right but beyond the output's end
        counts as rejected.
    rejected_slot_seconds : float
        Cache slots of rejected tokens, times the seconds of the iterations that held them; over all iterations.
    rejected_flops : float or None
        Arithmetic of the verify passes on them; None where the model is not known.
    """

    drafted_tokens: int
    accepted_tokens: int
    rejected_tokens: int
    rejected_slot_seconds: float
    rejected_flops: float | None


@dataclass(frozen=True, kw_only=True)
class ServingSummary:
    """What a run comes to.

    Attributes
    ----------
    ttft_s, tpot_s, e2e_s, wait_s : LatencySummary
        Over requests; waiting is the time until a request is first scheduled.
    itl_s, itl_per_token_s : LatencySummary
        Gaps before bursts, and before tokens, where all but the first token of a burst have none.
    throughput_tokens_per_s, throughput_requests_per_s : float
        Output over the time from the first arrival to the last end.
    goodput_requests_per_s : float or None
        Requests that kept the objectives; None where there are none.
    waste : Waste
    n_requests, n_unfinished, n_iterations, n_preemptions : int
    utilisation : float
        Share of the time in which a replica worked.
    mean_batch_size : float
        By iteration.
    mean_kv_use, peak_kv_use : float
        Share of the blocks in use, over the time that a replica worked.
    kv_fragmentation : float
        Share of the slots in those blocks that hold no token: rests of last blocks, and slots reserved for a round.
    wall_s : float
        Simulated seconds.
    stable : bool
        False if the run was stopped because too many waited, or waiting grew to the end of an engine without pause.
    """

    ttft_s: LatencySummary
    tpot_s: LatencySummary
    e2e_s: LatencySummary
    wait_s: LatencySummary
    itl_s: LatencySummary
    itl_per_token_s: LatencySummary
    throughput_tokens_per_s: float
    throughput_requests_per_s: float
    goodput_requests_per_s: float | None
    waste: Waste
    n_requests: int
    n_unfinished: int
    n_iterations: int
    n_preemptions: int
    utilisation: float
    mean_batch_size: float
    mean_kv_use: float
    peak_kv_use: float
    kv_fragmentation: float
    wall_s: float
    stable: bool

    def as_dict(self) -> dict[str, Any]:
        """As ``summary.json`` has it."""
        latency = {n: v.as_dict() for n, v in vars(self).items() if isinstance(v, LatencySummary)}
        return {**{name: value for name, value in asdict(self).items() if name not in latency}, **latency}


def summarise(
    requests: pl.LazyFrame,
    recorder: Recorder,
    config: ServingConfig,
    n_unfinished: int = 0,
    slo: Slo | None = None,
    flops_per_token: float | None = None,
    *,
    is_open: bool = True,
) -> ServingSummary:
    """Figures of a run from its rows, one column at a time.

    Parameters
    ----------
    requests : LazyFrame
        Rows of the run, in the order of arrival.
    recorder : Recorder
        Closed.
    config : ServingConfig
    n_unfinished : int
        Requests that had not ended when the run was stopped.
    slo : Slo or None
    flops_per_token : float or None
        Arithmetic of one position of the target's pass.
    is_open : bool
        Whether requests come at times of their own. Clients that wait for their answers cannot outrun an engine.
    """
    ended = _totals(requests, slo)
    work = recorder.iterations
    waits = _column(requests, "wait_s")
    span_s = ended["span_s"] or 0.0
    busy = _rate(work.busy_s, span_s * config.n_replicas)
    grew = is_open and waiting_grew(waits, ended["arrivals_span_s"] or 0.0, busy)
    n = ended["n_requests"]
    return ServingSummary(
        **{name: summary_of(_column(requests, name)) for name in ("ttft_s", "tpot_s", "e2e_s")},
        wait_s=summary_of(waits),
        itl_s=_with_intervals(summary_of_sketch(recorder.bursts), recorder.burst_batches, with_zeros=False),
        itl_per_token_s=_with_intervals(
            summary_of_sketch(_per_token(recorder)), recorder.burst_batches, with_zeros=True
        ),
        throughput_tokens_per_s=_rate(ended["output_tokens"], span_s),
        throughput_requests_per_s=_rate(n, span_s),
        goodput_requests_per_s=None if slo is None else _rate(ended["n_good"], span_s),
        waste=_waste(ended, recorder, flops_per_token),
        n_requests=n,
        n_unfinished=n_unfinished,
        n_iterations=work.n_iterations,
        n_preemptions=ended["preemptions"],
        utilisation=busy,
        mean_batch_size=_rate(work.batch_sizes, work.n_iterations),
        mean_kv_use=_rate(work.block_seconds, work.busy_s * config.kv.n_blocks),
        kv_fragmentation=1.0 - _rate(work.token_seconds, work.block_seconds * config.kv.block_size_tokens),
        peak_kv_use=work.peak_blocks / config.kv.n_blocks,
        wall_s=span_s,
        stable=not n_unfinished and not grew,
    )


def waiting_grew(wait_s: Floats, arrivals_span_s: float, busy: float) -> bool:
    """Whether an engine with hardly a pause let requests wait longer and longer, up to the last one.

    Parameters
    ----------
    wait_s : (n,) ndarray of float64
        In the order of arrival.
    arrivals_span_s : float
        From the first arrival to the last. All at once is a backlog, which says nothing of a rate.
    busy : float
        Share of the time in which it worked.

    Examples
    --------
    >>> import numpy as np
    >>> rising = np.linspace(0.0, 60.0, 100)
    >>> waiting_grew(rising, 100.0, 1.0), waiting_grew(rising, 100.0, 0.5), waiting_grew(rising[::-1], 100.0, 1.0)
    (True, False, False)
    """
    if wait_s.size < _FEWEST or arrivals_span_s <= 0.0 or busy < _BUSY:
        return False
    early_s, late_s = float(wait_s[: wait_s.size // 2].mean()), wait_s[-(wait_s.size // 5) :]
    grew = late_s.mean() > max(_GROWTH * early_s, _CHANCE * arrivals_span_s / math.sqrt(wait_s.size))
    return bool(grew and late_s.min() > early_s)


def _column(requests: pl.LazyFrame, name: str) -> Floats:
    column = requests.select(latencies()[name].alias(name)).drop_nulls().collect(engine="streaming")
    return column[name].to_numpy()


def _totals(requests: pl.LazyFrame, slo: Slo | None) -> dict[str, Any]:
    columns = ("output_tokens", "drafted_tokens", "accepted_tokens", "preemptions")
    return requests.select(
        pl.len().alias("n_requests"),
        (pl.col("end_s").max() - pl.col("arrival_s").min()).alias("span_s"),
        (pl.col("arrival_s").max() - pl.col("arrival_s").min()).alias("arrivals_span_s"),
        *(pl.col(name).cast(pl.Int64).sum() for name in columns),
        keeps(slo or Slo()).sum().alias("n_good"),
    ).collect(engine="streaming").row(0, named=True)  # fmt: skip


def _with_intervals(summary: LatencySummary, batches: SketchBatches, *, with_zeros: bool) -> LatencySummary:
    if summary.p50 is None or summary.p90 is None or summary.p99 is None or summary.mean is None:
        return summary
    return replace(
        summary,
        p50_interval=batches.interval(0.5, summary.p50, with_zeros=with_zeros),
        p90_interval=batches.interval(0.9, summary.p90, with_zeros=with_zeros),
        p99_interval=batches.interval(0.99, summary.p99, with_zeros=with_zeros),
        mean_interval=batches.mean_interval(summary.mean, with_zeros=with_zeros),
    )


def _per_token(recorder: Recorder) -> LatencySketch:
    sketch = LatencySketch()
    sketch.merge(recorder.bursts)
    sketch.add([0.0], recorder.tokens_in_bursts - recorder.bursts.count)
    return sketch


def _waste(ended: dict[str, Any], recorder: Recorder, flops_per_token: float | None) -> Waste:
    drafted, accepted = ended["drafted_tokens"], ended["accepted_tokens"]
    rejected = drafted - accepted
    return Waste(
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        rejected_tokens=rejected,
        rejected_slot_seconds=recorder.rejected_slot_seconds,
        rejected_flops=None if flops_per_token is None else rejected * flops_per_token,
    )


def _rate(amount: float, span: float) -> float:
    return amount / span if span > 0.0 else 0.0
