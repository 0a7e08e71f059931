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

from specbook.engine.chance import Dice
from specbook.engine.draft import chain_shape
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.drafters.eagle import EagleHead
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.medusa import MedusaHeads
from specbook.engine.layout import chain_positions
from specbook.engine.library import SHA256, load_draft, load_target, stored
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from tests.tiny_models import Array

SAMPLED = SamplingConfig(temperature=1.0)
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


def _first_draft(name: str, tokens: list[int], draft_length: int = 1) -> list[Array]:
    """Distributions that a shipped drafter draws a chain from behind a text, at temperature 1."""
    target = TARGET("ref64")
    drafter, state = shipped_drafter(name, target), TargetState(target, 512)
    state.prefill(tokens[:-1])
    drafter.start(state, tokens, 512)
    chance = Dice(np.random.default_rng(0))
    request = Request(tokens=tokens, shape=chain_shape(draft_length), sampling=SAMPLED, chance=chance)
    return [stated for stated in drafter.propose(request).probabilities if stated is not None]


@pytest.mark.parametrize("text", ["chat", "long"])
@pytest.mark.parametrize(("name", "logits"), [("small", "draft"), ("eagle", "eagle"), ("early_exit", "exits")])
def test_first_draft_is_drawn_from_torchs_distribution(name: str, logits: str, text: str):
    """The reference is read at the last token: the exit after two layers is the drafter's."""
    place = {"draft": np.s_[-1], "eagle": np.s_[:], "exits": np.s_[1]}[logits]
    (stated,) = _first_draft(name, REFERENCE[f"{text}.tokens"].tolist())
    assert stated == pytest.approx(distribution(REFERENCE[f"{text}.{logits}"][place], SAMPLED), abs=1e-6)


@pytest.mark.parametrize("text", ["chat", "long"])
def test_medusa_chain_is_drawn_from_torchs_distributions(text: str):
    """The heads guess from the vector before the last token, so that the reference's last token is the one before."""
    stated = _first_draft("medusa", [*REFERENCE[f"{text}.tokens"].tolist(), 32], 4)
    wanted = distribution(REFERENCE[f"{text}.heads"], SAMPLED)
    assert np.stack(stated) == pytest.approx(wanted, abs=1e-6)
