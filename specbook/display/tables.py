"""What every table on a terminal is made of. Every word that comes from a file is shown as it is and never acted on."""

from __future__ import annotations

import os

from rich import box
from rich.console import Console
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
_WRAPPING = {"profile", "device", "dropped", "target", ""}


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
