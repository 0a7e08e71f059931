"""Where a deployment came from and how far to believe it, ``specbook-deployment/1``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Share = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ProjectionRecord(_Part):
    """The projection that was read."""

    file: str
    sha256: Digest
    specbook_version: str


class RangeRecord(_Part):
    """One draft length for a range of batches."""

    first_batch: Count
    last_batch: Count
    draft_length: Count
    projected_batches: list[Count] = Field(description="Those in the range that the projection holds.")
    largest_loss: Share = Field(description="Most that another length would have gained at one of them.")
    smallest_speedup: Share = Field(description="Over no speculation, at one of them.")
    was_merged: bool = Field(description="Whether a range that was too short went into it.")


class ScheduleRecord(_Part):
    """The ranges of all contexts from one on, up to the next."""

    first_context: Count
    ranges: list[RangeRecord]


class SimulationRecord(_Part):
    """What a summary of ``specbook simulate`` says beside it."""

    file: str
    sha256: Digest
    draft_lengths: list[Count]
    stable: bool
    p90_tpot_s: float | None
    warnings: list[str]


class DeploymentFile(_Part):
    """Everything about a deployment that is not for the engine."""

    schema_: Literal["specbook-deployment/1"] = Field(default="specbook-deployment/1", alias="schema")
    specbook_version: str
    engine: str
    command: str = Field(description="The line to start the engine with.")
    is_rehearsal: bool = Field(description="Whether drafts are accepted by chance.")
    method: str = Field(description="As the acceptance evidence names it.")
    draft_lengths: list[Count] = Field(description="All lengths in use.")
    schedules: list[ScheduleRecord]
    min_gain: Share = Field(description="Share of the time per token for which a length is left.")
    min_batches: Count = Field(description="Fewest batches of a range.")
    warnings: list[str] = Field(description="What to know before it is believed, the gravest first.")
    engine_notes: list[str] = Field(description="What the engine does with it that the projection does not know.")
    schema_sources: list[str] = Field(description="Where the names of fields and flags were looked up.")
    projection: ProjectionRecord = Field(description="The projection, with its SHA-256.")
    projection_notes: list[str] = Field(description="What its figures assume.")
    evidence: list[dict[str, Any]] = Field(description="The acceptance profiles, each with the SHA-256 of its sources.")
    place: dict[str, str | int | float | None] = Field(description="Device, models, formats, domain and temperature.")
    step_time_kind: str
    step_time_source: str | None
    simulation: SimulationRecord | None = Field(default=None, description="Null without --simulation.")
