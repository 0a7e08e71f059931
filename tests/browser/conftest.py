"""The built book, and one browser for all tests of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tests.browser.chromium import browser, served

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def html() -> Path:
    folder = ROOT / "_build" / "html"
    assert (folder / "index.html").is_file(), "the book is not built: run make book"
    return folder


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    with browser() as chrome:
        yield chrome


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    with served(html) as address:
        yield address
