"""Figures of a row that cannot all be true, and figures that say different things."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.validation.row_cells import RowCells

# Printed lengths are rounded to three digits or so.
_ROUNDING = 1.005
# Sources average over prompts, over rounds or over windows of a log, and mean the same run.
_AVERAGING = 0.12
_ROUNDING_OF_RATES = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of a row as stated, before anything follows from them."""

    draft_length: int | None
    n_devices: int | None
    batch: int | None
    tokens_per_round: float | None
    acceptance_rate: float | None
    n_rounds: int | None
    n_drafted: int | None
    n_accepted: int | None
    tokens_per_s: float | None
    baseline_tokens_per_s: float | None
    speedup: float | None


def check_figures(cells: RowCells, figures: Figures) -> None:
    """Note what is impossible, and what is stated twice and differs, in ``cells``."""
    _check_counts(cells, figures)
    _check_length(cells, figures)
    _check_stated_twice(cells, figures)


def _check_counts(cells: RowCells, figures: Figures) -> None:
    drafted, accepted, rounds = figures.n_drafted, figures.n_accepted, figures.n_rounds
    if accepted is not None and drafted is not None and accepted > drafted:
        cells.refuse("n_accepted", f"is more than the {drafted} drafted", "correct either count")
    if figures.draft_length is None or rounds is None:
        return
    most = figures.draft_length * rounds
    remedy = "correct K or a count; leave K empty for a tree"
    if drafted is not None and drafted > most:
        cells.refuse("n_drafted", f"is more than K × n_rounds = {most}", remedy)
    if accepted is not None and accepted > most:
        cells.refuse("n_accepted", f"is more than K × n_rounds = {most}", remedy)


def _check_length(cells: RowCells, figures: Figures) -> None:
    length, draft_length = figures.tokens_per_round, figures.draft_length
    if length is None or draft_length is None:
        return
    if length > (draft_length + 1) * _ROUNDING:
        remedy = "correct K or the length; leave K empty for a tree"
        cells.refuse("acc_len_incl_bonus", f"is above K + 1 = {draft_length + 1}", remedy)


def _check_stated_twice(cells: RowCells, figures: Figures) -> None:
    rate, length, draft_length = figures.acceptance_rate, figures.tokens_per_round, figures.draft_length
    if rate is not None and length is not None and draft_length:
        follows = (length - 1.0) / draft_length
        if _differ(rate, follows):
            said = f"is {rate:.4g}, and (acc_len_incl_bonus − 1) ÷ K = {follows:.4g}"
            cells.warn("acc_rate", said, "fewer than K may be drafted in a round, or either is of another run")
    accepted = figures.n_accepted
    if rate is not None and accepted is not None and figures.n_drafted:
        counted = accepted / figures.n_drafted
        if _differ(rate, counted):
            cells.warn("acc_rate", f"is {rate:.4g}, and n_accepted ÷ n_drafted = {counted:.4g}", "correct either")
    if length is not None and accepted is not None and figures.n_rounds:
        counted = 1.0 + accepted / figures.n_rounds
        if _differ(length, counted):
            said = f"is {length:.4g}, and 1 + n_accepted ÷ n_rounds = {counted:.4g}"
            cells.warn("acc_len_incl_bonus", said, "correct either")
    _check_stated_speedup(cells, figures)


def _check_stated_speedup(cells: RowCells, figures: Figures) -> None:
    speed, baseline, stated = figures.tokens_per_s, figures.baseline_tokens_per_s, figures.speedup
    if speed is not None and baseline is not None and stated is not None and _differ(stated, speed / baseline):
        cells.warn(
            "speedup", f"is not tok_s ÷ baseline_tok_s = {speed / baseline:.4g}, which is used", "correct either"
        )


def _differ(first: float, second: float) -> bool:
    gap = abs(first - second)
    return gap > _AVERAGING * max(first, second) and gap > _ROUNDING_OF_RATES
