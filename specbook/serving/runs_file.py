"""What ``summary.json`` of several configurations and seeds holds, ``specbook-serving-runs/1``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from specbook import __version__
from specbook.files import dump_model, read_model, write_text
from specbook.parquet import write_parquet
from specbook.serving.spread import ConfigurationSpread, best_of
from specbook.serving.summary_file import Count, InputRecord, ParameterRecord, Rate, RecordPart


class SpreadRecord(RecordPart):
    """A figure over seeds."""

    mean: Rate
    lowest: Rate
    highest: Rate


class ConfigurationRecord(RecordPart):
    """One configuration over all seeds; latencies are tails, of the percentile of the objectives."""

    name: str
    draft_lengths: list[Count]
    kv_blocks: Count
    n_runs: Count = Field(description="Seeds.")
    n_stable: Count = Field(description="Seeds at which the engine kept up with the load.")
    dropped: dict[int, str] = Field(description="Seed → why the configuration is dropped there; it stays elsewhere.")
    ttft_s: SpreadRecord | None = Field(description="Time to first token; null where a seed has none.")
    tpot_s: SpreadRecord | None = Field(description="Time per output token after it.")
    e2e_s: SpreadRecord | None = Field(description="Time of a whole request.")
    throughput_tokens_per_s: SpreadRecord | None
    goodput_requests_per_s: SpreadRecord | None = Field(description="Null without limits.")
    tpot_gain: SpreadRecord | None = Field(
        description="Tail of TPOT without speculation ÷ its own, seed by seed; null where nothing ran without."
    )


class ServingRunsFile(RecordPart):
    """``summary.json`` beside ``runs.parquet``: what went in, and each configuration over the seeds."""

    schema_: Literal["specbook-serving-runs/1"] = Field("specbook-serving-runs/1", alias="schema")
    specbook_version: str
    inputs: InputRecord = Field(description="Files and names, each with its SHA-256.")
    parameters: ParameterRecord = Field(description="The engine that drafts most, and the load.")
    seeds: list[Count]
    step_time_kind: str = Field(description="Where the time of an iteration comes from.")
    assumptions: list[str] = Field(description="How each draft length is known.")
    notes: list[str]
    configurations: list[ConfigurationRecord]
    best: str | None = Field(
        description="The shortest tail of TPOT in the mean, of those that stay at every seed; null if none does."
    )


def runs_document(
    about: dict[str, Any], seeds: Sequence[int], configurations: Sequence[ConfigurationSpread]
) -> ServingRunsFile:
    """The whole of ``summary.json``, checked against its schema.

    Parameters
    ----------
    about : dict
        Inputs, parameters, step times, assumptions and notes.
    seeds : sequence of int
    configurations : sequence of ConfigurationSpread

    Raises
    ------
    ValueError
        If something is missing, unknown or impossible.
    """
    best = best_of(configurations)
    document = {
        "schema": "specbook-serving-runs/1",
        "specbook_version": __version__,
        **about,
        "seeds": list(seeds),
        "configurations": [_record(each) for each in configurations],
        "best": None if best is None else best.name,
    }
    return ServingRunsFile.model_validate_json(json.dumps(document, allow_nan=False), strict=True)


def _record(configuration: ConfigurationSpread) -> dict[str, Any]:
    """A configuration as JSON has it, its figures beside its name."""
    parts = asdict(configuration)
    figures: dict[str, Any] = parts.pop("figures")
    return parts | figures


def write_runs(runs: pl.DataFrame, document: ServingRunsFile, folder: Path) -> None:
    """Write ``runs.parquet``, a row a run, and ``summary.json``, each whole or not at all.

    Raises
    ------
    BadInput
        If the folder cannot be written.
    """
    metadata = {"specbook.schema": "specbook-serving-runs/1", "specbook.version": __version__}
    write_parquet(folder / "runs.parquet", runs, metadata)
    write_text(folder / "summary.json", dump_model(document))


def read_serving_runs(path: Path) -> ServingRunsFile:
    """Read a ``summary.json`` of ``specbook simulate`` over several configurations or seeds.

    Raises
    ------
    BadInput
        If the file cannot be read, is another schema, or holds an impossible value.
    """
    return read_model(path, ServingRunsFile)
