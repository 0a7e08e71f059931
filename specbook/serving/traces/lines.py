"""A trace as numbered lines, in bounded memory, and packed with gzip as well as plain."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from io import BufferedIOBase
from itertools import count
from pathlib import Path

from specbook.checks import BadInput
from specbook.files import DOCUMENT_LIMIT_BYTES, check_readable, parse_json
from specbook.progress import Progress, silent

_GZIP = b"\x1f\x8b"
# So many lines lie between two reports of progress.
_SOME_LINES = 4096


def numbered_lines(path: Path, progress: Progress = silent) -> Generator[tuple[int, str], None, None]:
    """Yield the lines that are not blank, each with its number from 1 and its end; only the last may have none.

    Bytes that are not UTF-8 are shown as such, so that a reader of the cell refuses them. ``progress`` is called with
    bytes of the file, packed as they may be.

    Raises
    ------
    BadInput
        If the file cannot be read, or a line is longer than 64 MiB.
    """
    told = 0
    with _opened(path) as (file, stream):
        for number in count(1):
            line = _read(stream, path, whole=False)
            if not line or number % _SOME_LINES == 0:
                progress(file.tell() - told)
                told = file.tell()
            if not line:
                return
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.isspace():
                yield number, line.decode("utf-8", errors="backslashreplace")


def first_lines(path: Path, most: int) -> list[tuple[int, str]]:
    """The first lines that are not blank.

    Raises
    ------
    BadInput
        If there is none.
    """
    with closing(numbered_lines(path)) as lines:
        found = [line for line, _ in zip(lines, range(most), strict=False)]
    if not found:
        raise BadInput("holds only blanks", file=str(path), remedy="export it again")
    return found


def whole_document(path: Path) -> object:
    """The file as one JSON document of at most 64 MiB.

    Raises
    ------
    BadInput
        If it is larger, or no complete JSON.
    """
    with _opened(path) as (_, stream):
        return parse_json(_read(stream, path, whole=True), str(path))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BufferedIOBase, BufferedIOBase]]:
    """The file, and what is in it: the same unless it is packed."""
    check_readable(path)
    with path.open("rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if not is_packed:
            yield file, file
            return
        with gzip.open(file, "rb") as stream:
            yield file, stream


def _read(stream: BufferedIOBase, path: Path, *, whole: bool) -> bytes:
    """The next line, or all that is left."""
    read = stream.read if whole else stream.readline
    try:
        found = read(DOCUMENT_LIMIT_BYTES + 1)
    except (EOFError, OSError, zlib.error):
        problem = "is packed with gzip, and cannot be unpacked"
        raise BadInput(problem, file=str(path), remedy="it was cut or damaged; fetch it again") from None
    if len(found) > DOCUMENT_LIMIT_BYTES:
        problem = f"holds {'a document' if whole else 'a line'} over {DOCUMENT_LIMIT_BYTES / 1e6:.0f} MB"
        raise BadInput(problem, file=str(path), remedy="export one request a line")
    return found
