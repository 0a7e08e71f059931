"""What a fit of a fleet says of itself: constants, errors on rows held back, and what holds for all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import BadInput, Floats
from specbook.hardware.calibration import FitError
from specbook.hardware.profile import HardwareProfile
from specbook.hardware.readers.rows import counted
from specbook.roofline.calibrated import ALL_ROWS
from specbook.roofline.calibrations import calibration_of
from specbook.validation.fleet_config import FleetConfig
from specbook.validation.fleet_constants import CONSTANTS, KV_PASSES, base_calibration
from specbook.validation.fleet_data import FleetData, Parts
from specbook.validation.fleet_fit import TimesFit
from specbook.validation.fleet_intervals import FEWEST_SERIES
from specbook.validation.fleet_times import held_back_times, unmeasured_times
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Setting

UNITS = {"step": "s", "layer": "s", "kv_passes": "positions", "mbu": "share of peak", "mfu": "share of peak"}
_CONSTANTS_SCHEMA: dict[str, Any] = {
    "constant": pl.String, "unit": pl.String, "before": pl.Float64, "value": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "without_held_back": pl.Float64, "fitted": pl.Boolean, "note": pl.String,
}  # fmt: skip
_HELD_BACK_SCHEMA: dict[str, Any] = {
    "line": pl.Int64, "series": pl.String, "kind": pl.String, "measured": pl.Float64, "before": pl.Float64,
    "after": pl.Float64, "error_before": pl.Float64, "error_after": pl.Float64,
}  # fmt: skip


def constants_frame(
    fit: TimesFit, ends: Floats, without: TimesFit, before: Floats, asked: Sequence[int]
) -> pl.DataFrame:
    """One row a constant, as :class:`~specbook.validation.fleet.FleetFit` has it.

    Parameters
    ----------
    fit : TimesFit
    ends : (5, 2) ndarray of float64
        Intervals; NaN where there is none.
    without : TimesFit
        Without the rows that were held back.
    before : (5,) ndarray of float64
    asked : sequence of int
        Positions of what was asked for.
    """
    rows = [
        {
            "constant": name,
            "unit": UNITS[name],
            "before": _shown(i, before[i]),
            "value": _shown(i, fit.values[i]),
            "low": _shown(i, ends[i, 0]),
            "high": _shown(i, ends[i, 1]),
            "without_held_back": _shown(i, without.values[i]),
            "fitted": i in fit.fitted,
            "note": fit.notes.get(i) if i in asked else "not asked for",
        }
        for i, name in enumerate(CONSTANTS)
    ]
    return pl.DataFrame(rows, schema=_CONSTANTS_SCHEMA)


def _shown(position: int, value: float) -> float | None:
    """Null for an end that there is none of, and for all positions."""
    is_all = position == KV_PASSES and value >= ALL_ROWS
    return None if np.isnan(value) or is_all else float(value)


def held_back_frame(data: FleetData, kept: Sequence[Parts], held: Sequence[Parts], without: TimesFit) -> pl.DataFrame:
    """What was measured of rows held back, and predicted before and after a fit to the others.

    Parameters
    ----------
    data : FleetData
    kept, held : sequence of Parts
    without : TimesFit
        To the rows kept.
    """
    both = np.stack([data.passes.before, without.values])
    times = held_back_times(data, held, kept)
    before, after = times.predicted(both)
    rows = list(zip(times.lines, times.series, times.kinds, times.seconds, before, after, strict=True))
    speedups = [part for part in held if _measured_speedup(part) is not None]
    if speedups:
        before, after = _predicted_speedups(data, speedups, both)
        rows += [
            (part.setting.row.line, part.series, "speedup", _measured_speedup(part), *pair)
            for part, *pair in zip(speedups, before, after, strict=True)
        ]
    names = ("line", "series", "kind", "measured", "before", "after")
    frame = pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows], schema=_HELD_BACK_SCHEMA)
    errors = {f"error_{when}": pl.col(when) / pl.col("measured") - 1.0 for when in ("before", "after")}
    return frame.with_columns(**errors)


def _measured_speedup(part: Parts) -> float | None:
    """Of rows whose two speeds were measured."""
    row = part.setting.row
    is_measured = row.tokens_per_s is not None and row.baseline_tokens_per_s is not None
    return row.speedup if is_measured else None


def _predicted_speedups(data: FleetData, parts: Sequence[Parts], constants: Floats) -> Floats:
    """By the model alone, (n_constants, n)."""
    steps, rounds = unmeasured_times(data, parts)
    tokens = np.array([part.setting.tokens_per_round for part in parts])
    return np.asarray(tokens * steps.predicted(constants) / rounds.predicted(constants))


def error_of(held_back: pl.DataFrame, n_fitted: int) -> FitError:
    """Of times that were held back; ratios of two of them are not counted again."""
    errors = held_back.filter(pl.col("kind") != "speedup")["error_after"].abs()
    if errors.is_empty():
        problem, remedy = "no row that was held back has a time of its own", "bring more rows"
        raise BadInput(problem, field="SERIES", remedy=remedy)
    return FitError(
        n_fitted=n_fitted,
        n_held_out=len(errors),
        median=float(np.median(errors.to_numpy())),
        worst=float(errors.to_numpy().max()),
    )


def backend_name(setting: Setting, config: FleetConfig) -> str:
    """What the new calibration is called."""
    return config.name or setting.engine or "fleet"


def source_of(n_rows: int, config: FleetConfig) -> str:
    """What the new calibration was fitted to.

    Examples
    --------
    >>> source_of(24, FleetConfig(series_name="ours.csv"))
    'fitted to 24 rows of ours.csv'
    """
    digest = f" (sha256 {config.series_sha256})" if config.series_sha256 else ""
    return f"fitted to {counted(n_rows, 'row')} of {config.series_name}{digest}"


def note_of(profile: HardwareProfile, setting: Setting, fit: TimesFit) -> str:
    """What of the new calibration was fitted, and where all else is from."""
    fitted = ", ".join(CONSTANTS[each] for each in sorted(fit.fitted))
    base = base_calibration(profile).source
    return f"fitted: {fitted}; all else as in: {base}; beside the passes: {overheads_of(setting).label}"


def notes_of(
    chosen: Sequence[Setting],
    parts: Sequence[Parts],
    held: Sequence[Parts],
    profile: HardwareProfile,
    config: FleetConfig,
) -> Iterator[str]:
    """What holds for all of a fit, one sentence each."""
    n_series, n_held = len({part.series for part in parts}), len({part.series for part in held})
    is_whole = config.holds_back_series(n_series)
    what = f"{n_held:,} of {n_series:,} series" if is_whole else "too few series to hold any back whole"
    yield (
        f"Held back for the error: {counted(len(held), 'row')} ({what}); the constants that are saved are then fitted "
        f"to all {counted(len(chosen), 'row')}."
    )
    overheads = overheads_of(chosen[0])
    fixed = "draft passes, rounds and what is outside decoding"
    if overheads.evidence == "none":
        yield f"Nobody fitted what this engine spends on {fixed}: none is added, and the constants take its part."
    else:
        yield f"Held fixed: what the engine spends on {fixed} ({overheads.label})."
    if n_series < FEWEST_SERIES:
        yield (
            "Intervals come from leaving out one measured time after the other: there are too few series to draw from "
            f"({n_series:,})."
        )
    if calibration_of(profile) is None:
        yield f"Nobody calibrated {profile.name}: all that is not fitted is assumed from five data-centre GPUs."
    if profile.peak_bandwidth_bytes_per_s is None:
        yield "No peak bandwidth is stated: MBU is a share of the sustained bandwidth."
    if backend_name(chosen[0], config) in profile.calibrations:
        yield f"The calibration {backend_name(chosen[0], config)} that {profile.name} had is replaced."
