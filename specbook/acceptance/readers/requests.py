"""What every reader gives: the round counts of one request, with the labels that its record carried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from specbook.checks import BadInput


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestCounts:
    """Rounds of one request.

    Attributes
    ----------
    by_accepted : list of int
        Number of rounds that accepted 0, 1, 2, … draft tokens.
    by_drafted : dict of int to list of int, or None
        The same for each number of drafted tokens, where the source has it.
    n_drafted_tokens : int or None
        Total drafted, where the source has it.
    labels : dict
        Fields of the profile that the record states, such as ``target`` or ``temperature``.
    """

    by_accepted: list[int]
    by_drafted: dict[int, list[int]] | None = None
    n_drafted_tokens: int | None = None
    labels: dict[str, Any] = field(default_factory=dict)


class Reader(Protocol):
    """One format: how to recognise a record of it, and how to read one."""

    NAME: str
    WARNINGS: tuple[str, ...]

    def recognises(self, record: Any) -> bool:
        """Whether a parsed JSON value is a record of this format."""

    def read(self, record: Any, where: str) -> Iterator[RequestCounts]:
        """Yield the requests of one record; ``where`` names file and line for errors."""


# JSON readers elsewhere hold numbers in 64-bit floats, which count exactly up to here.
_LARGEST = 2**53


def whole(value: Any, where: str, name: str, *, minimum: int = 0) -> int:
    """Return ``value`` if it is a whole number of at least ``minimum``; a reader's check of one integer.

    Examples
    --------
    >>> whole(3, "a.json", "num_spec_steps")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput("must be a whole number", file=where, field=name, value=value, remedy="export the file again")
    if value < minimum:
        raise BadInput(
            f"must be at least {minimum}", file=where, field=name, value=value, remedy="export the file again"
        )
    if value > _LARGEST:
        raise BadInput("is beyond any server", file=where, field=name, value=value, remedy="export the file again")
    return value


def text(value: Any, where: str, name: str) -> str | None:
    """Return a label if it is one: a string that can be written down again; None if it is no string.

    Examples
    --------
    >>> text("llama", "a.json", "model")
    'llama'
    """
    if not isinstance(value, str):
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("is not valid text", file=where, field=name, value=value, remedy="correct the name") from None
    return value


def whole_list(value: Any, where: str, name: str, *, minimum: int = 0) -> list[int]:
    """Return ``value`` if it is a list of whole numbers of at least ``minimum``.

    Examples
    --------
    >>> whole_list([1, 0], "a.json", "acceptance_histogram")
    [1, 0]
    """
    if not isinstance(value, list):
        raise BadInput("must be a list", file=where, field=name, value=value, remedy="export the file again")
    if {*map(type, value)} <= {int} and (not value or minimum <= min(value) <= max(value) <= _LARGEST):
        return value
    return [whole(item, where, f"{name}[{index}]", minimum=minimum) for index, item in enumerate(value)]
