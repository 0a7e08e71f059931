"""The language model: tokens in, vectors and logits out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.engine.arithmetic import arithmetic as arithmetic_of
from specbook.engine.decoder import Decoder
from specbook.engine.kv_cache import Integers, KVCache
from specbook.engine.layout import Mask, chain_positions
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import Tensors

Array = NDArray[Any]


class Transformer:
    """A Llama-style model in one of the four arithmetics.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : mapping of str to ndarray of float32
        Those of :meth:`TransformerSpec.shapes`, and ``head`` (n_vocab, n_embedding) if it is not tied.
    arithmetic : str
        ``exact``, ``fast``, ``ref64`` or ``naive``; see :mod:`specbook.engine.arithmetic`.

    Raises
    ------
    ValueError
        If a tensor is missing or has another shape, or the arithmetic has another name.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> target = load_target()
    >>> cache = target.new_cache(capacity=16)
    >>> tokens = np.array([[1023, 65, 66]])
    >>> hidden = target.forward(tokens, chain_positions(cache, 3), None, cache)
    >>> hidden.shape, target.logits(hidden[:, -1:]).shape, cache.n_pending.tolist()
    ((1, 3, 384), (1, 1, 1024), [3])
    """

    def __init__(self, spec: TransformerSpec, tensors: Tensors, arithmetic: str = "exact") -> None:
        shapes = spec.shapes()
        if "head" in tensors:
            shapes["head"] = shapes["embedding"]
        for name, shape in shapes.items():
            found = tensors[name].shape if name in tensors else None
            if found != shape:
                raise ValueError(f"tensor {name} must have shape {shape}; got {found}")
        self.spec = spec
        self.arithmetic = arithmetic_of(arithmetic)
        self.decoder = Decoder(spec, tensors, self.arithmetic)
        self.embedding = np.asarray(tensors["embedding"], self.arithmetic.dtype)
        self._final_norm = np.asarray(tensors["final_norm"], self.arithmetic.dtype)
        head = np.asarray(tensors.get("head", self.embedding), self.arithmetic.dtype)
        self._head = self.arithmetic.prepare(head)

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return self.spec.n_vocab

    def new_cache(self, capacity: int, n_sequences: int = 1) -> KVCache:
        """An empty cache for this model: room for ``capacity`` tokens of each sequence, pending rows included."""
        return self.decoder.new_cache(capacity, n_sequences)

    def forward(
        self, tokens: ArrayLike, positions: Integers, mask: Mask | None, cache: KVCache, n_layers: int | None = None
    ) -> Array:
        """Hidden vectors of new tokens, which stay pending in the cache: prefill, decode and verify alike.

        Parameters
        ----------
        tokens : (n_sequences, n_rows) array_like of int
            Token ids, below ``n_vocab``, where the mask says padding too.
        positions : (n_sequences, n_rows) ndarray of int
        mask : (n_sequences, n_rows, n_pending + n_rows) ndarray of bool, or None
            Which pending and new rows each row sees; None for rows that follow one another.
        cache : KVCache
        n_layers : int, optional
            Stop after so many layers (an early exit).

        Returns
        -------
        (n_sequences, n_rows, n_embedding) ndarray
            Before the final norm.

        Raises
        ------
        ValueError
            If a token is unknown, shapes disagree, or the cache or the context has no room.
        """
        ids = np.asarray(tokens)
        if ids.ndim != 2 or ids.size == 0:
            raise ValueError(f"tokens must have shape (n_sequences, n_rows) and not be empty; got {ids.shape}")
        if ids.min() < 0 or ids.max() >= self.n_vocab:
            raise ValueError(f"tokens must lie in 0 to {self.n_vocab - 1}; got {ids.min()} to {ids.max()}")
        return self.decoder.forward(self.embedding[ids], positions, mask, cache, n_layers)

    def features(self, hidden: Array) -> Array:
        """Hidden vectors after the final norm: what the head reads, and what draft heads are given."""
        return np.asarray(self.decoder.norm(hidden) * self._final_norm)

    def logits_of_features(self, features: Array) -> Array:
        """Logits, (…, n_vocab) ndarray of float32, of vectors after the final norm."""
        rows = features.reshape(-1, features.shape[-1])
        return self._head(rows).astype(np.float32).reshape(*features.shape[:-1], self.n_vocab)

    def logits(self, hidden: Array) -> Array:
        """Logits, (…, n_vocab) ndarray of float32, of hidden vectors."""
        return self.logits_of_features(self.features(hidden))

    def prefill(self, tokens: ArrayLike, cache: KVCache) -> Array:
        """Run a prompt, (n_tokens,), into the cache of one sequence and commit it; hidden vectors (n_tokens, …)."""
        ids = np.asarray(tokens)[None]
        hidden = self.forward(ids, chain_positions(cache, ids.shape[1]), None, cache)
        cache.commit_all()
        return np.asarray(hidden[0])
