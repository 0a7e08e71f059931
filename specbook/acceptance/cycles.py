"""The cycle simulator: sequences decoded in draft-verify rounds, beside what the algebra says of them exactly.

A round costs its drafts and one verify pass; the baseline costs one verify pass a token. Nothing else takes time here:
a verify pass of K + 1 tokens costs what a pass of one token costs, which holds while decoding is bound by memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.draft_models import draft_model_parameters
from specbook.acceptance.yields import expected_rounds, expected_tokens_per_round
from specbook.checks import Floats
from specbook.progress import Progress, silent

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class CyclesResult:
    """Outcome of :func:`simulate_cycles`.

    Attributes
    ----------
    config : CycleConfig
    rounds, drafted_tokens, accepted_tokens, kept_tokens : (n_sequences,) ndarray of int64
        Of each sequence: rounds, tokens drafted, drafts that verification accepted, and those of them that were
        emitted, since the last round is cut at the end of the sequence.
    expected_tokens : float
        Exact mean of the tokens that a whole round yields, the bonus token included.
    expected_rounds : float
        Exact mean of ``rounds``, the cut of the last round included.
    """

    config: CycleConfig
    rounds: Counts
    drafted_tokens: Counts
    accepted_tokens: Counts
    kept_tokens: Counts
    expected_tokens: float
    expected_rounds: float

    @property
    def mean_rounds(self) -> float:
        """Rounds of a sequence, averaged."""
        return float(self.rounds.mean())

    @property
    def mean_rounds_interval(self) -> tuple[float, float]:
        """95 % interval of the mean number of rounds; NaN for one sequence, or if no two differed but might have.

        Student's t over sequences, which are independent and alike, cut at the fewest and the most rounds that a
        sequence can take. It covers less than 95 % where almost every sequence takes the same number of rounds.
        """
        spread = float(self.rounds.std(ddof=1)) if self.rounds.size > 1 else 0.0
        if self.rounds.size == 1 or (spread == 0.0 and self.rounds[0] != self.expected_rounds):
            return float("nan"), float("nan")
        most = self.config.tokens_per_sequence
        fewest = -(-most // (self.config.draft_length + 1))
        quantile = float(stdtrit(self.rounds.size - 1, 0.975))
        margin = quantile * spread / float(np.sqrt(self.rounds.size))
        return max(fewest, self.mean_rounds - margin), min(most, self.mean_rounds + margin)

    @property
    def speedup(self) -> float:
        """Time of all sequences without speculation ÷ their time with it."""
        return self.config.speedup(self.mean_rounds)

    @property
    def speedup_interval(self) -> tuple[float, float]:
        """95 % interval of the speedup: that of the mean number of rounds, on which alone it depends."""
        low, high = self.mean_rounds_interval
        return self.config.speedup(high), self.config.speedup(low)

    @property
    def expected_speedup(self) -> float:
        """Exact speedup of sequences of this length: baseline time ÷ mean time."""
        return self.config.speedup(self.expected_rounds)

    @property
    def untruncated_speedup(self) -> float:
        """Exact speedup of endless sequences, where no last round is cut."""
        return self.config.speedup(self.config.tokens_per_sequence / self.expected_tokens)

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens that a whole round yields, bonus token included, before the last one is cut."""
        return 1.0 + float(self.accepted_tokens.sum() / self.rounds.sum())

    @property
    def emitted_tokens_per_round(self) -> float:
        """Tokens that a round adds to its sequence, the last one cut."""
        return self.config.tokens_per_sequence / self.mean_rounds

    @property
    def draft_acceptance_rate(self) -> float:
        """Accepted ÷ drafted tokens; NaN where nothing is drafted."""
        drafted = int(self.drafted_tokens.sum())
        return int(self.accepted_tokens.sum()) / drafted if drafted else float("nan")

    @property
    def expected_draft_acceptance_rate(self) -> float:
        """Exact mean of accepted over exact mean of drafted tokens; NaN where nothing is drafted."""
        length = self.config.draft_length
        return (self.expected_tokens - 1.0) / length if length else float("nan")

    @property
    def waste(self) -> float:
        """Rejected ÷ drafted tokens; NaN where nothing is drafted."""
        drafted = int(self.drafted_tokens.sum())
        return (drafted - int(self.accepted_tokens.sum())) / drafted if drafted else float("nan")

    def row(self) -> dict[str, Any]:
        """Every parameter, simulated figure and exact figure by name; null where there is none."""
        figures = self._simulated() | self._exact()
        known = {name: None if np.isnan(value) else value for name, value in figures.items()}
        return _parameters(self.config) | known

    @property
    def frame(self) -> pl.DataFrame:
        """:meth:`row` as a frame of one row, so that frames of many configurations concatenate."""
        return cycles_frame([self.row()])

    def _simulated(self) -> dict[str, float]:
        speedup_low, speedup_high = self.speedup_interval
        rounds_low, rounds_high = self.mean_rounds_interval
        return {
            "speedup": self.speedup,
            "speedup_low": speedup_low,
            "speedup_high": speedup_high,
            "mean_rounds": self.mean_rounds,
            "mean_rounds_low": rounds_low,
            "mean_rounds_high": rounds_high,
            "mean_acceptance_length": self.mean_acceptance_length,
            "emitted_tokens_per_round": self.emitted_tokens_per_round,
            "draft_acceptance_rate": self.draft_acceptance_rate,
            "waste": self.waste,
            "overhead": self.config.overhead,
        }

    def _exact(self) -> dict[str, float]:
        return {
            "expected_speedup": self.expected_speedup,
            "untruncated_speedup": self.untruncated_speedup,
            "expected_rounds": self.expected_rounds,
            "expected_tokens": self.expected_tokens,
            "expected_draft_acceptance_rate": self.expected_draft_acceptance_rate,
            "expected_waste": 1.0 - self.expected_draft_acceptance_rate,
        }


