"""The shipped table predicted without the row's own series or target, and what a trivial rule says of the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.validation.left_out import left_out_validation, published_validation
from specbook.validation.published_errors import FITTED, LeftOut, comparable, left_out_fits, left_out_ratios
from specbook.validation.rounds import predict_rounds

LEFT_OUT: tuple[LeftOut, ...] = ("series", "target")


def _score(left_out: LeftOut, by: str, group: str) -> dict[str, Any]:
    return left_out_validation(left_out).scores.filter(by=by, group=group).row(0, named=True)


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_the_headline_lies_in_its_interval(left_out: LeftOut):
    found = _score(left_out, "all", "all")
    assert 150 <= found["n_rows"] <= 200
    assert 0.04 < found["median_absolute_error"] < 0.08
    assert found["win_lose_right"] > 0.95
    assert found["n_varying_series"] >= 45
    assert found["best_k_exact"] > 0.6
    assert found["regret"] < 0.02
    assert 0.7 < found["coverage"] < 0.97  # intervals of 90 % by their making, of rows that are not alike


def test_leaving_out_more_never_helps():
    errors = [
        published_validation().scores["median_absolute_error"][0],
        *(_score(left_out, "all", "all")["median_absolute_error"] for left_out in LEFT_OUT),
    ]
    assert errors == sorted(errors)


def test_sglang_is_met_within_eight_percent_and_llama_cpp_is_not():
    for left_out in LEFT_OUT:
        sglang = _score(left_out, "engine", "SGLang")
        assert sglang["n_rows"] >= 150
        assert sglang["median_absolute_error"] < 0.065
        assert sglang["win_lose_right"] == 1.0
    drafted = _score("series", "method", "draft_model")
    assert drafted["n_rows"] == 6
    assert 0.15 < drafted["median_absolute_error"] < 0.5


def test_win_or_lose_is_hardly_better_than_saying_always_win():
    # The table holds few losses, so that the rule without a model is nearly as good; what it cannot do is find one.
    frame = left_out_validation().frame.filter(~pl.col("is_near_one"))
    wins, foreseen = frame["measured_wins"], frame["predicted_wins"]
    trivial, model = wins.mean(), (wins == foreseen).mean()
    assert trivial is not None
    assert model is not None
    assert 0.95 < trivial < model
    losses = frame.filter(~wins)
    assert 3 <= losses.height <= 10
    assert 0 < (~losses["predicted_wins"]).sum() < losses.height


def test_speedups_are_better_met_than_by_one_number_for_all_rows():
    frame = left_out_validation().frame.filter(pl.col("error").is_not_null())
    middle = frame["measured_speedup"].median()
    assert middle is not None
    constant = (middle / frame["measured_speedup"] - 1.0).abs().median()
    model = frame["error"].abs().median()
    assert constant is not None
    assert model is not None
    assert model < 0.4 * constant


@pytest.mark.parametrize("left_out", LEFT_OUT)
@pytest.mark.parametrize("engine", FITTED)
def test_each_row_is_predicted_by_the_fit_that_never_saw_it(left_out: LeftOut, engine: str):
    rows, fits = comparable(engine), left_out_fits(engine, left_out)
    expected = predict_rounds(rows.passes, fits).speedup
    frame = left_out_validation(left_out).frame
    by_line = dict(frame.select("line", "predicted_speedup").iter_rows())
    found = [by_line[each.row.line] for each in rows.found]
    assert found == pytest.approx(expected.tolist(), rel=1e-12)


def test_an_interval_comes_from_the_errors_of_other_groups():
    rows, ratios = comparable("sglang"), left_out_ratios("sglang")
    names = np.array(rows.groups("series"))
    low, high = np.quantile(ratios[names != names[0]], [0.05, 0.95])
    row = left_out_validation().frame.filter(line=rows.found[0].row.line).row(0, named=True)
    assert row["predicted_low"] == pytest.approx(low * row["predicted_speedup"], rel=1e-12)
    assert row["predicted_high"] == pytest.approx(high * row["predicted_speedup"], rel=1e-12)


def test_engines_without_a_fit_are_predicted_as_always():
    fitted = {each.row.line for engine in FITTED for each in comparable(engine).found}
    plain, left_out = (
        validation.frame.filter(pl.col("predicted_speedup").is_not_null() & ~pl.col("line").is_in(fitted))
        for validation in (published_validation(), left_out_validation())
    )
    assert plain.height > 0
    assert plain["predicted_speedup"].equals(left_out["predicted_speedup"])


def test_what_was_measured_is_the_same_in_both():
    columns = ["line", "status", "missing", "measured_speedup", "n_devices", "devices_from", "baseline_s"]
    plain, left_out = published_validation().frame, left_out_validation().frame
    assert plain.select(columns).equals(left_out.select(columns))
    assert not plain["predicted_speedup"].equals(left_out["predicted_speedup"])
