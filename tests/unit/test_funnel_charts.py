"""Charts of the funnel: their rows add up to what entered, say every reason, and a renderer draws them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.deploy.example import example_plan
from specbook.display import funnel_charts as views
from specbook.display.charts import to_svg
from specbook.stage_folder import Gate
from specbook.stages.plan import STAGE_NAMES

GATES = {
    "1-acceptance": Gate(entered=1, left=1, dropped={}),
    "3-roofline": Gate(entered=450, left=6, dropped={"does not fit in memory": 100, "not faster": 344}),
    "5-witness": Gate(entered=0, left=0, dropped={}),
}


def _rows(chart: Any) -> list[dict[str, Any]]:
    return next(rows for rows in chart.to_dict()["datasets"].values() if "text" in rows[0] or "run" in rows[0])


def test_gates_are_told_in_order_with_their_counts():
    assert views.gates_frame(GATES)["text"].to_list() == [
        "1 acceptance: 1 of 1 profiles",
        "3 roofline: 6 of 450 configurations",
        "100 does not fit in memory",
        "344 not faster",
        "5 witness: nothing entered",
    ]


@given(
    st.dictionaries(
        st.sampled_from(STAGE_NAMES), st.tuples(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3)), min_size=1
    )
)
def test_bars_of_a_stage_cover_it_once(counts: dict[str, tuple[int, list[int]]]):
    gates = {
        name: Gate(entered=left + sum(lost), left=left, dropped={f"reason {i}": n for i, n in enumerate(lost)})
        for name, (left, lost) in counts.items()
    }
    rows = views.gates_frame(gates).to_dicts()
    for name, gate in gates.items():
        own = [row for row in rows if row["stage"] == name.replace("-", " ", 1)]
        assert sum(row["count"] for row in own) == gate.entered
        assert own[0]["start"] == 0.0
        assert all(before["end"] == pytest.approx(after["start"]) for before, after in pairwise(own))
        assert own[-1]["end"] == pytest.approx(1.0 if gate.entered else 0.0)


def test_a_reason_that_dropped_nothing_has_no_bar():
    gate = Gate(entered=2, left=2, dropped={"too slow": 0})
    assert views.gates_frame({"3-roofline": gate}).height == 1


def test_gains_leave_out_the_baseline_and_keep_what_could_not_be_simulated():
    comparison = views.example_comparison().with_columns(
        tail_gain=pl.when(pl.col("kind") == "draft").then(None).otherwise("tail_gain")
    )
    frame = views.gains_frame(comparison)
    assert frame["draft"].to_list() == ["K = 4", "schedule"]
    assert frame["under_load"].to_list() == [None, 1.2]
    assert "K = 4" in to_svg(views.gains_chart(frame, "Gain").to_dict())


def test_gains_of_a_tree_name_its_nodes():
    tree = views.example_comparison().with_columns(tree_nodes=pl.Series([None, 16, None], dtype=pl.Int64))
    assert views.gains_frame(tree)["draft"].to_list()[0] == "K = 4, 16 nodes"


def test_schedules_are_drawn_without_holes_and_the_last_range_is_open():
    rows = _rows(views.schedules_chart({"3 %": views.schedule_frame(example_plan().schedules)}, "Schedule"))
    assert [row["draft_length"] for row in rows] == [4, 2, 0]
    assert [row["end"] for row in rows[:-1]] == [row["first_batch"] for row in rows[1:]]
    assert rows[-1]["end"] > rows[-1]["last_batch"]


def test_schedule_of_several_contexts_has_a_row_for_each_range():
    (place,) = example_plan().schedules
    frame = views.schedule_frame([place, replace(place, first_context=4096)])
    assert frame["context"].to_list() == [512] * 3 + [4096] * 3


@pytest.mark.parametrize(
    "chart",
    [
        views.gates_chart(GATES),
        views.gains_chart(views.gains_frame(views.example_comparison()), "Gain"),
        views.schedules_chart({"3 %": views.schedule_frame(example_plan().schedules)}, "Schedule"),
    ],
)
def test_a_renderer_draws_it(chart: Any):
    assert to_svg(chart.to_dict()).startswith("<svg")
