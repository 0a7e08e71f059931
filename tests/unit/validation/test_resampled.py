"""Headline figures over targets that are drawn again."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.validation.left_out import left_out_validation
from specbook.validation.resampled import resampled_headline
from tests.validation_cases import compared, validation_of


def _frame(errors: dict[str, float]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for target, error in errors.items():
        for length, measured in ((3.0, 1.5), (5.0, 2.0)):
            labels = {"target_model": target, "series": target, "draft_length": length}
            rows.append(compared(len(rows) + 2, measured, measured * (1.0 + error), **labels))
    return validation_of(*rows).frame


def test_alike_targets_leave_nothing_to_chance() -> None:
    found = resampled_headline(_frame({"a": 0.1, "b": 0.1}), np.random.default_rng(0))
    assert found.median == pytest.approx((0.1, 0.1))
    assert found.best_k == (1.0, 1.0)
    assert (found.n_targets, found.above_gate) == (2, 1.0)


def test_share_above_the_gate_is_that_of_draws_of_whole_targets() -> None:
    # Of two targets, one at 0 and one at 20 %: the median of a draw is 0, 10 or 20 %, with chances of 1/4, 1/2 and 1/4.
    found = resampled_headline(_frame({"a": 0.0, "b": 0.2}), np.random.default_rng(0))
    assert found.above_gate == pytest.approx(0.75, abs=0.05)
    assert found.median == pytest.approx((0.0, 0.2))


def test_targets_without_a_choice_of_length_are_drawn_for_the_errors_alone() -> None:
    frame = pl.concat([_frame({"a": 0.1}), validation_of(compared(9, 1.5, 1.5, target_model="b", series="b")).frame])
    found = resampled_headline(frame, np.random.default_rng(0))
    assert (found.n_targets, found.best_k) == (2, (1.0, 1.0))


def test_interval_holds_the_headline_and_follows_the_seed() -> None:
    validation = left_out_validation()
    first, again = (resampled_headline(validation.frame, np.random.default_rng(8)) for _ in range(2))
    assert first == again
    assert first.median[0] < validation.scores["median_absolute_error"][0] < first.median[1]
    assert first.best_k[0] < validation.scores["best_k_exact"][0] < first.best_k[1]
