"""What a fleet measured: which times there are, how often they count, and what they are made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.roofline.drafting import METHODS
from specbook.roofline.model_spec import model
from specbook.validation.fleet_constants import constants_before
from specbook.validation.fleet_data import fleet_data
from specbook.validation.fleet_times import fitted_times, held_back_times, unmeasured_times
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Setting
from tests.fleet_cases import DENSE, LARGE, MIXTURE, a_fleet, a_setting, device_with, measured

TRUTH = device_with(step=2e-4, layer=3e-5, rows_per_kv_pass=2, mbu=0.6, mfu=0.3)


def _speeds(setting: Setting, **speeds: float | None) -> Setting:
    return replace(setting, row=replace(setting.row, **speeds))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("engine", ["sglang", "of our own"])
def test_times_under_the_true_constants_are_those_measured(method: str, engine: str):
    draft = model("Llama-3.2-1B") if method == "draft_model" else None
    changes = {"method": method, "draft": draft, "engine": engine}
    found = measured(a_fleet(targets=(DENSE, MIXTURE), batches=(1, 16), **changes), TRUTH)
    data = fleet_data(found)
    times = fitted_times(data, data.parts)
    np.testing.assert_allclose(times.predicted(constants_before(TRUTH)), times.seconds, rtol=1e-10)


@pytest.mark.parametrize("n_devices", [1, 2, 8])
@pytest.mark.parametrize("depth", [0.0, 1.0, 7.0])
def test_times_of_devices_that_share_a_model_and_of_no_drafts_at_all(n_devices: int, depth: float):
    found = measured([a_setting(target=LARGE, n_devices=n_devices, depth=depth, precision="fp8")], TRUTH)
    data = fleet_data(found)
    times = fitted_times(data, data.parts)
    assert times.kinds == ("step", "round")
    np.testing.assert_allclose(times.predicted(constants_before(TRUTH)), times.seconds, rtol=1e-10)


def test_times_of_a_tree_pay_a_pass_a_level():
    chain, tree = a_setting(depth=4.0), replace(a_setting(depth=4.0), n_nodes=16.0)
    parts = fleet_data([chain, tree]).parts
    assert [part.n_draft_passes for part in parts] == [4.0, 4.0]
    assert [part.verify.tokens for part in parts] == [5.0, 17.0]
    assert [part.draft.tokens for part in parts if part.draft is not None] == [1.0, 4.0]


def test_a_run_without_speculation_counts_once_a_server():
    data = fleet_data(measured(a_fleet(targets=(DENSE,), batches=(1,), contexts=(512.0,)), TRUTH))
    assert fitted_times(data, data.parts).kinds == ("step", "round", "round", "round")


def test_seconds_are_a_token_of_one_stream_and_a_round():
    setting = _speeds(a_setting(batch=8), tokens_per_s=1600.0, baseline_tokens_per_s=800.0)
    data = fleet_data([setting])
    times = fitted_times(data, data.parts)
    assert times.seconds.tolist() == [8 / 800.0, setting.tokens_per_round * 8 / 1600.0]
    assert times.lines == (2, 2)


def test_a_slower_workload_of_a_server_is_slower_outside_decoding():
    fast = _speeds(a_setting(workload="code"), tokens_per_s=400.0, baseline_tokens_per_s=200.0)
    slow = _speeds(a_setting(workload="chat", line=3), tokens_per_s=300.0, baseline_tokens_per_s=100.0)
    data = fleet_data([fast, slow])
    times = fitted_times(data, data.parts)
    assert times.kinds == ("step", "round", "round")
    assert times.seconds[0] == 1 / 200.0
    share = overheads_of(fast).outside_share
    outside_s = (times.other_s[2] - times.other_s[1]) / fast.tokens_per_round
    assert outside_s == pytest.approx(1 / 100.0 - 1 / 200.0)
    assert times.other_s[0] == pytest.approx(share / 200.0)


def test_another_context_is_another_server():
    short = _speeds(a_setting(), tokens_per_s=400.0, baseline_tokens_per_s=200.0)
    long = _speeds(a_setting(context_tokens=8192.0, line=3), tokens_per_s=300.0, baseline_tokens_per_s=100.0)
    data = fleet_data([short, long])
    assert fitted_times(data, data.parts).kinds.count("step") == 2


def test_runs_of_one_workload_that_differ_count_as_their_median():
    speeds = (100.0, 101.0, 150.0)
    rows = [
        _speeds(a_setting(depth=float(line), line=line), tokens_per_s=200.0, baseline_tokens_per_s=speed)
        for line, speed in enumerate(speeds, start=2)
    ]
    data = fleet_data(rows)
    times = fitted_times(data, data.parts)
    assert times.kinds.count("step") == 1
    assert times.seconds[0] == pytest.approx(1 / 101.0)


def test_rows_with_one_of_the_two_speeds_give_one_time():
    baseline = _speeds(a_setting(), baseline_tokens_per_s=100.0)
    drafted = _speeds(a_setting(target=LARGE, line=3), tokens_per_s=50.0)
    data = fleet_data([baseline, drafted])
    assert fitted_times(data, data.parts).kinds == ("step", "round")


def test_without_a_measured_run_the_share_outside_is_of_the_modelled_step():
    setting = a_setting()
    share = overheads_of(setting).outside_share
    data = fleet_data(measured([setting], TRUTH))
    known = fitted_times(data, data.parts)
    step, whole = (times.predicted(constants_before(TRUTH))[0] for times in unmeasured_times(data, data.parts))
    np.testing.assert_allclose([step, whole], known.seconds, rtol=1e-10)
    assert share > 0.0


def test_held_back_times_leave_out_a_run_that_was_seen():
    found = measured(a_fleet(targets=(DENSE,), batches=(1, 8), contexts=(512.0,)), TRUTH)
    data = fleet_data(found)
    first, second = data.parts[:3], data.parts[3:]
    assert held_back_times(data, second, first).kinds == ("step", "round", "round", "round")
    assert held_back_times(data, data.parts[2:3], data.parts[:2]).kinds == ("round",)


def test_a_fit_looks_at_the_fastest_of_its_own_rows_alone():
    fast = _speeds(a_setting(workload="code", series="code"), tokens_per_s=9e3, baseline_tokens_per_s=8e3)
    slow = _speeds(a_setting(workload="chat", series="chat", line=3), tokens_per_s=300.0, baseline_tokens_per_s=100.0)
    data = fleet_data([fast, slow])
    alone, other = fitted_times(data, data.parts[1:]), fleet_data([slow])
    np.testing.assert_array_equal(alone.seconds, fitted_times(other, other.parts).seconds)
    np.testing.assert_allclose(alone.other_s, fitted_times(other, other.parts).other_s)


@pytest.mark.parametrize(
    ("changes", "speeds", "part"),
    [
        ({}, {"tokens_per_s": -1.0}, "tok_s"),
        ({}, {"tokens_per_s": float("nan")}, "tok_s"),
        ({}, {"baseline_tokens_per_s": 0.0}, "baseline_tok_s"),
        ({}, {"baseline_tokens_per_s": float("inf")}, "baseline_tok_s"),
        ({"batch": 0}, {}, "batch"),
        ({"n_devices": -1}, {}, "devices"),
        ({"context_tokens": -5.0}, {}, "context"),
        ({"tokens_per_round": 0.5}, {}, "acc_len_incl_bonus"),
        ({"depth": -1.0}, {}, "K"),
    ],
)
def test_impossible_figures_are_named_by_line(changes: dict[str, float], speeds: dict[str, float], part: str):
    good = {"tokens_per_s": 300.0, "baseline_tokens_per_s": 100.0}
    setting = replace(_speeds(a_setting(line=17), **{**good, **speeds}), **changes)
    with pytest.raises(BadInput, match=r"line 17") as refused:
        fleet_data([setting])
    assert part in str(refused.value)
