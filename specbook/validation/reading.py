"""A file as a table of text: its encoding, its separator, and its rows, each with its line."""

from __future__ import annotations

import codecs
import csv
import hashlib
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from specbook.checks import BadInput
from specbook.files import check_readable
from specbook.validation.columns import Header, n_known, read_header

SEPARATORS = ",;\t|"
# A cell may span lines, but a quote that stays open longer was never closed.
_MOST_LINES_OF_A_ROW = 20
_LONGEST_LINE = 2**17
_MOST_LINES_BEFORE_THE_HEADER = 50
_NO_CONTENT = re.compile(r"\s*(?:#.*|sep=.)?\s*", re.DOTALL)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_KINDS = (
    (b"PAR1", "is a Parquet file"),
    (b"PK\x03\x04", "is a workbook or an archive"),
    (b"\xd0\xcf\x11\xe0", "is a workbook"),
    (b"\x1f\x8b", "is packed with gzip"),
    (b"%PDF", "is a PDF"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """How the bytes of a file are text.

    Attributes
    ----------
    name : str
        UTF-8, also with a mark (``utf-8-sig``), UTF-16, or cp1252 where it is neither.
    n_unreadable : int
        Bytes of a file in UTF-8 that are not; they are shown escaped.
    sha256 : str
        Of the bytes.
    """

    name: str
    n_unreadable: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One row of a table; ``problem`` says why it has no cells, and is empty if it has."""

    line: int
    cells: list[str]
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose header was read; its rows are read as they are asked for."""

    name: str
    encoding: Encoding
    separator: str
    header: Header
    header_line: int
    rows: Iterator[TableRow]


def encoding_of(path: Path) -> Encoding:
    """How the bytes of a file are text, from all of them, read in blocks.

    Raises
    ------
    BadInput
        If it cannot be read, is empty, or is no text.
    """
    check_readable(path)
    digest, n_bad, n_good = hashlib.sha256(), 0, 0
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with path.open("rb") as stream:
        head = stream.read(256)
        stream.seek(0)
        while block := stream.read(2**20):
            digest.update(block)
            if not block.isascii():
                text = decoder.decode(block)
                n_bad += text.count("\ufffd") - block.count(b"\xef\xbf\xbd")
                n_good += len(text) - len(text.encode("ascii", "ignore"))
    _check_is_text(head, str(path))
    name = _marked(head)
    # A text in UTF-8 that was damaged here and there has more characters of several bytes than damaged ones.
    if name == "utf-8" and n_bad > n_good - n_bad:
        name = "cp1252"
    return Encoding(name=name, n_unreadable=n_bad if name == "utf-8" else 0, sha256=digest.hexdigest())


def _marked(head: bytes) -> str:
    """The encoding that the first bytes give away; UTF-8 if none."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if head[1:2] == b"\0" != head[:1]:
        return "utf-16-le"
    return "utf-16-be" if head[:1] == b"\0" != head[1:2] else "utf-8"


def _check_is_text(head: bytes, name: str) -> None:
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    problems = [problem for magic, problem in _OTHER_KINDS if head.startswith(magic)]
    problems += ["is JSON"] if start[:1] in (b"{", b"[") else []
    problems += ["is a page of markup"] if start[:1] == b"<" else []
    if problems:
        raise BadInput(f"{problems[0]}, not a table of text", file=name, remedy="save it as CSV with a header")


@contextmanager
def open_table(path: Path) -> Iterator[Table]:
    r"""Open a table of text and read its header; the rows are read while it is open.

    Parameters
    ----------
    path : Path
        Separated by commas, semicolons, tabs or bars, whichever gives the most columns that a series has. Blank
        lines, and before the header lines that start with #, do not matter.

    Raises
    ------
    BadInput
        If it is no readable text, or has no header of a series.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("target;batch;tok_s\nLlama-3.1-8B;2;90,5\n")
    ...     with open_table(path) as table:
    ...         print(table.separator, [row.cells for row in table.rows])
    ; [['Llama-3.1-8B', '2', '90,5']]
    """
    encoding = encoding_of(path)
    with path.open(encoding=encoding.name, errors="backslashreplace", newline="") as stream:
        lines = _Lines(stream)
        number, text = _header_line(lines, str(path))
        separator = max(SEPARATORS, key=lambda each: n_known(_header_cells(text, each)))
        try:
            header = read_header(_header_cells(text, separator))
        except BadInput as error:
            raise error.at(str(path)) from None
        rows = _rows(lines, separator, header.n_cells)
        yield Table(
            name=path.name, encoding=encoding, separator=separator, header=header, header_line=number, rows=rows
        )


def _header_line(lines: _Lines, name: str) -> tuple[int, str]:
    for _ in range(_MOST_LINES_BEFORE_THE_HEADER):
        line = lines.take()
        if line is None:
            break
        if not _NO_CONTENT.fullmatch(line[1]):
            return line
    raise BadInput("holds no header", file=name, remedy="the first line names the columns")


def _header_cells(text: str, separator: str) -> list[str]:
    line = text.rstrip("\r\n")
    cells = _parsed([line], separator) or line.split(separator)
    names = [" ".join(cell.split()) for cell in cells]
    while names and not names[-1]:
        names.pop()
    return names


class _Lines:
    """Lines of a stream by number, some of which can be put back."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._number, self._waiting = stream, 1, deque[tuple[int, str]]()

    def take(self) -> tuple[int, str] | None:
        if self._waiting:
            return self._waiting.popleft()
        text = self._stream.readline(_LONGEST_LINE)
        if not text:
            return None
        number = self._number
        self._number += text.endswith(("\n", "\r"))
        return number, text

    def put_back(self, lines: list[tuple[int, str]]) -> None:
        self._waiting.extendleft(reversed(lines))


def _rows(lines: _Lines, separator: str, n_cells: int) -> Iterator[TableRow]:
    """Rows that are not blank."""
    while (taken := lines.take()) is not None:
        line, text = taken
        cells = _cells(text, lines, separator, n_cells)
        if cells is None:
            yield TableRow(line=line, cells=[], problem="has a quote that is not closed, or characters behind one")
        elif any(map(str.strip, cells)):
            yield TableRow(line=line, cells=cells)


def _cells(text: str, lines: _Lines, separator: str, n_cells: int) -> list[str] | None:
    """Cells of a line, and of those after it that a quote goes on through; None if it is no row."""
    if '"' not in text:
        return text.rstrip("\r\n").split(separator)
    cells = _parsed([text.rstrip("\r\n")], separator)
    if cells is not None or text.count('"') % 2 == 0:
        return cells
    further: list[tuple[int, str]] = []
    while len(further) < _MOST_LINES_OF_A_ROW and (line := lines.take()) is not None:
        further.append(line)
        if line[1].count('"') % 2:
            cells = _parsed([text, *(each for _, each in further)], separator)
            break
    if cells is not None and len(cells) == n_cells:
        return cells
    lines.put_back(further)
    return None


def _parsed(texts: list[str], separator: str) -> list[str] | None:
    """The cells of one row, which takes up all the lines; None if it does not."""
    reader = csv.reader(texts, delimiter=separator, strict=True, skipinitialspace=True)
    try:
        cells = next(reader, [])
    except csv.Error:
        return None
    return cells if reader.line_num == len(texts) else None
