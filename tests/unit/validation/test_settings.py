"""What a row means: words of the row before those of the user, what is taken as usual, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model
from specbook.validation.row_names import published_format
from specbook.validation.series import SeriesRow
from specbook.validation.settings import (
    ASSUMED_CONTEXT_TOKENS,
    MissingRow,
    Overrides,
    Setting,
    example_series,
    settings,
)

ROW = example_series().rows[0]


def _one(stated: Overrides | None = None, **changes: Any) -> Setting | MissingRow:
    return settings([replace(ROW, **changes)], stated)[0]


def _known(stated: Overrides | None = None, **changes: Any) -> Setting:
    found = _one(stated, **changes)
    assert isinstance(found, Setting), found
    return found


def _lacks(stated: Overrides | None = None, **changes: Any) -> str:
    found = _one(stated, **changes)
    assert isinstance(found, MissingRow)
    return "; ".join(found.missing)


def test_a_whole_row_is_what_it_says():
    found = _known(n_devices=2, prompt_tokens=300.0, output_tokens=200.0)
    assert (found.device.name, found.target.name, found.method, found.engine) == (
        "h200-sxm", "Llama-3.1-8B", "eagle3", "sglang",
    )  # fmt: skip
    assert (found.depth, found.n_nodes, found.batch, found.n_devices) == (3.0, 3.0, 1, 2)
    assert found.context_tokens == 400.0
    assert found.draft is None
    assert found.baseline_tpot_s == 1 / 190.0
    assert found.assumptions == ("weights in bf16, as published",)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"hardware": ""}, "hardware: "),
        ({"hardware": "H100"}, "h100-pcie"),
        ({"target": "my own model"}, "target: "),
        ({"drafter": ""}, "drafter: "),
        ({"drafter": "a small model"}, "drafter: "),
        ({"tokens_per_round": None}, "acceptance: "),
        ({"draft_length": None}, "draft length K"),
        ({"batch": None}, "batch"),
        ({"baseline_tokens_per_s": None}, "a run without speculation"),
        ({"tokens_per_s": None}, "a measured speed"),
        ({"engine": "llama.cpp"}, "weight format of the target: --precision"),
        ({"engine": "exllamav2"}, "weight format of the target: --precision"),
        ({"engine": "LM Studio"}, "weight format of the target: --precision"),
        ({"target": "Llama-3.1-8B-W8A8"}, "weight format of the target: 'w8a8' is not modelled: state --precision"),
        ({"drafter": "Llama-3.2-1B Q3_K_S"}, "weight format of the drafter: 'q3 k s' is not modelled: state --draft-p"),
    ],
)
def test_a_row_without_something_says_what(changes: dict[str, Any], part: str):
    assert part in _lacks(**changes)


def test_a_row_without_anything_lists_all_of_it_once():
    (found,) = settings([SeriesRow(line=2)])
    assert isinstance(found, MissingRow)
    names = [each.split(":")[0] for each in found.missing]
    assert names == ["hardware", "target", "drafter", "acceptance", "draft length K", "batch", "a measured speed"]


def test_a_stated_speedup_needs_no_speeds():
    found = _known(tokens_per_s=None, baseline_tokens_per_s=None, stated_speedup=1.7)
    assert found.baseline_tpot_s is None
    assert found.row.speedup == 1.7


def test_what_the_user_states_answers_and_never_contradicts():
    stated = Overrides(
        device=catalogue_device("l4"), n_devices=4, target="Qwen3-8B", draft="EAGLE", engine="vLLM", precision="fp8",
        context_tokens=2048.0,
    )  # fmt: skip
    bare = _known(stated, hardware="", target="", drafter="", engine="")
    assert (bare.device.name, bare.target.name, bare.method, bare.engine) == ("l4", "Qwen3-8B", "eagle", "vllm")
    assert (bare.n_devices, bare.precision, bare.context_tokens) == (4, "fp8", 2048.0)
    whole = _known(stated, n_devices=2, target="Llama-3.1-8B-Instruct bf16", prompt_tokens=100.0)
    assert (whole.device.name, whole.target.name, whole.method, whole.engine) == (
        "h200-sxm", "Llama-3.1-8B", "eagle3", "sglang",
    )  # fmt: skip
    assert (whole.n_devices, whole.precision, whole.context_tokens) == (2, "bf16", 100.0)


def test_a_stated_device_is_none_that_the_rows_name_rules_out():
    (each,) = settings([replace(ROW, hardware="H100")], Overrides(device=catalogue_device("l4")))
    assert isinstance(each, MissingRow)
    assert _known(Overrides(device=catalogue_device("h100-pcie")), hardware="H100").device.name == "h100-pcie"
    own = catalogue_device("l4").model_copy(update={"name": "mine"})
    assert _known(Overrides(device=own), hardware="H100").device is own
    assert _known(Overrides(device=catalogue_device("l4")), hardware="RTX 6000").device.name == "l4"


def test_a_stated_weight_format_answers_for_one_that_is_not_modelled():
    assert _known(Overrides(precision="fp8"), target="Llama-3.1-8B-W8A8").precision == "fp8"
    draft = _known(Overrides(draft_precision="q4_k_s"), drafter="Llama-3.2-1B Q3_K_S")
    assert (draft.precision, draft.draft_precision) == ("bf16", "q4_k_s")


def test_a_stated_target_keeps_the_format_of_the_rows_name():
    assert _known(Overrides(target="9B"), target="gemma-2-9b-FP8").precision == "fp8"
    assert "'int8' is not modelled" in _lacks(Overrides(target="9B"), target="gemma-2-9b-INT8")


def test_a_drafter_behind_the_target_counts_where_its_own_cell_does_not_tell():
    pair = "qwen2.5 coder 32b instruct gptq int4 + 0.5b"
    for drafter in ("", "draft model"):
        found = _known(target=pair, drafter=drafter)
        assert (found.precision, found.draft) == ("int4", model("Qwen2.5-Coder-0.5B"))
    assert _known(target=pair, drafter="EAGLE-3").method == "eagle3"
    assert _known(Overrides(draft="EAGLE"), target="Llama-3.1-8B + LoRA", drafter="").method == "eagle"


def test_a_context_that_nobody_stated_is_assumed_and_says_so():
    found = _known()
    assert found.context_tokens == ASSUMED_CONTEXT_TOKENS
    assert "context of 512 tokens, as none is stated" in found.assumptions
    stated = _known(Overrides(context_tokens=64.0)).assumptions
    assert [each for each in stated if "context" in each] == ["context of 64 tokens, as stated"]


def test_a_checkpoint_by_its_plain_name_is_as_it_was_published():
    assert _known(target="Kimi-K2").precision == "fp8"
    assert "weights in fp8, as published" in _known(target="Kimi-K2").assumptions
    assert _known(target="Llama-3.1-8B-Instruct FP8").precision == "fp8"
    assert _known(Overrides(precision="int4")).precision == "int4"
    assert [published_format(name) for name in ("Kimi-K2", "Llama-3.1-8B", "no such model")] == ["fp8", "bf16", "bf16"]


def test_a_head_has_16_bits_and_a_draft_model_those_of_its_target():
    head = _known(target="Llama-3.1-8B-Instruct FP8")
    assert head.draft_precision == "bf16"
    draft = _known(target="Llama-3.1-8B-Instruct FP8", drafter="Llama-3.2-1B")
    assert draft.draft == model("Llama-3.2-1B")
    assert draft.draft_precision == "fp8"
    assert "draft in fp8, as the target" in draft.assumptions
    assert _known(Overrides(draft_precision="int4")).draft_precision == "int4"


def test_names_are_looked_up_for_each_row_of_its_own():
    rows = [replace(ROW, line=2 + at, target=name) for at, name in enumerate(["Qwen3-8B", "Llama-3.1-8B", "Qwen3-8B"])]
    found = settings(rows)
    assert [each.target.name for each in found if isinstance(each, Setting)] == ["Qwen3-8B", "Llama-3.1-8B", "Qwen3-8B"]
    assert [each.row.line for each in found] == [2, 3, 4]
    other = settings(rows, Overrides(engine="vLLM"))
    assert [each.engine for each in other if isinstance(each, Setting)] == ["sglang"] * 3


@pytest.mark.parametrize(
    ("name", "value"), [("n_devices", 0), ("context_tokens", -1.0), ("context_tokens", float("nan"))]
)
def test_impossible_overrides_are_refused(name: str, value: float):
    with pytest.raises(ValueError, match=name):
        Overrides(**{name: value})
