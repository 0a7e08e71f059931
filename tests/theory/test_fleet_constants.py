"""Rows that a known device would have shown give its constants back, as far as rows can tell them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from specbook.hardware.profile import catalogue_device
from specbook.validation.fleet import FleetFit, fit_fleet
from specbook.validation.fleet_bounds import bounds_of
from specbook.validation.fleet_config import FleetConfig
from specbook.validation.fleet_data import fleet_data
from specbook.validation.fleet_intervals import fit_with_intervals
from specbook.validation.fleet_times import fitted_times
from specbook.validation.settings import Setting
from tests.fleet_cases import DENSE, LARGE, MIXTURE, a_fleet, device_with, measured

TRUTH: dict[str, Any] = {"step": 3e-4, "layer": 2e-5, "kv_passes": 2.0, "mbu": 0.7, "mfu": 0.5}
NAMES = tuple(TRUTH)


def _device(name: str = "h200-sxm", **changes: Any):
    values = {**TRUTH, **changes}
    rows = values.pop("kv_passes")
    return device_with(name, rows_per_kv_pass=None if rows is None else int(rows), **values)


def _fit(rows: list[Setting], seed: int = 0, **changes: Any) -> FleetFit:
    return fit_fleet(rows, FleetConfig(**changes), np.random.default_rng(seed))


def _values(fit: FleetFit, column: str = "value") -> list[float | None]:
    return fit.constants[column].to_list()


@pytest.mark.parametrize("name", ["h200-sxm", "a100-sxm4-80gb", "l4", "mi300x"])
@pytest.mark.parametrize("rows_per_kv_pass", [1.0, 2.0, None])
def test_constants_without_noise_come_back_exactly(name: str, rows_per_kv_pass: float | None):
    device = catalogue_device(name)
    fleet = [replace(each, device=device) for each in a_fleet(batches=(1, 8, 256))]
    fit = _fit(measured(fleet, _device(name, kv_passes=rows_per_kv_pass)))
    expected = {**TRUTH, "kv_passes": rows_per_kv_pass}
    assert all(fit.constants["fitted"])
    for found, (constant, value) in zip(_values(fit), expected.items(), strict=True):
        assert found == (value if value is None else pytest.approx(value, rel=1e-4)), constant
    assert fit.held_back["error_after"].abs().max() < 1e-6


@pytest.mark.parametrize("method", ["eagle3", "draft_model", "ngram", "medusa"])
def test_constants_come_back_whatever_drafts(method: str):
    from specbook.roofline.model_spec import model

    draft = model("Llama-3.2-1B") if method == "draft_model" else None
    fleet = a_fleet(batches=(1, 256), depths=(0.0, 2.0, 5.0), method=method, draft=draft)
    np.testing.assert_allclose(_values(_fit(measured(fleet, _device()))), list(TRUTH.values()), rtol=1e-4)


@pytest.mark.parametrize("n_devices", [2, 8])
def test_constants_come_back_where_devices_share_a_model(n_devices: int):
    fleet = a_fleet(batches=(1, 256), n_devices=n_devices)
    np.testing.assert_allclose(_values(_fit(measured(fleet, _device()))), list(TRUTH.values()), rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["h200-sxm", "l4"])
def test_constants_with_noise_are_near_and_the_error_is_about_the_noise(seed: int, name: str):
    device = catalogue_device(name)
    fleet = [replace(each, device=device) for each in a_fleet(batches=(1, 8, 256))]
    fit = _fit(measured(fleet, _device(name), 0.03, np.random.default_rng(seed)), seed)
    for row, truth in zip(fit.constants.iter_rows(named=True), TRUTH.values(), strict=True):
        reach = 2.0 * (row["high"] - row["low"]) + 1e-9
        assert abs(row["value"] - truth) < reach, row["constant"]
    np.testing.assert_allclose(_values(fit)[2:], list(TRUTH.values())[2:], rtol=0.05)
    assert 0.01 < fit.profile.calibrations["sglang"].error.median < 0.04


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    # Six series with a row each are drawn again; a little under 95 % is what so few give.
    n_repetitions, fleet = 30, a_fleet(batches=(1, 256), contexts=(2048.0,), depths=(4.0,))
    device, asked = catalogue_device("h200-sxm"), (0, 1, 3, 4)
    truth = np.array(list(TRUTH.values()))
    hits = np.zeros(len(NAMES))
    for seed in range(n_repetitions):
        rng = np.random.default_rng(100 + seed)
        data = fleet_data(measured(fleet, _device(kv_passes=None), 0.03, rng))
        times = fitted_times(data, data.parts)
        fit, ends = fit_with_intervals(times, bounds_of(times, device), asked, 200, rng)
        assert 3 in fit.free
        told = np.isin(np.arange(len(NAMES)), fit.free)
        hits += ~told | ((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    fewest = binom.ppf(1e-3, n_repetitions, 0.9)
    assert np.all(hits[list(asked)] >= fewest), hits
    assert hits[list(asked)].mean() / n_repetitions > 0.85


def test_intervals_are_wider_where_rows_scatter_more():
    fleet, spans = a_fleet(batches=(1, 8, 256)), []
    for noise in (0.01, 0.05):
        fit = _fit(measured(fleet, _device(), noise, np.random.default_rng(5)))
        spans.append((fit.constants["high"] - fit.constants["low"])[[0, 1, 3, 4]].to_numpy())
    assert np.all(spans[1] > 2.0 * spans[0])


def test_step_and_layer_overhead_of_one_model_are_not_told_apart():
    fit = _fit(measured(a_fleet(targets=(DENSE,), batches=(1, 8, 256)), _device(), 0.02))
    step, layer = fit.constants.head(2).iter_rows(named=True)
    assert (step["fitted"], layer["fitted"]) == (True, False)
    assert layer["value"] == layer["before"]
    assert layer["low"] is None
    assert "cannot tell it from the overhead of a step: all their targets have 32 layers" in layer["note"]
    assert "the sum alone" in step["note"]
    assert set(fit.profile.calibrations["sglang"].intervals) == {
        "step_overhead_s",
        "rows_per_kv_pass",
        "mbu",
        "mfu",
    }


def test_two_models_of_as_many_layers_are_no_better():
    # Both have 80 layers, whatever their size.
    fleet = a_fleet(targets=(LARGE, "Qwen2.5-72B"), batches=(1, 64), n_devices=4)
    fit = _fit(measured(fleet, _device(), 0.01))
    assert _values(fit, "fitted")[:2] == [True, False]


def test_step_and_layer_overhead_asked_for_alone_are_each_fitted():
    fleet = measured(a_fleet(targets=(DENSE,), batches=(1, 8, 256)), _device(), 0.01)
    for name in ("step", "layer"):
        fit = _fit(fleet, constants=(name, "mbu"))
        assert fit.constants.filter(pl.col("fitted"))["constant"].to_list() == [name, "mbu"]


def test_short_contexts_do_not_tell_how_often_a_cache_is_read():
    fleet = a_fleet(contexts=(64.0,), batches=(1, 8))
    fit = _fit(measured(fleet, _device(kv_passes=None), 0.02))
    row = fit.constants.row(2, named=True)
    assert (row["fitted"], row["value"]) == (False, None)
    assert "cannot tell" in row["note"]
    assert fit.profile.calibrations["sglang"].rows_per_kv_pass is None


def test_small_batches_do_not_tell_the_rate_of_arithmetic():
    fit = _fit(measured(a_fleet(batches=(1,), contexts=(64.0, 128.0), depths=(1.0, 2.0)), _device(), 0.02))
    row = fit.constants.row(4, named=True)
    assert (row["fitted"], row["value"]) == (False, row["before"])
    assert "cannot tell" in row["note"]
    assert "mfu" not in fit.profile.calibrations["sglang"].intervals


def test_a_single_size_of_pass_tells_one_constant():
    # One model, one batch, no drafts: each row is the same pass, and all constants but one keep what they were.
    fleet = a_fleet(targets=(DENSE,), batches=(1,), contexts=(512.0,), depths=(0.0,) * 6)
    fit = _fit(measured(fleet, _device(), 0.02))
    assert fit.constants.filter(pl.col("fitted")).height == 1
    assert fit.held_back["error_after"].abs().median() < 0.05


@pytest.mark.parametrize("factor", [0.02, 30.0])
def test_rows_held_back_are_not_seen(factor: float):
    fleet = measured(a_fleet(batches=(1, 8, 256)), _device(), 0.02)
    held = set(list(dict.fromkeys(each.row.series for each in fleet))[2::3])
    wild = [_faster(each, factor) if each.row.series in held else each for each in fleet]
    before, after = _fit(fleet), _fit(wild)
    assert _values(before, "without_held_back") == _values(after, "without_held_back")
    assert _speedups(before) == pytest.approx(_speedups(after))
    assert _values(before) != _values(after)
    assert after.held_back["error_after"].abs().median() > 10.0 * before.held_back["error_after"].abs().median()


def _speedups(fit: FleetFit) -> list[float]:
    return fit.held_back.filter(pl.col("kind") == "speedup")["after"].to_list()


def _faster(setting: Setting, factor: float) -> Setting:
    row = setting.row
    speeds = {name: factor * getattr(row, name) for name in ("tokens_per_s", "baseline_tokens_per_s")}
    return replace(setting, row=replace(row, **speeds))


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_one_wild_row_does_not_bend_the_rest(factor: float):
    fleet = measured(a_fleet(batches=(1, 8, 256)), _device(), 0.01)
    wild = [_with_speed(each, factor) if each.row.line == 30 else each for each in fleet]
    plain, bent = (np.array(_values(_fit(rows)), dtype=float) for rows in (fleet, wild))
    np.testing.assert_allclose(bent, plain, rtol=0.06)


def _with_speed(setting: Setting, factor: float) -> Setting:
    speed = setting.row.tokens_per_s
    return replace(setting, row=replace(setting.row, tokens_per_s=None if speed is None else factor * speed))


def test_workloads_that_spend_time_outside_decoding_do_not_move_the_constants():
    # A second workload of each server, whose tokens wait 2 ms more, drafted or not.
    fleet = measured(a_fleet(batches=(1, 256)), _device())
    slower = []
    for each in fleet:
        baseline, speed = each.batch / each.row.baseline_tokens_per_s, each.batch / each.row.tokens_per_s
        row = replace(
            each.row,
            line=each.row.line + 100,
            series=f"{each.row.series} long prompts",
            workload="long prompts",
            baseline_tokens_per_s=each.batch / (baseline + 2e-3),
            tokens_per_s=each.batch / (speed + 2e-3),
        )
        slower.append(replace(each, row=row))
    fit = _fit([*fleet, *slower])
    np.testing.assert_allclose(_values(fit), list(TRUTH.values()), rtol=1e-4)


def test_a_mixture_of_experts_alone_tells_its_constants():
    fit = _fit(measured(a_fleet(targets=(MIXTURE, "Qwen3-235B-A22B"), batches=(1, 8, 256), n_devices=8), _device()))
    np.testing.assert_allclose(_values(fit), list(TRUTH.values()), rtol=1e-3)
