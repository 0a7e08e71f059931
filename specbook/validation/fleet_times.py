r"""What a fleet measured, as times of passes: steps without speculation, and rounds.

A time is a sum of passes and of what no constant of the backend touches:

.. math:: t_i = \sum_j c_{ij} T_j + o_i t_o + x_i

with passes :math:`T_j`, the overhead of a step :math:`t_o`, which heads that draft at once pay a single time, and in
:math:`x_i` what an engine spends beside the passes and the time outside decoding. The latter is as in
:mod:`specbook.validation.rounds`: how much longer a token takes than in the fastest workload of the same server at the
same context, and the engine's share of a token's time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from specbook.checks import Floats
from specbook.validation.fleet_constants import STEP
from specbook.validation.fleet_data import FleetData, Parts, fleet_data
from specbook.validation.fleet_passes import PassAt, StackedPasses
from specbook.validation.settings import Setting, example_series, settings


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredTimes:
    """n measured times and what the model makes them of.

    Attributes
    ----------
    lines, kinds, series : (n,) tuple
        Line of the file; ``step`` or ``round``; series.
    seconds : (n,) ndarray of float64
        Measured: a token of one stream without speculation, or a round with what is outside decoding.
    counts : (n, m) sparse array of float64
        How often each of m passes is in each.
    overheads : (n,) ndarray of float64
        How often the overhead of a step is, beside them.
    other_s : (n,) ndarray of float64
    n_target_layers : (n,) ndarray of float64
    passes : StackedPasses
    """

    lines: tuple[int, ...]
    kinds: tuple[str, ...]
    series: tuple[str, ...]
    seconds: Floats
    counts: csr_array
    overheads: Floats
    other_s: Floats
    n_target_layers: Floats
    passes: StackedPasses

    def predicted(self, constants: ArrayLike) -> Floats:
        """Times by the model under constants (..., 5), (..., n)."""
        vectors = np.asarray(constants, dtype=np.float64)
        passes_s = self.passes.seconds(vectors)
        flat = passes_s.reshape(-1, passes_s.shape[-1])
        times = (self.counts @ flat.T).T.reshape(*passes_s.shape[:-1], -1)
        return np.asarray(times + self.overheads * vectors[..., STEP, None] + self.other_s)

    def part(self, chosen: Sequence[int] | NDArray[Any]) -> MeasuredTimes:
        """Some of them, by index."""
        at = np.asarray(chosen, dtype=np.int64)
        return replace(
            self,
            lines=tuple(self.lines[i] for i in at),
            kinds=tuple(self.kinds[i] for i in at),
            series=tuple(self.series[i] for i in at),
            seconds=self.seconds[at],
            counts=self.counts[at],
            overheads=self.overheads[at],
            other_s=self.other_s[at],
            n_target_layers=self.n_target_layers[at],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Time:
    """One time before it is stacked."""

    line: int
    kind: str
    series: str
    seconds: float
    n_target_layers: float
    terms: tuple[tuple[PassAt, float], ...]
    overheads: float = 0.0
    other_s: float = 0.0


def fitted_times(data: FleetData, parts: Sequence[Parts]) -> MeasuredTimes:
    """Times that a fit meets, of some of the settings; what they do not hold is not looked at.

    The run without speculation counts once a server: without what is outside decoding, all its workloads have the step
    of the fastest.

    Parameters
    ----------
    data : FleetData
    parts : sequence of Parts

    Examples
    --------
    >>> example_times().kinds
    ('step', 'round', 'round', 'round')
    """
    runs = _Runs.of(parts)
    return _stacked_times(data, [*_steps_of_servers(runs, parts), *_rounds(runs, parts)])


def held_back_times(data: FleetData, parts: Sequence[Parts], kept: Sequence[Parts]) -> MeasuredTimes:
    """Times of settings that a fit to ``kept`` did not see: each run without speculation once, and each round."""
    runs, seen = _Runs.of((*kept, *parts)), {each.workload for each in kept}
    first = {each.workload: each for each in reversed(parts) if each.workload not in seen}
    steps = [_step(each, runs, runs.baselines[key]) for key, each in first.items() if key in runs.baselines]
    return _stacked_times(data, [*reversed(steps), *_rounds(runs, parts)])


def unmeasured_times(data: FleetData, parts: Sequence[Parts]) -> tuple[MeasuredTimes, MeasuredTimes]:
    """Tokens without speculation, and rounds, of each setting, from the model and the engine's share alone."""
    steps = [_step(each, None, math.nan) for each in parts]
    rounds = [_round(each, None, math.nan) for each in parts]
    return _stacked_times(data, steps), _stacked_times(data, rounds)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Runs:
    """Runs without speculation: seconds a token by workload, and the shortest by server."""

    baselines: dict[Hashable, float]
    fastest: dict[Hashable, float]

    @classmethod
    def of(cls, parts: Sequence[Parts]) -> _Runs:
        measured = [(each, each.setting.baseline_tpot_s) for each in parts]
        known = [(each, seconds) for each, seconds in measured if seconds is not None]
        baselines = _grouped(known, lambda part: part.workload, np.median)
        by_workload = [(each, baselines[each.workload]) for each, _ in known]
        return cls(baselines=baselines, fastest=_grouped(by_workload, lambda part: part.server, np.min))

    def outside_s(self, part: Parts) -> float | None:
        """Of a token of this workload; None where nobody measured it without speculation."""
        if part.workload not in self.baselines:
            return None
        fastest_s = self.fastest[part.server]
        return self.baselines[part.workload] - fastest_s + part.outside_share * fastest_s


