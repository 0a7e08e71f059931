"""A CSV of step times: a header with batch, width and a time whose unit is in its name, and if known context.

A column ``series`` tells several tables in one file apart, as do ``model``, ``hardware``, ``engine`` and
``tensor_parallel``.
"""

from __future__ import annotations

from typing import Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Readout, StepTimeRow, in_a_few
from specbook.hardware.readers.tables import csv_records, header_cells
from specbook.hardware.readers.values import label, numeral, pass_seconds, positive, whole
from specbook.hardware.step_times import Cell

NAME = "csv"
ENGINE: str | None = None
MEASURES: Literal["pass", "round"] = "pass"

_ALIASES = {
    "batch": ("batch", "batch_size", "batch_sequences", "n_sequences", "sequences"),
    "context": ("context", "context_tokens", "context_length"),
    "width": ("width", "query_tokens_per_sequence", "tokens_per_sequence", "query_tokens"),
}
_UNITS_S = {
    **dict.fromkeys(("seconds", "time_s", "step_time_s", "s"), 1.0),
    **dict.fromkeys(("milliseconds", "time_ms", "step_time_ms", "ms"), 1e-3),
    **dict.fromkeys(("microseconds", "time_us", "step_time_us", "us"), 1e-6),
}
# Multiples of the pass over one position: of the whole pass, or of each of its positions.
_RELATIVE = ("relative_cost", "relative_cost_per_token")
_LABELS = ("series", "model", "hardware", "engine", "tensor_parallel")
_SILENT = ("source", "note")
_NO_UNIT = ("time", "latency", "step_time", "duration")


def recognises(document: Document) -> bool:
    """Whether the document's first line names at least two columns of step times."""
    names = set(header_cells(document))
    spelled = [*_ALIASES.values(), tuple(_UNITS_S), _RELATIVE, _NO_UNIT]
    return sum(not names.isdisjoint(aliases) for aliases in spelled) >= 2


def read(document: Document) -> Readout:
    """One time a row; a row whose time is empty is refused."""
    names = header_cells(document)
    columns = _columns(names, document)
    times = [name for name in names if name in _UNITS_S] + [name for name in names if name in _RELATIVE]
    rows = [_row(cells, columns, times, where) for where, cells in csv_records(document)]
    known = {*columns.values(), *times, *_LABELS, *_SILENT}
    unread = [name for name in names if name and name not in known]
    return Readout(rows=rows, notes=[f"columns that were not read: {in_a_few(unread)}"] if unread else [])


def _columns(names: tuple[str, ...], document: Document) -> dict[str, str]:
    """What each of batch, context and width is called here; context may be missing."""
    where = next(document.line(n) for n, line in enumerate(document.lines, start=1) if line.strip())
    found: dict[str, str] = {}
    for column, aliases in _ALIASES.items():
        held = [name for name in names if name in aliases]
        if len(held) > 1:
            raise BadInput(f"two columns for {column}", file=where, field="header", value=held, remedy="keep one")
        if held:
            found[column] = held[0]
        elif column != "context":
            remedy = f"name one of the columns {', '.join(aliases)}"
            raise BadInput(f"has no column {column}", file=where, field="header", value=list(names), remedy=remedy)
    units = [name for name in names if name in _UNITS_S]
    if len(units) > 1:
        raise BadInput("two columns of times", file=where, field="header", value=units, remedy="keep one")
    if not units and not any(name in _RELATIVE for name in names):
        problem, remedy = "has no column of times that says its unit", "name it seconds, time_ms or time_us"
        raise BadInput(problem, file=where, field="header", value=list(names), remedy=remedy)
    return found


def _row(cells: dict[str, str], columns: dict[str, str], times: list[str], where: str) -> StepTimeRow:
    sizes = {
        column: whole(numeral(cells[name], where, name), where, name, minimum=0 if column == "context" else 1)
        for column, name in columns.items()
        if column != "context" or cells[name]
    }
    named = {name: label(cells.get(name, ""), where, name) for name in _LABELS}
    seconds, unit = _time(cells, times, sizes["width"], where)
    return StepTimeRow(
        where=where,
        cell=Cell(sizes.get("context"), sizes["batch"], sizes["width"]),
        seconds=seconds,
        unit=unit,
        labels={name: text for name, text in named.items() if text is not None},
        source=label(cells.get("source", ""), where, "source"),
    )


def _time(
    cells: dict[str, str], times: list[str], width: int, where: str
) -> tuple[float, Literal["seconds", "relative"]]:
    """The first time that the row has, measured ones before relative ones."""
    name = next((name for name in times if cells[name]), None)
    if name is None:
        raise BadInput("is empty", file=where, field=times[0], remedy="take the row out, or measure it")
    value = numeral(cells[name], where, name)
    if name in _UNITS_S:
        return pass_seconds(value, where, name, unit_s=_UNITS_S[name]), "seconds"
    return positive(value, where, name) * (width if name.endswith("_per_token") else 1), "relative"
