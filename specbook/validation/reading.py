"""A file as a table of text: its separator, and its rows, each with its line."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from specbook.checks import BadInput
from specbook.validation.columns import Header, n_known, read_header
from specbook.validation.encodings import Encoding, encoding_of

SEPARATORS = ",;\t|"
# A cell may span lines, but a quote that stays open longer was never closed.
_MOST_LINES_OF_A_ROW = 20
_LONGEST_LINE = 2**17
_MOST_LINES_BEFORE_THE_HEADER = 50
# Above a header there may be a title, and names that span several columns.
_MOST_TITLES, _LEAST_KNOWN = 4, 4
_NO_CONTENT = re.compile(r"\s*(?:#.*|sep=.)?\s*", re.DOTALL)


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
            raise _with_header_below(error, lines, number).at(str(path)) from None
        rows = _rows(lines, separator, header.n_cells)
        yield Table(
            name=path.name, encoding=encoding, separator=separator, header=header, header_line=number, rows=rows
        )


def _with_header_below(error: BadInput, lines: _Lines, number: int) -> BadInput:
    """What is wrong with a header, with the line further down that looks like one, as under a title."""
    below = [line for _ in range(_MOST_TITLES) if (line := lines.take()) is not None]
    for at, text in below:
        if max(n_known(_header_cells(text, each)) for each in SEPARATORS) >= _LEAST_KNOWN:
            remedy = f"line {at} seems to name the columns: remove what is above it"
            return BadInput(error.problem, remedy=remedy, field=f"line {number}", value=error.value)
    return error


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
