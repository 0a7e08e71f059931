"""The replay: a run's own acceptance through the simulator, with step times of probe rounds amid the run.

Nothing of the measured times of the run goes in, so that what is compared is the composition: rounds that take the mean
time of rounds, one after the other, give a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbook.checks import Floats
from specbook.witness.execution import JobRun
from specbook.witness.jobs import COLD_ROUNDS
from specbook.witness.period_table import PeriodTable, period_table
from specbook.witness.statistics import (
    N_REPLICATES,
    P90,
    interval_of,
    p90_of,
    p90_with,
    percentile_90,
    resamples,
)
from specbook.witness.trace import Integers, Trace, simulated_tpot_s


@dataclass(frozen=True, kw_only=True)
class ProbeRounds:
    """Warm rounds of the probe jobs of a configuration.

    Attributes
    ----------
    job : (n_rounds,) ndarray of int64
        Number of the probe job.
    positions : (n_rounds,) ndarray of int64
        Drafted tokens and the bonus token.
    period_s, draft_s, verify_s : (n_rounds,) ndarray of float64
    """

    job: Integers
    positions: Integers
    period_s: Floats
    draft_s: Floats
    verify_s: Floats

    @property
    def n_jobs(self) -> int:
        """Probe jobs."""
        return int(np.unique(self.job).size)


def probe_rounds(probes: Sequence[JobRun]) -> ProbeRounds:
    """Rounds of probe jobs but the first, cold ones of each."""
    rows = [
        (number, record.drafted + 1, period_s, record.draft_s, record.verify_s)
        for number, probe in enumerate(probes)
        for record, period_s in list(zip(probe.records, probe.periods_s.tolist(), strict=True))[COLD_ROUNDS:]
    ]
    job, positions, period_s, draft_s, verify_s = np.array(rows).T
    return ProbeRounds(
        job=job.astype(np.int64),
        positions=positions.astype(np.int64),
        period_s=period_s,
        draft_s=draft_s,
        verify_s=verify_s,
    )


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What the simulator says of a run, and how far it is off.

    Attributes
    ----------
    predicted, measured : P90
    tpot_s : (n_requests,) ndarray of float64
        Of each request, in the simulator.
    table : PeriodTable
    error : float
        Predicted ÷ measured − 1.
    error_low, error_high : float
        95 % interval over probe jobs and requests; predicted and measured are of the same requests.
    """

    predicted: P90
    measured: P90
    tpot_s: Floats
    table: PeriodTable
    error: float
    error_low: float
    error_high: float


def replay(trace: Trace, depth: int, measured_tpot_s: Floats, probes: ProbeRounds, rng: np.random.Generator) -> Replay:
    """Predict the P90 TPOT of a run from its trace and probe rounds, and compare.

    Parameters
    ----------
    trace : tuple of RequestTrace
    depth : int
        Draft passes of a round.
    measured_tpot_s : (n_requests,) ndarray of float64
    probes : ProbeRounds
    rng : Generator
        Of the resampling.

    Notes
    -----
    The simulator gives the prediction. Its interval follows from the same sums without it: the time of a request is
    that of its rounds, so that replicates of the table give those of each request. Whole probe jobs are drawn again,
    since rounds of one job are alike.

    References
    ----------
    davison1997
    """
    table = period_table(probes.positions, probes.period_s)
    tpot_s = simulated_tpot_s(trace, depth, table)
    rounds = _RoundCounts.of(trace)
    drawn_tpot_s = np.array([rounds.tpot_s(each) for each in _resampled_tables(probes, table, rng)])
    chosen = resamples(len(trace), rng)
    predicted = np.quantile(np.take_along_axis(drawn_tpot_s, chosen, axis=1), 0.9, axis=1)
    measured = np.quantile(measured_tpot_s[chosen], 0.9, axis=1)
    error = percentile_90(tpot_s) / percentile_90(measured_tpot_s) - 1.0
    low, high = interval_of(error, predicted / measured - 1.0, len(trace))
    return Replay(
        predicted=p90_with(percentile_90(tpot_s), predicted, len(trace)),
        measured=p90_of(measured_tpot_s, rng),
        tpot_s=tpot_s,
        table=table,
        error=error,
        error_low=low,
        error_high=high,
    )


@dataclass(frozen=True, kw_only=True)
class _RoundCounts:
    """Rounds of each request after the first one, by positions."""

    positions: Integers  # (n_distinct,)
    counts: Floats  # (n_requests, n_distinct)
    n_gaps: Floats  # (n_requests,)

    @classmethod
    def of(cls, trace: Trace) -> _RoundCounts:
        positions = np.unique(np.concatenate([request.drafted for request in trace])) + 1
        counts = [[np.count_nonzero(request.drafted + 1 == each) for each in positions] for request in trace]
        gaps = np.array([request.n_tokens - 1 for request in trace])
        return cls(positions=positions, counts=np.array(counts, dtype=np.float64), n_gaps=gaps)

    def tpot_s(self, table: PeriodTable) -> Floats:
        found: Floats = self.counts @ table.at(self.positions) / self.n_gaps
        return found


def _resampled_tables(probes: ProbeRounds, table: PeriodTable, rng: np.random.Generator) -> list[PeriodTable]:
    """Tables of probe jobs drawn with replacement; positions that a draw lacks keep what all jobs say."""
    place = np.searchsorted(table.positions, probes.positions)
    shape = (probes.n_jobs, table.positions.size)
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (probes.job, place), probes.period_s)
    np.add.at(counts, (probes.job, place), 1.0)
    tables = []
    for chosen in resamples(probes.n_jobs, rng, N_REPLICATES):
        n = counts[chosen].sum(axis=0)
        seconds = np.where(n > 0.0, sums[chosen].sum(axis=0) / np.maximum(n, 1.0), table.seconds)
        tables.append(PeriodTable(positions=table.positions, seconds=seconds, slope_s=table.slope_s))
    return tables
