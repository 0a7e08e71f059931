"""What rows of a series lack: counted by what it is and as it is written, with what would answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

# What a clause of ``missing`` begins with → the column that it is about, and what answers.
_ANSWERS = {
    "hardware": ("hardware", "--device NAME"),
    "target": ("target", "--target NAME"),
    "weight format of the target": ("target", "--precision FORMAT"),
    "drafter": ("drafter", "--draft NAME"),
    "weight format of the drafter": ("drafter", "--draft-precision FORMAT"),
    "acceptance": (None, "column acc_len_incl_bonus"),
    "draft length K": (None, "column K"),
    "batch": (None, "column batch"),
    "a run without speculation": (None, "column baseline_tok_s"),
    "a measured speed": (None, "column tok_s"),
}
# The longest first: "target" begins no clause that is about its weight format.
_HEADS = "|".join(sorted(map(re.escape, _ANSWERS), key=len, reverse=True))
_CLAUSE = re.compile(rf"(?:^|; )({_HEADS})(?![\w-])(.*?)(?=; (?:{_HEADS})(?![\w-])|$)", re.DOTALL)
_UNKNOWN = "–"
_EMPTY = "(empty)"
_MOST_RANGES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingGroup:
    """Rows that lack the same thing, with the same words in their cells.

    Attributes
    ----------
    what : str
    written : str or None
        The cell that does not tell; None where it is the lack of a figure.
    lines : tuple of int
        Of the file; a row that lacks two things is in two groups.
    n_alone : int
        Rows that lack nothing else, so that the answer is enough for them.
    answer : str
        The option that answers, or the column that has to be filled.
    question : str
        Why the cell does not tell, and what to state; "" where there is nothing more to say.
    """

    what: str
    written: str | None
    lines: tuple[int, ...]
    n_alone: int
    answer: str
    question: str

    @property
    def n_rows(self) -> int:
        """How many rows lack it."""
        return len(self.lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lack:
    """One thing that one row lacks."""

    what: str
    written: str | None
    question: str
    line: int
    is_alone: bool


def missing_groups(frame: pl.DataFrame) -> list[MissingGroup]:
    """The incomplete rows of a validation by what they lack, the commonest first.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Examples
    --------
    >>> rows = {"line": [2, 3], "status": ["incomplete"] * 2, "hardware": ["H100"] * 2, "target": ["?"] * 2}
    >>> lacks = ["hardware: 'H100' is two cards: state --device", "batch"]
    >>> [(group.what, group.answer) for group in missing_groups(pl.DataFrame(rows | {"missing": lacks}))]
    [('hardware', '--device NAME'), ('batch', 'column batch')]
    """
    rows = frame.filter(pl.col("status") == "incomplete", pl.col("missing").is_not_null())
    groups: dict[tuple[str, str | None], list[_Lack]] = {}
    for row in rows.iter_rows(named=True):
        for lack in _lacks(row):
            groups.setdefault((lack.what, lack.written), []).append(lack)
    return sorted((_group(members) for members in groups.values()), key=lambda group: -group.n_rows)


def _lacks(row: dict[str, Any]) -> list[_Lack]:
    """What a row lacks, each with the question that stands behind it; text of another kind is one thing."""
    clauses = _CLAUSE.findall(row["missing"]) or [(row["missing"], "")]
    return [
        _Lack(
            what=what,
            written=None if (column := _answer(what)[0]) is None else row[column] or _EMPTY,
            question=question,
            line=row["line"],
            is_alone=len(clauses) == 1,
        )
        for what, question in clauses
    ]


def _answer(what: str) -> tuple[str | None, str]:
    return _ANSWERS.get(what, (None, _UNKNOWN))


def _group(members: Sequence[_Lack]) -> MissingGroup:
    first = members[0]
    return MissingGroup(
        what=first.what,
        written=first.written,
        lines=tuple(each.line for each in members),
        n_alone=sum(each.is_alone for each in members),
        answer=_answer(first.what)[1],
        question=first.question.lstrip(": "),
    )


def commonest_lack(groups: Sequence[MissingGroup]) -> tuple[MissingGroup, int]:
    """A group of what most rows lack, whatever they have in that cell, and how many rows those are.

    Examples
    --------
    >>> two = {"status": ["incomplete"] * 2, "hardware": ["A", "B"], "missing": ["hardware: A?", "hardware: B?"]}
    >>> group, n_rows = commonest_lack(missing_groups(pl.DataFrame({"line": [2, 3]} | two)))
    >>> group.what, n_rows
    ('hardware', 2)
    """
    n_rows = {group.what: 0 for group in groups}
    for group in groups:
        n_rows[group.what] += group.n_rows
    what = max(n_rows, key=lambda each: n_rows[each])
    return next(group for group in groups if group.what == what), n_rows[what]


def line_ranges(lines: Sequence[int]) -> str:
    """Lines of a file in few words.

    Examples
    --------
    >>> line_ranges([2, 3, 4, 9])
    '2–4, 9'
    """
    ranges: list[list[int]] = []
    for line in sorted(lines):
        if ranges and line == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], line]
        else:
            ranges.append([line])
    shown = ["–".join(map(str, each)) for each in ranges[:_MOST_RANGES]]
    return ", ".join(shown) + (" …" if len(ranges) > _MOST_RANGES else "")
