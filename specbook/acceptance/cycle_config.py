"""One configuration of the cycle simulator, and how large a simulation may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specbook.acceptance.draft_models import DraftModel
from specbook.checks import check_counts, check_non_negative, check_positive

MAX_DRAFT_LENGTH = 4096
MAX_TOKENS_PER_SEQUENCE = 100_000
# Every program that reads the tables has such numbers whole.
MAX_SEED = 2**53
# Positions judged at once, one draw of 8 bytes each; and in a whole simulation, some seconds of work.
MAX_POSITIONS_PER_ROUND = 2**24
MAX_POSITIONS = 10**9
# Rounds of a sequence are a loop; this many steps take a minute or two.
MAX_STEPS_OF_A_SWEEP = 10**7


@dataclass(frozen=True, kw_only=True)
class CycleConfig:
    """One configuration of the cycle simulator.

    Attributes
    ----------
    draft_model : DraftModel
    draft_length : int
        Tokens drafted in a round (K), 0 to 4096.
    draft_s, verify_s : float
        Time of one forward pass of the draft model and of the target, seconds.
    n_sequences, tokens_per_sequence : int
        Sequences, and tokens that each emits.
    seed : int

    Raises
    ------
    ValueError
        If a number is out of range, or the simulation would judge more than 2**24 positions a round or 10**9 in all.
    BadInput
        If the draft model does not speak for this draft length.

    Examples
    --------
    >>> from specbook.acceptance.draft_models import FixedAcceptance
    >>> config = CycleConfig(draft_model=FixedAcceptance())
    >>> round(config.round_s, 7), round(config.overhead, 4)
    (0.0003, 0.3333)
    """

    draft_model: DraftModel
    draft_length: int = 5
    draft_s: float = 20e-6
    verify_s: float = 200e-6
    n_sequences: int = 500
    tokens_per_sequence: int = 128
    seed: int = 42

    def __post_init__(self) -> None:
        _check_count("draft_length", self.draft_length, 0, MAX_DRAFT_LENGTH)
        check_non_negative("draft_s", self.draft_s)
        check_positive("verify_s", self.verify_s)
        _check_count("n_sequences", self.n_sequences, 1, MAX_POSITIONS_PER_ROUND)
        _check_count("tokens_per_sequence", self.tokens_per_sequence, 1, MAX_TOKENS_PER_SEQUENCE)
        _check_count("seed", self.seed, 0, MAX_SEED)
        width = self.n_sequences * (self.draft_length + 1)
        _check_at_most("n_sequences × (draft_length + 1)", width, MAX_POSITIONS_PER_ROUND)
        positions = width * self.tokens_per_sequence
        _check_at_most("n_sequences × tokens_per_sequence × (draft_length + 1)", positions, MAX_POSITIONS)
        self.draft_model.conditional_acceptance(self.draft_length)

    @property
    def round_s(self) -> float:
        """Time of one round, K drafts and one verify pass, seconds."""
        return self.draft_length * self.draft_s + self.verify_s

    @property
    def cost_ratio(self) -> float:
        """Time of a draft pass ÷ that of a verify pass."""
        return self.draft_s / self.verify_s

    @property
    def overhead(self) -> float:
        """Share of a round's time that goes into drafting, in [0, 1)."""
        return self.draft_length * self.draft_s / self.round_s

    def speedup(self, rounds: float) -> float:
        r"""Time without speculation ÷ time with it, for sequences that take so many rounds on average.

        Notes
        -----
        .. math:: S = \frac{n \, T}{N \, (K \, T_d + T)}
        """
        return self.tokens_per_sequence * self.verify_s / (rounds * self.round_s)


def _check_count(name: str, value: Any, minimum: int, maximum: int) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole:
        raise ValueError(f"{name} must be an int; got {value!r}")
    _check_at_most(name, value, maximum)
    check_counts(name, value, minimum)


def _check_at_most(name: str, value: int, maximum: int) -> None:
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum:,}; got {value:,}")
