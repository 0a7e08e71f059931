"""A file of measured series: what it says, in one unit, and what is wrong with which row.

A row that lacks something is a row; a row that cannot be true is a problem, named by line and column, and the others
are read all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specbook.checks import BadInput
from specbook.validation.reading import Table, TableRow, open_table
from specbook.validation.row_cells import RowCells
from specbook.validation.row_reading import series_row
from specbook.validation.series_row import RowProblem, SeriesFile, SeriesRow
from specbook.validation.stream_or_total import stream_or_total

__all__ = ["RowProblem", "SeriesFile", "SeriesRow", "example_series", "read_series"]


def read_series(path: Path | str) -> SeriesFile:
    """Read measured settings from a table of text.

    Parameters
    ----------
    path : Path or str
        Columns ``series, source, hardware, engine, target, drafter, K, batch, context, workload, acc_len_incl_bonus,
        acc_rate, n_rounds, n_drafted, n_accepted, tok_s, baseline_tok_s, unit, note``, in any order, and optionally
        ``devices``, ``prompt_tokens``, ``output_tokens`` and ``speedup``. Any cell may be empty, and most columns may
        be missing. ``acc_rate`` is a fraction, or a percentage that says so; ``unit`` is that of both speeds.

    Returns
    -------
    SeriesFile
        Speeds as totals over the streams; what follows from other cells is worked out, and said in ``derived``.

    Raises
    ------
    BadInput
        If the file cannot be read, or is no table of a series. A row that cannot be used is a problem of the result.

    Examples
    --------
    >>> table = read_series(example_series())
    >>> len(table.rows), table.separator
    (2, ',')
    >>> print(table.problems[0])
    line 4, column acc_rate: 54.7 is above 1: percent?; write 0.547 or 54.7 %
    """
    path = Path(path)
    rows: list[SeriesRow] = []
    with open_table(path) as table:
        problems = list(_problems_of_file(table))
        n_read = 0
        for each in table.rows:
            row = _read_row(each, table, problems)
            rows += [row] if row is not None else []
            n_read += 1
    if not n_read:
        raise BadInput("holds a header and no row", file=str(path), remedy="one row is one measured setting")
    problems += stream_or_total(rows, table.header.written.get("tok_s", "tok_s"))
    return SeriesFile(
        rows=tuple(rows),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)),
        name=table.name,
        sha256=table.encoding.sha256,
        encoding=table.encoding.name,
        separator=table.separator,
        ignored_columns=table.header.ignored,
    )


def example_series() -> Path:
    """Path of a small invented series, one row of which has a percentage for a fraction.

    Examples
    --------
    >>> example_series().name
    'example_series.csv'
    """
    return Path(__file__).parent / "example_series.csv"


def _problems_of_file(table: Table) -> Iterator[RowProblem]:
    """What is odd about a file as a whole."""
    if table.encoding.n_unreadable:
        yield RowProblem(
            line=table.header_line,
            column="",
            value="",
            problem=f"{table.encoding.n_unreadable} bytes of the file are not UTF-8",
            remedy="they are shown escaped; save it as UTF-8",
            is_fatal=False,
        )
    for name, taken_as in table.header.open_names:
        yield RowProblem(
            line=table.header_line,
            column=name,
            value="",
            problem=taken_as,
            remedy="name the column acc_rate, or acc_len_incl_bonus",
            is_fatal=False,
        )


def _read_row(row: TableRow, table: Table, problems: list[RowProblem]) -> SeriesRow | None:
    problem = row.problem or _misfit(row.cells, table.header.n_cells)
    if problem:
        remedy = "a cell that holds the separator needs quotes; a row that was cut, its end"
        problems.append(RowProblem(line=row.line, column="", value="", problem=problem, remedy=remedy, is_fatal=True))
        return None
    cells = RowCells(
        line=row.line,
        cells={column: row.cells[place].strip() for column, place in table.header.places.items()},
        header=table.header,
        decimal_comma=table.separator != ",",
    )
    read = series_row(cells)
    problems += cells.problems
    return read


def _misfit(cells: list[str], n_names: int) -> str:
    """How a row differs from its header; "" if it does not. Separators behind the last cell do not matter."""
    if len(cells) < n_names or any(map(str.strip, cells[n_names:])):
        return f"{len(cells)} cells under {n_names} names"
    return ""
