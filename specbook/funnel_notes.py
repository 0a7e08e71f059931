"""What the funnel's figures assume, and what is odd about its inputs: a sentence each, printed beside every result."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.acceptance.candidates import MEASURED, DraftCandidates
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile
from specbook.funnel_config import FunnelConfig
from specbook.roofline.calibrations import ASSUMED_LINK_BYTES_PER_S, calibration_label, calibration_of
from specbook.roofline.model_spec import ModelSpec, precision, same_model

_IDEAL = (
    "step times are an ideal roofline: perfect overlap, no cost per kernel. Measured steps are longer, the drafter's "
    "most of all, so these speedups are mostly too high: use them to discard, and measure before you believe a gain"
)
_CALIBRATED = (
    "step times are calibrated, {sources}. Sampling, scheduling and the server's own time between steps are not in "
    "them, so a measured gain is mostly smaller still; --engine-overheads adds what an engine was found to spend"
)
_HOSTED = (
    "step times are calibrated, {sources}. What an engine spends beside the passes is in them, {engine}; prompts and "
    "requests that come and go are not"
)
_MEASURED = (
    "step times are measured passes, interpolated between the measured points and never beyond them, with weights as "
    "they were measured; the stated format counts in memory alone"
)
_ADDED = "what an engine spends beside the passes is added, {engine}"
_ADDED_TO_MEASURED = f"{_ADDED}; passes that were measured inside a server hold some of it already"
MEMORY = "memory is counted in full: weights and cache, with nothing set aside for activations or the runtime"


def funnel_notes(config: FunnelConfig, candidates: Sequence[DraftCandidates]) -> tuple[str, ...]:
    """Everything that the reader of a projection should know.

    Parameters
    ----------
    config : FunnelConfig
    candidates : sequence of DraftCandidates
        One for each grid.

    Returns
    -------
    tuple of str
        Sentences; the first two always apply.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> funnel_notes(example_funnel(), [])[1].startswith("memory is counted in full")
    True
    """
    return (
        _step_time_note(config),
        MEMORY,
        *_overhead_notes(config),
        *_identity_notes(config),
        *_pair_notes(config),
        *_assumption_notes(candidates),
        *_hardware_notes(config),
    )


def _step_time_note(config: FunnelConfig) -> str:
    if config.step_time == "doctrine":
        return _IDEAL
    if config.step_time == "measured":
        return _MEASURED
    names: dict[str, list[str]] = {}
    for profile in config.hardware:
        names.setdefault(calibration_label(profile, config.backend), []).append(profile.name)
    sources = "; ".join(f"{label} ({', '.join(who)})" for label, who in names.items())
    sources = next(iter(names)) if len(names) == 1 else sources
    if config.overheads is not None:
        return _HOSTED.format(sources=sources, engine=config.overheads.label)
    return _CALIBRATED.format(sources=sources)


def _overhead_notes(config: FunnelConfig) -> list[str]:
    """Where an engine's seconds are in step times whose own note does not speak of them."""
    if config.overheads is None or config.step_time == "calibrated":
        return []
    text = _ADDED_TO_MEASURED if config.step_time == "measured" else _ADDED
    return [text.format(engine=config.overheads.label)]


def _assumption_notes(candidates: Sequence[DraftCandidates]) -> list[str]:
    assumed = sorted({text for each in candidates for text in each.assumptions if not text.startswith(MEASURED)})
    long, short = (library_profile(f"vllm-48892-mtp-k{k}").marginal_acceptance or [0.0] for k in (8, 1))
    added = sorted({text for each in candidates for text in each.assumptions if text.startswith(f"{MEASURED}, ")})
    return [f"acceptance at its own draft length: {text}" for text in added] + [
        f"{text}: {_LENGTH_NOTE.format(short[0], long[0])}" if "truncation" in text else f"acceptance from {text}"
        for text in assumed
    ]


