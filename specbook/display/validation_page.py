"""A validation as a page: the three figures, the charts, what rows lack, and the rows furthest off."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from docutils import nodes

from specbook.display.lone_page import SIDE_BY_SIDE, lone_page
from specbook.display.sphinx_charts import chart_node
from specbook.display.sphinx_nodes import bullets, paragraph, section, table
from specbook.display.validation_charts import predictions_chart
from specbook.display.validation_error_charts import errors_chart
from specbook.display.validation_row_charts import draft_lengths_chart, rounds_chart, varying_series
from specbook.display.validation_terminal import group_rows, missing_rows
from specbook.display.validation_words import counts_line, headlines, problem_line, worst_line
from specbook.validation.scores import compared_rows
from specbook.validation.validate import Validation

_MOST_ROWS = 200


def validation_page(validation: Validation, worst: pl.DataFrame) -> list[nodes.Element]:
    """Text, charts and tables of a validation.

    Parameters
    ----------
    validation : Validation
        At least one row of which was compared.
    worst : polars.DataFrame
        Of :func:`~specbook.validation.explain.explained`.

    Examples
    --------
    >>> from specbook.validation.explain import explained
    >>> from specbook.validation.validate import example_validation
    >>> page = validation_page(example_validation(), explained(example_validation()))
    >>> [part.astext() for each in page for part in each.findall(nodes.title)][:2]
    ['Predicted and measured', 'Errors by target']
    """
    frame = validation.frame
    return [
        paragraph(counts_line(validation)),
        bullets(headlines(validation)),
        section("Predicted and measured", [_predictions(frame)]),
        section("Errors by target", [chart_node(errors_chart(frame, "Errors by target").to_dict())]),
        section("By engine, device and target", [_table(group_rows(frame))]),
        *_draft_lengths(frame),
        *_worst(frame, worst),
        *_not_compared(validation),
        section("What these figures assume", [bullets(validation.conditions)]),
    ]


def validation_html(validation: Validation, worst: pl.DataFrame) -> str:
    """The page of a validation as one HTML file.

    Examples
    --------
    >>> from specbook.validation.explain import explained
    >>> from specbook.validation.validate import example_validation
    >>> validation_html(example_validation(), explained(example_validation()))[:15]
    '<!DOCTYPE html>'
    """
    return lone_page(f"specbook validate: {validation.name}", validation_page(validation, worst))


def _predictions(frame: pl.DataFrame) -> nodes.Element:
    """By engine where there are several, else by target."""
    engines = compared_rows(frame)["engine"].n_unique()
    by = "engine" if engines > 1 else "target_model"
    return chart_node(predictions_chart(frame, "Predicted over measured speedup", by).to_dict())


def _table(rows: list[dict[str, str]]) -> nodes.Element:
    return table(list(rows[0]), [list(row.values()) for row in rows[:_MOST_ROWS]])


def _draft_lengths(frame: pl.DataFrame) -> Iterator[nodes.Element]:
    found = varying_series(frame)
    if found:
        charts = [chart_node(draft_lengths_chart(frame, series, batch).to_dict()) for series, batch in found]
        about = paragraph("Circles: measured. Line: predicted, with its interval shaded. Dashed: no gain.")
        panels = nodes.container("", *charts, classes=[SIDE_BY_SIDE])
        yield section("Speedup over the draft length", [about, panels])


def _worst(frame: pl.DataFrame, worst: pl.DataFrame) -> Iterator[nodes.Element]:
    if worst.is_empty():
        return
    chart = rounds_chart(frame, worst["line"].to_list(), "Rounds of the rows furthest off")
    lines = [f"{worst_line(row)}. {row['explanation'] or ''}".rstrip() for row in worst.iter_rows(named=True)]
    yield section("Furthest off", [chart_node(chart.to_dict()), bullets(lines)])


def _not_compared(validation: Validation) -> Iterator[nodes.Element]:
    """Rows that lack something, and rows or cells with something wrong."""
    rows = missing_rows(validation.frame)
    if rows:
        yield section("Rows that lack something", [_table(rows)])
    if validation.problems:
        lines = [problem_line(problem) for problem in validation.problems[:_MOST_ROWS]]
        more = len(validation.problems) - len(lines)
        yield section("Problems of the file", [bullets([*lines, *([f"… and {more:,} more"] if more else [])])])
