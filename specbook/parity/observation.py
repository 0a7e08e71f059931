"""Watching the engine from outside: the logits of each pass and the cache, without a hook in what is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.decoding import DecodingConfig, autoregressive
from specbook.engine.kv_cache import KVCache
from specbook.engine.layout import chain_positions
from specbook.engine.transformer import Transformer

Array = NDArray[Any]

# Float32 logits of one pass and of single steps differed by 3.4e-5 at most; beyond this it is no rounding.
LOGIT_TOLERANCE = 1e-3


class ObservedTransformer(Transformer):
    """The same model with the same weights, which remembers its last cache and the logits of its last pass.

    A drafter that was built on the model itself is not seen, so that what is remembered is the verify pass.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> observed = ObservedTransformer(load_target())
    >>> _ = list(autoregressive(observed, [1023], DecodingConfig(max_new_tokens=2)))
    >>> observed.last_logits.shape, observed.last_cache.lengths.tolist()
    ((1, 1024), [2])
    """

    last_cache: KVCache
    last_logits: Array

    def __init__(self, model: Transformer) -> None:
        vars(self).update(vars(model))

    def new_cache(self, capacity: int, n_sequences: int = 1) -> KVCache:
        """An empty cache, which is remembered."""
        self.last_cache = super().new_cache(capacity, n_sequences)
        return self.last_cache

    def logits(self, hidden: Array) -> Array:
        """Logits, which are remembered, (n_rows, n_vocab)."""
        logits = super().logits(hidden)
        self.last_logits = logits.reshape(-1, self.n_vocab)
        return logits


@dataclass(frozen=True, kw_only=True, slots=True)
class SingleSteps:
    """A text computed one token a pass.

    Attributes
    ----------
    tokens : tuple of int
        For a continuation, the new tokens alone.
    logits : (n_tokens, n_vocab) ndarray of float32
        For a continuation, those that each token was chosen from; for a text, those behind each token.
    cache : KVCache
        Which never saw a draft.
    """

    tokens: tuple[int, ...]
    logits: Array
    cache: KVCache


def greedy_reference(target: Transformer, prompt: Sequence[int], config: DecodingConfig) -> SingleSteps:
    """The continuation that speculation must equal."""
    observed = ObservedTransformer(target)
    tokens: list[int] = []
    logits: list[Array] = []
    for round_ in autoregressive(observed, prompt, config):
        tokens += round_.tokens
        logits.append(observed.last_logits[0])
    return SingleSteps(tokens=tuple(tokens), logits=np.stack(logits), cache=observed.last_cache)


def read_by_steps(target: Transformer, text: Sequence[int], spare: int = 1) -> SingleSteps:
    """A given text, one token a pass; its cache has room for ``spare`` more."""
    cache = target.new_cache(len(text) + spare)
    logits: list[Array] = []
    for token in text:
        logits.append(_step(target, cache, token))
        cache.commit_all()
    return SingleSteps(tokens=tuple(text), logits=np.stack(logits), cache=cache)


def peek(target: Transformer, cache: KVCache, token: int) -> Array:
    """Logits behind one more token, (n_vocab,), which does not stay in the cache."""
    logits = _step(target, cache, token)
    cache.drop_pending()
    return logits


def _step(target: Transformer, cache: KVCache, token: int) -> Array:
    hidden = target.forward([[token]], chain_positions(cache, 1), None, cache)
    return np.asarray(target.logits(hidden)[0, 0])


def is_bitwise(target: Transformer) -> bool:
    """Whether a row's result does not depend on the rows computed with it, so that equality is of bits."""
    return target.arithmetic.by_row


def same_bits(first: Array, second: Array) -> bool:
    """Whether two arrays are equal bit for bit: −0 is not 0, and a NaN is itself.

    Examples
    --------
    >>> same_bits(np.array([0.0]), np.array([-0.0])), same_bits(np.array([np.nan]), np.array([np.nan]))
    (False, True)
    """
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    bits = np.dtype(f"u{first.itemsize}")
    return bool((first.view(bits) == second.view(bits)).all())


def largest_difference(first: Array, second: Array) -> float:
    """Largest absolute difference; infinite where one is not finite or the shapes differ.

    Examples
    --------
    >>> largest_difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    0.5
    """
    if first.shape != second.shape:
        return float("inf")
    largest = float(np.abs(first - second).max(initial=0.0))
    return largest if np.isfinite(largest) else float("inf")
