"""The Explorer: both ends of every slider, every menu entry, and labels out of other people's files."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile, profile_from_accepted, profile_from_counts
from specbook.acceptance.yields import tokens_for_draft_length
from specbook.checks import BadInput
from specbook.display.charts import MIME
from specbook.display.explorer import Explorer, example_explorer
from specbook.display.explorer_config import MAX_DRAFT_LENGTH, ExplorerConfig, marginals, sliders
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.calibrated import CalibratedRoofline
from specbook.roofline.calibrations import ASSUMED, calibrated_rates
from specbook.roofline.drafting import METHODS, MethodName, drafter_cost, drafter_of
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from specbook.roofline.step_time import DoctrineRoofline, StepTime, device_rates

ORDER = ["draft_length", "batch", "context", "hardware", "evidence", "method", "precision", "step_time"]
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m</script>"


def _config(**changes: Any) -> ExplorerConfig:
    base: dict[str, Any] = {
        "target": model("Vicuna-7B-v1.3"),
        "draft": model("Llama-68M"),
        "hardware": tuple(catalogue_device(name) for name in ("h100-sxm5", "m3-max")),
        "evidence": {
            "qa": library_profile("spec-bench-sps-vicuna-7b-qa"),
            "short": profile_from_counts({2: [2, 4, 4]}, draft_length=2),
        },
    }
    return ExplorerConfig(**(base | changes))


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", ["draft_length", "batch", "context"])
def test_slider_at_either_end_gives_a_finite_answer(name: str, end: int):
    explorer = Explorer(_config())
    _, low, high, _ = sliders(_config())[name]
    value = (low, high)[end]
    explorer.controls[name].value = value
    result = explorer.result()
    assert explorer.values()[name] == value
    for quantity in (result.verify_s, result.round_s, result.tpot_s, result.speedup):
        assert math.isfinite(quantity)
        assert quantity > 0
    assert (result.draft_s > 0) == (explorer.values()["draft_length"] > 0)
    assert f"speedup {result.speedup:.4f}" in explorer.readout
    assert 0 <= explorer.best_draft_length() <= MAX_DRAFT_LENGTH


def test_slider_ends_are_those_of_the_widget():
    explorer = Explorer(_config())
    for name, (label, low, high, step) in sliders(_config()).items():
        control = explorer.controls[name]
        assert (control.description, control.min, control.max, control.step) == (label, low, high, step)


def test_all_sliders_at_their_ends_together_stay_finite():
    explorer = Explorer(_config())
    for end in (1, 2):
        for name, slider in sliders(_config()).items():
            explorer.controls[name].value = slider[end]
        assert math.isfinite(explorer.result().speedup)


@pytest.mark.parametrize("name", catalogue_names())
def test_menu_every_device_of_the_catalogue_answers(name: str):
    explorer = Explorer(_config(hardware=tuple(map(catalogue_device, catalogue_names()))))
    explorer.controls["hardware"].value = name
    assert math.isfinite(explorer.result().speedup)
    assert name in explorer.readout


def test_no_draft_has_speedup_one():
    explorer = Explorer(_config(), draft_length=0)
    assert explorer.result().speedup == 1.0
    assert "K = 0 " in explorer.readout
    assert "speedup 1.0000" in explorer.readout


def _step(name: str, precision: str, step_time: str) -> StepTime:
    device, cost = catalogue_device("m3-max"), step_cost(model(name), precision)
    if step_time == "ideal":
        return DoctrineRoofline(cost=cost, device=device_rates(device, precision))
    return CalibratedRoofline(cost=cost, rates=calibrated_rates(device, precision))


@pytest.mark.parametrize("step_time", ["calibrated", "ideal"])
@pytest.mark.parametrize("precision", ["bf16", "int4"])
def test_result_is_the_roofline_by_hand(precision: str, step_time: str):
    start = {"draft_length": 3, "batch": 32, "context": 1024, "hardware": "m3-max", "evidence": "qa"}
    explorer = Explorer(_config(), **start, precision=precision, step_time=step_time)
    target, draft = _step("Vicuna-7B-v1.3", precision, step_time), _step("Llama-68M", "bf16", step_time)
    marginal = library_profile("spec-bench-sps-vicuna-7b-qa").marginal_acceptance or []
    tokens = 1 + sum(marginal[:3])
    seconds = 3 * draft(1.0, 32, 1024) + target(4, 32, 1024)
    assert explorer.result().speedup == pytest.approx(tokens * target(1, 32, 1024) / seconds, rel=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_method_is_the_drafter_of_that_name(method: MethodName):
    explorer = Explorer(_config(), draft_length=5, hardware="m3-max", method=method)
    target = _step("Vicuna-7B-v1.3", "bf16", "calibrated")
    cost = drafter_cost(method, model("Vicuna-7B-v1.3"), model("Llama-68M"), "bf16")
    rates = calibrated_rates(catalogue_device("m3-max"), "bf16")
    drafter = drafter_of(method, None if cost is None else CalibratedRoofline(cost=cost, rates=rates))
    result = explorer.result()
    assert result.draft_s == pytest.approx(drafter.seconds(np.float64(5), np.float64(5), 1.0, 512.0), rel=1e-13)
    assert result.verify_s == pytest.approx(target(drafter.verify_width(5.0), 1.0, 512.0), rel=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_method_without_a_draft_needs_the_memory_of_the_target_alone(method: MethodName):
    explorer = Explorer(_config(), method=method, batch=2, context=512)
    alone, five = explorer.memory_bytes(0), explorer.memory_bytes(5)
    target = model("Vicuna-7B-v1.3")
    assert alone == target.weight_bytes("bf16") + 2 * 512 * target.kv_bytes_per_token()
    assert (five > alone) == (method not in ("ngram", "lookahead"))


def test_medusa_needs_a_head_for_each_drafted_token():
    explorer = Explorer(_config(), method="medusa")
    needed = explorer.memory_bytes(np.arange(4))
    assert np.diff(needed) == pytest.approx(needed[1] - needed[0])


def test_ideal_step_time_is_the_faster_one_where_overheads_are_assumed():
    explorer = Explorer(_config(hardware=(catalogue_device("l4"),)))
    calibrated = explorer.result().baseline_tpot_s
    explorer.controls["step_time"].value = "ideal"
    assert explorer.result().baseline_tpot_s < calibrated


def test_narrow_weights_are_faster_and_smaller():
    explorer = Explorer(_config())
    seconds, needed = explorer.result().baseline_tpot_s, explorer.memory_bytes()
    explorer.controls["precision"].value = "int4"
    assert explorer.result().baseline_tpot_s < seconds
    assert explorer.memory_bytes() < needed


@pytest.mark.parametrize(
    ("device", "step_time", "label"),
    [
        ("h100-sxm5", "calibrated", "calibrated, fitted to published tables"),
        ("m3-max", "calibrated", f"calibrated, {ASSUMED}"),
        ("h100-sxm5", "ideal", "ideal roofline, an optimistic bound"),
    ],
)
def test_readout_says_which_step_time_and_where_it_comes_from(device: str, step_time: str, label: str):
    explorer = Explorer(_config(), precision="fp8")
    explorer.controls["hardware"].value = device
    explorer.controls["step_time"].value = step_time
    assert f"fp8 target, Llama-68M in bf16; step time: {label}" in explorer.readout


def test_readout_of_a_fitted_probe_says_so():
    device = catalogue_device("h100-sxm5")
    probed = {name: each.model_copy(update={"evidence": "measured"}) for name, each in device.calibrations.items()}
    explorer = Explorer(_config(hardware=(device.model_copy(update={"calibrations": probed}),)))
    assert "calibrated, fitted to a probe" in explorer.readout
    assert "calibrated, fitted to a probe" in json.dumps(explorer.spec())


def test_controls_stand_in_their_order_on_both_sides():
    explorer = Explorer(_config())
    assert list(explorer.controls) == ORDER
    assert [each["name"] for each in explorer.spec()["params"]] == ORDER
    assert all(each["bind"]["name"].strip() for each in explorer.spec()["params"])


def test_menus_show_the_same_on_both_sides():
    explorer = Explorer(_config(methods=("medusa", "draft_model"), precisions=("q4_k",)))
    page = {each["name"]: each["bind"] for each in explorer.spec()["params"]}
    for name in ORDER[3:]:
        control = explorer.controls[name]
        assert [list(pair) for pair in zip(page[name]["labels"], page[name]["options"], strict=True)] == [
            list(pair) for pair in control.options
        ]
        assert page[name]["name"].strip() == control.description
    assert explorer.values()["method"] == "medusa"
    assert explorer.values()["precision"] == "q4_k"


def test_explorer_without_a_draft_model_offers_other_methods():
    explorer = Explorer(_config(draft=None, methods=("mtp", "ngram")))
    assert math.isfinite(explorer.result().speedup)
    assert "MTP layer in bf16" in explorer.readout
    assert "Llama" not in json.dumps(explorer.spec())


def test_best_draft_length_is_the_best_of_all_the_bars():
    explorer = Explorer(_config(), batch=4)
    speedups = explorer.result(np.arange(MAX_DRAFT_LENGTH + 1)).speedup
    assert speedups[explorer.best_draft_length()] == speedups.max()


def test_readout_follows_the_control_and_says_when_not_to_speculate():
    explorer = Explorer(_config(evidence={"poor": profile_from_accepted([99, 1])}), batch=256)
    assert "do not speculate" in explorer.readout
    before = explorer.readout
    explorer.controls["batch"].value = 8
    assert explorer.readout != before


def test_positions_beyond_the_evidence_yield_nothing_more():
    explorer = Explorer(_config(), evidence="short", draft_length=MAX_DRAFT_LENGTH)
    assert len(marginals(explorer.config)["short"]) == MAX_DRAFT_LENGTH
    rows = marginals(explorer.config)["short"]
    assert tokens_for_draft_length(MAX_DRAFT_LENGTH, rows) == pytest.approx(2.2)


def test_hostile_evidence_label_is_escaped_in_the_readout():
    explorer = Explorer(_config(evidence={HOSTILE: profile_from_accepted([1, 1])}))
    assert "<img" not in explorer.readout
    assert "&lt;img src=x onerror=alert(1)&gt;" in explorer.readout
    assert "\u202e" not in explorer.readout
    assert "\x1b" not in explorer.readout


def test_hostile_hardware_name_is_escaped_in_the_readout():
    device = catalogue_device("l4").model_copy(update={"name": "<b>'\"&"})
    explorer = Explorer(_config(hardware=(device,)))
    assert "<b>" not in explorer.readout
    assert "&lt;b&gt;" in explorer.readout
    assert math.isfinite(explorer.result().speedup)


def test_hostile_label_in_the_page_is_data_without_control_characters():
    explorer = Explorer(_config(evidence={HOSTILE: profile_from_accepted([1, 1])}))
    text = json.dumps(explorer.spec(), ensure_ascii=False)
    assert "\u202e" not in text
    assert "\x1b" not in text
    menu = next(each for each in explorer.spec()["params"] if each["name"] == "evidence")
    assert menu["bind"]["options"] == list(marginals(explorer.config))
    assert menu["value"] == menu["bind"]["options"][0]


def test_page_starts_where_the_controls_stand():
    explorer = Explorer(_config(), draft_length=7, batch=3, context=1024, hardware="m3-max", evidence="short")
    values = {each["name"]: each["value"] for each in explorer.spec()["params"]}
    assert values == explorer.values()


def test_output_carries_live_view_page_view_and_text():
    bundle = example_explorer()._repr_mimebundle_()
    assert bundle.keys() >= {MIME, "application/vnd.jupyter.widget-view+json", "text/plain"}
    assert "draft_length=4 batch=1 context=512" in bundle["text/plain"]


def test_unknown_control_is_refused():
    with pytest.raises(ValueError, match="no such control: alpha, speed"):
        Explorer(_config(), speed=1, alpha=0.8)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"method": "draft model"}, "method must be one of draft_model, eagle, .*; got draft model"),
        ({"precision": "q4_k"}, "precision must be one of bf16, fp8, int4; got q4_k"),
        ({"step_time": "doctrine"}, "step_time must be one of calibrated, ideal; got doctrine"),
        ({"hardware": "a30"}, "hardware must be one of h100-sxm5, m3-max; got a30"),
    ],
)
def test_start_that_a_menu_does_not_have_is_refused(start: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Explorer(_config(), **start)


def test_explorer_config_unknown_weight_format_is_refused():
    for field, value in (("precisions", ("bf16", "int3")), ("draft_precision", "int3")):
        with pytest.raises(BadInput, match="no such weight format"):
            _config(**{field: value})


def test_explorer_config_tree_evidence_is_refused():
    with pytest.raises(ValueError, match="tree"):
        _config(evidence={"eagle": library_profile("spec-bench-eagle-vicuna-7b")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hardware": ()}, "at least one device and one piece of evidence"),
        ({"evidence": {}}, "at least one device and one piece of evidence"),
        ({"methods": ()}, "at least one method and one weight format"),
        ({"precisions": ()}, "at least one method and one weight format"),
        ({"methods": ("eagle", "guess")}, "methods must be of draft_model, eagle, .*; got guess"),
        ({"draft": None}, "the method draft_model needs a draft model"),
        (
            {"evidence": {"e": AcceptanceProfile(evidence="mean_length", mean_acceptance_length=2.0)}},
            "evidence 'e' has no acceptance by position",
        ),
    ],
)
def test_explorer_config_without_something_to_show_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        _config(**changes)


def test_readout_says_when_nothing_fits():
    explorer = Explorer(_config(), batch=256, context=2048)
    assert "does not fit: " in explorer.readout
    explorer.controls["batch"].value = 1
    assert "does not fit" not in explorer.readout


def test_readout_says_when_only_the_best_does_not_fit():
    explorer = Explorer(_config(hardware=(catalogue_device("a30"),)), draft_length=0, batch=38, context=512)
    assert "best draft length" in explorer.readout
    assert ("(does not fit)" in explorer.readout) == bool(
        explorer.memory_bytes(explorer.best_draft_length()) > catalogue_device("a30").memory_bytes.value
    )
