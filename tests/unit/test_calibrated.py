"""The calibrated roofline as an object: what it refuses, how it broadcasts, and which side binds it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import (
    ALL_ROWS,
    CalibratedRates,
    CalibratedRoofline,
    attention_seconds,
    calibrated_seconds,
    example_rates,
    kv_passes,
    row_seconds,
)
from specbook.roofline.calibrations import stacked_rates
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost

COST = step_cost(model("Llama-3.1-8B"), "bf16")
STEP = CalibratedRoofline(cost=COST, rates=example_rates())
RATES = [
    item.name for item in fields(CalibratedRates) if "_per_" in item.name and item.name.endswith(("_per_s", "pass"))
]


@pytest.mark.parametrize("name", [item.name for item in fields(CalibratedRates)])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_calibrated_refuses_an_impossible_rate_by_its_name(name: str, value: float):
    with pytest.raises(ValueError, match=name):
        CalibratedRoofline(cost=COST, rates=replace(example_rates(), **{name: value}))


@pytest.mark.parametrize("name", RATES)
def test_calibrated_refuses_a_rate_of_zero(name: str):
    with pytest.raises(ValueError, match=name):
        CalibratedRoofline(cost=COST, rates=replace(example_rates(), **{name: 0.0}))


@pytest.mark.parametrize(("name", "value"), [("norm", 0.5), ("routing_exponent", 1.5)])
def test_calibrated_refuses_exponents_out_of_range(name: str, value: float):
    with pytest.raises(ValueError, match=name):
        CalibratedRoofline(cost=COST, rates=replace(example_rates(), **{name: value}))


def test_calibrated_allows_overheads_of_zero():
    free = replace(example_rates(), launch_s=0.0, layer_overhead_s=0.0, attention_launch_s=0.0, link_latency_s=0.0)
    assert CalibratedRoofline(cost=COST, rates=free)(1, 1, 512) < STEP(1, 1, 512)


def test_calibrated_broadcasts_tokens_batches_and_contexts():
    tokens, batches, contexts = np.array([1, 5])[:, None, None], np.array([1, 8, 64])[:, None], np.array([512, 32768])
    grid = STEP(tokens, batches, contexts)
    assert grid.shape == (2, 3, 2)
    for index in np.ndindex(grid.shape):
        cell = STEP(tokens[index[0], 0, 0], batches[index[1], 0], contexts[index[2]])
        assert grid[index] == pytest.approx(float(cell), rel=1e-14)


def test_calibrated_evaluates_several_devices_along_the_first_axis():
    devices = [catalogue_device(name) for name in ("a100-sxm4-80gb", "h100-sxm5", "l4")]
    seconds = CalibratedRoofline(cost=COST, rates=stacked_rates(devices, "bf16"))(5.0, 8.0, 512.0)
    assert seconds.shape == (3, 1, 1, 1)
    for profile, each in zip(devices, seconds.ravel(), strict=True):
        alone = CalibratedRoofline(cost=COST, rates=stacked_rates([profile], "bf16"))(5.0, 8.0, 512.0)
        assert each == alone.item()


def test_calibrated_is_the_sum_of_rows_and_attention():
    for batch, context in ((1, 512), (64, 8192)):
        parts = row_seconds(5, batch, COST, STEP.rates) + attention_seconds(5, batch, context, COST, STEP.rates)
        assert calibrated_seconds(5, batch, context, COST, STEP.rates) == parts == STEP(5, batch, context)


def test_calibrated_regime_turns_with_the_batch_and_back_with_the_context():
    assert not STEP.is_compute_bound(1, 1, 512)
    assert STEP.is_compute_bound(9, 256, 512)
    assert not STEP.is_compute_bound(1, 256, 32768)
    assert STEP.is_compute_bound(np.array([1, 9]), 256, 512).tolist() == [False, True]


def test_calibrated_names_its_kind():
    assert STEP.kind == "calibrated"


def test_kv_passes_of_two_row_windows():
    assert [float(kv_passes(float(tokens), 2.0)) for tokens in (1, 2, 3, 4, 5, 9)] == [1, 1, 2, 2, 3, 5]


def test_calibrated_regime_reads_faster_what_is_near():
    rates = replace(example_rates(), rows_per_kv_pass=1.0, kv_near_bytes=1e15, kv_near_gain=17.0)
    near = CalibratedRoofline(cost=COST, rates=rates)
    shared = CalibratedRoofline(cost=COST, rates=replace(example_rates(), rows_per_kv_pass=ALL_ROWS))
    contexts = 2.0 ** np.arange(8, 18)
    bound = near.is_compute_bound(17.0, 256.0, contexts)
    np.testing.assert_array_equal(bound, shared.is_compute_bound(17.0, 256.0, contexts))
    far = CalibratedRoofline(cost=COST, rates=replace(rates, kv_near_bytes=0.0))
    assert bound.sum() > far.is_compute_bound(17.0, 256.0, contexts).sum()
