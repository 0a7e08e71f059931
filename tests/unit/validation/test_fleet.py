"""Fitting a fleet: what is refused, what is said, and what is saved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.display.fleet_terminal import show_fleet
from specbook.files import dump_model, write_text
from specbook.hardware.profile import HardwareProfile, catalogue_device, load_hardware
from specbook.roofline.calibrations import calibrated_rates
from specbook.validation.fleet import FleetFit, calibrate, fit_fleet
from specbook.validation.fleet_config import FleetConfig
from specbook.validation.fleet_constants import constants_before
from specbook.validation.settings import MissingRow, Setting
from specbook.validation.step_times import StepTimes
from tests.fleet_cases import DENSE, LARGE, MIXTURE, a_fleet, a_setting, device_with, measured

TRUTH = device_with(step=3e-4, layer=2e-5, rows_per_kv_pass=2, mbu=0.7, mfu=0.5)


def _fit(rows: list[Setting], seed: int = 0, **changes: object) -> FleetFit:
    return fit_fleet(rows, FleetConfig(**changes), np.random.default_rng(seed))


@pytest.fixture(scope="module")
def rows() -> list[Setting]:
    return measured(a_fleet(batches=(1, 8, 256)), TRUTH, 0.02, np.random.default_rng(3))


@pytest.fixture(scope="module")
def fit(rows: list[Setting]) -> FleetFit:
    return _fit(rows, series_name="ours.csv", series_sha256="0" * 64)


def _row(fit: FleetFit, name: str) -> dict[str, object]:
    return fit.constants.row(by_predicate=pl.col("constant") == name, named=True)


def test_fit_says_what_it_rests_on(fit: FleetFit, rows: list[Setting]):
    calibration = fit.profile.calibrations["sglang"]
    assert (calibration.evidence, calibration.url) == ("measured", None)
    assert calibration.source == f"fitted to {len(rows)} rows of ours.csv (sha256 {'0' * 64})"
    assert "fitted: step, layer, kv_passes, mbu, mfu" in calibration.note
    assert catalogue_device("h200-sxm").calibrations["default"].source in calibration.note
    assert any("Held fixed" in note and "sglang" in note for note in fit.notes)


def test_fit_is_the_default_and_the_others_are_kept_behind_it(fit: FleetFit):
    assert list(fit.profile.calibrations) == ["sglang", "default"]
    device = catalogue_device("h200-sxm")
    assert fit.profile.calibrations["default"] == device.calibrations["default"]
    assert list(device.calibrations) == ["default"]
    assert fit.backend == "sglang"


def test_saved_constants_are_those_of_the_frame(fit: FleetFit):
    values = [_row(fit, name)["value"] for name in ("step", "layer", "kv_passes", "mbu", "mfu")]
    np.testing.assert_allclose(constants_before(fit.profile), values)
    for name, field in (("step", "step_overhead_s"), ("kv_passes", "rows_per_kv_pass"), ("mbu", "mbu")):
        interval = fit.profile.calibrations["sglang"].intervals[field]
        assert [interval.low, interval.high] == [_row(fit, name)[end] for end in ("low", "high")]


def test_all_products_and_attention_are_moved_alike(fit: FleetFit):
    new, old = fit.profile.calibrations["sglang"], fit.profile.calibrations["default"]
    faster = {
        *(new.products[name].bandwidth_bytes_per_s / old.products[name].bandwidth_bytes_per_s for name in old.products),
        new.attention_bandwidth_bytes_per_s / old.attention_bandwidth_bytes_per_s,
    }
    denser = {
        *(new.products[name].flops_per_s / old.products[name].flops_per_s for name in old.products),
        new.attention_flops_per_s / old.attention_flops_per_s,
    }
    assert max(faster) - min(faster) < 1e-9
    assert max(denser) - min(denser) < 1e-9
    assert max(denser) < max(faster) < 1.0


def test_error_is_of_the_times_held_back(fit: FleetFit):
    error = fit.profile.calibrations["sglang"].error
    times = fit.held_back.filter(pl.col("kind") != "speedup")
    assert error.n_held_out == times.height
    assert error.median == pytest.approx(times["error_after"].abs().median())
    assert error.worst == times["error_after"].abs().max()
    np.testing.assert_allclose(times["error_after"], times["after"] / times["measured"] - 1.0)
    assert set(fit.held_back["kind"]) == {"step", "round", "speedup"}


def test_every_third_series_is_held_back(fit: FleetFit, rows: list[Setting]):
    series = list(dict.fromkeys(each.row.series for each in rows))
    assert set(fit.held_back["series"]) == set(series[2::3])


def test_errors_fall_by_much(fit: FleetFit):
    for kind in ("step", "round", "speedup"):
        found = fit.held_back.filter(pl.col("kind") == kind)
        assert found["error_after"].abs().median() < 0.04, kind
        assert found["error_before"].abs().median() > 0.1, kind


def test_held_back_speedups_are_measured_ones_and_predicted_without_any(fit: FleetFit, rows: list[Setting]):
    by_line = {each.row.line: each for each in rows}
    found = fit.held_back.filter(pl.col("kind") == "speedup")
    assert found["measured"].to_list() == [by_line[line].row.speedup for line in found["line"]]
    doubled = [
        replace(each, row=replace(each.row, tokens_per_s=2.0 * each.row.tokens_per_s))
        if each.row.line in found["line"]
        else each
        for each in rows
    ]
    assert _fit(doubled).held_back.filter(pl.col("kind") == "speedup")["after"].to_list() == found["after"].to_list()


def test_the_same_seed_gives_the_same_fit(fit: FleetFit, rows: list[Setting]):
    again = _fit(rows, series_name="ours.csv", series_sha256="0" * 64)
    assert again.profile == fit.profile
    assert again.constants.equals(fit.constants)


def test_only_what_is_asked_for_is_fitted(rows: list[Setting]):
    fit = _fit(rows, constants=("mbu",), name="ours")
    before = catalogue_device("h200-sxm").calibrations["default"]
    after = fit.profile.calibrations["ours"]
    assert fit.constants.filter(pl.col("fitted"))["constant"].to_list() == ["mbu"]
    assert after.layer_overhead_s == before.layer_overhead_s
    assert after.products["fp16"].flops_per_s == before.products["fp16"].flops_per_s
    assert set(after.intervals) == {"mbu"}
    assert _row(fit, "mfu")["note"] == "not asked for"


def test_file_is_read_back_as_it_was(fit: FleetFit, tmp_path: Path):
    write_text(tmp_path / "ours.json", dump_model(fit.profile))
    assert load_hardware(str(tmp_path / "ours.json")) == fit.profile


def test_step_times_take_the_fitted_constants(fit: FleetFit):
    setting = a_setting(device=fit.profile, target=MIXTURE, batch=8)
    step = StepTimes().target(fit.profile, setting.target, "bf16", 1)
    truth = StepTimes().target(TRUTH, setting.target, "bf16", 1)
    assert step(1.0, 8.0, 512.0) == pytest.approx(truth(1.0, 8.0, 512.0), rel=0.03)
    assert calibrated_rates(fit.profile, "bf16").rows_per_kv_pass == 2.0


def test_project_and_sweep_take_the_file(cli, fit: FleetFit, tmp_path: Path):
    path = tmp_path / "ours.json"
    write_text(path, dump_model(fit.profile))
    evidence = ("--acceptance", "spec-bench-sps-vicuna-7b-math", "--assume", "truncation", "--context", "512")
    models = ("--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B", "--hardware", path)
    times = {}
    for backend in ("sglang", "default"):
        out = tmp_path / f"{backend}.parquet"
        outcome = cli("project", *evidence, *models, "--batch", "1", "--backend", backend, "--out", out)
        assert outcome.code == 0, outcome.err
        times[backend] = pl.read_parquet(out)["baseline_tpot_s"].min()
    assert times["sglang"] > 1.1 * times["default"]
    outcome = cli("sweep", *evidence, *models, "--backend", "sglang", "--out", tmp_path / "sweep")
    assert outcome.code == 0, outcome.err


def test_simulate_takes_the_file(cli, fit: FleetFit, tmp_path: Path):
    path = tmp_path / "ours.json"
    write_text(path, dump_model(fit.profile))
    load = ("--arrivals", "closed", "--clients", "2", "--requests", "20", "--output-tokens", "8")
    models = ("--hardware", path, "--backend", "sglang", "--target", "Llama-3.1-8B")
    outcome = cli("simulate", *load, *models, "--out", tmp_path / "run")
    assert outcome.code == 0, outcome.err


def test_a_second_fit_replaces_the_first_and_says_so(fit: FleetFit, rows: list[Setting]):
    again = _fit([replace(each, device=fit.profile) for each in rows])
    assert list(again.profile.calibrations) == ["sglang", "default"]
    assert any("is replaced" in note for note in again.notes)
    assert _row(again, "mbu")["before"] == pytest.approx(_row(fit, "mbu")["value"])


def test_fewer_than_three_series_hold_back_rows_and_leave_one_out():
    found = measured(a_fleet(targets=(DENSE,), batches=(1,), contexts=(512.0,), depths=range(1, 8)), TRUTH, 0.02)
    fit = _fit(found, constants=("step",))
    assert set(fit.held_back["line"]) == {found[2].row.line, found[5].row.line}
    assert "step" not in set(fit.held_back["kind"])  # the run without speculation was seen
    assert any("leaving out one measured time" in note for note in fit.notes)
    row = _row(fit, "step")
    assert row["low"] < row["value"] < row["high"]


def test_an_engine_that_nobody_fitted_has_nothing_added():
    found = measured(a_fleet(engine="of our own", batches=(1, 256)), TRUTH, 0.02)
    fit = _fit(found)
    assert any("Nobody fitted what this engine spends" in note for note in fit.notes)
    assert fit.backend == "of our own"


def test_a_device_without_calibration_or_peak_says_what_is_assumed():
    device = catalogue_device("l4").model_copy(update={"peak_bandwidth_bytes_per_s": None})
    found = measured([replace(each, device=device) for each in a_fleet(batches=(1, 64))], device)
    fit = _fit(found)
    assert any("assumed from five" in note for note in fit.notes)
    assert any("share of the sustained" in note for note in fit.notes)
    assert list(fit.profile.calibrations) == ["sglang"]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"constants": ("mbu", "speed")}, ("fit", "speed", "kv_passes")),
        ({"constants": ()}, ("fit", "each once")),
        ({"constants": ("mbu", "mbu")}, ("fit", "each once")),
        ({"hold_out_every": 1}, ("hold_out_every", "from 2")),
        ({"hold_out_every": -3}, ("hold_out_every",)),
        ({"n_resamples": 20}, ("n_resamples", "from 200")),
        ({"name": " "}, ("name", "--backend")),
        ({"name": "a\x1b[1m"}, ("name", "\\x1b")),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(changes: dict[str, object], parts: tuple[str, ...]):
    with pytest.raises(BadInput) as refused:
        FleetConfig(**changes)
    assert all(part in str(refused.value) for part in parts), str(refused.value)


def test_several_devices_or_engines_are_named_and_one_can_be_chosen(rows: list[Setting]):
    other = [replace(each, device=catalogue_device("l4")) for each in rows]
    with pytest.raises(BadInput, match=r"h200-sxm, l4.*--device"):
        _fit([*rows, *other])
    engines = [replace(each, engine="vllm") for each in rows]
    with pytest.raises(BadInput, match=r"sglang, vllm.*--engine"):
        _fit([*rows, *engines])
    chosen = _fit([*rows, *other, *engines], device="h200-sxm", engine="sglang")
    assert chosen.n_rows == len(rows)


def test_two_profiles_of_one_name_are_refused(rows: list[Setting]):
    changed = replace(rows[0], device=TRUTH)
    with pytest.raises(BadInput, match="different figures of one device"):
        _fit([changed, *rows[1:]])


def test_too_few_rows_are_refused(rows: list[Setting]):
    for found in ([], rows[:1], rows[:2]):
        with pytest.raises(BadInput, match="needs at least 3"):
            _fit(found)


def test_rows_without_speeds_are_refused():
    ratios = [replace(each, row=replace(each.row, stated_speedup=1.5)) for each in a_fleet()]
    with pytest.raises(BadInput, match=r"0 rows .* with measured speeds"):
        _fit(ratios)


def test_rows_without_a_number_of_devices_are_refused(rows: list[Setting]):
    with pytest.raises(BadInput, match="line 2 has no number of devices"):
        _fit([replace(rows[0], n_devices=None), *rows[1:]])


def test_constants_that_no_row_can_tell_are_refused():
    found = measured(a_fleet(targets=(DENSE,), batches=(1,), contexts=(512.0,), method="ngram"), TRUTH, 0.02)
    with pytest.raises(BadInput, match="cannot tell any of the constants"):
        _fit(found, constants=("kv_passes",))


def test_calibrate_counts_what_it_left_out_and_worked_out(rows: list[Setting]):
    lacking = MissingRow(row=rows[0].row, missing=("batch",))
    unknown = [replace(each, n_devices=None) for each in rows]
    fit = calibrate([lacking, *unknown], FleetConfig(constants=("mbu",)), np.random.default_rng(0))
    assert "1 row that lacks something was left out." in fit.notes
    assert any(f"devices of {len(rows)} rows was worked out" in note for note in fit.notes)
    with pytest.raises(BadInput, match="needs at least 3"):
        calibrate([lacking], FleetConfig(), np.random.default_rng(0))


def test_terminal_shows_constants_errors_and_notes(fit: FleetFit, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    show_fleet(fit)
    shown = capsys.readouterr().out
    assert "h200-sxm, calibration sglang: 54 rows" in shown
    for text in ("95 % interval", "kv_passes", "2 to 2", "a round", "speedup, by the model alone", "note: Held back"):
        assert text in shown


def test_terminal_shows_a_hostile_name_harmlessly(rows: list[Setting], capsys):
    hostile = [replace(each, engine="\x1b[31mred") for each in rows]
    show_fleet(_fit(hostile, constants=("mbu",)))
    assert "\x1b" not in capsys.readouterr().out


def test_a_profile_without_intervals_is_written_as_before():
    document = json.loads(dump_model(catalogue_device("h200-sxm")))
    assert "intervals" not in document["calibrations"]["default"]


@pytest.mark.parametrize(
    "intervals",
    [
        {"mbu": {"low": 0.5, "high": None}},
        {"mbu": {"low": 0.6, "high": 0.5}},
        {"speed": {"low": 0.5, "high": 0.6}},
        {"rows_per_kv_pass": {"low": None, "high": 4}},
        {"step_overhead_s": {"low": -1e-6, "high": 1e-6}},
    ],
)
def test_impossible_intervals_are_refused(intervals: dict[str, object], save):
    document = json.loads(dump_model(catalogue_device("h200-sxm")))
    document["calibrations"]["default"]["intervals"] = intervals
    with pytest.raises(BadInput, match="intervals"):
        load_hardware(str(save("ours.json", document)))


def test_an_interval_up_to_all_positions_has_no_end(save):
    document = json.loads(dump_model(catalogue_device("h200-sxm")))
    document["calibrations"]["default"]["intervals"] = {"rows_per_kv_pass": {"low": 4, "high": None}}
    found = load_hardware(str(save("ours.json", document)))
    assert isinstance(found, HardwareProfile)
    assert found.calibrations["default"].intervals["rows_per_kv_pass"].high is None


def test_devices_that_share_a_model_and_formats_of_8_bits_are_fitted_together():
    shared = a_fleet(targets=(LARGE,), batches=(1, 32), n_devices=4, precision="fp8")
    found = measured([*shared, *a_fleet(targets=(MIXTURE,), batches=(1, 256))], TRUTH, 0.02, np.random.default_rng(1))
    values = _fit(found).constants["value"].to_list()
    np.testing.assert_allclose(values, [3e-4, 2e-5, 2.0, 0.7, 0.5], rtol=0.25)
