"""The best tree for a number of nodes and a depth, and the one that is fastest under given step times.

One dynamic programme gives every pair of sizes at once. A node's children are settled one rank after the other: how
many nodes the first gets (itself and what hangs below it), and how many are left for the siblings that are tried only
if it is rejected. Ranks are filled in order, so that the answer is right where a later rank is accepted more often too.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specbook.acceptance.trees import rank_table
from specbook.checks import Floats, check_counts, check_non_negative, check_positive
from specbook.engine.draft import TreeShape
from specbook.engine.kv_cache import Integers

_IMPOSSIBLE = -np.inf


@dataclass(frozen=True, kw_only=True, eq=False)
class BestTrees:
    """The best trees of every number of nodes and every depth; made by :func:`search_trees`.

    Attributes
    ----------
    rank_acceptance : (max_depth, n_ranks) ndarray of float64
        What was searched with.
    expected_tokens : (max_nodes + 1, max_depth + 1) ndarray of float64
        Entry (n, d) is the most tokens per round that a tree of exactly n nodes and a depth of at most d yields; NaN
        where there is no such tree. Never falls with n or d.
    sizes : (max_depth + 1, n_ranks, max_depth, max_nodes + 1) ndarray of int64
        How many nodes the sibling of a rank gets, by levels left, rank, level, and nodes left for it and later ones.
    """

    rank_acceptance: Floats
    expected_tokens: Floats
    sizes: Integers

    @property
    def max_nodes(self) -> int:
        """Most nodes of a tree."""
        return int(self.expected_tokens.shape[0]) - 1

    @property
    def max_depth(self) -> int:
        """Most tokens on a path."""
        return int(self.expected_tokens.shape[1]) - 1

    def parents(self, n_nodes: int, max_depth: int | None = None) -> tuple[int, ...]:
        """The tree behind an entry of ``expected_tokens``.

        Parameters
        ----------
        n_nodes : int
        max_depth : int, optional
            The deepest that was searched if not given.

        Returns
        -------
        (n_nodes,) tuple of int
            Parent of each node, −1 for children of the last token; level by level, siblings in order of rank.

        Raises
        ------
        ValueError
            If there is no such tree, or it was not searched.

        Examples
        --------
        >>> search_trees([0.6, 0.6], max_nodes=4, max_depth=3).parents(4)
        (-1, -1, 0, 2)
        """
        depth = self.max_depth if max_depth is None else max_depth
        n_nodes, depth = int(check_counts("n_nodes", n_nodes)), int(check_counts("max_depth", depth))
        if n_nodes > self.max_nodes or depth > self.max_depth:
            raise ValueError(
                f"n_nodes and max_depth were searched up to {self.max_nodes} and {self.max_depth}; "
                f"got {n_nodes} and {depth}"
            )
        if np.isnan(self.expected_tokens[n_nodes, depth]):
            n_ranks = self.rank_acceptance.shape[1]
            raise ValueError(f"n_nodes must fit into depth {depth} with {n_ranks} ranks; got {n_nodes}")
        return self._grown(n_nodes, depth)

    def _grown(self, n_nodes: int, depth: int) -> tuple[int, ...]:
        parents: list[int] = []
        waiting = deque([(-1, 0, n_nodes)])  # node, its level, nodes below it
        while waiting:
            node, level, left = waiting.popleft()
            rank = 0
            while left:
                size = int(self.sizes[depth - level, rank, level, left])
                parents.append(node)
                waiting.append((len(parents) - 1, level + 1, size - 1))
                left, rank = left - size, rank + 1
        return tuple(parents)


def search_trees(
    rank_acceptance: ArrayLike, *, max_nodes: int, max_depth: int, repeat_last_depth: bool = False
) -> BestTrees:
    r"""Find the trees that yield most tokens per round, for every number of nodes and every depth.

    Parameters
    ----------
    rank_acceptance : (n_ranks,) or (n_depths, n_ranks) array_like of float
        Acceptance of the r-th sibling once it is tried, alike at every depth or by depth. It may rise with rank.
    max_nodes, max_depth : int
        Largest tree to consider, at least 0 nodes and 0 levels; ``n_ranks`` bounds its width.
    repeat_last_depth : bool
        Whether levels beyond the last row of a matrix are taken to be like it; otherwise they are refused.

    Returns
    -------
    BestTrees

    Raises
    ------
    ValueError
        If an entry is no probability, or a matrix ends before ``max_depth``.

    Notes
    -----
    With :math:`V_{l,h}(m)` the most tokens accepted below an accepted node of level l with m nodes and h levels below
    it, and :math:`G_r(m)` the same once its children of ranks before r were rejected:

    .. math:: G_r(m) = \max_{1 \le k \le m} a_{l+1,r}\,\bigl(1 + V_{l+1,h-1}(k - 1)\bigr) + (1 - a_{l+1,r})\,
        G_{r+1}(m - k), \qquad V_{l,h} = G_0, \quad G_r(0) = 0

    The time is of order :math:`D^2 R N^2` for N nodes, D levels and R ranks.

    References
    ----------
    chen2024sequoia for the idea, here with acceptance by depth; cai2024 for the greedy choice, which is as good where a
    sibling is never the likelier one to be accepted than the one before it.

    Examples
    --------
    >>> trees = search_trees([0.7, 0.3], max_nodes=3, max_depth=3)
    >>> print(trees.expected_tokens.round(3))
    [[1.    1.    1.    1.   ]
     [ nan 1.7   1.7   1.7  ]
     [ nan 1.79  2.19  2.19 ]
     [ nan   nan 2.28  2.533]]
    """
    n_nodes = int(check_counts("max_nodes", max_nodes))
    n_levels = int(check_counts("max_depth", max_depth))
    table = rank_table(rank_acceptance, n_levels, repeat_last_depth=repeat_last_depth)
    sizes = np.zeros((n_levels + 1, table.shape[1], n_levels, n_nodes + 1), np.int64)
    empty = np.full(n_nodes + 1, _IMPOSSIBLE)
    empty[0] = 0.0
    below = np.broadcast_to(empty, (n_levels + 1, n_nodes + 1))  # a row for each level that has `height` levels below
    tokens = [empty]
    for height in range(1, n_levels + 1):
        n_rows = n_levels - height + 1
        below, sizes[height, :, :n_rows] = _children(table[:n_rows], below[1:], empty)
        tokens.append(below[0])
    expected = 1.0 + np.stack(tokens, axis=1)
    return BestTrees(
        rank_acceptance=table, expected_tokens=np.where(np.isneginf(expected), np.nan, expected), sizes=sizes
    )


def _children(table: Floats, below_child: Floats, empty: Floats) -> tuple[Floats, Integers]:
    """Best value below a node by nodes there, (n_levels, n_nodes + 1), and the size of each sibling behind it.

    ``table`` and ``below_child`` have a row for each level of the node: the acceptance of its children, and the value
    below one of them.
    """
    n_levels, n_ranks = table.shape
    n_nodes = empty.size - 1
    total, size = np.arange(n_nodes + 1)[:, None], np.arange(1, n_nodes + 1)
    fits = size <= total  # (n_nodes + 1, n_nodes)
    left = np.where(fits, total - size, 0)
    rest = np.broadcast_to(empty, (n_levels, n_nodes + 1))
    sizes = np.zeros((n_ranks, n_levels, n_nodes + 1), np.int64)
    for rank in reversed(range(n_ranks)):
        tried = table[:, rank, None]
        here = _weighted(tried, 1.0 + below_child[:, :-1])
        later = _weighted(1.0 - tried, rest)
        value = np.where(fits, here[:, None, :] + later[:, left], _IMPOSSIBLE)
        rest = np.broadcast_to(empty, rest.shape).copy()
        if n_nodes:
            best = value.argmax(axis=-1)
            sizes[rank] = np.where(total[:, 0] > 0, best + 1, 0)
            rest[:, 1:] = np.take_along_axis(value, best[..., None], axis=-1)[:, 1:, 0]
    return rest, sizes


def _weighted(weight: Floats, value: Floats) -> Floats:
    """The product, impossible wherever the value is, even with weight 0."""
    impossible = np.isneginf(value)
    return np.where(impossible, _IMPOSSIBLE, weight * np.where(impossible, 0.0, value))


def tree_speedups(trees: BestTrees, verify_s: ArrayLike, draft_pass_s: ArrayLike) -> Floats:
    r"""Speedup of the best tree of every number of nodes and every depth.

    Parameters
    ----------
    trees : BestTrees
    verify_s : (..., max_nodes + 1) array_like of float
        Seconds of a pass of the target over 1 + n positions of each sequence, n = 0, 1, …; entry 0 is decoding without
        drafts. Leading axes are cells of a grid: devices, batches, contexts.
    draft_pass_s : float or (..., 1 or max_depth) array_like of float
        Seconds of a pass of the drafter, by level where the last axis has them. A level is one pass whatever its width;
        a drafter that proposes all levels at once has its seconds in the first and 0 in the others.

    Returns
    -------
    (..., max_nodes + 1, max_depth + 1) ndarray of float64
        Time per token without drafts ÷ with them; NaN where there is no such tree. Entry (0, 0) is 1.

    Raises
    ------
    ValueError
        If a pass of the target takes no time, one of the drafter is negative, or an axis does not fit.

    Notes
    -----
    .. math:: S(n, d) = \frac{E(n, d) \; T(1)}{\sum_{i \le d} t_i + T(1 + n)}

    References
    ----------
    chen2024sequoia, whose objective it is; leviathan2023 for chains.

    Examples
    --------
    >>> trees = search_trees([0.5, 0.5], max_nodes=2, max_depth=2)
    >>> print(tree_speedups(trees, [1.0, 1.0, 1.0], 0.25))
    [[1.   0.8        0.66666667]
     [ nan 1.2        1.        ]
     [ nan 1.4        1.16666667]]
    """
    verify = check_positive("verify_s", verify_s)
    if verify.ndim == 0 or verify.shape[-1] != trees.max_nodes + 1:
        raise ValueError(f"verify_s needs {trees.max_nodes + 1} entries, one a number of nodes; got {verify.shape}")
    level = np.atleast_1d(check_non_negative("draft_pass_s", draft_pass_s))
    if level.shape[-1] not in (1, trees.max_depth):
        raise ValueError(f"draft_pass_s needs 1 or {trees.max_depth} entries, one a level; got {level.shape}")
    level = np.broadcast_to(level, (*level.shape[:-1], trees.max_depth))
    draft = np.concatenate([np.zeros((*level.shape[:-1], 1)), np.cumsum(level, axis=-1)], axis=-1)
    round_s = draft[..., None, :] + verify[..., :, None]
    return np.asarray(trees.expected_tokens * verify[..., :1, None] / round_s)


@dataclass(frozen=True, kw_only=True)
class BestTree:
    """The fastest tree under given step times.

    Attributes
    ----------
    parents : tuple of int
        Empty if drafting does not pay.
    expected_tokens : float
        Tokens per round.
    round_s : float
        Seconds of a round.
    speedup : float
        Time per token without drafts ÷ with this tree; at least 1.
    """

    parents: tuple[int, ...]
    expected_tokens: float
    round_s: float
    speedup: float

    @property
    def n_nodes(self) -> int:
        """Drafted tokens; a verify pass is one wider."""
        return len(self.parents)

    @property
    def depth(self) -> int:
        """Tokens on the longest path, which is the number of draft passes."""
        return TreeShape(parents=self.parents).depth


def best_tree(trees: BestTrees, verify_s: ArrayLike, draft_pass_s: ArrayLike) -> BestTree:
    """The number of nodes, the depth and the tree that decode fastest; drafting nothing is always a candidate.

    Parameters
    ----------
    trees : BestTrees
    verify_s : (max_nodes + 1,) array_like of float
        Seconds of a pass of the target over 1 + n positions of each sequence; entry 0 is decoding without drafts.
    draft_pass_s : float or (1 or max_depth,) array_like of float
        Seconds of a pass of the drafter, by level.

    Returns
    -------
    BestTree
        Of equally fast ones, that of fewest nodes, then of least depth.

    Raises
    ------
    ValueError
        As :func:`tree_speedups`, and if there is more than one cell.

    References
    ----------
    chen2024sequoia; miao2024 for trees of drafts

    Examples
    --------
    >>> trees = search_trees([0.5, 0.5], max_nodes=4, max_depth=3)
    >>> best = best_tree(trees, [1.0, 1.0, 1.0, 1.0, 1.5], 0.1)
    >>> best.parents, round(best.speedup, 3)
    ((-1, -1, 0), 1.667)
    """
    speedup = tree_speedups(trees, verify_s, draft_pass_s)
    if speedup.ndim != 2:
        raise ValueError(f"verify_s and draft_pass_s must be of one cell; got shape {speedup.shape[:-2]}")
    n_nodes, depth = np.unravel_index(int(np.nanargmax(speedup)), speedup.shape)
    tokens, fastest = float(trees.expected_tokens[n_nodes, depth]), float(speedup[n_nodes, depth])
    decode_s = float(np.asarray(verify_s, np.float64)[0])
    return BestTree(
        parents=trees.parents(int(n_nodes), int(depth)),
        expected_tokens=tokens,
        round_s=tokens * decode_s / fastest,
        speedup=fastest,
    )
