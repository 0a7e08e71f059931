"""Charts of a validation: what they are made of, and that each can be drawn."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

from specbook.display import validation_charts, validation_error_charts, validation_row_charts
from specbook.display.charts import PALETTE, QUIET, to_svg
from specbook.display.validation_charts import MOST_POINTS, compared_frame, predictions_chart
from specbook.display.validation_error_charts import MOST_GROUPS, errors_chart, errors_frame
from specbook.display.validation_page import validation_html, validation_page
from specbook.display.validation_row_charts import (
    draft_lengths_chart,
    draft_lengths_frame,
    rounds_chart,
    rounds_frame,
    varying_series,
)
from specbook.validation.explain import explained
from specbook.validation.rounds import TERMS
from tests.validation_cases import compared, incomplete, problem, validation_of

LENGTHS = [
    compared(2, 1.5, 1.6, draft_length=3.0, predicted_low=1.4, predicted_high=1.8),
    compared(3, 2.0, 1.9, draft_length=5.0, predicted_low=1.6, predicted_high=2.1),
    compared(4, 0.9, 1.2, draft_length=3.0, batch=8),
]
FRAME = validation_of(*LENGTHS, incomplete(5, "batch", batch=None)).frame


def _layer(chart: Any, mark: str) -> dict[str, Any]:
    return next(layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == mark)


def _values(chart: Any, mark: str) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    data = _layer(chart, mark)["data"]
    return spec["datasets"][data["name"]] if "name" in data else data["values"]


def test_points_are_the_compared_rows_and_say_what_is_not_stated() -> None:
    rows = compared_frame(validation_of(*LENGTHS, compared(6, 1.5, 1.5, draft_length=None, workload="")).frame)
    assert rows["line"].to_list() == [2, 3, 4, 6]
    assert rows["K"].to_list() == ["3", "5", "3", "not stated"]
    assert rows["workload"].to_list() == ["chat", "chat", "chat", "not stated"]
    assert rows["assumptions"].unique().to_list() == ["not stated"]


@pytest.mark.parametrize(("length", "told"), [(3.0, "3"), (4.890586, "4.89"), (16.0, "16")])
def test_lengths_are_told_without_digits_that_say_nothing(length: float, told: str) -> None:
    assert compared_frame(validation_of(compared(2, 1.5, 1.6, draft_length=length)).frame)["K"].item() == told


def test_colours_go_to_the_largest_groups_and_grey_to_the_rest() -> None:
    rows = [compared(line, 1.5, 1.6, engine=f"engine {line % 9}") for line in range(2, 30)]
    frame = validation_of(*rows).frame
    sizes = frame["engine"].value_counts().sort("count", "engine", descending=[True, False])
    scale = _layer(predictions_chart(frame, "t"), "point")["encoding"]["color"]["scale"]
    assert scale["domain"] == [*sizes["engine"][: len(PALETTE)], f"{9 - len(PALETTE)} others"]
    assert scale["range"] == [*PALETTE, QUIET]
    assert len(set(scale["range"])) <= 8


def test_few_groups_keep_their_names() -> None:
    assert compared_frame(FRAME, "batch")["group"].to_list() == ["1", "1", "8"]


def test_axes_are_the_same_and_hold_every_point_and_one() -> None:
    rows = [compared(2, 0.2, 1.5), compared(3, 1.1, 9.0)]
    encoding = _layer(predictions_chart(validation_of(*rows).frame, "t"), "point")["encoding"]
    assert encoding["x"]["scale"] == encoding["y"]["scale"]
    low, high = encoding["x"]["scale"]["domain"]
    assert low < 0.2
    assert high > 9.0
    assert encoding["x"]["scale"]["type"] == "log"


def test_the_band_is_eight_percent_of_the_measured_speedup() -> None:
    values = _values(predictions_chart(FRAME, "t"), "area")
    assert len(values) == 2
    for row in values:
        assert row["under"] / row["measured_speedup"] == pytest.approx(0.92, rel=1e-4)
        assert row["over"] / row["measured_speedup"] == pytest.approx(1.08, rel=1e-4)


def test_many_rows_are_thinned_and_the_chart_says_so() -> None:
    n_rows = 2 * MOST_POINTS + 1
    frame = pl.concat([validation_of(compared(2, 1.5, 1.6)).frame] * n_rows)
    chart = predictions_chart(frame, "t")
    assert len(_values(chart, "point")) <= MOST_POINTS
    assert f"of {n_rows:,} rows" in chart.to_dict()["title"]["subtitle"]


def test_errors_have_counts_and_quartiles_of_their_group() -> None:
    rows = [compared(line, 1.0, 1.0 + 0.1 * line, target_model="a") for line in range(1, 6)]
    found = errors_frame(validation_of(*rows, compared(9, 2.0, 1.0, target_model="b")).frame)
    assert found["group"].unique(maintain_order=True).to_list() == ["5 × a", "1 × b"]
    first = found.row(0, named=True)
    assert [first[name] for name in ("low", "middle", "high")] == pytest.approx([1.2, 1.3, 1.4])


def test_of_many_groups_the_largest_are_shown() -> None:
    rows = [compared(line, 1.0, 1.1, target_model=f"m{line % (MOST_GROUPS + 5)}") for line in range(100)]
    assert errors_frame(validation_of(*rows).frame)["group"].n_unique() == MOST_GROUPS


def test_the_scale_of_errors_puts_half_and_twice_equally_far() -> None:
    chart = errors_chart(validation_of(compared(2, 1.0, 0.5), compared(3, 1.0, 2.0)).frame, "t")
    low, high = _layer(chart, "point")["encoding"]["x"]["scale"]["domain"]
    assert math.log(high) == pytest.approx(-math.log(low), rel=0.01)


def test_series_are_chosen_where_the_length_varies_at_one_batch() -> None:
    assert varying_series(FRAME) == [("mine", 1)]


def test_series_are_taken_from_each_target_in_turn() -> None:
    rows = [
        compared(line, 1.5, 1.6, series=series, target_model=series[0], draft_length=length)
        for line, (series, length) in enumerate((s, k) for s in ("a1", "a2", "b1") for k in (3.0, 5.0))
    ]
    assert [series for series, _ in varying_series(validation_of(*rows).frame, 2)] == ["a1", "b1"]


def test_curves_are_measured_and_predicted_with_its_interval() -> None:
    curves = draft_lengths_frame(FRAME, "mine", 1)
    assert curves.filter(kind="measured")["speedup"].to_list() == [1.5, 2.0]
    assert curves.filter(kind="measured")["low"].null_count() == 2
    assert curves.filter(kind="predicted").select("K", "low", "high").rows() == [(3.0, 1.4, 1.8), (5.0, 1.6, 2.1)]


def test_a_predicted_round_ends_where_the_error_puts_it() -> None:
    rounds = rounds_frame(FRAME, [4, 3])
    ends = rounds.group_by("row", maintain_order=True).agg(pl.col("end").last(), pl.col("ms").sum())
    errors = [1.2 / 0.9 - 1.0, 1.9 / 2.0 - 1.0]
    assert ends["end"].to_list() == pytest.approx([1.0 / (1.0 + error) for error in errors])
    assert rounds["start"].to_list()[1 : len(TERMS)] == rounds["end"].to_list()[: len(TERMS) - 1]
    assert rounds["label"][0] == "line 4: +33 %, K 3, batch 8, mine"
    assert rounds["label"][-1].startswith("line 3: −5 %")


def test_rounds_that_cannot_be_told_are_left_out() -> None:
    outside = compared(2, 2.0, 1.5, outside_s=0.01)  # more than a whole measured token
    assert rounds_frame(validation_of(outside).frame, [2, 99]).is_empty()


@pytest.mark.parametrize(
    "chart",
    [
        predictions_chart(FRAME, "t"),
        predictions_chart(FRAME, "t", by="target_model"),
        errors_chart(FRAME, "t"),
        draft_lengths_chart(FRAME, "mine", 1),
        rounds_chart(FRAME, [2, 3, 4], "t"),
    ],
)
@pytest.mark.parametrize("width", [328, 720])
def test_every_chart_can_be_drawn(chart: Any, width: int) -> None:
    assert to_svg(chart.to_dict(), width=width).startswith("<svg")


def test_a_narrow_chart_says_won_and_lost_in_short() -> None:
    spec = predictions_chart(FRAME, "t").to_dict()
    assert "not foreseen" in to_svg(spec, width=720)
    assert to_svg(spec, width=328).count("as foreseen") < to_svg(spec, width=720).count("as foreseen")


def test_the_page_holds_every_chart_and_every_list() -> None:
    validation = validation_of(*LENGTHS, incomplete(5, "batch"), problems=[problem(6)])
    page = validation_html(validation, explained(validation, 2))
    assert page.count('<figure class="specbook-chart"') == 4
    for words in ("Speedup over the draft length", "Furthest off", "Rows that lack something", "not used: line 6"):
        assert words in page
    assert "http://" not in page.partition("<body>")[2].partition("<script>")[0]


def test_the_page_leaves_out_what_there_is_not() -> None:
    validation = validation_of(compared(2, 1.5, 1.6))
    text = "".join(part.astext() for part in validation_page(validation, explained(validation, 0)))
    for words in ("Speedup over the draft length", "Furthest off", "Rows that lack something", "Problems"):
        assert words not in text


def test_names_of_a_file_cannot_become_markup() -> None:
    hostile = "</script><b>\x1b[1m"
    labels = dict.fromkeys(("series", "engine", "target_model", "workload", "hardware"), hostile)
    rows = [compared(line, 1.5, 1.6, draft_length=float(line), **labels) for line in (2, 3)]
    validation = validation_of(*rows, incomplete(5, hostile), problems=[problem(6, hostile)])
    body = validation_html(validation, explained(validation, 2)).partition("<article>")[2].partition("</article>")[0]
    assert "<b>" not in body
    assert "\x1b" not in body


def test_a_drawing_holds_no_character_that_its_format_forbids() -> None:
    hostile = dict.fromkeys(("series", "engine", "target_model", "workload"), "a\x1b\x00[1m")
    frame = validation_of(*(compared(line, 1.5, 1.6, draft_length=float(line), **hostile) for line in (2, 3))).frame
    charts = [predictions_chart(frame, "t"), errors_chart(frame, "t"), rounds_chart(frame, [2], "t")]
    for chart in [*charts, draft_lengths_chart(frame, hostile["series"], 1)]:
        assert "a\\x1b\\x00[1m" in to_svg(chart.to_dict())
        assert not {"\x1b", "\x00"} & set(to_svg(chart.to_dict()))


def test_every_module_of_charts_is_tested_here() -> None:
    modules = (validation_charts, validation_error_charts, validation_row_charts)
    public = {name for module in modules for name in vars(module) if name.endswith("_chart")}
    assert public == {"predictions_chart", "errors_chart", "draft_lengths_chart", "rounds_chart"}
