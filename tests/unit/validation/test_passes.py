"""Times of the passes of settings: by direct calls, for each way of drafting, and baselines by server."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from specbook.roofline.model_spec import model
from specbook.validation.passes import Passes, baselines, fastest_baselines, passes_of
from specbook.validation.settings import Setting, example_setting
from specbook.validation.step_times import StepTimes

ONE = replace(example_setting(), n_devices=1, batch=4, depth=5.0, n_nodes=5.0)


def _with(setting: Setting, **row: Any) -> Setting:
    return replace(setting, row=replace(setting.row, **row))


def test_passes_are_those_of_the_roofline():
    times = StepTimes()
    passes = passes_of([ONE], times)
    step = times.target(ONE.device, ONE.target, ONE.precision, 1)
    assert passes.step_s.tolist() == [float(step(1.0, 4.0, ONE.context_tokens))]
    assert passes.verify_s.tolist() == [float(step(6.0, 4.0, ONE.context_tokens))]
    drafted = times.drafter(ONE).seconds(5.0, 5.0, 4.0, ONE.context_tokens)
    assert passes.draft_s.tolist() == [float(drafted)]
    assert (passes.n_draft_passes.tolist(), passes.n_further_rows.tolist()) == ([5.0], [20.0])
    assert passes.tokens_per_round.tolist() == [ONE.tokens_per_round]
    assert passes.baseline_tpot_s.tolist() == [4 / 190.0]


@pytest.mark.parametrize(
    ("method", "n_passes", "drafts"),
    [("eagle3", 5.0, True), ("mtp", 5.0, True), ("draft_model", 5.0, True), ("medusa", 1.0, True),
     ("ngram", 0.0, True), ("lookahead", 0.0, False)],
)  # fmt: skip
def test_passes_are_counted_by_the_way_of_drafting(method: Any, n_passes: float, drafts: bool):
    draft = model("Llama-3.2-1B") if method == "draft_model" else None
    passes = passes_of([replace(ONE, method=method, draft=draft)])
    assert passes.n_draft_passes.tolist() == [n_passes]
    assert (passes.draft_s[0] > 0.0) == drafts
    assert passes.n_further_rows.tolist() == [4 * 5 * 30.0 if method == "lookahead" else 20.0]


def test_a_tree_verifies_its_nodes_and_drafts_its_depth():
    chain, tree = passes_of([ONE]), passes_of([replace(ONE, n_nodes=20.0)])
    assert tree.n_draft_passes.tolist() == chain.n_draft_passes.tolist()
    assert tree.n_further_rows.tolist() == [80.0]
    assert tree.verify_s[0] > chain.verify_s[0]


@pytest.mark.parametrize("method", ["eagle3", "medusa", "ngram", "lookahead"])
def test_nothing_drafted_is_a_step(method: Any):
    passes = passes_of([replace(ONE, method=method, depth=0.0, n_nodes=0.0)])
    assert passes.verify_s.tolist() == passes.step_s.tolist()
    assert (passes.draft_s[0], passes.n_draft_passes[0], passes.n_further_rows[0]) == (0.0, 0.0, 0.0)


def test_no_settings_are_no_rows():
    assert all(getattr(passes_of([]), item.name).shape == (0,) for item in fields(Passes))


def test_parts_keep_rows_together():
    passes = passes_of([ONE, replace(ONE, batch=8), replace(ONE, depth=2.0, n_nodes=2.0)])
    part = passes.part(np.array([2, 0]))
    for item in fields(Passes):
        assert getattr(part, item.name).tolist() == getattr(passes, item.name)[[2, 0]].tolist()


def test_the_fastest_baseline_is_of_the_same_server():
    found = [
        _with(ONE, workload="chat", baseline_tokens_per_s=100.0),
        _with(ONE, workload="code", baseline_tokens_per_s=200.0),
        _with(ONE, workload="code", baseline_tokens_per_s=400.0, engine="vLLM"),
        _with(replace(ONE, batch=8), baseline_tokens_per_s=800.0),
        _with(ONE, workload="code", baseline_tokens_per_s=None, source="elsewhere"),
    ]
    assert baselines(found)[:4].tolist() == [0.04, 0.02, 0.01, 0.01]
    assert math.isnan(baselines(found)[4])
    assert fastest_baselines(found)[:4].tolist() == [0.02, 0.02, 0.01, 0.01]
    assert math.isnan(fastest_baselines(found)[4])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_row_without_speeds_hides_no_speed_of_the_same_server(order: tuple[int, int]):
    found = [
        _with(ONE, workload="a", baseline_tokens_per_s=100.0),
        _with(ONE, workload="b", baseline_tokens_per_s=None),
    ]
    fastest = fastest_baselines([found[at] for at in order])
    assert fastest.tolist() == [0.04, 0.04]


def test_times_of_models_and_drafters_are_made_once():
    times = StepTimes()
    for setting in (ONE, replace(ONE, batch=8, depth=2.0)):
        assert times.drafter(setting) is times.drafter(ONE)
    for changes in ({"n_devices": 2}, {"method": "mtp"}, {"draft_precision": "fp8"}, {"target": model("Qwen3-8B")}):
        assert times.drafter(replace(ONE, **changes)) is not times.drafter(ONE)
        assert times.drafter(replace(ONE, **changes)) != times.drafter(ONE)


def test_a_profile_that_is_gone_lends_its_times_to_no_other():
    times, base = StepTimes(), ONE.device.calibrations["default"]
    for layer_s in np.linspace(1e-6, 1e-4, 50).tolist():
        calibration = base.model_copy(update={"layer_overhead_s": layer_s})
        device = ONE.device.model_copy(update={"calibrations": {"own": calibration}})
        assert times.target(device, ONE.target, ONE.precision, 1).rates.layer_overhead_s == layer_s
