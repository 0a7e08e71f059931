"""A fit to times that a known model made gives that model back, as far as times can tell."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import ALL_ROWS, calibrated_seconds
from specbook.roofline.calibrations import calibrated_rates, calibration_label
from specbook.roofline.fit import fit_calibration, with_calibrations
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from tests.probe_records import rates_of_a_machine, record_of


@pytest.fixture(scope="module")
def noisy():
    return record_of(rates_of_a_machine(), 0.03, np.random.default_rng(5))


def test_fit_without_noise_meets_the_held_out_passes():
    calibration = fit_calibration(record_of(rates_of_a_machine(), 0.0, np.random.default_rng(0)), "fast")
    assert calibration.error is not None
    assert calibration.error.median < 0.005
    assert calibration.error.worst < 0.03
    product = calibration.products["fp32"]
    assert product.bandwidth_bytes_per_s == pytest.approx(1.1e10, rel=0.05)
    assert product.flops_per_s == pytest.approx(4e10, rel=0.05)


def test_fit_with_noise_errs_about_as_much_as_the_noise(noisy):
    error = fit_calibration(noisy, "fast").error
    assert 0.005 < error.median < 0.05
    assert error.n_held_out == len(noisy.passes) // 3


@pytest.mark.parametrize(("rows", "found"), [(1.0, 1), (ALL_ROWS, None)])
def test_fit_tells_whether_rows_share_a_read_of_the_cache(rows: float, found: int | None):
    # Arithmetic that never binds, so that the reads alone decide.
    rates = rates_of_a_machine(rows_per_kv_pass=rows, attention_flops_per_s=1e13)
    record = record_of(rates, 0.02, np.random.default_rng(1))
    assert fit_calibration(record, "fast").rows_per_kv_pass == found


@pytest.mark.parametrize(("rows", "found"), [(1.0, 1), (ALL_ROWS, None)])
def test_fit_finds_up_to_which_size_the_cache_is_near_and_how_much_faster(rows: float, found: int | None):
    size = 2.0 * 2 * 64 * 4 * 4096
    rates = rates_of_a_machine(kv_near_bytes=size, kv_near_gain=4.0, rows_per_kv_pass=rows, attention_flops_per_s=1e13)
    calibration = fit_calibration(record_of(rates, 0.01, np.random.default_rng(2)), "fast")
    assert (calibration.rows_per_kv_pass, calibration.kv_near_bytes) == (found, size)
    assert calibration.kv_near_gain == pytest.approx(4.0, rel=0.2)


def test_fitted_profile_predicts_a_model_that_was_not_probed(noisy):
    profile = catalogue_device("genoa").model_copy(update={"probe": noisy})
    fitted = with_calibrations(profile)
    rates = calibrated_rates(fitted, "fp32", "fast")
    cost = step_cost(model("SmolLM2-135M"), "fp32")
    for width, batch, context in ((1, 1, 512), (5, 1, 512), (5, 4, 2048)):
        truth = calibrated_seconds(width, batch, context, cost, rates_of_a_machine())
        assert calibrated_seconds(width, batch, context, cost, rates) == pytest.approx(truth, rel=0.1)
    assert calibration_label(fitted, "fast") == "fitted to a probe"


def test_fit_of_too_few_passes_is_refused(noisy):
    short = noisy.model_copy(update={"passes": noisy.passes[:5]})
    with pytest.raises(BadInput, match="at least 6 passes"):
        fit_calibration(short, "fast")
    with pytest.raises(BadInput, match="too few passes to fit"):
        with_calibrations(catalogue_device("genoa").model_copy(update={"probe": short}))
    with pytest.raises(BadInput, match="holds no probe"):
        with_calibrations(catalogue_device("genoa"))
