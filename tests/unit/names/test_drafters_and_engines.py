"""Drafters and engines by the names that people give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.names.drafters import drafter_name
from specbook.names.engines import engine_name
from specbook.roofline.drafting import costs_like
from specbook.roofline.model_spec import model

# Every drafter that the shipped series use, with a target it was used for, and what its drafting costs like.
OF_THE_SERIES = [
    ("EAGLE/MTP, steps = K", "Qwen3-235B-A22B", "eagle"),
    ("EAGLE/MTP, steps = K", "GLM-4.7", "mtp"),
    ("built-in MTP", "Qwen3.6-35B-A3B", "mtp"),
    ("MTP", "Qwen3.8-27B", "mtp"),
    ("lmsys/SGLang-EAGLE3-Qwen3-30B-A3B-Instruct-2507-SpecForge", "Qwen3-30B-A3B-Instruct-2507", "eagle3"),
    ("lmsys/Qwen3-235B-A22B-EAGLE3", "Qwen3-235B-A22B", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Qwen3-235B-A22B-Instruct-2507-SpecForge", "Qwen3-235B-A22B-Instruct-2507", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Qwen3-Next-80B-A3B-Instruct-FP8-SpecForge", "Qwen3-Next-80B-A3B", "eagle3"),
    ("AQ-MedAI/Kimi-K2-Instruct-eagle3", "Kimi-K2", "eagle3"),
    ("AQ-MedAI/Ling-Flash-2.0-eagle3", "Ling-flash-2.0", "eagle3"),
    ("lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B", "Llama-3.1-8B", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge", "Llama-3.1-8B", "eagle3"),
    ("lmsys/sglang-EAGLE3-LLaMA3.3-Instruct-70B", "Llama-3.3-70B", "eagle3"),
    ("lmsys/sglang-EAGLE3-Llama-4-Scout-17B-16E-Instruct-v1", "Llama-4-Scout-17B-16E", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Llama-4-Scout-17B-16E-Instruct-SpecForge", "Llama-4-Scout-17B-16E", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-Specforge", "Llama-3.3-70B", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-Spec for ge", "Llama-3.3-70B", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Qwen3-Coder-30B-A3B-Instruct-SpecForge", "Qwen3-Coder-30B-A3B", "eagle3"),
    ("lmsys/SGLang-EAGLE3-Qwen3-Coder-480B-A35B-Instruct-SpecForge-EigenAI", "Qwen3-Coder-480B-A35B", "eagle3"),
    ("EAGLE-3", "Llama-3.1-8B", "eagle3"),
    ("EAGLE-2", "Llama-3.1-8B", "eagle2"),
    ("EAGLE-3 (steps 8, topk 8, 64 draft tokens)", "Llama-3.3-70B", "eagle3"),
    ("N-gram (model-free)", "Qwen2.5-Coder-7B", "ngram"),
    ("n-gram", "Qwen3.8-27B", "ngram"),
]
DRAFT_MODELS = [
    ("Draft model (0.5B)", "Qwen2.5-Coder-14B", "Qwen2.5-Coder-0.5B", None),
    ("Qwen2.5-Coder-0.5B-Instruct-Q8_0", "Qwen2.5-Coder-14B", "Qwen2.5-Coder-0.5B", "q8_0"),
    ("Qwen2.5-Coder-1.5B-Instruct-Q4_K_M", "Qwen2.5-Coder-14B", "Qwen2.5-Coder-1.5B", "q4_k_m"),
    ("Qwen2.5-Coder-3B-Instruct-Q4_K_M", "Qwen2.5-Coder-14B", "Qwen2.5-Coder-3B", "q4_k_m"),
    ("small 1B", "Llama-3.1-8B", "Llama-3.2-1B", None),
    ("draft model Qwen3-0.6B q8_0", "Qwen3-32B", "Qwen3-0.6B", "q8_0"),
]
UNCLEAR = {
    "not recorded": "is not recorded: state --draft",
    "draft model": "does not say which model drafted: state --draft",
    "DFlash": "drafts by dflash, whose cost is not modelled",
    "P-EAGLE": "whose cost is not modelled",
    "EAGLE-3 + suffix automaton": "names several methods, eagle3 and ngram",
    "medusa or lookahead": "names several methods",
    "0.5B": "is no method and no model of the library",
    "Draft model (9B)": "is no method and no model of the library",
    "frob": "is no method and no model of the library",
}
ENGINES = {
    "SGLang": ("sglang", None),
    "vLLM": ("vllm", None),
    "llama.cpp cuda": ("llama.cpp", "cuda"),
    "llama.cpp": ("llama.cpp", None),
    "llama.cpp vulkan": ("llama.cpp", "vulkan"),
    "llama.cpp llama-speculative": ("llama.cpp", None),
    "llama.cpp server": ("llama.cpp", None),
    "imp": ("imp", None),
    "TensorRT-LLM": ("tensorrt-llm", None),
    "TRT-LLM": ("tensorrt-llm", None),
    "vLLM 0.11.2": ("vllm", None),
    "vllm-mlx": ("mlx", None),
    "ik_llama.cpp": ("ik_llama.cpp", None),
    "native": ("native", None),
    "HF Transformers": ("transformers", None),
    "LM Studio 0.3": ("lm studio", None),
    "KoboldCpp": ("koboldcpp", None),
}


@pytest.mark.parametrize(("text", "target", "method"), OF_THE_SERIES)
def test_method_is_resolved(text: str, target: str, method: str):
    name = drafter_name(text, model(target))
    assert (name.method, name.draft, name.question) == (costs_like(method), None, None)
    assert name.is_eagle3 == (method == "eagle3")
    assert name.precision is None


@pytest.mark.parametrize(("text", "target", "draft", "precision"), DRAFT_MODELS)
def test_draft_model_is_resolved(text: str, target: str, draft: str, precision: str | None):
    name = drafter_name(text, model(target))
    assert (name.method, name.draft, name.precision) == ("draft_model", model(draft), precision)


@pytest.mark.parametrize(("text", "part"), UNCLEAR.items())
def test_drafter_that_is_unclear_is_asked_about(text: str, part: str):
    name = drafter_name(text, model("Llama-3.1-8B"))
    assert name.draft is None
    assert part in (name.question or "")


def test_eagle_or_mtp_without_a_target_is_asked_about():
    assert "state --target" in (drafter_name("EAGLE/MTP", None).question or "")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("EAGLE-3 (steps 8, topk 8, 64 draft tokens)", (8, 8, 64)),
        ("eagle3 steps=3 top_k=1", (3, 1, None)),
        ("EAGLE K=4", (4, None, None)),
        ("AQ-MedAI/Kimi-K2-Instruct-eagle3", (None, None, None)),
        ("MTP, 2 steps", (2, None, None)),
        ("EAGLE3 topk 4 steps 5 draft tokens 16", (5, 4, 16)),
        ("EAGLE3 5 steps 4 topk 16 draft tokens", (5, 4, 16)),
        ("eagle, depth 6 (26 nodes)", (6, None, 26)),
    ],
)
def test_sizes_of_a_tree_are_read(text: str, shape: tuple[int | None, ...]):
    name = drafter_name(text, model("Llama-3.1-8B"))
    assert (name.depth, name.top_k, name.n_nodes) == shape


@given(text=st.text(max_size=400))
def test_any_text_is_resolved_or_asked_about(text: str):
    name = drafter_name(text, None)
    assert (name.question is None) == (
        name.method is not None and (name.method != "draft_model" or name.draft is not None)
    )
    engine = engine_name(text)
    assert (engine.engine is None) == (engine.question is not None)


@pytest.mark.parametrize(("text", "expected"), ENGINES.items())
def test_engine_is_resolved(text: str, expected: tuple[str, str | None]):
    name = engine_name(text)
    assert (name.engine, name.backend, name.question) == (*expected, None)


@pytest.mark.parametrize(
    ("text", "part"),
    [("not recorded", "is not recorded"), ("frob", "is no engine"), ("vLLM or SGLang", "several engines")],
)
def test_engine_that_is_unclear_is_asked_about(text: str, part: str):
    assert part in (engine_name(text).question or "")
