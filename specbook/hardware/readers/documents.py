"""A file as a document: JSON records, or the lines of a text. Tables of step times are small."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.files import check_readable, parse_json
from specbook.hardware.readers.rows import Document, Record, counted

_LIMIT_BYTES = 16 * 2**20
# Programs print a few lines about themselves before the first record.
_MOST_BANNER_LINES = 200


def read_document(path: Path) -> Document:
    """Read a file whose format is not known yet.

    Raises
    ------
    BadInput
        If it cannot be read, is too large, or is neither JSON nor text.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "costs.json"
    ...     _ = path.write_text("[1, 0.605]")
    ...     [record.value for record in read_document(path).records]
    [1, 0.605]
    """
    name = str(path)
    if check_readable(path) > _LIMIT_BYTES:
        problem = f"is larger than {_LIMIT_BYTES / 1e6:.0f} MB"
        raise BadInput(problem, file=name, remedy="no table of step times is; name the file of the benchmark")
    text = _text(path.read_bytes(), name)
    if not text.strip():
        raise BadInput("holds only blanks", file=name, remedy="export it again")
    if text.lstrip()[0] in "{[":
        document = _one_json(text, name) or _json_lines(text, name)
        if document is not None:
            return document
    elif any(_is_object(line) for line in text.splitlines()[:_MOST_BANNER_LINES]):
        return _json_lines(text, name) or Document(name=name, lines=_lines(text))
    return Document(name=name, lines=_lines(text))


def _text(raw: bytes, name: str) -> str:
    """UTF-8, or the UTF-16 that a PowerShell redirection writes; bytes that are neither are shown as such."""
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = raw.decode("utf-16" if is_utf16 else "utf-8-sig", errors="backslashreplace")
    if "\0" in text:
        raise BadInput("holds bytes that are no text", file=name, remedy="export it again")
    return text


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.rstrip("\r") for line in text.split("\n"))


def _one_json(text: str, name: str) -> Document | None:
    """The whole text as one JSON document; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        records = tuple(Record(item, f"{name}[{index}]") for index, item in enumerate(value))
        return Document(name=name, records=records)
    return Document(name=name, records=(Record(value, name),))


def _is_object(line: str) -> bool:
    return line.lstrip().startswith('{"')


def _json_lines(text: str, name: str) -> Document | None:
    """Lines that are JSON objects; None if there is none.

    The last one may break off, as a killed run leaves it.
    """
    numbered = [(number, line) for number, line in enumerate(_lines(text), start=1) if line.strip()]
    objects = [(number, line) for number, line in numbered if _is_object(line)]
    records, notes = [], []
    for place, (number, line) in enumerate(objects):
        where = f"{name} line {number}"
        try:
            records.append(Record(_object(line, where), where))
        except BadInput:
            if place < len(objects) - 1 or not records:
                raise
            notes.append(f"line {number}, the last, is unreadable and was left out")
    if len(numbered) > len(objects):
        notes.append(f"{counted(len(numbered) - len(objects), 'line')} of no JSON left out")
    return Document(name=name, records=tuple(records), notes=tuple(notes)) if records else None


def _object(line: str, where: str) -> Any:
    return parse_json(line.encode("utf-8", errors="backslashreplace"), where)
