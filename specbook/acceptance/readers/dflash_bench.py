"""The table that DFlash's stand-alone benchmark prints: one prompt a line, with the steps it took (lucebox2026).

A step verifies a block of 16, of which one is the token that the step before gave for free; a prompt of ``n_gen``
tokens in ``steps`` rounds has therefore accepted ``n_gen − steps``. The printed MEAN is a mean of lengths, not pooled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import text
from specbook.checks import BadInput

NAME = "dflash-bench"
WARNINGS = (
    "the last round of a prompt is cut where generation stops, so that its later accepted tokens are not counted",
    "the table does not say whether drafts were chains or, with --ddtree, trees",
)
CUMULATIVE = False

_BLOCK = 16
_MOST_ROWS, _MOST_TABLES = 10_000, 100
_N = r"\d{1,9}"
_MODE = re.compile(rf"\[bench\] mode=(\S+)\s+n_gen=({_N})\s*$", re.ASCII)
_MODEL = re.compile(r"\[bench\] (target|draft)\s*= (.+)$")
_FAILED = re.compile(r"\s+\[\d+\] \S+\s+FAILED")
_ROW = re.compile(
    rf"\s+(\S+)\s+({_N})\s+({_N}\.\d\d)\s+({_N}\.\d)\s+(?:(?:{_N}\.\d\d|n/a)\s+)?{_N}\.\d\d\s*$", re.ASCII
)
_MEAN = re.compile(rf"MEAN\s+({_N}\.\d\d)\s+({_N}\.\d)\s", re.ASCII)
_RANGE = re.compile(rf"commit/step range:\s*({_N}\.\d\d)\s*-\s*({_N}\.\d\d)\s*$", re.ASCII)
_STOPPED = "a prompt that stopped before n_gen: its tokens are steps × AL"
_OTHER_BLOCK = f"the share column does not fit blocks of {_BLOCK}: the draft length is not known"


@dataclass
class _Table:
    """One run of the benchmark: its rows, and what is printed below them."""

    mode: str
    n_gen: int
    rows: list[tuple[str, int, float, float]] = field(default_factory=list)
    n_failed: int = 0


def recognises_line(line: str) -> bool:
    """Whether the line is the head of the table, or the one above it."""
    if "pct%" in line:
        return line.split()[:4] == ["prompt", "steps", "AL", "pct%"]
    return line.startswith("[bench] mode=") and _MODE.match(line) is not None


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield each prompt as one request; two tables in one file are two runs."""
    models: dict[str, Any] = {}
    tables: list[_Table] = []
    for count, line in enumerate(lines, start=1):
        place = f"{where} line {count}"
        if line.startswith("[bench] ") and (model := _MODEL.match(line)):
            models[{"target": "target", "draft": "drafter"}[model[1]]] = text(model[2].strip(), place, model[1])
        elif mode := _MODE.match(line):
            tables.append(_Table(mode[1], int(mode[2])))
            if len(tables) > _MOST_TABLES:
                raise BadInput(f"more than {_MOST_TABLES} tables", file=where, remedy="split the file")
        elif tables:
            _read_row(tables[-1], line, place)
    if not tables:
        raise BadInput(
            "does not say how many tokens were generated",
            file=where,
            field="n_gen",
            remedy="keep the line above the table",
        )
    for index, table in enumerate(tables):
        labels = {**models, "method": "dflash"}
        if len(tables) > 1:
            labels["run"] = f"{table.mode}#{index + 1}"
        yield from _requests(table, labels, where)


def _read_row(table: _Table, line: str, where: str) -> None:
    if _FAILED.match(line):
        table.n_failed += 1
    elif row := _ROW.match(line):
        table.rows.append((row[1], int(row[2]), float(row[3]), float(row[4])))
        if len(table.rows) > _MOST_ROWS:
            raise BadInput(f"more than {_MOST_ROWS} prompts", file=where, remedy="one line is one prompt")
    elif mean := _MEAN.match(line):
        for name, column, stated in (("AL", 2, mean[1]), ("pct%", 3, mean[2])):
            values = [float(row[column]) for row in table.rows]
            _expect_printed(float(stated), sum(values) / max(len(values), 1), where, f"MEAN {name}")
    elif ends := _RANGE.match(line):
        lengths = [row[2] for row in table.rows] or [0.0]
        _expect_printed(float(ends[1]), min(lengths), where, "commit/step range")
        _expect_printed(float(ends[2]), max(lengths), where, "commit/step range")


def _expect_printed(stated: float, derived: float, where: str, name: str) -> None:
    if abs(stated - derived) > 0.06:
        raise BadInput(
            f"does not match the lines above, which give {derived:.2f}",
            file=where,
            field=name,
            value=stated,
            remedy="a line of the table was lost or edited",
        )


def _requests(table: _Table, labels: dict[str, Any], where: str) -> Iterator[Observation]:
    counted = [_tokens(row, table.n_gen, where) for row in table.rows]
    notes: tuple[str, ...] = ()
    if all(_fits(row, tokens, _BLOCK) for row, tokens in zip(table.rows, counted, strict=True)):
        labels = labels | {"draft_length": _BLOCK - 1}
    elif any(
        all(_fits(row, tokens, block) for row, tokens in zip(table.rows, counted, strict=True))
        for block in range(2, 257)
    ):
        notes = (_OTHER_BLOCK,)
    else:
        raise BadInput("fits no width of block", file=where, field="pct%", remedy="a line of the table was edited")
    for (name, steps, _, _), tokens in zip(table.rows, counted, strict=True):
        yield Observation(
            labels=labels,
            prompt=name[:64],
            n_rounds=steps,
            n_accepted_tokens=tokens - steps,
            notes=(*notes, *([_STOPPED] if tokens < table.n_gen else ())),
        )
    for _ in range(table.n_failed):
        yield Observation(by_accepted=[], labels=labels)


def _tokens(row: tuple[str, int, float, float], n_gen: int, where: str) -> int:
    """Tokens of a prompt: ``n_gen``, or fewer if the length says so and the steps are few enough to tell."""
    name, steps, length, _ = row
    stopped = round(length * steps)
    if 0 < steps <= n_gen and abs(n_gen / steps - length) <= 0.0051:
        return n_gen
    if 0 < steps <= stopped < n_gen and steps < 100 and abs(stopped / steps - length) <= 0.0051:
        return stopped
    raise BadInput(
        f"is not the {n_gen} tokens over {steps} steps",
        file=where,
        field=f"{name}.AL",
        value=length,
        remedy="a length is tokens ÷ steps, the free token included; a line was edited",
    )


def _fits(row: tuple[str, int, float, float], tokens: int, block: int) -> bool:
    """Whether the printed share is that of blocks so wide; tokens past the end of a prompt count in it."""
    _, steps, _, percent = row
    least, most = (100.0 * n / (block * steps) for n in (tokens, min(tokens + block - 1, block * steps)))
    return least - 0.051 <= percent <= most + 0.051
