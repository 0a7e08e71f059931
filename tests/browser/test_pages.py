"""Every page of the book, in a browser without a network: equations, charts, width on a phone, both themes."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.browser.chromium import browser, open_page, page_errors, requests, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "book/index.html",
    "book/doctrine/combinatorial_trap.html",
    "book/doctrine/decoupling.html",
    "book/doctrine/funnel.html",
    "book/doctrine/trees.html",
    "book/doctrine/gates.html",
    "book/doctrine/native_execution.html",
    "book/doctrine/serving.html",
    "notebooks/01_acceptance.html",
    "notebooks/02_draft_models.html",
    "notebooks/03_engine.html",
    "notebooks/04_parity.html",
    "notebooks/05_probe.html",
    "notebooks/06_roofline.html",
    "notebooks/07_serving.html",
    "notebooks/08_witness.html",
    "notebooks/09_funnel.html",
    "notebooks/10_truth_table.html",
    "book/results.html",
    "book/this_machine.html",
    "book/how-to/bring_your_acceptance.html",
    "book/how-to/acceptance_files.html",
    "book/how-to/measure_acceptance.html",
    "book/how-to/check_parity.html",
    "book/how-to/probe_your_machine.html",
    "book/how-to/sweep_a_grid.html",
    "book/how-to/bring_step_times.html",
    "book/how-to/traces.html",
    "book/how-to/simulate_serving.html",
    "book/how-to/witness.html",
    "book/how-to/run_the_funnel.html",
    "book/how-to/deploy.html",
    "book/how-to/from_vllm.html",
    "book/how-to/from_sglang.html",
    "book/how-to/from_llama_cpp.html",
    "book/how-to/cluster.html",
    "book/how-to/validate_a_series.html",
    "book/how-to/calibrate_a_fleet.html",
    "book/how-to/file_formats.html",
    "book/catalogue.html",
    "book/models.html",
    "book/notation.html",
    "book/glossary.html",
    "book/bibliography.html",
]


def test_pages_are_all_that_the_book_has(html: Path) -> None:
    built = {
        str(page.relative_to(html)) for folder in ("book", "notebooks") for page in (html / folder).rglob("*.html")
    }
    assert built == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_page_asks_for_nothing_outside_and_reports_no_error(driver: Chrome, site: str, page: str) -> None:
    requests(driver)
    page_errors(driver)
    open_page(driver, f"{site}/{page}")
    asked = requests(driver)
    assert asked
    assert [url for url in asked if not url.startswith(site)] == []
    assert page_errors(driver) == []


@pytest.mark.parametrize("page", ["book/doctrine/decoupling.html", "notebooks/01_acceptance.html"])
def test_page_with_formulas_sets_them(driver: Chrome, site: str, page: str) -> None:
    open_page(driver, f"{site}/{page}")
    assert (
        driver.execute_script("return document.querySelectorAll('mjx-container svg, mjx-container mjx-math').length")
        > 3
    )
    assert driver.execute_script("return document.querySelectorAll('mjx-merror').length") == 0


@pytest.fixture(scope="module")
def phone() -> Chrome:
    with browser(width=500) as chrome:
        metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield chrome


@pytest.mark.parametrize("page", PAGES)
def test_page_on_a_phone_is_not_wider_than_the_screen(phone: Chrome, site: str, page: str) -> None:
    open_page(phone, f"{site}/{page}")
    assert phone.execute_script("return document.documentElement.scrollWidth") <= 390
    wide = "return [...document.querySelectorAll('figure.specbook-chart svg')].filter(s => s.clientWidth > 390).length"
    assert phone.execute_script(wide) == 0


@pytest.mark.parametrize(
    "page", ["book/notation.html", "book/how-to/acceptance_files.html", "book/how-to/file_formats.html"]
)
def test_page_on_a_phone_keeps_names_in_tables_whole(phone: Chrome, site: str, page: str) -> None:
    open_page(phone, f"{site}/{page}")
    broken = (
        "return [...document.querySelectorAll('article td code')].filter(c => c.getClientRects().length > 1).length"
    )
    assert phone.execute_script("return document.querySelectorAll('article td code').length") > 5
    assert phone.execute_script(broken) == 0


def test_page_of_results_shows_what_the_funnel_wrote(driver: Chrome, site: str) -> None:
    open_page(driver, f"{site}/book/results.html", n_charts=6)
    text = driver.execute_script("return document.querySelector('article').innerText")
    assert "sapphire-rapids" in text
    assert "truncation" in text
    assert "has not been run" not in text


def test_page_of_results_draws_folded_charts_when_they_are_opened(driver: Chrome, site: str) -> None:
    open_page(driver, f"{site}/book/results.html", n_charts=6)
    drawn = "[...document.querySelectorAll('figure.specbook-chart svg')].filter(s => s.clientWidth > 300).length"
    driver.execute_script("document.querySelector('details:has(figure)').open = true")
    wait_until(driver, f"{drawn} === 6")
    labels = "return [...document.querySelectorAll('figure.specbook-chart')].map(f => f.getAttribute('aria-label'))"
    assert all(driver.execute_script(labels))


def test_page_yield_slider_computes_the_closed_form(driver: Chrome, site: str) -> None:
    open_page(driver, f"{site}/notebooks/01_acceptance.html")
    script = """
    const view = window.specbookViews.find(v => v.container().querySelector('[name=conditional_acceptance]'));
    const slider = view.container().querySelector('[name=conditional_acceptance]');
    slider.value = 0.9;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    const names = () => Object.keys(view.getState({data: () => true, signals: () => false}).data);
    const holds = rows => rows.length === 17 && 'tokens' in rows[0];
    return view.runAsync().then(() => names().map(n => view.data(n)).find(holds).map(row => row.tokens));
    """
    tokens = driver.execute_script(script)
    assert tokens == pytest.approx([(1 - 0.9 ** (k + 1)) / 0.1 for k in range(17)], rel=1e-12)
