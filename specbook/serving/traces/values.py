"""A reader's checks of single values: each returns the value, or says what is wrong with it.

What is wrong is said without the value, since a lenient reading counts the rows by it.
"""

from __future__ import annotations

import math
from typing import Any

from specbook.checks import BadInput
from specbook.serving.lengths import MAX_TOKENS

# When a request arrived, in ticks of its format; how long its prompt was; and how many tokens came back.
Row = tuple[int | float, int, int]

# Nanoseconds since 1970 are 2e18.
_LAST_TICK = 10**20
_LENIENT = "correct it, or read with --lenient, which skips such rows and counts them"


class BrokenRecord(BadInput):
    """A record that is not all there, as the last one of a file is that was cut."""


def refusal(problem: str, field: str, value: Any) -> BadInput:
    """A row that cannot be used; a lenient reading skips it.

    Examples
    --------
    >>> print(refusal("must be whole", "ContextTokens", 1.5))
    ContextTokens = 1.5: must be whole; correct it, or read with --lenient, which skips such rows and counts them
    """
    return BadInput(problem, remedy=_LENIENT, field=field, value=value)


def broken(problem: str, value: Any, field: str | None = None) -> BrokenRecord:
    """A row that is not all there; a lenient reading skips it.

    Examples
    --------
    >>> broken("is not a full row", "1,2").problem
    'is not a full row'
    """
    return BrokenRecord(problem, remedy=_LENIENT, field=field, value=value)


def number(value: Any, field: str) -> int | float:
    """A finite number, from a JSON value or from what a cell of a table spells.

    Examples
    --------
    >>> number("12", "arrived_at"), number(" 0.5", "arrived_at"), number(3, "timestamp")
    (12, 0.5, 3)
    """
    found = _spelled(value, field) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise refusal("is no number", field, value)
    if isinstance(found, float) and not math.isfinite(found):
        raise refusal("is not finite", field, value)
    return found


def _spelled(cell: str, field: str) -> int | float:
    text = cell.strip()
    if not text:
        raise broken("is empty", cell, field)
    # Python reads 1_000 and the digits of every script; tables hold neither.
    if not text.isascii() or "_" in text:
        raise refusal("is no number", field, cell)
    if text.isdigit() and len(text) <= 20:
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise refusal("is no number", field, cell) from None


def ticks(value: Any, field: str) -> int | float:
    """A time, in ticks of its format; not negative.

    Examples
    --------
    >>> ticks("4.314579", "arrived_at")
    4.314579
    """
    found = number(value, field)
    if found < 0:
        raise refusal("must not be negative", field, value)
    if found > _LAST_TICK:
        raise refusal("is no time", field, value)
    return found


def tokens(value: Any, field: str) -> int:
    """A count of tokens, at least 1; 374.0 is whole, since tables print counts like that.

    Examples
    --------
    >>> tokens("374", "ContextTokens"), tokens(374.0, "input_length")
    (374, 374)
    """
    found = number(value, field)
    if isinstance(found, float) and not found.is_integer():
        raise refusal("must be whole", field, value)
    if found < 1:
        raise refusal("must be at least 1", field, value)
    if found > MAX_TOKENS:
        raise refusal(f"must be at most {MAX_TOKENS}", field, value)
    return int(found)


def tokens_back(value: Any, field: str) -> int:
    """As :func:`tokens`, where 0 is what the source writes for a request that failed.

    Examples
    --------
    >>> tokens_back("18", "Response tokens")
    18
    """
    if number(value, field) == 0:
        raise refusal("is 0, as where a request failed", field, value)
    return tokens(value, field)
