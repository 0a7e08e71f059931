"""A scratch model on the native engine: random weights of the right shapes, a cache that is full without a prompt."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import chain_positions
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec
from specbook.hardware.probe.backend import Work
from specbook.hardware.probe.models import ROOM_TOKENS

Floats = NDArray[Any]

_BLOCK = 2**20
_SEED = 0


def random_values(n_values: int) -> Floats:
    """Normal numbers, a million different ones over and over: drawing gigabytes takes longer than reading them.

    Examples
    --------
    >>> values = random_values(2**20 + 1)
    >>> values.dtype.name, bool(values[0] == values[-1] != 0.0)
    ('float32', True)
    """
    block = _block()
    filled = np.empty(n_values, np.float32)
    for start in range(0, n_values, _BLOCK):
        part = filled[start : start + _BLOCK]
        part[:] = block[: len(part)]
    return filled


def random_model(spec: TransformerSpec, arithmetic: str) -> Transformer:
    """A model with random weights, small enough that its vectors stay finite.

    All layers are given the same weights, which saves drawing them; each lays out its own copy, as in any model.
    """
    drawn: dict[tuple[int, ...], Floats] = {}
    for shape in spec.shapes().values():
        if shape not in drawn:
            drawn[shape] = _weights(shape)
    return Transformer(spec, {name: drawn[shape] for name, shape in spec.shapes().items()}, arithmetic)


def _weights(shape: tuple[int, ...]) -> Floats:
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    values = random_values(int(np.prod(shape)))
    values /= np.float32(np.sqrt(shape[-1]))
    return values.reshape(shape)


@lru_cache(maxsize=1)
def _block() -> Floats:
    return np.random.default_rng(_SEED).standard_normal(_BLOCK, np.float32)


class ScratchCache(KVCache):
    """A cache over arrays that others use too, with ``context`` random tokens in each sequence.

    Parameters
    ----------
    spec : TransformerSpec
    keys, values : (n,) ndarray
        At least ``cache_values`` of the spec.
    batch, context : int

    Raises
    ------
    ValueError
        If the arrays are too short.
    """

    def __init__(self, spec: TransformerSpec, keys: Floats, values: Floats, batch: int, context: int) -> None:
        heads = (spec.n_layers, batch, spec.n_kv_heads)
        self.capacity, self.n_sequences = context + ROOM_TOKENS, batch
        self.keys = _shaped(keys, (*heads, spec.head_size, self.capacity))
        self.values = _shaped(values, (*heads, self.capacity, spec.head_size))
        self.lengths = np.full(batch, context, np.int64)
        self.n_pending = np.zeros(batch, np.int64)


def _shaped(values: Floats, shape: tuple[int, ...]) -> Floats:
    n_values = int(np.prod(shape))
    if n_values > values.size:
        raise ValueError(f"scratch of {values.size} values must hold {n_values}; got shape {shape}")
    return values[:n_values].reshape(shape)


def pass_work(model: Transformer, cache: ScratchCache, width: int) -> Work:
    """One pass over ``width`` rows of each sequence, logits of all of them, and the rows given back."""
    lengths = cache.lengths
    tokens = np.arange(cache.n_sequences * width).reshape(cache.n_sequences, width) % model.n_vocab
    positions = chain_positions(cache, width)

    def work() -> None:
        model.logits(model.forward(tokens, positions, None, cache))
        cache.rollback(lengths)

    return work
