"""Where a prediction was off: the mean seconds per token in terms, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbook.checks import Floats
from specbook.witness.execution import JobRun
from specbook.witness.period_table import PeriodTable, period_table
from specbook.witness.replay import ProbeRounds
from specbook.witness.result import Term
from specbook.witness.trace import Integers


@dataclass(frozen=True, kw_only=True)
class RoundCost:
    """Rounds per token, and the mean seconds of one.

    Attributes
    ----------
    rounds_per_token : float
        Rounds after a request's first, by its tokens after the first, as TPOT has them.
    verify_s, draft_s, overhead_s : float
        Of a round: the target's pass, drafting, and all else.
    """

    rounds_per_token: float
    verify_s: float
    draft_s: float
    overhead_s: float

    @property
    def round_s(self) -> float:
        """The whole round."""
        return self.verify_s + self.draft_s + self.overhead_s


def terms_of(predicted: RoundCost, measured: RoundCost) -> tuple[Term, ...]:
    r"""Terms whose differences add up to that of the mean seconds per token.

    Parameters
    ----------
    predicted, measured : RoundCost

    Notes
    -----
    With r rounds per token and a round of T = v + d + o, predicted p and measured m,

    .. math:: r_p T_p - r_m T_m = r_m (v_p - v_m) + r_m (d_p - d_m) + r_m (o_p - o_m) + (r_p - r_m) T_p

    so that the first three are compared at the rounds that were run, and acceptance at the predicted time of a round.

    Examples
    --------
    >>> measured = RoundCost(rounds_per_token=0.5, verify_s=0.02, draft_s=0.004, overhead_s=0.001)
    >>> terms = terms_of(RoundCost(rounds_per_token=0.4, verify_s=0.02, draft_s=0.004, overhead_s=0.001), measured)
    >>> [(term.name, round(term.difference_s, 6)) for term in terms]
    [('verify', 0.0), ('draft', 0.0), ('acceptance', -0.0025), ('overhead', 0.0)]
    """
    at_run, at_round_s = measured.rounds_per_token, predicted.round_s
    return (
        Term(name="verify", predicted_s=at_run * predicted.verify_s, measured_s=at_run * measured.verify_s),
        Term(name="draft", predicted_s=at_run * predicted.draft_s, measured_s=at_run * measured.draft_s),
        Term(
            name="acceptance",
            predicted_s=predicted.rounds_per_token * at_round_s,
            measured_s=at_run * at_round_s,
        ),
        Term(name="overhead", predicted_s=at_run * predicted.overhead_s, measured_s=at_run * measured.overhead_s),
    )


def largest_term(terms: Sequence[Term]) -> Term:
    """The term that was off most."""
    return max(terms, key=lambda term: abs(term.difference_s))


def blame_text(terms: Sequence[Term]) -> str:
    """Which term was off most, in milliseconds per token.

    Examples
    --------
    >>> blame_text([Term(name="verify", predicted_s=0.005, measured_s=0.0061)])
    'most of it in verify: predicted 5.00 ms per token, took 6.10'
    """
    term = largest_term(terms)
    predicted, measured = f"{1e3 * term.predicted_s:.2f}", f"{1e3 * term.measured_s:.2f}"
    return f"most of it in {term.name}: predicted {predicted} ms per token, took {measured}"


def measured_cost(runs: Sequence[JobRun]) -> RoundCost:
    """What rounds of requests took, but for each request's first.

    Parameters
    ----------
    runs : sequence of JobRun
        With at least one round after a first one.
    """
    records = [record for run in runs for record in run.records[1:]]
    n_rounds = len(records)
    total_s = sum(float(run.periods_s[1:].sum()) for run in runs)
    verify_s, draft_s = sum(record.verify_s for record in records), sum(record.draft_s for record in records)
    return RoundCost(
        rounds_per_token=n_rounds / sum(len(run.tokens) - 1 for run in runs),
        verify_s=verify_s / n_rounds,
        draft_s=draft_s / n_rounds,
        overhead_s=(total_s - verify_s - draft_s) / n_rounds,
    )


def replayed_cost(runs: Sequence[JobRun], probes: ProbeRounds, table: PeriodTable) -> RoundCost:
    """What the same rounds take by the means of probe rounds.

    Parameters
    ----------
    runs : sequence of JobRun
    probes : ProbeRounds
    table : PeriodTable
        Of the probes' periods.
    """
    positions = np.array([record.drafted + 1 for run in runs for record in run.records[1:]])
    verify_s, draft_s = (_mean(probes.positions, part_s, positions) for part_s in (probes.verify_s, probes.draft_s))
    round_s = float(table.at(positions).mean())
    n_tokens = sum(len(run.tokens) - 1 for run in runs)
    return RoundCost(
        rounds_per_token=positions.size / n_tokens,
        verify_s=verify_s,
        draft_s=draft_s,
        overhead_s=round_s - verify_s - draft_s,
    )


def _mean(probed: Integers, part_s: Floats, positions: Integers) -> float:
    return float(period_table(probed, part_s).at(positions).mean())
