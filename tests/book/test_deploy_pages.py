"""The pages that lead from a server to a deployment show what their commands print."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.shown_commands import ShownCommand, missing_lines, page_commands

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "book" / "how-to"
EXAMPLES = ROOT / "specbook" / "acceptance" / "library" / "examples"
EVIDENCE = ROOT / "tests" / "book" / "evidence"
# What each page's reader has saved from a server, invented.
SAVED = {
    "deploy": {},
    "from_vllm": {"metrics.txt": EXAMPLES / "vllm-prometheus.txt", "server.log": EXAMPLES / "vllm-log.txt"},
    "from_sglang": {"responses.jsonl": EXAMPLES / "sglang-meta-info.jsonl"},
    "from_llama_cpp": {"k3.jsonl": EVIDENCE / "llama-server-k3.jsonl", "k8.jsonl": EVIDENCE / "llama-server-k8.jsonl"},
}


def _commands(page: str) -> list[ShownCommand]:
    """Commands of ours; those of a server cannot run here."""
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    return [each for each in page_commands(text) if each.words[0] == "specbook"]


@pytest.mark.parametrize("page", SAVED)
def test_a_page_shows_what_its_commands_print(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str):
    monkeypatch.chdir(tmp_path)
    for name, source in SAVED[page].items():
        shutil.copy(source, tmp_path / name)
    commands = _commands(page)
    assert {each.words[1] for each in commands} >= {"project", "deploy"}
    for each in commands:
        monkeypatch.setenv("COLUMNS", "120")
        outcome = cli(*each.words[1:])
        assert outcome.code == 0, outcome.err
        told = [line for line in each.shown if line.startswith("specbook: ")]
        assert missing_lines(told, outcome.err.splitlines()) == []
        assert missing_lines([line for line in each.shown if line not in told], outcome.out.splitlines()) == []
    assert any(each.shown for each in commands if each.words[1] == "deploy")


@pytest.mark.parametrize("page", SAVED)
def test_files_that_a_page_shows_are_those_that_it_wrote(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
):
    """A JSON block on a page is a whole file that one of its commands wrote."""
    monkeypatch.chdir(tmp_path)
    for name, source in SAVED[page].items():
        shutil.copy(source, tmp_path / name)
    written: list[object] = []
    for each in _commands(page):
        assert cli(*each.words[1:]).code == 0
        out = each.words[each.words.index("--out") + 1] if "--out" in each.words else None
        if each.words[1] == "deploy" and out is not None and out.endswith(".json"):
            written.append(json.loads((tmp_path / out).read_text(encoding="utf-8")))
    text = (HOW_TO / f"{page}.md").read_text(encoding="utf-8")
    shown = [json.loads(block.split("```", 1)[0]) for block in text.split("```json\n")[1:]]
    assert all(block in written for block in shown)


def test_lines_that_are_not_printed_in_this_order_are_found():
    assert missing_lines(["a", "…", "c"], ["a", "b", "c"]) == []
    assert missing_lines(["c", "a"], ["a", "b", "c"]) == ["a"]
    assert missing_lines(["d"], ["a"]) == ["d"]


def test_output_belongs_to_the_last_command_above_it():
    first, second = page_commands("```console\n$ specbook a\n$ specbook b \\\n    --c 1\n```\n\n```text\nout\n```\n")
    assert (first.shown, second.shown) == ([], ["out"])
    assert second.words == shlex.split("specbook b --c 1")
