"""The exact law through the whole pipeline: random transformers draft and verify, with caches, masks and positions.

The law of a first round is enumerated and the next one begins from its tokens as a new prompt; a short text of several
rounds is enumerated as a whole, so that what one round leaves in the caches counts for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from specbook.engine.chance import Chance, outcomes
from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.ngram import NgramDrafter
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.layout import chain_positions
from specbook.engine.sampling import SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights
from tests.theory.test_exact_law import Law, Prefix, assert_same_law
from tests.tiny_models import random_tensors, tiny_spec, tiny_transformer

N_VOCAB = 4
SIZES = {"n_vocab": N_VOCAB, "n_embedding": 8, "n_heads": 2, "n_kv_heads": 1, "n_feed_forward": 6}
PROMPT = (1, 2)

MakeDrafter = Callable[[Transformer], Drafter]


@pytest.fixture(scope="module")
def target() -> Transformer:
    return tiny_transformer("ref64", 1, **SIZES)


def small_model(target: Transformer) -> Drafter:  # noqa: ARG001
    return SmallModelDrafter(tiny_transformer("ref64", 2, **SIZES | {"n_layers": 1}))


def early_exit(target: Transformer) -> Drafter:
    exits = {"exits.0": random_tensors(tiny_spec(n_embedding=8, n_vocab=8))["embedding"]}
    stored = StoredWeights(kind="medusa", config={"n_exits": 1}, sha256="", tensors=exits)
    return EarlyExitDrafter(stored, target, n_layers=1)


def ngram(target: Transformer) -> Drafter:
    return NgramDrafter(target.n_vocab)


def prompt_lookup(target: Transformer) -> Drafter:  # noqa: ARG001
    return PromptLookupDrafter()


def first_round_law(
    target: Transformer, drafter: Drafter, text: Prefix, shape: TreeShape, config: DecodingConfig
) -> Law:
    """Law of the tokens of the first round behind a text."""
    return outcomes(lambda chance: next(speculative(target, drafter, text, config, shape, chance)).tokens)


def rounds_law(target: Transformer, drafter: Drafter, shape: TreeShape, config: DecodingConfig, n_tokens: int) -> Law:
    """Law of the first tokens behind the prompt; each round begins anew from the text before it."""

    @cache
    def law(text: Prefix) -> Law:
        if len(text) == n_tokens:
            return {text: 1.0}
        total: Law = {}
        for tokens, probability in first_round_law(target, drafter, PROMPT + text, shape, config).items():
            for then, of_then in law((text + tokens)[:n_tokens]).items():
                total[then] = total.get(then, 0.0) + probability * of_then
        return total

    return law(())


def whole_law(target: Transformer, drafter: Drafter, shape: TreeShape, config: DecodingConfig) -> Law:
    """Law of a whole text, all its rounds in one run."""

    def run(chance: Chance) -> Prefix:
        rounds = speculative(target, drafter, PROMPT, config, shape, chance)
        return tuple(token for round_ in rounds for token in round_.tokens)

    return outcomes(run)


def target_law(target: Transformer, sampling: SamplingConfig, n_tokens: int) -> Law:
    """Law of the first tokens when the target alone reads each text anew and draws the next token."""
    law: Law = {(): 1.0}
    for _ in range(n_tokens):
        longer: Law = {}
        for text, probability in law.items():
            kv_cache, tokens = target.new_cache(16), PROMPT + text
            hidden = target.forward([tokens], chain_positions(kv_cache, len(tokens)), None, kv_cache)
            following = distribution(target.logits(hidden)[0, -1], sampling)
            longer |= {(*text, token): probability * float(p) for token, p in enumerate(following) if p > 0.0}
        law = longer
    return law


@pytest.mark.parametrize(
    ("shape", "n_tokens", "top_k"),
    [
        (chain_shape(0), 3, 0),
        (chain_shape(1), 3, 0),
        (chain_shape(2), 3, 3),
        (chain_shape(3), 2, 3),
        (tree_shape((2, 1)), 2, 3),
        (tree_shape((3,)), 2, 0),
    ],
    ids=["K 0", "K 1", "K 2", "K 3", "tree", "siblings"],
)
def test_law_small_model_rounds_is_the_targets(target: Transformer, shape: TreeShape, n_tokens: int, top_k: int):
    sampling = SamplingConfig(temperature=1.5, top_k=top_k)
    config = DecodingConfig(max_new_tokens=8, max_context=16, sampling=sampling)
    found = rounds_law(target, small_model(target), shape, config, n_tokens)
    assert_same_law(found, target_law(target, sampling, n_tokens))


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (small_model, chain_shape(2)),
        (small_model, tree_shape((2, 1))),
        (early_exit, chain_shape(2)),
        (early_exit, tree_shape((2,))),
        (ngram, chain_shape(3)),
        (ngram, tree_shape((2, 1))),
        (prompt_lookup, chain_shape(3)),
        (prompt_lookup, tree_shape((2, 1))),
    ],
)
def test_law_text_of_several_rounds_is_the_targets(target: Transformer, make: MakeDrafter, shape: TreeShape):
    sampling = SamplingConfig(temperature=1.5, top_k=2)
    config = DecodingConfig(max_new_tokens=3, max_context=16, sampling=sampling)
    assert_same_law(whole_law(target, make(target), shape, config), target_law(target, sampling, 3))


@pytest.mark.parametrize("make", [small_model, early_exit])
def test_law_text_that_fills_the_context_is_the_targets(target: Transformer, make: MakeDrafter):
    sampling = SamplingConfig(temperature=1.5, top_k=2)
    config = DecodingConfig(max_new_tokens=9, max_context=len(PROMPT) + 3, sampling=sampling)
    assert_same_law(whole_law(target, make(target), chain_shape(4), config), target_law(target, sampling, 3))
