"""From samples to a hardware profile: medians with spread, warnings, step-time tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from specbook import __version__
from specbook.checks import BadInput
from specbook.hardware.probe.backend import ARRAYS_MOVED, STREAM_KERNELS, Backend
from specbook.hardware.probe.cases import CALL, MATMUL, AttentionCase, PassCase, ProductCase, StreamCase
from specbook.hardware.probe.plan import ProbePlan
from specbook.hardware.probe.schedule import Outcome, Samples
from specbook.hardware.probe.statistics import DRIFTED, NOISY, noise_of, spread_of
from specbook.hardware.probe_record import (
    AttentionTime,
    PassTime,
    ProbeRecord,
    ProductTime,
    Spread,
    StreamBandwidth,
)
from specbook.hardware.profile import Figure, HardwareProfile, PeakFlops
from specbook.hardware.step_times import StepTimePoint, StepTimeTable

_NAMED = 4
_LOW_MBU = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """When and how long: day (ISO 8601), budget, wall time, and bandwidth at the end ÷ at the start."""

    date: str
    budget_s: float
    wall_s: float
    drift: float


def probe_record(backend: Backend, plan: ProbePlan, outcome: Outcome, conditions: Conditions) -> ProbeRecord:
    """What was measured, and what must be known to read it.

    Parameters
    ----------
    backend : Backend
    plan : ProbePlan
    outcome : Outcome
        With samples of every bandwidth kernel, the large product and the call.
    conditions : Conditions

    Returns
    -------
    ProbeRecord
        Cases in the plan's order, without those that there was no time for, which its warnings name.
    """
    samples, facts = outcome.samples, backend.facts
    spreads = {case: spread_of(seconds) for case, seconds in samples.items()}
    noise = noise_of(spreads.values())
    return ProbeRecord(
        specbook=__version__,
        backend=backend.name,
        processor=facts.device,
        blas=facts.blas,
        n_processors=facts.n_processors,
        date=conditions.date,
        budget_s=conditions.budget_s,
        wall_s=round(conditions.wall_s, 2),
        scratch_bytes=plan.scratch_bytes,
        array_bytes=plan.array_bytes,
        last_level_cache_bytes=facts.last_level_cache_bytes,
        bandwidth=_bandwidth(plan, samples),
        matmul_flops_per_s=_rate(2.0 * plan.square_size**3, samples[MATMUL]),
        call_overhead_s=spreads[CALL],
        products=[_product_time(case, spreads[case]) for case in plan.products if case in spreads],
        attention=[_attention_time(backend, case, spreads[case]) for case in plan.attention if case in spreads],
        passes=[_pass_time(case, spreads[case]) for case in plan.passes if case in spreads],
        noise=noise,
        drift=conditions.drift,
        warnings=[*plan.warnings, *_warnings(outcome, noise, conditions.drift)],
    )


def _rate(amount: float, seconds: Sequence[float]) -> Spread:
    return spread_of([amount / value for value in seconds])


def _bandwidth(plan: ProbePlan, samples: Samples) -> StreamBandwidth:
    rates = {
        f"{name}_bytes_per_s": _rate(ARRAYS_MOVED[name] * plan.array_bytes, samples[StreamCase(name)])
        for name in STREAM_KERNELS
    }
    return StreamBandwidth(**rates)


def _product_time(case: ProductCase, seconds: Spread) -> ProductTime:
    size = {"n_out": case.weights.n_out, "n_in": case.weights.n_in}
    return ProductTime(arithmetic=case.arithmetic, **size, rows=case.rows, seconds=seconds)


def _attention_time(backend: Backend, case: AttentionCase, seconds: Spread) -> AttentionTime:
    return AttentionTime(**asdict(backend.heads), **asdict(case), seconds=seconds)


def _pass_time(case: PassCase, seconds: Spread) -> PassTime:
    return PassTime(**asdict(case), seconds=seconds)


def _warnings(outcome: Outcome, noise: float, drift: float) -> list[str]:
    lines = []
    if outcome.unmeasured:
        named = "; ".join(outcome.unmeasured[:_NAMED])
        more = f"; and {len(outcome.unmeasured) - _NAMED} more" if len(outcome.unmeasured) > _NAMED else ""
        lines.append(f"no time for: {named}{more}")
    if noise > NOISY:
        lines.append(f"noisy: the middle 80 % of repeats span {noise:.0%} of the median; probe again when it is quiet")
    if not DRIFTED[0] <= drift <= DRIFTED[1]:
        lines.append(f"drifted: bandwidth at the end was {drift:.2f} of that at the start; probe again")
    return lines


def hardware_profile(name: str, peak: Figure | None, backend: Backend, record: ProbeRecord) -> HardwareProfile:
    """The profile of a machine that was probed.

    Parameters
    ----------
    name : str
        Short id.
    peak : Figure, optional
        Theoretical bandwidth, if it is known.
    backend : Backend
    record : ProbeRecord

    Raises
    ------
    BadInput
        If more was sustained than the peak that was stated.
    """
    facts, source = backend.facts, f"specbook probe of {record.date}"
    sustained = record.bandwidth.read_bytes_per_s.median
    if peak is not None and sustained > peak.value:
        problem = f"is below the {sustained / 1e9:.1f} GB/s that the probe sustained"
        stated = f"{peak.value / 1e9:g} GB/s, {peak.source}"
        raise BadInput(problem, field="peak bandwidth", value=stated, remedy="correct the peak")

    def measured(value: float, note: str) -> Figure:
        return Figure(value=value, evidence="measured", source=source, note=note)

    rate = measured(record.matmul_flops_per_s.median, "one large square product")
    return HardwareProfile(
        schema="specbook-hardware/1",
        name=name,
        device=facts.device,
        vendor=facts.vendor,
        kind=facts.kind,
        memory_bytes=measured(facts.memory_bytes, "as the system states it"),
        peak_bandwidth_bytes_per_s=peak,
        sustained_bandwidth_bytes_per_s=measured(sustained, f"median of {record.bandwidth.read_bytes_per_s.n} reads"),
        peak_flops_per_s=PeakFlops(**{backend.rate_precision: rate}),
        step_times=_step_times(name, backend, record),
        probe=record.model_copy(update={"warnings": [*record.warnings, *_peak_warnings(peak, record)]}),
    )


def _peak_warnings(peak: Figure | None, record: ProbeRecord) -> list[str]:
    sustained = record.bandwidth.read_bytes_per_s.median
    if peak is None or sustained >= _LOW_MBU * peak.value:
        return []
    conditions = (
        f"{record.blas['threads']} of {record.n_processors} processors measured, the peak is the whole device's"
    )
    return [f"MBU {sustained / peak.value:.2f}: {conditions}"]


def _step_times(name: str, backend: Backend, record: ProbeRecord) -> list[StepTimeTable]:
    """Medians as tables, one a model and arithmetic."""
    groups: dict[tuple[str, str], list[PassTime]] = {}
    for time in record.passes:
        groups.setdefault((time.model, time.arithmetic), []).append(time)
    return [
        StepTimeTable(
            schema="specbook-step-times/1",
            model=model,
            hardware=name,
            engine=backend.engine_name(arithmetic),
            source=f"specbook probe of {record.date}",
            points=[_point(time) for time in times],
        ).full_part()
        for (model, arithmetic), times in groups.items()
    ]


def _point(time: PassTime) -> StepTimePoint:
    return StepTimePoint(batch=time.batch, context=time.context, width=time.width, seconds=time.seconds.median)
