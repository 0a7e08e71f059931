"""Attention over the cache: row by row where bits must not depend on company, in one block where time matters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.layout import Mask

Array = NDArray[Any]

_HIDDEN = -1e30


def softmax_in_place(scores: Array) -> Array:
    """Soft-max over the last axis, in the memory of its argument."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def attend_by_row(queries: Array, keys: Array, values: Array, length: int, mask: Mask) -> Array:
    """Attention of each row by itself, over exactly the tokens that it sees.

    A row of a tree gathers its own path, so that it does the same arithmetic as the last row of that path in a chain:
    the results are equal bit for bit, which a sum over a longer, masked row would not be.

    Parameters
    ----------
    queries : (n_rows, n_heads, head_size) ndarray
        Already scaled by 1 / sqrt(head_size).
    keys : (n_kv_heads, head_size, capacity) ndarray
    values : (n_kv_heads, capacity, head_size) ndarray
        One layer and sequence of the cache, the new rows included.
    length : int
        Committed tokens, which every row sees.
    mask : (n_rows, n_pending) ndarray of bool
        Which rows behind them each row sees.

    Returns
    -------
    (n_rows, n_heads * head_size) ndarray
    """
    n_rows, n_heads, head_size = queries.shape
    n_kv_heads = keys.shape[0]
    mixed = np.empty((n_rows, n_heads * head_size), queries.dtype)
    for row in range(n_rows):
        seen = np.flatnonzero(mask[row])
        stop = length + len(seen)
        if len(seen) == 0 or seen[-1] == len(seen) - 1:
            row_keys, row_values = keys[..., :stop], values[:, :stop]
        else:
            slots = np.concatenate([np.arange(length), length + seen])
            row_keys, row_values = _gathered(keys, slots), values[:, slots]
        query = queries[row].reshape(n_kv_heads, -1, head_size)  # (n_kv_heads, group, head_size)
        scores = softmax_in_place(np.matmul(query, row_keys))
        mixed[row] = np.matmul(scores, row_values).reshape(-1)
    return mixed


def _gathered(keys: Array, slots: Array) -> Array:
    """Columns of the cache side by side, with the cache's strides: BLAS treats other strides as another product."""
    columns = np.empty_like(keys)[..., : len(slots)]
    columns[...] = keys[..., slots]
    return columns


def attend_as_block(queries: Array, keys: Array, values: Array, length: int, mask: Mask) -> Array:
    """Attention of all rows at once, with what a row does not see pushed out of the soft-max.

    Parameters and result as in :func:`attend_by_row`; the last bits depend on the number of rows.
    """
    n_rows, n_heads, head_size = queries.shape
    n_kv_heads, stop = keys.shape[0], length + mask.shape[1]
    by_head = queries.reshape(n_rows, n_kv_heads, -1, head_size).transpose(1, 2, 0, 3)  # (n_kv_heads, group, n_rows, _)
    blocks = by_head.reshape(n_kv_heads, -1, head_size)
    scores = np.matmul(blocks, keys[..., :stop])  # (n_kv_heads, group * n_rows, stop)
    if not mask.all():
        scores.reshape(n_kv_heads, -1, n_rows, stop)[..., length:][..., ~mask] = _HIDDEN
    mixed = np.matmul(softmax_in_place(scores), values[:, :stop])
    by_row = mixed.reshape(n_kv_heads, -1, n_rows, head_size).transpose(2, 0, 1, 3)
    return np.asarray(by_row.reshape(n_rows, n_heads * head_size))
