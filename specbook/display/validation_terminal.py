"""A validation on a terminal: three figures with their counts, then groups, what is missing, and the worst rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from rich.padding import Padding

from specbook.checks import shown
from specbook.display.tables import fitting_table, open_console, plain_table, safe_text, say
from specbook.display.validation_missing import MissingGroup, line_ranges, missing_groups
from specbook.display.validation_words import (
    count_of,
    counts_line,
    headlines,
    left_out_lines,
    percent,
    problem_line,
    signed,
    worst_line,
)
from specbook.validation.scores import scored
from specbook.validation.validate import Validation

MOST_LINES = 12
_TOGETHER = ("engine", "device", "target_model")
_SEPARATOR = "\x1f"
_NOT_STATED = "not stated"
_NARROW, _VERY_NARROW = 106, 60
_LONGEST_CELL, _LONGEST_OF_NARROW = 40, 20
_REST = "--json and --out have all rows"


def show_validation(validation: Validation, worst: pl.DataFrame) -> None:
    """Everything that a person reads of a validation; long lists are cut, and say so.

    Parameters
    ----------
    validation : Validation
        At least one row of which was compared.
    worst : polars.DataFrame
        Of :func:`~specbook.validation.explain.explained`; may be empty.
    """
    say(counts_line(validation))
    for line in left_out_lines(validation):
        say(line)
    if validation.left_out is not None:
        say("by constants that were fitted to these rows, which flatter:")
    for line in headlines(validation):
        say(line)
    for text in validation.conditions:
        say(f"note: {text}")
    _show_groups(group_rows(validation.frame))
    _show_missing(missing_rows(validation.frame))
    _show_problems([problem_line(problem) for problem in validation.problems])
    _show_worst(worst)


def grouped_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Scores of each engine, device and target that rows have together, the most rows first.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Returns
    -------
    polars.DataFrame
        Columns ``engine, device, target_model``, and those of :func:`~specbook.validation.scores.scored`.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> grouped_scores(example_validation().frame).select("engine", "device").row(0)
    ('SGLang', 'h200-sxm')
    """
    together = pl.concat_str([_or_not_stated(name) for name in _TOGETHER], separator=_SEPARATOR)
    scores = scored(frame.with_columns(engine=together)).filter(pl.col("by") == "engine")
    parts = pl.col("group").str.splitn(_SEPARATOR, len(_TOGETHER)).struct.rename_fields(_TOGETHER)
    return scores.select(parts.alias("of"), pl.all()).unnest("of").sort("n_rows", descending=True, maintain_order=True)


def _or_not_stated(name: str) -> pl.Expr:
    text = pl.col(name).fill_null("").str.replace_all(_SEPARATOR, " ", literal=True)
    return pl.when(text == "").then(pl.lit(_NOT_STATED)).otherwise(text)


def group_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """Scores by engine, device and target, as cells of a table; the most rows first.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> group_rows(example_validation().frame)[0][">rows"]
    '3'
    """
    return [_group_cells(score) for score in grouped_scores(frame).iter_rows(named=True)]


# What a narrow terminal does without, the first of them first.
_SPARED = (">interval holds", ">within 8 %", ">mean error", ">best K ±1", ">win or lose")


def _group_cells(score: dict[str, Any]) -> dict[str, str]:
    return {
        "engine, as written": score["engine"],
        "device used": score["device"],
        "target model": score["target_model"],
        ">rows": f"{score['n_rows']:,}",
        ">|error|": percent(score["median_absolute_error"]),
        ">mean error": signed(score["bias"]),
        ">within 8 %": percent(score["within_8"], 0),
        ">win or lose": count_of(score["win_lose_right"], score["n_outside_band"]),
        ">best K ±1": count_of(score["best_k_within_one"], score["n_varying_series"]),
        ">interval holds": percent(score["coverage"], 0),
    }


def _show_groups(rows: Sequence[dict[str, str]]) -> None:
    shown = [{name: _cut(cell) for name, cell in row.items()} for row in rows[:MOST_LINES]]
    say("")
    title = "by engine, device and target; |error| is the median"
    open_console().print(fitting_table(shown, spared=_SPARED, title=title))
    _say_rest(len(rows))


def missing_rows(frame: pl.DataFrame) -> list[dict[str, str]]:
    """What rows lack, as cells of a table; the commonest first.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> missing_rows(example_validation().frame)
    []
    """
    return [
        {
            "missing": group.what,
            ">rows": f"{group.n_rows:,}",
            ">nothing else": f"{group.n_alone:,}",
            "lines": line_ranges(group.lines),
            "answer": _answer(group),
        }
        for group in missing_groups(frame)
    ]


def _answer(group: MissingGroup) -> str:
    if "--" in group.question:
        return group.question
    return group.answer if group.written is None else f"{shown(group.written)}: {group.answer}"


def _show_missing(rows: Sequence[dict[str, str]]) -> None:
    """The answer breaks into lines, and the rest stays whole."""
    if not rows:
        return
    if open_console().width < _VERY_NARROW:
        _list_missing(rows)
        return
    left_out = set() if open_console().width >= _NARROW else {"lines", ">nothing else"}
    columns = [name for name in rows[0] if name not in left_out]
    table = plain_table(*columns, title="rows that lack something")
    table.columns[-1].no_wrap = False
    for row in rows[:MOST_LINES]:
        table.add_row(*(safe_text(row[name]) for name in columns))
    say("")
    open_console().print(table)
    _say_rest(len(rows))


def _list_missing(rows: Sequence[dict[str, str]]) -> None:
    """Where a table would have no room for the answers."""
    say("")
    say("rows that lack something")
    for row in rows[:MOST_LINES]:
        say(f"  {row['missing']}: {row['>rows']}")
        open_console().print(Padding(safe_text(row["answer"]), (0, 0, 0, 4)))
    _say_rest(len(rows))


def _show_problems(lines: Sequence[str]) -> None:
    if not lines:
        return
    say("")
    say("problems of the file")
    for line in lines[:MOST_LINES]:
        say(f"  {line}")
    _say_rest(len(lines))


def _say_rest(n_lines: int) -> None:
    if n_lines > MOST_LINES:
        say(f"  … and {n_lines - MOST_LINES:,} more; {_REST}")


def _show_worst(worst: pl.DataFrame) -> None:
    if worst.is_empty():
        return
    say("")
    say("furthest off")
    for row in worst.iter_rows(named=True):
        say(f"  {worst_line(row)}")
        if row["explanation"]:
            open_console().print(Padding(safe_text(row["explanation"]), (0, 0, 0, 4)))


def _cut(text: str) -> str:
    longest = _LONGEST_CELL if open_console().width >= _NARROW else _LONGEST_OF_NARROW
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
