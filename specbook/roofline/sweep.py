"""The sweep: targets × precisions × methods × drafts × hardware × batch × context, streamed in bounded memory.

Contests (one target, precision, domain and temperature each) are evaluated a slice at a time; what a slice leaves
behind is its Pareto front for each device and context, its best three by role, and where drafting pays. Precisions do
not compete, since another precision may give another text; neither do domains, whose prompts differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import check_counts
from specbook.progress import Progress, silent
from specbook.roofline.contest import Contest, hold_contest
from specbook.roofline.grid import GridConfig
from specbook.roofline.pareto import pareto_mask
from specbook.roofline.roles import ROLES, role_choices
from specbook.roofline.surfaces import batch_surface, context_surface
from specbook.roofline.winners import winner_rows

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


def sweep(config: SweepConfig, progress: Progress = silent) -> SweepResult:
    """Evaluate every configuration, and keep fronts, roles and break-even surfaces.

    Parameters
    ----------
    config : SweepConfig
    progress : callable
        Called with the number of configurations of each slice.

    Returns
    -------
    SweepResult
        Memory is bounded by the slice and by the size of the result, not by the number of configurations.

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
    for grids in config.contests():
        whole = _BestSpeedups(grids[0])
        for devices, columns, part in _slices(grids, config.slice_cells):
            contest = hold_contest(part)
            fronts.append(_front(contest))
            tops.append(_top(contest))
            whole.add(devices, columns, contest)
            progress(sum(int(np.prod(grid.shape)) for grid in part))
        evens.append(batch_surface(grids[0], whole.values))
        contexts.append(context_surface(grids[0], whole.values))
    return SweepResult(
        config=config,
        n_configurations=config.n_configurations,
        front=pl.concat(fronts),
        top=pl.concat(tops),
        break_even=pl.concat(evens),
        paying_context=pl.concat(contexts),
    )


class _BestSpeedups:
    """Best speedups of a whole contest, (3, n_hardware, n_batches, n_contexts), filled slice by slice."""

    def __init__(self, grid: GridConfig) -> None:
        n_hardware, _, n_batches, n_contexts = grid.shape
        self.values = np.full((3, n_hardware, n_batches, n_contexts), np.nan)

    def add(self, devices: slice, contexts: slice, contest: Contest) -> None:
        self.values[:, devices, :, contexts] = contest.best_speedup


def _slices(grids: Sequence[GridConfig], cells: int) -> Iterator[tuple[slice, slice, list[GridConfig]]]:
    """Parts of a contest of about so many cells: whole devices, or some contexts of one."""
    n_hardware, n_shapes, n_batches, n_contexts = max((grid.shape for grid in grids), key=lambda shape: shape[1])
    n_columns = max(1, min(n_contexts, cells // max(1, n_shapes * n_batches)))
    n_devices = max(1, min(n_hardware, cells // (n_shapes * n_batches * n_columns))) if n_columns == n_contexts else 1
    for first in range(0, n_hardware, n_devices):
        devices = slice(first, min(first + n_devices, n_hardware))
        for start in range(0, n_contexts, n_columns):
            columns = slice(start, min(start + n_columns, n_contexts))
            yield devices, columns, [_part(grid, devices, columns) for grid in grids]


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
