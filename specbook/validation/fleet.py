"""Calibration for a fleet: constants of a backend out of a user's own rows, with intervals and the error on others.

Only the five named constants are fitted, and of those only what the rows can tell. What an engine spends beside the
passes is held fixed, and so is everything else of the device's calibration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from specbook.checks import BadInput
from specbook.hardware.profile import HardwareProfile
from specbook.hardware.readers.rows import counted
from specbook.validation.fleet_bounds import bounds_of
from specbook.validation.fleet_config import FleetConfig
from specbook.validation.fleet_constants import CONSTANTS, constants_before
from specbook.validation.fleet_data import Parts, fleet_data
from specbook.validation.fleet_file import fitted_calibration, with_fitted
from specbook.validation.fleet_fit import fit_times
from specbook.validation.fleet_intervals import fit_with_intervals
from specbook.validation.fleet_report import (
    backend_name,
    constants_frame,
    error_of,
    held_back_frame,
    note_of,
    notes_of,
    source_of,
)
from specbook.validation.fleet_times import fitted_times
from specbook.validation.passes import counted_settings
from specbook.validation.settings import MissingRow, Setting, example_series, settings
from specbook.validation.step_times import StepTimes


@dataclass(frozen=True, kw_only=True)
class FleetFit:
    """Constants of a fleet, and how good they are.

    Attributes
    ----------
    profile : HardwareProfile
        The device's, with the new calibration in front.
    constants : polars.DataFrame
        One row a constant: ``constant, unit, before, value, low, high, without_held_back, fitted, note``; the last but
        one says whether these rows can tell it. In ``kv_passes``, null is all positions of a sequence.
    held_back : polars.DataFrame
        What was measured of rows that were held back, in seconds or as a ratio, and predicted with the constants before
        and with those fitted to the other rows: ``line, series, kind, measured, before, after, error_before,
        error_after``. Of kind ``step`` (a token without speculation), ``round`` and ``speedup``, which is predicted
        without any measured speed. Errors are predicted ÷ measured − 1.
    n_rows : int
    notes : tuple of str
        What holds for all of it, one sentence each.
    """

    profile: HardwareProfile
    constants: pl.DataFrame
    held_back: pl.DataFrame
    n_rows: int
    notes: tuple[str, ...]

    @property
    def backend(self) -> str:
        """The name of the new calibration."""
        return next(iter(self.profile.calibrations))


def calibrate(found: Sequence[Setting | MissingRow], config: FleetConfig, rng: np.random.Generator) -> FleetFit:
    """Fit constants to what the rows of a series mean, after working out what the rows leave open.

    Parameters
    ----------
    found : sequence of Setting or MissingRow
        Of :func:`~specbook.validation.settings.settings`; rows that lack something are left out, and counted.
    config : FleetConfig
    rng : numpy.random.Generator

    Returns
    -------
    FleetFit

    Raises
    ------
    BadInput
        As :func:`fit_fleet`.

    Examples
    --------
    >>> from specbook.validation.settings import example_series, settings
    >>> fit = calibrate(settings(example_series().rows), FleetConfig(constants=("mbu",)), np.random.default_rng(0))
    >>> fit.notes[-1]
    'The number of devices of 3 rows was worked out from their own speeds; the column devices states it.'
    """
    usable = [each for each in found if isinstance(each, Setting)]
    fit = fit_fleet(counted_settings(usable, StepTimes()), config, rng)
    n_open = sum(each.n_devices is None for each in _chosen(usable, config))
    notes = [*fit.notes, *_left_out(len(found) - len(usable))]
    if n_open:
        notes.append(
            f"The number of devices of {counted(n_open, 'row')} was worked out from their own speeds; the column "
            "devices states it."
        )
    return replace(fit, notes=tuple(notes))


def _left_out(n_missing: int) -> Iterator[str]:
    if n_missing:
        verb = "lacks something was" if n_missing == 1 else "lack something were"
        yield f"{counted(n_missing, 'row')} that {verb} left out."


def fit_fleet(found: Sequence[Setting], config: FleetConfig, rng: np.random.Generator) -> FleetFit:
    """Fit the named constants of one device and engine.

    Parameters
    ----------
    found : sequence of Setting
        Each with a number of devices, and a measured speed with or without speculation.
    config : FleetConfig
    rng : numpy.random.Generator
        Draws the series again for the intervals.

    Returns
    -------
    FleetFit

    Raises
    ------
    BadInput
        If the rows are of several devices or engines, too few, without speeds, impossible, or tell none of the
        constants.

    Notes
    -----
    Every so manieth series is held back. The error is that of constants fitted to the others; the constants that are
    saved are then fitted to all rows, and both stand in ``constants``. Intervals are 95 %, over series drawn with
    replacement; of fewer than five series, from leaving out one measured time after the other.

    References
    ----------
    davison1997, hesterberg2015

    Examples
    --------
    >>> from dataclasses import replace
    >>> from specbook.validation.settings import Setting, example_series, settings
    >>> rows = [each for each in settings(example_series().rows) if isinstance(each, Setting)]
    >>> rows = [replace(each, n_devices=1) for each in rows]
    >>> fit = fit_fleet(rows, FleetConfig(constants=("layer", "kv_passes")), np.random.default_rng(0))
    >>> fit.constants["fitted"].to_list()
    [False, True, False, False, False]
    """
    chosen = _checked(_chosen(found, config), config)
    profile, asked = chosen[0].device, tuple(CONSTANTS.index(each) for each in config.constants)
    data = fleet_data(chosen)
    kept, held = _split(data.parts, config)
    times, kept_times = fitted_times(data, data.parts), fitted_times(data, kept)
    if not kept_times.seconds.size:
        remedy = "bring more rows"
        raise BadInput("nothing is left to fit to once rows are held back", field="SERIES", remedy=remedy)
    without = fit_times(kept_times, bounds_of(kept_times, profile), asked)
    fit, ends = fit_with_intervals(times, bounds_of(times, profile), asked, config.n_resamples, rng)
    if not fit.fitted:
        remedy = "bring rows of further models, batches or contexts, or fit fewer constants with --fit"
        raise BadInput(
            "these rows cannot tell any of the constants", field="fit", value=",".join(config.constants), remedy=remedy
        )
    held_back = held_back_frame(data, kept, held, without)
    error = error_of(held_back, kept_times.seconds.size)
    calibration = fitted_calibration(
        profile,
        fit.values,
        {each: (float(ends[each, 0]), float(ends[each, 1])) for each in fit.fitted},
        source=source_of(len(chosen), config),
        note=note_of(profile, chosen[0], fit),
        error=error,
    )
    return FleetFit(
        profile=with_fitted(profile, backend_name(chosen[0], config), calibration),
        constants=constants_frame(fit, ends, without, constants_before(profile), asked),
        held_back=held_back,
        n_rows=len(chosen),
        notes=tuple(notes_of(chosen, data.parts, held, profile, config)),
    )


def _chosen(found: Sequence[Setting], config: FleetConfig) -> list[Setting]:
    return [
        each for each in found if config.device in (None, each.device.name) and config.engine in (None, each.engine)
    ]


def _checked(found: Sequence[Setting], config: FleetConfig) -> list[Setting]:
    devices, engines = dict.fromkeys(each.device.name for each in found), dict.fromkeys(each.engine for each in found)
    for names, option in ((devices, "device"), (engines, "engine")):
        if len(names) > 1:
            remedy = f"choose one with --{option}"
            raise BadInput(f"rows are of several {option}s", field=option, value=", ".join(names), remedy=remedy)
    if any(each.device != found[0].device for each in found):
        remedy = "state one with --device"
        raise BadInput(
            "rows have different figures of one device", field="device", value=found[0].device.name, remedy=remedy
        )
    usable = [each for each in found if _has_speed(each)]
    if len(usable) < config.hold_out_every:
        problem = f"{counted(len(usable), 'row')} of a device and engine with measured speeds"
        remedy = f"a fit with every {config.hold_out_every}. row held back needs at least {config.hold_out_every}"
        raise BadInput(problem, field="tok_s, baseline_tok_s", remedy=remedy)
    open_ones = [each.row.line for each in usable if each.n_devices is None]
    if open_ones:
        remedy = "state it in a column devices, or with --devices"
        raise BadInput(f"line {open_ones[0]} has no number of devices", field="devices", remedy=remedy)
    return usable


def _has_speed(setting: Setting) -> bool:
    return setting.row.tokens_per_s is not None or setting.row.baseline_tokens_per_s is not None


def _split(parts: Sequence[Parts], config: FleetConfig) -> tuple[list[Parts], list[Parts]]:
    """Rows to fit to, and every so manieth series, or row where there are too few series."""
    every = slice(config.hold_out_every - 1, None, config.hold_out_every)
    names = list(dict.fromkeys(part.series for part in parts))
    if config.holds_back_series(len(names)):
        out = set(names[every])
        return [part for part in parts if part.series not in out], [part for part in parts if part.series in out]
    kept = list(parts)
    del kept[every]
    return kept, list(parts[every])


def example_fleet() -> FleetFit:
    """A fit to three rows, for examples.

    Examples
    --------
    >>> example_fleet().backend
    'sglang'
    """
    config = FleetConfig(constants=("layer", "kv_passes"))
    return calibrate(settings(example_series().rows), config, np.random.default_rng(0))
