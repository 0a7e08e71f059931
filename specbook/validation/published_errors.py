"""The shipped series of an engine, and how far the model is from each when it was left out of the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np

from specbook.checks import Floats
from specbook.validation.constants import left_out_constants
from specbook.validation.passes import Passes, passes_of_rows
from specbook.validation.published_series import published_series
from specbook.validation.rounds import predict_rounds
from specbook.validation.settings import Setting, settings

LeftOut = Literal["series", "target"]
LEFT_OUT: tuple[LeftOut, ...] = get_args(LeftOut)

# Engines with comparable rows that draft in passes.
FITTED = ("sglang", "llama.cpp")
# With fewer, figures are an order of magnitude: no interval of errors, and no row counts as evidence of a constant.
FEWEST_ROWS = 20

# By how much of a step each further row of a small pass lengthens it: of five published tables of llama.cpp
# (ggml-org/llama.cpp#17034, #14132, #16894 twice, #3545) the median of (t(n)/t(1) - 1)/(n - 1) at n = 4 or 5, from .14
# to .41. None names its device, and some go on growing beyond eight rows, which is left out. At one length of draft,
# the rows cannot tell the round's share from that of its passes.
KNOWN: Mapping[str, Mapping[str, float]] = {
    "sglang": {"row_share": 0.0},
    "llama.cpp": {"row_share": 0.18, "round_s": 0.0},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparable:
    """Rows of one engine that can be predicted and compared, with their passes and measured speedups."""

    found: tuple[Setting, ...]
    passes: Passes
    speedups: Floats

    def groups(self, left_out: LeftOut) -> list[str]:
        """The series, or the target, of each row."""
        if left_out == "series":
            return [setting.row.series for setting in self.found]
        return [setting.target.name for setting in self.found]


@cache
def comparable(engine: str) -> Comparable:
    """The shipped rows of an engine that have all that a prediction and a comparison need.

    Rows without published speeds are left out: their baseline is the model's own.

    Examples
    --------
    >>> len(comparable("sglang").found) >= 150
    True
    """
    usable = [each for each in settings(published_series().rows) if isinstance(each, Setting) and each.engine == engine]
    found, passes = passes_of_rows(each for each in usable if each.baseline_tpot_s is not None)
    speedups = np.array([each.row.speedup for each in found], dtype=np.float64)
    return Comparable(found=tuple(found), passes=passes, speedups=speedups)


@cache
def left_out_fits(engine: str, left_out: LeftOut) -> Floats:
    """Constants for each comparable row, fitted without its series or its target, (n, 4).

    Examples
    --------
    >>> left_out_fits("sglang", "series").shape[1]
    4
    """
    rows = comparable(engine)
    return left_out_constants(rows.passes, rows.speedups, rows.groups(left_out), KNOWN[engine])


def left_out_ratios(engine: str, left_out: LeftOut = "series") -> Floats:
    """Measured ÷ predicted speedup of each comparable row, its series left out of the fit, (n,).

    Examples
    --------
    >>> ratios = left_out_ratios("sglang")
    >>> bool(np.median(np.abs(1 / ratios - 1)) < 0.08)
    True
    """
    rows = comparable(engine)
    return rows.speedups / predict_rounds(rows.passes, left_out_fits(engine, left_out)).speedup