def _parameters(config: CycleConfig) -> dict[str, Any]:
    return draft_model_parameters(config.draft_model) | {
        "draft_length": config.draft_length,
        "draft_s": config.draft_s,
        "verify_s": config.verify_s,
        "cost_ratio": config.cost_ratio,
        "n_sequences": config.n_sequences,
        "tokens_per_sequence": config.tokens_per_sequence,
        "seed": config.seed,
    }


_WHOLE = ("draft_length", "n_sequences", "tokens_per_sequence", "seed")
_WORDS = ("draft_model", "source", "assume", "varies")


def cycles_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of :meth:`CyclesResult.row` as a frame, of the same types whether a column holds figures or not.

    Examples
    --------
    >>> from specbook.acceptance.draft_models import FixedAcceptance
    >>> rows = [simulate_cycles(CycleConfig(draft_model=FixedAcceptance(), draft_length=k)).row() for k in (0, 4)]
    >>> cycles_frame(rows)["waste"].null_count()
    1
    """
    kinds = dict.fromkeys(_WHOLE, pl.Int64()) | dict.fromkeys(_WORDS, pl.String())
    return pl.DataFrame(rows, schema={name: kinds.get(name, pl.Float64()) for name in rows[0]})


def simulate_cycles(config: CycleConfig, progress: Progress = silent) -> CyclesResult:
    """Decode every sequence in rounds of drafting, verifying and one more token.

    Parameters
    ----------
    config : CycleConfig
    progress : callable
        Receives the number of tokens emitted since the last call.

    Returns
    -------
    CyclesResult

    Notes
    -----
    Drafts are judged in order, each against its conditional acceptance, until one is rejected. All sequences advance by
    one round at a time, and stop when they have emitted their tokens; what the last round yields beyond is thrown away.

    References
    ----------
    leviathan2023 for the law of one round; :func:`~specbook.acceptance.yields.expected_rounds` for the exact means.

    Examples
    --------
    >>> from specbook.acceptance.draft_models import FixedAcceptance
    >>> result = simulate_cycles(CycleConfig(draft_model=FixedAcceptance(acceptance=1.0), draft_length=4))
    >>> result.rounds[0], round(result.speedup, 4)
    (np.int64(26), 3.5165)
    """
    conditional = config.draft_model.conditional_acceptance(config.draft_length)
    rounds, accepted, kept = _decode(config, conditional, progress)
    return CyclesResult(
        config=config,
        rounds=rounds,
        drafted_tokens=rounds * config.draft_length,
        accepted_tokens=accepted,
        kept_tokens=kept,
        expected_tokens=float(expected_tokens_per_round(conditional)),
        expected_rounds=_expected_rounds(tuple(conditional.tolist()), config.tokens_per_sequence),
    )


@lru_cache(maxsize=1024)
def _expected_rounds(conditional: tuple[float, ...], n_tokens: int) -> float:
    """Kept, because a sweep asks for the same law at every draft cost."""
    return float(expected_rounds(np.asarray(conditional), n_tokens))


def _decode(config: CycleConfig, conditional: Floats, progress: Progress) -> tuple[Counts, Counts, Counts]:
    """Rounds, accepted and kept draft tokens of each sequence."""
    rng = np.random.default_rng(config.seed)
    rounds, accepted, kept = (np.zeros(config.n_sequences, dtype=np.int64) for _ in range(3))
    left = np.full(config.n_sequences, config.tokens_per_sequence)
    active = np.arange(config.n_sequences)
    while active.size:
        verified = _accepted(conditional, active.size, rng)
        emitted = np.minimum(verified + 1, left[active])
        rounds[active] += 1
        accepted[active] += verified
        kept[active] += np.minimum(verified, emitted)
        left[active] -= emitted
        progress(int(emitted.sum()))
        active = active[left[active] > 0]
    return rounds, accepted, kept


def _accepted(conditional: Floats, n_rounds: int, rng: np.random.Generator) -> Counts:
    """Accepted drafts of each round: the position of the first rejection; the bonus position always ends a round."""
    ends = np.ones((n_rounds, conditional.size + 1), dtype=np.bool_)
    ends[:, :-1] = rng.random((n_rounds, conditional.size)) >= conditional
    return np.asarray(ends.argmax(axis=1), dtype=np.int64)
