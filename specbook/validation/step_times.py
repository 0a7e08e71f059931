"""Step times of devices and models that many rows share, each made once."""

from __future__ import annotations

from dataclasses import dataclass, field

from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.drafting import Drafter, drafter_cost, drafter_of
from specbook.roofline.model_spec import ModelSpec
from specbook.roofline.pass_cost import step_cost
from specbook.validation.settings import Setting


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Calibrated step times, remembered by profile, model, weight format and number of devices.

    A profile is known by its identity, as comparing profiles takes longer than a step time, and is kept alive for it.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> setting, times = example_setting(), StepTimes()
    >>> step = times.target(setting.device, setting.target, setting.precision, 1)
    >>> step is times.target(setting.device, setting.target, setting.precision, 1)
    True
    """

    _devices: dict[int, HardwareProfile] = field(default_factory=dict, repr=False)
    _targets: dict[tuple[int, ModelSpec, str, int], CalibratedRoofline] = field(default_factory=dict, repr=False)
    _drafters: dict[tuple[object, ...], Drafter] = field(default_factory=dict, repr=False)

    def target(self, device: HardwareProfile, target: ModelSpec, precision: str, n_devices: int) -> CalibratedRoofline:
        """The target's step time on so many of a device."""
        key = (self._known(device), target, precision, n_devices)
        if key not in self._targets:
            cost = step_cost(target, precision, tensor_parallel=n_devices)
            self._targets[key] = CalibratedRoofline(cost=cost, rates=calibrated_rates(device, precision))
        return self._targets[key]

    def drafter(self, setting: Setting) -> Drafter:
        """The drafter of a setting without what an engine adds."""
        models = (setting.target, setting.draft, setting.draft_precision)
        key = (self._known(setting.device), setting.method, *models, setting.n_devices)
        if key not in self._drafters:
            self._drafters[key] = self._drafter(setting)
        return self._drafters[key]

    def _known(self, device: HardwareProfile) -> int:
        self._devices[id(device)] = device
        return id(device)

    def _drafter(self, setting: Setting) -> Drafter:
        n_devices = setting.n_devices or 1
        cost = drafter_cost(setting.method, setting.target, setting.draft, setting.draft_precision, n_devices)
        if cost is None:
            return drafter_of(setting.method, None)
        rates = calibrated_rates(setting.device, setting.draft_precision)
        return drafter_of(setting.method, CalibratedRoofline(cost=cost, rates=rates))
