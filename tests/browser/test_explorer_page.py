"""The published sliders compute what numpy computes, at once, and ask nothing of any other machine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import Chrome

from specbook.acceptance.library import library_profile
from specbook.display.explorer import Explorer
from specbook.display.explorer_config import MAX_DRAFT_LENGTH, ExplorerConfig, step_time_label
from specbook.display.figures import DEVICES
from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model
from tests.browser.chromium import browser, open_page, page_errors, requests, wait_until

PAGE = "notebooks/06_roofline.html"
METHODS = ("draft_model", "eagle", "medusa", "ngram")
DOMAINS = ("conversation", "translation", "summarization", "qa", "math", "rag")
FIND = "const view = window.specbookViews.find(v => v && v.container().querySelector('[name=hardware]'));"
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
ROWS = FIND + "return view.data('data_0').map(row => [row.K, row.speedup, row.tpot_ms, row.baseline_tpot_ms]);"
TEXTS = FIND + "return [...view.container().querySelectorAll('.mark-text text')].map(t => t.textContent);"
CONTROLS = ["draft length K", "batch B", "context L", "hardware", "evidence", "method", "target weights", "step time"]
FORM = FIND + "const controls = [...view.container().querySelectorAll('input, select')];"
BOXES = (
    FIND
    + """
