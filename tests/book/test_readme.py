"""What the README shows is what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def _commands(block: str) -> list[tuple[list[str], list[str]]]:
    """Commands of a block, each with the output shown under it."""
    joined = block.replace("\\\n", " ")
    found: list[tuple[list[str], list[str]]] = []
    for line in joined.splitlines():
        if line.startswith("$ "):
            found.append((shlex.split(line.removeprefix("$ "), comments=True), []))
        elif found:
            found[-1][1].append(line)
    return found


SHOWN = [block for block in BLOCKS if any(shown for _, shown in _commands(block))]


def test_readme_shows_the_output_of_two_examples() -> None:
    assert len(SHOWN) == 2


@pytest.mark.parametrize("block", SHOWN)
def test_readme_example_prints_what_is_shown(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    for words, shown in _commands(block):
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
