"""The Explorer of load on its page: its sliders choose the simulation that the live view chooses, word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from selenium.webdriver import Chrome

from specbook.display.charts import MIME
from specbook.display.load_explorer import LoadExplorer
from tests.browser.chromium import open_page, page_errors

ROOT = Path(__file__).resolve().parents[2]
PAGE = "notebooks/07_serving.html"
FIND = "const view = window.specbookViews.find(v => v && v.container().querySelector('[name=requests_per_s]'));"
SET = (
    FIND
    + """
for (const [name, value] of Object.entries(arguments[0])) {
  const control = view.container().querySelector(`[name=${name}]`);
  control.value = value;
  control.dispatchEvent(new Event(control.tagName === 'SELECT' ? 'change' : 'input', {bubbles: true}));
}
return view.runAsync().then(() => true);
"""
)
TEXTS = FIND + "return [...view.container().querySelectorAll('.mark-text text')].map(t => t.textContent);"
POINTS = (
    FIND
    + """
return [...view.container().querySelectorAll('.mark-symbol path')].map(p => p.getAttribute('transform')).join(' ');
"""
)
SETTINGS = [
    {"requests_per_s": load, "draft_length": length, "burstiness": burstiness}
    for load, length, burstiness in [(10, 0, 1), (10, 8, 0.25), (30, 4, 1), (40, 2, 0.25), (50, 0, 1), (50, 8, 0.25)]
]


@pytest.fixture(scope="module")
def explorer() -> LoadExplorer:
    """The chapter's, from the table that its page carries."""
    notebook = json.loads((ROOT / "notebooks" / "07_serving.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    specs = [output["data"][MIME] for output in outputs if MIME in output.get("data", {})]
    spec = next(each for each in specs if "requests_per_s" in str(each.get("params")))
    (rows,) = spec["datasets"].values()
    lists = [name for name, value in rows[0].items() if isinstance(value, list)]
    return LoadExplorer(pl.DataFrame(rows).explode(lists).rename({"K": "draft_length"}))


@pytest.fixture(scope="module")
def page(driver: Chrome, site: str) -> Chrome:
    page_errors(driver)
    open_page(driver, f"{site}/{PAGE}", n_charts=10)
    return driver


@pytest.mark.parametrize("at", SETTINGS, ids=lambda at: "-".join(map(str, at.values())))
def test_load_page_at_a_setting_says_what_the_live_view_says(
    page: Chrome, explorer: LoadExplorer, at: dict[str, Any]
) -> None:
    page.execute_script(SET, at)
    for name, value in at.items():
        explorer.controls[name].value = value
    assert set(explorer.sentences()) <= set(page.execute_script(TEXTS))


def test_load_page_sliders_move_the_points(page: Chrome) -> None:
    page.execute_script(SET, {"requests_per_s": 10, "draft_length": 4, "burstiness": 1})
    before = page.execute_script(POINTS)
    page.execute_script(SET, {"requests_per_s": 40})
    after = page.execute_script(POINTS)
    assert before != after
    page.execute_script(SET, {"burstiness": 0.25})
    assert page.execute_script(POINTS) != after
    page.execute_script(SET, {"requests_per_s": 10, "burstiness": 1})
    assert page.execute_script(POINTS) == before


def test_load_page_says_when_the_queue_grows(page: Chrome) -> None:
    page.execute_script(SET, {"requests_per_s": 50, "draft_length": 8, "burstiness": 1})
    assert any("cannot keep up, the queue grows" in text for text in page.execute_script(TEXTS))
    page.execute_script(SET, {"requests_per_s": 10})
    assert not any("cannot keep up" in text for text in page.execute_script(TEXTS))
    assert page_errors(page) == []
