"""What the cells of a series hold: numbers, shares and counts, as people write them.

Nothing is guessed. A cell that could be read in two ways is refused with both, and a cell that is empty, or says in
words that nothing was recorded, is None.
"""

from __future__ import annotations

import math
import re

from specbook.checks import BadInput

_MISSING = frozenset(
    {"", "-", "–", "—", "?", "n/a", "na", "none", "null", "not recorded", "not published", "unknown"},
)
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:[ .,'’_\u00a0\u202f]\d{3})+(?:[.,]\d*)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_COMMA_OR_THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
# Beyond these, whole numbers are no longer exact as floats, and no run has so many.
MOST_COUNTED = 2.0**53


def is_missing(text: str) -> bool:
    """Whether a cell for a number says nothing.

    Examples
    --------
    >>> is_missing(""), is_missing("n/a"), is_missing("0")
    (True, True, False)
    """
    return not text or text.casefold() in _MISSING


def number(text: str, *, decimal_comma: bool = False, is_below_1000: bool = False) -> float:
    """One finite number.

    Parameters
    ----------
    text : str
        Without blanks around it.
    decimal_comma : bool
        Whether "54,7" may be a number, as in a table that is not separated by commas.
    is_below_1000 : bool
        Whether the quantity cannot reach a thousand, so that "1,851" can only be a decimal comma.

    Raises
    ------
    BadInput
        If it is none, not finite, or may hold a thousands separator.

    Examples
    --------
    >>> number("86.4"), number("54,7", decimal_comma=True)
    (86.4, 54.7)
    >>> number("1,488", decimal_comma=True)
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: has a comma that may stand for thousands or for decimals; write 1488 or 1.488
    """
    value = float(text if _PLAIN.fullmatch(text) else _with_point(text, decimal_comma, is_below_1000))
    if not math.isfinite(value):
        raise BadInput("is too large for a number", remedy="check the cell")
    return value


def _with_point(text: str, decimal_comma: bool, is_below_1000: bool) -> str:
    is_comma = _COMMA.fullmatch(text) is not None
    pointed = text.replace(",", ".")
    if is_comma and _COMMA_OR_THOUSAND.fullmatch(text) and not (decimal_comma and is_below_1000):
        remedy = f"write {text.replace(',', '')} or {pointed}"
        raise BadInput("has a comma that may stand for thousands or for decimals", remedy=remedy)
    if is_comma and decimal_comma:
        return pointed
    if is_comma:
        raise BadInput("has a decimal comma in a table separated by commas", remedy=f"write {pointed}")
    if _GROUPED.fullmatch(text):
        raise BadInput("may hold a thousands separator", remedy="write the digits without one, and a decimal point")
    if _NOT_FINITE.fullmatch(text):
        raise BadInput("is not finite", remedy="leave the cell empty if nothing was measured")
    raise BadInput("is not a number", remedy="leave the cell empty if nothing was recorded")


def whole(value: float, *, least: int, most: float = MOST_COUNTED) -> int:
    """A whole number from ``least`` to ``most``.

    Raises
    ------
    BadInput
        If it is none.

    Examples
    --------
    >>> whole(8.0, least=1)
    8
    """
    if value != math.floor(value):
        raise BadInput("is not a whole number", remedy="it counts things")
    if value < least:
        raise BadInput(f"is below {least}", remedy="correct it, or leave the cell empty")
    if value > most:
        raise BadInput(f"is above {most:.0f}", remedy="correct it, or leave the cell empty")
    return int(value)


def share(text: str, *, in_percent: bool = False, decimal_comma: bool = False) -> float:
    """A share in [0, 1], from a fraction, or from a percentage that says so.

    Parameters
    ----------
    text : str
        "0.547", "54.7 %" or "54.7%".
    in_percent : bool
        Whether the column or the unit says that its numbers are percentages.
    decimal_comma : bool
        As for :func:`number`.

    Raises
    ------
    BadInput
        If it is no number, or outside the range.

    Examples
    --------
    >>> share("0.5"), share("50 %"), share("50", in_percent=True)
    (0.5, 0.5, 0.5)
    >>> share("54.7")
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: is above 1: percent?; write 0.547 or 54.7 %
    """
    has_sign = text.endswith("%")
    bare = text[:-1].rstrip() if has_sign else text
    stated = number(bare, decimal_comma=decimal_comma, is_below_1000=True)
    if stated < 0.0:
        raise BadInput("is below 0", remedy="it is a share of the drafted tokens")
    if has_sign or in_percent:
        if stated > 100.0:
            raise BadInput("is above 100 %", remedy="it is a share of the drafted tokens")
        return stated / 100.0
    if stated > 100.0:
        raise BadInput("is above 1", remedy="it is a share of the drafted tokens")
    if stated > 1.0:
        raise BadInput("is above 1: percent?", remedy=f"write {stated / 100.0:.6g} or {stated:.6g} %")
    return stated
