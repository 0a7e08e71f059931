"""What a calibrated step time needs to know of one device and backend, beside its peaks: launches, overheads, rates.

A block of these stands in the hardware profile, either fitted to a probe of the device or taken from a fit to published
tables; :mod:`specbook.roofline.calibrated` turns it into seconds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Arithmetic = Literal["fp16", "fp8", "int8", "fp32"]
ARITHMETICS: tuple[Arithmetic, ...] = ("fp16", "fp8", "int8", "fp32")
Seconds = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False)]
Norm = Annotated[float, Field(ge=1.0, le=16.0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0.0, le=1e21, allow_inf_nan=False)]


class ProductCalibration(BaseModel):
    """One matrix product of M rows: ``launch_s + ((bytes ÷ bandwidth)^q + (operations ÷ rate)^q)^(1/q)``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    launch_s: Seconds = Field(description="Time of a product of no size.")
    bandwidth_bytes_per_s: Rate = Field(description="What reading its weights reaches.")
    flops_per_s: Rate = Field(description="What its arithmetic reaches, dense.")
    norm: Norm = Field(
        description="The exponent q: 1 adds memory and arithmetic, a large one takes the longer of the two."
    )


class FitError(BaseModel):
    """How far a calibrated model is from measured points that it was not fitted to; shares of the measured time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n_fitted: Annotated[int, Field(ge=1, le=2**31)]
    n_held_out: Annotated[int, Field(ge=1, le=2**31)]
    median: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = Field(
        description="Median of |model ÷ measured − 1|."
    )
    worst: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


FittedName = Literal["step_overhead_s", "layer_overhead_s", "rows_per_kv_pass", "mbu", "mfu"]


class ConstantInterval(BaseModel):
    """Between which ends a fitted constant lies, 95 %; null stands for all rows, of ``rows_per_kv_pass`` alone.

    Examples
    --------
    >>> ConstantInterval(low=1e-4, high=3e-4).high
    0.0003
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None
    high: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.high is not None and (self.low is None or self.low > self.high):
            raise ValueError("low is above high")
        return self


class Calibration(BaseModel):
    """Step-time parameters of one device under one backend.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> catalogue_device("h100-sxm5").calibrations["default"].products["fp16"].norm
    2.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    evidence: Literal["measured", "catalogue"]
    source: Annotated[str, Field(min_length=1)]
    url: str | None = None
    note: str | None = None
    products: dict[Arithmetic, ProductCalibration] = Field(min_length=1, description="By arithmetic.")
    step_overhead_s: Seconds = Field(default=0.0, description="Once a pass.")
    layer_overhead_s: Seconds = Field(default=0.0, description="Once a layer: norms, activations and the like.")
    attention_launch_s: Seconds = Field(default=0.0, description="Once a layer.")
    attention_per_sequence_s: Seconds = Field(default=0.0, description="Once a layer and sequence.")
    attention_bandwidth_bytes_per_s: Rate = Field(description="What reading the cache reaches.")
    attention_flops_per_s: Rate = Field(description="What its arithmetic reaches.")
    attention_norm: Norm = Field(default=16.0, description="The exponent with which its reading and arithmetic meet.")
    rows_per_kv_pass: Annotated[int, Field(ge=1, le=2**20)] | None = Field(
        default=None,
        description="Positions of one sequence that share a read of its cache; null: all of them. "
        "1: the kernel verifies as so many single decodes.",
    )
    kv_near_bytes: Annotated[float, Field(ge=0.0, le=1e15, allow_inf_nan=False)] = Field(
        default=0.0,
        description="Up to this size, the keys and values of one layer and sequence are read from a nearer memory, "
        "such as a processor's cache; 0 if there is none.",
    )
    kv_near_gain: Annotated[float, Field(ge=1.0, le=1e3, allow_inf_nan=False)] = Field(
        default=1.0, description="How many times faster the nearer memory is."
    )
    expert_overhead_s: Seconds = Field(default=0.0, description="Once a layer and expert that a pass touches.")
    routing_exponent: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)] = Field(
        default=1.0, description="T tokens touch the experts that T^γ independent ones would; 1 is uniform routing."
    )
    link_latency_s: Seconds = Field(default=0.0, description="One all-reduce of no size between devices.")
    link_bandwidth_bytes_per_s: Rate | None = Field(default=None, description="One way; null if unknown.")
    error: FitError | None = Field(default=None, description="On held-out points, if it was fitted here.")
    intervals: dict[FittedName, ConstantInterval] | None = Field(
        default=None,
        description="95 % intervals of the constants that were fitted to measured rows, and of no others. mbu and mfu: "
        "bandwidth and rate of the first of the products as shares of the device's peaks.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, each in (self.intervals or {}).items():
            if name != "rows_per_kv_pass" and (each.low is None or each.high is None):
                raise ValueError(f"intervals.{name} has no end")
        return self

    @model_serializer(mode="wrap")
    def _as_document(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files without intervals are written, and digested, as before there were any."""
        document: dict[str, Any] = handler(self)
        if self.intervals is None:
            del document["intervals"]
        return document
