"""What ``summary.json`` of a serving simulation holds, ``specbook-serving/1``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specbook.files import read_model
from specbook.serving.serving_config import RoutingName, SchedulerName
from specbook.serving.summary import ServingSummary

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
# The lower end of an interval of times near 0 may lie below 0.
End = Annotated[float, Field(allow_inf_nan=False)]
Interval = tuple[End, End]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class RecordPart(BaseModel):
    """A part of a file, as it is written: nothing more, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class LatencyRecord(RecordPart):
    """One latency: seconds, null where there was no value."""

    p50: Seconds | None
    p90: Seconds | None
    p99: Seconds | None
    mean: Seconds | None
    p50_interval: Interval | None = Field(description="95 %; null where there are too few values.")
    p90_interval: Interval | None
    p99_interval: Interval | None
    mean_interval: Interval | None
    count: Count = Field(description="Values.")


class WasteRecord(RecordPart):
    """What was spent on drafts that came to nothing."""

    drafted_tokens: Count
    accepted_tokens: Count
    rejected_tokens: Count
    rejected_slot_seconds: Seconds
    rejected_flops: Rate | None = Field(description="Null where the model is not known.")


class ServingFigures(RecordPart):
    """The figures of one run, as :class:`~specbook.serving.summary.ServingSummary` names them."""

    ttft_s: LatencyRecord = Field(description="Time to first token, over requests.")
    tpot_s: LatencyRecord = Field(description="Time per output token after it, over requests.")
    e2e_s: LatencyRecord = Field(description="Time of a whole request.")
    wait_s: LatencyRecord = Field(description="Time until a request is first scheduled.")
    itl_s: LatencyRecord = Field(description="Gaps before bursts.")
    itl_per_token_s: LatencyRecord = Field(description="Gaps before tokens; 0 inside a burst.")
    throughput_tokens_per_s: Rate
    throughput_requests_per_s: Rate
    goodput_requests_per_s: Rate | None = Field(description="Requests that kept every limit; null without limits.")
    waste: WasteRecord = Field(description="Drafted, accepted and rejected tokens, and what the rejected ones cost.")
    n_requests: Count = Field(description="Requests that ended.")
    n_unfinished: Count = Field(description="Requests that had arrived and not ended when the run was stopped.")
    n_iterations: Count
    n_preemptions: Count
    utilisation: Share = Field(description="Share of the time in which an engine worked.")
    mean_batch_size: Rate = Field(description="By iteration.")
    mean_kv_use: Share = Field(description="Share of the blocks, over the time that an engine worked.")
    peak_kv_use: Share = Field(description="Share of the blocks, at most.")
    kv_fragmentation: Annotated[float, Field(le=1.0, allow_inf_nan=False)] = Field(
        description="Share of the slots in those blocks that hold no token."
    )
    wall_s: Seconds = Field(description="Simulated seconds.")
    stable: bool = Field(description="False if waiting grew to the end, or the run was stopped.")


class FileRecord(RecordPart):
    """A file that was read."""

    file: str
    sha256: Digest


class TraceRecord(FileRecord):
    """The trace that was read."""

    format: str
    skipped: dict[str, Count] = Field(description="Reason → requests that were left out for it.")


class NamedRecord(RecordPart):
    """Something by the name that it was asked for, which may be a file's, and the SHA-256 of its JSON."""

    name: str
    sha256: Digest


class AcceptanceRecord(NamedRecord):
    """A profile, with what it says of itself."""

    target: str | None
    drafter: str | None
    method: str | None
    domain: str | None
    temperature: float | None
    draft_length: int | None
    evidence: str
    n_rounds: int | None
    mean_acceptance_length: float | None
    provenance: list[dict[str, Any]]


class InputRecord(RecordPart):
    """What went in."""

    trace: TraceRecord | None = Field(description="Null for a drawn load.")
    step_time: list[FileRecord] = Field(description="The step-time file and those that it names.")
    hardware: NamedRecord | None
    acceptance: list[AcceptanceRecord]


class SloRecord(RecordPart):
    """The limits; null where nothing is promised."""

    ttft_s: Seconds | None
    tpot_s: Seconds | None
    e2e_s: Seconds | None
    percentile: Literal[50, 90, 99]


class ParameterRecord(RecordPart):
    """The engine, what it drafts, and the load."""

    scheduler: SchedulerName
    max_batch: Count
    chunk_tokens: Count
    kv_blocks: Count
    block_size_tokens: Count
    watermark_blocks: Count
    n_replicas: Count
    routing: RoutingName
    max_waiting: Count = Field(description="Requests that may wait at one replica before the run is stopped.")
    draft_lengths: list[Count]
    schedule: dict[str, Count] | None = Field(description="batch@context → K from there on.")
    conditional_acceptance: float | None
    slo: SloRecord
    load: dict[str, str | bool | int | float] = Field(description="The options of the load that were given.")
    models: dict[str, str | int | None] | None = Field(description="Null beside a step-time file.")


class ComparisonRecord(RecordPart):
    """The same load and luck without speculation."""

    viable: bool
    reasons: list[str] = Field(description="What speaks against speculation; empty if it is viable.")
    kv_blocks: Count = Field(description="Of the engine without speculation.")
    without_speculation: ServingFigures


class ServingSummaryFile(ServingFigures):
    """``summary.json``: what went in, what was assumed, and the figures."""

    schema_: Literal["specbook-serving/1"] = Field("specbook-serving/1", alias="schema")
    specbook_version: str
    inputs: InputRecord = Field(description="Files and names, each with its SHA-256.")
    parameters: ParameterRecord = Field(description="The engine, what it drafts, and the load.")
    seed: Count
    step_time_kind: str = Field(description="Where the time of an iteration comes from.")
    assumptions: list[str] = Field(description="How each draft length is known.")
    notes: list[str]
    comparison: ComparisonRecord | None = Field(description="Null without --compare.")


def serving_document(about: dict[str, Any], summary: ServingSummary) -> dict[str, Any]:
    """The whole of ``summary.json``, checked against its schema.

    Parameters
    ----------
    about : dict
        Everything beside the figures.
    summary : ServingSummary

    Raises
    ------
    ValueError
        If something is missing, unknown or impossible.
    """
    text = json.dumps({**about, **summary.as_dict()}, allow_nan=False)
    whole = ServingSummaryFile.model_validate_json(text, strict=True).model_dump(mode="json", by_alias=True)
    # What is said of the run comes first, as its writer put it.
    return {name: whole[name] for name in (*about, *(name for name in whole if name not in about))}


def read_serving_summary(path: Path) -> ServingSummaryFile:
    """Read a ``summary.json`` of ``specbook simulate``.

    Raises
    ------
    BadInput
        If the file cannot be read, is another schema, or holds an impossible value.
    """
    return read_model(path, ServingSummaryFile)
