"""Which calibration a device uses, and what stands in where it has none."""

from __future__ import annotations

import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.calibrated import ALL_ROWS, CalibratedRoofline
from specbook.roofline.calibrations import (
    ASSUMED,
    ASSUMED_LINK_BYTES_PER_S,
    assumed_calibration,
    calibrated_rates,
    calibration_label,
    calibration_of,
    stacked_rates,
)
from specbook.roofline.model_spec import PRECISIONS, model
from specbook.roofline.pass_cost import step_cost

FITTED = ("a100-sxm4-80gb", "b200-sxm", "h100-sxm5", "h200-sxm", "l40s")


def _backend(name: str, **changes: object):
    profile = catalogue_device("h100-sxm5")
    default = profile.calibrations["default"]
    return profile.model_copy(update={"calibrations": {"default": default, name: default.model_copy(update=changes)}})


@pytest.mark.parametrize("name", FITTED)
def test_fitted_devices_are_labelled_so(name: str):
    assert calibration_label(catalogue_device(name)) == "fitted to published tables"


def test_devices_without_a_fit_are_labelled_assumed():
    for name in set(catalogue_names()) - set(FITTED):
        profile = catalogue_device(name)
        if not profile.calibrations:
            assert calibration_label(profile) == ASSUMED
            assert assumed_calibration(profile).source == ASSUMED


def test_a_probed_calibration_is_labelled_fitted_to_a_probe():
    profile = _backend("probe", evidence="measured")
    assert calibration_label(profile, "probe") == "fitted to a probe"
    assert calibration_label(profile) == "fitted to published tables"


def test_an_unknown_backend_is_refused_with_those_that_exist():
    with pytest.raises(BadInput, match="default, metal"):
        calibration_of(_backend("metal"), "vulkan")
    with pytest.raises(BadInput, match="none"):
        calibrated_rates(catalogue_device("m3-max"), "bf16", "metal")


def test_a_backend_decides_how_often_the_cache_is_read():
    profile = _backend("windows", rows_per_kv_pass=2)
    assert calibrated_rates(profile, "bf16").rows_per_kv_pass == ALL_ROWS
    assert calibrated_rates(profile, "bf16", "windows").rows_per_kv_pass == 2.0


@pytest.mark.parametrize("precision", ["int4", "q4_k", "q8_0", "fp16"])
def test_narrow_weights_are_computed_in_16_bits(precision: str):
    profile = catalogue_device("h100-sxm5")
    assert calibrated_rates(profile, precision) == calibrated_rates(profile, "bf16")


def test_8_bit_arithmetic_has_its_own_rates_or_those_of_16_bits():
    h100, a100 = catalogue_device("h100-sxm5"), catalogue_device("a100-sxm4-80gb")
    wide, narrow = calibrated_rates(h100, "bf16"), calibrated_rates(h100, "fp8")
    assert narrow.launch_s - wide.launch_s == pytest.approx(3e-6, rel=1e-9)
    assert narrow.flops_per_s < wide.flops_per_s  # fitted: .42 of the 8-bit peak
    assert calibrated_rates(a100, "fp8") == calibrated_rates(a100, "bf16")


def test_8_bits_halve_the_bytes_of_a_layer_and_not_its_time():
    spec, profile = model("Llama-3.1-8B"), catalogue_device("h100-sxm5")
    seconds = [
        float(CalibratedRoofline(cost=step_cost(spec, name), rates=calibrated_rates(profile, name))(1, 1, 512))
        for name in ("bf16", "fp8")
    ]
    assert 0.6 < seconds[1] / seconds[0] < 0.75


def test_the_assumption_is_the_device_with_the_overheads_of_others():
    profile = catalogue_device("rtx-4090")
    rates = calibrated_rates(profile, "bf16")
    assert (rates.launch_s, rates.layer_overhead_s, rates.attention_launch_s) == (4e-6, 1.8e-5, 0.0)
    assert rates.bandwidth_bytes_per_s == profile.sustained_bandwidth_bytes_per_s.value
    assert rates.flops_per_s == pytest.approx(0.8 * profile.flops_per_s("fp16"), rel=1e-15)
    assert rates.rows_per_kv_pass == ALL_ROWS
    assert rates.link_bandwidth_bytes_per_s == ASSUMED_LINK_BYTES_PER_S < rates.attention_bandwidth_bytes_per_s


def test_a_layer_costs_18_microseconds_beside_its_products_on_every_fitted_device():
    for name in FITTED:
        rates = calibrated_rates(catalogue_device(name), "bf16")
        assert rates.layer_overhead_s + rates.attention_launch_s == pytest.approx(1.8e-5, rel=1e-9), name


def test_every_device_of_the_catalogue_has_rates_in_every_precision():
    cost = step_cost(model("Llama-3.2-1B"), "bf16")
    for name in catalogue_names():
        for precision in PRECISIONS:
            step = CalibratedRoofline(cost=cost, rates=calibrated_rates(catalogue_device(name), precision))
            assert 1e-4 < float(step(1, 1, 512)) < 0.2, (name, precision)


def test_stacked_rates_keep_the_order_of_the_devices():
    names = ["l40s", "h100-sxm5", "rtx-3090"]
    rates = stacked_rates([catalogue_device(name) for name in names], "bf16")
    alone = [calibrated_rates(catalogue_device(name), "bf16").launch_s for name in names]
    assert rates.launch_s.shape == (3, 1, 1, 1)
    assert rates.launch_s.ravel().tolist() == alone
