"""The law of a round: how many tokens it drafts, and how many of them the target accepts.

Serving engines draw both anew for each request and round, so a simulator has to as well: a mean acceptance length gives
the right throughput at best, and no tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.acceptance.yields import tokens_distribution
from specbook.checks import Floats, check_counts, check_probability

Integers = NDArray[np.int64]
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundLaw:
    """What a round may drafts and accept, and with which probability.

    Attributes
    ----------
    draft_length : int
        Draft passes: K of a chain, the depth of a tree.
    n_nodes : int
        Tokens that a round may draft at most, and for which cache slots are reserved: K, or the nodes of a tree.
    drafted, accepted : tuple of int
        Outcomes, accepted ascending.
    probability : tuple of float
        Of each outcome; they sum to 1.

    Raises
    ------
    ValueError
        If they do not sum to 1, more is accepted than drafted or than there are passes, or more drafted than nodes.

    Examples
    --------
    >>> law = chain_law([0.8, 0.5])
    >>> law.expected_tokens, law.positions
    (2.2, 3)
    >>> drafted, accepted = law.outcomes(np.array([0.1, 0.3, 0.9]))
    >>> print(drafted, accepted)
    [2 2 2] [0 1 2]
    """

    draft_length: int
    n_nodes: int
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    probability: tuple[float, ...]

    def __post_init__(self) -> None:
        drafted, accepted = check_counts("drafted", self.drafted), check_counts("accepted", self.accepted)
        probability = check_probability("probability", self.probability)
        if not drafted.shape == accepted.shape == probability.shape:
            raise ValueError(f"outcomes differ in number: {drafted.size}, {accepted.size} and {probability.size}")
        if abs(probability.sum() - 1.0) > _SUM_TOLERANCE:
            raise ValueError(f"probability must sum to 1; got {probability.sum()}")
        if np.any(np.diff(accepted) < 0) or np.any(accepted > drafted) or np.any(drafted > self.n_nodes):
            raise ValueError("accepted must rise, with accepted ≤ drafted ≤ n_nodes in every outcome")
        if not accepted.max() <= self.draft_length <= self.n_nodes:
            raise ValueError(f"draft_length must lie between what is accepted and n_nodes; got {self.draft_length}")

    @property
    def positions(self) -> int:
        """Positions of the verify pass that are reserved before anything is known: the drafts and the bonus token."""
        return self.n_nodes + 1

    @cached_property
    def is_fixed(self) -> bool:
        """Whether every round drafts alike; otherwise a cut decides."""
        return len(set(self.drafted)) == 1

    @cached_property
    def expected_tokens(self) -> float:
        """Tokens of a round in the mean, the bonus token included."""
        return 1.0 + float(np.dot(self.accepted, self.probability))

    @cached_property
    def _ends(self) -> Floats:
        return np.cumsum(self.probability)[:-1]

    @cached_property
    def _columns(self) -> tuple[Integers, Integers]:
        return np.asarray(self.drafted, dtype=np.int64), np.asarray(self.accepted, dtype=np.int64)

    def outcomes(self, uniform: Floats) -> tuple[Integers, Integers]:
        """Drafted and accepted tokens of rounds.

        A larger number accepts at least as much, at every draft length: two laws that share their positions' acceptance
        differ in a round only where the longer draft goes on.

        Parameters
        ----------
        uniform : (n,) ndarray of float64 in [0, 1)

        Returns
        -------
        drafted, accepted : (n,) ndarray of int64
        """
        index = np.searchsorted(self._ends, uniform, side="right")
        drafted, accepted = self._columns
        return drafted[index], accepted[index]


def no_draft() -> RoundLaw:
    """No speculation: a round is one token.

    Examples
    --------
    >>> no_draft().expected_tokens
    1.0
    """
    return RoundLaw(draft_length=0, n_nodes=0, drafted=(0,), accepted=(0,), probability=(1.0,))


def chain_law(conditional_acceptance: ArrayLike) -> RoundLaw:
    """The law of a chain of K drafts.

    Parameters
    ----------
    conditional_acceptance : (K,) array_like
        Acceptance of each position, given that the one before was accepted.

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> chain_law([0.5]).probability
    (0.5, 0.5)
    """
    conditional = check_probability("conditional_acceptance", conditional_acceptance)
    length = conditional.size
    if not length:
        return no_draft()
    return RoundLaw(
        draft_length=length,
        n_nodes=length,
        drafted=(length,) * (length + 1),
        accepted=tuple(range(length + 1)),
        probability=tuple(tokens_distribution(conditional).tolist()),
    )


def tree_law(depth_distribution: ArrayLike, n_nodes: int) -> RoundLaw:
    """The law of a tree that is verified in one pass.

    Parameters
    ----------
    depth_distribution : (depth + 1,) array_like
        Probability that exactly 0, 1, … drafted tokens are accepted, as
        :func:`~specbook.acceptance.trees.accepted_depth_distribution` gives it.
    n_nodes : int
        Drafted tokens.

    References
    ----------
    miao2024

    Examples
    --------
    >>> tree_law([0.2, 0.3, 0.5], 4).expected_tokens
    2.3
    """
    probability = check_probability("depth_distribution", depth_distribution)
    return RoundLaw(
        draft_length=probability.size - 1,
        n_nodes=n_nodes,
        drafted=(n_nodes,) * probability.size,
        accepted=tuple(range(probability.size)),
        probability=tuple(probability.tolist()),
    )


def counted_law(rounds_by_drafted: Mapping[int, Sequence[int]]) -> RoundLaw:
    """The law of rounds that were counted, by drafted and accepted tokens; drafts may have been cut.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        Drafted tokens → rounds that accepted 0, 1, … of them.

    Raises
    ------
    ValueError
        If there is no round.

    Examples
    --------
    >>> law = counted_law({0: [2], 2: [2, 4, 2]})
    >>> law.is_fixed, law.expected_tokens
    (False, 1.8)
    """
    rows = sorted(
        (accepted, int(drafted), count)
        for drafted, counts in rounds_by_drafted.items()
        for accepted, count in enumerate(counts)
        if count
    )
    total = sum(count for *_, count in rows)
    if not total:
        raise ValueError("rounds_by_drafted must hold at least one round")
    longest = max(drafted for _, drafted, _ in rows)
    return RoundLaw(
        draft_length=longest,
        n_nodes=longest,
        drafted=tuple(drafted for _, drafted, _ in rows),
        accepted=tuple(accepted for accepted, *_ in rows),
        probability=tuple(count / total for *_, count in rows),
    )
