"""Fitted constants as a layer of a hardware profile, in front of the calibrations that the device has."""

from __future__ import annotations

from typing import Any

from specbook.checks import Floats
from specbook.hardware.calibration import Calibration, ConstantInterval, FitError
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import ALL_ROWS
from specbook.validation.fleet_constants import (
    CONSTANTS,
    FIELDS,
    KV_PASSES,
    LAYER,
    MBU,
    MFU,
    STEP,
    base_calibration,
    constants_before,
)


def with_fitted(profile: HardwareProfile, name: str, calibration: Calibration) -> HardwareProfile:
    """The profile with a calibration in front, which is then the default; one of that name is replaced.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> l4 = catalogue_device("l4")
    >>> list(with_fitted(l4, "vllm", base_calibration(l4)).calibrations)
    ['vllm']
    """
    others = {known: each for known, each in profile.calibrations.items() if known != name}
    return profile.model_copy(update={"calibrations": {name: calibration, **others}})


def fitted_calibration(
    profile: HardwareProfile,
    values: Floats,
    ends: dict[int, tuple[float, float]],
    *,
    source: str,
    note: str,
    error: FitError,
) -> Calibration:
    """A calibration with some of its constants replaced.

    Parameters
    ----------
    profile : HardwareProfile
    values : (5,) ndarray of float64
        In the order of ``CONSTANTS``.
    ends : dict of int to (float, float)
        Intervals of those that were fitted, by position.
    source, note : str
    error : FitError

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> device = catalogue_device("h200-sxm")
    >>> values = constants_before(device)
    >>> values[MBU] *= 0.5
    >>> error = FitError(n_fitted=8, n_held_out=4, median=0.03, worst=0.1)
    >>> fit = fitted_calibration(device, values, {MBU: (0.4, 0.5)}, source="own rows", note="", error=error)
    >>> fit.products["fp8"].bandwidth_bytes_per_s / 1e12, fit.attention_bandwidth_bytes_per_s / 1e12
    (1.968, 2.088)
    """
    base, before = base_calibration(profile), constants_before(profile)
    faster, denser = values[MBU] / before[MBU], values[MFU] / before[MFU]
    document = base.model_dump() | {
        "evidence": "measured",
        "source": source,
        "url": None,
        "note": note or None,
        "products": {name: _moved(each.model_dump(), faster, denser) for name, each in base.products.items()},
        "step_overhead_s": float(values[STEP]),
        "layer_overhead_s": float(values[LAYER]),
        "attention_bandwidth_bytes_per_s": base.attention_bandwidth_bytes_per_s * faster,
        "attention_flops_per_s": base.attention_flops_per_s * denser,
        "rows_per_kv_pass": _rows(values[KV_PASSES]),
        "intervals": {FIELDS[CONSTANTS[i]]: _interval(i, *each) for i, each in ends.items()},
        "error": error,
    }
    return Calibration.model_validate(document)


def _moved(product: dict[str, Any], faster: float, denser: float) -> dict[str, Any]:
    bandwidth, rate = product["bandwidth_bytes_per_s"] * faster, product["flops_per_s"] * denser
    return product | {"bandwidth_bytes_per_s": bandwidth, "flops_per_s": rate}


def _rows(rows: float) -> int | None:
    return None if rows >= ALL_ROWS else int(rows)


def _interval(position: int, low: float, high: float) -> ConstantInterval:
    if position == KV_PASSES:
        return ConstantInterval(low=_rows(low), high=_rows(high))
    return ConstantInterval(low=float(low), high=float(high))
