"""What a reading of a trace leaves out, and what it notices; and what to do with a row that cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from specbook.checks import BadInput
from specbook.serving.traces.sources import Source
from specbook.serving.traces.values import BrokenRecord

# Takes what is wrong with a record, and its number.
Refuse = Callable[[BadInput, int], None]

NO_LINE_END = "the last line of the trace has no line end: it may have been cut inside its last number"


@dataclass(kw_only=True)
class Tally:
    """Filled while a trace is read.

    Attributes
    ----------
    format : str
        The reader that understood it; empty before the reading begins.
    skipped : Counter of str
        Reason → rows left out for it.
    notes : list of str
        What a person should know of the file.
    """

    format: str = ""
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def skipping(tally: Tally) -> Refuse:
    """Leave a row out, and count why.

    Examples
    --------
    >>> tally = Tally()
    >>> skipping(tally)(BadInput("is empty", field="output_tokens", remedy="correct it"), 3)
    >>> tally.skipped
    Counter({'output_tokens is empty': 1})
    """

    def refuse(error: BadInput, _: int) -> None:
        tally.skipped[error.problem if error.field is None else f"{error.field} {error.problem}"] += 1

    return refuse


def refusing(source: Source, path: Path) -> Refuse:
    """Refuse the file for a row, and say which."""

    def refuse(error: BadInput, number: int) -> None:
        raise error.at(f"{path} {source.noun} {number}")

    return refuse


def with_its_cause(error: BadInput, record: object) -> BadInput:
    """What is wrong with a record; if it is not all there because the file ends inside it, that."""
    if not (isinstance(error, BrokenRecord) and has_no_end(record)):
        return error
    remedy = "fetch it again, or read with --lenient, which leaves the record out"
    return BadInput("breaks off with the file", remedy=remedy, field=error.field, value=error.value)


def has_no_end(record: object) -> bool:
    """Whether a record is a line without its end, as only the last one of a file can be."""
    return isinstance(record, str) and not record.endswith("\n")
