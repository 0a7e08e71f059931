"""What to do with a projection: rank it, find where speculation stops paying, and where to bypass it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.roofline.contest import best_speedups
from specbook.roofline.grid import GridConfig, evaluate_grid
from specbook.roofline.speedup import break_even_batch

Ints = NDArray[np.int64]

# The draft lengths of one cell compete with each other; nothing else does.
EVIDENCE = ("measured_target", "measured_drafter", "method", "domain", "temperature")
CELL = (*EVIDENCE, "hardware", "target", "drafter", "precision", "context", "batch")


def rank(projection: pl.DataFrame) -> pl.DataFrame:
    """Order the draft lengths of each domain, hardware, context and batch by time per token.

    Parameters
    ----------
    projection : polars.DataFrame
        As :func:`~specbook.roofline.grid.project` returns it.

    Returns
    -------
    polars.DataFrame
        The same rows with a first column ``rank``: 1 is the fastest that fits in memory; the shorter draft wins a
        tie; rows that do not fit come last, with a null rank.

    References
    ----------
    leviathan2023, section 3.5

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid, project
    >>> rank(project(example_grid())).filter(pl.col("rank") == 1)["draft_length"].to_list()
    [4, 4, 4, 4]
    """
    order = pl.struct(pl.col("fits_memory").not_(), "tpot_s", "draft_length").rank("ordinal").over(CELL)
    ranked = projection.with_columns(rank=pl.when("fits_memory").then(order).cast(pl.Int64))
    return ranked.sort(*EVIDENCE, "hardware", "context", "batch", "rank", nulls_last=True, maintain_order=True).select(
        "rank", pl.exclude("rank")
    )


def best_by_cell(projection: pl.DataFrame) -> pl.DataFrame:
    """The fastest draft length of each hardware, context and batch; cells where nothing fits are left out.

    Parameters
    ----------
    projection : polars.DataFrame
        As :func:`~specbook.roofline.grid.project` returns it.

    Returns
    -------
    polars.DataFrame
        One row a cell; ``draft_length`` 0 means that speculation must be bypassed there.

    References
    ----------
    leviathan2023, section 3.5

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid, project
    >>> best_by_cell(project(example_grid())).height
    4
    """
    return rank(projection).filter(pl.col("rank") == 1).drop("rank")


def break_even(config: GridConfig, max_batch: int = 1024) -> pl.DataFrame:
    """Batches at which drafting pays, for each hardware and context, whether or not they fit in memory.

    Every batch from 1 to ``max_batch`` is evaluated, so that no shape of the curve is assumed: a mixture of experts
    often loses at batch 1, where verifying wakes more experts, and pays above. The batches of ``config`` are not used,
    except with measured step times, which answer for no others.

    Parameters
    ----------
    config : GridConfig
    max_batch : int
        Largest batch to look at.

    Returns
    -------
    polars.DataFrame
        One row a hardware and context: ``first_paying_batch`` (null if none pays); ``break_even_batch``, the batch
        from which on none pays (null where speculation still pays at ``max_batch``, 1 where it never pays);
        ``n_paying_batches``, fewer than lie between the two if the region has gaps; ``largest_fitting_batch``, 0 if
        not even one sequence fits; ``max_batch, best_draft_length_at_batch_1, speedup_at_batch_1``; where acceptance
        was measured; and ``break_even_batch_low`` and ``_high`` from the ends of its 95 % interval, null as above, and
        both null where ``has_interval`` is false.

    Raises
    ------
    ValueError
        If there is no draft length of at least 1.

    References
    ----------
    magicdec2024

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid
    >>> break_even(replace(example_grid(), contexts=(128, 4096)))["break_even_batch"].to_list()
    [570, None]
    """
    if len(config.candidates.draft_lengths) < 2:
        raise ValueError("candidates must hold a draft length of at least 1")
    measured = config.step_time == "measured"  # which nobody may ask between no batches, or beyond
    dense = replace(config, batches=config.batches if measured else tuple(range(1, max_batch + 1)))
    cells = len(dense.candidates.draft_lengths) * len(dense.batches)
    n_columns = max(1, _CELLS // cells)
    parts = [
        replace(dense, hardware=(profile,), measured_steps=dense.measured_steps[index : index + 1], contexts=contexts)
        for index, profile in enumerate(dense.hardware)
        for contexts in _parts(dense.contexts, n_columns)
    ]
    return pl.concat([_break_even(part) for part in parts])


# Configurations of one device that are evaluated at once.
_CELLS = 2**20


def _parts(values: tuple[int, ...], size: int) -> list[tuple[int, ...]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


def _break_even(dense: GridConfig) -> pl.DataFrame:
    """Break-even of a grid whose batches are all that is looked at."""
    lengths, batches = np.asarray(dense.candidates.draft_lengths), np.asarray(dense.batches, dtype=np.int64)
    arrays = evaluate_grid(dense)
    speedups = np.broadcast_to(arrays.speedup, dense.shape)
    low, drafting, high = best_speedups(dense, speedups)  # each (n_hardware, n_batches, n_contexts)
    has_interval = not (np.isnan(low).any() or np.isnan(high).any())
    fits = np.broadcast_to(arrays.fits_memory, dense.shape)[:, lengths > 0].any(axis=1)
    pays = drafting > 1.0
    names = [profile.name for profile in dense.hardware]
    columns = {
        "hardware": np.repeat(names, len(dense.contexts)),
        "context": np.tile(np.asarray(dense.contexts, dtype=np.int64), len(names)),
        "first_paying_batch": np.where(pays.any(axis=1), batches[pays.argmax(axis=1)], 0).ravel(),
        "break_even_batch": break_even_batch(drafting, dense.batches, axis=1).ravel(),
        "n_paying_batches": pays.sum(axis=1).ravel(),
        "largest_fitting_batch": np.where(fits, batches[:, None], 0).max(axis=1).ravel(),
        "max_batch": np.full(len(names) * len(dense.contexts), batches[-1], dtype=np.int64),
        "best_draft_length_at_batch_1": _fastest(speedups[:, :, 0], lengths).ravel(),
        "speedup_at_batch_1": speedups[:, :, 0].max(axis=1).ravel(),
        "break_even_batch_low": _edge(low, dense.batches, has_interval),
        "break_even_batch_high": _edge(high, dense.batches, has_interval),
        "has_interval": np.full(len(names) * len(dense.contexts), has_interval),
    }
    frame = pl.DataFrame(_evidence_columns(dense, columns["context"].size) | columns)
    edges = ("break_even_batch", "break_even_batch_low", "break_even_batch_high")
    return frame.with_columns(
        pl.when(pl.col("first_paying_batch") > 0).then("first_paying_batch"),
        *(pl.when(pl.col(edge).is_finite()).then(edge).cast(pl.Int64) for edge in edges),
    )


def _fastest(speedups: Floats, lengths: Ints) -> Ints:
    """Draft length, or depth of the tree, with the highest speedup along axis 1; the first on a tie."""
    return np.asarray(lengths[speedups.argmax(axis=1)])


def _edge(speedups: Floats, batches: tuple[int, ...], known: bool) -> Floats:
    """Break-even batch by device and context; infinity where nothing is known."""
    edge = break_even_batch(np.nan_to_num(speedups), batches, axis=1).ravel()
    return edge if known else np.full_like(edge, np.inf)


def _evidence_columns(config: GridConfig, n_rows: int) -> dict[str, pl.Series]:
    values = config.candidates
    labels = (values.target, values.drafter, values.method, values.domain)
    columns = {
        name: pl.Series([label] * n_rows, dtype=pl.String) for name, label in zip(EVIDENCE[:-1], labels, strict=True)
    }
    return columns | {EVIDENCE[-1]: pl.Series([values.temperature] * n_rows, dtype=pl.Float64)}


def bypass_region(config: GridConfig) -> pl.DataFrame:
    """The batches and contexts in which not speculating is fastest.

    Parameters
    ----------
    config : GridConfig

    Returns
    -------
    polars.DataFrame
        Columns ``hardware, batch, context, best_draft_length, speedup, bypass``; one row a cell of the grid,
        whether or not it fits in memory.

    References
    ----------
    leviathan2023, section 3.5

    Examples
    --------
    >>> from specbook.roofline.grid import example_grid
    >>> bypass_region(example_grid())["bypass"].any()
    False
    """
    speedups = np.broadcast_to(evaluate_grid(config).speedup, config.shape)
    best = _fastest(speedups, np.asarray(config.candidates.draft_lengths))
    n_hardware, _, n_batches, n_contexts = config.shape
    names = [profile.name for profile in config.hardware]
    return pl.DataFrame(
        {
            "hardware": np.repeat(names, n_batches * n_contexts),
            "batch": np.tile(np.repeat(np.asarray(config.batches, dtype=np.int64), n_contexts), n_hardware),
            "context": np.tile(np.asarray(config.contexts, dtype=np.int64), n_hardware * n_batches),
            "best_draft_length": best.ravel(),
            "speedup": speedups.max(axis=1).ravel(),
            "bypass": (best == 0).ravel(),
        }
    )
