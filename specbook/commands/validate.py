"""``specbook validate``: predictions against a file of measured speedups, and how good they are."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbook import __version__
from specbook.checks import BadInput, printable, shown
from specbook.commands.option_names import naming_options
from specbook.commands.output import JsonFlag, check_out, emit, note

if TYPE_CHECKING:
    import polars as pl

    from specbook.hardware.profile import HardwareProfile
    from specbook.validation.fleet import FleetFit
    from specbook.validation.series import SeriesFile
    from specbook.validation.settings import Overrides
    from specbook.validation.validate import Validation

SCHEMA = "specbook-validation/1"
PUBLISHED = "published"
_PICTURES = (".html", ".svg", ".png")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("validate")(validate_command)


def validate_command(
    series: Annotated[
        str, typer.Argument(metavar="SERIES.csv", help="Measured settings, or published for those that ship.")
    ],
    device: Annotated[
        str | None,
        typer.Option("--device", help="A device by name, or a hardware file, where rows do not tell."),
    ] = None,
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, max=1024, help="Devices that share the models, likewise.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="Target, or its size such as 13B, likewise.")] = None,
    draft: Annotated[str | None, typer.Option("--draft", help="Draft model or method, likewise.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="Engine, likewise.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Weight format of the target, likewise.")] = None,
    draft_precision: Annotated[
        str | None, typer.Option("--draft-precision", help="Weight format of the drafter, likewise.")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=1, max=2**24, help="Mean tokens of context, likewise.")
    ] = None,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Rows furthest off to explain.")] = 10,
    calibrate: Annotated[
        Path | None,
        typer.Option("--calibrate", help="Fit the device's calibration to the rows; a hardware file to write."),
    ] = None,
    fit: Annotated[
        str | None,
        typer.Option("--fit", help="What to fit, with commas: step, layer, kv_passes, mbu, mfu. All of them."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the new calibration; the engine's.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**53, help="Of resampled series.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="The rows to write, Parquet.")] = None,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="A page with all charts (.html), or the first (.svg, .png).")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Predict measured rows of others and of yours, and say how far the predictions are from the clock."""
    from specbook.display import tables
    from specbook.display.fleet_terminal import show_fleet
    from specbook.display.validation_terminal import show_validation
    from specbook.validation.explain import explained
    from specbook.validation.settings import Overrides

    if calibrate is None and (fit is not None or name is not None):
        option = "--fit" if fit is not None else "--name"
        raise BadInput("is of a calibration", field=option, remedy="name the file to write with --calibrate")
    _check_files(series, [("--out", out), ("--chart", chart), ("--calibrate", calibrate)])
    write_chart = None if chart is None else _chart_writer(chart)
    with naming_options():
        overrides = Overrides(
            device=None if device is None else _device(device),
            n_devices=devices,
            target=target,
            draft=draft,
            engine=engine,
            precision=_weight_format(precision, "--precision"),
            draft_precision=_weight_format(draft_precision, "--draft-precision"),
            context_tokens=context,
        )
        file = _series(series)
        validation = _validated(file, overrides, is_published=series == PUBLISHED)
        _check_compared(validation)
        fitted = None if calibrate is None else _calibrated(file, overrides, fit, name, seed)
    found = explained(validation, worst)
    if out is not None:
        write_rows(out, validation)
    if write_chart is not None:
        write_chart(validation, found)
    if fitted is not None and calibrate is not None:
        write_calibration(calibrate, fitted)
    written = [str(path) for path in (out, chart, calibrate) if path is not None]
    if json:
        calibration = None if fitted is None else calibration_document(fitted)
        emit({**validation_document(validation, found), "calibration": calibration, "out": written})
        return
    show_validation(validation, found)
    if fitted is not None:
        show_fleet(fitted)
    for text in _notes(file):
        note(f"note: {text}")
    for path in written:
        tables.say(f"wrote {path}")


