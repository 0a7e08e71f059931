"""The streamed sweep against the projection of every configuration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device
from specbook.roofline.contest import hold_contest
from specbook.roofline.grid import COLUMNS, GridConfig, project
from specbook.roofline.model_spec import model
from specbook.roofline.pareto import pareto_mask
from specbook.roofline.roles import ROLES
from specbook.roofline.sweep import SweepConfig, sweep

CHAIN = DraftCandidates(
    draft_lengths=(0, 1, 3, 6),
    expected_tokens=(1.0, 1.7, 2.5, 3.1),
    assumptions=("measured",) * 4,
    method="draft_model",
    domain="code",
    token_intervals=(None, (1.6, 1.8), (2.3, 2.7), (2.8, 3.4)),
)
TREE = DraftCandidates(
    draft_lengths=(0, 2, 4, 4),
    n_nodes=(0, 2, 8, 32),
    expected_tokens=(1.0, 2.1, 2.9, 3.5),
    assumptions=("measured",) * 4,
    method="eagle",
    domain="code",
)
LOOKUP = DraftCandidates(
    draft_lengths=(0, 4), expected_tokens=(1.0, 1.5), assumptions=("measured",) * 2, method="ngram", domain="code"
)
BASE = GridConfig(
    hardware=tuple(map(catalogue_device, ("h100-sxm5", "l4", "m3-max"))),
    target=model("Llama-3.1-8B"),
    draft=model("Llama-3.2-1B"),
    candidates=CHAIN,
    batches=(1, 4, 16, 64, 256),
    contexts=(512, 4096, 32768),
)
GRIDS = (
    BASE,
    replace(BASE, candidates=TREE, method="eagle", draft=None),
    replace(BASE, candidates=LOOKUP, method="ngram", draft=None),
)
CONFIG = SweepConfig(grids=GRIDS)
GROUP = ["hardware", "context"]


@pytest.fixture(scope="module")
def every() -> pl.DataFrame:
    """Every configuration; not to speculate stands once."""
    tables = [project(grid) for grid in GRIDS]
    without = tables[0].filter(pl.col("draft_length") == 0)
    labels = {"method": "none", "drafter": None, "measured_target": None, "measured_drafter": None}
    without = without.with_columns(
        *(pl.lit(value, dtype=pl.String).alias(name) for name, value in labels.items()),
        pl.lit(None, dtype=pl.String).alias("draft_precision"),
    )
    return pl.concat([without, *(table.filter(pl.col("draft_length") > 0) for table in tables)])


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("hardware", "context", "batch", "tpot_s", "kv_bytes")


def test_sweep_counts_every_configuration():
    assert sweep(CONFIG).n_configurations == sum(project(grid).height for grid in GRIDS)


def test_sweep_front_is_that_of_the_whole_table(every: pl.DataFrame):
    fronts = []
    for _, group in every.group_by(GROUP):
        costs = [group[name].to_numpy()[None] for name in ("tpot_s", "throughput_tokens_per_s", "kv_bytes")]
        fronts.append(group.filter(pareto_mask(*costs, group["fits_memory"].to_numpy()[None])[0]))
    expected, ours = _sorted(pl.concat(fronts)), _sorted(sweep(CONFIG).front)
    floats = [name for name, kind in ours.schema.items() if kind == pl.Float64]
    assert ours.drop(floats).equals(expected.drop(floats))
    for name in floats:
        np.testing.assert_allclose(ours[name].to_numpy(), expected[name].to_numpy(), rtol=1e-12, err_msg=name)


def test_sweep_front_is_by_context_and_has_the_columns_of_a_projection():
    front = sweep(CONFIG).front
    assert front.columns == list(COLUMNS)
    assert front.select(GROUP).unique().height == front.group_by(GROUP).len().height == 3 * 3


@pytest.mark.parametrize("slice_cells", [1, 7, 60, 10**6])
def test_sweep_in_slices_is_the_sweep_in_one(slice_cells: int):
    whole, sliced = sweep(CONFIG), sweep(replace(CONFIG, slice_cells=slice_cells))
    for name in ("front", "top", "break_even", "paying_context"):
        ours, theirs = getattr(sliced, name), getattr(whole, name)
        by = [column for column in ("hardware", "context", "batch", "role", "tpot_s") if column in ours.columns]
        assert ours.sort(by).equals(theirs.sort(by)), name


def test_sweep_top_three_are_what_their_roles_say(every: pl.DataFrame):
    top = sweep(CONFIG).top
    for (hardware, context), rows in top.group_by(GROUP):
        fitting = every.filter("fits_memory", hardware=hardware, context=context)
        power = fitting["throughput_tokens_per_s"] / fitting["tpot_s"]
        at = {row["role"]: row for row in rows.iter_rows(named=True)}
        assert list(at) == list(ROLES)
        single = fitting.filter(pl.col("batch") == fitting["batch"].min())
        assert at[ROLES[0]]["tpot_s"] == pytest.approx(single["tpot_s"].min(), rel=1e-12)
        chosen = at[ROLES[1]]
        assert chosen["throughput_tokens_per_s"] / chosen["tpot_s"] == pytest.approx(power.max(), rel=1e-12)
        most = fitting["throughput_tokens_per_s"].max()
        assert at[ROLES[2]]["throughput_tokens_per_s"] == pytest.approx(most, rel=1e-12)


def test_sweep_fallback_may_be_not_to_speculate():
    config = SweepConfig(grids=(replace(BASE, hardware=(catalogue_device("genoa"),), contexts=(128,)),))
    fallback = sweep(config).top.filter(role=ROLES[2])
    assert fallback.select("draft_length", "method").rows() == [(0, "none")]


def test_sweep_roles_are_empty_where_nothing_fits():
    config = SweepConfig(grids=(replace(BASE, target=model("Llama-3.1-70B"), hardware=(catalogue_device("l4"),)),))
    result = sweep(config)
    assert result.top.height == result.front.height == 0
    assert result.break_even.height == 3


def test_sweep_break_even_is_that_of_the_best_draft(every: pl.DataFrame):
    drafts = every.filter(pl.col("draft_length") > 0)
    for row in sweep(CONFIG).break_even.iter_rows(named=True):
        best = (
            drafts.filter(hardware=row["hardware"], context=row["context"])
            .group_by("batch")
            .agg(
                pl.col("speedup").max(),
                pl.coalesce("speedup_low", "speedup").max(),
                pl.coalesce("speedup_high", "speedup").max(),
            )
            .sort("batch")
        )
        for end, column in (("_low", "speedup_low"), ("", "speedup"), ("_high", "speedup_high")):
            pays = best.filter(pl.col(column) > 1.0)["batch"].to_list()
            assert row[f"first_paying_batch{end}"] == (min(pays) if pays else None)
            batches = best["batch"].to_list()
            lost = [b for b in batches if all(later not in pays for later in batches if later >= b)]
            assert row[f"break_even_batch{end}"] == (min(lost) if lost else None)
        assert row["has_interval"]


def test_sweep_paying_context_is_that_of_the_best_draft(every: pl.DataFrame):
    drafts = every.filter(pl.col("draft_length") > 0)
    for row in sweep(CONFIG).paying_context.iter_rows(named=True):
        best = (
            drafts.filter(hardware=row["hardware"], batch=row["batch"])
            .group_by("context")
            .agg(pl.col("speedup").max())
            .sort("context")
        )
        contexts = best["context"].to_list()
        pays = set(best.filter(pl.col("speedup") > 1.0)["context"].to_list())
        from_there = [c for c in contexts if all(later in pays for later in contexts if later >= c)]
        assert row["paying_context"] == (min(from_there) if from_there else None)


def test_contest_ends_hold_the_best_draft_where_only_some_evidence_has_an_interval():
    one = hold_contest([BASE]).best_speedup
    mixed = hold_contest(GRIDS).best_speedup
    assert np.all(np.diff(mixed, axis=0) >= 0.0)
    assert np.all(one <= mixed)
    some = replace(CHAIN, token_intervals=(None, (1.6, 1.8), None, None))
    ends = hold_contest([replace(BASE, candidates=some)]).best_speedup
    assert np.all(np.diff(ends, axis=0) >= 0.0)


def test_sweep_without_intervals_says_so():
    grids = tuple(replace(grid, candidates=replace(grid.candidates, token_intervals=None)) for grid in GRIDS)
    result = sweep(SweepConfig(grids=grids))
    assert not result.break_even["has_interval"].any()
    assert result.break_even["break_even_batch_low"].null_count() == result.break_even.height
    assert result.front.filter(pl.col("draft_length") > 0)["speedup_low"].null_count() > 0


def test_sweep_precisions_and_domains_do_not_compete():
    narrow = replace(BASE, precision="int4")
    other = replace(BASE, candidates=replace(CHAIN, domain="chat"))
    assert len(SweepConfig(grids=(BASE, narrow, other)).contests()) == 3
    front = sweep(SweepConfig(grids=(BASE, narrow))).front
    assert set(front["precision"]) == {"bf16", "int4"}


def test_contest_of_unlike_grids_is_refused():
    with pytest.raises(ValueError, match="agree in precision"):
        hold_contest([BASE, replace(BASE, precision="int4")])
    with pytest.raises(ValueError, match="at least one grid"):
        hold_contest([])


def test_sweep_reports_its_progress():
    seen: list[int] = []
    sweep(replace(CONFIG, slice_cells=60), progress=seen.append)
    assert sum(seen) == CONFIG.n_configurations
    assert len(seen) > 1


@pytest.mark.parametrize(("changes", "problem"), [({"grids": ()}, "at least one grid"), ({"slice_cells": 0}, "whole")])
def test_sweep_impossible_config_is_refused(changes: dict[str, object], problem: str):
    with pytest.raises(ValueError, match=problem):
        replace(CONFIG, **changes)
