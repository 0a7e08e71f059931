"""A file of prompts as JSON objects: JSON Lines or a JSON list, as text or in gzip."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from specbook.checks import BadInput
from specbook.files import DOCUMENT_LIMIT_BYTES, check_readable, parse_json

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Record:
    """One object of a file: its fields, where it stands for error messages, and a name if it has none of its own."""

    fields: dict[str, Any]
    where: str
    name: str


def read_records(path: Path) -> Iterator[Record]:
    """Yield the objects of a file of at most 64 MiB, decompressed.

    Raises
    ------
    BadInput
        If the file is missing, empty, too large, broken off, not UTF-8, no JSON, or holds anything but objects.
    """
    for number, place, value in _values(_content(path), path):
        where = f"{path}{place}"
        if not isinstance(value, dict):
            remedy = "correct it or make the file again"
            raise BadInput("must be an object", file=where, value=value, remedy=remedy)
        yield Record(value, where, f"{path.name}-{number}")


def _values(content: bytes, path: Path) -> Iterator[tuple[int, str, Any]]:
    """Each value of the file, with its number and how to point to it."""
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if lines and _is_object(lines[0][1]):
        for number, line in lines:
            yield number, f" line {number}", parse_json(line, f"{path} line {number}")
        return
    document = parse_json(content, str(path))
    for index, value in enumerate(document if isinstance(document, list) else [document]):
        yield index, f"[{index}]", value


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _content(path: Path) -> bytes:
    """All bytes of a file, decompressed if it is in gzip, without a byte-order mark."""
    check_readable(path)
    with path.open("rb") as stream:
        is_gzip = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        stream.seek(0)
        content = _decompressed(stream, path) if is_gzip else stream.read(DOCUMENT_LIMIT_BYTES + 1)
    if len(content) > DOCUMENT_LIMIT_BYTES:
        problem = f"over the limit of {DOCUMENT_LIMIT_BYTES / 1e6:.0f} MB"
        raise BadInput(problem, file=str(path), remedy="cut it; some hundred prompts a domain are plenty")
    return content.removeprefix(codecs.BOM_UTF8)


def _decompressed(stream: IO[bytes], path: Path) -> bytes:
    try:
        with gzip.open(stream) as inner:
            return inner.read(DOCUMENT_LIMIT_BYTES + 1)
    except (EOFError, OSError, zlib.error):
        raise BadInput("is no complete gzip file", file=str(path), remedy="copy or download it again") from None
