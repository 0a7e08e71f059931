"""Acceptance in the shapes that engines ask for, from the tokens per round that a projection holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbook.acceptance.yields import conditional_from_marginal
from specbook.serving.profile_laws import constant_acceptance

_TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True)
class AcceptanceRates:
    """Acceptance at one draft length K.

    Attributes
    ----------
    draft_length : int
        K, at least 1.
    expected_tokens : float
        Tokens per round, the bonus token included, in [1, K + 1].
    marginal_acceptance : tuple of float or None
        Probability that positions 1 to i are all accepted; None where only the mean is known.
    """

    draft_length: int
    expected_tokens: float
    marginal_acceptance: tuple[float, ...] | None

    @property
    def conditional_acceptance(self) -> tuple[float, ...]:
        """Acceptance of each position given the one before it; the same at all of them where only the mean is known.

        Examples
        --------
        >>> AcceptanceRates(draft_length=2, expected_tokens=2.2, marginal_acceptance=(0.8, 0.4)).conditional_acceptance
        (0.8, 0.5)
        >>> AcceptanceRates(draft_length=2, expected_tokens=1.75, marginal_acceptance=None).conditional_acceptance
        (0.5, 0.5)
        """
        if self.marginal_acceptance is None:
            tokens = min(self.expected_tokens, self.draft_length + 1.0)  # sums may exceed it in the last digit
            return (round(constant_acceptance(tokens, self.draft_length), 6),) * self.draft_length
        values = conditional_from_marginal(np.asarray(self.marginal_acceptance))
        return tuple(round(float(value), 6) for value in np.nan_to_num(values))


def acceptance_rates(
    draft_length: int,
    tokens_by_length: Mapping[int, float],
    assumptions: Mapping[int, str],
    measured: Sequence[float] | None = None,
) -> AcceptanceRates:
    r"""Acceptance at one draft length, by position where the evidence or the shorter lengths say so.

    Parameters
    ----------
    draft_length : int
    tokens_by_length : mapping of int to float
        Tokens per round by draft length.
    assumptions : mapping of int to str
        How each is known. Lengths that were measured by themselves say nothing of the positions of others.
    measured : sequence of float or None
        Marginal acceptance as it was measured at this length. It is taken if it gives the tokens of the projection
        within a hundredth.

    Notes
    -----
    Where all lengths up to this one are truncations of one profile, or this one is that profile's own,
    :math:`m_i = E_i - E_{i-1}`.

    Examples
    --------
    >>> known = {1: "truncation of a profile at K = 2", 2: "measured"}
    >>> acceptance_rates(2, {0: 1.0, 1: 1.75, 2: 2.25}, known).marginal_acceptance
    (0.75, 0.5)
    >>> acceptance_rates(2, {0: 1.0, 1: 1.75, 2: 2.25}, known | {1: "measured"}).marginal_acceptance is None
    True
    >>> acceptance_rates(2, {0: 1.0, 2: 2.25}, {2: "measured"}, measured=[0.75, 0.5]).marginal_acceptance
    (0.75, 0.5)
    """
    marginal = _as_projected(measured, tokens_by_length[draft_length])
    if marginal is None:
        marginal = _from_truncations(draft_length, tokens_by_length, assumptions)
    return AcceptanceRates(
        draft_length=draft_length,
        expected_tokens=tokens_by_length[draft_length],
        marginal_acceptance=marginal,
    )


def _as_projected(measured: Sequence[float] | None, expected_tokens: float) -> tuple[float, ...] | None:
    if measured is None or abs(1.0 + sum(measured) - expected_tokens) > _TOLERANCE * expected_tokens:
        return None
    return tuple(round(float(value), 6) for value in measured)


def _from_truncations(
    draft_length: int, tokens_by_length: Mapping[int, float], assumptions: Mapping[int, str]
) -> tuple[float, ...] | None:
    if not _is_one_profile(draft_length, assumptions):
        return None
    tokens = np.array([1.0, *(tokens_by_length[length] for length in range(1, draft_length + 1))])
    steps = np.diff(tokens).round(6) + 0.0
    is_marginal = bool(np.all((steps >= 0.0) & (steps <= 1.0)) and np.all(np.diff(steps) <= 0.0))
    return tuple(steps.tolist()) if is_marginal else None


def _is_one_profile(draft_length: int, assumptions: Mapping[int, str]) -> bool:
    """Whether all shorter lengths are truncations of the profile that this one is of."""
    shorter = {assumptions.get(length, "") for length in range(1, draft_length)}
    if not shorter:
        return True
    origin = shorter.pop()
    is_of_it = assumptions.get(draft_length) == origin or origin.endswith(f" at K = {draft_length}")
    return not shorter and origin.startswith("truncation of ") and is_of_it
