"""The chapters in JupyterLab: stored outputs are drawn, and the Explorer is live."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.chromium import browser, wait_until

ROOT = Path(__file__).resolve().parents[2]
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells');"
IDLE = "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab server of its own, on copies of the chapters, with fresh settings and no token."""
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTER_RUNTIME_DIR")
    environment = os.environ | {name: str(home / name.lower()) for name in folders}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--allow-root", "--no-browser", "--ServerApp.token=", "--LabApp.expose_app_in_browser=True",
               f"--ServerApp.port={port}", f"--ServerApp.root_dir={home / 'notebooks'}")  # fmt: skip
    command = [sys.executable, "-m", "jupyter", "lab", *options]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            WebDriverWait(address, 60, poll_frequency=0.3).until(_answers)
            yield address
        finally:
            server.terminate()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/api", timeout=5):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def window() -> Iterator[Chrome]:
    with browser(width=1400) as chrome:
        chrome.set_script_timeout(30)
        yield chrome


def _open(window: Chrome, lab: str, name: str) -> None:
    window.get(f"{lab}/lab/tree/{name}.ipynb?reset")
    wait_until(window, "document.querySelectorAll('.jp-Notebook .jp-Cell').length > 20", 90)


@pytest.mark.parametrize("name", ["01_acceptance", "02_draft_models", "06_roofline"])
def test_jupyterlab_draws_stored_charts_and_stays_responsive(window: Chrome, lab: str, name: str) -> None:
    _open(window, lab, name)
    wait_until(
        window, "document.querySelectorAll('.jp-OutputArea .vega-embed svg, .jp-OutputArea canvas').length > 0", 60
    )
    assert window.execute_script("return 1 + 1") == 2


READOUT = "[...document.querySelectorAll('.widget-html')].map(w => w.textContent).find(t => t.startsWith('K = '))"
SLIDERS = "document.querySelectorAll('.widget-hslider .noUi-handle')"
CHOOSE = """
const menu = [...document.querySelectorAll('.widget-dropdown')].find(m => m.textContent.startsWith(arguments[0]));
const select = menu.querySelector('select');
select.selectedIndex = [...select.options].findIndex(option => option.textContent === arguments[1]);
select.dispatchEvent(new Event('change', {bubbles: true}));
"""


@pytest.fixture(scope="module")
def live(window: Chrome, lab: str) -> Chrome:
    """The roofline chapter, run, with its Explorer's controls on screen."""
    _open(window, lab, "06_roofline")
    wait_until(window, IDLE, 90)
    for _ in range(4):  # what is run before the kernel's socket is up is lost
        window.execute_script(RUN_ALL)
        with suppress(TimeoutException):
            wait_until(window, f"{SLIDERS}.length >= 3", 25)
            break
    return window


def test_jupyterlab_explorer_recomputes_when_a_slider_moves(live: Chrome) -> None:
    assert live.execute_script(f"return {READOUT}").startswith("K = 4 at batch 1")
    live.execute_script(f"{SLIDERS}[0].scrollIntoView({{block: 'center'}})")
    handle = live.find_element(By.CSS_SELECTOR, ".widget-hslider .noUi-handle")
    live.execute_script("arguments[0].focus()", handle)
    handle.send_keys(Keys.ARROW_RIGHT)
    wait_until(live, f"{READOUT}.startsWith('K = 5 at batch 1')", 30)


@pytest.mark.parametrize(
    ("menu", "entry", "expected"),
    [
        ("method", "EAGLE", "EAGLE head in bf16"),
        ("target weights", "int4", "int4 target"),
        ("step time", "ideal", "ideal roofline"),
        ("hardware", "l4", "on l4 "),
    ],
)
def test_jupyterlab_explorer_recomputes_when_a_menu_changes(live: Chrome, menu: str, entry: str, expected: str) -> None:
    before = live.execute_script(f"return {READOUT}")
    assert expected not in before
    live.execute_script(CHOOSE, menu, entry)
    wait_until(live, f"{READOUT}.includes('{expected}')", 30)
    assert live.execute_script(f"return {READOUT}").split("speedup ")[1][:6] != before.split("speedup ")[1][:6]
