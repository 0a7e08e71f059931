"""From models, a device and acceptance evidence to an engine that can be simulated: times, memory, drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from specbook.acceptance.candidates import Assumption
from specbook.acceptance.draft_models import FixedAcceptance
from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput
from specbook.funnel_config import FunnelConfig
from specbook.funnel_notes import MEMORY, funnel_notes
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.drafting import MethodName, drafter_cost, drafter_of, drafter_weight_bytes
from specbook.roofline.hosted import engine_drafter, engine_step, sequential_part
from specbook.roofline.measured_steps import MeasuredSteps, measured_steps
from specbook.roofline.pass_cost import StepCost, step_cost
from specbook.roofline.step_time import DoctrineRoofline, StepTime, device_rates
from specbook.serving.draft_policy import DraftPolicy, FixedDraft, ScheduledDraft
from specbook.serving.draft_time import DraftTime, NoDraft, SteppedDraft
from specbook.serving.iteration_time import IterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.profile_laws import KnownLaw, model_laws, profile_laws
from specbook.serving.round_law import RoundLaw
from specbook.serving.serving_config import RoutingName, SchedulerName, ServingConfig
from specbook.serving.step_time_file import read_draft_time, read_iteration_time
from specbook.serving.stepped_time import SteppedTime

# What engines take of a device's memory for weights and cache unless they are told otherwise.
MEMORY_SHARE = 0.9
# Of all blocks, those that stay free when a request is admitted.
WATERMARK_SHARE = 0.01
_LONGEST_DRAFT = 64
_STATE_ACCEPTANCE = "state --acceptance or --conditional-acceptance"


@dataclass(frozen=True, kw_only=True)
class DraftEvidence:
    """What is known of acceptance, and what should be drafted.

    Attributes
    ----------
    profiles : tuple of AcceptanceProfile
        Of one drafter; or
    conditional_acceptance : float or None
        one acceptance for every position, given that the one before was accepted. Neither: nothing is drafted.
    draft_length : int or None
        K of every round; None takes the one that was measured.
    schedule : mapping of (int, int) to int, or None
        K by batch and context, as :class:`~specbook.serving.draft_policy.ScheduledDraft` takes it.
    assume : "none" or "truncation"
    """

    profiles: tuple[AcceptanceProfile, ...] = ()
    conditional_acceptance: float | None = None
    draft_length: int | None = None
    schedule: Mapping[tuple[int, int], int] | None = None
    assume: Assumption = "none"

    @property
    def lengths(self) -> tuple[int, ...]:
        """Draft lengths that were asked for, rising."""
        asked = [] if self.draft_length is None else [self.draft_length]
        return tuple(sorted({*asked, *(self.schedule or {}).values()}))

    @property
    def chosen_by(self) -> str:
        """The attribute that asks for them."""
        return "draft_length" if self.schedule is None else "schedule"


@dataclass(frozen=True, kw_only=True)
class Drafts:
    """A policy, and where the law of each of its draft lengths comes from."""

    policy: DraftPolicy
    assumptions: tuple[str, ...]

    @property
    def deepest(self) -> int:
        """Most draft passes of a round; 0 where nothing is drafted."""
        return max(law.draft_length for law in self.policy.laws)

    @property
    def most_tokens(self) -> int:
        """Most tokens that a round drafts."""
        return max(law.n_nodes for law in self.policy.laws)


def drafts_from(evidence: DraftEvidence) -> Drafts:
    """The policy that the evidence and the choice of draft length give.

    Parameters
    ----------
    evidence : DraftEvidence

    Raises
    ------
    BadInput
        If the evidence does not speak for a draft length, or a choice contradicts another.

    Examples
    --------
    >>> drafts = drafts_from(DraftEvidence(conditional_acceptance=0.8, schedule={(1, 0): 4, (16, 0): 0}))
    >>> [law.draft_length for law in drafts.policy.laws], drafts.assumptions
    ([0, 4], ('K = 4: fixed draft model',))
    """
    _check_choices(evidence)
    if not evidence.profiles and evidence.conditional_acceptance is None:
        return Drafts(policy=FixedDraft(), assumptions=())
    known = _known_laws(evidence)
    if evidence.schedule is not None:
        laws = {length: _law(known, length, evidence) for length in evidence.lengths}
        policy: DraftPolicy = ScheduledDraft(schedule=evidence.schedule, law_by_length=laws)
    else:
        length = _measured_length(known) if evidence.draft_length is None else evidence.draft_length
        policy = FixedDraft(law=_law(known, length, evidence))
    used = sorted({law.draft_length for law in policy.laws} - {0})
    return Drafts(policy=policy, assumptions=tuple(f"K = {length}: {known[length].assumption}" for length in used))


def _check_choices(evidence: DraftEvidence) -> None:
    has_law = bool(evidence.profiles) or evidence.conditional_acceptance is not None
    if evidence.profiles and evidence.conditional_acceptance is not None:
        problem, remedy = "is stated beside profiles", "leave it out, or the profiles"
        raise BadInput(problem, field="conditional_acceptance", value=evidence.conditional_acceptance, remedy=remedy)
    if evidence.schedule is not None and evidence.draft_length is not None:
        remedy = "leave one of them out"
        raise BadInput("is stated beside a schedule", field="draft_length", value=evidence.draft_length, remedy=remedy)
    if evidence.lengths and not has_law:
        problem, remedy = "is drafted, and nothing says what is accepted", _STATE_ACCEPTANCE
        raise BadInput(problem, field=evidence.chosen_by, value=evidence.lengths[-1], remedy=remedy)
    if evidence.conditional_acceptance is not None and not evidence.lengths:
        remedy = "state --draft-length or --schedule"
        raise BadInput("no draft length goes with it", field="conditional_acceptance", remedy=remedy)


def _known_laws(evidence: DraftEvidence) -> dict[int, KnownLaw]:
    if evidence.conditional_acceptance is not None:
        model = FixedAcceptance(acceptance=evidence.conditional_acceptance)
        return model_laws(model, [length for length in evidence.lengths if length])
    return profile_laws(evidence.profiles, assume=evidence.assume, max_draft_length=_LONGEST_DRAFT)


def _law(known: Mapping[int, KnownLaw], length: int, evidence: DraftEvidence) -> RoundLaw:
    if length in known:
        return known[length].law
    problem = f"the evidence does not speak for it, but for {', '.join(map(str, sorted(known)))}"
    remedy = "bring a profile of that length"
    if evidence.assume == "none":
        remedy += ", or pass --assume truncation, which takes shorter drafts from longer ones"
    raise BadInput(problem, field=evidence.chosen_by, value=length, remedy=remedy)


def _measured_length(known: Mapping[int, KnownLaw]) -> int:
    drafted = sorted(length for length in known if length)
    measured = [length for length in drafted if known[length].assumption.startswith("measured")]
    for lengths in (measured, drafted):
        if len(lengths) == 1:
            return lengths[0]
    problem = f"the evidence speaks for several, {', '.join(map(str, drafted))}"
    remedy = "choose one with --draft-length, or some with --schedule"
    raise BadInput(problem, field="draft_length", remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """An engine's scheduler and limits; None where specbook chooses.

    Attributes
    ----------
    scheduler : str
    max_batch, chunk_tokens, block_size_tokens, n_replicas : int
    n_blocks : int or None
        None takes what fits beside the weights, where the models are known.
    watermark_blocks : int or None
        None takes 1 % of the blocks.
    routing : str
    max_waiting : int
        Requests that may wait at one replica before the run is stopped.
    """

    scheduler: SchedulerName = "vllm-v1"
    max_batch: int = 256
    chunk_tokens: int = 2048
    block_size_tokens: int = 16
    n_blocks: int | None = None
    watermark_blocks: int | None = None
    n_replicas: int = 1
    routing: RoutingName = "round_robin"
    max_waiting: int = 100_000


@dataclass(frozen=True, kw_only=True)
class ServingSetup:
    """An engine to simulate, and what should be said of it.

    Attributes
    ----------
    config, baseline : ServingConfig
        With drafts, and without; the same where nothing is drafted.
    kv_text : str
        How many blocks there are, and who says so.
    flops_per_token : float or None
        Arithmetic of one position of the target's pass; None where the model is not known.
    assumptions, notes : tuple of str
    """

    config: ServingConfig
    baseline: ServingConfig
    kv_text: str
    flops_per_token: float | None
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


def setup_from_file(path: Path, drafts: Drafts, limits: EngineLimits) -> ServingSetup:
    """An engine whose iterations take what a step-time file states.

    Raises
    ------
    BadInput
        If the file cannot be used, or the number of KV blocks is missing.
    """
    iteration_time, draft_time = read_iteration_time(path), read_draft_time(path)
    if limits.n_blocks is None:
        remedy = "give the engine's own count; a step-time file does not say how much memory there is"
        raise BadInput("the number of KV blocks is missing", field="--kv-blocks", remedy=remedy)
    free = drafts.deepest > 0 and isinstance(draft_time, NoDraft)
    note = "drafting costs nothing here, since the step-time file states no draft_ms_per_pass"
    config = _config(iteration_time, draft_time, drafts.policy, limits, limits.n_blocks)
    return ServingSetup(
        config=config,
        baseline=_plain(config, config.kv),
        kv_text=_stated_blocks(config.kv),
        flops_per_token=None,
        assumptions=drafts.assumptions,
        notes=(note,) if free else (),
    )


def setup_from_models(funnel: FunnelConfig, drafts: Drafts, limits: EngineLimits) -> ServingSetup:
    """An engine whose iterations take what the roofline, or its measured passes, say of its models.

    Parameters
    ----------
    funnel : FunnelConfig
        Of one device; the longest of its contexts is the longest request of the load.
    drafts : Drafts
    limits : EngineLimits

    Raises
    ------
    BadInput
        If nothing is left for the cache, a drafter's cost is not modelled, or measured passes are missing.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> evidence = DraftEvidence(profiles=example_funnel().profiles)
    >>> setup = setup_from_models(example_funnel(), drafts_from(evidence), EngineLimits())
    >>> setup.config.iteration_time.kind, setup.config.kv.n_blocks < setup.baseline.kv.n_blocks
    ('calibrated', True)
    """
    method = _method(funnel) if drafts.deepest else None
    longest_tokens = max(funnel.contexts) + drafts.most_tokens + 1
    with_drafter, without = (_blocks(funnel, each, drafts.deepest, limits) for each in (method, None))
    config = _config(
        _iteration_time(funnel, longest_tokens),
        _draft_time(funnel, method, longest_tokens),
        drafts.policy,
        limits,
        with_drafter,
    )
    fits = limits.n_blocks is None
    cost = step_cost(funnel.target, funnel.precision)
    return ServingSetup(
        config=config,
        baseline=_plain(config, _kv(limits, without) if fits else config.kv),
        kv_text=_fitting_blocks(config.kv, without) if fits else _stated_blocks(config.kv),
        flops_per_token=cost.flops_per_token,
        assumptions=drafts.assumptions,
        notes=tuple(_notes(funnel, drafts)),
    )


def _config(
    iteration_time: IterationTime, draft_time: DraftTime, policy: DraftPolicy, limits: EngineLimits, n_blocks: int
) -> ServingConfig:
    return ServingConfig(
        scheduler=limits.scheduler,
        max_batch=limits.max_batch,
        chunk_tokens=limits.chunk_tokens,
        kv=_kv(limits, n_blocks),
        iteration_time=iteration_time,
        draft_time=draft_time,
        policy=policy,
        n_replicas=limits.n_replicas,
        routing=limits.routing,
        max_waiting=limits.max_waiting,
    )


def _plain(config: ServingConfig, kv: KvConfig) -> ServingConfig:
    """The same engine without a drafter, whose pass over the prompts is gone as well."""
    return replace(config, kv=kv, policy=FixedDraft(), draft_time=NoDraft())


def _kv(limits: EngineLimits, n_blocks: int) -> KvConfig:
    watermark = int(WATERMARK_SHARE * n_blocks) if limits.watermark_blocks is None else limits.watermark_blocks
    if watermark >= n_blocks:
        problem, remedy = f"is not below the {n_blocks} blocks that there are", "keep fewer blocks free"
        raise BadInput(problem, field="watermark_blocks", value=watermark, remedy=remedy)
    return KvConfig(n_blocks=n_blocks, block_size_tokens=limits.block_size_tokens, watermark_blocks=watermark)


def _stated_blocks(kv: KvConfig) -> str:
    return (
        f"KV cache: {kv.n_blocks:,} blocks of {kv.block_size_tokens} tokens as stated, {kv.watermark_blocks} kept free"
    )


def _fitting_blocks(kv: KvConfig, without: int) -> str:
    drafter = f" ({without:,} without the drafter)" if without != kv.n_blocks else ""
    return (
        f"KV cache: {kv.n_blocks:,} blocks of {kv.block_size_tokens} tokens{drafter}, what {MEMORY_SHARE:.0%} of the "
        "memory leaves beside the weights; an engine leaves less, so give its own count with --kv-blocks if you know it"
    )


def _method(funnel: FunnelConfig) -> MethodName:
    """What drafting costs like, where the simulator can play it."""
    if not (funnel.profiles or funnel.draft or funnel.method):
        problem = "an assumed acceptance does not say what drafts, nor what that costs"
        raise BadInput(problem, field="method", remedy="state --draft or --method")
    method = funnel.method_of(funnel.profiles[0].method if funnel.profiles else None)
    if method == "lookahead":
        remedy = "simulate another method"
        raise BadInput("its verify passes are wider than K + 1", field="method", value=method, remedy=remedy)
    if funnel.step_time == "measured" and method in ("eagle", "eagle3", "mtp", "medusa"):
        remedy = "use --step-time calibrated, which models it"
        raise BadInput("measured passes are of whole models", field="method", value=method, remedy=remedy)
    return method


def _blocks(funnel: FunnelConfig, method: MethodName | None, n_heads: int, limits: EngineLimits) -> int:
    """Blocks of one device that its share of the weights leaves room for; those that were stated, if they were."""
    if limits.n_blocks is not None:
        return limits.n_blocks
    share, memory_bytes = funnel.tensor_parallel, funnel.hardware[0].memory_bytes.value
    weight_bytes = funnel.target.weight_bytes(funnel.precision)
    kv_bytes = step_cost(funnel.target, funnel.precision, tensor_parallel=share).kv_bytes_per_token
    if method is not None:
        weight_bytes += drafter_weight_bytes(method, funnel.target, funnel.draft, funnel.draft_precision, n_heads)
        cost = drafter_cost(method, funnel.target, funnel.draft, funnel.draft_precision, share)
        kv_bytes += 0.0 if cost is None else cost.kv_bytes_per_token
    left_bytes = MEMORY_SHARE * memory_bytes - weight_bytes / share
    n_blocks = int(left_bytes / (limits.block_size_tokens * kv_bytes))
    if n_blocks < 1:
        problem = f"{weight_bytes / share / 1e9:,.1f} GB of weights leave no room for a cache on {share} × "
        problem += f"{funnel.hardware[0].name}"
        remedy = "narrower weights (--precision), more devices (--tensor-parallel), or state --kv-blocks"
        raise BadInput(problem, field="target", value=funnel.target.name, remedy=remedy)
    return n_blocks


def _iteration_time(funnel: FunnelConfig, longest_tokens: int) -> SteppedTime:
    roofline = _roofline(funnel, step_cost(funnel.target, funnel.precision, tensor_parallel=funnel.tensor_parallel))
    if funnel.step_time != "measured":
        step = engine_step(funnel.overheads, roofline)
        # Kernels for few rows lose what a step in an engine adds; those for prompts do not.
        prefill = None if step is roofline else roofline
        return SteppedTime(step=step, max_context_tokens=longest_tokens, prefill=prefill)
    if funnel.tensor_parallel > 1:
        remedy = "use --step-time calibrated, which models what devices exchange"
        value = funnel.tensor_parallel
        raise BadInput("measured passes are of one device", field="tensor_parallel", value=value, remedy=remedy)
    measured = measured_steps(funnel.hardware[0], funnel.target.name, funnel.backend)
    low, high = _measured_contexts(measured, longest_tokens)
    # Verify passes are a few positions wide; nobody measures prompts so.
    return SteppedTime(step=measured, min_context_tokens=low, max_context_tokens=high, prefill=roofline)


def _draft_time(funnel: FunnelConfig, method: MethodName | None, longest_tokens: int) -> DraftTime:
    if method is None:
        return NoDraft()
    name = funnel.draft_precision
    cost = drafter_cost(method, funnel.target, funnel.draft, name, funnel.tensor_parallel)
    if cost is None:
        drafter = engine_drafter(funnel.overheads, drafter_of(method, None))
        return SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=longest_tokens)
    step, low, high = _roofline(funnel, cost, name), 0, longest_tokens
    if funnel.step_time == "measured" and funnel.draft is not None:
        measured = measured_steps(funnel.hardware[0], funnel.draft.name, funnel.backend)
        step, (low, high) = measured, _measured_contexts(measured, longest_tokens)
    drafter = engine_drafter(funnel.overheads, drafter_of(method, step))
    # Nobody needs logits of a drafter over a prompt, so that its output head is left out there.
    headless = replace(cost, products=cost.products[:-1])
    prefill = None if sequential_part(drafter) is None else _roofline(funnel, headless, name)
    return SteppedDraft(drafter=drafter, prefill_step=prefill, min_context_tokens=low, max_context_tokens=high)


def _measured_contexts(step: MeasuredSteps, longest_tokens: int) -> tuple[int, int]:
    return (int(step.context[0]), int(step.context[-1])) if step.context.size else (0, longest_tokens)


def _roofline(funnel: FunnelConfig, cost: StepCost, precision_name: str | None = None) -> StepTime:
    device, name = funnel.hardware[0], precision_name or funnel.precision
    if funnel.step_time == "doctrine":
        return DoctrineRoofline(cost=cost, device=device_rates(device, name))
    backend = funnel.backend if funnel.step_time == "calibrated" else None
    return CalibratedRoofline(cost=cost, rates=calibrated_rates(device, name, backend))


def _notes(funnel: FunnelConfig, drafts: Drafts) -> Iterable[str]:
    yield from (text for text in funnel_notes(funnel, []) if text != MEMORY)
    if funnel.step_time == "measured":
        yield "prompts take calibrated step times, since passes over them were not measured"
    if any("truncation" in text for text in drafts.assumptions):
        yield "acceptance at a position is taken not to depend on the draft length"
