"""A series file held against the model: what each row was predicted to be, and how good the predictions are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from specbook.roofline.calibrations import calibration_label
from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads, engine_names, engine_overheads
from specbook.validation.coefficients import fastest_baselines, passes_of
from specbook.validation.device_counts import with_counts
from specbook.validation.rounds import Rounds, constants_of, part_of, predict_rounds
from specbook.validation.scores import NEAR_ONE, best_draft_lengths, scored
from specbook.validation.series import RowProblem, SeriesFile
from specbook.validation.settings import MissingRow, Overrides, Setting, example_series, settings
from specbook.validation.step_times import StepTimes

_WRITTEN = ("line", "series", "source", "hardware", "engine", "target", "drafter", "workload")
_SCHEMA: dict[str, Any] = {
    "line": pl.Int64, "series": pl.String, "source": pl.String, "hardware": pl.String, "engine": pl.String,
    "target": pl.String, "drafter": pl.String, "workload": pl.String, "status": pl.String, "missing": pl.String,
    "assumptions": pl.String, "warnings": pl.String, "device": pl.String, "n_devices": pl.Int64,
    "devices_from": pl.String, "target_model": pl.String, "precision": pl.String, "method": pl.String,
    "draft_model": pl.String, "draft_length": pl.Float64, "batch": pl.Int64, "context_tokens": pl.Float64,
    "tokens_per_round": pl.Float64, "step_time_kind": pl.String, "step_time_source": pl.String,
    "overhead_source": pl.String, "measured_speedup": pl.Float64, "predicted_speedup": pl.Float64,
    "predicted_low": pl.Float64, "predicted_high": pl.Float64, "error": pl.Float64, "measured_wins": pl.Boolean,
    "predicted_wins": pl.Boolean, "is_near_one": pl.Boolean, "best_draft_length_measured": pl.Float64,
    "best_draft_length_predicted": pl.Float64, "baseline_s": pl.Float64, "draft_s": pl.Float64,
    "draft_floor_s": pl.Float64, "verify_s": pl.Float64, "verify_rows_s": pl.Float64, "step_residual_s": pl.Float64,
    "round_overhead_s": pl.Float64, "outside_s": pl.Float64, "round_s": pl.Float64,
    "predicted_tokens_per_s": pl.Float64, "measured_tokens_per_s": pl.Float64,
}  # fmt: skip


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
    meanings = settings(series.rows, overrides)
    found = [each for each in meanings if isinstance(each, Setting)]
    times = StepTimes()
    counted = with_counts(found, fastest_baselines(found).tolist(), times)
    overheads = [overheads_of(each) for each in counted]
    constants = np.array([constants_of(each) for each in overheads]).reshape(-1, len(CONSTANTS))
    rounds = predict_rounds(passes_of(counted, times), constants)
    return validation_of(series, meanings, Predicted(found=counted, overheads=overheads, rounds=rounds))


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Settings with a number of devices, the overheads of each one's engine, and their predicted rounds."""

    found: Sequence[Setting]
    overheads: Sequence[EngineOverheads]
    rounds: Rounds


def validation_of(series: SeriesFile, meanings: Sequence[Setting | MissingRow], predicted: Predicted) -> Validation:
    """Predictions beside what was measured.

    Parameters
    ----------
    series : SeriesFile
    meanings : sequence of Setting or MissingRow
        One for each row of the series.
    predicted : Predicted
        Of the settings among them, in their order.

    Returns
    -------
    Validation
    """
    by_line = {
        setting.row.line: _predicted(setting, overheads, predicted.rounds, index)
        for index, (setting, overheads) in enumerate(zip(predicted.found, predicted.overheads, strict=True))
    }
    frame = _frame(meanings, by_line, series.problems)
    return Validation(
        name=series.name,
        sha256=series.sha256,
        frame=frame,
        scores=scored(frame),
        problems=series.problems,
        conditions=tuple(_conditions(predicted.overheads)),
    )


def overheads_of(setting: Setting) -> EngineOverheads:
    """Overheads of a setting's engine; none where nobody knows any.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> overheads_of(example_setting()).label.split(":")[0]
    'sglang'
    """
    if setting.engine in engine_names():
        return engine_overheads(setting.engine)
    return NO_OVERHEADS


NO_OVERHEADS = EngineOverheads(
    engine="none",
    draft_pass_s=0.0,
    round_s=0.0,
    row_share=0.0,
    outside_share=0.0,
    evidence="none",
    source="nobody fitted any for this engine",
    n_rows=0,
    n_series=0,
)


