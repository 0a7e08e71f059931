"""The exact law of whole decodings with caches: two transformers of three tokens, from prompt to end.

Where :mod:`~specbook.parity.exact_law` puts rounds together by the theory, here decoding itself is run in every course
that chance can take, so that what one round leaves in the caches meets the next.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from specbook.engine.chance import Chance, outcomes
from specbook.engine.decoding import DecodingConfig, speculative
from specbook.engine.draft import TreeShape, chain_shape, tree_shape
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.sampling import SamplingConfig, distribution
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec
from specbook.parity.exact_law import LENGTH, Law, Tokens
from specbook.parity.observation import read_by_steps

DECODED_SHAPES: dict[str, TreeShape] = {
    "whole decoding, chain": chain_shape(2),
    "whole decoding, tree": tree_shape((2,)),
}

_PROMPT = (0, 1)
_SAMPLING = SamplingConfig(temperature=1.0)
_SPEC = TransformerSpec(
    n_vocab=3, n_embedding=8, n_layers=2, n_heads=2, n_kv_heads=1, head_size=4, n_feed_forward=8, max_context=16
)


def random_transformer(spec: TransformerSpec, arithmetic: str, rng: np.random.Generator) -> Transformer:
    """A transformer with random weights, whose logits have a spread of about 1."""
    tensors = {
        name: rng.standard_normal(shape).astype(np.float32) * np.float32(shape[-1] ** -0.5)
        if len(shape) == 2
        else np.ones(shape, np.float32)
        for name, shape in spec.shapes().items()
    }
    return Transformer(spec, tensors, arithmetic)


def random_pair(arithmetic: str, rng: np.random.Generator) -> tuple[Transformer, Transformer]:
    """Target and draft model of three tokens that have nothing to do with each other."""
    return random_transformer(_SPEC, arithmetic, rng), random_transformer(_SPEC, arithmetic, rng)


def decoded_law(target: Transformer, draft: Transformer, shape: TreeShape) -> Law:
    """The law of the first tokens behind a prompt of two, from every course of a whole decoding."""
    config = DecodingConfig(max_new_tokens=LENGTH, max_context=len(_PROMPT) + LENGTH, sampling=_SAMPLING)
    drafter = SmallModelDrafter(draft)

    def run(chance: Chance) -> Tokens:
        rounds = speculative(target, drafter, _PROMPT, config, shape, chance)
        return tuple(token for round_ in rounds for token in round_.tokens)

    return outcomes(run)


def single_step_law(target: Transformer) -> Law:
    """The same from single steps alone."""
    law: Law = {}
    for tokens in product(range(target.n_vocab), repeat=LENGTH):
        logits = read_by_steps(target, (*_PROMPT, *tokens)).logits[len(_PROMPT) - 1 : -1]
        law[tokens] = float(np.prod(distribution(logits, _SAMPLING)[np.arange(LENGTH), list(tokens)]))
    return law
