"""The projection: acceptance evidence and hardware in, a ranked table and break-even boundaries out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from specbook import __version__
from specbook.acceptance.profile import AcceptanceProfile
from specbook.files import write_bytes
from specbook.funnel_config import FunnelConfig
from specbook.funnel_notes import funnel_notes
from specbook.parquet import parquet_bytes
from specbook.roofline.frontier import EVIDENCE, break_even, rank
from specbook.roofline.grid import GridConfig, project, step_time_sources
from specbook.stage_folder import Gate


@dataclass(frozen=True, kw_only=True)
class FunnelResult:
    """Outcome of :func:`run_funnel`.

    Attributes
    ----------
    config : FunnelConfig
    grids : tuple of GridConfig
        One for each piece of evidence.
    ranking : polars.DataFrame
        The projection, ranked within each domain, hardware, context and batch.
    break_even : polars.DataFrame
        Batch from which on speculation no longer pays, by domain, hardware and context.
    gates : mapping of str to Gate
        By stage.
    notes : tuple of str
        What the figures assume.
    """

    config: FunnelConfig
    grids: tuple[GridConfig, ...]
    ranking: pl.DataFrame
    break_even: pl.DataFrame
    gates: Mapping[str, Gate]
    notes: tuple[str, ...]


def run_funnel(config: FunnelConfig) -> FunnelResult:
    """Project acceptance evidence on hardware, and rank what comes out.

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
    >>> result.gates["roofline"].entered, result.gates["roofline"].left
    (8, 8)
    """
    grids = config.grids()
    projection = pl.concat([project(grid) for grid in grids])
    drafting = projection.filter(pl.col("draft_length") > 0)
    return FunnelResult(
        config=config,
        grids=tuple(grids),
        ranking=rank(projection),
        break_even=pl.concat([break_even(grid) for grid in grids]),
        gates={
            "acceptance": Gate(entered=len(config.profiles), left=len(config.profiles), dropped={}),
            "roofline": _roofline_gate(drafting),
        },
        notes=funnel_notes(config, [grid.candidates for grid in grids]),
    )


def _roofline_gate(drafting: pl.DataFrame) -> Gate:
    dropped = lost_drafts(drafting)
    return Gate(entered=drafting.height, left=drafting.height - sum(dropped.values()), dropped=dropped)


def lost_drafts(drafting: pl.DataFrame) -> dict[str, int]:
    """How many rows of a projection are not worth a simulation, by reason; those that do not speculate left out.

    Examples
    --------
    >>> lost_drafts(run_funnel(example_funnel()).ranking.filter(pl.col("draft_length") > 0))
    {'does not fit in memory': 0, 'not faster than no speculation': 0}
    """
    fits = pl.col("fits_memory")
    return {
        "does not fit in memory": drafting.filter(~fits).height,
        "not faster than no speculation": drafting.filter(fits & (pl.col("speedup") <= 1.0)).height,
    }


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
            "draft": None if config.draft is None else config.draft.name,
            "precision": config.precision,
            "draft_precision": config.draft_precision,
            "hardware": [profile.name for profile in config.hardware],
            "method": config.method,
            "step_time": config.step_time,
            "step_time_sources": _step_time_sources(result),
            "tensor_parallel": config.tensor_parallel,
            "engine_overheads": None if config.overheads is None else config.overheads.label,
            "batches": list(config.batches),
            "contexts": list(config.contexts),
            "assume": config.assume,
            "evidence": [evidence_of(profile) for profile in config.profiles],
        },
        "gates": [
            {"stage": stage, "entered": gate.entered, "left": gate.left, "dropped": dict(gate.dropped)}
            for stage, gate in result.gates.items()
        ],
        "notes": list(result.notes),
        "best": _best(result.ranking),
        "break_even": result.break_even.to_dicts(),
    }


def _best(ranking: pl.DataFrame) -> list[dict[str, Any]]:
    """The fastest of each cell; none where nothing was projected."""
    if ranking.is_empty():
        return []
    return ranking.filter(pl.col("rank") == 1).select(_BEST_COLUMNS).to_dicts()


def _step_time_sources(result: FunnelResult) -> dict[str, str]:
    """Device → where its step times come from."""
    names = [each.name for each in result.config.hardware]
    return dict(zip(names, step_time_sources(result.grids[0]), strict=True)) if result.grids else {}


def evidence_of(profile: AcceptanceProfile) -> dict[str, Any]:
    """What a profile is, in the words of its fields and of its sources."""
    keys = ("target", "drafter", "method", "domain", "temperature", "draft_length", "evidence", "n_rounds")
    known = {key: getattr(profile, key) for key in keys}
    known["mean_acceptance_length"] = profile.mean_acceptance_length
    known["provenance"] = [item.model_dump(mode="json") for item in profile.provenance]
    return known


def write_ranking(result: FunnelResult, path: Path) -> None:
    """Write the ranked projection as Parquet; its metadata name the schema, the version and what it was made from.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    write_bytes(path, projection_bytes(result.ranking, result.config.profiles, result.notes))


def projection_bytes(frame: pl.DataFrame, profiles: Sequence[AcceptanceProfile], notes: Sequence[str]) -> bytes:
    """A projection as Parquet in memory, so that a full disk is met by our own atomic write and not by the encoder.

    Parameters
    ----------
    frame : polars.DataFrame
    profiles : sequence of AcceptanceProfile
        What it was made from.
    notes : sequence of str
        What its figures assume.

    Examples
    --------
    >>> result = run_funnel(example_funnel())
    >>> projection_bytes(result.break_even, result.config.profiles, result.notes)[:4]
    b'PAR1'
    """
    metadata = {
        "specbook.schema": "specbook-projection/1",
        "specbook.version": __version__,
        "specbook.evidence": json.dumps(
            [{**evidence_of(profile), "marginal_acceptance": profile.marginal_acceptance} for profile in profiles]
        ),
        "specbook.notes": json.dumps(notes),
    }
    return parquet_bytes(frame, metadata)


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
