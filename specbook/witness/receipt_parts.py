"""What a receipt is made of: figures with their intervals, the machine, and what vouches for the run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specbook.checks import printable
from specbook.files import model_sha256, sha256_of
from specbook.witness.external import Digest, FileName
from specbook.witness.result import (
    Control,
    ControlBlock,
    Engine,
    Forecast,
    FreshProbe,
    Parity,
    Term,
    TermName,
    When,
)
from specbook.witness.statistics import P90

Finite = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, le=1e6, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Size = Annotated[int, Field(ge=1, le=2**53)]
Line = Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\r\n]+$")]

RUN_AGAIN = "take the original, or run the witness again"


def impossible(problem: str, field: str | None, value: Any, remedy: str = RUN_AGAIN) -> PydanticCustomError:
    """A contradiction; without a field, the place of the part that is checked stands for it."""
    context = {"problem": problem, "value": value, "remedy": remedy}
    return PydanticCustomError("impossible_receipt", "{problem}", context | ({} if field is None else {"field": field}))


class Part(BaseModel):
    """A piece of a receipt: complete, without anything else, and never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class _Interval(Part):
    """A value in its 95 % interval."""

    value: Finite
    low: Finite
    high: Finite

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise impossible(f"lies outside of its interval, {self.low:g} to {self.high:g}", None, self.value)
        return self


class ErrorRecord(_Interval):
    """Predicted ÷ measured − 1."""

    value: Annotated[float, Field(ge=-1.0, le=1e6, allow_inf_nan=False)]


class SpeedupRecord(_Interval):
    """Mean seconds per token without ÷ with drafts."""

    value: Positive


class P90Record(_Interval):
    """A 90th percentile over requests, seconds per token."""

    value: Positive
    low: Seconds
    n: Size = Field(description="Requests.")

    @classmethod
    def of(cls, p90: P90) -> Self:
        """As the statistics have it."""
        return cls(value=p90.value_s, low=p90.low_s, high=p90.high_s, n=p90.n)


class RequestRecord(Part):
    """One prompt of a configuration; seconds per token after the first round."""

    prompt: Line
    domain: Line
    n_tokens: Size
    n_rounds: Size
    autoregressive_tpot_s: Positive = Field(description="Without drafts, on the clock.")
    measured_tpot_s: Positive = Field(description="With drafts, on the clock.")
    simulated_tpot_s: Positive = Field(description="With drafts, in the replay.")


class TermRecord(Part):
    """A part of the mean seconds per token."""

    name: TermName
    predicted_s: Finite
    measured_s: Finite

    @classmethod
    def of(cls, term: Term) -> Self:
        """As the attribution has it."""
        return cls(name=term.name, predicted_s=term.predicted_s, measured_s=term.measured_s)


class EvidenceRecord(Part):
    """The acceptance profile of a forecast."""

    measured_beforehand: bool = Field(
        description="By this run, on prompts that are not in it; false for a profile that was brought."
    )
    sha256: Digest = Field(description="Of its JSON as specbook writes it.")
    n_rounds: Count | None
    mean_acceptance_length: Positive | None


class ForecastRecord(Part):
    """What was predicted from a hardware profile and an acceptance profile, both taken beforehand."""

    p90_tpot_s: P90Record
    error: ErrorRecord
    speedup: Positive
    attribution: list[TermRecord]
    hardware: Line
    step_time_kind: Line
    acceptance: EvidenceRecord

    @classmethod
    def of(cls, forecast: Forecast, sha256: str, *, measured_beforehand: bool) -> Self:
        """As the result has it, its profile by its SHA-256."""
        profile = forecast.acceptance
        evidence = EvidenceRecord(
            measured_beforehand=measured_beforehand,
            sha256=sha256,
            n_rounds=profile.n_rounds,
            mean_acceptance_length=profile.mean_acceptance_length,
        )
        return cls(
            p90_tpot_s=P90Record.of(forecast.predicted),
            error=ErrorRecord(value=forecast.error, low=forecast.error_low, high=forecast.error_high),
            speedup=forecast.speedup,
            attribution=[TermRecord.of(term) for term in forecast.terms],
            hardware=forecast.hardware,
            step_time_kind=forecast.step_time_kind,
            acceptance=evidence,
        )


class FreshProbeRecord(Part):
    """What a second probe said after a failure; the verdict stays."""

    error_before: Finite
    error_after: Finite
    attribution: list[TermRecord]

    @classmethod
    def of(cls, probe: FreshProbe) -> Self:
        """As the result has it."""
        terms = [TermRecord.of(term) for term in probe.terms]
        return cls(error_before=probe.error_before, error_after=probe.error_after, attribution=terms)


