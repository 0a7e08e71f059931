"""Where rows stand: positions and visibility of a chain, of a tree, and of sequences side by side.

A mask is boolean, (n_sequences, n_rows, n_pending + n_rows): whether a new row sees each row that is pending, old ones
first. Committed tokens are always seen. A row that does not see itself is padding and is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specbook.engine.kv_cache import Integers, KVCache

Mask = NDArray[np.bool_]


def chain_positions(cache: KVCache, n_rows: int) -> Integers:
    """Positions of rows that follow one another behind everything in the cache, (n_sequences, n_rows)."""
    return (cache.lengths + cache.n_pending)[:, None] + np.arange(n_rows)


def causal_mask(n_pending: int, n_rows: int) -> Mask:
    """Each row sees all pending rows and those before it, and itself; (n_rows, n_pending + n_rows).

    Examples
    --------
    >>> causal_mask(1, 2).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    return np.tri(n_rows, n_pending + n_rows, n_pending, dtype=np.bool_)


def check_parents(parents: Sequence[int]) -> None:
    """Raise unless every parent is −1 (the root) or an earlier node.

    Raises
    ------
    ValueError
        With the node and its parent.
    """
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"parents must be -1 or an earlier node; node {node} has {parent}")


def ancestry(parents: Sequence[int]) -> Mask:
    """Which nodes each node sees: its ancestors and itself, (n_nodes, n_nodes); never a cousin.

    Parameters
    ----------
    parents : sequence of int
        Parent of each node; −1 for children of the root, which is not among the nodes.

    Examples
    --------
    >>> ancestry([-1, 0, 0]).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    """
    check_parents(parents)
    sees = np.eye(len(parents), dtype=np.bool_)
    for node, parent in enumerate(parents):
        if parent >= 0:
            sees[node] |= sees[parent]
    return sees


def depths(parents: Sequence[int]) -> Integers:
    """Depth of each node; children of the root have 1.

    Examples
    --------
    >>> depths([-1, 0, 0, 1]).tolist()
    [1, 2, 2, 3]
    """
    return np.asarray(ancestry(parents).sum(axis=1), np.int64)


def rooted(parents: Sequence[int]) -> list[int]:
    """The same tree with the root as node 0, as a verify pass lays it out: root first, then the nodes.

    Examples
    --------
    >>> rooted([-1, 0, 0])
    [-1, 0, 1, 1]
    """
    return [-1, *(parent + 1 for parent in parents)]


def tree_rows(length: int, parents: Sequence[int]) -> tuple[Integers, Mask]:
    """Positions and mask of the root and its nodes behind ``length`` committed tokens of one sequence.

    Returns
    -------
    positions : (1, 1 + n_nodes) ndarray of int64
    mask : (1, 1 + n_nodes, 1 + n_nodes) ndarray of bool

    Examples
    --------
    >>> positions, mask = tree_rows(10, [-1, -1, 0])
    >>> positions.tolist(), mask[0].astype(int).tolist()
    ([[10, 11, 11, 12]], [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]])
    """
    sees = ancestry(rooted(parents))
    return (length + sees.sum(axis=1) - 1)[None].astype(np.int64), sees[None]


def ragged_rows(cache: KVCache, widths: Sequence[int]) -> tuple[Integers, Mask]:
    """Positions and mask of consecutive rows of different number for each sequence, padded to the longest.

    Parameters
    ----------
    cache : KVCache
        Without pending rows.
    widths : (n_sequences,) sequence of int
        Rows of each sequence; 0 leaves it alone.

    Examples
    --------
    >>> from specbook.engine.library import load_draft
    >>> positions, mask = ragged_rows(load_draft().new_cache(capacity=8, n_sequences=2), [2, 1])
    >>> mask.diagonal(axis1=1, axis2=2).astype(int).tolist()
    [[1, 1], [1, 0]]
    """
    n_rows = max(widths)
    real = np.arange(n_rows) < np.asarray(widths)[:, None]  # (n_sequences, n_rows)
    mask = causal_mask(0, n_rows)[None] & real[:, :, None]
    return chain_positions(cache, n_rows), mask
