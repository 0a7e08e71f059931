"""What commands print and read: JSON, notes, progress, evidence by name."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from specbook.checks import BadInput, printable

if TYPE_CHECKING:
    from specbook.acceptance.profile import AcceptanceProfile

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]

# Exit code of a command that a person interrupted.
INTERRUPTED = 130

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
    """A bar of bytes on standard error, once the work has taken two seconds."""
    total = sum(path.stat().st_size for path in paths if path.is_file())
    with _late_bar("reading", total, (BarColumn(), DownloadColumn(), TimeRemainingColumn())) as advance:
        yield advance


@contextmanager
def working(label: str, total: int) -> Iterator[Any]:
    """A bar on standard error, once the work has taken two seconds."""
    with _late_bar(label, total, (BarColumn(), TimeRemainingColumn())) as advance:
        yield advance


@contextmanager
def _late_bar(label: str, total: int, columns: Sequence[ProgressColumn]) -> Iterator[Any]:
    console = Console(stderr=True)
    bar = Progress(TextColumn(label), *columns, console=console, transient=True, disable=not console.is_terminal)
    task, started = bar.add_task(label, total=total), time.monotonic()

    def advance(step: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > _BAR_AFTER_S:
            bar.start()
        bar.advance(task, step)

    try:
        yield advance
    finally:
        bar.stop()


def note_kernels() -> None:
    """Say so where BLAS could multiply faster on this machine; the times of a probe or a witness depend on it."""
    from specbook.engine.threads import kernel_advice

    advice = kernel_advice()
    if advice is not None:
        note(f"note: {advice}")


def check_out(out: Path, option: str = "--out", inputs: Sequence[Path] = ()) -> None:
    """Refuse before minutes are spent what could not be written behind them.

    Parameters
    ----------
    out : Path
        A file to write.
    option : str
        That names it.
    inputs : sequence of Path
        Files to read, none of which may be written over.

    Raises
    ------
    BadInput
        If it is a folder, an input, or in a folder that cannot be written.
    """
    folder = next(parent for parent in [*out.absolute().parents] if parent.exists())
    if out.is_dir():
        raise BadInput("is a directory", field=option, value=str(out), remedy="name the file inside it")
    if os.path.realpath(out) in map(os.path.realpath, inputs):
        raise BadInput("is a file to read", field=option, value=str(out), remedy=f"choose another {option}")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput("cannot be written", field=option, value=str(out), remedy=f"choose another {option}")


def write_and_show(profile: AcceptanceProfile, path: Path, json: bool) -> None:
    """Write a profile; its warnings go to standard error, the profile itself, or JSON, to standard output."""
    from specbook.acceptance.profile import write_profile
    from specbook.display import tables, terminal

    write_profile(profile, path)
    for warning in profile.warnings:
        note(f"note: {warning}")
    if json:
        emit(profile.model_dump(mode="json", by_alias=True))
    else:
        terminal.show_profile(profile)
        tables.say(f"wrote {path}")


def load_profile(name: str) -> AcceptanceProfile:
    """A profile of the library by name, or from a file."""
    from specbook.acceptance.library import library_names, library_profile
    from specbook.acceptance.profile import read_profile

    is_path = "/" in name or Path(name).suffix == ".json" or Path(name).exists()
    return read_profile(Path(name)) if is_path and name not in library_names() else library_profile(name)
