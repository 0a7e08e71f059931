"""What all tests share: scratch files, the command line in this process, and Hypothesis without chance."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from specbook.cli import main

settings.register_profile("specbook", derandomize=True, deadline=None, database=None)
settings.register_profile("soak", max_examples=3000, deadline=None, database=None)
settings.load_profile("specbook")


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Write bytes, text, or anything else as JSON; a list of dicts under a ``.jsonl`` name becomes JSON Lines."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        if name.endswith(".jsonl") and isinstance(content, list):
            content = "".join(f"{json.dumps(record)}\n" for record in content)
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        path.write_bytes(content)
        return path

    return write


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run :func:`specbook.cli.main` with arguments; a traceback fails the test."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["specbook", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        code = stopped.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run
