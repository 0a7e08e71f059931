"""What commands print and read: JSON, notes, progress, evidence by name."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from specbook.acceptance.readers.records import silent
from specbook.checks import printable

if TYPE_CHECKING:
    from specbook.acceptance.profile import AcceptanceProfile

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]

# A bar appears for inputs above this size, which take a second or two to read.
_PROGRESS_FROM_BYTES = 15e6
_BAR_AFTER_S = 2.0


class AssumptionName(StrEnum):
    """Assumptions about draft lengths that were not measured."""

    none = "none"
    truncation = "truncation"


def note(text: str) -> None:
    """Print one line on standard error."""
    sys.stderr.write(f"specbook: {printable(text)}\n")


def emit(document: Any) -> None:
    """Print JSON in ASCII, which every terminal and pipe can carry."""
    sys.stdout.write(json_module.dumps(document, indent=1, allow_nan=False) + "\n")


@contextmanager
def reading(paths: Sequence[Path]) -> Iterator[Any]:
    """A progress bar on standard error for large inputs, else nothing."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    if total < _PROGRESS_FROM_BYTES:
        yield silent
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda n_bytes: bar.advance(task, n_bytes)


@contextmanager
def working(label: str, total: int) -> Iterator[Any]:
    """A bar on standard error, once the work has taken two seconds."""
    columns = (TextColumn(label), BarColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task, started = bar.add_task(label, total=total), time.monotonic()

    def advance(step: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > _BAR_AFTER_S:
            bar.start()
        bar.advance(task, step)

    try:
        yield advance
    finally:
        bar.stop()


def load_profile(name: str) -> AcceptanceProfile:
    """A profile of the library by name, or from a file."""
    from specbook.acceptance.library import library_names, library_profile
    from specbook.acceptance.profile import read_profile

    is_path = "/" in name or Path(name).suffix == ".json" or Path(name).exists()
    return read_profile(Path(name)) if is_path and name not in library_names() else library_profile(name)
