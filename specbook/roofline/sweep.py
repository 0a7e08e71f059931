"""The sweep: targets × precisions × methods × drafts × hardware × batch × context, streamed in bounded memory.

Contests (one target, precision, domain and temperature each) are evaluated a slice at a time; what a slice leaves
behind is its Pareto front for each device and context, its best three by role, and where drafting pays. Precisions do
not compete, since another precision may give another text; neither do domains, whose prompts differ.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import Floats, check_counts
from specbook.progress import Progress, silent
from specbook.roofline.contest import Contest, hold_contest
from specbook.roofline.grid import GridConfig
from specbook.roofline.pareto import pareto_mask
from specbook.roofline.roles import ROLES, role_choices
from specbook.roofline.surfaces import batch_surface, context_surface
from specbook.roofline.winners import winner_rows
from specbook.scale.in_order import in_order

# Cells of one slice of one grid: its arrays of 2 MB stay near the processor.
SLICE_CELLS = 2**18


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """What to sweep.

    Attributes
    ----------
    grids : tuple of GridConfig
        One for each target, precision, method and piece of evidence. Grids that differ in method alone compete.
    slice_cells : int
        Configurations to hold at once.

    Raises
    ------
    ValueError
        If there is no grid, or ``slice_cells`` is not a whole number of at least 1.
    """

    grids: tuple[GridConfig, ...]
    slice_cells: int = SLICE_CELLS

    def __post_init__(self) -> None:
        if not self.grids:
            raise ValueError("a sweep needs at least one grid")
        check_counts("slice_cells", self.slice_cells, minimum=1)

    @property
    def n_configurations(self) -> int:
        """Cells of all grids; K = 0 counts in each."""
        return sum(int(np.prod(grid.shape)) for grid in self.grids)

    def contests(self) -> list[list[GridConfig]]:
        """Grids that compete, in order of appearance."""
        found: dict[tuple[object, ...], list[GridConfig]] = {}
        for grid in self.grids:
            found.setdefault(_contest_key(grid), []).append(grid)
        return list(found.values())


def _contest_key(grid: GridConfig) -> tuple[object, ...]:
    evidence = grid.candidates
    machines = tuple(profile.name for profile in grid.hardware)
    place = (machines, grid.batches, grid.contexts, grid.step_time, grid.backend, grid.tensor_parallel)
    return (grid.target.name, grid.precision, evidence.domain, evidence.temperature, *place)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """What a sweep leaves.

    Attributes
    ----------
    config : SweepConfig
    n_configurations : int
        Evaluated.
    front : polars.DataFrame
        The Pareto front of each target, precision, domain, device **and context** over ``tpot_s``,
        ``throughput_tokens_per_s`` and ``kv_bytes``: one row a configuration that fits, none that another beats.
    top : polars.DataFrame
        At most three rows each, with a first column ``role``: see :data:`~specbook.roofline.roles.ROLES`.
    break_even : polars.DataFrame
        By device and context, from and up to which batch some draft pays; with the ends of the evidence's intervals.
    paying_context : polars.DataFrame
        By device and batch, from which context on some draft pays.
    """

    config: SweepConfig
    n_configurations: int
    front: pl.DataFrame
    top: pl.DataFrame
    break_even: pl.DataFrame
    paying_context: pl.DataFrame


def sweep(config: SweepConfig, progress: Progress = silent, executor: Executor | None = None) -> SweepResult:
    """Evaluate every configuration, and keep fronts, roles and break-even surfaces.

    Parameters
    ----------
    config : SweepConfig
    progress : callable
        Called with the number of configurations of each slice.
    executor : concurrent.futures.Executor or None
        Evaluates slices; None evaluates them here, one after the other.

    Returns
    -------
    SweepResult
        The same whatever the executor. Memory is bounded by the slice, of which each worker has a few, and by the size
        of the result, not by the number of configurations.

    References
    ----------
    leviathan2023, section 3.5; magicdec2024

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid
    >>> result = sweep(SweepConfig(grids=(example_grid(),)))
    >>> result.n_configurations, result.top.select("role", "batch", "context", "draft_length").rows()[:2]
    (16, [('single-stream latency', 1, 512, 4), ('balanced', 8, 512, 4)])
    """
    fronts, tops, evens, contexts = [], [], [], []
    contests = config.contests()
    slices = in_order(_evaluated, _all_slices(contests, config.slice_cells), executor)
    for number, found in groupby(slices, key=lambda each: each.contest):
        first, best = contests[number][0], _no_speedups(contests[number][0])
        for each in found:
            fronts.append(each.front)
            tops.append(each.top)
            best[:, each.devices, :, each.columns] = each.best_speedup
            progress(each.n_configurations)
        evens.append(batch_surface(first, best))
        contexts.append(context_surface(first, best))
    return SweepResult(
        config=config,
        n_configurations=config.n_configurations,
        front=pl.concat(fronts),
        top=pl.concat(tops),
        break_even=pl.concat(evens),
        paying_context=pl.concat(contexts),
    )


@dataclass(frozen=True, kw_only=True)
class _Slice:
    """A part of a contest, small enough to be evaluated at once; whoever has it needs nothing else."""

    contest: int
    devices: slice
    columns: slice
    grids: tuple[GridConfig, ...]


@dataclass(frozen=True, kw_only=True)
class _Evaluated:
    """What a slice leaves behind; its best speedups are (3, n_hardware, n_batches, n_contexts) of the slice."""

    contest: int
    devices: slice
    columns: slice
    n_configurations: int
    front: pl.DataFrame
    top: pl.DataFrame
    best_speedup: Floats

    def __getstate__(self) -> dict[str, Any]:
        """For another process: rows of a front repeat their names, so that packed ones are a quarter as large."""
        return {**vars(self), "front": _packed(self.front), "top": _packed(self.top)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        frames = {name: pl.read_ipc(io.BytesIO(state[name])) for name in ("front", "top")}
        vars(self).update({**state, **frames})


def _packed(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def _evaluated(each: _Slice) -> _Evaluated:
    contest = hold_contest(each.grids)
    return _Evaluated(
        contest=each.contest,
        devices=each.devices,
        columns=each.columns,
        n_configurations=sum(int(np.prod(grid.shape)) for grid in each.grids),
        front=_front(contest),
        top=_top(contest),
        best_speedup=contest.best_speedup,
    )


def _no_speedups(grid: GridConfig) -> Floats:
    """Best speedups of a whole contest, (3, n_hardware, n_batches, n_contexts), to be filled slice by slice."""
    n_hardware, _, n_batches, n_contexts = grid.shape
    return np.full((3, n_hardware, n_batches, n_contexts), np.nan)


def _all_slices(contests: Sequence[Sequence[GridConfig]], cells: int) -> Iterator[_Slice]:
    for number, grids in enumerate(contests):
        for devices, columns in _slices(grids, cells):
            parts = tuple(_part(grid, devices, columns) for grid in grids)
            yield _Slice(contest=number, devices=devices, columns=columns, grids=parts)


def _slices(grids: Sequence[GridConfig], cells: int) -> Iterator[tuple[slice, slice]]:
    """Devices and contexts of parts of a contest of about so many cells: whole devices, or some contexts of one."""
    n_hardware, n_shapes, n_batches, n_contexts = max((grid.shape for grid in grids), key=lambda shape: shape[1])
    n_columns = max(1, min(n_contexts, cells // max(1, n_shapes * n_batches)))
    n_devices = max(1, min(n_hardware, cells // (n_shapes * n_batches * n_columns))) if n_columns == n_contexts else 1
    for first in range(0, n_hardware, n_devices):
        devices = slice(first, min(first + n_devices, n_hardware))
        for start in range(0, n_contexts, n_columns):
            columns = slice(start, min(start + n_columns, n_contexts))
            yield devices, columns


def _part(grid: GridConfig, devices: slice, columns: slice) -> GridConfig:
    return replace(
        grid,
        hardware=grid.hardware[devices],
        contexts=grid.contexts[columns],
        measured_steps=grid.measured_steps[devices],
    )


def _points(values: Any) -> Any:
    """(1 + n_methods, n_hardware, n_batches, n_contexts) → (n_hardware × n_contexts, (1 + n_methods) × n_batches)."""
    n_rows, n_hardware, n_batches, n_contexts = values.shape
    return values.transpose(1, 3, 0, 2).reshape(n_hardware * n_contexts, n_rows * n_batches)


def _front(contest: Contest) -> pl.DataFrame:
    costs = [_points(each) for each in (contest.tpot_s, contest.throughput_tokens_per_s, contest.kv_bytes)]
    mask = pareto_mask(costs[0], costs[1], costs[2], _points(contest.fits & _distinct(contest)))
    return winner_rows(contest, mask)


def _distinct(contest: Contest) -> Any:
    """All but the repetitions of not speculating that methods without a draft stand for."""
    repeated = contest.shape_index == 0
    repeated[0] = False
    return ~repeated


def _top(contest: Contest) -> pl.DataFrame:
    """Rows of the three roles, for each device and context where anything fits."""
    candidates = _points(contest.fits & _distinct(contest))
    batches = np.broadcast_to(np.asarray(contest.grids[0].batches).reshape(1, 1, -1, 1), contest.tpot_s.shape)
    tpot_s, throughput = _points(contest.tpot_s), _points(contest.throughput_tokens_per_s)
    chosen = role_choices(tpot_s, throughput, candidates, _points(batches))
    frames = []
    for role, points in zip(ROLES, chosen, strict=True):
        mask = np.zeros(_points(contest.fits).shape, dtype=bool)
        groups = np.flatnonzero(points >= 0)
        mask[groups, points[groups]] = True
        frames.append(winner_rows(contest, mask).select(pl.lit(role).alias("role"), pl.all()))
    by = ["hardware", "context"]
    order = pl.col("role").cast(pl.Enum(ROLES))
    return pl.concat(frames).sort(*by, order, maintain_order=True)