const box = e => { const {left, right, top, bottom} = e.getBoundingClientRect(); return {left, right, top, bottom}; };
const texts = [...view.container().querySelectorAll('.mark-text.role-mark text')];
return [box(view.container().querySelector('svg')), texts.map(box)];
"""
)


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    evidence = {name: library_profile(f"spec-bench-sps-vicuna-7b-{name}") for name in DOMAINS}
    hardware = tuple(map(catalogue_device, DEVICES))
    pair = {"target": model("Vicuna-7B-v1.3"), "draft": model("Llama-68M")}
    return Explorer(ExplorerConfig(**pair, hardware=hardware, evidence=evidence, methods=METHODS))


@pytest.fixture(scope="module")
def page(driver: Chrome, site: str) -> Chrome:
    requests(driver)
    page_errors(driver)
    open_page(driver, f"{site}/{PAGE}", n_charts=10)
    return driver


def settings() -> list[dict[str, Any]]:
    """Both ends of every slider and every entry of every menu, without their product."""
    ranges = {"draft_length": (0, 16), "batch": (1, 256), "context": (128, 2048)}
    ends = [dict(zip(ranges, values, strict=True)) for values in itertools.product(*ranges.values())]
    choices = list(itertools.product(METHODS, ("calibrated", "ideal"), ("bf16", "fp8", "int4")))
    cases = [
        ends[index % len(ends)]
        | {"hardware": device, "evidence": DOMAINS[index % len(DOMAINS)]}
        | dict(zip(("method", "step_time", "precision"), choices[index * 7 % len(choices)], strict=True))
        for index, device in enumerate(DEVICES * 4)
    ]
    middle = {"draft_length": 9, "batch": 37, "context": 1024, "hardware": "mi300x", "evidence": "rag"}
    return [*cases, *(middle | {"method": method} for method in METHODS)]


@pytest.mark.parametrize("at", settings(), ids=lambda at: "-".join(map(str, at.values())))
def test_explorer_page_at_a_setting_equals_numpy(page: Chrome, explorer: Explorer, at: dict[str, Any]) -> None:
    page.execute_script(SET, at)
    for name, value in at.items():
        explorer.controls[name].value = value
    lengths = np.arange(MAX_DRAFT_LENGTH + 1)
    expected = explorer.result(lengths)
    rows = np.array(page.execute_script(ROWS), dtype=float)
    np.testing.assert_array_equal(rows[:, 0], lengths)
    np.testing.assert_allclose(rows[:, 1], expected.speedup, rtol=1e-12)
    np.testing.assert_allclose(rows[:, 2], 1e3 * expected.tpot_s, rtol=1e-12)
    np.testing.assert_allclose(rows[:, 3], np.full(lengths.size, 1e3 * expected.baseline_tpot_s), rtol=1e-12)


def test_explorer_page_label_shows_what_numpy_says(page: Chrome, explorer: Explorer) -> None:
    at = {"draft_length": 7, "batch": 64, "context": 1024, "hardware": "m3-max", "evidence": "translation"}
    page.execute_script(SET, at)
    for name, value in at.items():
        explorer.controls[name].value = value
    texts = page.execute_script(TEXTS)
    best = explorer.best_draft_length()
    assert f"● yours: K = 7, speedup {explorer.result().speedup:.4f}" in texts
    assert any(text.startswith(f"◆ best: K = {best}, ") or (best == 0 and "do not speculate" in text) for text in texts)


@pytest.mark.parametrize("device", ["h100-sxm5", "m3-max"])
@pytest.mark.parametrize("step_time", ["calibrated", "ideal"])
def test_explorer_page_says_which_step_time_it_computes(page: Chrome, device: str, step_time: str) -> None:
    page.execute_script(SET, {"hardware": device, "step_time": step_time, "method": "eagle", "precision": "fp8"})
    texts = page.execute_script(TEXTS)
    assert step_time_label(catalogue_device(device), step_time) in texts
    assert "fp8 target, EAGLE head in bf16" in texts


def test_explorer_page_controls_have_names(page: Chrome) -> None:
    names = (
        FIND + "return [...view.container().querySelectorAll('input, select')].map(c => c.labels[0].innerText.trim())"
    )
    assert [name.split("\n")[0] for name in page.execute_script(names)] == CONTROLS


@pytest.fixture(scope="module")
def phone(site: str) -> Iterator[Chrome]:
    with browser(width=500) as chrome:
        metrics = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        open_page(chrome, f"{site}/{PAGE}")
        yield chrome


@pytest.mark.parametrize("method", METHODS)
def test_explorer_page_on_a_phone_shows_all_text_and_no_two_lines_overlap(phone: Chrome, method: str) -> None:
    at = {"hardware": "l4", "batch": 256, "context": 2048, "draft_length": 16, "method": method, "precision": "int4"}
    phone.execute_script(SET, at)
    frame, boxes = phone.execute_script(BOXES)
    assert len(boxes) == 6
    assert all(frame["left"] <= box["left"] and box["right"] <= frame["right"] for box in boxes)
    lines = sorted((box["top"], box["bottom"]) for box in boxes)
    assert all(below[0] >= above[1] - 2.0 for above, below in itertools.pairwise(lines))


def test_explorer_page_on_a_phone_fits_its_controls(phone: Chrome) -> None:
    ends = (
        FIND
        + "return [...view.container().querySelectorAll('input, select')].map(c => c.getBoundingClientRect().right)"
    )
    assert len(phone.execute_script(ends)) == len(CONTROLS)
    assert max(phone.execute_script(ends)) <= 360


def test_explorer_page_when_the_theme_changes_keeps_its_settings(page: Chrome) -> None:
    page.execute_script(SET, {"batch": 99})
    before = page.execute_script(FIND + "window.specbookBefore = view; return view.signal('batch');")
    assert before == 99
    for theme in ("dark", "light"):
        page.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
        again = "window.specbookViews.every(v => v !== window.specbookBefore)"
        drawn = "document.querySelectorAll('figure.specbook-chart:not([data-ready])').length === 0"
        wait_until(page, f"{again} && {drawn}")
        after = FIND + "const last = window.specbookBefore; window.specbookBefore = view; return view.signal('batch');"
        assert page.execute_script(after) == 99


def test_explorer_page_charts_have_names(page: Chrome) -> None:
    labels = "return [...document.querySelectorAll('figure.specbook-chart')].map(f => f.getAttribute('aria-label'))"
    assert all(page.execute_script(labels))


def test_explorer_page_says_when_nothing_fits(page: Chrome) -> None:
    page.execute_script(SET, {"hardware": "l4", "batch": 256, "context": 2048})
    assert any(text.startswith("✕ does not fit: ") for text in page.execute_script(TEXTS))
    page.execute_script(SET, {"batch": 1})
    assert not any("does not fit" in text for text in page.execute_script(TEXTS))


def test_explorer_page_asks_for_nothing_outside_and_reports_no_error(page: Chrome, site: str) -> None:
    asked = requests(page)
    assert asked, "the recording of requests does not work"
    assert [url for url in asked if not url.startswith(site)] == []
    assert page_errors(page) == []


def test_explorer_page_over_file_works_without_a_server(html: Path) -> None:
    with browser() as chrome:
        open_page(chrome, f"file://{html / PAGE}", n_charts=10)
        chrome.execute_script(SET, {"draft_length": 3})
        assert any("yours: K = 3" in text for text in chrome.execute_script(TEXTS))
        assert [url for url in requests(chrome) if not url.startswith("file://")] == []
        assert page_errors(chrome) == []