def _check_files(series: str, outputs: Sequence[tuple[str, Path | None]]) -> None:
    """Refuse outputs that cannot be written, or that would go over the input or each other."""
    taken = [] if series == PUBLISHED else [Path(series)]
    for option, path in outputs:
        if path is None:
            continue
        if option == "--chart" and path.suffix.casefold() not in _PICTURES:
            remedy = f"name a file that ends in {', '.join(_PICTURES)}"
            raise BadInput("is no kind of chart", field=option, value=str(path), remedy=remedy)
        if option == "--calibrate" and path.suffix.casefold() != ".json":
            remedy = "name a file that ends in .json, as --hardware and --device take it"
            raise BadInput("is no hardware file", field=option, value=str(path), remedy=remedy)
        check_out(path, option, taken)
        taken.append(path)


def _validated(file: SeriesFile, overrides: Overrides, *, is_published: bool) -> Validation:
    """The shipped table as it is has scores of rows that were left out of the fit beside it."""
    from specbook.validation.left_out import published_validation
    from specbook.validation.settings import Overrides as NothingStated
    from specbook.validation.validate import validate

    if is_published and overrides == NothingStated():
        return published_validation()
    return validate(file, overrides)


def _calibrated(file: SeriesFile, overrides: Overrides, fit: str | None, name: str | None, seed: int) -> FleetFit:
    import numpy as np

    from specbook.validation.fleet import calibrate
    from specbook.validation.fleet_config import FleetConfig
    from specbook.validation.fleet_constants import CONSTANTS
    from specbook.validation.settings import settings

    config = FleetConfig(
        constants=CONSTANTS if fit is None else tuple(part.strip() for part in fit.split(",")),
        name=name,
        device=None if overrides.device is None else overrides.device.name,
        engine=overrides.engine,
        series_name=file.name,
        series_sha256=file.sha256,
    )
    return calibrate(settings(file.rows, overrides), config, np.random.default_rng(seed))


