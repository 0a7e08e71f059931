"""Chosen points of a contest as rows of a projection."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from specbook.roofline.contest import Contest
from specbook.roofline.grid import COLUMNS, axis, drafting_pair, is_compute_bound, step_time_sources

_TEXTS = ("drafter", "method", "measured_target", "measured_drafter", "draft_precision")


def winner_rows(contest: Contest, mask: NDArray[np.bool_]) -> pl.DataFrame:
    """The chosen points, one row each, with the columns of :func:`~specbook.roofline.grid.project`.

    Parameters
    ----------
    contest : Contest
    mask : (n_hardware × n_contexts, (1 + n_methods) × n_batches) ndarray of bool

    Returns
    -------
    polars.DataFrame
        By hardware, context and batch. Without speculation, ``method`` is ``none`` and names of drafters are null.

    Examples
    --------
    >>> from specbook.roofline.contest import hold_contest
    >>> from specbook.roofline.grid import example_grid
    >>> winner_rows(hold_contest([example_grid()]), np.ones((2, 4), dtype=bool)).height
    8
    """
    first = contest.grids[0]
    n_methods, n_hardware, n_batches, n_contexts = contest.tpot_s.shape
    hardware, context, method, batch = np.nonzero(mask.reshape(n_hardware, n_contexts, n_methods, n_batches))
    at = (method, hardware, batch, context)
    drafts = _drafts(contest, at)
    tokens, tpot = drafts["expected_tokens"], contest.tpot_s[at]
    baseline, draft_s, verify_s = contest.baseline_tpot_s[at], contest.draft_s[at], contest.verify_s[at]
    speedup = baseline / tpot
    frame = pl.DataFrame(
        {
            "hardware": pl.Series([profile.name for profile in first.hardware]).gather(hardware),
            "draft_length": drafts["draft_length"],
            "tree_nodes": drafts["tree_nodes"],
            "batch": np.asarray(first.batches, dtype=np.int64)[batch],
            "context": np.asarray(first.contexts, dtype=np.int64)[context],
            "draft_s": draft_s,
            "verify_s": verify_s,
            "round_s": draft_s + verify_s,
            "baseline_tpot_s": baseline,
            "tpot_s": tpot,
            "expected_tokens": tokens,
            "speedup": speedup,
            "throughput_tokens_per_s": contest.throughput_tokens_per_s[at],
            "kv_bytes": contest.kv_bytes[at],
            "regime": _regimes(contest, at),
            "fits_memory": contest.fits[at],
            "viable": contest.fits[at] & ((speedup > 1.0) | (drafts["draft_length"] == 0)),
            "acceptance_assumption": drafts["acceptance_assumption"],
            "speedup_low": speedup / tokens * drafts["low"],
            "speedup_high": speedup / tokens * drafts["high"],
            "step_time_source": pl.Series(step_time_sources(first)).gather(hardware),
            **{name: _texts(contest, name).gather(method) for name in _TEXTS},
        }
    )
    return (
        frame.with_columns(
            pl.lit(first.target.name).alias("target"),
            pl.lit(first.precision).alias("precision"),
            pl.lit(first.step_time).alias("step_time_kind"),
            pl.lit(first.candidates.domain, dtype=pl.String).alias("domain"),
            pl.lit(first.candidates.temperature, dtype=pl.Float64).alias("temperature"),
            pl.lit(first.tensor_parallel, dtype=pl.Int64).alias("n_devices"),
            pl.col("speedup_low", "speedup_high").fill_nan(None),
        )
        .select(COLUMNS)
        .sort("hardware", "context", "batch", "tpot_s", maintain_order=True)
    )


def _texts(contest: Contest, name: str) -> pl.Series:
    """A label of each method, index 0 for none."""
    labels: dict[str, list[str | None]] = {
        "drafter": [grid.drafter_name for grid in contest.grids],
        "method": [grid.candidates.method or grid.method for grid in contest.grids],
        "measured_target": [grid.candidates.target for grid in contest.grids],
        "measured_drafter": [grid.candidates.drafter for grid in contest.grids],
        "draft_precision": [grid.draft_precision for grid in contest.grids],
    }
    return pl.Series(["none" if name == "method" else None, *labels[name]], dtype=pl.String)


def _drafts(contest: Contest, at: tuple[Any, ...]) -> dict[str, Any]:
    """Draft length, nodes, tokens with their interval and assumption of each chosen point."""
    method, index = at[0], contest.shape_index[at]
    tables = [contest.grids[0].candidates, *(grid.candidates for grid in contest.grids)]
    offsets = np.cumsum([0] + [len(each.draft_lengths) for each in tables])
    place = offsets[method] + index
    lengths = np.array([length for each in tables for length in each.draft_lengths], dtype=np.int64)[place]
    nodes = np.array([n_nodes for each in tables for n_nodes in each.drafted_tokens], dtype=np.int64)[place]
    known = [(np.nan, np.nan) if end is None else end for each in tables for end in each.intervals]
    ends = np.asarray(known, dtype=np.float64)[place]
    texts = pl.Series([text for each in tables for text in each.assumptions], dtype=pl.String)
    return {
        "draft_length": lengths,
        "tree_nodes": pl.Series(nodes).set(pl.Series(nodes <= lengths), None),
        "expected_tokens": np.array([tokens for each in tables for tokens in each.expected_tokens])[place],
        "acceptance_assumption": texts.gather(place),
        "low": ends[:, 0],
        "high": ends[:, 1],
    }


def _regimes(contest: Contest, at: tuple[Any, ...]) -> pl.Series:
    """Memory or compute for each chosen point; null for measured times, which do not say."""
    method, hardware, batch, context = at
    first = contest.grids[0]
    names = pl.Series(["memory", "compute"])
    found = np.zeros(method.size, dtype=np.uint32)
    batches, contexts = axis(first.batches, 2), axis(first.contexts, 3)
    for row, grid in enumerate([first, *contest.grids]):
        n_nodes = np.asarray(grid.candidates.verified_drafts, dtype=np.float64)[contest.shape_index[row]]
        where = method == row
        bound = is_compute_bound(drafting_pair(grid), n_nodes[:, None], batches, contexts)
        if bound is None:
            return pl.Series([None] * method.size, dtype=pl.String)
        whole = np.broadcast_to(bound, (len(first.hardware), 1, len(first.batches), len(first.contexts)))[:, 0]
        found[where] = whole[hardware[where], batch[where], context[where]]
    return names.gather(found)
