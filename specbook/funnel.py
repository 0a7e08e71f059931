"""The funnel as far as it exists: acceptance evidence and hardware in, a ranked roofline projection out."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from specbook import __version__
from specbook.acceptance.candidates import MEASURED, Assumption, DraftCandidates, draft_candidates, group_profiles
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile
from specbook.files import to_json, write_bytes, write_text
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.frontier import EVIDENCE, best_by_cell, break_even, rank
from specbook.roofline.grid import GridConfig, project
from specbook.roofline.model_spec import ModelSpec, precision, same_model

IDEAL = (
    "step times are an ideal roofline: perfect overlap, no cost per kernel. Measured steps are longer, the drafter's "
    "most of all, so these speedups are mostly too high: use them to discard, and measure before you believe a gain"
)
MEMORY = "memory is counted in full: weights and cache, with nothing set aside for activations or the runtime"


@dataclass(frozen=True, kw_only=True)
class FunnelConfig:
    """What goes into the funnel.

    Attributes
    ----------
    profiles : tuple of AcceptanceProfile
        Evidence; profiles of the same target, drafter, method, domain and temperature give a draft length each.
    hardware : tuple of HardwareProfile
    target, draft : ModelSpec
    batches, contexts : tuple of int
    precision, draft_precision : str
    assume : "none" or "truncation"
    max_draft_length : int
    """

    profiles: tuple[AcceptanceProfile, ...]
    hardware: tuple[HardwareProfile, ...]
    target: ModelSpec
    draft: ModelSpec
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    precision: str = "bf16"
    draft_precision: str = "bf16"
    assume: Assumption = "none"
    max_draft_length: int = 16

    def grids(self) -> list[GridConfig]:
        """One grid for each target, drafter, method, domain and temperature of the evidence."""
        return [
            GridConfig(
                hardware=self.hardware,
                target=self.target,
                draft=self.draft,
                candidates=draft_candidates(group, assume=self.assume, max_draft_length=self.max_draft_length),
                batches=self.batches,
                contexts=self.contexts,
                precision=self.precision,
                draft_precision=self.draft_precision,
            )
            for group in group_profiles(self.profiles)
        ]


@dataclass(frozen=True, kw_only=True)
class StageGate:
    """How many configurations entered a stage, how many left it, and why the others did not."""

    stage: str
    entered: int
    left: int
    dropped: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class FunnelResult:
    """Outcome of :func:`run_funnel`.

    Attributes
    ----------
    config : FunnelConfig
    ranking : polars.DataFrame
        The projection, ranked within each domain, hardware, context and batch.
    break_even : polars.DataFrame
        Batch from which on speculation no longer pays, by domain, hardware and context.
    gates : tuple of StageGate
    notes : tuple of str
        What the figures assume.
    """

    config: FunnelConfig
    ranking: pl.DataFrame
    break_even: pl.DataFrame
    gates: tuple[StageGate, ...]
    notes: tuple[str, ...]


def run_funnel(config: FunnelConfig) -> FunnelResult:
    """Run the stages that exist: acceptance evidence, hardware, roofline.

    Parameters
    ----------
    config : FunnelConfig

    Returns
    -------
    FunnelResult

    Raises
    ------
    BadInput
        If a profile cannot be projected.

    Examples
    --------
    >>> result = run_funnel(example_funnel())
    >>> result.gates[-1].entered, result.gates[-1].left
    (8, 8)
    """
    grids = config.grids()
    projection = pl.concat([project(grid) for grid in grids])
    drafting = projection.filter(pl.col("draft_length") > 0)
    return FunnelResult(
        config=config,
        ranking=rank(projection),
        break_even=pl.concat([break_even(grid) for grid in grids]),
        gates=(
            StageGate(stage="acceptance", entered=len(config.profiles), left=len(config.profiles), dropped={}),
            _roofline_gate(drafting),
        ),
        notes=(
            IDEAL,
            MEMORY,
            *_identity_notes(config),
            *_pair_notes(config),
            *_assumption_notes([grid.candidates for grid in grids]),
            *_hardware_notes(config),
        ),
    )


def _roofline_gate(drafting: pl.DataFrame) -> StageGate:
    too_large = drafting.filter(pl.col("fits_memory").not_()).height
    slow = drafting.filter(pl.col("fits_memory") & (pl.col("speedup") <= 1.0)).height
    return StageGate(
        stage="roofline",
        entered=drafting.height,
        left=drafting.filter("viable").height,
        dropped={"does not fit in memory": too_large, "not faster than no speculation": slow},
    )


def _assumption_notes(candidates: Sequence[DraftCandidates]) -> list[str]:
    assumed = sorted({text for each in candidates for text in each.assumptions if text != MEASURED})
    long, short = (library_profile(f"vllm-48892-mtp-k{k}").marginal_acceptance or [0.0] for k in (8, 1))
    return [
        f"{text}: acceptance at a position is taken not to depend on the draft length; position 1 was accepted in "
        f"{short[0]:.1%} of rounds at K = 1 and in {long[0]:.1%} at K = 8 on one server (vllm-project/vllm#48892)"
        for text in assumed
    ]


def _identity_notes(config: FunnelConfig) -> list[str]:
    """Where the pair that is projected is not the pair that acceptance was measured on."""
    targets = sorted({p.target for p in config.profiles if p.target and not same_model(p.target, config.target)})
    unnamed = any(profile.target is None for profile in config.profiles)
    drafters = sorted({text for p in config.profiles if (text := _other_drafter(p, config.draft))})
    return [
        *(
            f"acceptance was measured on {name}, not on {config.target.name}; it belongs to the pair it was measured on"
            for name in targets
        ),
        *(["the evidence does not name its target; it belongs to the pair it was measured on"] if unnamed else []),
        *(
            f"acceptance was measured with {name}; the time of a draft is that of {config.draft.name}"
            for name in drafters
        ),
    ]


def _pair_notes(config: FunnelConfig) -> list[str]:
    """What is odd about the two models, whatever the evidence."""
    target, draft, notes = config.target, config.draft, []
    if target.vocab_size != draft.vocab_size:
        notes.append(
            f"{target.name} and {draft.name} have different vocabularies, so one cannot verify the other as it is"
        )
    if draft.n_parameters >= target.n_parameters:
        notes.append(f"{draft.name} is not smaller than {target.name}")
    for spec in (target, draft):
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
    notes = [f"no launch overhead is known, so none is counted, on {', '.join(unknown)}"] if unknown else []
    arithmetic = {precision(name).arithmetic for name in (config.precision, config.draft_precision)}
    without = [profile.name for profile in config.hardware if profile.peak_flops_per_s.fp8 is None]
    if "fp8" in arithmetic and without:
        notes.append(f"no FP8 rate is known, so FP8 weights compute at the 16-bit rate, on {', '.join(without)}")
    return notes


_BEST_COLUMNS = (
    *EVIDENCE, "hardware", "context", "batch", "draft_length", "expected_tokens", "speedup", "tpot_s",
    "throughput_tokens_per_s", "regime",
)  # fmt: skip


def summary(result: FunnelResult) -> dict[str, Any]:
    """The result as one JSON object: inputs, gates, notes, best draft length of every cell, break-even batches.

    Examples
    --------
    >>> sorted(summary(run_funnel(example_funnel())))
    ['best', 'break_even', 'config', 'gates', 'notes', 'schema', 'specbook_version']
    """
    config = result.config
    return {
        "schema": "specbook-funnel/1",
        "specbook_version": __version__,
        "config": {
            "target": config.target.name,
            "draft": config.draft.name,
            "precision": config.precision,
            "draft_precision": config.draft_precision,
            "hardware": [profile.name for profile in config.hardware],
            "batches": list(config.batches),
            "contexts": list(config.contexts),
            "assume": config.assume,
            "evidence": [_evidence(profile) for profile in config.profiles],
        },
        "gates": [
            {"stage": gate.stage, "entered": gate.entered, "left": gate.left, "dropped": gate.dropped}
            for gate in result.gates
        ],
        "notes": list(result.notes),
        "best": best_by_cell(result.ranking.drop("rank")).select(_BEST_COLUMNS).to_dicts(),
        "break_even": result.break_even.to_dicts(),
    }


def _evidence(profile: AcceptanceProfile) -> dict[str, Any]:
    keys = ("target", "drafter", "method", "domain", "temperature", "draft_length", "evidence", "n_rounds")
    known = {key: getattr(profile, key) for key in keys}
    known["mean_acceptance_length"] = profile.mean_acceptance_length
    known["provenance"] = [item.model_dump(mode="json") for item in profile.provenance]
    return known


def write_funnel(result: FunnelResult, folder: Path) -> None:
    """Write ``ranking.parquet``, ``break_even.parquet`` and ``summary.json`` into ``folder``, each atomically.

    Raises
    ------
    BadInput
        If the folder cannot be written.
    """
    write_ranking(result, folder / "ranking.parquet")
    write_bytes(folder / "break_even.parquet", _parquet(result.break_even, result))
    write_text(folder / "summary.json", to_json(summary(result)))


def write_ranking(result: FunnelResult, path: Path) -> None:
    """Write the ranked projection as Parquet; its metadata name the schema, the version and what it was made from.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    write_bytes(path, _parquet(result.ranking, result))


def _parquet(frame: pl.DataFrame, result: FunnelResult) -> bytes:
    """The frame as bytes, so that a full disk is met by our own atomic write and not by the encoder."""
    evidence = [_evidence(profile) for profile in result.config.profiles]
    metadata = {
        "specbook.schema": "specbook-projection/1",
        "specbook.version": __version__,
        "specbook.evidence": json.dumps(evidence),
        "specbook.notes": json.dumps(result.notes),
    }
    buffer = io.BytesIO()
    frame.write_parquet(buffer, metadata=metadata)
    return buffer.getvalue()


def example_funnel() -> FunnelConfig:
    """A small funnel on one device, for examples and first steps.

    Examples
    --------
    >>> example_funnel().target.name
    'Llama-3.1-70B'
    """
    from specbook.acceptance.profile import profile_from_counts
    from specbook.hardware.profile import catalogue_device
    from specbook.roofline.model_spec import model

    profile = profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method="draft_model", domain="code")
    return FunnelConfig(
        profiles=(profile,),
        hardware=(catalogue_device("mi300x"),),
        target=model("Llama-3.1-70B"),
        draft=model("Llama-3.2-1B"),
        batches=(1, 2, 4, 8),
        contexts=(512, 4096),
    )
