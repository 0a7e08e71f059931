"""Tables of speculators' evaluation: ``acceptance.csv``, and ``perf_results.csv`` with the same columns.

One row a subset, with vLLM's counters and the share of rounds that accepted draft positions 0 to i (speculators2026). A
table of a sweep repeats the counters of a subset at each request rate; they count once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    MOSTLY,
    expect_close,
    fraction,
    number,
    numeral,
    text,
    whole,
)
from specbook.checks import BadInput

NAME = "speculators-csv"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_TOTAL = frozenset({"overall", "total", "all", "all_subsets", "sum", "average", "mean"})
_POSITION = re.compile(r"acceptance_at_pos_(\d{1,4})", re.ASCII)
_COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
_UNKNOWN = frozenset({"", "na", "n/a", "nan", "none", "null", "-"})
_MOST_ROWS = 100_000
_SHORTER = (
    "some drafts were shorter, and the shares are of all rounds: late positions are lower bounds of what a full draft "
    "would give"
)
# Above this share of full drafts, the few shorter ones are drafts cut at the end of a sequence.


@dataclass(frozen=True)
class _Row:
    """What one row says; None where a cell is empty or missing. Rows that say the same are one measurement."""

    subset: str
    counts: tuple[int | None, ...]
    length: float | None
    shares: tuple[float, ...]
    where: str = field(compare=False)


def recognises_line(line: str) -> bool:
    """Whether the line is the header of such a table."""
    if "subset" not in line or "," not in line:
        return False
    names = {name.strip().strip('"') for name in line.split(",")}
    acceptance = names & {"num_drafts", "num_accepted_tokens", "acceptance_at_pos_0"}
    return "subset" in names and bool(acceptance or {"strategy", "target_rate"} <= names)


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield one run for each subset; a row that sums up the others is checked against them and left out."""
    rows = list(dict.fromkeys(_rows(lines, where)))
    if not rows:
        yield Observation(by_accepted=[], is_request=False)
    named = [row for row in rows if _is_named_total(row)]
    parts = [row for row in rows if not _is_named_total(row)]
    for total in named if parts else ():
        _check_total(total, parts)
    for row in _without_sum(parts or named):
        yield _observation(row)


def _is_named_total(row: _Row) -> bool:
    return row.subset.casefold() in _TOTAL


def _rows(lines: Iterable[str], where: str) -> Iterator[_Row]:
    header: list[str] | None = None
    reader = csv.reader(lines, strict=True, skipinitialspace=True)
    try:
        for count, raw in enumerate(reader):
            cells, place = [cell.strip() for cell in raw], f"{where} line {reader.line_num}"
            if recognises_line(",".join(cells)):
                header = cells  # a table that was appended to may repeat its header
            elif header is not None and any(cells):
                yield _row(dict(zip(header, _as_long(cells, len(header), place), strict=True)), place)
            if count > _MOST_ROWS:
                raise BadInput(f"more than {_MOST_ROWS} rows", file=where, remedy="one row is one subset")
    except csv.Error as error:
        place = f"{where} line {reader.line_num}"
        raise BadInput(f"is not a table: {error}", file=place, remedy="export the table again") from None


def _as_long(cells: list[str], width: int, where: str) -> list[str]:
    """Cells as many as the header has; a shorter row ends early, a longer one belongs to another header."""
    if any(cells[width:]):
        problem = f"{len(cells)} cells under {width} names"
        raise BadInput(problem, file=where, remedy="two tables may have been appended: split them")
    return (cells + [""] * width)[:width]


def _row(cells: dict[str, str], where: str) -> _Row:
    def value(name: str) -> int | float | None:
        spelled = cells.get(name, "")
        return None if spelled.casefold() in _UNKNOWN else numeral(spelled, where, name)

    counts = [value(name) for name in _COUNTERS]
    length = value("acceptance_length")
    if counts[0] == 0:  # no draft was made, and the script writes 0 for what it cannot divide
        length = None
    return _Row(
        subset=text(cells.get("subset", ""), where, "subset") or "",
        counts=tuple(None if n is None else whole(n, where, name) for n, name in zip(counts, _COUNTERS, strict=True)),
        length=None if length is None else number(length, where, "acceptance_length", minimum=1.0),
        shares=tuple(_shares({name: value(name) for name in cells if _POSITION.fullmatch(name)}, where)),
        where=where,
    )


