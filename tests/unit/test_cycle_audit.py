"""The audit: its functions by hand, and what the 576-run sweep says exactly."""

from __future__ import annotations

import polars as pl
import pytest

from specbook.acceptance.cycle_audit import (
    break_even_cost_ratio,
    losing,
    mean_speedup_by_cost_ratio,
    optimal_draft_lengths,
    outside,
    pareto_front,
)
from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles


@pytest.fixture(scope="module")
def sweep() -> pl.DataFrame:
    """The whole grid with few sequences: the exact figures do not depend on them."""
    return sweep_cycles(SweepConfig(n_sequences=2))


@pytest.fixture(scope="module")
def fixed(sweep: pl.DataFrame) -> pl.DataFrame:
    return sweep.filter(pl.col("draft_model") == "fixed")


def test_means_by_cost_ratio_are_the_published_ones_with_the_last_round_cut(fixed: pl.DataFrame):
    cut = mean_speedup_by_cost_ratio(fixed)["mean_speedup"].round(2).to_list()
    assert cut == [2.55, 2.10, 1.43, 0.96]
    endless = mean_speedup_by_cost_ratio(fixed, "untruncated_speedup")["mean_speedup"].round(2).to_list()
    assert endless == [2.59, 2.13, 1.45, 0.97]


def test_largest_speedup_is_at_the_published_place(sweep: pl.DataFrame):
    best = sweep.row(sweep["expected_speedup"].arg_max() or 0, named=True)
    assert (best["draft_model"], best["draft_length"], best["swept_acceptance"]) == ("fixed", 15, 0.95)
    assert best["expected_speedup"] == pytest.approx(6.0933, abs=5e-5)
    assert best["untruncated_speedup"] == pytest.approx(6.3986, abs=5e-5)


@pytest.mark.parametrize(
    ("speedup", "counts"), [("expected_speedup", (38, 24, 18)), ("untruncated_speedup", (36, 12, 18))]
)
def test_losing_configurations_by_draft_model(sweep: pl.DataFrame, speedup, counts: tuple[int, int, int]):
    by_model = dict(losing(sweep, speedup).group_by("draft_model").len().rows())
    assert tuple(by_model[name] for name in ("fixed", "position_decay", "entropy_aware")) == counts


def test_losing_configurations_outside_the_claimed_corner(sweep: pl.DataFrame, fixed: pl.DataFrame):
    beyond = outside(losing(fixed), min_cost_ratio=0.25, max_acceptance=0.7)
    places = set(beyond.select("draft_length", "swept_acceptance", "cost_ratio").rows())
    assert places == {
        (7, 0.8, 0.5), (10, 0.8, 0.5), (15, 0.8, 0.5), (15, 0.8, 0.25), (15, 0.9, 0.5),
        (10, 0.5, 0.1), (15, 0.5, 0.1), (15, 0.6, 0.1),
    }  # fmt: skip
    assert outside(losing(sweep), min_cost_ratio=0.25, max_acceptance=0.7).height == 29


def _fastest(frame: pl.DataFrame, speedup: str, name: str = "fastest") -> dict[float, list[int]]:
    optima = optimal_draft_lengths(frame, speedup)  # type: ignore[arg-type]
    return {rows["swept_acceptance"][0]: rows[name].to_list() for rows in optima.partition_by("swept_acceptance")}


def test_optimal_draft_lengths_are_the_published_table_with_the_last_round_cut(fixed: pl.DataFrame):
    table = {0.5: [3, 2, 1, 1], 0.7: [5, 4, 2, 1], 0.8: [7, 5, 3, 2], 0.9: [15, 10, 5, 3], 0.95: [15, 15, 7, 5]}
    cut, endless = _fastest(fixed, "expected_speedup"), _fastest(fixed, "untruncated_speedup")
    assert cut == table | {0.6: [4, 3, 2, 1]}
    assert endless == cut | {0.95: [15, 15, 10, 5]}


def test_optimal_draft_length_is_zero_where_every_one_loses(fixed: pl.DataFrame):
    assert _fastest(fixed, "expected_speedup", "best_draft_length")[0.5] == [3, 2, 1, 0]
    assert _fastest(fixed, "untruncated_speedup", "best_draft_length")[0.5] == [3, 2, 1, 1]  # exactly 1: a tie


def test_optimal_draft_lengths_lists_ties_and_takes_the_shortest():
    place = {"draft_model": ["fixed"] * 3, "swept_acceptance": [0.5] * 3, "draft_s": [1e-5] * 3}
    frame = pl.DataFrame(place | {"draft_length": [4, 2, 1], "expected_speedup": [1.5, 1.5, 1.49]})
    assert optimal_draft_lengths(frame).row(0)[3:] == (2, 2, 1.5, [2, 4])
    assert optimal_draft_lengths(frame, tolerance=0.01).row(0)[3:] == (2, 2, 1.5, [1, 2, 4])


def test_break_even_by_hand():
    assert break_even_cost_ratio([0.8]) == pytest.approx(0.8)
    assert break_even_cost_ratio([0.5, 0.5]) == pytest.approx(0.375)
    assert break_even_cost_ratio([[1.0, 1.0], [0.0, 0.0]]).tolist() == [1.0, 0.0]
    assert break_even_cost_ratio([1.0] * 4, n_tokens=5) == pytest.approx(1.0)
    assert break_even_cost_ratio([1.0] * 4, n_tokens=6) == pytest.approx(0.5)  # two rounds for six tokens


@pytest.mark.parametrize(
    ("conditional", "n_tokens"), [([], None), (0.8, None), ([1.2], None), ([0.5], 0), ([0.5], 1.5)]
)
def test_break_even_impossible_input_is_refused(conditional, n_tokens):
    with pytest.raises(ValueError, match=r"conditional_acceptance|n_tokens"):
        break_even_cost_ratio(conditional, n_tokens)


def test_pareto_front_rises_in_both_and_leaves_nothing_better(fixed: pl.DataFrame):
    front = pareto_front(fixed)
    for (acceptance,), rows in front.group_by("swept_acceptance"):
        assert rows["overhead"].is_sorted()
        assert rows["expected_speedup"].is_sorted()
        others = fixed.filter(pl.col("swept_acceptance") == acceptance)
        for row in rows.iter_rows(named=True):
            cheaper = others.filter(pl.col("overhead") <= row["overhead"] + 1e-12)
            assert (cheaper["expected_speedup"].max() or 0) <= row["expected_speedup"] * (1 + 1e-9)


def test_losing_configurations_if_every_model_varies():
    """The reading that the published figures exclude: 134 lose with the cut, 40 of them outside the claimed corner."""
    every = sweep_cycles(SweepConfig(varies="every", n_sequences=1))
    assert losing(every)["draft_model"].value_counts().sort("draft_model").rows() == [
        ("entropy_aware", 51),
        ("fixed", 38),
        ("position_decay", 45),
    ]
    assert outside(losing(every), 0.25, 0.7).height == 40
