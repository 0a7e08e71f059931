"""A file as a stream, whatever its size: of JSON records (one document, a list, or JSON Lines), or of text lines."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.files import DOCUMENT_LIMIT_BYTES, check_readable, parse_json, read_json
from specbook.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class Record:
    """One parsed record, and where it stands for error messages."""

    value: Any
    where: str


def read_records(path: Path, warn: Callable[[str], None], progress: Progress = silent) -> Iterator[Record]:
    """Yield the records of a JSON or JSON Lines file.

    JSON Lines are streamed, so that memory does not grow with the file; a single document is limited to 64 MiB.
    A last line that breaks off is what a killed run leaves behind: it is dropped and ``warn`` is told, if good
    lines came before it.

    Parameters
    ----------
    path : Path
        The file.
    warn : callable
        Receives one line of text for each thing left out.
    progress : callable
        Receives the number of bytes read since the last call.

    Raises
    ------
    BadInput
        If the file cannot be read, or is neither JSON nor JSON Lines.
    """
    size_bytes = check_readable(path)
    if _is_json_lines(path):
        yield from _json_lines(path, warn, progress)
        return
    document = read_json(path)
    progress(size_bytes)
    records = document if isinstance(document, list) else [document]
    for index, value in enumerate(records):
        yield Record(value, f"{path}" if document is not records else f"{path}[{index}]")


def first_line(path: Path) -> bytes:
    """The first line that is not blank, without blanks around it; empty if there is none."""
    return next((line.strip() for _, line in _numbered_lines(path, silent) if line.strip()), b"")


def read_lines(path: Path, progress: Progress = silent) -> Iterator[str]:
    """Yield the lines of a text file without their ends; bytes that are not UTF-8 are shown as such.

    Raises
    ------
    BadInput
        If a line is longer than any format has.
    """
    for _, line in _numbered_lines(path, progress):
        yield line.decode("utf-8", errors="backslashreplace").rstrip("\r\n")


def _is_json_lines(path: Path) -> bool:
    line = first_line(path)
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _numbered_lines(path: Path, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers from 1, without a byte-order mark before the first."""
    with path.open("rb") as stream:
        for number in range(1, 2**63):
            line = stream.readline(DOCUMENT_LIMIT_BYTES + 1)
            if len(line) > DOCUMENT_LIMIT_BYTES:
                raise BadInput(
                    f"line {number} is longer than {DOCUMENT_LIMIT_BYTES / 1e6:.0f} MB",
                    file=str(path),
                    remedy="no known format has such lines; export JSON Lines, one request a line",
                )
            if not line:
                return
            progress(len(line))
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def _json_lines(path: Path, warn: Callable[[str], None], progress: Progress) -> Iterator[Record]:
    broken: BadInput | None = None
    broken_line = n_good = 0
    for number, line in _numbered_lines(path, progress):
        if not line.strip():
            continue
        if broken is not None:
            raise broken
        where = f"{path} line {number}"
        try:
            value = parse_json(line, where)
        except BadInput as error:
            broken, broken_line = error, number
            continue
        n_good += 1
        yield Record(value, where)
    if broken is not None:
        if not n_good:
            raise broken
        warn(f"line {broken_line}, the last, is unreadable and was left out; the {n_good} before it are used")
