"""The Explorer of load: one table behind both views, every stop of every slider, and grids a slider cannot show."""

from __future__ import annotations

import itertools
import json
from typing import Any

import polars as pl
import pytest

from specbook.display.charts import MIME
from specbook.display.load_explorer import LoadExplorer, best_by_load, example_grid

ORDER = ["requests_per_s", "draft_length", "burstiness"]


def _grid(**columns: Any) -> pl.DataFrame:
    """Two loads, three draft lengths, one kind of arrivals; K = 4 is best at 10, and K = 2 at 20, where 0 fails."""
    base = {
        "burstiness": [1.0] * 6,
        "requests_per_s": [10.0] * 3 + [20.0] * 3,
        "draft_length": [0, 2, 4] * 2,
        "tpot_p90_s": [0.008, 0.005, 0.004, 0.030, 0.009, 0.012],
        "ttft_p90_s": [0.02, 0.02, 0.03, 4.0, 0.04, 0.05],
        "mean_batch_size": [8.0, 5.0, 4.0, 90.0, 20.0, 26.0],
        "peak_kv_use": [0.1, 0.1, 0.1, 1.0, 0.3, 0.4],
        "stable": [True, True, True, False, True, True],
    }
    return pl.DataFrame(base | columns)


def _texts(explorer: LoadExplorer) -> list[str]:
    """What Vega writes into the page's chart, without a browser."""
    import vl_convert

    scene = vl_convert.vegalite_to_scenegraph(explorer.spec(), vl_version="6.4")
    found: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("text"), str):
                found.append(node["text"])
            for each in node.values():
                walk(each)
        elif isinstance(node, list):
            for each in node:
                walk(each)

    walk(scene)
    return found


@pytest.mark.parametrize("at", list(itertools.product((10.0, 20.0), (0, 2, 4))), ids=str)
def test_page_says_word_for_word_what_the_live_view_says(at: tuple[float, int]):
    explorer = LoadExplorer(_grid(), requests_per_s=at[0], draft_length=at[1])
    assert set(explorer.sentences()) <= set(_texts(explorer))


def test_page_of_a_simulated_grid_says_what_the_live_view_says():
    explorer = LoadExplorer(example_grid(), requests_per_s=20.0, draft_length=2, burstiness=0.25)
    assert set(explorer.sentences()) <= set(_texts(explorer))


def test_readout_follows_the_sliders():
    explorer = LoadExplorer(_grid())
    assert "yours: K = 0, P90 TPOT 8.00 ms, TTFT 20 ms" in explorer.readout
    assert "best: K = 4, P90 TPOT 4.00 ms" in explorer.readout
    explorer.controls["requests_per_s"].value = 20.0
    assert "yours: K = 0 cannot keep up, the queue grows" in explorer.readout
    assert "best: K = 2, P90 TPOT 9.00 ms" in explorer.readout
    explorer.controls["draft_length"].value = 4
    assert "mean batch 26.0, cache at most 40 % full" in explorer.readout


def test_halves_are_rounded_alike_on_both_sides():
    halves = {"ttft_p90_s": [0.0125] * 6, "peak_kv_use": [0.125] * 6, "mean_batch_size": [6.25] * 6}
    explorer = LoadExplorer(_grid(**halves))
    assert "TTFT 13 ms" in explorer.readout
    assert "mean batch 6.3, cache at most 13 % full" in explorer.readout
    assert set(explorer.sentences()) <= set(_texts(explorer))


def test_nothing_stable_has_no_best():
    explorer = LoadExplorer(_grid(stable=[True] * 3 + [False] * 3), requests_per_s=20.0)
    assert explorer.best_draft_length() is None
    assert "no draft length keeps up with this load" in explorer.readout
    assert set(explorer.sentences()) <= set(_texts(explorer))


def test_equal_latencies_go_to_the_shorter_draft():
    explorer = LoadExplorer(_grid(tpot_p90_s=[0.008, 0.004, 0.004, 0.03, 0.01, 0.01]))
    assert explorer.best_draft_length() == 2
    assert best_by_load(explorer.grid)["draft_length"].to_list() == [2, 2]


def test_best_by_load_gains_nothing_where_plain_decoding_is_unstable():
    best = best_by_load(_grid())
    assert best["draft_length"].to_list() == [4, 2]
    assert best["gain"].to_list() == [2.0, None]


def test_best_by_load_leaves_out_loads_that_nothing_serves():
    assert best_by_load(_grid(stable=[True] * 3 + [False] * 3))["requests_per_s"].to_list() == [10.0]


def test_controls_are_the_same_on_both_sides_and_start_alike():
    explorer = LoadExplorer(example_grid(), requests_per_s=20.0, draft_length=4, burstiness=0.25)
    page = {each["name"]: each for each in explorer.spec()["params"]}
    assert list(explorer.controls) == list(page) == ORDER
    assert {name: each["value"] for name, each in page.items()} == explorer.values()
    for name in ORDER[:2]:
        bind = page[name]["bind"]
        stops = [value for _, value in explorer.controls[name].options]
        assert stops[0] == bind["min"]
        assert stops[-1] == bind["max"]
        assert stops[1] - stops[0] == bind["step"]
    assert page["burstiness"]["bind"]["options"] == [value for _, value in explorer.controls["burstiness"].options]


def test_page_holds_one_row_a_load_with_arrays_over_the_draft_length():
    spec = LoadExplorer(example_grid()).spec()
    (rows,) = spec["datasets"].values()
    assert len(rows) == 4
    assert all(row["K"] == [0, 2, 4] for row in rows)
    assert len(json.dumps(spec)) < 12_000


def test_output_carries_live_view_page_view_and_text():
    bundle = LoadExplorer(_grid(), draft_length=4)._repr_mimebundle_()
    assert bundle.keys() >= {MIME, "application/vnd.jupyter.widget-view+json", "text/plain"}
    assert "requests_per_s=10 draft_length=4 burstiness=1: yours: K = 4" in bundle["text/plain"]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"load": 10.0}, "no such control: load"),
        ({"draft_length": 3}, "draft_length must be one of 0, 2, 4; got 3"),
        ({"burstiness": 0.5}, "burstiness must be one of 1; got 0.5"),
    ],
)
def test_start_that_the_grid_does_not_have_is_refused(start: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        LoadExplorer(_grid(), **start)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (_grid().clear(), "at least one row"),
        (_grid().head(5), "every combination"),
        (pl.concat([_grid().head(5), _grid().head(1)]), "every combination"),
        (_grid(draft_length=[0, 2, 8] * 2), "draft_length must be evenly spaced"),
        (_grid(tpot_p90_s=[0.008, 0.005, 0.004, 0.03, 0.009, float("nan")]), "tpot_p90_s"),
    ],
)
def test_grid_that_a_slider_cannot_show_is_refused(grid: pl.DataFrame, message: str):
    with pytest.raises(ValueError, match=message):
        LoadExplorer(grid)


def test_grid_is_simulated_under_the_same_requests():
    grid = example_grid()
    assert grid.select("burstiness", "requests_per_s", "draft_length").n_unique() == grid.height == 12
    plain = grid.filter(draft_length=0)
    assert plain["tpot_p90_s"].to_list() == pytest.approx([0.010] * 4)
