"""Draft models: what a drafter's tokens are worth, as acceptance by position.

A draft model answers one question, the conditional acceptance of each position of a draft, and from that vector
:mod:`specbook.acceptance.yields` computes what a round and a sequence yield, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np

from specbook.acceptance.candidates import IDENTITY, Assumption, check_chain, marginal_by_position
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import conditional_from_marginal
from specbook.checks import BadInput, Floats, check_counts, check_non_increasing, check_probability


class DraftModel(Protocol):
    """What every draft model offers: a name, and acceptance by position."""

    name: ClassVar[str]

    def conditional_acceptance(self, draft_length: int) -> Floats:
        """Acceptance of each position given that the one before was accepted, (draft_length,) in [0, 1]."""
        ...


@dataclass(frozen=True, kw_only=True)
class FixedAcceptance:
    r"""Every position is accepted with one probability.

    Attributes
    ----------
    acceptance : float
        Conditional acceptance of every position, in [0, 1].

    Raises
    ------
    ValueError
        If it lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: \alpha_i = \alpha

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> print(FixedAcceptance(acceptance=0.8).conditional_acceptance(3))
    [0.8 0.8 0.8]
    """

    name: ClassVar[str] = "fixed"
    acceptance: float = 0.8

    def __post_init__(self) -> None:
        check_probability("acceptance", self.acceptance)

    def conditional_acceptance(self, draft_length: int) -> Floats:
        """Conditional acceptance, (draft_length,) ndarray of float64 in [0, 1]."""
        return np.full(_whole(draft_length), self.acceptance, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class PositionDecay:
    r"""Each position is accepted less often than the one before, by a constant factor.

    Attributes
    ----------
    base : float
        Conditional acceptance of position 1, in [0, 1].
    factor : float
        Conditional acceptance of a position ÷ that of the one before, in [0, 1].

    Raises
    ------
    ValueError
        If either lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: \alpha_i = b \, f^{\,i - 1}, \qquad i = 1, 2, \dots

    Examples
    --------
    >>> print(PositionDecay(base=0.9, factor=0.95).conditional_acceptance(3))
    [0.9     0.855   0.81225]
    """

    name: ClassVar[str] = "position_decay"
    base: float = 0.9
    factor: float = 0.95

    def __post_init__(self) -> None:
        check_probability("base", self.base)
        check_probability("factor", self.factor)

    def conditional_acceptance(self, draft_length: int) -> Floats:
        """Conditional acceptance, (draft_length,) ndarray of float64 in [0, 1]."""
        return np.asarray(self.base * self.factor ** np.arange(_whole(draft_length)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class EntropyAware:
    r"""Tokens are easy or hard, each by its own throw, and accepted accordingly.

    Hard tokens are those whose next-token distribution has high entropy, where a small model guesses wrong more often.

    Attributes
    ----------
    easy_acceptance, hard_acceptance : float
        Acceptance of an easy and of a hard token, given that every earlier one was accepted; in [0, 1].
    hard_fraction : float
        Probability that a token is hard, in [0, 1].

    Raises
    ------
    ValueError
        If one of them lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: \alpha_i = (1 - h) \, \alpha_\mathrm{easy} + h \, \alpha_\mathrm{hard}

    Difficulty is drawn anew for each token, independently of what came before. Whether a token is accepted then depends
    on nothing but its own throws, so that rounds have exactly the law of :class:`FixedAcceptance` at the mean: this
    model differs from a constant in its parameters only. Hard tokens that come in runs would not average out this way.

    Examples
    --------
    >>> print(EntropyAware().conditional_acceptance(2))
    [0.815 0.815]
    """

    name: ClassVar[str] = "entropy_aware"
    easy_acceptance: float = 0.95
    hard_acceptance: float = 0.5
    hard_fraction: float = 0.3

    def __post_init__(self) -> None:
        for field in ("easy_acceptance", "hard_acceptance", "hard_fraction"):
            check_probability(field, getattr(self, field))

    def conditional_acceptance(self, draft_length: int) -> Floats:
        """Conditional acceptance, (draft_length,) ndarray of float64 in [0, 1]."""
        easy_fraction = 1.0 - self.hard_fraction
        mean = easy_fraction * self.easy_acceptance + self.hard_fraction * self.hard_acceptance
        return np.full(_whole(draft_length), mean, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Empirical:
    """Acceptance as it was measured, at the draft length that it was measured at.

    Attributes
    ----------
    marginal_acceptance : tuple of float
        Probability that positions 1 to i are all accepted, in [0, 1]; never rises.
    draft_length : int or None
        Tokens that rounds drafted; None if it varied.
    assume : "none" or "truncation"
        With ``truncation``, shorter drafts are taken to accept position for position as the measured ones did.
    source : str or None
        Where the figures came from, for tables.

    Raises
    ------
    ValueError
        If the vector leaves [0, 1] or rises, ``draft_length`` is no count, or ``assume`` is unknown.

    References
    ----------
    vllm48892 for the dependence of position 1 on K.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> measured = Empirical.from_profile(library_profile("vllm-48892-mtp-k8"), assume="truncation")
    >>> print(measured.conditional_acceptance(2).round(4))
    [0.7617 0.8085]
    """

    name: ClassVar[str] = "empirical"
    marginal_acceptance: tuple[float, ...]
    draft_length: int | None
    assume: Assumption = "none"
    source: str | None = None

    def __post_init__(self) -> None:
        marginal = check_probability("marginal_acceptance", self.marginal_acceptance)
        check_non_increasing("marginal_acceptance", marginal)
        if self.draft_length is not None:
            check_counts("draft_length", self.draft_length)
        if self.assume not in ("none", "truncation"):
            raise ValueError(f"assume must be none or truncation; got {self.assume}")

    @classmethod
    def from_profile(
        cls, profile: AcceptanceProfile, *, assume: Assumption = "none", source: str | None = None
    ) -> Self:
        """Draft model of a measured chain.

        Parameters
        ----------
        profile : AcceptanceProfile
        assume : "none" or "truncation"
        source : str, optional
            Name for tables; by default the labels of the profile.

        Raises
        ------
        BadInput
            If the profile is of a tree, never accepted a token, or holds no acceptance by position.
        """
        check_chain(profile)
        marginal = marginal_by_position(profile)
        if not marginal:
            raise BadInput(
                "a cycle needs acceptance by position, which this profile does not hold",
                field="evidence",
                value=profile.evidence,
                remedy="bring a source with positions",
            )
        labels = [str(getattr(profile, label)) for label in IDENTITY if getattr(profile, label) is not None]
        return cls(
            marginal_acceptance=tuple(marginal),
            draft_length=profile.draft_length,
            assume=assume,
            source=source or ", ".join(labels),
        )

    def conditional_acceptance(self, draft_length: int) -> Floats:
        """Conditional acceptance, (draft_length,) ndarray of float64 in [0, 1].

        Where no round got as far, the entry is 0; nothing depends on it.

        Raises
        ------
        BadInput
            If nothing was measured at this draft length and nothing is assumed, or positions are missing.
        """
        wanted, n_positions = _whole(draft_length), len(self.marginal_acceptance)
        if wanted and self.assume == "none" and wanted != self.draft_length:
            raise BadInput(self._measured_at(), field="draft_length", value=wanted, remedy=self._remedy())
        if wanted > n_positions:
            remedy = f"draft at most {n_positions} tokens"
            raise BadInput(
                f"the profile holds {n_positions} positions", field="draft_length", value=wanted, remedy=remedy
            )
        return np.nan_to_num(conditional_from_marginal(self.marginal_acceptance[:wanted]))

    def _measured_at(self) -> str:
        if not self.draft_length:
            return "the source does not say how many tokens each round drafted, or they varied"
        return f"the profile was measured at K = {self.draft_length}, and position 1 itself changes with K"

    def _remedy(self) -> str:
        measured = f"draft {self.draft_length} tokens, or " if self.draft_length else ""
        return f"{measured}pass --assume truncation to take the positions as they are"


def _whole(draft_length: int) -> int:
    return int(check_counts("draft_length", draft_length))


# Parameters of every draft model, in the order of tables.
_PARAMETERS = (
    "acceptance",
    "base",
    "factor",
    "easy_acceptance",
    "hard_acceptance",
    "hard_fraction",
    "source",
    "assume",
)


def draft_model_parameters(draft_model: DraftModel) -> dict[str, float | str | None]:
    """Name and parameters of a draft model, null where it has no such parameter, so that tables concatenate.

    Examples
    --------
    >>> {name: value for name, value in draft_model_parameters(PositionDecay()).items() if value is not None}
    {'draft_model': 'position_decay', 'base': 0.9, 'factor': 0.95}
    """
    return {"draft_model": draft_model.name} | {name: getattr(draft_model, name, None) for name in _PARAMETERS}