def _predicted(setting: Setting, overheads: EngineOverheads, rounds: Rounds, index: int) -> dict[str, Any]:
    terms = part_of(rounds, index)
    speedup, baseline_s = terms.pop("speedup"), terms["baseline_s"]
    low, high = overheads.ratio_interval
    return {
        "status": "completed" if setting.assumptions else "complete",
        "assumptions": "; ".join(setting.assumptions) or None,
        "device": setting.device.name,
        "n_devices": setting.n_devices,
        "devices_from": setting.devices_from,
        "target_model": setting.target.name,
        "precision": setting.precision,
        "method": setting.method,
        "draft_model": None if setting.draft is None else setting.draft.name,
        "draft_length": setting.depth,
        "context_tokens": setting.context_tokens,
        "step_time_kind": "calibrated",
        "step_time_source": calibration_label(setting.device),
        "overhead_source": overheads.label,
        **_compared(setting.row.speedup, speedup),
        "predicted_low": None if low is None else speedup * low,
        "predicted_high": None if high is None else speedup * high,
        **terms,
        "predicted_tokens_per_s": setting.batch * speedup / baseline_s,
    }


def _compared(measured: float | None, predicted: float) -> dict[str, Any]:
    if measured is None:
        return {"predicted_speedup": predicted}
    return {
        "predicted_speedup": predicted,
        "error": predicted / measured - 1.0,
        "measured_wins": measured > 1.0,
        "predicted_wins": predicted > 1.0,
        "is_near_one": 1.0 - NEAR_ONE <= measured <= 1.0 + NEAR_ONE,
    }


def _frame(
    meanings: Sequence[Setting | MissingRow], predicted: dict[int, dict[str, Any]], problems: Sequence[RowProblem]
) -> pl.DataFrame:
    warnings = _by_line(problem for problem in problems if not problem.is_fatal)
    rows = [
        {**_written(each), "warnings": warnings.get(each.row.line), **predicted.get(each.row.line, {})}
        for each in meanings
    ]
    fatal = _by_line(problem for problem in problems if problem.is_fatal)
    rows += [{"line": line, "status": "impossible", "missing": text} for line, text in fatal.items()]
    return _with_best(pl.DataFrame(sorted(rows, key=_line), schema=_SCHEMA))


def _line(row: dict[str, Any]) -> int:
    return int(row["line"])


def _by_line(problems: Iterable[RowProblem]) -> dict[int, str]:
    texts: dict[int, list[str]] = {}
    for problem in problems:
        texts.setdefault(problem.line, []).append(str(problem))
    return {line: "; ".join(each) for line, each in texts.items()}


def _written(meaning: Setting | MissingRow) -> dict[str, Any]:
    row = meaning.row
    lacks = meaning.missing if isinstance(meaning, MissingRow) else ()
    return {
        **{name: getattr(row, name) for name in _WRITTEN},
        "status": "incomplete",
        "missing": "; ".join(lacks) or None,
        "batch": row.batch,
        "draft_length": row.draft_length,
        "tokens_per_round": row.tokens_per_round,
        "measured_speedup": row.speedup,
        "measured_tokens_per_s": row.tokens_per_s,
    }


def _with_best(frame: pl.DataFrame) -> pl.DataFrame:
    best = best_draft_lengths(frame).select(
        "series", "batch", best_draft_length_measured="measured", best_draft_length_predicted="predicted"
    )
    joined = frame.drop("best_draft_length_measured", "best_draft_length_predicted")
    return joined.join(best, on=["series", "batch"], how="left", maintain_order="left").select(*_SCHEMA)


def _conditions(overheads: Sequence[EngineOverheads]) -> Iterator[str]:
    yield (
        "Each prediction takes acceptance as given, the device's and the models' figures, and the measured speed "
        "without speculation, which scales the target's own step; no measured speed with speculation."
    )
    for each in {found.engine: found for found in overheads}.values():
        if each.evidence == "none":
            yield "Where nobody fitted the overheads of an engine, none are added, and there is no interval."
        else:
            constants = "constant" if each.n_constants == 1 else "constants"
            fitted = f"of {each.n_series} series; {each.n_constants} fitted {constants}"
            yield f"Overheads beside the passes: {each.label} {fitted}."


def example_validation() -> Validation:
    """A validation of a few rows, for examples.

    Examples
    --------
    >>> example_validation().scores["n_rows"][0]
    3
    """
    return validate(example_series())
