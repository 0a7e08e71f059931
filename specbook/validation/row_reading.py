"""One row of a series from its cells: units turned into ours, and what follows from other cells worked out."""

from __future__ import annotations

import math

from specbook.checks import BadInput
from specbook.validation.columns import TEXTS
from specbook.validation.impossible import Figures, check_figures
from specbook.validation.row_cells import RowCells
from specbook.validation.series_row import SeriesRow
from specbook.validation.units import SpeedUnit

# Slower than any drafting: rounds of a thousand passes would yield one token.
_LEAST_SPEEDUP = 1e-3


def series_row(cells: RowCells) -> SeriesRow | None:
    """The row, or None if a cell or the row as a whole is impossible; what was noticed is in ``cells``."""
    figures = _stated(cells)
    lengths = cells.lengths()
    if any(problem.is_fatal for problem in cells.problems):
        return None
    check_figures(cells, figures)
    rate, length, draft_length = _acceptance(figures, cells.derived)
    row = SeriesRow(
        line=cells.line,
        **{name: cells.text(name) for name in TEXTS},
        draft_length=draft_length,
        n_devices=figures.n_devices,
        batch=figures.batch,
        context_tokens=lengths.context,
        prompt_tokens=lengths.prompt,
        output_tokens=lengths.output,
        tokens_per_round=length,
        draft_acceptance_rate=rate,
        n_rounds=figures.n_rounds,
        tokens_per_s=figures.tokens_per_s,
        baseline_tokens_per_s=figures.baseline_tokens_per_s,
        stated_speedup=figures.speedup,
        derived=tuple(cells.derived),
    )
    _check_speedup(cells, row)
    return None if any(problem.is_fatal for problem in cells.problems) else row


def _stated(cells: RowCells) -> Figures:
    unit, batch = cells.unit(), cells.counted("batch")
    return Figures(
        draft_length=cells.counted("k"),
        n_devices=cells.counted("devices"),
        batch=batch,
        tokens_per_round=cells.tokens_per_round(),
        acceptance_rate=cells.acceptance_rate(in_percent=unit is not None and unit.acceptance_in_percent),
        n_rounds=cells.counted("n_rounds"),
        n_drafted=cells.counted("n_drafted"),
        n_accepted=cells.counted("n_accepted"),
        tokens_per_s=_speed(cells, "tok_s", unit, batch),
        baseline_tokens_per_s=_speed(cells, "baseline_tok_s", unit, batch),
        speedup=cells.positive("speedup", is_below_1000=True),
    )


def _speed(cells: RowCells, column: str, unit: SpeedUnit | None, batch: int | None) -> float | None:
    """Tokens per second over all streams, from the number and the unit of the row."""
    value = cells.positive(column)
    if value is None or unit is None:
        return None
    try:
        total = unit.total_tokens_per_s(value, batch)
    except BadInput as error:
        cells.refuse(column, error.problem, error.remedy)
        return None
    if not math.isfinite(total):
        cells.refuse(column, "is no speed of anything", "check the unit")
        return None
    if unit.seconds_per_token is not None:
        cells.derived.append(f"{column} is batch ÷ the time per token")
    elif unit.is_per_stream:
        cells.derived.append(f"{column} is batch × the speed of one stream")
    elif not unit.is_stated and batch != 1:
        cells.derived.append(f"{column} is taken as the total over all streams, as no unit is stated")
    return total


def _acceptance(figures: Figures, derived: list[str]) -> tuple[float | None, float | None, float | None]:
    """Acceptance rate, tokens per round and K, each as stated or as it follows from the others."""
    rate, length = figures.acceptance_rate, figures.tokens_per_round
    draft_length = None if figures.draft_length is None else float(figures.draft_length)
    if rate is None and figures.n_accepted is not None and figures.n_drafted:
        rate = figures.n_accepted / figures.n_drafted
        derived.append("acceptance rate = n_accepted ÷ n_drafted")
    if draft_length is None and figures.n_drafted is not None and figures.n_rounds:
        draft_length = figures.n_drafted / figures.n_rounds
        derived.append("K = n_drafted ÷ n_rounds")
    if length is None and figures.n_accepted is not None and figures.n_rounds:
        length = 1.0 + figures.n_accepted / figures.n_rounds
        derived.append("tokens per round = 1 + n_accepted ÷ n_rounds")
    if length is None and draft_length == 0.0:
        length = 1.0
        derived.append("tokens per round = 1, as K is 0")
    if length is None and rate is not None and draft_length is not None:
        length = 1.0 + draft_length * rate
        derived.append("tokens per round = 1 + K × acceptance rate")
    if draft_length is None and length is not None and length > 1.0 and rate:
        draft_length = (length - 1.0) / rate
        derived.append("K = (tokens per round − 1) ÷ acceptance rate")
    return rate, length, draft_length


def _check_speedup(cells: RowCells, row: SeriesRow) -> None:
    speedup, length = row.speedup, row.tokens_per_round
    if speedup is not None and not (math.isfinite(speedup) and speedup > 0.0):
        cells.refuse("tok_s", "gives no speedup that is a number", "check the baseline")
    elif speedup is not None and speedup < _LEAST_SPEEDUP:
        column = _ratio_column(row)
        cells.refuse(column, f"is {speedup:.3g} times the baseline, which no drafting is", "check the unit of both")
    elif speedup is not None and length is not None and speedup > 1.005 * length:
        cells.warn(
            _ratio_column(row),
            f"is {speedup:.3g} times the baseline, faster than its {length:.3g} tokens per round allow",
            "the two runs differ in more than speculation",
        )


def _ratio_column(row: SeriesRow) -> str:
    """The column that the measured speedup is from."""
    return "speedup" if row.tokens_per_s is None or row.baseline_tokens_per_s is None else "tok_s"
