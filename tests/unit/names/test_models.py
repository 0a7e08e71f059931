"""Models by the names that people give them: resolved, or asked about, never taken for a neighbour."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.names.model_words import library_words
from specbook.names.models import model_name
from specbook.names.pairs import pair_name
from specbook.names.weight_formats import stated_format
from specbook.roofline.model_spec import PRECISIONS, model, model_names

# Every target that the shipped series use.
OF_THE_SERIES = {
    "Qwen3-235B-A22B": ("Qwen3-235B-A22B", None),
    "Llama-3.1-8B-Instruct": ("Llama-3.1-8B", None),
    "Qwen3.6-35B-A3B": ("Qwen3.6-35B-A3B", None),
    "GLM-4.7-FP8": ("GLM-4.7", "fp8"),
    "Llama-3.3-70B-Instruct": ("Llama-3.3-70B", None),
    "Qwen3-235B-A22B-Instruct-2507": ("Qwen3-235B-A22B-Instruct-2507", None),
    "Llama-4-Scout-17B-16E-Instruct": ("Llama-4-Scout-17B-16E", None),
    "Qwen3-30B-A3B-Instruct-2507": ("Qwen3-30B-A3B-Instruct-2507", None),
    "Qwen3-Next-80B-A3B-Instruct-FP8": ("Qwen3-Next-80B-A3B", "fp8"),
    "Kimi-K2-Instruct": ("Kimi-K2", None),
    "Ling-flash-2.0": ("Ling-flash-2.0", None),
    "Qwen3.8-27B-NVFP4": ("Qwen3.8-27B", "nvfp4"),
    "Qwen2.5-Coder-7B-Instruct-Q4_K_S": ("Qwen2.5-Coder-7B", "q4_k_s"),
    "Qwen3.6-35B-A3B-AWQ": ("Qwen3.6-35B-A3B", "int4"),
    "Qwen3-Coder-30B-A3B-Instruct": ("Qwen3-Coder-30B-A3B", None),
    "Qwen3-Coder-480B-A35B-Instruct": ("Qwen3-Coder-480B-A35B", None),
    "Qwen2.5-Coder-14B-Instruct": ("Qwen2.5-Coder-14B", None),
    "Qwen2.5-Coder-14B-Instruct-Q4_K_M": ("Qwen2.5-Coder-14B", "q4_k_m"),
    "Llama-3.1-8B Q8_0": ("Llama-3.1-8B", "q8_0"),
    "Qwen2.5-Coder-32B": ("Qwen2.5-Coder-32B", None),
    "Qwen3-235B + EAGLE3": ("Qwen3-235B-A22B", None),
    "Llama-2-70B f16": ("Llama-2-70B", "fp16"),
}
ELSEWHERE = {
    "llama-3-1 70B instruct": ("Llama-3.1-70B", None),
    "70B Llama 3.1": ("Llama-3.1-70B", None),
    "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf": ("Llama-3.1-8B", "q4_k_m"),
    "/models/qwen/Qwen3-8B-Q8_0.gguf": ("Qwen3-8B", "q8_0"),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": ("Qwen3-235B-A22B-Instruct-2507", "fp8"),
    "DeepSeek V3": ("DeepSeek-V3", None),
    "deepseekv3": ("DeepSeek-V3", None),
    "Qwen3-14B": ("Qwen3-14B", None),
    "Qwen2.5-14B": ("Qwen2.5-14B", None),
    "qwen2_5 coder 0.5 b": ("Qwen2.5-Coder-0.5B", None),
    "gpt-oss-120b MXFP4": ("gpt-oss-120b", "mxfp4"),
    "Llama2 70b": ("Llama-2-70B", None),
    "mixtral 8x7b GPTQ": ("Mixtral-8x7B", "int4"),
    "Qwen3-30B": ("Qwen3-30B-A3B", None),
    "Qwen3-8B-4bit": ("Qwen3-8B", None),
}
UNCLEAR = {
    "not recorded": "is not recorded",
    "": "is not recorded",
    "70b": "is a size of many models: state --target with a name, or --target 70B",
    "a dense 13B": "--target 13B",
    "30B-A3B": "--target 30B-A3B",
    "Llama-3.1-8B 70B": "states several sizes, 70B and 8B",
    "Qwen3-8B-FP8-AWQ": "states several weight formats, fp8, awq",
    "Vicuna-7B": "Vicuna-7B-v1.3",
    "x" * 1000: "is too long for a name",
}
NEAR_MISSES = (
    "Llama 3 8B", "Llama-3-70B", "Llama-3.1-405B", "Llama 70B", "Qwen3 27B", "Qwen3.7-27B", "Qwen2-7B", "Qwen3-72B",
    "Qwen3-Coder-Next", "Qwen3-80B", "Mixtral-8x22B", "Mixtral", "DeepSeek-R1-Distill-Llama-8B", "GLM-4.6",
    "GLM-4.7-Flash", "Kimi-K2.5", "Llama-4-Maverick-17B-128E", "Llama-3.1-8B-Instruct-abliterated",
    "Qwen3-30B-A3B-Thinking-2507",
    "Vicuna-7B-v1.5", "gpt-oss-safeguard-20b", "Qwen2.5-VL-7B", "Gemma 3 27B", "Ling-flash-2.5",
)  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), (OF_THE_SERIES | ELSEWHERE).items())
def test_model_is_resolved(text: str, expected: tuple[str, str | None]):
    name = model_name(text)
    assert name.spec is not None, name.question
    assert (name.spec.name, name.precision, name.question) == (*expected, None)
    assert name.understood.startswith(expected[0])


@pytest.mark.parametrize(("text", "part"), UNCLEAR.items())
def test_model_that_is_unclear_is_asked_about(text: str, part: str):
    name = model_name(text)
    assert name.spec is None
    assert part in (name.question or "")


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_model_near_another_is_not_taken_for_it(text: str):
    name = model_name(text)
    assert name.spec is None, name.understood
    assert "--target" in (name.question or "")


@pytest.mark.parametrize("known", model_names())
def test_every_model_of_the_library_is_its_own_name(known: str):
    assert model_name(known).spec == model(known)


def test_names_of_the_library_have_words_of_their_own():
    assert len(set(library_words().values())) == len(model_names())


def test_format_that_is_not_modelled_is_said():
    name = model_name("Qwen3-8B-UD-Q4_K_XL")
    assert name.precision is None
    assert "q4 k xl, which is not modelled: state --precision" in name.understood


@pytest.mark.parametrize(
    ("text", "unmodelled"), [("Qwen3-8B-W8A8", "w8a8"), ("Qwen3-8B-FP8", None), ("Qwen3-8B", None)]
)
def test_format_that_is_not_modelled_is_told_apart_from_none(text: str, unmodelled: str | None):
    assert model_name(text).unmodelled_format == unmodelled


@pytest.mark.parametrize(
    ("text", "plain"),
    [("Llama-3.1-405B", "--target 405B"), ("gemma-2-9b", "--target 9B"), ("Mystery-80B-A3B", "80B-A3B")],
)
def test_model_near_another_in_name_is_not_proposed(text: str, plain: str):
    asked = model_name(text).question or ""
    assert "state --target with a model of the same shape" in asked
    assert f"{plain} for a plain shape" in asked


def test_path_of_windows_is_a_path():
    name = model_name("C:\\models\\Llama-3.1-8B-Q4_K_M.gguf")
    assert (name.spec, name.precision) == (model("Llama-3.1-8B"), "q4_k_m")


def test_beginning_of_a_name_says_what_was_taken():
    assert "Qwen3-30B-A3B, Qwen3-30B-A3B-Instruct-2507 have that shape" in model_name("Qwen3-30B").understood


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_weight_format_is_its_own_suffix(precision: str):
    for separator in ("-", "_", " ", "."):
        assert stated_format(f"Qwen3-8B{separator}{precision.upper()}").precision == precision


@given(
    text=st.sampled_from([*OF_THE_SERIES, *ELSEWHERE, *NEAR_MISSES]),
    blank=st.sampled_from(["  ", "_", "-"]),
    change=st.sampled_from([str.upper, str.lower]),
)
def test_case_and_separators_do_not_matter(text: str, blank: str, change):
    written = text if "+" in text or "/" in text else text.replace(" ", blank).replace("-", blank)
    one, other = model_name(text), model_name(change(written))
    assert (one.spec, one.precision) == (other.spec, other.precision)


@given(text=st.text(max_size=400))
def test_any_text_is_resolved_or_asked_about(text: str):
    name = model_name(text)
    assert (name.spec is None) == (name.question is not None)


@pytest.mark.parametrize(
    ("text", "family", "expected"),
    [
        ("1b", "Llama-3.1-70B", "Llama-3.2-1B"),
        ("0.5B", "Qwen2.5-Coder-7B", "Qwen2.5-Coder-0.5B"),
        ("0.6B", "Qwen3-235B-A22B", "Qwen3-0.6B"),
        ("7B", "Llama-2-70B", "Llama-2-7B"),
        ("8B", "Llama-3.3-70B", "Llama-3.1-8B"),
        ("TinyLlama-1.1B", "Llama-2-70B", "TinyLlama-1.1B"),
    ],
)
def test_size_alone_is_looked_up_in_the_family(text: str, family: str, expected: str):
    name = model_name(text, family=model(family))
    assert name.spec is not None, name.question
    assert name.spec.name == expected


@pytest.mark.parametrize(("text", "family"), [("0.5B", "Llama-3.1-70B"), ("4B", "Qwen2.5-7B"), ("1b", "Kimi-K2")])
def test_size_that_the_family_has_not_is_asked_about(text: str, family: str):
    name = model_name(text, family=model(family))
    assert name.spec is None
    assert "state --draft" in (name.question or "")


def test_pair_is_a_target_and_a_drafter():
    target, drafter = pair_name("llama 3.1 70b q4_k_m + 1b")
    assert target.spec == model("Llama-3.1-70B")
    assert target.precision == "q4_k_m"
    assert drafter is not None
    assert drafter.draft == model("Llama-3.2-1B")


def test_pair_with_a_method_needs_no_draft_model():
    target, drafter = pair_name("Qwen3-235B + EAGLE3")
    assert target.spec == model("Qwen3-235B-A22B")
    assert drafter is not None
    assert drafter.is_eagle3


def test_single_name_has_no_drafter():
    assert pair_name("Qwen3-8B")[1] is None
