"""The model library against published parameter counts, weight formats against their block layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.roofline.model_spec import (
    PRECISIONS,
    ModelSpec,
    model,
    model_entry,
    model_names,
    precision,
    same_model,
)

TINY = ModelSpec(
    name="tiny", n_layers=2, hidden_size=8, n_heads=4, n_kv_heads=2, head_dim=2, ffn_size=16, vocab_size=100
)
ASKED_FOR = ("Llama-3.2-1B", "Llama-3.2-3B", "Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-0.6B", "Qwen3-8B", "Qwen3-32B",
             "Mixtral-8x7B")  # fmt: skip


@pytest.mark.parametrize("name", ASKED_FOR)
def test_library_holds_every_model_asked_for(name: str):
    assert model(name).name == name


@pytest.mark.parametrize("name", model_names())
def test_library_model_has_its_published_number_of_parameters(name: str):
    entry = model_entry(name)
    computed = model(name).n_parameters + entry["published_extra_elements"]
    tolerance = 0 if entry["published_is_exact"] else 0.01 * entry["published_parameters"]
    assert abs(computed - entry["published_parameters"]) <= tolerance


@pytest.mark.parametrize("name", model_names())
def test_library_model_has_a_source(name: str):
    entry = model_entry(name)
    assert entry["source"].strip()
    own = entry["source"].startswith("specbook/")
    assert (own and entry["url"] is None) or entry["url"].startswith("https://")


def test_parameters_of_a_tiny_model_by_hand():
    attention = 2 * (8 * 8 + 8 * 4 + 8 * 4 + 8 * 8)
    ffn = 2 * 3 * 8 * 16
    assert TINY.attention_parameters == attention
    assert TINY.ffn_parameters == ffn
    assert TINY.router_parameters == 0
    assert TINY.head_parameters == 800
    assert TINY.n_parameters == attention + ffn + 2 * 800 + 8 * (2 * 2 + 1)


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"tied_embeddings": True}, -800),
        ({"attention_bias": True}, 2 * (4 + 2 * 2) * 2),
        ({"qk_norm": True}, 2 * 2 * 2),
        ({"n_experts": 4, "n_experts_per_token": 2}, 3 * 2 * 3 * 8 * 16 + 2 * 8 * 4),
    ],
)
def test_parameters_option_adds_what_it_says(changes: dict[str, Any], difference: int):
    assert replace(TINY, **changes).n_parameters - TINY.n_parameters == difference


@pytest.mark.parametrize(
    ("name", "layer_bytes", "head_bytes", "arithmetic"),
    [
        ("bf16", 2.0, 2.0, "fp16"),
        ("fp16", 2.0, 2.0, "fp16"),
        ("fp8", 1.0, 2.0, "fp8"),
        ("int4", 4.15625 / 8, 2.0, "fp16"),
        ("q4_k", 0.5625, 0.8203125, "fp16"),
        ("q8_0", 1.0625, 1.0625, "fp16"),
    ],
)
def test_precision_widths_follow_their_block_layouts(name: str, layer_bytes: float, head_bytes: float, arithmetic: str):
    width = precision(name.upper())
    assert (width.layer_bytes, width.head_bytes, width.arithmetic) == (layer_bytes, head_bytes, arithmetic)
    assert width.source


def test_precision_unknown_name_lists_the_known():
    with pytest.raises(BadInput, match=r"precision = 'fp3': no such weight format; one of bf16, fp16, fp8, int4, q4_k"):
        precision("fp3")


@pytest.mark.parametrize("name", PRECISIONS)
def test_weight_bytes_by_hand(name: str):
    width = PRECISIONS[name]
    layers = TINY.n_parameters - 1600
    assert TINY.weight_bytes(name) == pytest.approx(layers * width.layer_bytes + 1600 * width.head_bytes)


def test_weight_bytes_tied_embedding_is_stored_once():
    assert replace(TINY, tied_embeddings=True).weight_bytes("bf16") == TINY.weight_bytes("bf16") - 1600


def test_weight_bytes_mixtral_holds_all_experts():
    assert model("Mixtral-8x7B").weight_bytes("bf16") == 2 * 46_702_792_704


@pytest.mark.parametrize(("name", "kv_bytes"), [("Llama-3.1-8B", 131_072), ("Llama-3.1-70B", 327_680)])
def test_kv_bytes_per_token_by_hand(name: str, kv_bytes: int):
    assert model(name).kv_bytes_per_token() == kv_bytes
    assert model(name).kv_bytes_per_token(1.0) == kv_bytes / 2


@pytest.mark.parametrize("name", ["llama-3.1-8b", "meta-llama/Llama-3.1-8B", "a/b/Llama-3.1-8B-Instruct"])
def test_model_owner_case_and_instruct_do_not_matter(name: str):
    assert model(name).name == "Llama-3.1-8B"


@pytest.mark.parametrize("name", ["gpt-9", "", "-Instruct", "Llama-3.1", "Llama-3.1-8B-Instruct-x"])
def test_model_unknown_name_lists_the_known(name: str):
    with pytest.raises(BadInput, match=r"model = '.*': no such model in the library; one of Llama-3\.2-1B, .*Mixtral"):
        model(name)


def test_same_model_other_size_is_another():
    assert same_model("lmsys/VICUNA-7b-v1.3", model("Vicuna-7B-v1.3"))
    assert not same_model("Llama-3.1-70B", model("Llama-3.1-8B"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 0}, "n_layers must be whole and at least 1; got 0"),
        ({"hidden_size": -8}, "hidden_size must be whole and at least 1; got -8"),
        ({"vocab_size": 10.5}, "vocab_size must be whole and at least 1; got 10.5"),
        ({"head_dim": float("nan")}, "head_dim must be finite; got nan"),
        ({"n_experts": 2, "n_experts_per_token": 3}, "n_experts_per_token must not exceed n_experts; got 3"),
    ],
)
def test_model_spec_impossible_size_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)
