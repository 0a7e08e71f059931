"""Random transformers of a few hundred weights, and caches that are full without a prompt: what engine tests run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import chain_positions, tree_rows
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec

Array = NDArray[Any]

SIZES = {
    "n_vocab": 19,
    "n_embedding": 24,
    "n_layers": 2,
    "n_heads": 6,
    "n_kv_heads": 2,
    "head_size": 4,
    "n_feed_forward": 20,
    "max_context": 64,
}


def tiny_spec(**changes: int) -> TransformerSpec:
    """Three query heads to a key head, and no size that divides a tile."""
    return TransformerSpec(**(SIZES | changes))


def random_tensors(spec: TransformerSpec, seed: int = 0, *, untied: bool = False) -> dict[str, Array]:
    """Weights large enough that every part of the model matters for its logits."""
    rng = np.random.default_rng(seed)
    shapes = spec.shapes() | ({"head": (spec.n_vocab, spec.n_embedding)} if untied else {})
    tensors = {name: rng.normal(0.0, 1.5 / np.sqrt(shape[-1]), shape) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if len(shape) == 1:
            tensors[name] = rng.uniform(0.5, 1.5, shape)
    tensors["embedding"] *= 2.0
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def tiny_transformer(arithmetic: str = "exact", seed: int = 0, *, untied: bool = False, **changes: int) -> Transformer:
    """A random model in one of the arithmetics."""
    spec = tiny_spec(**changes)
    return Transformer(spec, random_tensors(spec, seed, untied=untied), arithmetic)


def filled_cache(model: Transformer, length: int, capacity: int, n_sequences: int = 1, seed: int = 1) -> KVCache:
    """A cache that holds ``length`` random tokens of each sequence, and random rows behind them."""
    rng = np.random.default_rng(seed)
    cache = model.new_cache(capacity, n_sequences)
    cache.keys[:] = rng.normal(size=cache.keys.shape)
    cache.values[:] = rng.normal(size=cache.values.shape)
    cache.lengths[:] = length
    return cache


def copied(model: Transformer, cache: KVCache) -> KVCache:
    """The same bytes and lengths in another cache."""
    other = model.new_cache(cache.capacity, cache.n_sequences)
    other.keys[:], other.values[:] = cache.keys, cache.values
    other.lengths, other.n_pending = cache.lengths.copy(), cache.n_pending.copy()
    return other


def chain_logits(model: Transformer, tokens: Sequence[int], cache: KVCache) -> Array:
    """Logits of tokens in one pass, (n_tokens, n_vocab); the rows stay pending."""
    hidden = model.forward([tokens], chain_positions(cache, len(tokens)), None, cache)
    return np.asarray(model.logits(hidden)[0])


def step_logits(model: Transformer, tokens: Sequence[int], cache: KVCache) -> Array:
    """Logits of tokens one pass each, (n_tokens, n_vocab); the rows are committed."""
    rows = []
    for token in tokens:
        rows.append(chain_logits(model, [token], cache)[0])
        cache.commit_all()
    return np.stack(rows)


def tree_logits(model: Transformer, tokens: Sequence[int], parents: Sequence[int], cache: KVCache) -> Array:
    """Logits of a root and its nodes in one pass, (1 + n_nodes, n_vocab); the rows stay pending."""
    positions, mask = tree_rows(int(cache.lengths[0]), parents)
    return np.asarray(model.logits(model.forward([tokens], positions, mask, cache))[0])
