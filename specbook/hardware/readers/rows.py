"""The one shape that every reader gives: times, each with what it was measured at and what on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from specbook.hardware.step_times import Cell


@dataclass(frozen=True, slots=True)
class Record:
    """One parsed JSON value, and where it stands for error messages."""

    value: Any
    where: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A file: its JSON records, or else its lines.

    Attributes
    ----------
    name : str
        The file, for error messages.
    records : tuple of Record
        Of one JSON document, a list, or JSON Lines; empty for text.
    lines : tuple of str
        Of a text; empty for JSON.
    notes : tuple of str
        What was left out.
    """

    name: str
    records: tuple[Record, ...] = ()
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def line(self, number: int) -> str:
        """Where the line of this number, from 1, stands."""
        return f"{self.name} line {number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimeRow:
    """One time that a file states.

    Attributes
    ----------
    where : str
        File and line, for error messages.
    cell : Cell
        What it was measured at.
    seconds : float
        Or multiples of the pass over one position, as ``unit`` says.
    labels : dict of str to str
        What it was measured on: times whose labels differ belong to different series.
    source : str or None
        Where the file itself has the time from.
    variant : str
        How it was measured, where that does not matter to the time: times of one cell that differ in their variant
        are repeated measurements, and those that do not contradict each other.
    """

    where: str
    cell: Cell
    seconds: float
    unit: Literal["seconds", "relative"] = "seconds"
    labels: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    variant: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Readout:
    """What a reader understood: the times, and what to know about them."""

    rows: list[StepTimeRow]
    notes: list[str]


class Reader(Protocol):
    """One format.

    ``NAME`` is what ``--format`` takes, ``ENGINE`` what wrote it, if one engine did; ``MEASURES`` says whether a time
    is of one pass or of a whole round.
    """

    NAME: str
    ENGINE: str | None
    MEASURES: Literal["pass", "round"]

    def recognises(self, document: Document) -> bool:
        """Whether the document can only be of this format."""

    def read(self, document: Document) -> Readout:
        """The times of a recognised document."""


def counted(n: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def in_a_few(names: Iterable[str], most: int = 6) -> str:
    """Names separated by commas, in order, each once; the number of those beyond the first few.

    Examples
    --------
    >>> in_a_few(["b", "a", "b"]), in_a_few("abcd", most=2)
    ('a, b', 'a, b and 2 more')
    """
    distinct = sorted(set(names))
    beyond = f" and {len(distinct) - most:,} more" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + beyond
