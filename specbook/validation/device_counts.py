"""How many devices share a model where a row does not tell.

Somebody who runs a server knows this, and the figures of others leave it out. Only a power of two whose devices hold
the weights can be meant, and an engine is not faster than the products of its passes. So it is the fewest devices whose
modelled step is no longer than the measured one, give or take the error of the calibration. That takes the run without
speculation alone, and every row says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from specbook.roofline.calibrations import calibration_of
from specbook.validation.settings import Setting
from specbook.validation.step_times import StepTimes

_LARGEST = 8
# Of a device's memory, what weights may take: a server keeps the rest for its cache.
_WEIGHTS_SHARE = 0.95
# By how much a calibrated step of a data-centre GPU is off.
_CALIBRATION_ERROR = 0.07


def possible_counts(setting: Setting) -> tuple[int, ...]:
    """Powers of two whose devices hold the weights; one where no link between devices of the kind is known.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> possible_counts(example_setting())
    (1, 2, 4, 8)
    """
    calibration = calibration_of(setting.device)
    if calibration is None or calibration.link_bandwidth_bytes_per_s is None:
        return (1,)
    room = _WEIGHTS_SHARE * setting.device.memory_bytes.value
    weights = setting.target.weight_bytes(setting.precision)
    counts = [2**power for power in range(int(math.log2(_LARGEST)) + 1)]
    return tuple(count for count in counts if weights / count <= room)


def with_counts(found: Sequence[Setting], fastest_s: Sequence[float], times: StepTimes) -> list[Setting]:
    """The same settings, each with a number of devices.

    Parameters
    ----------
    found : sequence of Setting
    fastest_s : sequence of float
        The shortest measured time of a token in each one's setting; NaN where none was published.
    times : StepTimes

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> with_counts([example_setting()], [5.2e-3], StepTimes())[0].n_devices
    1
    """
    return [_counted(setting, fastest, times) for setting, fastest in zip(found, fastest_s, strict=True)]


def _counted(setting: Setting, fastest_s: float, times: StepTimes) -> Setting:
    if setting.n_devices is not None:
        return replace(setting, devices_from="stated")
    counts = possible_counts(setting)
    if len(counts) == 1:
        return replace(setting, n_devices=counts[0], devices_from="single")
    if math.isnan(fastest_s) or not counts:
        count = counts[0] if counts else _LARGEST
        note = f"{_devices(count)}, the fewest that hold the weights"
        return replace(setting, n_devices=count, devices_from="inferred", assumptions=(*setting.assumptions, note))
    longest_s = (1.0 + _CALIBRATION_ERROR) * fastest_s
    chosen = next((count for count in counts if _step_s(setting, count, times) <= longest_s), counts[-1])
    note = f"{_devices(chosen)}, the fewest whose modelled step is no longer than the run without speculation"
    return replace(setting, n_devices=chosen, devices_from="inferred", assumptions=(*setting.assumptions, note))


def _devices(count: int) -> str:
    return "one device" if count == 1 else f"{count} devices"


def _step_s(setting: Setting, n_devices: int, times: StepTimes) -> float:
    step = times.target(setting.device, setting.target, setting.precision, n_devices)
    return float(step(1.0, setting.batch, setting.context_tokens))
