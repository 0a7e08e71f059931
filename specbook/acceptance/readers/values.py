"""A reader's checks of single values: each returns the value, or says where it is and what is wrong with it."""

from __future__ import annotations

import math
import re
from typing import Any

from specbook.checks import BadInput

# JSON readers elsewhere hold numbers in 64-bit floats, which count exactly up to here.
_LARGEST = 2**53
# No engine drafts near this many tokens; a longer draft is damage, and would make a huge list.
LONGEST_DRAFT = 4096
# Above this share of full-length rounds, the few shorter ones are drafts cut at the end of a sequence.
MOSTLY = 0.95
# Shorter names of answers, such as a running number, are not sure to be different.
SHORTEST_ANSWER_NAME = 16
# A longer name is no name, and would be repeated in every message and file.
_LONGEST_NAME = 512
_EXPORT_AGAIN = "export the file again"


def whole(value: Any, where: str, name: str, *, minimum: int = 0) -> int:
    """Return ``value`` if it is a whole number of at least ``minimum``.

    Examples
    --------
    >>> whole(3, "a.json", "num_spec_steps")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput("must be a whole number", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    if value < minimum:
        raise BadInput(f"must be at least {minimum}", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    if value > _LARGEST:
        raise BadInput("is beyond any server", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return value


def number(value: Any, where: str, name: str, *, minimum: float = 0.0, maximum: float = 1e15) -> float:
    """Return ``value`` as float if it is a finite number in the range; bool, NaN and text are none.

    Examples
    --------
    >>> number(2, "a.json", "acceptance_length", minimum=1.0)
    2.0
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and math.isnan(value))
    ):
        raise BadInput("must be a number", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    if not minimum <= value <= maximum:
        problem = f"must lie in [{minimum:g}, {maximum:g}]"
        raise BadInput(problem, file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return float(value)


def fraction(value: Any, where: str, name: str) -> float:
    """Return ``value`` as float if it lies in [0, 1]; a percentage does not.

    Examples
    --------
    >>> fraction(0.8, "a.json", "acceptance_rate")
    0.8
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and 1.0 < value <= 100.0:
        raise BadInput("is no fraction", file=where, field=name, value=value, remedy="give 0.8, not 80 percent")
    return number(value, where, name, maximum=1.0)


def text(value: Any, where: str, name: str) -> str | None:
    """Return a label if it is one: a string that can be written down again; None if it is no string.

    Examples
    --------
    >>> text("llama", "a.json", "model")
    'llama'
    """
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST_NAME:
        problem = f"is longer than {_LONGEST_NAME} characters"
        raise BadInput(problem, file=where, field=name, value=value, remedy="correct the name")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("is not valid text", file=where, field=name, value=value, remedy="correct the name") from None
    return value


def a_list(value: Any, where: str, name: str) -> list[Any]:
    """Return ``value`` if it is a list.

    Examples
    --------
    >>> a_list([1], "a.json", "stages")
    [1]
    """
    if not isinstance(value, list):
        raise BadInput("must be a list", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return value


def an_object(value: Any, where: str, name: str) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object.

    Examples
    --------
    >>> an_object({}, "a.json", "meta_info")
    {}
    """
    if not isinstance(value, dict):
        raise BadInput("must be an object", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return value


def whole_list(value: Any, where: str, name: str, *, minimum: int = 0) -> list[int]:
    """Return ``value`` if it is a list of whole numbers of at least ``minimum``.

    Examples
    --------
    >>> whole_list([1, 0], "a.json", "acceptance_histogram")
    [1, 0]
    """
    items = a_list(value, where, name)
    if {*map(type, items)} <= {int} and (not items or minimum <= min(items) <= max(items) <= _LARGEST):
        return items
    return [whole(item, where, f"{name}[{index}]", minimum=minimum) for index, item in enumerate(items)]


def fractions(value: Any, where: str, name: str) -> list[float]:
    """Return a list of fractions, one a draft position; at most as many as an engine drafts.

    Examples
    --------
    >>> fractions([0.8, 0.4], "a.json", "acceptance_rates")
    [0.8, 0.4]
    """
    items = a_list(value, where, name)
    if len(items) > LONGEST_DRAFT:
        problem = f"has more than {LONGEST_DRAFT} positions"
        raise BadInput(problem, file=where, field=name, value=len(items), remedy=_EXPORT_AGAIN)
    return [fraction(item, where, f"{name}[{index}]") for index, item in enumerate(items)]


def dense(value: Any, where: str, name: str) -> list[int]:
    """A histogram as a list: given as one, or as an object keyed by the count.

    Examples
    --------
    >>> dense({"0": 3, "2": 1}, "a.json", "acceptance_histogram")
    [3, 0, 1]
    """
    if not isinstance(value, dict):
        return whole_list(value, where, name)
    counts = {length_key(key, where, name): whole(count, where, f"{name}.{key}") for key, count in value.items()}
    return [counts.get(accepted, 0) for accepted in range(max(counts, default=-1) + 1)]


def length_key(key: str, where: str, name: str) -> int:
    """A number of tokens given as the key of an object.

    Examples
    --------
    >>> length_key("4", "a.json", "acceptance_histogram")
    4
    """
    if not (key.isascii() and key.isdigit() and len(key) <= 4 and int(key) <= LONGEST_DRAFT):
        raise BadInput("is no number of tokens", file=where, field=name, value=key, remedy=_EXPORT_AGAIN)
    return int(key)


def expect(stated: Any, counted: int, where: str, name: str, source: str = "the histogram") -> None:
    """Raise if a stated total is not the one counted; a total that is not stated is no error.

    Examples
    --------
    >>> expect(4, 4, "a.json", "num_spec_steps")
    """
    if stated is not None and whole(stated, where, name) != counted:
        raise BadInput(
            f"does not match {source}, which gives {counted}",
            file=where,
            field=name,
            value=stated,
            remedy="export the file again; one of the two was cut or edited",
        )


def expect_close(
    stated: Any, derived: float, where: str, name: str, source: str = "the histogram", *, tolerance: float = 0.01
) -> None:
    """Raise if a stated ratio is further than ``tolerance`` (relative) from the one its counts give.

    Examples
    --------
    >>> expect_close(2.25, 2.2501, "a.json", "mean_acceptance_length")
    """
    if stated is None:
        return
    if abs(number(stated, where, name) - derived) > tolerance * max(derived, 0.01):
        raise BadInput(
            f"does not match {source}, which gives {derived:.4f}",
            file=where,
            field=name,
            value=stated,
            remedy="a length counts the bonus token and a rate is a fraction",
        )


_NUMERAL = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?", re.ASCII)


def numeral(spelled: str, where: str, name: str) -> int | float:
    """The number that a cell or a scalar spells; 100.0 is whole, since tables print counts like that.

    Examples
    --------
    >>> numeral("100.0", "a.csv", "num_drafts"), numeral("0.85", "a.csv", "acceptance_at_pos_0")
    (100, 0.85)
    """
    if _NUMERAL.fullmatch(spelled.strip()) is None:
        raise BadInput("is no number", file=where, field=name, value=spelled, remedy=_EXPORT_AGAIN)
    value = float(spelled)
    return int(value) if value.is_integer() and abs(value) <= _LARGEST else value
