"""The key-value cache: preallocated, with an explicit length, and rows that are pending until they are committed.

A forward pass writes its rows behind what is there and leaves them pending. Then :meth:`KVCache.commit` keeps some of
them (an accepted prefix, or the accepted path of a tree, which moves into consecutive slots), and what is not kept
is gone: later rows overwrite it. :meth:`KVCache.rollback` gives committed tokens back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.checks import check_counts
from specbook.engine.transformer_spec import TransformerSpec

Integers = NDArray[np.int64]


class KVCache:
    """Keys and values of several sequences of different lengths.

    Parameters
    ----------
    spec : TransformerSpec
    capacity : int
        Largest number of tokens of one sequence, pending rows included.
    n_sequences : int
        Sequences side by side.
    dtype : dtype
        Of the arithmetic.

    Attributes
    ----------
    keys : (n_layers, n_sequences, n_kv_heads, head_size, capacity) ndarray
        Columns, so that scores are a plain product: with rows it took eight times as long at 2,048 tokens.
    values : (n_layers, n_sequences, n_kv_heads, capacity, head_size) ndarray
    lengths : (n_sequences,) ndarray of int64
        Committed tokens.
    n_pending : (n_sequences,) ndarray of int64
        Rows written behind them and not yet committed.

    Examples
    --------
    >>> from specbook.engine.library import load_draft
    >>> cache = load_draft().new_cache(capacity=8)
    >>> slots = cache.reserve(np.array([3]))
    >>> cache.commit([[0, 1]])
    >>> cache.lengths.tolist(), cache.n_pending.tolist()
    ([2], [0])
    """

    def __init__(self, spec: TransformerSpec, capacity: int, n_sequences: int = 1, dtype: Any = np.float32) -> None:
        self.capacity = int(check_counts("capacity", capacity, minimum=1))
        self.n_sequences = int(check_counts("n_sequences", n_sequences, minimum=1))
        heads = (spec.n_layers, self.n_sequences, spec.n_kv_heads)
        self.keys = np.zeros((*heads, spec.head_size, self.capacity), dtype)
        self.values = np.zeros((*heads, self.capacity, spec.head_size), dtype)
        self.lengths: Integers = np.zeros(self.n_sequences, np.int64)
        self.n_pending: Integers = np.zeros(self.n_sequences, np.int64)

    @property
    def n_bytes(self) -> int:
        """Bytes of keys and values, used or not."""
        return self.keys.nbytes + self.values.nbytes

    def reserve(self, n_rows: Integers) -> Integers:
        """First slot of each sequence for ``n_rows`` further pending rows.

        Raises
        ------
        ValueError
            If a sequence has no room; nothing is changed then.
        """
        first = self.lengths + self.n_pending
        over = first + n_rows > self.capacity
        if over.any():
            sequence = int(np.argmax(over))
            used, wanted = int(first[sequence]), int(n_rows[sequence])
            raise ValueError(f"cache of {self.capacity} tokens holds {used} and has no room for {wanted} more")
        self.n_pending = self.n_pending + n_rows
        return first

    def commit(self, kept: Sequence[ArrayLike]) -> None:
        """Keep these pending rows of each sequence, in this order, and drop the others.

        Parameters
        ----------
        kept : one increasing sequence of int for each sequence
            Indices among the pending rows, such as the accepted path of a tree.

        Raises
        ------
        ValueError
            If an index is no pending row, or they do not rise.
        """
        if len(kept) != self.n_sequences:
            raise ValueError(f"kept must hold {self.n_sequences} lists of rows; got {len(kept)}")
        rows = [np.asarray(indices, dtype=np.int64).reshape(-1) for indices in kept]
        for sequence, indices in enumerate(rows):
            self._check_rows(sequence, indices)
        for sequence, indices in enumerate(rows):
            self._move(sequence, indices)
        self.lengths = self.lengths + np.array([len(indices) for indices in rows], np.int64)
        self.n_pending = np.zeros_like(self.n_pending)

    def _check_rows(self, sequence: int, indices: Integers) -> None:
        pending = int(self.n_pending[sequence])
        rises = bool((np.diff(indices) > 0).all())
        if len(indices) and (indices[0] < 0 or indices[-1] >= pending or not rises):
            raise ValueError(f"kept rows must rise within the {pending} pending ones; got {indices.tolist()}")

    def _move(self, sequence: int, indices: Integers) -> None:
        """Bring rows into consecutive slots behind the committed ones."""
        if np.array_equal(indices, np.arange(len(indices))):
            return
        start = int(self.lengths[sequence])
        target = slice(start, start + len(indices))
        keys, values = self.keys[:, sequence], self.values[:, sequence]
        keys[..., target] = keys[..., start + indices]
        values[:, :, target] = values[:, :, start + indices]

    def commit_all(self) -> None:
        """Keep all pending rows."""
        self.lengths = self.lengths + self.n_pending
        self.n_pending = np.zeros_like(self.n_pending)

    def drop_pending(self) -> None:
        """Forget all pending rows."""
        self.n_pending = np.zeros_like(self.n_pending)

    def rollback(self, lengths: ArrayLike) -> None:
        """Shorten sequences to these lengths, in tokens, and forget what is pending.

        Raises
        ------
        ValueError
            If a length is negative or above the committed one.
        """
        wanted = np.broadcast_to(check_counts("lengths", lengths), (self.n_sequences,))
        if (wanted > self.lengths).any():
            raise ValueError(f"lengths must not exceed the committed {self.lengths.tolist()}; got {wanted.tolist()}")
        self.lengths = wanted.copy()
        self.drop_pending()

    def committed(self, sequence: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """Copies of committed keys (n_layers, n_kv_heads, head_size, length) and values (…, length, head_size)."""
        length = int(self.lengths[sequence])
        return self.keys[:, sequence, ..., :length].copy(), self.values[:, sequence, :, :length].copy()
