"""Trees that a profile can speak for: the one it was measured with, and the best ones that its ranks allow.

A profile holds rank acceptance pooled over depths. Another tree than the measured one is therefore an assumption, which
every candidate names: that a rank is accepted alike at every depth, on every path, and whatever its siblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import ArrayLike

from specbook.acceptance.candidates import MEASURED
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.tree_search import search_trees
from specbook.acceptance.trees import expected_tree_tokens
from specbook.checks import BadInput, Floats, check_counts, check_probability
from specbook.engine.draft import TreeShape

# A drafter that leaves more of its tree empty than this does not draft the tree that was asked for.
_MOSTLY = 0.95


@dataclass(frozen=True, kw_only=True)
class TreeCandidate:
    """A tree that may be chosen, and what a round with it yields.

    Attributes
    ----------
    parents : tuple of int
        Parent of each node, −1 for children of the last token; siblings in order of rank.
    expected_tokens : float
        Tokens per round, in [1, depth + 1].
    assumption : str
        ``measured``, or what was assumed to get the figure.
    token_interval : (float, float) or None
        Lower and upper end for ``expected_tokens``; None where the evidence has none.

    Raises
    ------
    ValueError
        If a parent is no earlier node, the tokens lie outside [1, depth + 1], or their interval falls.

    Examples
    --------
    >>> tree = TreeCandidate(parents=(-1, -1, 0), expected_tokens=2.0, assumption="measured")
    >>> tree.n_nodes, tree.depth, tree.verify_width
    (3, 2, 4)
    """

    parents: tuple[int, ...]
    expected_tokens: float
    assumption: str
    token_interval: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not 1.0 <= self.expected_tokens <= self.depth + 1.0 + 1e-9:
            raise ValueError(f"expected_tokens must lie in [1, {self.depth + 1}]; got {self.expected_tokens}")
        if self.token_interval is not None and not self.token_interval[0] <= self.token_interval[1]:
            raise ValueError(f"token_interval must rise; got {self.token_interval}")

    @property
    def n_nodes(self) -> int:
        """Drafted tokens."""
        return len(self.parents)

    @property
    def depth(self) -> int:
        """Tokens on the longest path, which is the number of draft passes of a drafter that goes level by level."""
        return TreeShape(parents=self.parents).depth

    @property
    def verify_width(self) -> int:
        """Positions of a verify pass: the nodes and the last token."""
        return 1 + self.n_nodes


def profile_rank_acceptance(profile: AcceptanceProfile) -> Floats:
    """Rank acceptance of a profile, up to the first rank that was never tried.

    Parameters
    ----------
    profile : AcceptanceProfile

    Returns
    -------
    (n_ranks,) ndarray of float64

    Raises
    ------
    BadInput
        If the profile holds none.

    Examples
    --------
    >>> from specbook.acceptance.profile import TreeYield
    >>> tree = TreeYield(depth_acceptance=[0.8], rank_acceptance=[0.6, 0.5, None])
    >>> profile_rank_acceptance(AcceptanceProfile(evidence="rank", tree=tree))
    array([0.6, 0.5])
    """
    ranks = [] if profile.tree is None else profile.tree.rank_acceptance or []
    known = list(takewhile(lambda value: value is not None, ranks))
    if not known:
        raise BadInput(
            "this profile does not say how often each sibling of a tree is accepted",
            field="tree.rank_acceptance",
            value=None if profile.tree is None else profile.tree.rank_acceptance,
            remedy="measure one with a tree: specbook profile measure --tree 3,2,1",
        )
    return np.asarray(known, dtype=np.float64)


def tree_candidates(
    profile: AcceptanceProfile,
    *,
    n_nodes: Sequence[int] = (8, 16, 32, 64),
    max_depth: int | None = None,
    rank_interval: ArrayLike | None = None,
) -> list[TreeCandidate]:
    """The best tree for each number of nodes, from the rank acceptance of a profile.

    Parameters
    ----------
    profile : AcceptanceProfile
        Of a tree drafter that fills its tree, with ``tree.rank_acceptance``.
    n_nodes : sequence of int
        Node budgets. One that does not fit into the depth with the ranks that were tried gives the largest tree that
        does; no tree stands twice.
    max_depth : int, optional
        Deepest tree; as deep as the profile's accepted paths if not given. A greater depth is allowed, and named in
        the assumption.
    rank_interval : (n_ranks, 2) array_like of float, optional
        Lower and upper end of each rank. The interval of the tokens then has every rank at its lower and at its upper
        end at once, which is wider than a joint interval would be.

    Returns
    -------
    list of TreeCandidate
        In order of nodes.

    Raises
    ------
    BadInput
        If the profile holds no rank acceptance, or no depth and none is given, or its rounds did not fill their tree.
    ValueError
        If a number is out of range, or ``rank_interval`` does not fit.

    References
    ----------
    chen2024sequoia; miao2024 for trees of drafts

    Examples
    --------
    >>> from specbook.acceptance.profile import TreeYield
    >>> tree = TreeYield(depth_acceptance=[0.8, 0.6, 0.5], rank_acceptance=[0.6, 0.5])
    >>> profile = AcceptanceProfile(evidence="rank", tree=tree)
    >>> for found in tree_candidates(profile, n_nodes=[2, 4], max_depth=3):
    ...     print(found.n_nodes, found.depth, round(found.expected_tokens, 3), found.parents)
    2 2 1.96 (-1, 0)
    4 3 2.376 (-1, -1, 0, 2)
    """
    ranks = profile_rank_acceptance(profile)
    _check_filled(profile)
    known = len(profile.tree.depth_acceptance) if profile.tree is not None else 0
    depth = _depth(known, max_depth)
    ends = None if rank_interval is None else _ends(rank_interval, ranks)
    trees = search_trees(ranks, max_nodes=int(check_counts("n_nodes", n_nodes, minimum=1).max()), max_depth=depth)
    largest = int(np.flatnonzero(~np.isnan(trees.expected_tokens[:, depth])).max())
    assumption = _assumption(profile, depth, known)
    found = []
    for size in sorted({min(int(budget), largest) for budget in n_nodes}):
        parents, tokens = trees.parents(size), float(trees.expected_tokens[size, depth])
        interval = None if ends is None else _token_interval(parents, tokens, ends)
        found.append(
            TreeCandidate(parents=parents, expected_tokens=tokens, assumption=assumption, token_interval=interval)
        )
    return found


def measured_tree(profile: AcceptanceProfile) -> TreeCandidate:
    """The tree that a profile was measured with: the only one that needs no assumption.

    Parameters
    ----------
    profile : AcceptanceProfile
        Of a tree, by the native engine, without a cut.

    Raises
    ------
    BadInput
        If it does not say which tree, or its rounds did not fill it.

    Examples
    --------
    >>> measured_tree(AcceptanceProfile(evidence="mean_length", mean_acceptance_length=2.0))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: measurement.parents: this profile does not say which tree was drafted; measure one ...
    """
    length, measurement = profile.mean_acceptance_length, profile.measurement
    if profile.tree is None or measurement is None or length is None or measurement.cut is not None:
        raise BadInput(
            "this profile does not say which tree was drafted",
            field="measurement.parents",
            remedy="measure one with a tree and without a cut: specbook profile measure --tree 3,2,1",
        )
    _check_filled(profile)
    interval = None if profile.intervals is None else profile.intervals.mean_acceptance_length
    return TreeCandidate(
        parents=tuple(measurement.parents), expected_tokens=length, assumption=MEASURED, token_interval=interval
    )


def _check_filled(profile: AcceptanceProfile) -> None:
    """Refuse trees of which rounds left nodes empty: a formula that counts every node promises too much of them."""
    drafted, rounds, asked = profile.n_drafted_tokens, profile.n_rounds, _asked_nodes(profile)
    if drafted is None or not rounds or not asked or drafted >= _MOSTLY * asked * rounds:
        return
    raise BadInput(
        f"rounds drafted {drafted / rounds:.1f} of {asked} nodes on average",
        field="n_drafted_tokens",
        value=drafted,
        remedy="use a drafter that fills its tree: small, eagle, medusa or early_exit, without a cut",
    )


def _asked_nodes(profile: AcceptanceProfile) -> int | None:
    if profile.measurement is not None:
        return len(profile.measurement.parents)
    return None if profile.tree is None else profile.tree.n_nodes


def _depth(known: int, max_depth: int | None) -> int:
    if max_depth is not None:
        return int(check_counts("max_depth", max_depth, minimum=1))
    if not known:
        raise BadInput(
            "this profile does not say how deep its tree was",
            field="tree.depth_acceptance",
            value=[],
            remedy="pass max_depth",
        )
    return known


def _assumption(profile: AcceptanceProfile, depth: int, known: int) -> str:
    asked = _asked_nodes(profile)
    source = f"a tree of {asked} nodes" if asked else "another tree"
    beyond = f", beyond the depth of {known} that was seen" if depth > known else ""
    return f"rank acceptance of {source}, alike at every depth{beyond}"


def _ends(rank_interval: ArrayLike, ranks: Floats) -> Floats:
    """Lower and upper ends, (2, n_ranks)."""
    ends = check_probability("rank_interval", rank_interval)
    if ends.shape != (ranks.size, 2):
        raise ValueError(f"rank_interval needs lower and upper end of {ranks.size} ranks; got shape {ends.shape}")
    if np.any(ends[:, 0] > ranks) or np.any(ends[:, 1] < ranks):
        raise ValueError(f"rank_interval must hold the rank acceptance {ranks.tolist()}; got {ends.tolist()}")
    return ends.T


def _token_interval(parents: tuple[int, ...], tokens: float, ends: Floats) -> tuple[float, float]:
    values = [tokens, *(expected_tree_tokens(parents, end) for end in ends)]
    return min(values), max(values)