def write_calibration(path: Path, fit: FleetFit) -> None:
    """Write the device's profile with the new calibration first.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    from specbook.files import dump_model, write_text

    write_text(path, dump_model(fit.profile))


def calibration_document(fit: FleetFit) -> dict[str, Any]:
    """A calibration as one JSON object.

    Examples
    --------
    >>> from specbook.validation.fleet import example_fleet
    >>> list(calibration_document(example_fleet()))
    ['hardware', 'backend', 'n_rows', 'constants', 'held_back', 'notes']
    """
    return {
        "hardware": fit.profile.name,
        "backend": fit.backend,
        "n_rows": fit.n_rows,
        "constants": _records(fit.constants),
        "held_back": _records(fit.held_back),
        "notes": list(fit.notes),
    }


def _series(series: str) -> SeriesFile:
    from specbook.validation.published_series import published_series
    from specbook.validation.series import read_series

    if series == "-":
        raise BadInput("is not read", field="standard input", remedy="save the rows to a file, and name it")
    return published_series() if series == PUBLISHED else read_series(Path(series))


def _device(name: str) -> HardwareProfile:
    from specbook.hardware.profile import load_hardware
    from specbook.names.devices import device_name

    with _of_option("--device"):
        found = device_name(name)
        is_path = Path(name).suffix != "" or len(Path(name).parts) != 1 or Path(name).exists()
        if is_path or (found.profile is None and not found.candidates):
            return load_hardware(name)
        if found.profile is None:
            raise BadInput("fits several devices", value=name, remedy=f"one of {', '.join(found.candidates)}")
        if found.n_devices is not None:
            raise BadInput("names more than a device", value=name, remedy=f"--devices {found.n_devices} is how many")
        return found.profile


def _weight_format(name: str | None, option: str) -> str | None:
    from specbook.roofline.model_spec import precision

    if name is None:
        return None
    with _of_option(option):
        precision(name)
    return name.casefold()


@contextmanager
def _of_option(option: str) -> Iterator[None]:
    """Let what is refused name the option, unless it is a field of a file."""
    try:
        yield
    except BadInput as error:
        if error.file is not None:
            raise
        raise BadInput(error.problem, field=option, value=error.value, remedy=error.remedy) from None


def _check_compared(validation: Validation) -> None:
    """Refuse a file none of whose rows could be compared, with what they lack most often.

    Raises
    ------
    BadInput
        If there is no row with a measured and a predicted speedup.
    """
    from specbook.display.validation_missing import commonest_lack, missing_groups

    if validation.frame["error"].is_not_null().any():
        return
    n_rows, groups = validation.frame.height, missing_groups(validation.frame)
    if groups:
        first, n_lacking = commonest_lack(groups)
        named = "" if first.written is None else f", such as {shown(first.written)}"
        lack = f"no row can be evaluated; {n_lacking:,} of {n_rows:,} do not tell the {first.what}{named}"
        remedy = f"give {first.answer}" if first.answer.startswith("--") else f"fill {first.answer}"
        raise BadInput(lack, file=validation.name, remedy=remedy)
    problem = next(problem for problem in validation.problems if problem.is_fatal)
    raise BadInput(f"no row can be used; {problem}", file=validation.name, remedy="correct the rows")


def _notes(file: SeriesFile) -> list[str]:
    """How the file was read, where that is worth a look."""
    notes = [f"columns that are not read: {', '.join(file.ignored_columns)}"] if file.ignored_columns else []
    return notes + ([] if file.encoding.startswith("utf") else [f"{file.name} was read as {file.encoding}"])


def validation_document(validation: Validation, worst: pl.DataFrame) -> dict[str, Any]:
    """A validation as one JSON object; what is not known is null.

    Parameters
    ----------
    validation : Validation
    worst : polars.DataFrame
        Of :func:`~specbook.validation.explain.explained`.

    Examples
    --------
    >>> from specbook.validation.explain import explained
    >>> from specbook.validation.validate import example_validation
    >>> list(validation_document(example_validation(), explained(example_validation())))
    ['schema', 'series', 'conditions', 'scores', 'left_out', 'rows', 'problems', 'worst']
    """
    return {
        "schema": SCHEMA,
        "series": {"name": validation.name, "sha256": validation.sha256},
        "conditions": list(validation.conditions),
        "scores": _records(validation.scores),
        "left_out": None if validation.left_out is None else _records(validation.left_out),
        "rows": _records(validation.frame),
        "problems": [asdict(problem) for problem in validation.problems],
        "worst": _records(worst),
    }


def _records(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [{name: _finite(value) for name, value in row.items()} for row in frame.iter_rows(named=True)]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_rows(path: Path, validation: Validation) -> None:
    """Write the rows as Parquet; the metadata name the schema, the version and the series file.

    Raises
    ------
    BadInput
        If it cannot be written.
    """
    from specbook.parquet import write_parquet

    metadata = {
        "specbook.schema": SCHEMA,
        "specbook.version": __version__,
        "specbook.series": json_module.dumps({"name": validation.name, "sha256": validation.sha256}),
        "specbook.conditions": json_module.dumps(validation.conditions),
        "specbook.problems": json_module.dumps([str(problem) for problem in validation.problems]),
    }
    write_parquet(path, validation.frame, metadata)


def _chart_writer(path: Path) -> Callable[[Validation, pl.DataFrame], None]:
    """What draws to a path, so that missing packages are met before anything is worked out."""
    try:
        import vl_convert

        from specbook.display.charts import to_svg
        from specbook.display.validation_charts import predictions_chart
        from specbook.display.validation_page import validation_html
    except ModuleNotFoundError as error:
        raise BadInput(
            f"needs {error.name}", field="--chart", value=str(path), remedy="install specbook[book]"
        ) from None
    from specbook.files import write_bytes, write_text

    def write(validation: Validation, worst: pl.DataFrame) -> None:
        if path.suffix.casefold() == ".html":
            write_text(path, validation_html(validation, worst))
            return
        title = printable(f"Predicted over measured speedup, {validation.name}")
        chart = predictions_chart(validation.frame, title)
        svg = to_svg(chart.to_dict() | {"background": "white", "padding": 12}, width=720)
        if path.suffix.casefold() == ".svg":
            write_text(path, svg + "\n")
        else:
            write_bytes(path, vl_convert.svg_to_png(svg, scale=2))

    return write
