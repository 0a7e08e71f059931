"""What a probe measured: every figure as a median with its spread, and the conditions it was measured under."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0.0, le=1e21, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Size = Annotated[int, Field(ge=1, le=2**53)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Frozen):
    """Repeated measurements of one thing, in the unit that the field's name ends with."""

    median: Positive
    low: Positive = Field(description="10th percentile.")
    high: Positive = Field(description="90th percentile.")
    n: Size = Field(description="Measurements.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low <= self.median <= self.high:
            raise ValueError(f"has its median {self.median:g} outside of {self.low:g} to {self.high:g}")
        return self


class StreamBandwidth(_Frozen):
    """Sustained bandwidth of each kernel; copy and scale count two arrays, add and triad three, read one."""

    copy_bytes_per_s: Spread
    scale_bytes_per_s: Spread
    add_bytes_per_s: Spread
    triad_bytes_per_s: Spread
    read_bytes_per_s: Spread


class ProductTime(_Frozen):
    """A product of ``rows`` vectors with weights of (n_out, n_in)."""

    arithmetic: str
    n_out: Size
    n_in: Size
    rows: Size
    seconds: Spread


class AttentionTime(_Frozen):
    """Attention of one layer: ``rows`` new positions in each of ``batch`` sequences over ``context`` tokens."""

    arithmetic: str
    n_heads: Size
    n_kv_heads: Size
    head_size: Size
    batch: Size
    context: Size
    rows: Size
    seconds: Spread


class PassTime(_Frozen):
    """One forward pass of a model, head included, over ``width`` positions in each of ``batch`` sequences."""

    model: str = Field(description="A name of the model library.")
    arithmetic: str
    batch: Size
    context: Size
    width: Size
    seconds: Spread


class ProbeRecord(_Frozen):
    """Everything that a probe measured, and under which conditions."""

    specbook: str = Field(description="Version of specbook.")
    backend: str = Field(description="numpy, cuda or mps.")
    processor: str
    blas: dict[str, str | int] = Field(description="Library, version, kernel family and threads.")
    n_processors: Size = Field(description="Logical processors that the process may use.")
    date: str = Field(description="Day of the probe, ISO 8601.")
    budget_s: Positive
    wall_s: Positive
    scratch_bytes: Size = Field(description="Most scratch memory held at once.")
    array_bytes: Size = Field(description="Each of the three arrays of the bandwidth kernels.")
    last_level_cache_bytes: Whole = Field(description="0 if the machine does not say.")
    bandwidth: StreamBandwidth
    matmul_flops_per_s: Spread = Field(
        description="One large square product, float32 unless the backend says otherwise."
    )
    call_overhead_s: Spread = Field(description="One product too small to take time.")
    products: list[ProductTime]
    attention: list[AttentionTime]
    passes: list[PassTime]
    noise: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = Field(
        description="Median of (high − low) ÷ median over what was measured at least three times."
    )
    drift: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = Field(
        description="Bandwidth at the end of the probe ÷ at its start."
    )
    warnings: list[str] = []
