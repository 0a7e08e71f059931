"""What inferred numbers of devices do to the errors: other numbers, with the constants fitted anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.validation.device_counts import possible_counts
from specbook.validation.passes import passes_of
from specbook.validation.published_errors import KNOWN, Comparable, comparable
from specbook.validation.refitted import left_out_speedups
from specbook.validation.settings import Setting

_ENGINE = "sglang"
_LING = "Ling-flash-2.0"
# Targets whose heads' cards state a number of devices or a weight format that is not the one in use here, and counts.
IN_DOUBT = {"Qwen3-Coder-30B-A3B": (1, 2, 4), _LING: (2, 4)}


def with_count(setting: Setting, n_devices: float) -> Setting:
    """The same setting on the nearest number of devices that holds the weights, if its own was inferred.

    Parameters
    ----------
    setting : Setting
        With a number of devices.
    n_devices : float

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> with_count(replace(example_setting(), n_devices=1, devices_from="inferred"), 2).n_devices
    2
    """
    if setting.devices_from != "inferred":
        return setting
    counts = possible_counts(setting)
    nearest = min(counts, key=lambda each: abs(float(np.log2(each / n_devices))), default=setting.n_devices)
    return setting if nearest == setting.n_devices else replace(setting, n_devices=nearest)


@cache
def count_sensitivity() -> pl.DataFrame:
    """Errors with other numbers of devices, the series left out of a fit of its own.

    Returns
    -------
    polars.DataFrame
        ``devices``, what is assumed; ``median`` absolute error over the rows of SGLang; ``n_rows`` that it concerns,
        with ``concerned``, their median absolute error, and ``bias``, their mean error.

    Examples
    --------
    >>> count_sensitivity()["devices"].to_list()[:3]
    ['as inferred', 'halved', 'doubled']
    """
    rows = comparable(_ENGINE)
    whole = [_errors(rows, "as inferred", lambda each: each)]
    whole += [_errors(rows, name, partial(_times, factor)) for name, factor in (("halved", 0.5), ("doubled", 2.0))]
    doubts = [_doubted(rows, name, count) for name, counts in IN_DOUBT.items() for count in counts]
    eight_bits = [_eight_bits(rows, count) for count in (1, 2)]
    return pl.DataFrame([*whole, *doubts, *eight_bits])


def _times(factor: float, setting: Setting) -> Setting:
    return with_count(setting, factor * (setting.n_devices or 1))


def _doubted(rows: Comparable, target: str, count: int) -> dict[str, Any]:
    def change(setting: Setting) -> Setting:
        return with_count(setting, count) if setting.target.name == target else setting

    return _errors(rows, f"{target}: {count}", change, concerned=target)


def _eight_bits(rows: Comparable, count: int) -> dict[str, Any]:
    def change(setting: Setting) -> Setting:
        return replace(setting, n_devices=count, precision="fp8") if setting.target.name == _LING else setting

    return _errors(rows, f"{_LING}: {count}, weights in fp8", change, concerned=_LING)


def _errors(
    rows: Comparable, devices: str, change: Callable[[Setting], Setting], concerned: str | None = None
) -> dict[str, Any]:
    """Errors after a change; over the rows of a target, or those whose number of devices was inferred."""
    passes = passes_of([change(each) for each in rows.found])
    error = left_out_speedups(passes, rows.speedups, rows.groups("series"), KNOWN[_ENGINE]) / rows.speedups - 1.0
    here = np.array(
        [each.devices_from == "inferred" if concerned is None else each.target.name == concerned for each in rows.found]
    )
    return {"devices": devices, "median": _median(error), "n_rows": int(here.sum()), "concerned": _median(error[here]),
            "bias": float(error[here].mean())}  # fmt: skip


def _median(error: Floats) -> float:
    return float(np.median(np.abs(error)))
