"""A series file held against the model: what each row was predicted to be, and how good the predictions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads
from specbook.validation.passes import passes_of_rows
from specbook.validation.rounds import constants_of, part_of, predict_rounds
from specbook.validation.scores import scored
from specbook.validation.series import RowProblem, SeriesFile
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Overrides, Setting, example_series, settings
from specbook.validation.validation_rows import predicted_cells, rows_frame


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Predictions for a series file, beside what was measured.

    Attributes
    ----------
    name, sha256 : str
        Of the series file.
    frame : polars.DataFrame
        One row for each row of the file, in its order. ``status``: ``complete``; ``completed``, where something was
        worked out or taken as usual; ``incomplete``, where ``missing`` says what; ``impossible``. Times in seconds:
        ``baseline_s`` and ``outside_s`` a token, the others a round. ``error`` is predicted ÷ measured − 1.
    scores : polars.DataFrame
        Of :func:`~specbook.validation.scores.scored`.
    problems : tuple of RowProblem
    conditions : tuple of str
        What holds for all predictions, one sentence each.
    left_out : polars.DataFrame or None
        For the shipped table, to which the engines' constants were fitted: ``left_out`` (``series`` or ``target``) and
        the scores of all rows when each was predicted without it.
    """

    name: str
    sha256: str
    frame: pl.DataFrame
    scores: pl.DataFrame
    problems: tuple[RowProblem, ...]
    conditions: tuple[str, ...]
    left_out: pl.DataFrame | None = None


def validate(series: SeriesFile, overrides: Overrides | None = None) -> Validation:
    """Predict every row of a series from what was known beforehand, and compare.

    Parameters
    ----------
    series : SeriesFile
    overrides : Overrides, optional
        What the file does not tell.

    Returns
    -------
    Validation

    Raises
    ------
    BadInput
        If an override names nothing that is known.

    Notes
    -----
    The measured speed without speculation scales the target's own step; no measured speed with speculation is used.
    Intervals are predicted speedups times the 5 % and 95 % quantiles of measured ÷ predicted over the shipped rows of
    the engine, each predicted by constants that were fitted without its series.

    References
    ----------
    leviathan2023; specbundle

    Examples
    --------
    >>> result = example_validation()
    >>> result.frame["status"].unique().to_list()
    ['completed']
    """
    return validation_with(series, overheads_of, overrides)


def validation_with(
    series: SeriesFile, overheads_for: Callable[[Setting], EngineOverheads], overrides: Overrides | None = None
) -> Validation:
    """As :func:`validate`, with chosen overheads for each row.

    Parameters
    ----------
    series : SeriesFile
    overheads_for : callable
        What a row's engine spends beside the passes.
    overrides : Overrides, optional

    Returns
    -------
    Validation

    Raises
    ------
    BadInput
        If an override names nothing that is known.

    Examples
    --------
    >>> from specbook.validation.setting_overheads import NO_OVERHEADS
    >>> bare = validation_with(example_series(), lambda setting: NO_OVERHEADS)
    >>> bool((bare.frame["predicted_speedup"] > example_validation().frame["predicted_speedup"]).all())
    True
    """
    meanings = settings(series.rows, overrides)
    found, passes = passes_of_rows(meanings)
    overheads = [overheads_for(each) for each in found]
    constants = np.array([constants_of(each) for each in overheads]).reshape(-1, len(CONSTANTS))
    rounds = predict_rounds(passes, constants)
    predicted = {
        setting.row.line: predicted_cells(setting, each, part_of(rounds, index))
        for index, (setting, each) in enumerate(zip(found, overheads, strict=True))
    }
    frame = rows_frame(meanings, predicted, series.problems)
    return Validation(
        name=series.name,
        sha256=series.sha256,
        frame=frame,
        scores=scored(frame),
        problems=series.problems,
        conditions=(*_conditions(overheads), *_fitted_to(series, found)),
    )


def _conditions(overheads: Sequence[EngineOverheads]) -> Iterator[str]:
    yield (
        "Each prediction takes acceptance as given, figures of the device and the models, and measured speeds without "
        "speculation, of the row and of other workloads of its server, which scale the target's own step; the row's "
        "own speed with speculation is not used."
    )
    for each in {found.engine: found for found in overheads}.values():
        if each.evidence == "none":
            yield "Where nobody fitted the overheads of an engine, none are added, and there is no interval."
        else:
            constants = "constant" if each.n_constants == 1 else "constants"
            fitted = f"; {each.n_constants} {constants}, {each.n_series} series, speeds with speculation of other rows"
            yield f"Overheads beside the passes: {each.label}{fitted}."


def _fitted_to(series: SeriesFile, found: Sequence[Setting]) -> Iterator[str]:
    """A warning where a device's calibration was fitted to the very file."""
    for device in {setting.device.name: setting.device for setting in found}.values():
        if series.sha256 and any(series.sha256 in each.source for each in device.calibrations.values()):
            yield f"A calibration of {device.name} was fitted to this very file, and its figures flatter."


def example_validation() -> Validation:
    """A validation of a few rows, for examples.

    Examples
    --------
    >>> example_validation().scores["n_rows"][0]
    3
    """
    return validate(example_series())
