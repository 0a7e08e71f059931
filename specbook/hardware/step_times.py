"""A table of measured step times: batch × context × width → seconds, as a probe or somebody's benchmark gives it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=2**31)]


class StepTimePoint(BaseModel):
    """One measured time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: Count
    context: Count | None = Field(None, description="Tokens in each sequence; null if the source does not say.")
    width: Count = Field(description="Positions of each sequence in the pass; K + 1 in a verify pass.")
    seconds: Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)]


class StepTimeTable(BaseModel):
    """Measured times of one model on one machine under one engine."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["specbook-step-times/1"] = Field("specbook-step-times/1", alias="schema")
    model: str | None = Field(None, description="As the source names it, or a name of the model library.")
    hardware: str | None = None
    engine: str | None = Field(None, description="Engine and backend, such as llama.cpp or specbook fast.")
    measures: Literal["pass", "round"] = Field(
        "pass", description="pass: one forward pass; round: drafting and verifying together."
    )
    unit: Literal["seconds", "relative"] = Field(
        "seconds", description="relative: multiples of the pass over one position in one sequence."
    )
    source: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="Of the file it was read from."
    )
    warnings: list[str] = []
    points: list[StepTimePoint] = Field(min_length=1)
