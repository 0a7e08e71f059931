"""A reader's checks of single values: each returns the value, or says where it is and what is wrong with it."""

from __future__ import annotations

import math
import re
from typing import Any

from specbook.checks import BadInput
from specbook.hardware.step_times import LONGEST_S, SHORTEST_S

# No server batches more sequences, holds more tokens or verifies more positions; beyond it lies damage.
_MOST = 2**24
_LONGEST_NAME = 512
_EXPORT_AGAIN = "correct it, or export the file again"
_NUMERAL = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?", re.ASCII)
# What tables write for something that nobody wrote down.
_UNSAID = frozenset({"", "-", "–", "n/a", "na", "none", "null", "not recorded", "unknown", "unspecified"})


def numeral(spelled: str, where: str, name: str) -> int | float:
    """The number that a cell spells; 100.0 is whole, since tables print counts like that.

    Examples
    --------
    >>> numeral("100.0", "a.csv", "batch"), numeral(" 0.85", "a.csv", "seconds")
    (100, 0.85)
    """
    if _NUMERAL.fullmatch(spelled.strip()) is None:
        raise BadInput("is no number", file=where, field=name, value=spelled.strip(), remedy=_EXPORT_AGAIN)
    value = float(spelled)
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


def whole(value: Any, where: str, name: str, *, minimum: int = 1) -> int:
    """Return ``value`` if it is a whole number of at least ``minimum``, and of a size that servers have.

    Examples
    --------
    >>> whole(3, "a.json", "batch_size")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput("must be a whole number", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    if not minimum <= value <= _MOST:
        problem = f"must lie in [{minimum}, {_MOST}]"
        raise BadInput(problem, file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return value


def positive(value: Any, where: str, name: str) -> float:
    """Return ``value`` as float if it is a finite number above 0; bool, NaN and text are none.

    Examples
    --------
    >>> positive(2, "a.json", "t_tg")
    2.0
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or math.isnan(value):
        raise BadInput("must be a number", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    if not 0.0 < value <= 1e18:
        problem = "must be greater than 0" if value <= 0.0 else "must be finite"
        raise BadInput(problem, file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return float(value)


def pass_seconds(value: Any, where: str, name: str, *, unit_s: float = 1.0) -> float:
    """A time in seconds, given in units of ``unit_s``, if a pass can take so long.

    Examples
    --------
    >>> pass_seconds(12.5, "a.csv", "time_ms", unit_s=1e-3)
    0.0125
    """
    seconds = positive(value, where, name) * unit_s
    if not SHORTEST_S <= seconds <= LONGEST_S:
        problem = f"is {seconds:g} s, and no pass takes that"
        raise BadInput(problem, file=where, field=name, value=value, remedy="check the unit")
    return seconds


def label(value: Any, where: str, name: str) -> str | None:
    """What something is called; None if nobody wrote it down.

    Examples
    --------
    >>> label("llama", "a.json", "model_type"), label("not recorded", "a.csv", "hardware")
    ('llama', None)
    """
    if not isinstance(value, str) or value.strip().casefold() in _UNSAID:
        return None
    if len(value) > _LONGEST_NAME:
        problem = f"is longer than {_LONGEST_NAME} characters"
        raise BadInput(problem, file=where, field=name, value=value, remedy="correct the name")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("is not valid text", file=where, field=name, value=value, remedy="correct the name") from None
    return value.strip()


def expect_close(stated: Any, derived: float, where: str, name: str, of: str, *, tolerance: float) -> None:
    """Raise if a stated figure is further than ``tolerance`` (relative) from the one that others give.

    Examples
    --------
    >>> expect_close(41.57, 41.572, "a.md", "S_TG t/s", "B × TG ÷ T_TG", tolerance=0.01)
    """
    if abs(positive(stated, where, name) - derived) > tolerance * derived:
        problem = f"does not match {of}, which gives {derived:.5g}"
        remedy = "one of the two was cut or edited; export the file again"
        raise BadInput(problem, file=where, field=name, value=stated, remedy=remedy)
