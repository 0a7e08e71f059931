"""Passes as one array have the times that the calibrated model gives them one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.hardware.calibration import Calibration
from specbook.hardware.profile import HardwareProfile, catalogue_device, load_hardware
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import calibrated_rates, calibration_of
from specbook.roofline.fit import with_calibrations
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from specbook.validation.fleet_constants import base_calibration, constants_before, peak_bandwidth
from specbook.validation.fleet_file import fitted_calibration, with_fitted
from specbook.validation.fleet_passes import PassAt, stacked
from tests.fleet_cases import AN_ERROR, device_with

# Dense, grouped and latent attention, experts, layers with a recurrent state; one device or several; formats.
MODELS = (
    ("Llama-3.1-8B", "bf16", 1),
    ("Llama-3.1-70B", "fp8", 4),
    ("Qwen3-30B-A3B", "bf16", 2),
    ("DeepSeek-V3", "fp8", 8),
    ("Qwen3-Next-80B-A3B", "int4", 1),
)
AT = ((1.0, 1.0, 512.0), (5.0, 8.0, 4096.0), (9.0, 64.0, 1.0))


def _passes(device: HardwareProfile) -> list[PassAt]:
    found = []
    for name, precision, n_devices in MODELS:
        cost = step_cost(model(name), precision, tensor_parallel=n_devices)
        step = CalibratedRoofline(cost=cost, rates=calibrated_rates(device, precision))
        found += [PassAt(step=step, tokens=tokens, batch=batch, context=context) for tokens, batch, context in AT]
    return found


def _with(device: HardwareProfile, values: np.ndarray) -> HardwareProfile:
    calibration = fitted_calibration(device, values, {}, source="a test", note="", error=AN_ERROR)
    return with_fitted(device, "fitted", calibration)


@given(
    step=st.floats(0.0, 1e-2),
    layer=st.floats(0.0, 1e-3),
    rows=st.sampled_from([1.0, 2.0, 4.0, 2.0**20]),
    mbu=st.floats(0.05, 1.0),
    mfu=st.floats(0.05, 1.0),
    name=st.sampled_from(["h200-sxm", "l4", "m3-max"]),
)
def test_stacked_passes_are_the_calibrated_model(
    step: float, layer: float, rows: float, mbu: float, mfu: float, name: str
):
    device, values = catalogue_device(name), np.array([step, layer, rows, mbu, mfu])
    found = stacked(_passes(device), constants_before(device)).seconds(values)
    expected = [float(each.step(each.tokens, each.batch, each.context)) for each in _passes(_with(device, values))]
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_many_constants_at_once_are_each_of_them():
    device = catalogue_device("h200-sxm")
    passes = stacked(_passes(device), constants_before(device))
    several = np.array([[1e-4, 1e-5, 1.0, 0.5, 0.4], [0.0, 2e-5, 2.0**20, 0.9, 0.8]])
    together = passes.seconds(several)
    assert together.shape == (2, len(MODELS) * len(AT))
    for row, values in zip(together, several, strict=True):
        np.testing.assert_array_equal(row, passes.seconds(values))


def test_a_nearer_memory_keeps_its_gain():
    device = with_calibrations(load_hardware("epyc-zen4-2core"))
    base = base_calibration(device)
    near = base.model_copy(update={"kv_near_bytes": 2.0 * 2**20, "kv_near_gain": 4.0})
    device = with_fitted(device, "near", near)
    step = CalibratedRoofline(cost=step_cost(model("SmolLM2-135M"), "fp32"), rates=calibrated_rates(device, "fp32"))
    passes = [PassAt(step=step, tokens=2.0, batch=1.0, context=context) for context in (128.0, 65536.0)]
    found = stacked(passes, constants_before(device)).seconds(constants_before(device))
    np.testing.assert_allclose(found, [float(step(2.0, 1.0, each.context)) for each in passes], rtol=1e-11)
    far = replace(step, rates=replace(step.rates, kv_near_bytes=0.0))
    assert found[0] < 0.999 * float(far(2.0, 1.0, 128.0))
    assert found[1] == pytest.approx(float(far(2.0, 1.0, 65536.0)), rel=1e-11)


def test_constants_before_are_shares_of_the_peaks():
    device = device_with(step=3e-4, layer=2e-5, rows_per_kv_pass=2, mbu=0.7, mfu=0.5)
    np.testing.assert_allclose(constants_before(device), [3e-4, 2e-5, 2.0, 0.7, 0.5])


def test_without_a_peak_shares_are_of_the_sustained_bandwidth():
    device = catalogue_device("h200-sxm").model_copy(update={"peak_bandwidth_bytes_per_s": None})
    assert peak_bandwidth(device) == device.sustained_bandwidth_bytes_per_s.value
    assert constants_before(device)[3] == pytest.approx(1.0)


def test_without_a_calibration_the_assumed_one_is_the_base():
    device = catalogue_device("l4")
    assert calibration_of(device) is None
    assert isinstance(base_calibration(device), Calibration)
    assert constants_before(device)[4] == pytest.approx(0.8)
