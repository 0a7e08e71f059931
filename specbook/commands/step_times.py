"""The commands of step times: ``specbook steps import`` and ``specbook steps show``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specbook.checks import BadInput
from specbook.commands.output import JsonFlag, emit, note

OutOption = Annotated[Path, typer.Option("--out", help="The step-time table to write.")]


def register(app: typer.Typer) -> None:
    """Add the commands to a group."""
    app.command("import")(steps_import)
    app.command("show")(steps_show)


def steps_import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output of a benchmark, or a CSV of step times.")],
    out: OutOption,
    format: Annotated[str, typer.Option("--format", help="auto, or a format; a wrong name lists them all.")] = "auto",
    model: Annotated[str | None, typer.Option(help="Model, if the file does not say.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Device, if the file does not say.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine and backend, if the file does not say.")] = None,
    context: Annotated[
        int | None, typer.Option(min=0, max=2**24, help="Tokens in each sequence, if the file does not say.")
    ] = None,
    series: Annotated[str | None, typer.Option(help="Which table of a file that holds several.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Keep only times at one value of an axis, such as context=4096 or batch=1; repeatable."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Read measured step times into a table."""
    from specbook.display import tables
    from specbook.display.step_times_terminal import show_step_times
    from specbook.hardware.readers import StepTimeOptions, import_step_times
    from specbook.hardware.step_times import write_step_times

    options = StepTimeOptions(
        format=format,
        model=model,
        hardware=hardware,
        engine=engine,
        context=context,
        series=series,
        only=_only(only or []),
    )
    table = import_step_times(file, options)
    if os.path.realpath(out) == os.path.realpath(file):
        raise BadInput("is the file to read", field="--out", value=str(out), remedy="choose another --out")
    write_step_times(table, out)
    for warning in table.warnings:
        note(f"note: {warning}")
    if json:
        emit(table.model_dump(mode="json", by_alias=True))
        return
    show_step_times(table)
    tables.say(f"wrote {out}")


def _only(pairs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Filters by axis: ``AXIS=N``; several values of one axis are alternatives."""
    wanted: dict[str, list[int]] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise BadInput("is no AXIS=NUMBER", field="--only", value=pair, remedy="such as --only context=4096")
        wanted.setdefault(name, []).append(int(value))
    return {name: tuple(values) for name, values in wanted.items()}


def steps_show(
    file: Annotated[Path, typer.Argument(metavar="S.json", help="A step-time table.")],
    json: JsonFlag = False,
) -> None:
    """Show a table of step times."""
    from specbook.display import tables
    from specbook.display.step_times_terminal import show_step_times
    from specbook.hardware.step_times import read_step_times

    table = read_step_times(file)
    if json:
        emit(table.model_dump(mode="json", by_alias=True))
        return
    show_step_times(table)
    for warning in table.warnings:
        tables.say(f"note: {warning}")
