"""Scores of frames small enough to score by hand."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from specbook.validation.left_out import published_validation
from specbook.validation.scores import GATE, GROUPS, NEAR_ONE, best_draft_lengths, scored
from tests.validation_cases import compared, incomplete, validation_of


def _frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return validation_of(*rows).frame


def _all(*rows: dict[str, Any]) -> dict[str, Any]:
    return scored(_frame(*rows)).row(0, named=True)


def test_errors_by_hand():
    found = _all(compared(2, 2.0, 2.2), compared(3, 1.0, 0.8), compared(4, 1.25, 1.25))
    assert (found["by"], found["group"], found["n_rows"]) == ("all", "all", 3)
    assert found["median_absolute_error"] == pytest.approx(0.1)
    assert found["p90_absolute_error"] == pytest.approx(0.1 + 0.8 * 0.1)
    assert found["bias"] == pytest.approx((0.1 - 0.2 + 0.0) / 3)
    assert found["within_8"] == pytest.approx(1 / 3)


def test_an_error_at_the_gate_is_within_it():
    assert _all(compared(2, 1.0, 1.0 + 0.999 * GATE))["within_8"] == 1.0
    assert _all(compared(2, 1.0, 1.0 + 1.001 * GATE))["within_8"] == 0.0


@pytest.mark.parametrize(("measured", "n_outside"), [
    (1.0 - 0.999 * NEAR_ONE, 0), (1.0, 0), (1.0 + 0.999 * NEAR_ONE, 0), (1.0 + 1.001 * NEAR_ONE, 1),
    (1.0 - 1.001 * NEAR_ONE, 1),
])  # fmt: skip
def test_wins_and_losses_count_outside_a_band_around_one(measured: float, n_outside: int):
    found = _all(compared(2, measured, 1.5))
    assert found["n_outside_band"] == n_outside
    assert found["win_lose_right"] == (None if n_outside == 0 else float(measured > 1.0))


def test_wins_and_losses_by_hand():
    found = _all(compared(2, 2.0, 1.1), compared(3, 0.5, 0.9), compared(4, 0.5, 1.1), compared(5, 1.02, 0.5))
    assert found["n_outside_band"] == 3
    assert found["win_lose_right"] == pytest.approx(2 / 3)


def _chain(measured: tuple[float, ...], predicted: tuple[float, ...], **labels: Any) -> list[dict[str, Any]]:
    lengths = (3.0, 5.0, 7.0, 8.0)
    return [
        compared(2 + at, *pair, **({"draft_length": lengths[at]} | labels))
        for at, pair in enumerate(zip(measured, predicted, strict=True))
    ]


def test_the_best_length_and_what_the_predicted_one_loses():
    rows = _chain((1.5, 2.0, 1.8, 1.0), (1.4, 1.9, 2.0, 1.0))
    best = best_draft_lengths(_frame(*rows)).row(0, named=True)
    assert (best["n_lengths"], best["measured"], best["predicted"], best["steps_apart"]) == (4, 5.0, 7.0, 1)
    assert best["regret"] == pytest.approx(0.1)
    found = _all(*rows)
    assert [found[name] for name in ("n_varying_series", "best_k_exact", "best_k_within_one")] == [1, 0.0, 0.0]
    assert found["best_k_within_one_tried"] == 1.0
    assert found["regret"] == pytest.approx(0.1)


def test_lengths_one_apart_are_within_one_whatever_was_tried_between():
    found = _all(*_chain((1.0, 1.0, 2.0, 1.9), (1.0, 1.0, 1.9, 2.0)))
    assert (found["best_k_exact"], found["best_k_within_one"]) == (0.0, 1.0)
    assert found["regret"] == pytest.approx(0.05)


def test_the_shorter_length_wins_a_tie_in_any_order_of_the_file():
    rows = _chain((2.0, 2.0, 1.8), (1.9, 2.1, 2.1))
    for order in (rows, rows[::-1], [rows[1], rows[2], rows[0]]):
        best = best_draft_lengths(_frame(*order)).row(0, named=True)
        assert (best["measured"], best["predicted"], best["regret"]) == (3.0, 5.0, 0.0)


def test_batches_of_a_series_are_choices_of_their_own():
    rows = [*_chain((1.5, 2.0), (1.5, 2.0)), *_chain((2.0, 1.5), (1.5, 2.0), batch=8)]
    best = best_draft_lengths(_frame(*rows))
    assert best.select("batch", "measured", "predicted").rows() == [(1, 5.0, 5.0), (8, 3.0, 5.0)]
    found = _all(*rows)
    assert (found["n_varying_series"], found["best_k_exact"]) == (2, 0.5)
    assert found["regret"] == pytest.approx(0.125)


def test_one_length_is_no_choice():
    rows = [compared(2, 1.5, 1.6), compared(3, 1.7, 1.6)]
    assert best_draft_lengths(_frame(*rows)).is_empty()
    found = _all(*rows)
    assert found["n_varying_series"] == 0
    assert [found[name] for name in ("best_k_exact", "best_k_within_one", "best_k_within_one_tried", "regret")] == (
        [None] * 4
    )


def test_rank_correlation_needs_three_rows_that_differ():
    up = [compared(2 + at, 1.0 + at, 2.0 + at**2) for at in range(4)]
    assert _all(*up)["rank_correlation"] == pytest.approx(1.0)
    down = [compared(2 + at, 1.0 + at, 9.0 - at) for at in range(4)]
    assert _all(*down)["rank_correlation"] == pytest.approx(-1.0)
    assert _all(*up[:2])["rank_correlation"] is None
    assert _all(*(compared(2 + at, 1.5, 1.0 + at) for at in range(3)))["rank_correlation"] is None


def test_coverage_counts_rows_that_have_an_interval():
    rows = [
        compared(2, 1.5, 1.6, predicted_low=1.4, predicted_high=1.8),
        compared(3, 1.5, 2.0, predicted_low=1.6, predicted_high=2.4),
        compared(4, 1.5, 1.6),
    ]
    assert _all(*rows)["coverage"] == 0.5
    assert _all(rows[2])["coverage"] is None


def test_nothing_to_compare_is_null_and_no_number_is_nan():
    empty = _frame(incomplete(2, "batch"))
    found = scored(empty)
    assert found.height == 1
    row = found.row(0, named=True)
    assert (row["n_rows"], row["n_outside_band"], row["n_varying_series"]) == (0, 0, 0)
    assert all(row[name] is None for name, kind in found.schema.items() if kind == pl.Float64)


def test_scores_of_the_shipped_table_hold_no_nan():
    for value in (each for row in published_validation().scores.rows() for each in row):
        assert value is None or not (isinstance(value, float) and math.isnan(value))


def test_each_group_is_scored_as_it_is_alone():
    frame = published_validation().frame
    scores = scored(frame)
    assert scores["by"].unique(maintain_order=True).to_list() == ["all", *GROUPS]
    for by in ("engine", "method", "device", "status"):
        for group in scores.filter(by=by)["group"]:
            alone = scored(frame.filter(pl.col(by) == group)).drop("by", "group").head(1)
            together = scores.filter(by=by, group=group).drop("by", "group")
            assert_frame_equal(together, alone, abs_tol=1e-12)


def test_rows_without_a_label_are_in_no_group_of_it():
    scores = scored(_frame(compared(2, 1.5, 1.6, method=None), compared(3, 1.5, 1.6)))
    assert scores.filter(by="method")["n_rows"].to_list() == [1]
    assert scores["n_rows"][0] == 2
