"""What is said of each row: predicted from what was known beforehand, compared, or why it is not."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from specbook.checks import BadInput
from specbook.roofline.engine_overheads import engine_overheads
from specbook.validation.left_out import published_validation
from specbook.validation.published_series import published_series
from specbook.validation.series import RowProblem, SeriesFile, SeriesRow
from specbook.validation.setting_overheads import NO_OVERHEADS, overheads_of
from specbook.validation.settings import Overrides, Setting, example_series
from specbook.validation.settings import settings as settings_of
from specbook.validation.validate import Validation, example_validation, validate

SHIPPED = published_series()
COMPARED = tuple(each.row for each in settings_of(SHIPPED.rows) if isinstance(each, Setting))
# What depends on the measured speed with speculation, and may.
OUTCOMES = {
    "measured_speedup", "measured_tokens_per_s", "error", "measured_wins", "is_near_one", "best_draft_length_measured",
}  # fmt: skip


def _file(*rows: SeriesRow) -> SeriesFile:
    return replace(SHIPPED, rows=tuple(replace(row, line=2 + at) for at, row in enumerate(rows)), problems=())


def _predictions(validation: Validation) -> pl.DataFrame:
    return validation.frame.drop(OUTCOMES)


def _faster(row: SeriesRow, factor: float) -> SeriesRow:
    speed, stated = row.tokens_per_s, row.stated_speedup
    return replace(
        row,
        tokens_per_s=None if speed is None else factor * speed,
        stated_speedup=None if stated is None else factor * stated,
    )


def test_no_prediction_of_the_shipped_table_depends_on_a_measured_speed_with_speculation():
    changed = [_faster(row, 0.2 + 0.37 * (at % 11)) for at, row in enumerate(SHIPPED.rows)]
    before, after = published_validation(), validate(replace(SHIPPED, rows=tuple(changed)))
    assert_frame_equal(_predictions(before), _predictions(after), check_exact=True)
    errors = (before.frame["error"] != after.frame["error"]).drop_nulls()
    assert errors.sum() > 0.9 * errors.len()


@settings(max_examples=60)
@given(st.data())
def test_no_prediction_depends_on_a_measured_speed_with_speculation(data: st.DataObject):
    rows = data.draw(st.lists(st.sampled_from(COMPARED), min_size=1, max_size=4))
    changed = [_faster(row, data.draw(st.floats(1e-3, 1e3))) for row in rows]
    before, after = (_predictions(validate(_file(*each))) for each in (rows, changed))
    assert_frame_equal(before, after, check_exact=True)


def test_predictions_depend_on_what_was_measured_without_speculation():
    rows = example_series().rows
    slower = [replace(row, baseline_tokens_per_s=0.8 * (row.baseline_tokens_per_s or 0.0)) for row in rows]
    before, after = (validate(_file(*each)).frame for each in (rows, slower))
    assert (after["predicted_speedup"] != before["predicted_speedup"]).all()
    assert after["baseline_s"].to_list() == pytest.approx((before["baseline_s"] / 0.8).to_list())


def test_a_row_is_compared_with_what_was_measured():
    frame = example_validation().frame
    assert frame["measured_speedup"].to_list() == pytest.approx([404 / 190, 447 / 190, 450 / 190])
    expected = (frame["predicted_speedup"] / frame["measured_speedup"] - 1.0).to_list()
    assert frame["error"].to_list() == pytest.approx(expected, rel=1e-12)
    assert frame["measured_wins"].all()
    assert frame["predicted_wins"].all()
    assert not frame["is_near_one"].any()
    assert frame["predicted_tokens_per_s"].to_list() == pytest.approx((190.0 * frame["predicted_speedup"]).to_list())
    assert frame["best_draft_length_measured"].to_list() == [7.0] * 3


def test_intervals_are_those_of_series_that_were_left_out():
    low, high = engine_overheads("sglang").ratio_interval
    frame = example_validation().frame
    assert frame["predicted_low"].to_list() == pytest.approx((low * frame["predicted_speedup"]).to_list())
    assert frame["predicted_high"].to_list() == pytest.approx((high * frame["predicted_speedup"]).to_list())


def test_an_engine_that_nobody_fitted_gets_no_overheads_and_no_interval():
    rows = [replace(row, engine="an engine of mine") for row in example_series().rows]
    result = validate(_file(*rows))
    frame = result.frame
    assert frame["predicted_low"].null_count() == frame["predicted_high"].null_count() == 3
    assert frame["overhead_source"].unique().to_list() == [NO_OVERHEADS.label]
    assert frame["round_overhead_s"].to_list() == frame["draft_floor_s"].to_list() == [0.0] * 3
    assert (frame["predicted_speedup"] > example_validation().frame["predicted_speedup"]).all()
    assert any("nobody fitted" in each for each in result.conditions)
    assert not any("nobody fitted" in each for each in example_validation().conditions)


def test_conditions_count_constants_in_words_of_one_and_many():
    result = published_validation()
    assert any("; 1 constant, " in each for each in result.conditions)
    assert any("; 3 constants, " in each for each in result.conditions)
    assert "own speed with speculation is not used" in result.conditions[0]


def test_rows_keep_their_order_and_every_row_has_its_status():
    first, second, third = example_series().rows
    lacking = replace(second, hardware="", batch=None, tokens_per_s=None)
    stated = replace(third, n_devices=1, prompt_tokens=500.0, target="Llama-3.1-8B-Instruct bf16")
    problems = (
        RowProblem(line=9, column="K", value="x", problem="is not a number", remedy="y", is_fatal=True),
        RowProblem(line=2, column="unit", value="", problem="is odd", remedy="y", is_fatal=False),
    )
    result = validate(replace(_file(first, lacking, stated), problems=problems))
    frame = result.frame
    assert frame["line"].to_list() == [2, 3, 4, 9]
    assert frame["status"].to_list() == ["completed", "incomplete", "complete", "impossible"]
    assert "is odd" in frame["warnings"][0]
    assert frame["warnings"][1:].null_count() == 3
    assert "is not a number" in frame["missing"][3]
    assert frame["assumptions"][2] is None
    for part in ("hardware", "batch", "a measured speed"):
        assert part in frame["missing"][1]
    assert frame["predicted_speedup"].is_null().to_list() == [False, True, False, True]
    assert frame["predicted_speedup"][0] == example_validation().frame["predicted_speedup"][0]
    assert result.problems == problems


def test_nothing_to_predict_is_a_frame_without_predictions():
    for rows in ((), (replace(example_series().rows[0], drafter=""),)):
        result = validate(_file(*rows))
        assert result.frame.height == len(rows)
        assert result.frame["predicted_speedup"].null_count() == len(rows)
        assert result.scores["n_rows"].to_list() == [0]
        assert len(result.conditions) == 1
        assert result.frame.schema == example_validation().frame.schema


def test_overrides_answer_what_the_file_does_not_tell():
    rows = [replace(row, target="Llama", engine="") for row in example_series().rows]
    assert validate(_file(*rows)).frame["status"].unique().to_list() == ["incomplete"]
    stated = Overrides(target="Llama-3.1-8B", engine="SGLang")
    answered = validate(_file(*rows), stated).frame
    assert answered["predicted_speedup"].to_list() == example_validation().frame["predicted_speedup"].to_list()


def test_overheads_are_of_the_engine_of_the_row():
    found = next(each for each in settings_of(example_series().rows) if isinstance(each, Setting))
    assert overheads_of(found) == engine_overheads("sglang")
    assert overheads_of(replace(found, engine="mine")) is NO_OVERHEADS


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        ({"target": "no such model"}, "target"), ({"engine": "no such engine"}, "engine"),
        ({"draft": "no such drafter"}, "draft"), ({"precision": "fp3"}, "precision"),
        ({"draft_precision": "fp3"}, "precision"),
    ],
)  # fmt: skip
def test_an_override_that_names_nothing_is_refused_in_one_line(stated: dict[str, str], field: str):
    with pytest.raises(BadInput, match=field) as refused:
        validate(example_series(), Overrides(**stated))
    assert "\n" not in str(refused.value)
    assert next(iter(stated.values())) in str(refused.value)


@pytest.mark.parametrize(("measured", "is_near"), [(0.949, False), (0.95, True), (1.05, True), (1.051, False)])
def test_the_ends_of_the_band_around_one_are_in_it(measured: float, is_near: bool):
    row = replace(example_series().rows[0], tokens_per_s=None, stated_speedup=measured)
    assert validate(_file(row)).frame["is_near_one"].to_list() == [is_near]
