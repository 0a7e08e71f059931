"""The shipped table predicted by constants that were fitted without the row's own series, or its own target."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads
from specbook.validation.published_errors import (
    FEWEST_ROWS,
    FITTED,
    LEFT_OUT,
    LeftOut,
    comparable,
    left_out_fits,
    left_out_ratios,
)
from specbook.validation.published_series import published_series
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Setting
from specbook.validation.validate import Validation, validate, validation_with


@cache
def published_validation() -> Validation:
    """The shipped table, predicted by the constants that were fitted to it, with scores of rows that were left out.

    Examples
    --------
    >>> published_validation().scores["by"][0]
    'all'
    """
    parts = [
        left_out_validation(left_out)
        .scores.head(1)
        .select(pl.lit(left_out).alias("left_out"), pl.exclude("by", "group"))
        for left_out in LEFT_OUT
    ]
    return replace(validate(published_series()), left_out=pl.concat(parts))


@cache
def left_out_validation(left_out: LeftOut = "series") -> Validation:
    """The shipped table, each row predicted by constants that never saw its series, or its target.

    Rows of engines without fitted constants are predicted as always. Each interval comes from the other groups' errors.

    Parameters
    ----------
    left_out : str
        ``series`` or ``target``.

    Returns
    -------
    Validation

    References
    ----------
    specbundle

    Examples
    --------
    >>> error = left_out_validation().scores["median_absolute_error"][0]
    >>> error < 0.08
    True
    """
    unseen = {line: each for engine in FITTED for line, each in _unseen(engine, left_out).items()}
    return validation_with(published_series(), lambda each: unseen.get(each.row.line, overheads_of(each)))


def _unseen(engine: str, left_out: LeftOut) -> dict[int, EngineOverheads]:
    """Overheads for each comparable row of an engine, by line, which never saw its group."""
    rows = comparable(engine)
    fits, ratios = left_out_fits(engine, left_out), left_out_ratios(engine, left_out)
    names = np.asarray(rows.groups(left_out))
    return {
        setting.row.line: _overheads(setting, fit, ratios[names != name])
        for setting, fit, name in zip(rows.found, fits, names, strict=True)
    }


def _overheads(setting: Setting, fit: Floats, ratios: Floats) -> EngineOverheads:
    values = dict(zip(CONSTANTS, fit.tolist(), strict=True))
    return replace(overheads_of(setting), **values, ratio_interval=_ratio_interval(ratios))


def _ratio_interval(ratios: Floats) -> tuple[float | None, float | None]:
    if ratios.size < FEWEST_ROWS:
        return None, None
    low, high = np.quantile(ratios, [0.05, 0.95]).tolist()
    return low, high
