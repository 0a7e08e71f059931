"""The hardware catalogue as a page: devices, the source of every figure, and what step times are calibrated with."""

from __future__ import annotations

from collections.abc import Iterable

from docutils import nodes

from specbook.display.sphinx_nodes import Cell, folded, link, table
from specbook.hardware.profile import Figure, HardwareProfile, catalogue_device, catalogue_names
from specbook.roofline.calibrations import ASSUMED, assumed_calibration, calibration_label, calibration_of


def hardware_table() -> list[nodes.Element]:
    """The catalogue in readable units, then every figure with its source."""
    devices = [catalogue_device(name) for name in by_ridge_point(catalogue_names())]
    headings = ("name", "device", ">memory GB", ">peak GB/s", ">sustained GB/s", ">16-bit TFLOP/s", ">FLOP per byte")
    rows = [
        (
            device.name,
            device.device,
            f"{device.memory_bytes.value / 1e9:,.0f}",
            _scaled(device.peak_bandwidth_bytes_per_s, 1e9),
            f"{device.sustained_bandwidth_bytes_per_s.value / 1e9:,.0f}",
            _scaled(device.peak_flops_per_s.fp16, 1e12),
            f"{device.ridge_point_flops_per_byte:,.0f}",
        )
        for device in devices
    ]
    sources = [row for device in devices for row in _sources(device)]
    return [
        table(headings, rows),
        *folded("The source of every figure", table(_SOURCE_HEADINGS, sources)),
        nodes.rubric("", "Calibrations"),
        table(_CALIBRATION_HEADINGS, [row for device in devices for row in _calibrations(device)]),
    ]


def _scaled(figure: Figure | None, unit: float) -> str:
    return "–" if figure is None else f"{figure.value / unit:,.0f}"


_SOURCE_HEADINGS = ("name", "figure", "source", "note")
_CALIBRATION_HEADINGS = (
    "name", "arithmetic", ">launch µs", ">of peak GB/s", ">of peak FLOP/s", ">q", ">layer µs", ">attention µs",
    ">cache, of peak GB/s", "from",
)  # fmt: skip


def by_ridge_point(names: Iterable[str]) -> list[str]:
    """Names of the catalogue, from the most arithmetic for each byte of bandwidth to the least; others last.

    Examples
    --------
    >>> by_ridge_point(["m3-max", "l4"])
    ['l4', 'm3-max']
    """
    known = set(catalogue_names())
    return sorted(names, key=lambda name: -catalogue_device(name).ridge_point_flops_per_byte if name in known else 0.0)


def _sources(device: HardwareProfile) -> list[tuple[Cell, ...]]:
    figures: dict[str, Figure | None] = {
        "memory": device.memory_bytes,
        "peak bandwidth": device.peak_bandwidth_bytes_per_s,
        "sustained bandwidth": device.sustained_bandwidth_bytes_per_s,
        "16-bit rate": device.peak_flops_per_s.fp16,
        "FP8 rate": device.peak_flops_per_s.fp8,
        "INT8 rate": device.peak_flops_per_s.int8,
        "launch overhead": device.step_overhead_s,
    }
    return [
        (device.name, label, link(figure.source, figure.url), figure.note or "")
        for label, figure in figures.items()
        if figure is not None
    ]


def _calibrations(device: HardwareProfile) -> list[tuple[Cell, ...]]:
    """One row a device and arithmetic; shares are of the device's own peaks."""
    calibration = calibration_of(device) or assumed_calibration(device)
    peak = device.peak_bandwidth_bytes_per_s or device.sustained_bandwidth_bytes_per_s
    return [
        (
            device.name,
            name,
            f"{1e6 * product.launch_s:.1f}",
            f"{product.bandwidth_bytes_per_s / peak.value:.2f}",
            f"{product.flops_per_s / device.flops_per_s(name):.2f}",
            f"{product.norm:.1f}",
            f"{1e6 * calibration.layer_overhead_s:.1f}",
            f"{1e6 * calibration.attention_launch_s:.1f}",
            f"{calibration.attention_bandwidth_bytes_per_s / peak.value:.2f}",
            "assumed" if calibration_label(device) == ASSUMED else "fitted",
        )
        for name, product in calibration.products.items()
    ]
