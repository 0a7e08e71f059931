"""``python -m specbook.training``: the stages that need no torch, and what is said where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specbook.engine.library import FOLDER
from specbook.training import __main__ as recipe
from specbook.training.artefacts import MERGES, TOKENS, read_merges
from specbook.training.tokens import read_tokens

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["training", *map(str, arguments)])
        try:
            recipe.main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def corpus(tmp_path: Path, run: Run) -> Path:
    library = tmp_path / "library"
    library.mkdir()
    (library / "lamp.py").write_text("def light(level):\n    return level * 2\n\n\n" * 50)
    options = ["--python-library", library, "--mathematics-characters", 20_000]
    code, out, err = run("corpus", "--out", tmp_path, *options)
    assert (code, err) == (0, "")
    assert "generated mathematics (Apache-2.0, part of specbook): " in out
    return tmp_path


def test_tokenizer_stage_learns_merges_and_encodes(corpus: Path, run: Run):
    code, out, err = run("tokenizer", "--out", corpus, "--vocabulary", 300)
    assert (code, err) == (0, "")
    assert "chat.train: 0 tokens of nan bytes" in out
    assert len(read_merges(corpus / MERGES)) == 300 - 257
    assert read_tokens(corpus / TOKENS).end_token == 299


def test_tokenizer_stage_takes_merges_that_exist(corpus: Path, run: Run):
    code, _, err = run("tokenizer", "--out", corpus, "--merges", FOLDER / "bpe1024.json")
    assert (code, err) == (0, "")
    assert read_tokens(corpus / TOKENS).end_token == 1023


@pytest.mark.parametrize("stage", ["target", "distil", "evaluate", "reference"])
def test_stages_that_train_say_what_to_install(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path, stage: str):
    monkeypatch.setattr(recipe, "find_spec", lambda _: None)
    code, out, err = run(stage, "--out", tmp_path)
    assert (code, out, err) == (2, "", f"{stage}: torch is not installed; pip install 'specbook[train]'\n")


def test_tokenizer_stage_without_a_corpus_is_one_line(run: Run, tmp_path: Path):
    code, _, err = run("tokenizer", "--out", tmp_path)
    assert code == 2
    assert err.count("\n") == 1
    assert "make the corpus first" in err


@pytest.mark.parametrize(
    ("stage", "option", "value"),
    [
        ("target", "--steps", "0"),
        ("target", "--seed", "-1"),
        ("tokenizer", "--vocabulary", "256"),
        ("distil", "--steps", "x"),
    ],
)
def test_numbers_out_of_range_are_refused(run: Run, tmp_path: Path, stage: str, option: str, value: str):
    code, _, err = run(stage, "--out", tmp_path, option, value)
    assert code == 2
    assert f"argument {option}: must be whole and at least" in err
