"""Luck that was recorded: rounds that a real engine ran, given to the simulator in place of drawn ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from specbook.checks import Floats, check_counts
from specbook.serving.chances import Chances
from specbook.serving.round_law import RoundLaw


def recorded_luck(law: RoundLaw, drafted: ArrayLike, accepted: ArrayLike) -> Floats:
    """Numbers with which a law gives back the rounds that were recorded.

    Parameters
    ----------
    law : RoundLaw
        In which each of them is possible, as :func:`~specbook.serving.round_law.counted_law` of them is.
    drafted, accepted : (n_rounds,) array_like of int
        Tokens of each round.

    Returns
    -------
    (n_rounds,) ndarray of float64 in [0, 1)
        The middle of each outcome's share.

    Raises
    ------
    ValueError
        If the law does not know a round.

    Examples
    --------
    >>> from specbook.serving.round_law import counted_law
    >>> law = counted_law({1: [1, 2], 3: [0, 0, 0, 1]})
    >>> drafted, accepted = law.outcomes(recorded_luck(law, [3, 1, 1], [3, 0, 1]))
    >>> print(drafted, accepted)
    [3 1 1] [3 0 1]
    """
    ends = np.cumsum(law.probability)
    middles = ends - np.asarray(law.probability) / 2.0
    possible = zip(law.drafted, law.accepted, law.probability, middles.tolist(), strict=True)
    middle_of = {(drafts, kept): middle for drafts, kept, probability, middle in possible if probability}
    rounds = list(
        zip(check_counts("drafted", drafted).tolist(), check_counts("accepted", accepted).tolist(), strict=True)
    )
    for drafts, kept in rounds:
        if (drafts, kept) not in middle_of:
            raise ValueError(f"the law knows no round that drafts {drafts} tokens and accepts {kept}")
    return np.array([middle_of[each] for each in rounds], dtype=np.float64)


class RecordedChances(Chances):
    """The numbers of each request as they were recorded; :class:`Chances` that leave nothing to chance.

    Parameters
    ----------
    luck : sequence of (n_rounds,) array_like of float
        For each request, the numbers of its rounds, of :func:`recorded_luck`.

    Examples
    --------
    >>> RecordedChances([[0.1, 0.9]]).of(0, 1, 3)
    array([0.9, 0. , 0. ])
    """

    def __init__(self, luck: Sequence[ArrayLike]) -> None:
        self._luck = [np.asarray(each, dtype=np.float64) for each in luck]

    def of(self, request_id: int, first_round: int, n_rounds: int) -> Floats:
        """Numbers of rounds of a request, as in :class:`Chances`; 0 beyond its record.

        The simulator asks for as many rounds as there are tokens to come, and uses those up to the last token.
        """
        numbers = np.zeros(n_rounds)
        kept = self._luck[request_id][first_round : first_round + n_rounds]
        numbers[: kept.size] = kept
        return numbers
