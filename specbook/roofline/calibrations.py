"""Which calibration a device has: one fitted to it, or the assumption that stands in where nobody measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache

import numpy as np

from specbook.checks import BadInput
from specbook.hardware.calibration import ARITHMETICS, Arithmetic, Calibration, ProductCalibration
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import ALL_ROWS, CalibratedRates
from specbook.roofline.model_spec import precision

ASSUMED = "assumed: overheads of five data-centre GPUs"

# Between devices of which no link is known: PCI Express 4.0 with 16 lanes, one way.
ASSUMED_LINK_BYTES_PER_S = 32e9


def calibration_of(profile: HardwareProfile, backend: str | None = None) -> Calibration | None:
    """The calibration of a device for a backend, or its first; None if it has none.

    Raises
    ------
    BadInput
        If a backend is named that the profile does not have.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> calibration_of(catalogue_device("m3-max")) is None
    True
    """
    if backend is None:
        return next(iter(profile.calibrations.values()), None)
    if backend not in profile.calibrations:
        names = ", ".join(profile.calibrations) or "none"
        raise BadInput(
            f"no such calibration in {profile.name}", field="backend", value=backend, remedy=f"it has: {names}"
        )
    return profile.calibrations[backend]


def assumed_calibration(profile: HardwareProfile) -> Calibration:
    """What stands in for a calibration: the device's own rates with the overheads that five GPUs share.

    One set of 4 µs a product and 18 µs a layer, beside sustained bandwidth, meets measured decode steps of five
    data-centre GPUs within 7 %. Elsewhere it is an assumption, and the output says so.

    References
    ----------
    aiconfigurator

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> assumed_calibration(catalogue_device("l4")).layer_overhead_s
    1.8e-05
    """
    peaks = profile.peak_flops_per_s
    rates = tuple((name, profile.flops_per_s(name)) for name in ARITHMETICS if getattr(peaks, name) is not None)
    return _assumed(profile.sustained_bandwidth_bytes_per_s.value, rates, profile.flops_per_s("fp16"))


@lru_cache(maxsize=256)
def _assumed(
    bandwidth_bytes_per_s: float, rates: tuple[tuple[Arithmetic, float], ...], attention_flops_per_s: float
) -> Calibration:
    products: dict[Arithmetic, ProductCalibration] = {}
    for name, rate in rates:
        products[name] = ProductCalibration(
            launch_s=4e-6, bandwidth_bytes_per_s=bandwidth_bytes_per_s, flops_per_s=0.8 * rate, norm=2.5
        )
    return Calibration(
        evidence="catalogue",
        source=ASSUMED,
        products=products,
        layer_overhead_s=1.8e-5,
        attention_bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        attention_flops_per_s=0.8 * attention_flops_per_s,
        link_latency_s=8e-6,
    )


def calibration_label(profile: HardwareProfile, backend: str | None = None) -> str:
    """Where the calibration of a device comes from, in a few words; every row of a projection repeats it.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> calibration_label(catalogue_device("l4"))
    'assumed: overheads of five data-centre GPUs'
    """
    calibration = calibration_of(profile, backend)
    if calibration is None:
        return ASSUMED
    if calibration.intervals is not None:
        return "fitted to measured rows"
    return "fitted to a probe" if calibration.evidence == "measured" else "fitted to published tables"


def calibrated_rates(profile: HardwareProfile, precision_name: str, backend: str | None = None) -> CalibratedRates:
    """Numbers of a device for one weight format, from its calibration or from the assumption.

    Weights in 4 bits are computed in 16. Where 8-bit arithmetic was not calibrated, the rates of 16 bits stand in;
    where no link between devices is known, :data:`ASSUMED_LINK_BYTES_PER_S`.

    Raises
    ------
    BadInput
        If a backend is named that the profile does not have, or the weight format is unknown.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> rates = calibrated_rates(catalogue_device("h100-sxm5"), "bf16")
    >>> print(f"{1e6 * rates.launch_s:.1f} µs, {rates.bandwidth_bytes_per_s / 1e9:.0f} GB/s")
    3.8 µs, 2982 GB/s
    """
    found = calibration_of(profile, backend) or assumed_calibration(profile)
    product = _product(found, precision(precision_name).arithmetic)
    rows = found.rows_per_kv_pass
    link = found.link_bandwidth_bytes_per_s
    return CalibratedRates(
        launch_s=product.launch_s,
        bandwidth_bytes_per_s=product.bandwidth_bytes_per_s,
        flops_per_s=product.flops_per_s,
        norm=product.norm,
        step_overhead_s=found.step_overhead_s,
        layer_overhead_s=found.layer_overhead_s,
        attention_launch_s=found.attention_launch_s,
        attention_per_sequence_s=found.attention_per_sequence_s,
        attention_bandwidth_bytes_per_s=found.attention_bandwidth_bytes_per_s,
        attention_flops_per_s=found.attention_flops_per_s,
        attention_norm=found.attention_norm,
        rows_per_kv_pass=ALL_ROWS if rows is None else float(rows),
        kv_near_bytes=found.kv_near_bytes,
        kv_near_gain=found.kv_near_gain,
        expert_overhead_s=found.expert_overhead_s,
        routing_exponent=found.routing_exponent,
        link_latency_s=found.link_latency_s,
        link_bandwidth_bytes_per_s=ASSUMED_LINK_BYTES_PER_S if link is None else link,
    )


def _product(found: Calibration, arithmetic: str) -> ProductCalibration:
    for name in (arithmetic, "fp16", "fp32"):
        for known, product in found.products.items():
            if known == name:
                return product
    return next(iter(found.products.values()))


def stacked_rates(
    profiles: Sequence[HardwareProfile], precision_name: str, backend: str | None = None
) -> CalibratedRates:
    """Rates of several devices along the first axis of a grid, (n_devices, 1, 1, 1).

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> stacked_rates([catalogue_device("l4")] * 2, "bf16").norm.shape
    (2, 1, 1, 1)
    """
    each = [calibrated_rates(profile, precision_name, backend) for profile in profiles]
    columns = {
        item.name: np.array([getattr(rates, item.name) for rates in each], dtype=np.float64).reshape(-1, 1, 1, 1)
        for item in fields(CalibratedRates)
    }
    return CalibratedRates(**columns)
