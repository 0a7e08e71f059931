"""Charts and tables of the published table."""

from __future__ import annotations

import re

import altair as alt
import numpy as np
import polars as pl
import pytest

from specbook.display.charts import to_svg
from specbook.display.truth_page import compact, menu_labels, packed, rules_chart, series_page, terms_chart
from specbook.display.truth_tables import FAILURES, asked_frame, failures_frame, kind_of, lacks_frame, licences_frame
from specbook.display.validation_charts import predictions_chart
from specbook.validation.ablations import ablated
from specbook.validation.left_out import left_out_validation
from specbook.validation.scores import CHOICE, best_draft_lengths
from specbook.validation.yardsticks import yardsticks


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return left_out_validation().frame


class TestCharts:
    def test_packed_chart_draws_the_same(self, frame: pl.DataFrame) -> None:
        chart = predictions_chart(compact(frame), "Predicted over measured")
        small = packed(chart)
        assert len(small.to_json()) < 0.5 * len(chart.to_json())
        points = to_svg(chart.to_dict()).count('aria-roledescription="point"')
        assert to_svg(small.to_dict()).count('aria-roledescription="point"') == points > 100

    def test_packed_chart_leaves_short_data_and_the_original_alone(self) -> None:
        few = alt.InlineData(values=[{"x": 1.0}])
        many = alt.InlineData(values=[{"x": float(x), "name": "a, b"} for x in range(40)])
        chart = alt.layer(*(alt.Chart(data).mark_point().encode(x="x:Q") for data in (few, many)))
        small = packed(chart)
        assert small.layer[0].data.values == [{"x": 1.0}]
        assert small.layer[1].data.values.splitlines()[1] == '0.0,"a, b"'
        assert chart.to_dict() == alt.layer(*chart.layer).to_dict()
        assert "csv" not in chart.to_json()

    def test_rules_without_a_speedup_have_no_bar(self) -> None:
        svg = to_svg(rules_chart(yardsticks(), "Rules").to_dict())
        assert "Leviathan" in svg
        assert "always draft" not in svg

    def test_terms_are_drawn_by_what_they_are_worth(self) -> None:
        chart = terms_chart(ablated(), "Terms").to_dict()
        first, *_, last = chart["layer"][0]["encoding"]["y"]["sort"]
        worth = dict(ablated().select("term", pl.col("median_without") - pl.col("median_with")).iter_rows())
        assert worth[first] == max(worth.values())
        assert worth[last] == min(worth.values())

    def test_menu_has_every_choice_once(self, frame: pl.DataFrame) -> None:
        labels = menu_labels(frame)
        choices = best_draft_lengths(frame).select(CHOICE).rows()
        assert sorted(labels.values()) == sorted(choices)

    @pytest.mark.parametrize("series", [None, "Kimi-K2, gsm8k"])
    def test_page_shows_the_chosen_series_with_its_choice(self, frame: pl.DataFrame, series: str | None) -> None:
        labels = menu_labels(frame)
        name, _, _, batch = labels[series or next(iter(labels))]
        svg = to_svg(series_page(frame, series).to_dict())
        assert svg.count(">batch ") == 1  # the sentence
        rows = frame.filter(pl.col("series") == name, pl.col("batch") == batch).sort("draft_length")
        drawn = {float(each) for each in re.findall(r"measured: ([0-9.]+);", svg)}
        assert sorted(drawn) == pytest.approx(sorted(rows["measured_speedup"]), rel=5e-3)


class TestTables:
    def test_every_compared_row_is_of_one_kind(self, frame: pl.DataFrame) -> None:
        failures = failures_frame(frame)
        assert failures["n_rows"].sum() == frame["error"].is_not_null().sum()
        assert failures["kind"].to_list() == [*FAILURES, "all others"]

    def test_a_row_is_of_the_first_kind_that_it_fits(self, frame: pl.DataFrame) -> None:
        cuda = frame.filter(series="llamacpp-rtx5060ti_qwen7b-cuda").with_columns(kind=kind_of())
        assert set(cuda["kind"]) == {"one server under CUDA"}

    def test_errors_of_a_kind_are_those_of_its_rows(self, frame: pl.DataFrame) -> None:
        scout = frame.filter(target_model="Llama-4-Scout-17B-16E")["error"].drop_nulls()
        row = failures_frame(frame).row(by_predicate=pl.col("kind") == "Llama-4-Scout", named=True)
        assert (row["lowest"], row["highest"], row["n_rows"]) == (scout.min(), scout.max(), scout.len())
        assert row["median"] == pytest.approx(np.median(np.abs(scout.to_numpy())))

    def test_rows_that_lack_one_thing_alone_are_no_more_than_those_that_lack_it(self, frame: pl.DataFrame) -> None:
        lacks = lacks_frame(frame)
        assert (lacks["lack nothing else"] <= lacks["rows"]).all()
        assert lacks["lack nothing else"].sum() <= frame["error"].is_null().sum() <= lacks["rows"].sum()

    def test_asked_figures_stand_beside_reached_ones(self) -> None:
        score = {"win_lose_right": 0.991, "best_k_within_one": 0.5, "median_absolute_error": 0.0617}
        found = asked_frame({"series": score}, 0.97)
        assert found["series left out"].to_list() == ["99.1 %", "50.0 %", "6.2 %"]
        assert found["always speculate"].to_list() == ["97.0 %", "", ""]

    def test_every_source_has_its_licence(self, frame: pl.DataFrame) -> None:
        licences = licences_frame(frame)
        assert licences["rows"].sum() == frame.height
        assert licences["licence"].null_count() == 0
