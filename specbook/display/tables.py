"""What every table on a terminal is made of. Every word that comes from a file is shown as it is and never acted on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from specbook.checks import printable

# Wide enough for every table when nobody says how wide the output is, as in a pipe or a file.
_WIDTH_OFF_TERMINAL = 120


def open_console() -> Console:
    """Standard output, wide where nobody says how wide it is."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, markup=False, width=_WIDTH_OFF_TERMINAL)
    return console


def safe_text(value: object) -> Text:
    """Text that the terminal shows and never acts on."""
    return Text("–" if value is None else printable(str(value)))


def say(text: str) -> None:
    """Print one line, escaped."""
    open_console().print(safe_text(text), soft_wrap=True)


# Columns that may break into lines when the terminal is narrow; names and numbers never do.
_WRAPPING = {"profile", "device", "dropped", "target", "latency", "engine", ""}


def plain_table(*columns: str, title: str | None = None) -> Table:
    """A plain table; ``>`` before a heading aligns it to the right."""
    caption = None if title is None else Text(printable(title))
    table = Table(
        title=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        collapse_padding=True,
    )
    for column in columns:
        heading = column.removeprefix(">")
        wraps = heading in _WRAPPING
        table.add_column(
            heading, justify="right" if column.startswith(">") else "left", no_wrap=not wraps, overflow="fold"
        )
    return table


def fitting_table(rows: Sequence[Mapping[str, object]], *, spared: Sequence[str], title: str | None = None) -> Table:
    """A plain table of rows by heading, which does without some columns where the terminal is too narrow.

    Parameters
    ----------
    rows : sequence of mapping of str to object
        At least one; all have the same headings, as :func:`plain_table` takes them.
    spared : sequence of str
        Headings of columns to leave out, the first of them first, until the others fit with all their digits.
    title : str or None
    """
    console = open_console()
    columns, left_out = list(rows[0]), list(spared)
    while True:
        table = plain_table(*columns, title=title)
        for row in rows:
            table.add_row(*(safe_text(row[column]) for column in columns))
        _keep_whole(table)
        if not left_out or _least_width(table, console) <= console.width:
            return table
        columns.remove(left_out.pop(0))


def _keep_whole(table: Table) -> None:
    """Let no cell lose a letter or a digit: what may wrap does so between words."""
    for column in table.columns:
        texts = [str(column.header), *(str(cell) for cell in column.cells)]
        pieces = texts if column.no_wrap else [word for text in texts for word in text.split()]
        column.min_width = max(map(cell_len, pieces), default=0)


def _least_width(table: Table, console: Console) -> int:
    """Columns of the terminal that the table needs where what may wrap is wrapped."""
    return Measurement.get(console, console.options.update(max_width=10_000), table).minimum
