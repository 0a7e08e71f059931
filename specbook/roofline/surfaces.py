"""Where drafting pays: by batch at each context, and by context at each batch, with the evidence's intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.roofline.grid import GridConfig
from specbook.roofline.speedup import break_even_batch, paying_from

_ENDS = ("_low", "", "_high")


def batch_surface(grid: GridConfig, best_speedup: Floats) -> pl.DataFrame:
    """By device and context: batches of the grid at which some draft pays.

    Parameters
    ----------
    grid : GridConfig
        Names the axes.
    best_speedup : (3, n_hardware, n_batches, n_contexts) ndarray of float64
        Of any draft: with the low end of the interval of its tokens, as it is, and with the high end.

    Returns
    -------
    polars.DataFrame
        ``first_paying_batch``, the smallest batch of the grid at which a draft pays, and ``break_even_batch``, the
        first from which on none does; each also ``_low`` and ``_high``. Null: never, or not within the grid; ends are
        also null where no evidence has an interval, which ``has_interval`` says. ``speedup_at_smallest_batch`` with
        its ends.
    """
    columns = _labels(grid) | {
        "hardware": np.repeat([profile.name for profile in grid.hardware], len(grid.contexts)),
        "context": np.tile(np.asarray(grid.contexts, dtype=np.int64), len(grid.hardware)),
    }
    for end, speedups in zip(_ENDS, best_speedup, strict=True):
        known = ~np.isnan(speedups).any(axis=1)
        columns[f"first_paying_batch{end}"] = _known(_first(speedups, grid.batches), known)
        columns[f"break_even_batch{end}"] = _known(break_even_batch(np.nan_to_num(speedups), grid.batches, 1), known)
        columns[f"speedup_at_smallest_batch{end}"] = speedups[:, 0].ravel()
    columns["has_interval"] = (~np.isnan(best_speedup[[0, 2]]).any(axis=(0, 2))).ravel()
    columns["largest_batch"] = np.full(columns["context"].size, max(grid.batches), dtype=np.int64)
    return _frame(columns, ("first_paying_batch", "break_even_batch"))


def context_surface(grid: GridConfig, best_speedup: Floats) -> pl.DataFrame:
    """By device and batch: the context of the grid from which on some draft pays.

    Parameters
    ----------
    grid : GridConfig
    best_speedup : (3, n_hardware, n_batches, n_contexts) ndarray of float64
        As in :func:`batch_surface`.

    Returns
    -------
    polars.DataFrame
        ``paying_context``, null where drafting loses at the longest context; also ``_low`` and ``_high``.
    """
    columns = _labels(grid) | {
        "hardware": np.repeat([profile.name for profile in grid.hardware], len(grid.batches)),
        "batch": np.tile(np.asarray(grid.batches, dtype=np.int64), len(grid.hardware)),
    }
    for end, speedups in zip(_ENDS, best_speedup, strict=True):
        known = ~np.isnan(speedups).any(axis=2)
        columns[f"paying_context{end}"] = _known(paying_from(np.nan_to_num(speedups), grid.contexts, 2), known)
    columns["longest_context"] = np.full(columns["batch"].size, max(grid.contexts), dtype=np.int64)
    return _frame(columns, ("paying_context",))


def _labels(grid: GridConfig) -> dict[str, Any]:
    return {"target": grid.target.name, "precision": grid.precision, "domain": grid.candidates.domain}


def _first(speedups: Floats, batches: tuple[int, ...]) -> Floats:
    pays = speedups > 1.0
    return np.where(pays.any(axis=1), np.asarray(batches, dtype=np.float64)[pays.argmax(axis=1)], np.inf)


def _known(values: Floats, known: Any) -> Floats:
    return np.where(known, values, np.inf).ravel()


def _frame(columns: dict[str, Any], whole: tuple[str, ...]) -> pl.DataFrame:
    labels = {name: value for name, value in columns.items() if not isinstance(value, np.ndarray)}
    frame = pl.DataFrame({name: value for name, value in columns.items() if name not in labels})
    numbers = [f"{name}{end}" for name in whole for end in _ENDS]
    counted = [pl.when(pl.col(name).is_finite()).then(pl.col(name)).cast(pl.Int64).alias(name) for name in numbers]
    texts = [pl.lit(value, dtype=pl.String).alias(name) for name, value in labels.items()]
    return frame.with_columns(*counted).with_columns(pl.col(pl.Float64).fill_nan(None)).select(*texts, pl.all())
