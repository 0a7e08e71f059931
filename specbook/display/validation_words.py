"""A validation in sentences: the figures that it is for, each with its count and its condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from specbook.hardware.readers.rows import counted
from specbook.validation.scores import GATE, NEAR_ONE
from specbook.validation.series import RowProblem
from specbook.validation.validate import Validation

_NEAR = f"±{100 * NEAR_ONE:.0f} % of 1"
_LEFT_OUT = {"incomplete": "lack something", "impossible": "cannot be true or read"}
_COMPARED = {"complete": "all that is needed", "completed": "with something worked out"}


def counts_line(validation: Validation) -> str:
    """How many rows there are and what became of them, in one line.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> counts_line(example_validation())
    'example: 3 rows; 3 predicted and compared, all of them with something worked out or taken as usual'
    """
    frame = validation.frame
    compared = frame.filter(pl.col("error").is_not_null())
    n_completed = (compared["status"] == "completed").sum()
    share = "all" if n_completed == compared.height else f"{n_completed:,}"
    aside = f", {share} of them with something worked out or taken as usual" if n_completed else ""
    parts = [f"{compared.height:,} predicted and compared{aside}"]
    for status, words in _LEFT_OUT.items():
        n_rows = (frame["status"] == status).sum()
        parts += [f"{n_rows:,} {words}"] if n_rows else []
    return f"{validation.name}: {counted(frame.height, 'row')}; {'; '.join(parts)}"


def headlines(validation: Validation) -> Iterator[str]:
    """The figures that a validation is for, each with its count and its condition, one sentence each.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> print(next(headlines(example_validation())))
    win or lose: right for 3 of 3 rows (100 %) that were measured outside ±5 % of 1; drafting always would be for 3
    """
    score = validation.scores.row(0, named=True)
    yield _win_or_lose(score)
    yield _best_draft_length(score)
    yield _speedup(score)
    by_status = validation.scores.filter(pl.col("by") == "status").sort("group")
    if by_status.height > 1:
        yield "median |error| by what rows tell: " + "; ".join(map(_status, by_status.iter_rows(named=True)))
    if score["coverage"] is not None:
        yield f"intervals: hold {percent(score['coverage'], 0)} of the measured speedups whose prediction has one"


def left_out_lines(validation: Validation) -> Iterator[str]:
    """For rows that constants were fitted to: the figures when each was left out of the fit; nothing for others.

    Examples
    --------
    >>> from specbook.validation.left_out import published_validation
    >>> [line.split(":")[0] for line in left_out_lines(published_validation())]
    ['left out of the fit, its series', 'left out of the fit, its target']
    """
    if validation.left_out is None:
        return
    for score in validation.left_out.iter_rows(named=True):
        yield (
            f"left out of the fit, its {score['left_out']}: win or lose right for "
            f"{count_of(score['win_lose_right'], score['n_outside_band'])}; best draft length within one token for "
            f"{count_of(score['best_k_within_one'], score['n_varying_series'])}; median |error| "
            f"{percent(score['median_absolute_error'])}; intervals hold {percent(score['coverage'], 0)}"
        )


def _win_or_lose(score: dict[str, Any]) -> str:
    n_rows, n_near = score["n_outside_band"], score["n_rows"] - score["n_outside_band"]
    if not n_rows:
        return f"win or lose: nothing to say, as no row was measured outside {_NEAR}"
    near = f"; not counted: {n_near:,} within it" if n_near else ""
    return (
        f"win or lose: right for {count_of(score['win_lose_right'], n_rows)} {'row' if n_rows == 1 else 'rows'} "
        f"({percent(score['win_lose_right'], 0)}) that were measured outside {_NEAR}; drafting always would be "
        f"for {round(score['always_right'] * n_rows):,}{near}"
    )


def _best_draft_length(score: dict[str, Any]) -> str:
    n_choices = score["n_varying_series"]
    if not n_choices:
        return "best draft length: nothing to say, as no series varies K at one batch"
    return (
        f"best draft length: within one token for {count_of(score['best_k_within_one'], n_choices)} choices of K "
        f"({percent(score['best_k_within_one'], 0)}), exact for {round(score['best_k_exact'] * n_choices):,}, within "
        f"one of the lengths that were tried for {round(score['best_k_within_one_tried'] * n_choices):,}; "
        f"the predicted K costs {percent(score['regret'])} of the speed in the mean"
    )


def _speedup(score: dict[str, Any]) -> str:
    return (
        f"speedup: median |error| {percent(score['median_absolute_error'])} over {counted(score['n_rows'], 'row')}; "
        f"nine of ten within {percent(score['p90_absolute_error'])}; mean error {signed(score['bias'])}; "
        f"{percent(score['within_8'], 0)} of rows within {percent(GATE, 0)}"
    )


def _status(score: dict[str, Any]) -> str:
    words = _COMPARED.get(score["group"], score["group"])
    return f"{words}, {counted(score['n_rows'], 'row')}: {percent(score['median_absolute_error'])}"


def problem_line(problem: RowProblem) -> str:
    """What is wrong with a row, and whether it was used all the same.

    Examples
    --------
    >>> problem_line(RowProblem(line=3, column="K", value="x", problem="is no number", remedy="write 3", is_fatal=True))
    'not used: line 3, column K: x is no number; write 3'
    """
    return f"not used: {problem}" if problem.is_fatal else str(problem)


def worst_line(row: dict[str, Any]) -> str:
    """One of the worst rows in a line.

    Examples
    --------
    >>> row = {"line": 7, "series": "mine", "draft_length": 3.0, "batch": 8, "error": 0.25}
    >>> worst_line(row | {"measured_speedup": 0.8, "predicted_speedup": 1.0})
    'line 7, K 3, batch 8, mine: measured 0.80, predicted 1.00, +25.0 %'
    """
    figures = f"measured {row['measured_speedup']:.2f}, predicted {row['predicted_speedup']:.2f}"
    return f"line {row['line']}, {place_of(row)}: {figures}, {signed(row['error'])}"


def place_of(row: dict[str, Any]) -> str:
    """Draft length, batch and series of a row in a few words, the longest last.

    Examples
    --------
    >>> place_of({"series": "mine", "draft_length": 3.0, "batch": None})
    'K 3, mine'
    """
    words = [] if row["draft_length"] is None else [f"K {row['draft_length']:.3g}"]
    words += [] if row["batch"] is None else [f"batch {row['batch']:,}"]
    return ", ".join([*words, row["series"] or "no series"])


def percent(share: float | None, digits: int = 1) -> str:
    """A share in words; a dash where there is none.

    Examples
    --------
    >>> percent(0.0814)
    '8.1 %'
    """
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def signed(share: float | None, digits: int = 1) -> str:
    """A share with its sign; a dash where there is none.

    Examples
    --------
    >>> signed(-0.0814)
    '−8.1 %'
    """
    return "–" if share is None else f"{100 * share:+.{digits}f} %".replace("-", "−")


def count_of(share: float | None, n_rows: int) -> str:
    """A share as a count of a count, which says how much it is worth.

    Examples
    --------
    >>> count_of(0.75, 4)
    '3 of 4'
    """
    return "–" if share is None or not n_rows else f"{round(share * n_rows):,} of {n_rows:,}"
