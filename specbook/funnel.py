"""The funnel as far as it exists: acceptance evidence and hardware in, a ranked roofline projection out."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from specbook import __version__
from specbook.acceptance.profile import AcceptanceProfile
from specbook.files import to_json, write_bytes, write_text
from specbook.funnel_config import FunnelConfig
from specbook.funnel_notes import funnel_notes
from specbook.roofline.frontier import EVIDENCE, best_by_cell, break_even, rank
from specbook.roofline.grid import GridConfig, project, step_time_sources


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
    grids : tuple of GridConfig
        One for each piece of evidence.
    ranking : polars.DataFrame
        The projection, ranked within each domain, hardware, context and batch.
    break_even : polars.DataFrame
        Batch from which on speculation no longer pays, by domain, hardware and context.
    gates : tuple of StageGate
    notes : tuple of str
        What the figures assume.
    """

    config: FunnelConfig
    grids: tuple[GridConfig, ...]
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
        grids=tuple(grids),
        ranking=rank(projection),
        break_even=pl.concat([break_even(grid) for grid in grids]),
        gates=(
            StageGate(stage="acceptance", entered=len(config.profiles), left=len(config.profiles), dropped={}),
            _roofline_gate(drafting),
        ),
        notes=funnel_notes(config, [grid.candidates for grid in grids]),
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
            "step_time_sources": dict(
                zip([each.name for each in config.hardware], step_time_sources(result.grids[0]), strict=True)
            ),
            "tensor_parallel": config.tensor_parallel,
            "batches": list(config.batches),
            "contexts": list(config.contexts),
            "assume": config.assume,
            "evidence": [evidence_of(profile) for profile in config.profiles],
        },
        "gates": [
            {"stage": gate.stage, "entered": gate.entered, "left": gate.left, "dropped": gate.dropped}
            for gate in result.gates
        ],
        "notes": list(result.notes),
        "best": best_by_cell(result.ranking.drop("rank")).select(_BEST_COLUMNS).to_dicts(),
        "break_even": result.break_even.to_dicts(),
    }


def evidence_of(profile: AcceptanceProfile) -> dict[str, Any]:
    """What a profile is, in the words of its fields and of its sources."""
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
    evidence = [evidence_of(profile) for profile in result.config.profiles]
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
