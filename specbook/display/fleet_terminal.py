"""A fit of a fleet on a terminal: its constants, what rows that were held back say of them, and what holds for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from specbook.display.tables import fitting_table, open_console, say
from specbook.hardware.readers.rows import counted
from specbook.validation.fleet import FleetFit

# What a constant is shown in: its words, its unit, and how many of that unit one of the frame's is.
_SHOWN = {
    "step": ("overhead of a step", "µs", 1e6),
    "layer": ("overhead of a layer", "µs", 1e6),
    "kv_passes": ("positions that share a read of the cache", "", 1.0),
    "mbu": ("bandwidth, share of the peak", "%", 100.0),
    "mfu": ("arithmetic, share of the peak", "%", 100.0),
}
_KINDS = {"step": "a step", "round": "a round", "speedup": "speedup, by the model alone"}
_SPARED = ("all but held back", "before")


def show_fleet(fit: FleetFit) -> None:
    """Everything that a person reads of a fit.

    Parameters
    ----------
    fit : FleetFit
    """
    say(f"{fit.profile.name}, calibration {fit.backend}: {counted(fit.n_rows, 'row')}")
    console = open_console()
    console.print(fitting_table(list(constant_rows(fit)), spared=_SPARED, title="constants"))
    for name, text in fit.constants.filter(pl.col("note").is_not_null()).select("constant", "note").iter_rows():
        say(f"{name}: {text}")
    console.print(fitting_table(list(error_rows(fit)), spared=(), title="|error| on rows held back"))
    for text in fit.notes:
        say(f"note: {text}")


def constant_rows(fit: FleetFit) -> Iterator[dict[str, object]]:
    """The table of constants, a row each.

    Examples
    --------
    >>> from specbook.validation.fleet import example_fleet
    >>> [row["95 % interval"] is None for row in constant_rows(example_fleet())]
    [True, False, True, True, True]
    """
    for row in fit.constants.iter_rows(named=True):
        words, unit, scale = _SHOWN[row["constant"]]
        ends = f"{_value(row, 'low', scale)} to {_value(row, 'high', scale)}"
        yield {
            "constant": row["constant"],
            "": words,
            ">before": _value(row, "before", scale),
            ">value": _value(row, "value", scale),
            "95 % interval": ends if row["fitted"] else None,
            ">all but held back": _value(row, "without_held_back", scale),
            "unit": unit,
        }


def _value(row: dict[str, Any], column: str, scale: float) -> str:
    value = row[column]
    if value is None:
        return "all"
    return f"{scale * value:.0f}" if row["constant"] == "kv_passes" else f"{scale * value:.3g}"


def error_rows(fit: FleetFit) -> Iterator[dict[str, object]]:
    """The table of errors, a row for each kind of what was measured.

    Examples
    --------
    >>> from specbook.validation.fleet import example_fleet
    >>> [row[""] for row in error_rows(example_fleet())]
    ['a round', 'speedup, by the model alone']
    """
    for kind, words in _KINDS.items():
        found = fit.held_back.filter(pl.col("kind") == kind)
        if found.height:
            yield {
                "": words,
                ">n": f"{found.height:,}",
                ">median before": _percent(found["error_before"].abs().median()),
                ">median after": _percent(found["error_after"].abs().median()),
                ">worst before": _percent(found["error_before"].abs().max()),
                ">worst after": _percent(found["error_after"].abs().max()),
            }


def _percent(share: Any) -> str:
    return f"{100.0 * float(share):.1f} %"
