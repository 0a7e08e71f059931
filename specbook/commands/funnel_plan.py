"""From the options of ``specbook funnel`` to a plan: what is given, what is measured, and the load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from specbook.checks import BadInput
from specbook.commands.projection import funnel_config, integers
from specbook.commands.serving_options import MOST_IN_MEMORY, ArrivalsChoice, Load, LoadOptions, load_of, positive
from specbook.files import sha256_of

if TYPE_CHECKING:
    from specbook.serving.slo import Slo
    from specbook.stages.load import FunnelLoad
    from specbook.stages.plan import FunnelPlan, MeasurePlan

NATIVE_TARGET, NATIVE_DRAFT = "specbook-target-r8", "specbook-draft"
MEASURED_DOMAINS, MEASURED_LENGTHS = "code,mathematics,chat,summarisation", "1,2,3,4,5,6,8"
# Weight format of other people's models, where none is named.
_WIDE = "bf16"
# What the witness computes with, where --backend names no arithmetic of the native engine.
_ARITHMETIC = "fast"
# Drafters of the native engine that are a model of their own.
_SMALL_MODELS = ("small", "tree")
_LONGEST_DRAFT = 32
_MEAN_BATCH = 8.0
_N_REQUESTS = 400
_PROMPTS, _OUTPUTS = "lognormal:512,0.6", "lognormal:128,0.6"


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What ``--measure`` measures, in the words of its options."""

    drafter: str
    domains: str
    draft_lengths: str


@dataclass(frozen=True, kw_only=True)
class FunnelRequest:
    """Everything that the command is asked for.

    ``choices`` are options of :func:`~specbook.commands.projection.funnel_config`, ``limits`` those of
    :class:`~specbook.serving_setup.EngineLimits`, ``witness`` those of :class:`~specbook.stages.plan.WitnessPlan`.
    """

    acceptance: tuple[str, ...]
    measured: MeasureOptions | None
    hardware: tuple[str, ...]
    probe_seconds: float | None
    target: str | None
    draft: str | None
    axes: tuple[str, str]
    precision: str | None
    draft_precision: str | None
    choices: Mapping[str, Any]
    load: LoadOptions
    mean_batch: float | None
    limits: Mapping[str, Any]
    slo: Slo
    witness: Mapping[str, Any]
    stages: int
    seed: int


def plan_of(request: FunnelRequest) -> FunnelPlan:
    """The plan that a request comes to, refused here where no stage could carry it out.

    Raises
    ------
    BadInput
        If options contradict each other, something is missing, or the evidence cannot be used.
    """
    from specbook.roofline.model_spec import model
    from specbook.serving_setup import EngineLimits
    from specbook.stages.plan import NATIVE_FORMAT, NATIVE_TARGETS, FunnelPlan, ProbePlan, WitnessPlan

    _check_sources(request)
    measure = None if request.measured is None else _measure_plan(request.measured, request.seed)
    target, seconds = model(_target(request)).name, request.probe_seconds
    drafter = request.draft or (native_draft(measure.drafter) if measure is not None else None)
    weight_format = NATIVE_FORMAT if target in NATIVE_TARGETS else _WIDE
    choices = funnel_config(
        request.acceptance,
        request.hardware,
        (target, drafter),
        request.axes,
        precision=request.precision or weight_format,
        draft_precision=request.draft_precision or weight_format,
        **request.choices,
    )
    plan = FunnelPlan(
        choices=choices if seconds is None else replace(choices, hardware=()),
        load=funnel_load(request.load, request.mean_batch, request.seed),
        slo=request.slo,
        limits=EngineLimits(**request.limits),
        measure=measure,
        probe=None if seconds is None else ProbePlan(budget_s=seconds, seed=request.seed),
        witness=WitnessPlan(arithmetic=_arithmetic(choices.backend), **request.witness),
        last_stage=request.stages,
        seed=request.seed,
    )
    _check_plan(plan)
    return plan


