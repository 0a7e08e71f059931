"""Ranking, the fastest of each cell, break-even, and where to bypass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device
from specbook.roofline.frontier import EVIDENCE, best_by_cell, break_even, bypass_region, rank
from specbook.roofline.grid import evaluate_grid, example_grid, project
from specbook.roofline.model_spec import model

GRID = replace(
    example_grid(),
    step_time="doctrine",
    hardware=(catalogue_device("l4"), catalogue_device("h100-sxm5")),
    batches=(1, 64, 512),
    contexts=(128, 4096),
)
NEVER = DraftCandidates(draft_lengths=(0, 2), expected_tokens=(1.0, 1.001), assumptions=("measured",) * 2)
ALWAYS = DraftCandidates(draft_lengths=(0, 1), expected_tokens=(1.0, 2.0), assumptions=("measured",) * 2)
CELL = ["hardware", "context", "batch"]


def test_rank_keeps_every_row_and_puts_its_column_first():
    table = project(GRID)
    ranked = rank(table)
    assert ranked.columns == ["rank", *table.columns]
    assert ranked.drop("rank").sort(table.columns[:9]).equals(table.sort(table.columns[:9]))


def test_rank_is_by_time_per_token_within_what_fits():
    for _, cell in rank(project(GRID)).group_by(CELL):
        fitting = cell.filter("fits_memory")
        assert fitting["rank"].to_list() == list(range(1, fitting.height + 1))
        assert fitting["tpot_s"].is_sorted()
        assert cell.filter(pl.col("fits_memory").not_())["rank"].null_count() == cell.height - fitting.height


def test_rank_rows_that_do_not_fit_come_last_in_their_cell():
    for _, cell in rank(project(GRID)).group_by(CELL, maintain_order=True):
        fits = cell["fits_memory"].to_list()
        assert fits == sorted(fits, reverse=True)


def test_rank_tie_goes_to_the_shorter_draft():
    table = project(GRID).with_columns(tpot_s=pl.lit(0.01))
    first = rank(table).filter(pl.col("rank") == 1)
    assert first["draft_length"].unique().to_list() == [0]


def test_rank_methods_do_not_compete_with_each_other():
    tables = [
        project(replace(GRID, candidates=replace(GRID.candidates, method=method))) for method in ("mtp", "draft_model")
    ]
    fitting = pl.concat(tables).filter("fits_memory")
    first = rank(pl.concat(tables)).filter(pl.col("rank") == 1)
    assert first.height == fitting.select("method", *CELL).n_unique()


def test_best_by_cell_is_the_first_rank_where_anything_fits():
    table = project(GRID)
    best = best_by_cell(table)
    fitting = table.filter("fits_memory")
    assert best.height == fitting.select(CELL).n_unique()
    assert best.columns == table.columns
    for row in best.iter_rows(named=True):
        cell = fitting.filter(*(pl.col(name) == row[name] for name in CELL))
        assert row["tpot_s"] == cell["tpot_s"].min()


def test_break_even_equals_a_search_over_every_batch():
    table = break_even(GRID, max_batch=600)
    dense = replace(GRID, batches=tuple(range(1, 601)))
    speedups = np.broadcast_to(evaluate_grid(dense).speedup, dense.shape)[:, 1:].max(axis=1)
    for row, curve in zip(table.iter_rows(named=True), np.moveaxis(speedups, 2, 1).reshape(-1, 600), strict=True):
        paying = [batch for batch, value in enumerate(curve.tolist(), start=1) if value > 1]
        after = max(paying, default=0) + 1
        assert row["break_even_batch"] == (None if after > 600 else after)
        assert row["max_batch"] == 600


def test_break_even_columns_and_best_at_batch_one():
    table = break_even(GRID, max_batch=8)
    assert table.columns == [
        *EVIDENCE, "hardware", "context", "first_paying_batch", "break_even_batch", "n_paying_batches",
        "largest_fitting_batch", "max_batch", "best_draft_length_at_batch_1", "speedup_at_batch_1",
        "break_even_batch_low", "break_even_batch_high", "has_interval",
    ]  # fmt: skip
    assert table["hardware"].to_list() == ["l4", "l4", "h100-sxm5", "h100-sxm5"]
    assert table["context"].to_list() == [128, 4096, 128, 4096]
    best = project(replace(GRID, batches=(1,))).group_by("hardware", "context", maintain_order=True)
    assert table["speedup_at_batch_1"].to_list() == best.agg(pl.col("speedup").max())["speedup"].to_list()


def test_break_even_never_pays_is_one_and_always_is_null():
    assert break_even(replace(GRID, candidates=NEVER))["break_even_batch"].to_list() == [1] * 4
    assert break_even(replace(GRID, candidates=ALWAYS), max_batch=2)["break_even_batch"].to_list() == [None] * 4
    assert break_even(replace(GRID, candidates=NEVER))["best_draft_length_at_batch_1"].to_list() == [0] * 4


def test_break_even_does_not_depend_on_the_batches_of_the_grid():
    assert break_even(GRID).equals(break_even(replace(GRID, batches=(7,))))


def test_break_even_without_a_draft_is_refused():
    nothing = DraftCandidates(draft_lengths=(0,), expected_tokens=(1.0,), assumptions=("measured",))
    with pytest.raises(ValueError, match="candidates must hold a draft length of at least 1"):
        break_even(replace(GRID, candidates=nothing))


def test_bypass_region_is_where_no_draft_is_fastest():
    region = bypass_region(GRID)
    assert region.columns == ["hardware", "batch", "context", "best_draft_length", "speedup", "bypass"]
    assert region.height == 2 * 3 * 2
    table = project(GRID)
    for row in region.iter_rows(named=True):
        cell = table.filter(*(pl.col(name) == row[name] for name in CELL))
        assert row["speedup"] == cell["speedup"].max()
        assert row["bypass"] == (cell.filter(pl.col("draft_length") > 0)["speedup"].max() <= 1.0)
        assert row["bypass"] == (row["best_draft_length"] == 0)
    assert region["bypass"].any()
    assert not region["bypass"].all()


def test_break_even_of_a_mixture_of_experts_begins_above_batch_one():
    candidates = DraftCandidates(
        draft_lengths=(0, 4), expected_tokens=(1.0, 2.6), assumptions=("measured", "measured"), method="draft_model"
    )
    config = replace(
        GRID,
        candidates=candidates,
        target=model("Mixtral-8x7B"),
        draft=model("TinyLlama-1.1B"),
        hardware=(catalogue_device("b200-sxm"),),
        contexts=(2048,),
    )
    (row,) = break_even(config, max_batch=64).iter_rows(named=True)
    assert row["speedup_at_batch_1"] == 1.0
    assert row["best_draft_length_at_batch_1"] == 0
    first = row["first_paying_batch"]
    assert first > 1
    dense = project(replace(config, batches=tuple(range(1, 65)))).filter(pl.col("draft_length") > 0)
    paying = dense.filter(pl.col("speedup") > 1.0)["batch"]
    assert (first, row["n_paying_batches"]) == (paying.min(), paying.n_unique())


def test_break_even_largest_fitting_batch_is_the_memory_limit():
    (row,) = break_even(replace(GRID, hardware=(catalogue_device("l4"),), contexts=(4096,))).iter_rows(named=True)
    largest = row["largest_fitting_batch"]
    fits = project(replace(GRID, hardware=(catalogue_device("l4"),), contexts=(4096,), batches=(largest, largest + 1)))
    drafting = fits.filter(pl.col("draft_length") > 0)
    by_batch = drafting.group_by("batch", maintain_order=True).agg(pl.col("fits_memory").any())
    assert by_batch.sort("batch")["fits_memory"].to_list() == [True, False]
