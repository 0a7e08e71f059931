"""Speeds of one stream beside totals of a batch, in one series."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from specbook.validation.series_row import RowProblem, SeriesRow
from specbook.validation.units import SpeedUnit, speed_unit

_CLOSE = 0.05


def stream_or_total(rows: Iterable[SeriesRow], column: str = "tok_s") -> Iterator[RowProblem]:
    """Yield a warning for each speed that is another's ÷ batch, where the two have different units or one has none.

    Parameters
    ----------
    rows : iterable of SeriesRow
    column : str
        The speed's name in the file.

    Notes
    -----
    Rows of one series and one batch are compared; a speed within 5 % of another ÷ batch is close.
    """
    groups: dict[tuple[str, int], list[SeriesRow]] = defaultdict(list)
    for row in rows:
        if row.batch is not None and row.batch > 1 and row.tokens_per_s is not None:
            groups[row.series, row.batch].append(row)
    for (_, batch), group in groups.items():
        yield from _of_group(group, batch, column)


def _of_group(group: list[SeriesRow], batch: int, column: str) -> Iterator[RowProblem]:
    speeds: dict[SpeedUnit, list[float]] = defaultdict(list)
    for row in group:
        speeds[speed_unit(row.unit)].append(row.tokens_per_s or 0.0)
    if len(speeds) < 2 and all(unit.is_stated for unit in speeds):
        return
    for each in speeds.values():
        each.sort()
    for row in group:
        total, unit = batch * (row.tokens_per_s or 0.0), speed_unit(row.unit)
        if any(_has_close(each, total) for other, each in speeds.items() if other != unit or not unit.is_stated):
            yield RowProblem(
                line=row.line,
                column=column,
                value=f"{row.tokens_per_s:g}",
                problem=f"times its batch of {batch} is the speed of another row of the series: per stream or total?",
                remedy="state the unit of both, as tok/s total or tok/s per stream",
                is_fatal=False,
            )


def _has_close(speeds: list[float], total: float) -> bool:
    low, high = bisect_left(speeds, total * (1.0 - _CLOSE)), bisect_right(speeds, total * (1.0 + _CLOSE))
    return high > low
