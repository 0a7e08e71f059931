"""The five constants of a backend that the rows of a fleet may tell."""

from __future__ import annotations

import numpy as np

from specbook.checks import Floats
from specbook.hardware.calibration import Calibration
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import ALL_ROWS
from specbook.roofline.calibrations import assumed_calibration, calibration_of

# The constants of a backend, in the order of every vector of them, and what a calibration calls them.
CONSTANTS = ("step", "layer", "kv_passes", "mbu", "mfu")
FIELDS = dict(
    zip(CONSTANTS, ("step_overhead_s", "layer_overhead_s", "rows_per_kv_pass", "mbu", "mfu"), strict=True)
)  # fmt: skip
STEP, LAYER, KV_PASSES, MBU, MFU = range(len(CONSTANTS))


def base_calibration(profile: HardwareProfile) -> Calibration:
    """What a fit starts from: the device's first calibration, or the assumed one.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> base_calibration(catalogue_device("h200-sxm")).layer_overhead_s
    6.4e-06
    """
    return calibration_of(profile) or assumed_calibration(profile)


def peak_bandwidth(profile: HardwareProfile) -> float:
    """Bytes per second of which MBU is a share: the peak, or what is sustained where no peak is stated."""
    figure = profile.peak_bandwidth_bytes_per_s or profile.sustained_bandwidth_bytes_per_s
    return figure.value


def constants_before(profile: HardwareProfile) -> Floats:
    """The five constants of a device before any fit, (5,), in the order of ``CONSTANTS``.

    MBU and MFU are those of the first of the calibration's products; a fit moves all products and the attention by the
    same factor.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> print([f"{each:.3g}" for each in constants_before(catalogue_device("h200-sxm"))])
    ['0', '6.4e-06', '1.05e+06', '0.86', '0.86']
    """
    found = base_calibration(profile)
    arithmetic, product = next(iter(found.products.items()))
    rows = found.rows_per_kv_pass
    return np.array([
        found.step_overhead_s,
        found.layer_overhead_s,
        ALL_ROWS if rows is None else float(rows),
        product.bandwidth_bytes_per_s / peak_bandwidth(profile),
        product.flops_per_s / profile.flops_per_s(arithmetic),
    ])  # fmt: skip
