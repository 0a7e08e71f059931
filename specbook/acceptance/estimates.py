"""What a table of rounds says: totals, and acceptance by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specbook.checks import Floats

Table = Mapping[int, Sequence[int]]


def weighted(row: Sequence[int]) -> int:
    """Accepted tokens of rounds counted by accepted tokens.

    Examples
    --------
    >>> weighted([1, 1, 2])
    5
    """
    return sum(accepted * count for accepted, count in enumerate(row))


def totals(rounds_by_drafted: Table) -> tuple[int, int, int]:
    """Rounds, drafted tokens and accepted tokens of a table.

    Examples
    --------
    >>> totals({2: [1, 1, 2]})
    (4, 8, 5)
    """
    n_rounds = sum(map(sum, rounds_by_drafted.values()))
    n_drafted = sum(drafted * sum(row) for drafted, row in rounds_by_drafted.items())
    return n_rounds, n_drafted, sum(map(weighted, rounds_by_drafted.values()))


def by_accepted(rounds_by_drafted: Table) -> list[int]:
    """Rounds by accepted tokens, whatever was drafted.

    Examples
    --------
    >>> by_accepted({1: [1, 1], 2: [0, 1, 2]})
    [1, 2, 2]
    """
    width = max(map(len, rounds_by_drafted.values()), default=0)
    return [sum(row[j] for row in rounds_by_drafted.values() if j < len(row)) for j in range(width)]


def acceptance_from_counts(rounds_by_drafted: Table) -> tuple[Floats, Floats]:
    """Marginal and conditional acceptance from the table of rounds.

    Position ``i`` is judged only in rounds that drafted it and accepted the positions before, so that rounds with
    shorter drafts do not count as rejections; where drafts vary, the marginal is the product of the conditionals
    (the product-limit estimator). That is unbiased if the length of a draft does not depend on how likely it is to be
    accepted, which drafters that stop by confidence violate. Where every round drafted alike, both are plain shares.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        Drafted tokens → number of rounds by accepted tokens.

    Returns
    -------
    marginal, conditional : (n_positions,) ndarray of float64
        Up to the first position that could not be judged; conditional is NaN where no round reached a position
        because the position before was never accepted.

    References
    ----------
    kaplan1958

    Examples
    --------
    >>> marginal, conditional = acceptance_from_counts({1: [0, 5], 2: [2, 1, 2]})
    >>> print(marginal, conditional.round(4))
    [0.8        0.53333333] [0.8    0.6667]
    """
    used = {drafted: row for drafted, row in rounds_by_drafted.items() if sum(row)}
    reached, survived = risk_table(used)
    judged = (reached > 0) | (np.concatenate([[1], survived[:-1]])[: survived.size] == 0)
    n_positions = int(np.argmin(judged)) if not judged.all() else judged.size
    reached, survived = reached[:n_positions], survived[:n_positions]
    marginal, conditional = product_limit(reached, survived)
    if len(used) == 1 and n_positions:  # plain shares, without the rounding of a product
        return survived / reached[0], conditional
    return marginal, conditional


def risk_table(used: Table) -> tuple[Floats, Floats]:
    """Rounds that reached each position, and those that accepted it.

    Parameters
    ----------
    used : mapping of int to sequence of int
        Drafted tokens → number of rounds by accepted tokens; every row holds rounds.

    Returns
    -------
    reached, survived : (longest,) ndarray of float64

    Examples
    --------
    >>> risk_table({1: [0, 5], 2: [2, 1, 2]})
    (array([10.,  3.]), array([8., 2.]))
    """
    longest = max(used, default=0)
    reached, survived = np.zeros(longest), np.zeros(longest)
    for drafted, row in used.items():
        at_least = np.cumsum(np.asarray(row, dtype=np.float64)[::-1])[::-1]  # rounds accepting i or more
        reached[:drafted] += at_least[:drafted]
        survived[:drafted] += at_least[1 : drafted + 1]
    return reached, survived


def product_limit(reached: Floats, survived: Floats) -> tuple[Floats, Floats]:
    """Marginal and conditional acceptance from rounds that reached and that accepted each position.

    Parameters
    ----------
    reached, survived : (..., n_positions) ndarray of float64
        Rounds that drafted position i after accepting those before it, and those of them that accepted it.

    Returns
    -------
    marginal, conditional : (..., n_positions) ndarray of float64
        Conditional is NaN where no round reached a position; marginal is then 0 if the position before was never
        accepted.

    References
    ----------
    kaplan1958

    Examples
    --------
    >>> product_limit(np.array([10.0, 8.0]), np.array([8.0, 4.0]))
    (array([0.8, 0.4]), array([0.8, 0.5]))
    """
    conditional = np.divide(survived, reached, out=np.full_like(survived, np.nan), where=reached > 0)
    return np.cumprod(np.nan_to_num(conditional), axis=-1), conditional
