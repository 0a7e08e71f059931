"""Tables of step times on a terminal: width × batch at each context."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.hardware.step_times import StepTimePoint, StepTimeTable

# More columns than a terminal shows are continued in a further table.
_MOST_BATCHES = 10
_MS = 1e3


def show_step_times(table: StepTimeTable) -> None:
    """What the times are of, then one table for each context."""
    say(_headline(table))
    for part in _parts(table):
        open_console().print(part)


def _headline(table: StepTimeTable) -> str:
    what = "a whole round, drafting and verifying" if table.measures == "round" else "one forward pass"
    unit = "ms" if table.unit == "seconds" else "multiples of the pass over one position"
    on = ", ".join(
        f"{name} {value}"
        for name, value in (("model", table.model), ("hardware", table.hardware), ("engine", table.engine))
        if value is not None
    )
    return f"{what}, {unit}: {on or 'nobody wrote down of what'}; {len(table.points):,} times from {table.source}"


def _parts(table: StepTimeTable) -> Iterator[Table]:
    """One table for each context and each few batches."""
    batches = table.batches
    for context in table.contexts:
        points = [point for point in table.points if point.context == context]
        for start in range(0, len(batches), _MOST_BATCHES):
            yield _part(table, context, points, batches[start : start + _MOST_BATCHES])


def _part(table: StepTimeTable, context: int | None, points: list[StepTimePoint], batches: list[int]) -> Table:
    drafted = table.measures == "round"
    title = "context not known" if context is None else f"context {context:,}"
    settings = [">steps", ">top-k"] if drafted else []
    part = plain_table(">width", *settings, *(f">batch {batch:,}" for batch in batches), title=title)
    scale = _MS if table.unit == "seconds" else 1.0
    rows: dict[tuple[int | None, ...], dict[int, float]] = {}
    for point in points:
        setting = (point.draft_steps, point.top_k) if drafted else ()
        rows.setdefault((point.width, *setting), {})[point.batch] = scale * point.seconds
    for row in sorted(rows, key=lambda row: [-1 if value is None else value for value in row]):
        times = [rows[row].get(batch) for batch in batches]
        cells = [*row, *(None if time is None else f"{time:.4g}" for time in times)]
        part.add_row(*map(safe_text, cells))
    return part
