"""SmolLM2 against llama.cpp's recorded answers: tokens, text and logits. ``make smollm`` runs it; it needs the weights.

The file is not collected by name, so that the suite never skips it in silence: it runs when it is asked for, and fails
if the weights are not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.engine.layout import chain_positions
from specbook.engine.smollm import SmolLm, load_smollm
from specbook.engine.threads import blas_threads

ANSWERS = json.loads((Path(__file__).parents[1] / "regression" / "smollm_greedy.json").read_text("utf-8"))["answers"]


@pytest.fixture(scope="module", params=["exact", "fast", "ref64"])
def smollm(request: pytest.FixtureRequest) -> Iterator[SmolLm]:
    with blas_threads(1):
        yield load_smollm(request.param)


def greedy(smollm: SmolLm, prompt_ids: list[int], n_tokens: int) -> tuple[list[int], np.ndarray]:
    """Token ids, and the two best logits at each of them, (n_tokens, 2)."""
    model = smollm.model
    cache = model.new_cache(capacity=len(prompt_ids) + n_tokens)
    hidden = model.prefill(prompt_ids, cache)[-1]
    ids, best = [], []
    for _ in range(n_tokens):
        logits = model.logits(hidden)
        first, second = np.argsort(logits)[::-1][:2]
        ids.append(int(first))
        best.append(logits[[first, second]])
        hidden = model.forward([[ids[-1]]], chain_positions(cache, 1), None, cache)[0, 0]
        cache.commit_all()
    return ids, np.array(best)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["text"][:20])
def test_greedy_text_is_llama_cpps(smollm: SmolLm, answer: dict[str, Any]):
    ids, best = greedy(smollm, answer["prompt_ids"], len(answer["ids"]))
    assert ids == answer["ids"]
    assert smollm.tokenizer.decode(ids) == answer["text"]
    difference = np.abs(best - answer["best"]).max()
    assert difference < 1e-3 < answer["least_gap"] / 10


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["text"][:20])
def test_prompts_become_llama_cpps_tokens(smollm: SmolLm, answer: dict[str, Any]):
    assert smollm.tokenizer.encode(answer["prompt"]) == answer["prompt_ids"]
    assert smollm.tokenizer.decode(answer["prompt_ids"]) == answer["prompt"]


def test_stop_token_ends_an_answer(smollm: SmolLm):
    assert smollm.tokenizer.stop_token in {answer["ids"][-1] for answer in ANSWERS}


def test_verify_of_nine_is_nine_steps(smollm: SmolLm):
    model, answer = smollm.model, ANSWERS[0]
    cache = model.new_cache(capacity=64)
    model.prefill(answer["prompt_ids"], cache)
    length = cache.lengths.copy()
    tokens = answer["ids"][:9]
    together = model.logits(model.forward([tokens], chain_positions(cache, 9), None, cache)[0])
    cache.rollback(length)
    one_by_one = []
    for token in tokens:
        one_by_one.append(model.logits(model.forward([[token]], chain_positions(cache, 1), None, cache)[0, 0]))
        cache.commit_all()
    if model.arithmetic.by_row:
        np.testing.assert_array_equal(together, one_by_one)
    else:
        np.testing.assert_allclose(together, one_by_one, atol=1e-3)
