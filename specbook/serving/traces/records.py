"""A line as the values of its fields: a row of a table, or a JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from typing import Any

from specbook.checks import BadInput
from specbook.serving.traces.values import broken, refusal

Values = Callable[[str], Sequence[Any]]


def cells(line: str) -> list[str]:
    """Cells of one row; no format has a cell that goes on in the next line.

    Examples
    --------
    >>> cells('5,"GPT-4, long",472')
    ['5', 'GPT-4, long', '472']
    """
    text = line.rstrip("\r\n")
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise broken("has quotes that do not close", text) from None


def names_of(header: str) -> tuple[str, ...]:
    """Names of the columns, without blanks around them, in lower case.

    Examples
    --------
    >>> names_of("TIMESTAMP, ContextTokens")
    ('timestamp', 'contexttokens')
    """
    return tuple(name.strip().casefold() for name in cells(header))


def from_table(header: tuple[str, ...], fields: Sequence[str]) -> Values:
    """How to take the cells of some columns out of a row, wherever they stand.

    Parameters
    ----------
    header : tuple of str
        Of :func:`names_of`.
    fields : sequence of str
        Columns that the header has, in any case.

    Raises
    ------
    BadInput
        If the header names one of them twice.

    Examples
    --------
    >>> from_table(("a", "b", "c"), ("C", "A"))("1,2,3")
    ['3', '1']
    """
    for field in fields:
        if header.count(field.casefold()) > 1:
            raise BadInput("names two columns", remedy="rename one of them", field="header", value=field)
    places = [header.index(field.casefold()) for field in fields]
    width = len(header)

    def values(line: str) -> Sequence[Any]:
        row = cells(line)
        if len(row) < width:
            raise broken("is not a full row", line.rstrip("\r\n"))
        if len(row) > width and any(cell.strip() for cell in row[width:]):
            raise refusal("has more cells than the header", "row", line.rstrip("\r\n"))
        return [row[place] for place in places]

    return values


def from_object(fields: Sequence[str]) -> Values:
    """How to take some fields, all numbers, out of a JSON object.

    Examples
    --------
    >>> from_object(("b", "a"))('{"a": 1, "b": 2, "c": 3}')
    [2, 1]
    """

    def values(line: str) -> Sequence[Any]:
        record = _object(line)
        return [_stated(record, field) for field in fields]

    return values


def _object(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise broken("is not complete JSON", line.rstrip("\r\n")) from None
    if not isinstance(record, dict):
        raise refusal("is no JSON object", "record", record)
    return record


def _stated(record: dict[str, Any], field: str) -> Any:
    if field not in record:
        raise BadInput("is missing", field=field, remedy="correct it, or read with --lenient, which skips such rows")
    if isinstance(record[field], str):
        raise refusal("is no number", field, record[field])
    return record[field]
