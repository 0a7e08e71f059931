"""Tables in a text: Markdown, wherever they stand in a log, and CSV with its header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document

# One row is one measured time.
MOST_ROWS = 200_000
_RULE = re.compile(r"\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?")


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    """One table: its header, the number of the header's line, and its rows."""

    header: tuple[str, ...]
    number: int
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    def records(self, document: Document) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield where each row stands, and its cells by name.

        Raises
        ------
        BadInput
            If a row has more or fewer cells than the header, or the header gives a name twice.
        """
        check_header(self.header, document.line(self.number))
        for number, cells in self.rows:
            where = document.line(number)
            if len(cells) != len(self.header):
                problem = f"{len(cells)} cells under {len(self.header)} names"
                raise BadInput(problem, file=where, remedy="the row was cut; copy the table again")
            yield where, dict(zip(self.header, cells, strict=True))


def markdown_tables(document: Document) -> list[MarkdownTable]:
    """All tables of a text; other lines between the rows do not matter.

    Examples
    --------
    >>> lines = ("build: 7", "| test | t/s |", "| --- | --: |", "warning", "| tg128 | 131.42 ± 0.59 |")
    >>> [table.rows for table in markdown_tables(Document(name="a.md", lines=lines))]
    [((5, ('tg128', '131.42 ± 0.59')),)]
    """
    piped = [(number, line.strip()) for number, line in enumerate(document.lines, start=1) if "|" in line]
    starts = [place for place in range(len(piped) - 1) if _is_header(piped[place], piped[place + 1])]
    found = []
    for start, end in zip(starts, [*starts[1:], len(piped)], strict=False):
        number, header = piped[start]
        rows = [(row, _cells(line)) for row, line in piped[start + 2 : end] if line.startswith("|")]
        found.append(MarkdownTable(_cells(header), number, tuple(rows)))
    return found


def _is_header(line: tuple[int, str], following: tuple[int, str]) -> bool:
    is_rule = _RULE.fullmatch(following[1]) is not None
    return is_rule and following[0] == line[0] + 1 and _RULE.fullmatch(line[1]) is None


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|"))


def check_header(names: tuple[str, ...], where: str) -> None:
    """Raise if a header names two columns alike.

    Examples
    --------
    >>> check_header(("batch", "width"), "a.csv line 1")
    """
    repeated = next((name for place, name in enumerate(names) if name and name in names[:place]), None)
    if repeated is not None:
        raise BadInput("names two columns", file=where, field="header", value=repeated, remedy="rename one of them")


def header_cells(document: Document) -> tuple[str, ...]:
    """The cells of the first line that is neither blank nor a comment, in lower case, blanks as underscores.

    Examples
    --------
    >>> header_cells(Document(name="a.csv", lines=("# made by hand", "Batch, Time MS")))
    ('batch', 'time_ms')
    """
    line = next((line for line in document.lines if _is_content(line)), "")
    try:
        cells = next(csv.reader([line], delimiter=_delimiter(line), skipinitialspace=True), [])
    except csv.Error:
        return ()
    return tuple("_".join(cell.strip().casefold().split()) for cell in cells)


def csv_records(document: Document) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield where each row of a CSV with a header stands, and its cells by the names of :func:`header_cells`.

    The cells are separated by commas, semicolons or tabs.

    Raises
    ------
    BadInput
        If a row has more or fewer cells than the header, or there are far too many.

    Examples
    --------
    >>> list(csv_records(Document(name="a.csv", lines=("batch;width", "1;4"))))
    [('a.csv line 2', {'batch': '1', 'width': '4'})]
    """
    names = header_cells(document)
    start = next(place for place, line in enumerate(document.lines) if _is_content(line))
    check_header(names, document.line(start + 1))
    body = document.lines[start:]
    reader = csv.reader(body, delimiter=_delimiter(body[0]), strict=True, skipinitialspace=True)
    try:
        for count, raw in enumerate(reader):
            where = document.line(start + reader.line_num)
            if count > MOST_ROWS:
                raise BadInput(f"more than {MOST_ROWS} rows", file=where, remedy="one row is one time; split the file")
            if count and any(cell.strip() for cell in raw):
                yield where, _named(raw, names, where)
    except csv.Error as error:
        where = document.line(start + reader.line_num)
        raise BadInput(f"is not a table: {error}", file=where, remedy="export the table again") from None


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _named(raw: list[str], names: tuple[str, ...], where: str) -> dict[str, str]:
    if len(raw) < len(names) or any(cell.strip() for cell in raw[len(names) :]):
        problem = f"{len(raw)} cells under {len(names)} names"
        raise BadInput(problem, file=where, remedy="the row was cut or another table appended; correct it")
    return {name: cell.strip() for name, cell in zip(names, raw, strict=False)}
