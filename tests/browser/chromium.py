"""Headless Chromium without a network: every host but the local server is unresolvable, and requests are recorded."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def program(name: str) -> str:
    """Path of a program, or an error that says how to install it."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{name} is missing: install Debian's packages chromium and chromium-driver")
    return path


@contextmanager
def browser(width: int = 1280, height: int = 1000) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = program("chromium")
    for flag in (*FLAGS, f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(program("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wait_until(driver: Chrome, script: str, seconds: float = 30.0) -> None:
    """Wait until a piece of JavaScript is true."""
    WebDriverWait(driver, seconds, poll_frequency=0.05).until(lambda d: d.execute_script(f"return Boolean({script})"))


def open_page(driver: Chrome, url: str, n_charts: int | None = None) -> None:
    """Open a page and wait until its equations and charts are there."""
    driver.get(url)
    wait_until(driver, "document.readyState === 'complete'")
    everything = "document.querySelectorAll('figure.specbook-chart:not([data-ready])').length === 0"
    wait_until(driver, everything)
    if n_charts is not None:
        wait_until(driver, f"document.querySelectorAll('figure.specbook-chart[data-ready]').length === {n_charts}")


def requests(driver: Chrome) -> list[str]:
    """Addresses that the page asked for since the last call, inline data apart."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [url for url in found if not url.startswith(("data:", "blob:", "about:", "chrome:"))]


def page_errors(driver: Chrome) -> list[str]:
    """Errors that the page's scripts reported since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
