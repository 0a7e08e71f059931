"""Drafting methods against each other and against none, on one target and precision: what is left of many shapes.

A sweep evaluates far more configurations than anybody reads. At one device, batch and context only the fastest shape of
each method can be on a front, since its drafts change neither the batch nor the cache; so a contest keeps that one, and
everything after it (fronts, break-even, the top three) works on what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.grid import GridConfig, axis, draft_axes, drafting_pair
from specbook.roofline.speedup import kv_bytes, memory_bytes, round_times


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The fastest shape of each method by device, batch and context; index 0 along methods is not to speculate.

    Attributes
    ----------
    grids : tuple of GridConfig
        One a method, alike in everything else.
    shape_index : (1 + n_methods, n_hardware, n_batches, n_contexts) ndarray of int64
        Which of the method's candidates.
    tpot_s, draft_s, verify_s, baseline_tpot_s, kv_bytes : ndarray of float64, of the same shape
    fits : ndarray of bool
        Whether weights and cache fit in memory.
    best_speedup : (3, n_hardware, n_batches, n_contexts) ndarray of float64
        Highest speedup of any draft, whether or not it fits: with the low end of its interval of tokens, as it is, and
        with the high end. Drafts without an interval count as they are; NaN where no evidence has one.
    """

    grids: tuple[GridConfig, ...]
    shape_index: NDArray[np.int64]
    tpot_s: Floats
    draft_s: Floats
    verify_s: Floats
    baseline_tpot_s: Floats
    kv_bytes: Floats
    fits: NDArray[np.bool_]
    best_speedup: Floats

    @property
    def throughput_tokens_per_s(self) -> Floats:
        """Of all sequences together."""
        return np.asarray(self.grids[0].batches, dtype=np.float64).reshape(1, 1, -1, 1) / self.tpot_s


def hold_contest(grids: Sequence[GridConfig]) -> Contest:
    """Evaluate every configuration of the grids and keep the fastest shape of each method.

    Parameters
    ----------
    grids : sequence of GridConfig
        Alike in hardware, target, precision, batches, contexts and step time; each with its own method and evidence.

    Returns
    -------
    Contest

    Raises
    ------
    ValueError
        If there is no grid, or they differ in what they share.

    References
    ----------
    leviathan2023, section 3.5

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid
    >>> contest = hold_contest([example_grid()])
    >>> contest.shape_index[1].tolist()  # by batch and context: the fourth candidate, K = 4
    [[[3, 3], [3, 3]]]
    """
    _check_alike(grids)
    held = [_fastest_shapes(grid) for grid in grids]
    names = ("shape_index", "tpot_s", "draft_s", "verify_s", "baseline_tpot_s", "kv_bytes", "fits")
    rows = {name: [held[0][0][name], *(each[1][name] for each in held)] for name in names}
    return Contest(
        grids=tuple(grids),
        best_speedup=_best_of([each[2] for each in held]),
        **{name: np.stack(values) for name, values in rows.items()},
    )


def _check_alike(grids: Sequence[GridConfig]) -> None:
    if not grids:
        raise ValueError("a contest needs at least one grid")
    first = grids[0]
    shared = ("hardware", "target", "precision", "batches", "contexts", "step_time", "backend", "tensor_parallel")
    for grid in grids[1:]:
        differing = [name for name in shared if getattr(grid, name) != getattr(first, name)]
        if differing:
            raise ValueError(f"grids of one contest must agree in {', '.join(differing)}")


def _fastest_shapes(grid: GridConfig) -> tuple[dict[str, Any], dict[str, Any], Floats]:
    """Not speculating, and the fastest draft, each by device, batch and context; and the best speedups of three."""
    lengths, tokens = grid.candidates.draft_lengths, axis(grid.candidates.expected_tokens, 1)
    depth, n_nodes = draft_axes(grid)
    batch, context = axis(grid.batches, 2), axis(grid.contexts, 3)
    pair = drafting_pair(grid)
    times = round_times(depth, n_nodes, batch, context, tokens, pair)
    memory = axis([profile.memory_bytes.value for profile in grid.hardware], 0)
    n_hardware, _, n_batches, n_contexts = grid.shape
    whole = (n_hardware, len(lengths), n_batches, n_contexts)
    cell = (n_hardware, n_batches, n_contexts)
    choice = times.tpot_s[:, 1:].argmin(axis=1)[:, None] + 1 if len(lengths) > 1 else np.zeros(cell, np.int64)[:, None]

    def taken(index: Any, values: Any) -> Floats:
        return np.take_along_axis(np.broadcast_to(values, whole), index, axis=1)[:, 0]

    def row(index: Any) -> dict[str, Any]:
        return {
            "shape_index": np.broadcast_to(index[:, 0], cell),
            "tpot_s": taken(index, times.tpot_s),
            "draft_s": taken(index, times.draft_s),
            "verify_s": taken(index, times.verify_s),
            "baseline_tpot_s": np.broadcast_to(times.baseline_tpot_s[:, 0], cell),
            "kv_bytes": taken(index, kv_bytes(depth, batch, context, pair)),
            "fits": taken(index, memory_bytes(depth, batch, context, pair) <= memory),
        }

    none = np.zeros((n_hardware, 1, n_batches, n_contexts), dtype=np.int64)
    return row(none), row(choice), best_speedups(grid, times.speedup)


def best_speedups(grid: GridConfig, speedup: Floats) -> Floats:
    """Highest speedup of any draft with the low end of its interval of tokens, as it is, and with the high end.

    Parameters
    ----------
    grid : GridConfig
    speedup : (n_hardware, n_drafts, n_batches, n_contexts) ndarray of float64

    Returns
    -------
    (3, n_hardware, n_batches, n_contexts) ndarray of float64
        In rising order along the first axis. 1 where there is no draft; NaN at the ends where the evidence has no
        interval. A draft without one, beside others that have one, counts as it is.
    """
    drafts = speedup[:, 1:]
    if drafts.shape[1] == 0:
        return np.ones((3, speedup.shape[0], *speedup.shape[2:]))
    middle = drafts.max(axis=1)
    intervals, expected = grid.candidates.intervals[1:], grid.candidates.expected_tokens[1:]
    if not any(intervals):
        return np.stack([np.full_like(middle, np.nan), middle, np.full_like(middle, np.nan)])
    pairs = [pair or (tokens, tokens) for pair, tokens in zip(intervals, expected, strict=True)]
    low, high = (
        (drafts * (axis([pair[side] for pair in pairs], 1) / axis(expected, 1))).max(axis=1) for side in (0, 1)
    )
    return np.stack([low, middle, high])


def _best_of(values: Sequence[Floats]) -> Floats:
    """The largest speedups of several methods; one without an interval counts as it is where others have one."""
    each = np.stack(values)  # (n_methods, 3, ...)
    known = ~np.isnan(each).all(axis=0)
    filled = np.where(np.isnan(each), each[:, 1:2], each)
    return np.asarray(np.where(known, filled.max(axis=0), np.nan))