def _grouped(
    values: Sequence[tuple[Parts, float]], key: Callable[[Parts], Hashable], statistic: Callable[[list[float]], Any]
) -> dict[Hashable, float]:
    groups: dict[Hashable, list[float]] = {}
    for part, value in values:
        groups.setdefault(key(part), []).append(value)
    return {name: float(statistic(members)) for name, members in groups.items()}


def _steps_of_servers(runs: _Runs, parts: Sequence[Parts]) -> Iterator[_Time]:
    done: set[Hashable] = set()
    for part in parts:
        baseline_s = runs.baselines.get(part.workload)
        if baseline_s is not None and baseline_s == runs.fastest[part.server] and part.server not in done:
            done.add(part.server)
            yield _step(part, runs, baseline_s)


def _rounds(runs: _Runs, parts: Sequence[Parts]) -> Iterator[_Time]:
    for part in parts:
        speed = part.setting.row.tokens_per_s
        if speed is not None:
            yield _round(part, runs, part.setting.tokens_per_round * part.setting.batch / speed)


def _step(part: Parts, runs: _Runs | None, seconds: float) -> _Time:
    n_steps, outside_s = _outside(part, runs)
    terms = ((part.step, 1.0 + n_steps),)
    return _time(part, "step", seconds, terms, other_s=outside_s)


def _round(part: Parts, runs: _Runs | None, seconds: float) -> _Time:
    n_steps, outside_s = _outside(part, runs)
    n_tokens = part.setting.tokens_per_round
    drafting = () if part.draft is None else ((part.draft, part.n_draft_passes),)
    terms = ((part.verify, 1.0), *drafting, (part.step, part.n_further_steps + n_tokens * n_steps))
    other_s = part.other_s + n_tokens * outside_s
    return _time(part, "round", seconds, terms, overheads=part.n_draft_overheads, other_s=other_s)


def _outside(part: Parts, runs: _Runs | None) -> tuple[float, float]:
    """Time of a token outside decoding: as many of the target's steps, and seconds; one of the two is 0."""
    outside_s = None if runs is None else runs.outside_s(part)
    if outside_s is None:
        return part.outside_share / (1.0 - part.outside_share), 0.0
    return 0.0, outside_s


def _time(
    part: Parts,
    kind: str,
    seconds: float,
    terms: tuple[tuple[PassAt, float], ...],
    *,
    overheads: float = 0.0,
    other_s: float,
) -> _Time:
    return _Time(
        line=part.setting.row.line,
        kind=kind,
        series=part.series,
        seconds=seconds,
        n_target_layers=part.step.step.cost.n_layers,
        terms=terms,
        overheads=overheads,
        other_s=other_s,
    )


def _stacked_times(data: FleetData, times: Sequence[_Time]) -> MeasuredTimes:
    cells = [(row, data.index[at], n) for row, each in enumerate(times) for at, n in each.terms]
    rows, columns, values = np.array(cells, dtype=np.float64).reshape(-1, 3).T
    positions = (rows.astype(np.int64), columns.astype(np.int64))
    return MeasuredTimes(
        lines=tuple(each.line for each in times),
        kinds=tuple(each.kind for each in times),
        series=tuple(each.series for each in times),
        seconds=np.array([each.seconds for each in times], dtype=np.float64),
        counts=csr_array((values, positions), shape=(len(times), len(data.index))),
        overheads=np.array([each.overheads for each in times], dtype=np.float64),
        other_s=np.array([each.other_s for each in times], dtype=np.float64),
        n_target_layers=np.array([each.n_target_layers for each in times], dtype=np.float64),
        passes=data.passes,
    )


def example_times() -> MeasuredTimes:
    """Times of :func:`~specbook.validation.settings.example_series`, for examples.

    Examples
    --------
    >>> example_times().lines
    (2, 2, 3, 4)
    """
    data = fleet_data([each for each in settings(example_series().rows) if isinstance(each, Setting)])
    return fitted_times(data, data.parts)