class ParityRecord(Part):
    """Tokens of the run itself, with and without drafts."""

    n_requests: Count
    n_tokens: Count
    n_equal_tokens: Count
    first_difference: Line | None
    why_not: Line | None = Field(description="Why nothing was compared; null where something was.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.as_parity()
        except ValueError as error:
            raise impossible(str(error), None, self.n_equal_tokens) from None
        return self

    @classmethod
    def of(cls, parity: Parity) -> Self:
        """As the result has it."""
        return cls(
            n_requests=parity.n_requests,
            n_tokens=parity.n_tokens,
            n_equal_tokens=parity.n_equal_tokens,
            first_difference=parity.first_difference,
            why_not=parity.why_not,
        )

    def as_parity(self) -> Parity:
        """What the verdict is judged by."""
        return Parity(
            n_requests=self.n_requests,
            n_tokens=self.n_tokens,
            n_equal_tokens=self.n_equal_tokens,
            first_difference=self.first_difference,
            why_not=self.why_not,
        )


class ControlBlockRecord(Part):
    """Steps without drafts, all on one text."""

    when: When
    mean_s: Positive
    median_s: Positive
    p90_s: Positive
    processor_share: Seconds

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.median_s > self.p90_s:
            raise impossible(f"is above the 90th percentile, {self.p90_s:g}", None, self.median_s)
        return self

    @classmethod
    def of(cls, block: ControlBlock) -> Self:
        """As the result has it."""
        return cls(
            when=block.when,
            mean_s=block.mean_s,
            median_s=block.median_s,
            p90_s=block.p90_s,
            processor_share=block.processor_share,
        )


class ControlRecord(Part):
    """Whether the machine was quiet enough to judge by."""

    blocks: list[ControlBlockRecord] = Field(min_length=3)
    load_average: Seconds | None = Field(description="Processes that ran meanwhile; null where nobody says.")
    reasons: list[Line] = Field(description="Why it was not quiet; empty if it was.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        times = [block.when for block in self.blocks]
        if times != ["before", *["middle"] * (len(times) - 2), "after"]:
            raise impossible("are not before, amid and after the run", None, times)
        return self

    @classmethod
    def of(cls, control: Control) -> Self:
        """As the result has it."""
        blocks = [ControlBlockRecord.of(block) for block in control.blocks]
        return cls(blocks=blocks, load_average=control.load_average, reasons=list(control.reasons))

    def as_control(self) -> Control:
        """What the verdict is judged by."""
        blocks = tuple(ControlBlock(**block.model_dump()) for block in self.blocks)
        return Control(blocks=blocks, load_average=self.load_average, reasons=tuple(self.reasons))


Role = Literal["config", "hardware", "acceptance", "prompts"]


class InputRecord(Part):
    """Something that went into the run."""

    role: Role
    name: FileName = Field(description="Name of the file without its folder, or of what ships with specbook.")
    sha256: Digest = Field(description="Of the file; of what ships with specbook, of its JSON as specbook writes it.")


def file_input(role: Role, path: Path) -> InputRecord:
    """A file that went into a run."""
    return InputRecord(role=role, name=printable(path.name), sha256=sha256_of(path))


def model_input(role: Role, name: str, model: BaseModel) -> InputRecord:
    """Something that went into a run without a file of its own, by its name."""
    return InputRecord(role=role, name=name, sha256=model_sha256(model))


class Attestation(Part):
    """What vouches for the run: the native engine executed it, with these weights, on this machine."""

    execution: Literal["native"] = Field(description="Always native: nothing else makes a receipt.")
    engine: Literal["specbook"]
    specbook_version: Line
    arithmetic: Line
    replication: Size = Field(description="The cost dial R of the target; it is no larger model.")
    blas_kernel: Line
    n_threads: Size = Field(description="Of BLAS.")
    host: dict[Line, str] = Field(description="System, machine, processor, cores, memory, Python.")
    weights_sha256: dict[Line, Digest] = Field(min_length=1, description="Model → SHA-256 of its file of weights.")
    inputs: list[InputRecord] = Field(min_length=1)

    @classmethod
    def of(cls, engine: Engine, inputs: list[InputRecord]) -> Self:
        """What the engine that ran says of itself."""
        return cls(
            execution="native",
            engine="specbook",
            specbook_version=engine.specbook_version,
            arithmetic=engine.arithmetic,
            replication=engine.replication,
            blas_kernel=engine.blas_kernel,
            n_threads=engine.n_threads,
            host=dict(engine.host),
            weights_sha256=dict(engine.weights_sha256),
            inputs=inputs,
        )
