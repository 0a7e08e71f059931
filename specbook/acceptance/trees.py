"""What a tree of drafts yields, from how often the r-th sibling is accepted.

Siblings are tried in order of rank: the second only where the first was rejected. ``rank_acceptance`` is the
probability that a sibling is accepted *once it is tried*, a vector (n_ranks,) that holds at every depth, or a matrix
(n_depths, n_ranks). It is taken to be the same on every path that leads there, which is an assumption: behind a token
that the drafter thought unlikely, it tends to be less sure of itself. Nothing is said of ranks that were never tried.

Verifying a tree is a pass of 1 + n_nodes positions; drafting it level by level takes as many passes as it is deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from specbook.checks import Floats, check_counts, check_draft_axis, check_non_negative, check_probability
from specbook.engine.kv_cache import Integers
from specbook.engine.layout import depths

RankAssumption = Literal["first_rank_only", "every_rank_alike"]


def sibling_ranks(parents: Sequence[int]) -> Integers:
    """Rank of each node among the children of its parent, 0 for the one that is tried first.

    Parameters
    ----------
    parents : (n_nodes,) sequence of int
        Parent of each node, −1 for children of the last token; siblings in order of rank.

    Returns
    -------
    (n_nodes,) ndarray of int64

    Examples
    --------
    >>> sibling_ranks([-1, -1, 0, 0, -1]).tolist()
    [0, 1, 0, 1, 2]
    """
    seen: dict[int, int] = {}
    ranks = np.zeros(len(parents), np.int64)
    for node, parent in enumerate(parents):
        ranks[node] = seen.get(parent, 0)
        seen[parent] = int(ranks[node]) + 1
    return ranks


def rank_table(rank_acceptance: ArrayLike, n_depths: int, *, repeat_last_depth: bool = False) -> Floats:
    """Rank acceptance as one row for each depth.

    Parameters
    ----------
    rank_acceptance : (n_ranks,) or (n_known_depths, n_ranks) array_like of float
        A vector holds at every depth; row d of a matrix is that of depth d + 1.
    n_depths : int
        Rows to return.
    repeat_last_depth : bool
        Whether depths beyond the last row of a matrix are taken to be like it; otherwise they are refused.

    Returns
    -------
    (n_depths, n_ranks) ndarray of float64

    Raises
    ------
    ValueError
        If an entry is no probability, there is no rank, or a matrix ends before the tree does.

    Examples
    --------
    >>> rank_table([0.7, 0.3], 2).tolist()
    [[0.7, 0.3], [0.7, 0.3]]
    """
    table = check_probability("rank_acceptance", rank_acceptance)
    if table.ndim not in (1, 2) or 0 in table.shape:
        raise ValueError(f"rank_acceptance must be (n_ranks,) or (n_depths, n_ranks); got shape {table.shape}")
    n_depths = int(check_counts("n_depths", n_depths))
    if table.ndim == 1:
        return np.broadcast_to(table, (n_depths, table.size))
    if n_depths > len(table) and not repeat_last_depth:
        raise ValueError(f"rank_acceptance ends at depth {len(table)}; got a tree of depth {n_depths}")
    return np.asarray(table[np.minimum(np.arange(n_depths), len(table) - 1)])


def sibling_acceptance(rank_acceptance: ArrayLike) -> Floats:
    r"""Probability that the sibling of each rank is the one that is accepted, where their parent was.

    Parameters
    ----------
    rank_acceptance : (..., n_ranks) array_like of float
        Acceptance once tried, in [0, 1].

    Returns
    -------
    (..., n_ranks) ndarray of float64
        Sums to at most 1 along the last axis; the rest is the probability that every sibling is rejected.

    Raises
    ------
    ValueError
        If the input has no rank axis, or an entry lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: \pi_r = a_r \prod_{s < r} (1 - a_s)

    References
    ----------
    miao2024, chen2024sequoia

    Examples
    --------
    >>> print(sibling_acceptance([0.5, 0.5, 1.0]))
    [0.5  0.25 0.25]
    """
    tried = check_draft_axis("rank_acceptance", check_probability("rank_acceptance", rank_acceptance))
    rejected = np.cumprod(1.0 - tried, axis=-1)
    before = np.concatenate([np.ones_like(tried[..., :1]), rejected[..., :-1]], axis=-1)[..., : tried.shape[-1]]
    return np.asarray(tried * before)


def node_acceptance(parents: Sequence[int], rank_acceptance: ArrayLike, *, repeat_last_depth: bool = False) -> Floats:
    r"""Probability that each node of a tree is accepted.

    Parameters
    ----------
    parents : (n_nodes,) sequence of int
        Parent of each node, −1 for children of the last token; parents first, siblings in order of rank.
    rank_acceptance : (n_ranks,) or (n_depths, n_ranks) array_like of float
        Acceptance of the r-th sibling once it is tried.
    repeat_last_depth : bool
        As in :func:`rank_table`.

    Returns
    -------
    (n_nodes,) ndarray of float64
        Those of one depth exclude each other; a child's never exceeds its parent's.

    Raises
    ------
    ValueError
        If a parent is no earlier node, or a node has a rank or a depth of which ``rank_acceptance`` says nothing.

    Notes
    -----
    .. math:: P(v) = \prod_{u \text{ on the path to } v} a_{d(u),\, r(u)} \prod_{s < r(u)} (1 - a_{d(u),\, s})

    References
    ----------
    miao2024, chen2024sequoia

    Examples
    --------
    >>> print(node_acceptance([-1, -1, 0, 1], [0.6, 0.5]))
    [0.6  0.2  0.36 0.12]
    """
    levels = depths(parents) - 1
    ranks = sibling_ranks(parents)
    table = rank_table(rank_acceptance, int(levels.max(initial=-1)) + 1, repeat_last_depth=repeat_last_depth)
    if ranks.max(initial=-1) >= table.shape[1]:
        raise ValueError(f"rank_acceptance knows {table.shape[1]} ranks; got a tree with {int(ranks.max()) + 1}")
    accepted = sibling_acceptance(table)[levels, ranks]
    for node, parent in enumerate(parents):
        if parent >= 0:
            accepted[node] *= accepted[parent]
    return accepted


def expected_tree_tokens(
    parents: Sequence[int], rank_acceptance: ArrayLike, *, repeat_last_depth: bool = False
) -> float:
    r"""Mean number of tokens that a round with this tree yields, the target's own token included.

    Parameters
    ----------
    parents, rank_acceptance, repeat_last_depth
        As in :func:`node_acceptance`.

    Returns
    -------
    float
        In [1, depth + 1].

    Notes
    -----
    .. math:: E = 1 + \sum_v P(v)

    With one child a node this is the yield of a chain.

    References
    ----------
    chen2024sequoia, miao2024

    Examples
    --------
    >>> round(expected_tree_tokens([-1, -1, 0, 1], [0.6, 0.5]), 12)
    2.28
    """
    return 1.0 + float(node_acceptance(parents, rank_acceptance, repeat_last_depth=repeat_last_depth).sum())


def depth_acceptance(parents: Sequence[int], rank_acceptance: ArrayLike, *, repeat_last_depth: bool = False) -> Floats:
    """Probability that the accepted path reaches each depth: the tree's yield, depth by depth.

    Parameters
    ----------
    parents, rank_acceptance, repeat_last_depth
        As in :func:`node_acceptance`.

    Returns
    -------
    (depth,) ndarray of float64
        A marginal acceptance, in [0, 1] and never rising; what an acceptance profile of a tree calls
        ``tree.depth_acceptance``.

    References
    ----------
    chen2024sequoia, miao2024

    Examples
    --------
    >>> print(depth_acceptance([-1, -1, 0, 1], [0.6, 0.5]))
    [0.8  0.48]
    """
    accepted = node_acceptance(parents, rank_acceptance, repeat_last_depth=repeat_last_depth)
    return np.minimum(np.bincount(depths(parents), weights=accepted)[1:], 1.0)


def accepted_depth_distribution(
    parents: Sequence[int], rank_acceptance: ArrayLike, *, repeat_last_depth: bool = False
) -> Floats:
    """Probability that a round accepts exactly 0, 1, …, depth drafted tokens.

    Parameters
    ----------
    parents, rank_acceptance, repeat_last_depth
        As in :func:`node_acceptance`.

    Returns
    -------
    (depth + 1,) ndarray of float64
        Sums to 1; its mean is the expected tokens less one.

    References
    ----------
    chen2024sequoia, miao2024

    Examples
    --------
    >>> print(accepted_depth_distribution([-1, -1, 0, 1], [0.6, 0.5]).round(12))
    [0.2  0.32 0.48]
    """
    reached = depth_acceptance(parents, rank_acceptance, repeat_last_depth=repeat_last_depth)
    return np.asarray(np.concatenate([[1.0], reached]) - np.concatenate([reached, [0.0]]))


def assumed_rank_acceptance(conditional_acceptance: ArrayLike, n_ranks: int, assumption: RankAssumption) -> Floats:
    """Rank acceptance from that of a chain, which holds nothing of second siblings: an assumption has to be named.

    Parameters
    ----------
    conditional_acceptance : (n_depths,) array_like of float
        Acceptance of position i of a chain given that every earlier one was accepted.
    n_ranks : int
        Ranks to fill, at least 1.
    assumption : "first_rank_only" or "every_rank_alike"
        Later siblings are never accepted: no tree can then beat the chain, so this bounds it from below. Or each is
        accepted as often as the first, as if the drafter's next guesses were as good as its best one: far too much, and
        useful as a bound from above where acceptance falls with rank.

    Returns
    -------
    (n_depths, n_ranks) ndarray of float64

    Raises
    ------
    ValueError
        If the acceptance is no vector of probabilities, ``n_ranks`` is below 1, or the assumption is unknown.

    Examples
    --------
    >>> assumed_rank_acceptance([0.8, 0.6], 2, "first_rank_only").tolist()
    [[0.8, 0.0], [0.6, 0.0]]
    """
    first = check_draft_axis(
        "conditional_acceptance", check_probability("conditional_acceptance", conditional_acceptance)
    )
    if first.ndim != 1:
        raise ValueError(f"conditional_acceptance must be a vector; got shape {first.shape}")
    n_ranks = int(check_counts("n_ranks", n_ranks, minimum=1))
    if assumption == "every_rank_alike":
        return np.repeat(first[:, None], n_ranks, axis=1)
    if assumption == "first_rank_only":
        return np.pad(first[:, None], ((0, 0), (0, n_ranks - 1)))
    raise ValueError(f"assumption must be first_rank_only or every_rank_alike; got {assumption!r}")


def power_law_rank_acceptance(first_acceptance: float, exponent: float, n_ranks: int) -> Floats:
    r"""Rank acceptance where the chance that k siblings are all rejected falls as a power of k.

    Parameters
    ----------
    first_acceptance : float
        Acceptance of the first sibling, in [0, 1].
    exponent : float
        b ≥ 0; 0 says that later siblings are never accepted.
    n_ranks : int
        Ranks to fill, at least 1.

    Returns
    -------
    (n_ranks,) ndarray of float64

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    .. math:: \prod_{r < k} (1 - a_r) = (1 - a_0)\, k^{-b}, \qquad a_r = 1 - \left(\frac{r}{r + 1}\right)^b

    A model for sketches, not evidence: measured ranks need not follow it.

    References
    ----------
    chen2024sequoia, whose scaling argument bounds the rejections by a power law; miao2024 for trying siblings in turn.

    Examples
    --------
    >>> print(power_law_rank_acceptance(0.6, 1.0, 3).round(4))
    [0.6    0.5    0.3333]
    """
    first = check_probability("first_acceptance", first_acceptance)
    exponent = float(check_non_negative("exponent", exponent))
    rank = np.arange(1, int(check_counts("n_ranks", n_ranks, minimum=1)))
    return np.concatenate([[float(first)], 1.0 - (rank / (rank + 1.0)) ** exponent])
