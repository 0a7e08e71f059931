"""Logits of the shipped models against a float64 forward pass that torch made from the formulas alone.

``python -m specbook.training reference`` makes the file anew, in the environment of the extra ``train``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from specbook.engine.drafters.eagle import EagleHead
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.medusa import MedusaHeads
from specbook.engine.layout import chain_positions
from specbook.engine.library import SHA256, load_draft, load_target, stored
from specbook.engine.transformer import Transformer
from tests.tiny_models import Array

PATH = Path(__file__).parent / "engine_logits.safetensors"
REFERENCE = load_file(PATH)
TARGET, DRAFT = cache(load_target), cache(load_draft)
TEXTS = ["chat", "code", "mathematics", "long"]

# Logits reach 20, where float32 resolves 2e-6. Heads and exits read the last vector through further products.
PAIR = {"exact": 1e-5, "fast": 1e-4, "ref64": 1e-6, "naive": 1e-4}
HEADS = {"exact": 5e-5, "fast": 1e-4, "ref64": 1e-6}


def _vectors(model: Transformer, tokens: Array, n_layers: int | None = None) -> Array:
    """Hidden vectors of a text in one pass, (n_tokens, n_embedding)."""
    cache = model.new_cache(len(tokens))
    return model.forward([tokens], chain_positions(cache, len(tokens)), None, cache, n_layers)[0]


def _distance(found: Array, name: str) -> float:
    return float(np.abs(found - REFERENCE[name]).max())


def test_reference_belongs_to_the_shipped_weights():
    with safe_open(PATH, framework="numpy") as stored_logits:
        hashes = json.loads(stored_logits.metadata()["weights"])
    assert {f"{name}.safetensors": sha256 for name, sha256 in hashes.items()}.items() <= SHA256.items()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", PAIR)
def test_logits_of_the_pair_equal_torch(name: str, text: str):
    tokens, places = REFERENCE[f"{text}.tokens"], REFERENCE[f"{text}.positions"]
    for part, model in (("target", TARGET(name)), ("draft", DRAFT(name))):
        found = model.logits(_vectors(model, tokens)[places])
        assert _distance(found, f"{text}.{part}") <= PAIR[name]
        assert np.array_equal(found.argmax(axis=1), REFERENCE[f"{text}.{part}"].argmax(axis=1))


@pytest.mark.parametrize("text", ["chat", "code", "mathematics"])
@pytest.mark.parametrize("name", HEADS)
def test_logits_of_heads_and_exits_equal_torch(name: str, text: str):
    target, tokens = TARGET(name), REFERENCE[f"{text}.tokens"]
    features = target.features(_vectors(target, tokens))
    assert _distance(MedusaHeads(stored("medusa"), target).logits(features[-1], 4), f"{text}.heads") <= HEADS[name]
    exits = [EarlyExitDrafter(stored("medusa"), target, layers).logits for layers in (1, 2, 3)]
    found = np.stack([exits[i](_vectors(target, tokens, i + 1)[-1:])[0] for i in range(3)])
    assert _distance(found, f"{text}.exits") <= HEADS[name]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", HEADS)
def test_logits_of_the_eagle_head_equal_torch(name: str, text: str):
    target, tokens = TARGET(name), REFERENCE[f"{text}.tokens"]
    head = EagleHead(stored("eagle"), target)
    inputs = head.inputs(tokens[1:], target.features(_vectors(target, tokens))[:-1])
    cache = head.decoder.new_cache(len(tokens))
    hidden = head.decoder.forward(inputs, chain_positions(cache, len(tokens) - 1), None, cache)
    found = target.logits_of_features(head.features(hidden[0, -1:]))[0]
    assert _distance(found, f"{text}.eagle") <= HEADS[name]
