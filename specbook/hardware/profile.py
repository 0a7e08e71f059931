"""The hardware profile, ``specbook-hardware/1``, and the catalogue of devices that ships with specbook."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specbook.checks import BadInput
from specbook.files import read_model, schema_name
from specbook.hardware.calibration import Calibration
from specbook.hardware.probe_record import ProbeRecord
from specbook.hardware.step_times import StepTimeTable

# Nothing that runs a language model has less than a megabyte, a megabyte a second or a megaflop a second.
_SMALLEST = 1e6
_LONGEST_OVERHEAD_S = 10.0


def _impossible(problem: str, field: str, value: Any, remedy: str) -> PydanticCustomError:
    context = {"problem": problem, "field": field, "value": value, "remedy": remedy}
    return PydanticCustomError("impossible_hardware", "{problem}", context)


_CATALOGUE = Path(__file__).parent / "catalogue"


class Figure(BaseModel):
    """One number with its origin.

    Attributes
    ----------
    value : float
        In the unit that the field's name ends with.
    evidence : "measured" or "catalogue"
        Measured by a probe on the device itself, or taken from a document.
    source : str
        The document, or the probe.
    url, note : str, optional
        Where to read it, and how it was derived.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: Annotated[float, Field(gt=0.0, le=1e21, allow_inf_nan=False)]
    evidence: Literal["measured", "catalogue"]
    source: Annotated[str, Field(min_length=1)]
    url: str | None = None
    note: str | None = None


class PeakFlops(BaseModel):
    """Dense matrix rates with wide accumulation, never counted with sparsity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fp16: Figure | None = Field(
        default=None, description="FP16 or BF16 weights, FP32 accumulation; null if it was not measured."
    )
    fp32: Figure | None = Field(default=None, description="FP32, as the native engine computes.")
    fp8: Figure | None = Field(default=None, description="FP8 weights and activations.")
    int8: Figure | None = Field(default=None, description="INT8 weights and activations.")


class HardwareProfile(BaseModel):
    """What one device, or one CPU socket, can do.

    Examples
    --------
    >>> h100 = catalogue_device("h100-sxm5")
    >>> round(h100.mbu, 2), round(h100.ridge_point_flops_per_byte)
    (0.89, 332)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["specbook-hardware/1"] = Field("specbook-hardware/1", alias="schema")
    name: Annotated[str, Field(min_length=1)] = Field(description="Short id, as used on the command line.")
    device: Annotated[str, Field(min_length=1)] = Field(description="Full name of the device.")
    vendor: str
    kind: Literal["gpu", "unified", "cpu"] = Field(description="gpu: own memory; unified: shared with the CPU.")
    memory_bytes: Figure = Field(description="Memory that weights and KV cache must fit in.")
    peak_bandwidth_bytes_per_s: Figure | None = Field(description="Theoretical peak; null if a probe was not told it.")
    sustained_bandwidth_bytes_per_s: Figure = Field(description="What long reads reach.")
    peak_flops_per_s: PeakFlops
    step_overhead_s: Figure | None = Field(default=None, description="Launch overhead of a pass; null if unknown.")
    calibrations: dict[str, Calibration] = Field(
        default={}, description="Step-time parameters by backend; the first is the default."
    )
    step_times: list[StepTimeTable] = Field(
        default=[], description="Measured passes, batch × context × width, by model and backend."
    )
    probe: ProbeRecord | None = Field(default=None, description="What the probe measured; null for the catalogue.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        peaks = self.peak_flops_per_s
        rates = {
            "memory_bytes": self.memory_bytes,
            "sustained_bandwidth_bytes_per_s": self.sustained_bandwidth_bytes_per_s,
            "peak_flops_per_s.fp16": peaks.fp16,
            "peak_flops_per_s.fp32": peaks.fp32,
        }
        if peaks.fp16 is None and peaks.fp32 is None:
            raise _impossible("has neither fp16 nor fp32", "peak_flops_per_s", {}, "give one of them")
        for field, figure in rates.items():
            if figure is not None and figure.value < _SMALLEST:
                raise _impossible(
                    f"is below {_SMALLEST:g}", f"{field}.value", figure.value, "check the unit in its name"
                )
        if self.step_overhead_s is not None and self.step_overhead_s.value > _LONGEST_OVERHEAD_S:
            value = self.step_overhead_s.value
            raise _impossible("is longer than any launch", "step_overhead_s.value", value, "it is in seconds")
        sustained, stated = self.sustained_bandwidth_bytes_per_s.value, self.peak_bandwidth_bytes_per_s
        peak = sustained if stated is None else stated.value
        if sustained > peak:
            field = "sustained_bandwidth_bytes_per_s.value"
            raise _impossible(f"is above the peak of {peak:g}", field, sustained, "correct either figure")
        return self

    @property
    def mbu(self) -> float | None:
        """Memory bandwidth utilisation: sustained ÷ peak, dimensionless; None if the peak is not known."""
        peak = self.peak_bandwidth_bytes_per_s
        return None if peak is None else self.sustained_bandwidth_bytes_per_s.value / peak.value

    @property
    def ridge_point_flops_per_byte(self) -> float:
        """Arithmetic intensity at which 16-bit arithmetic takes as long as sustained memory traffic; else 32-bit."""
        return self.flops_per_s("fp16") / self.sustained_bandwidth_bytes_per_s.value

    def flops_per_s(self, arithmetic: str) -> float:
        """Dense rate for ``fp16``, ``fp8``, ``int8`` or ``fp32`` arithmetic; the 16-bit rate where there is none.

        Examples
        --------
        >>> a100 = catalogue_device("a100-sxm4-80gb")
        >>> a100.flops_per_s("fp8") == a100.flops_per_s("fp16")
        True
        """
        peaks = self.peak_flops_per_s
        known = [figure for figure in (getattr(peaks, arithmetic), peaks.fp16, peaks.fp32) if figure is not None]
        return float(known[0].value)


def catalogue_names() -> list[str]:
    """Ids of the devices in the catalogue.

    Examples
    --------
    >>> len(catalogue_names()) >= 13
    True
    """
    return sorted(path.stem for path in _CATALOGUE.glob("*.json"))


@cache
def catalogue_device(name: str) -> HardwareProfile:
    """A device of the catalogue by id, upper or lower case.

    Raises
    ------
    BadInput
        If there is none of that id.

    Examples
    --------
    >>> catalogue_device("L4").kind
    'gpu'
    """
    known = {known.casefold(): known for known in catalogue_names()}
    if name.casefold() not in known:
        raise BadInput(
            "no such device in the catalogue",
            field="hardware",
            value=name,
            remedy=f"one of {', '.join(known.values())}, or a {schema_name(HardwareProfile)} file (.json)",
        )
    return read_model(_CATALOGUE / f"{known[name.casefold()]}.json", HardwareProfile)


def load_hardware(name_or_path: str) -> HardwareProfile:
    """A device of the catalogue, a stored probe, or a ``specbook-hardware/1`` file (a slash, or ``.json``).

    Raises
    ------
    BadInput
        If it is neither.

    Examples
    --------
    >>> load_hardware("m3-max").vendor
    'Apple'
    """
    from specbook.hardware.probe.stored import stored_probe, stored_probe_names

    if name_or_path.casefold() in stored_probe_names():
        return stored_probe(name_or_path.casefold())
    is_path = name_or_path.endswith(".json") or "/" in name_or_path
    return read_model(Path(name_or_path), HardwareProfile) if is_path else catalogue_device(name_or_path)
