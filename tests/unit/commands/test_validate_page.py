"""The page on validation shows what its commands print, and the README's command is one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.shown_commands import missing_lines, page_commands

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "book" / "how-to" / "validate_a_series.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the file that the page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    found = re.search(r"```text\n(series,.*?)```", PAGE, re.DOTALL)
    assert found is not None
    (tmp_path / "mine.csv").write_text(found[1], encoding="utf-8")
    return tmp_path


def test_the_page_shows_what_its_commands_print(cli, folder: Path):
    commands = page_commands(PAGE)
    for each in commands:
        outcome = cli(*each.words[1:])
        assert outcome.code == 0, outcome.err
        assert missing_lines(each.shown, outcome.out.splitlines()) == []
    assert sum(bool(each.shown) for each in commands) == 1
    assert (folder / "published.html").is_file()


def test_the_page_names_every_option(cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    options = set(re.findall(r"--[a-z][a-z-]*", cli("validate", "--help").out)) - {"--help"}
    assert options == set(re.findall(r"--[a-z][a-z-]*", PAGE))


def test_the_page_names_every_field_of_the_object(cli, folder: Path):
    document = json.loads(cli("validate", folder / "mine.csv", "--json").out)
    said = PAGE[PAGE.index("`--json`") : PAGE.index("`--chart page.html`")]
    assert set(re.findall(r"`([a-z0-9_]+)`", said)) == {*document, *document["series"]}


def test_the_commands_of_the_readme_run(cli, folder: Path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [each for each in page_commands(readme) if each.words[:2] == ["specbook", "validate"]]
    assert len(commands) == 2
    for each in commands:
        assert cli(*each.words[1:]).code == 0
    assert (folder / "rows.parquet").is_file()