_LENGTH_NOTE = (
    "acceptance at a position is taken not to depend on the draft length; position 1 was accepted in {:.1%} of rounds "
    "at K = 1 and in {:.1%} at K = 8 on one server (vllm-project/vllm#48892)"
)


def _identity_notes(config: FunnelConfig) -> list[str]:
    """Where the pair that is projected is not the pair that acceptance was measured on."""
    draft = config.draft
    targets = sorted({p.target for p in config.profiles if p.target and not same_model(p.target, config.target)})
    unnamed = any(profile.target is None for profile in config.profiles)
    drafted = [p for p in config.profiles if draft is not None and config.method_of(p.method) == "draft_model"]
    drafters = [] if draft is None else sorted({text for p in drafted if (text := _other_drafter(p, draft))})
    return [
        *(
            f"acceptance was measured on {name}, not on {config.target.name}; it belongs to the pair it was measured on"
            for name in targets
        ),
        *(["the evidence does not name its target; it belongs to the pair it was measured on"] if unnamed else []),
        *(
            f"acceptance was measured with {name}; the time of a draft is that of {draft.name if draft else ''}"
            for name in drafters
        ),
    ]


def _pair_notes(config: FunnelConfig) -> list[str]:
    """What is odd about the two models, whatever the evidence."""
    target, draft, notes = config.target, config.draft, []
    specs = [target] if draft is None else [target, draft]
    if draft is not None and target.vocab_size != draft.vocab_size:
        notes.append(
            f"{target.name} and {draft.name} have different vocabularies, so one cannot verify the other as it is"
        )
    if draft is not None and draft.n_parameters >= target.n_parameters:
        notes.append(f"{draft.name} is not smaller than {target.name}")
    for spec in specs:
        if spec.max_context is not None and max(config.contexts) > spec.max_context:
            notes.append(f"{spec.name} was made for {spec.max_context:,} tokens; longer contexts are arithmetic only")
    return notes


def _other_drafter(profile: AcceptanceProfile, draft: ModelSpec) -> str | None:
    """The measured drafter in words, if it is not known to be ``draft``."""
    if profile.method not in (None, "draft_model"):
        return f"{profile.drafter or 'a drafter'} ({profile.method})"
    if profile.drafter is None or same_model(profile.drafter, draft):
        return None
    return profile.drafter


def _hardware_notes(config: FunnelConfig) -> list[str]:
    unknown = [profile.name for profile in config.hardware if profile.step_overhead_s is None]
    ideal = config.step_time == "doctrine"
    notes = [f"no launch overhead is known, so none is counted, on {', '.join(unknown)}"] if unknown and ideal else []
    arithmetic = {precision(name).arithmetic for name in (config.precision, config.draft_precision)}
    without = [profile.name for profile in config.hardware if profile.peak_flops_per_s.fp8 is None]
    if "fp8" in arithmetic and without:
        notes.append(f"no FP8 rate is known, so FP8 weights compute at the 16-bit rate, on {', '.join(without)}")
    return [*notes, *_calibration_notes(config)]


def _calibration_notes(config: FunnelConfig) -> list[str]:
    """What a calibration does not say and something else stands in for."""
    if config.step_time != "calibrated":
        return []
    notes, found = [], [(profile.name, calibration_of(profile, config.backend)) for profile in config.hardware]
    single = [name for name, known in found if known is not None and set(known.products) == {"fp32"}]
    if single and {config.precision, config.draft_precision} != {"fp32"}:
        notes.append(
            f"only 32-bit arithmetic was measured, so narrower weights compute at its rate, on {', '.join(single)}"
        )
    linkless = [name for name, known in found if known is None or known.link_bandwidth_bytes_per_s is None]
    if linkless and config.tensor_parallel > 1:
        link = f"{ASSUMED_LINK_BYTES_PER_S / 1e9:.0f} GB/s"
        notes.append(f"no link between devices is known, so {link} one way is assumed, on {', '.join(linkless)}")
    return notes