def _check_sources(request: FunnelRequest) -> None:
    """Evidence and devices are given or measured, one of the two."""
    from specbook.hardware.probe.plan import LEAST_BUDGET_S, MOST_BUDGET_S

    if request.acceptance and request.measured is not None:
        named = list(request.acceptance)
        raise BadInput("means nothing beside --measure", field="--acceptance", value=named, remedy="leave one out")
    if not request.acceptance and request.measured is None:
        remedy = "name a profile with --acceptance, or measure with --measure; --quick chooses everything"
        raise BadInput("no evidence of acceptance", field="--acceptance", remedy=remedy)
    seconds = request.probe_seconds
    given: dict[str, Any] = {"--hardware": request.hardware, "--steps": request.choices.get("steps")}
    for option, value in given.items():
        if seconds is not None and value:
            shown = [str(each) for each in value]
            raise BadInput("means nothing beside --probe-seconds", field=option, value=shown, remedy="leave one out")
    if seconds is not None and not LEAST_BUDGET_S <= seconds <= MOST_BUDGET_S:
        remedy = f"give {LEAST_BUDGET_S:g} to {MOST_BUDGET_S:g}"
        raise BadInput("is no time to probe a machine in", field="--probe-seconds", value=seconds, remedy=remedy)


def _target(request: FunnelRequest) -> str:
    if request.target is not None:
        return request.target
    if request.measured is None:
        raise BadInput("no target is named", field="--target", remedy="name a model of specbook models")
    return NATIVE_TARGET


def _arithmetic(backend: str | None) -> str:
    """What the witness computes with: that of the projection, where it is one of the native engine."""
    from specbook.engine.arithmetic import ARITHMETICS

    return backend if backend in ARITHMETICS else _ARITHMETIC


def _measure_plan(options: MeasureOptions, seed: int) -> MeasurePlan:
    from specbook.engine.library.drafters import drafter_name
    from specbook.measuring.prompts import domains
    from specbook.stages.plan import MeasurePlan

    drafter_name(options.drafter)
    names = tuple(dict.fromkeys(name.strip() for name in options.domains.split(",")))
    for name in names:
        if name not in domains():
            remedy = f"some of {', '.join(domains())}"
            raise BadInput("no such domain", field="--domains", value=name, remedy=remedy)
    lengths = integers(options.draft_lengths, "--draft-lengths", _LONGEST_DRAFT)
    return MeasurePlan(drafter=options.drafter, domains=names, draft_lengths=lengths, seed=seed)


def funnel_load(options: LoadOptions, mean_batch: float | None, seed: int) -> FunnelLoad:
    """The load that stage 4 puts on every device.

    Parameters
    ----------
    options : LoadOptions
    mean_batch : float or None
        Requests at once; each device then gets a rate of its own. None: eight, unless a trace or a rate says how fast
        they come.
    seed : int

    Raises
    ------
    BadInput
        If options contradict each other, or the trace cannot be used.

    Examples
    --------
    >>> load = funnel_load(LoadOptions(requests=50), None, 0)
    >>> load.mean_batch, load.workload.n_requests
    (8.0, 50)
    """
    from specbook.stages.load import FunnelLoad

    _check_load(options, mean_batch)
    if mean_batch is None and options.trace is None and options.rate is None:
        mean_batch = _MEAN_BATCH
    load = load_of(_filled(options, mean_batch), seed)
    if load.n_requests > MOST_IN_MEMORY:
        problem = f"holds {load.n_requests:,} requests, which every configuration would be simulated with"
        raise BadInput(problem, field="--trace", value=str(options.trace), remedy="take some of them with --first")
    return FunnelLoad(
        workload=load.whole(), mean_batch=mean_batch, about=_about(options, load, seed), notes=_load_notes(load)
    )


def _check_load(options: LoadOptions, mean_batch: float | None) -> None:
    if options.arrivals is ArrivalsChoice.closed:
        remedy = "choose other --arrivals, or simulate with specbook simulate"
        raise BadInput("is no load for a funnel", field="--arrivals", value="closed", remedy=remedy)
    if mean_batch is None:
        return
    positive("--mean-batch", mean_batch)
    for name in ("rate", "at_rate", "time_factor"):
        if getattr(options, name) is not None:
            problem = "says how fast requests come, as --mean-batch does"
            option = f"--{name.replace('_', '-')}"
            raise BadInput(problem, field=option, value=getattr(options, name), remedy="leave one of them out")


