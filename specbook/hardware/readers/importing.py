"""From a file to one table: its format, its series, its context, and what was measured more than once."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from specbook.checks import BadInput, printable
from specbook.files import first_problem, sha256_of
from specbook.hardware.readers.documents import read_document
from specbook.hardware.readers.formats import FORMATS, reader_of
from specbook.hardware.readers.rows import Document, Reader, StepTimeRow, counted, in_a_few
from specbook.hardware.readers.series import one_series
from specbook.hardware.readers.values import label, whole
from specbook.hardware.step_times import Cell, StepTimePoint, StepTimeTable

_AXES = ("batch", "context", "width")


@dataclass(frozen=True, kw_only=True)
class StepTimeOptions:
    """What the person importing knows and the file may not say.

    Attributes
    ----------
    format : str
        A key of :data:`FORMATS`, or ``auto``.
    model, hardware, engine : str or None
        What the times were measured on; overrides what the file says.
    context : int or None
        Tokens in each sequence, for times whose file does not say it.
    series : str or None
        Which of several tables in the file, by name or by a part of it.
    only : dict of str to tuple of int
        Keep only times at these values of batch, context or width.

    Raises
    ------
    BadInput
        If there is no such format or axis, or a value is impossible.
    """

    format: str = "auto"
    model: str | None = None
    hardware: str | None = None
    engine: str | None = None
    context: int | None = None
    series: str | None = None
    only: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            remedy = f"one of auto, {', '.join(FORMATS)}"
            raise BadInput("no such format", field="--format", value=self.format, remedy=remedy)
        for name in ("model", "hardware", "engine"):
            value = getattr(self, name)
            if value is not None and label(value, "options", f"--{name}") is None:
                raise BadInput("must be a name", field=f"--{name}", value=value, remedy="leave it out if unknown")
        if self.context is not None:
            whole(self.context, "options", "--context", minimum=0)
        for name in self.only:
            if name not in _AXES:
                raise BadInput("no such axis", field="--only", value=name, remedy=f"one of {', '.join(_AXES)}")


def import_step_times(path: Path, options: StepTimeOptions | None = None) -> StepTimeTable:
    """Read one table of step times.

    Parameters
    ----------
    path : Path
        A file of one of :data:`FORMATS`.
    options : StepTimeOptions, optional

    Returns
    -------
    StepTimeTable
        Points in order of context, batch and width; ``warnings`` say what was assumed, left out or pooled.

    Raises
    ------
    BadInput
        If the file is of no known format, holds several tables, states a time that no pass takes, or says two
        things about one cell.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "costs.txt"
    ...     _ = path.write_text("1, 0.605, 0.473")
    ...     table = import_step_times(path, StepTimeOptions(context=512))
    >>> [round(point.seconds, 3) for point in table.points], table.unit
    ([1.0, 1.21, 1.419], 'relative')
    """
    options = options or StepTimeOptions()
    document = read_document(path)
    reader = reader_of(document, options.format)
    readout = reader.read(document)
    if not readout.rows:
        raise BadInput("holds no time", file=document.name, remedy="the benchmark may have failed; run it again")
    rows = one_series(readout.rows, options.series, document.name)
    notes = [*document.notes, *readout.notes]
    rows = _kept(_with_context(rows, options.context, document, notes), options.only, document)
    _check_alike(rows)
    points = [_point(row) for row in _pooled(rows, notes)]
    return _table(reader, rows, points, notes, document, options, sha256_of(path))


def _with_context(
    rows: list[StepTimeRow], context: int | None, document: Document, notes: list[str]
) -> list[StepTimeRow]:
    """Rows with the stated context, where the file has none."""
    if context is None:
        return rows
    if all(row.cell.context is not None for row in rows):
        known = in_a_few((f"{row.cell.context:,}" for row in rows), most=4)
        problem, remedy = f"the file says it: {known}", "keep one of them with --only context=…"
        raise BadInput(problem, file=document.name, field="--context", value=context, remedy=remedy)
    notes.append(f"context {context:,} was stated at import")
    return [
        row if row.cell.context is not None else replace(row, cell=row.cell._replace(context=context)) for row in rows
    ]


def _kept(rows: list[StepTimeRow], only: Mapping[str, tuple[int, ...]], document: Document) -> list[StepTimeRow]:
    for axis, values in only.items():
        held = [row for row in rows if getattr(row.cell, axis) in values]
        if not held:
            measured = ", ".join(map(str, sorted({getattr(row.cell, axis) or 0 for row in rows})[:12]))
            problem, remedy = "no time there", f"measured were {measured}"
            raise BadInput(problem, file=document.name, field=f"--only {axis}", value=values[0], remedy=remedy)
        rows = held
    return rows


def _check_alike(rows: list[StepTimeRow]) -> None:
    """Raise if some times are relative and others not, or some say their context and others do not."""
    first = rows[0]
    for row in rows:
        if row.unit != first.unit:
            problem, remedy = f"is in {row.unit}, and {first.where} in {first.unit}", "take the rows of one of them out"
            raise BadInput(problem, file=row.where, remedy=remedy)
        if (row.cell.context is None) != (first.cell.context is None):
            silent = row if row.cell.context is None else first
            problem, remedy = "is not said, and other rows say it", "state it for those that do not with --context"
            raise BadInput(problem, file=silent.where, field="context", value=None, remedy=remedy)


def _pooled(rows: list[StepTimeRow], notes: list[str]) -> list[StepTimeRow]:
    """One row a cell: the median of repeated measurements; two that contradict each other are refused."""
    by_cell: dict[Cell, list[StepTimeRow]] = {}
    for row in rows:
        by_cell.setdefault(row.cell, []).append(row)
    pooled = [_median(group) for group in by_cell.values()]
    repeated = [group for group in by_cell.values() if len(group) > 1]
    if repeated:
        ranges = [_range(group) for group in repeated]
        notes.append(
            f"repeated measurements are pooled by their median: {counted(sum(map(len, repeated)), 'time')} of "
            f"{counted(len(repeated), 'cell')}; the widest range is {max(ranges):.1%} of it"
        )
    return sorted(pooled, key=lambda row: tuple(-1 if value is None else value for value in row.cell))


def _median(group: list[StepTimeRow]) -> StepTimeRow:
    if len(group) == 1:
        return group[0]
    first_of: dict[str, StepTimeRow] = {}
    for row in group:
        first = first_of.setdefault(row.variant, row)
        if first.seconds != row.seconds:
            problem = f"{first.where} says {_shown(first)} for the same {row.cell}"
            remedy = "two runs are in one file, or the rows differ in something that it does not say: split it"
            raise BadInput(problem, file=row.where, value=_shown(row), remedy=remedy)
    return replace(group[0], seconds=statistics.median(row.seconds for row in first_of.values()))


def _range(group: list[StepTimeRow]) -> float:
    times = [row.seconds for row in group]
    return (max(times) - min(times)) / statistics.median(times)


def _shown(row: StepTimeRow) -> str:
    return f"{row.seconds:.6g} s" if row.unit == "seconds" else f"{row.seconds:.6g} × one position"


def _point(row: StepTimeRow) -> StepTimePoint:
    try:
        return StepTimePoint(**row.cell._asdict(), seconds=row.seconds)
    except ValidationError as error:
        raise first_problem(error, row.where, "correct it, or export the file again") from None


def _table(
    reader: Reader,
    rows: Sequence[StepTimeRow],
    points: list[StepTimePoint],
    notes: list[str],
    document: Document,
    options: StepTimeOptions,
    sha256: str,
) -> StepTimeTable:
    labels = rows[0].labels
    named = {name: getattr(options, name) or labels.get(name) for name in ("model", "hardware", "engine")}
    if named["hardware"] and not options.hardware and "tensor_parallel" in labels:
        named["hardware"] = f"{labels['tensor_parallel']} × {named['hardware']}"
    try:
        table = StepTimeTable(
            model=named["model"],
            hardware=named["hardware"],
            engine=named["engine"] or reader.ENGINE,
            measures=reader.MEASURES,
            unit=rows[0].unit,
            source=_source(rows, Path(document.name).name),
            format=reader.NAME,
            sha256=sha256,
            points=points,
        )
    except ValidationError as error:
        raise first_problem(error, document.name, "correct the file, or export it again") from None
    return table.model_copy(update={"warnings": [*notes, *_hole_note(table)]})


def _source(rows: Sequence[StepTimeRow], file: str) -> str:
    """The file, and what it names itself as its own source."""
    named = sorted({row.source for row in rows if row.source is not None})
    return printable(f"{'; '.join(named[:4])} (in {file})" if named else file)


def _hole_note(table: StepTimeTable) -> list[str]:
    hole = table.hole() if table.measures == "pass" else None
    if hole is None:
        return []
    return [f"the table has a hole at {hole}: only a full grid is interpolated, such as --only context=… keeps"]
