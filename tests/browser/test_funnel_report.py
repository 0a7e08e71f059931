"""The report of a funnel in a browser: one file, without a server and without a network, at desk and phone width."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from specbook.display.funnel_report import report_page
from specbook.files import write_text
from specbook.stages import witness as witness_module
from specbook.stages.run import run_plan
from tests.browser.chromium import browser, open_page, page_errors, requests
from tests.funnel_cases import native_plan
from tests.unit.test_funnel_witness import fake_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of the report of a funnel with a witness."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(witness_module, "run_witness", fake_run(1.0))
        run = run_plan(native_plan(n_prompts=4), folder)
    write_text(folder / "alone" / "report.html", report_page(run))
    return (folder / "alone" / "report.html").as_uri()


@pytest.fixture(scope="module")
def phone() -> Iterator[Chrome]:
    with browser(width=500) as chrome:
        metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        yield chrome


def test_report_draws_its_charts_and_asks_for_nothing_else(driver: Chrome, report: str) -> None:
    requests(driver)
    page_errors(driver)
    open_page(driver, report, n_charts=2)
    assert requests(driver) == [report]
    assert page_errors(driver) == []
    text = driver.execute_script("return document.querySelector('article').innerText")
    assert "What each gate let through" in text
    assert "passed the witness" in text


def test_report_on_a_phone_is_not_wider_than_the_screen(phone: Chrome, report: str) -> None:
    open_page(phone, report, n_charts=2)
    assert phone.execute_script("return document.documentElement.scrollWidth") <= 390
    broken = "return [...document.querySelectorAll('th p')].filter(p => p.getClientRects().length > 1).length"
    assert phone.execute_script(broken) == 0


def test_report_follows_the_theme_of_the_system(driver: Chrome, report: str) -> None:
    inks = []
    for theme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        open_page(driver, report, n_charts=2)
        assert driver.execute_script("return document.documentElement.dataset.theme") == theme
        inks.append(driver.execute_script("return getComputedStyle(document.body).color"))
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert inks[0] != inks[1]