def _filled(options: LoadOptions, mean_batch: float | None) -> LoadOptions:
    """With what a funnel takes where nothing is said; one request a second where the device decides the rate."""
    if options.trace is not None:
        return options if mean_batch is None else replace(options, at_rate=1.0)
    return replace(
        options,
        rate=options.rate if mean_batch is None else 1.0,
        requests=options.requests or _N_REQUESTS,
        prompt_tokens=options.prompt_tokens or _PROMPTS,
        output_tokens=options.output_tokens or _OUTPUTS,
    )


def _about(options: LoadOptions, load: Load, seed: int) -> Mapping[str, Any]:
    """What identifies the requests, beside their own SHA-256."""
    given = {name: value for name, value in asdict(options).items() if value not in (None, False) and name != "trace"}
    if options.trace is None:
        return {**given, "seed": seed}
    trace = {"file": options.trace.name, "sha256": sha256_of(options.trace), "format": load.trace_format}
    return {**given, "trace": trace, "skipped": dict(load.skipped)}


def _load_notes(load: Load) -> tuple[str, ...]:
    skipped = [f"{count:,} rows of the trace were skipped: {reason}" for reason, count in load.skipped.items()]
    return (*load.notes, *skipped)


def native_draft(drafter: str) -> str | None:
    """The draft model of a drafter of the native engine; None for one that is no model of its own.

    Examples
    --------
    >>> native_draft("small"), native_draft("medusa")
    ('specbook-draft', None)
    """
    return NATIVE_DRAFT if drafter in _SMALL_MODELS else None


def _check_plan(plan: FunnelPlan) -> None:
    """Refuse before anything runs evidence, methods and measured passes that no stage could make use of."""
    from specbook.stages.acceptance import usable_profiles

    if plan.measure is not None:
        _check_witness_tokens(plan.witness.new_tokens, max(plan.measure.draft_lengths))
        return
    profiles = usable_profiles(plan.choices)
    if plan.choices.hardware:
        replace(plan.choices, profiles=profiles).grids()


def _check_witness_tokens(new_tokens: int, longest: int) -> None:
    """Rounds must remain after the first one, which may give the whole draft and a token more."""
    if new_tokens <= longest + 1:
        remedy = f"take more than {longest + 1}, or shorter --draft-lengths"
        problem = f"are no more than a round with K = {longest} gives"
        raise BadInput(problem, field="--witness-tokens", value=new_tokens, remedy=remedy)


def quick_plan() -> FunnelPlan:
    """A funnel of the native engine on this machine, all stages within 90 seconds.

    One request runs at a time, as the engine decodes; the load keeps it busy half of the time.

    Examples
    --------
    >>> plan = quick_plan()
    >>> plan.choices.target.name, plan.limits.max_batch
    ('specbook-target-r8', 1)
    """
    from specbook.funnel_config import FunnelConfig
    from specbook.roofline.model_spec import model
    from specbook.serving_setup import EngineLimits
    from specbook.stages.plan import FunnelPlan, MeasurePlan, ProbePlan, WitnessPlan

    witness = WitnessPlan(n_prompts=8, new_tokens=64)
    choices = FunnelConfig(
        profiles=(),
        hardware=(),
        target=model(NATIVE_TARGET),
        draft=model(NATIVE_DRAFT),
        batches=(1, 2, 4, 8, 16),
        contexts=(128, 512, 2048),
        precision="fp32",
        draft_precision="fp32",
        backend=witness.arithmetic,
    )
    drawn = LoadOptions(requests=200, prompt_tokens="lognormal:64,0.4", output_tokens="lognormal:64,0.4")
    return FunnelPlan(
        choices=choices,
        load=funnel_load(drawn, 0.5, 0),
        limits=EngineLimits(max_batch=1),
        measure=MeasurePlan(
            domains=("code", "chat"), draft_lengths=(1, 2, 3, 4, 6), n_prompts=12, new_tokens=48, arithmetic="fast"
        ),
        probe=ProbePlan(budget_s=25.0),
        witness=witness,
    )
