"""What the README shows is what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.shown_commands import console_commands

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


SHOWN = [block for block in BLOCKS if any(each.shown for each in console_commands(block))]


def test_readme_shows_the_output_of_two_examples() -> None:
    assert len(SHOWN) == 2


@pytest.mark.parametrize("block", SHOWN)
def test_readme_example_prints_what_is_shown(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    for each in console_commands(block):
        words, shown = each.words, each.shown
        arguments = [str(ROOT / word) if word.startswith("specbook/") else word for word in words[1:]]
        outcome = cli(*arguments)
        assert outcome.code == 0
        if shown:
            printed = [line.rstrip() for line in outcome.out.splitlines()]
            assert [line for line in shown if line.strip()] == [
                line for line in printed if line.strip("─ ") or "─" in line
            ]
        for name in [word for word in words if word.endswith((".json", ".parquet")) and "/" not in word]:
            assert (tmp_path / name).is_file()


def test_readme_names_only_targets_that_make_has() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)", text)) - {"and"}:
        assert f"\n{target}:" in makefile, target
