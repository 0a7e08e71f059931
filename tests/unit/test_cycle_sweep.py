"""The sweep: its grid, its streams, its two readings."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
from specbook.acceptance.cycles import simulate_cycles
from specbook.acceptance.draft_models import EntropyAware

SMALL: dict[str, Any] = {"draft_lengths": (1, 4), "acceptances": (0.5, 0.9), "draft_costs_s": (1e-5, 1e-4),
                         "n_sequences": 20, "tokens_per_sequence": 16}  # fmt: skip
GRID = ("draft_model", "draft_length", "swept_acceptance", "draft_s")


@pytest.fixture(scope="module")
def sweep() -> pl.DataFrame:
    return sweep_cycles(SweepConfig())


def test_sweep_has_576_rows_one_a_configuration(sweep: pl.DataFrame):
    assert sweep.height == sweep.select(GRID).n_unique() == SweepConfig().n_configurations == 576
    assert sweep["draft_length"].unique().sort().to_list() == [1, 2, 3, 4, 5, 7, 10, 15]
    assert sweep["swept_acceptance"].unique().sort().to_list() == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    assert sweep["cost_ratio"].unique().sort().to_list() == [0.05, 0.1, 0.25, 0.5]
    assert sweep["n_sequences"].unique().to_list() == [500]
    assert sweep["tokens_per_sequence"].unique().to_list() == [128]


def test_sweep_every_configuration_has_a_stream_of_its_own(sweep: pl.DataFrame):
    assert sweep["seed"].n_unique() == 576
    fixed = sweep.filter(pl.col("draft_model") == "fixed")
    assert fixed.select("draft_length", "swept_acceptance", "mean_rounds").n_unique() > 150


def test_sweep_intervals_hold_the_exact_speedup_as_often_as_they_say(sweep: pl.DataFrame):
    inside = sweep.select(pl.col("expected_speedup").is_between("speedup_low", "speedup_high")).to_series()
    assert 0.914 <= (inside.mean() or 0) <= 0.986  # 95 % and four standard errors of 576


def test_sweep_row_can_be_simulated_again_by_itself():
    row = sweep_cycles(SweepConfig(**SMALL)).filter(pl.col("draft_model") == "entropy_aware").row(-1, named=True)
    config = CycleConfig(
        draft_model=EntropyAware(),
        draft_length=row["draft_length"],
        draft_s=row["draft_s"],
        n_sequences=20,
        tokens_per_sequence=16,
        seed=row["seed"],
    )
    assert simulate_cycles(config).speedup == row["speedup"]


def test_sweep_same_seed_same_table_other_seed_another():
    first, again, other = (sweep_cycles(SweepConfig(**SMALL, seed=seed)) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    assert first["expected_speedup"].equals(other["expected_speedup"])


@pytest.mark.parametrize(("varies", "bases", "easy"), [("fixed", [0.9], [0.95]), ("every", [0.5, 0.9], [0.5, 0.9])])
def test_sweep_readings_give_the_acceptance_to_one_model_or_to_all(varies: Any, bases: list[float], easy: list[float]):
    sweep = sweep_cycles(SweepConfig(**SMALL, varies=varies))
    assert sweep["varies"].unique().to_list() == [varies]
    assert sweep["acceptance"].drop_nulls().unique().sort().to_list() == [0.5, 0.9]
    assert sweep["base"].drop_nulls().unique().sort().to_list() == bases
    assert sweep["easy_acceptance"].drop_nulls().unique().sort().to_list() == easy
    assert sweep["factor"].drop_nulls().unique().to_list() == [0.95]
    assert sweep["hard_acceptance"].drop_nulls().unique().to_list() == [0.5]


def test_sweep_reports_progress_once_a_row():
    steps: list[int] = []
    sweep_cycles(SweepConfig(**SMALL), steps.append)
    assert steps == [1] * 24


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"acceptances": (0.5, 1.5)}, r"acceptances must lie in \[0, 1\]"),
        ({"draft_lengths": (1, -2)}, "draft_length must be whole"),
        ({"draft_costs_s": (-1.0,)}, "draft_s must not be negative"),
        ({"verify_s": 0.0}, "verify_s must be greater than 0"),
        ({"varies": "none"}, "varies must be fixed or every; got none"),
        ({"seed": -1}, "seed must lie in"),
        ({"n_sequences": 2**24}, "must be at most 16,777,216"),
    ],
)
def test_sweep_configurations_out_of_range_are_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        SweepConfig(**(SMALL | fields))
