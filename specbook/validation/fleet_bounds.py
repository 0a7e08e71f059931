"""Between what the constants of a backend may lie: what nobody needs a fit to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbook.checks import Floats
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import ALL_ROWS
from specbook.validation.fleet_constants import MBU, MFU, base_calibration, constants_before, peak_bandwidth
from specbook.validation.fleet_times import MeasuredTimes

_LEAST_SHARE = 0.02
# What sustained reads may turn out to be exceeded by where no peak is stated.
_ABOVE_SUSTAINED = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Between what the constants may lie; each (5,) of float64, in the order of ``CONSTANTS``."""

    low: Floats
    high: Floats


def bounds_of(times: MeasuredTimes, profile: HardwareProfile) -> Bounds:
    """No overhead is longer than the shortest measured time, and no share of a peak above 1.

    Where no peak is stated, shares are of the sustained bandwidth and may reach 1.5.

    Examples
    --------
    >>> from specbook.validation.fleet_times import example_times
    >>> from specbook.validation.settings import example_setting
    >>> found = bounds_of(example_times(), example_setting().device)
    >>> print(f"{1e3 * found.high[0]:.2f} ms a step, {1e6 * found.high[1]:.0f} µs a layer")
    5.26 ms a step, 164 µs a layer
    """
    of_steps = times.counts @ times.passes.cost.n_layers
    layers = np.maximum(of_steps, 1.0)
    shares = _largest_shares(profile)
    return Bounds(
        low=np.array([0.0, 0.0, 1.0, _LEAST_SHARE, _LEAST_SHARE]),
        high=np.array([times.seconds.min(), (times.seconds / layers).min(), ALL_ROWS, *shares]),
    )


def _largest_shares(profile: HardwareProfile) -> tuple[float, float]:
    """MBU and MFU at which the fastest of what they move together is at the peak."""
    found, before = base_calibration(profile), constants_before(profile)
    bandwidths = [each.bandwidth_bytes_per_s for each in found.products.values()]
    fastest = max(*bandwidths, found.attention_bandwidth_bytes_per_s)
    peak = peak_bandwidth(profile) * (_ABOVE_SUSTAINED if profile.peak_bandwidth_bytes_per_s is None else 1.0)
    densest = max(each.flops_per_s / profile.flops_per_s(name) for name, each in found.products.items())
    return float(before[MBU] * peak / fastest), float(before[MFU] / densest)
