"""Charts of the serving simulation: what their rows say, and that a renderer draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.display import serving_charts as views
from specbook.display.charts import to_svg
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.result import ServingResult, simulate_serving
from specbook.serving.round_law import chain_law
from specbook.serving.serving_config import ServingConfig
from specbook.serving.workload import Workload


def _run(acceptance: list[float], arrival_s: list[float] | None = None, **changes: Any) -> ServingResult:
    arrivals = np.array([0.0] if arrival_s is None else arrival_s)
    lengths = np.full(arrivals.size, 300), np.full(arrivals.size, 4)
    workload = Workload(arrival_s=arrivals, prompt_tokens=lengths[0], output_tokens=lengths[1])
    base: dict[str, Any] = {
        "kv": KvConfig(n_blocks=400),
        "iteration_time": ConstantIterationTime(seconds=0.010),
        "chunk_tokens": 100,
        "policy": FixedDraft(law=chain_law(acceptance)),
    }
    return simulate_serving(ServingConfig(**(base | changes)), workload, rng=np.random.default_rng(0))


def test_timeline_of_one_request_is_the_count_by_hand():
    frame = views.timeline_frame({"plain": _run([]), "drafts": _run([1.0, 0.0])})
    plain, drafts = (frame.filter(run=name) for name in ("plain", "drafts"))
    assert plain["end_ms"].to_list() == pytest.approx([10, 20, 30, 40, 50, 60])
    assert plain["tokens"].to_list() == [0, 0, 1, 1, 1, 1]
    assert drafts["tokens"].to_list() == [0, 0, 1, 2, 1]
    assert drafts["work"].to_list() == ["chunk of the prompt"] * 3 + ["decode round"] * 2


def test_timeline_shows_only_tokens_that_come_out():
    spec = views.timeline_chart(views.timeline_frame({"plain": _run([])}), "Time").to_dict()
    (rows,) = spec["datasets"].values()
    labels = [row["label"] for row in rows]
    assert labels == ["", "", "+1", "+1", "+1", "+1"]


@pytest.mark.parametrize("acceptance", [[], [0.5] * 4])
def test_little_agrees_between_the_two_logs(acceptance: list[float]):
    frame = views.little_frame({"run": _run(acceptance, [0.0, 0.004, 0.031, 0.9, 0.9])})
    assert frame["running"][0] == pytest.approx(frame["rate_times_time"][0], rel=1e-12)
    assert frame["running"][0] > 0.0


def test_use_is_the_mean_over_the_iterations_of_a_bin():
    result = _run([])
    use = views.use_frame({"run": result}, bin_s=10.0)
    expected = float(result.iterations["kv_blocks_used"].mean() or 0.0) / 400  # all iterations are equally long
    assert use["kv_use"].to_list() == pytest.approx([expected])
    assert use["time_s"].to_list() == [5.0]
    assert views.use_frame({"run": result}, bin_s=0.02)["time_s"].to_list() == pytest.approx([0.01, 0.03, 0.05])


def test_load_chart_leaves_unstable_points_hollow():
    frame = pl.DataFrame(
        {"policy": ["K = 2"] * 2, "requests_per_s": [8.0, 16.0], "tpot_p90_s": [0.004, 0.1], "stable": [True, False]}
    )
    spec = views.load_chart(frame, "Load").to_dict()
    fill = spec["layer"][1]["encoding"]["fill"]
    assert fill["condition"]["test"] == "datum.stable"
    assert fill["value"] == "transparent"


def test_best_chart_says_when_only_drafting_keeps_up():
    best = pl.DataFrame(
        {
            "burstiness": [1.0, 0.25],
            "requests_per_s": [8.0, 8.0],
            "draft_length": [4, 2],
            "gain": [2.14, None],
        }
    )
    (rows,) = views.best_chart(best, "Best").to_dict()["datasets"].values()
    assert [row["label"] for row in rows] == ["4 · 2.1×", "2 · only"]
    assert [row["arrivals"] for row in rows] == ["steady", "bursty"]


CHARTS = {
    "timeline": lambda: views.timeline_chart(views.timeline_frame({"one": _run([])}), "T"),
    "little": lambda: views.little_chart(views.little_frame({"a": _run([]), "b": _run([0.5])}), "T"),
    "use": lambda: views.use_chart(views.use_frame({"one": _run([])}, 0.02), "T"),
    "wait": lambda: views.wait_chart(
        pl.DataFrame({"requests_per_s": [1.0, 2.0], "wait_ms": [2.0, 3.0]}),
        pl.DataFrame({"requests_per_s": [1.0], "wait_ms": [2.1], "low_ms": [1.9], "high_ms": [2.3]}),
        "T",
    ),
    "cliff": lambda: views.cliff_chart(
        pl.DataFrame({"run": ["a", "a"], "n_blocks": [800, 900], "ttft_p99_s": [2.0, 0.02], "preemptions": [9, 0]}),
        770.4,
        "T",
    ),
    "goodput": lambda: views.goodput_chart(
        pl.DataFrame(
            {"name": ["a"], "goodput_requests_per_s": [3.0], "viable": [False], "reason": ["p90 TPOT 30 ms > 12 ms"]}
        ),
        "T",
    ),
}

UNITS = {
    "timeline": "(ms)", "little": "requests", "use": "(s)", "wait": "(ms)", "cliff": "(s)", "goodput": "second"
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_drawn_with_a_title_and_units_on_its_axes(name: str):
    svg = to_svg(CHARTS[name]().to_dict())
    assert ">T<" in svg
    assert UNITS[name] in svg