def _shares(stated: dict[str, int | float | None], where: str) -> list[float]:
    """Shares of rounds by position, up to the first that was never drafted."""
    by_index = {int(name.rpartition("_")[2]): share for name, share in stated.items() if share is not None}
    if by_index and (max(by_index) >= LONGEST_DRAFT or sorted(by_index) != list(range(len(by_index)))):
        raise BadInput(
            "leaves out a position", file=where, field=f"acceptance_at_pos_{max(by_index)}", remedy="export it again"
        )
    shares = [fraction(by_index[index], where, f"acceptance_at_pos_{index}") for index in range(len(by_index))]
    for index, (before, after) in enumerate(pairwise(shares), start=1):
        if after > before + 1e-3:
            raise BadInput(
                f"rises from {before:g}: these shares are marginal, of rounds that accepted all positions so far",
                file=where,
                field=f"acceptance_at_pos_{index}",
                value=after,
                remedy="export the table again; conditional values are another thing",
            )
    return shares


def _without_sum(rows: list[_Row]) -> list[_Row]:
    """Rows without one that is, under whatever name, the sum of at least two others."""
    if len(rows) < 3 or any(None in row.counts for row in rows):
        return rows
    sums = _summed(row.counts for row in rows)
    return [row for row in rows if not row.counts[0] or tuple(2 * (n or 0) for n in row.counts) != sums]


def _summed(counts: Iterable[tuple[int | None, ...]]) -> tuple[int, ...]:
    return tuple(sum(n or 0 for n in column) for column in zip(*counts, strict=True))


def _check_total(total: _Row, parts: list[_Row]) -> None:
    sums = _summed(part.counts for part in parts)
    for name, stated, summed in zip(_COUNTERS, total.counts, sums, strict=True):
        if stated is not None and all(None not in part.counts for part in parts) and stated != summed:
            raise BadInput(
                f"is not the sum of the subsets, which is {summed}",
                file=total.where,
                field=f"{total.subset}.{name}",
                value=stated,
                remedy="a subset is missing or was counted twice; take the row of the total out, or add the subset",
            )


def _observation(row: _Row) -> Observation:
    rounds, drafted, accepted = row.counts
    labels: dict[str, Any] = {}
    if row.subset and row.subset.casefold() not in _TOTAL:
        labels["domain"] = row.subset
    if rounds == 0:
        return Observation(by_accepted=[], labels=labels, is_request=False)
    _check(row)
    notes: tuple[str, ...] = ()
    if rounds and drafted is not None and row.shares:
        missing = rounds * len(row.shares) - drafted
        if missing <= (1.0 - MOSTLY) * rounds:  # so at least that share of rounds drafted every position
            labels["draft_length"] = len(row.shares)
        notes = (_SHORTER,) if missing else ()
    return Observation(
        labels=labels,
        is_request=False,
        n_rounds=rounds,
        n_drafted_tokens=drafted,
        n_accepted_tokens=accepted,
        accepted_by_position=[share * rounds for share in row.shares] if rounds and row.shares else None,
        marginal_acceptance=list(row.shares) if row.shares and not rounds else None,
        mean_acceptance_length=row.length,
        notes=notes,
    )


def _check(row: _Row) -> None:
    """The length counts the bonus token, and the shares sum to what it has beyond that."""
    rounds, drafted, accepted = row.counts
    if drafted is not None and (accepted or 0) > drafted:
        problem = f"more tokens accepted than drafted ({drafted})"
        raise BadInput(
            problem, file=row.where, field="num_accepted_tokens", value=accepted, remedy="exchange or correct them"
        )
    if rounds and drafted is not None and row.shares and drafted > rounds * len(row.shares):
        problem = f"{rounds} rounds of {len(row.shares)} positions cannot draft that many"
        raise BadInput(
            problem, file=row.where, field="num_draft_tokens", value=drafted, remedy="export the table again"
        )
    length = row.length
    if rounds and accepted is not None:
        expect_close(length, 1.0 + accepted / rounds, row.where, "acceptance_length", "accepted tokens and rounds")
        length = 1.0 + accepted / rounds
    if row.shares and length is not None:
        expect_close(
            1.0 + sum(row.shares), length, row.where, "acceptance_at_pos_0 and on", "the length, as 1 + their sum,"
        )
