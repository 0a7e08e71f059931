"""The rows of a validation as one table: what is written, what was predicted, or why nothing was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from specbook.roofline.calibrations import calibration_label
from specbook.roofline.engine_overheads import EngineOverheads
from specbook.validation.memory_check import beyond_memory
from specbook.validation.scores import CHOICE, NEAR_ONE, best_draft_lengths
from specbook.validation.series import RowProblem
from specbook.validation.settings import MissingRow, Setting

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


def predicted_cells(setting: Setting, overheads: EngineOverheads, terms: Mapping[str, float]) -> dict[str, Any]:
    """What is known of a row once it is predicted, by column.

    Parameters
    ----------
    setting : Setting
        With a number of devices.
    overheads : EngineOverheads
        That it was predicted with.
    terms : mapping of str to float
        Of its round, by :func:`~specbook.validation.rounds.part_of`.
    """
    speedup, baseline_s = terms["speedup"], terms["baseline_s"]
    low, high = overheads.ratio_interval
    beyond = beyond_memory(setting)
    assumptions = setting.assumptions if beyond is None else (*setting.assumptions, beyond)
    return {
        "status": "completed" if assumptions else "complete",
        "assumptions": "; ".join(assumptions) or None,
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
        **{name: value for name, value in terms.items() if name != "speedup"},
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


def rows_frame(
    meanings: Sequence[Setting | MissingRow], predicted: Mapping[int, dict[str, Any]], problems: Sequence[RowProblem]
) -> pl.DataFrame:
    """One row for each row of a file, in its order, as :class:`~specbook.validation.validate.Validation` has it.

    Parameters
    ----------
    meanings : sequence of Setting or MissingRow
    predicted : mapping of int to dict
        Cells of the settings among them, by line.
    problems : sequence of RowProblem
        Rows with a fatal one are not among the meanings.

    Examples
    --------
    >>> from specbook.validation.settings import example_series, settings
    >>> rows_frame(settings(example_series().rows), {}, ())["status"].unique().to_list()
    ['incomplete']
    """
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
        *CHOICE, best_draft_length_measured="measured", best_draft_length_predicted="predicted"
    )
    joined = frame.drop("best_draft_length_measured", "best_draft_length_predicted")
    return joined.join(best, on=list(CHOICE), how="left", maintain_order="left", nulls_equal=True).select(*_SCHEMA)
