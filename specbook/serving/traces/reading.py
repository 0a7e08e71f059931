"""A recorded trace as a workload: at once, or in pieces when it is longer than memory should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from specbook.checks import BadInput, check_counts
from specbook.serving.traces.sources import Source, open_source
from specbook.serving.traces.values import BrokenRecord, refusal
from specbook.serving.workload import Workload

_ROWS = 65536
# No trace runs for thirty years: the unit of its times is another one.
_LONGEST_S = 1e9
_SUFFIXES = frozenset({".gz", ".csv", ".jsonl", ".json"})

_Arrival = tuple[float, int, int]
_Refuse = Callable[[BadInput, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A trace that was read.

    Attributes
    ----------
    workload : Workload
        The first request arrives at 0.
    format : str
        The reader that understood it; a key of ``FORMATS``.
    skipped : dict of str to int
        Reason → rows left out for it; empty unless it was read leniently.
    """

    workload: Workload
    format: str
    skipped: dict[str, int] = field(default_factory=dict)


def read_trace(path: Path, *, lenient: bool = False) -> Trace:
    """Read a trace of any known format, plain or packed with gzip.

    Parameters
    ----------
    path : Path
        The format is told by the content.
    lenient : bool
        Skip rows that cannot be used, and count them by reason, instead of refusing the file.

    Raises
    ------
    BadInput
        If the file cannot be read, is of no known format, holds no request, or, unless lenient, a row that is not
        complete, goes back in time, or has a time or a count of tokens that no request has.

    Examples
    --------
    >>> trace = read_trace(example_trace("azure-llm.csv"))
    >>> trace.format, trace.workload.n_requests, trace.workload.rate_per_s
    ('azure-llm', 4, 2.0)
    """
    skipped: Counter[str] = Counter()
    source = open_source(path)
    rows = _arrivals(source, path, _counting(skipped) if lenient else _strict(source, path))
    pieces = list(_pieces(rows, _name(path), _ROWS))
    whole = Workload(
        arrival_s=np.concatenate([piece.arrival_s for piece in pieces]),
        prompt_tokens=np.concatenate([piece.prompt_tokens for piece in pieces]),
        output_tokens=np.concatenate([piece.output_tokens for piece in pieces]),
        name=_name(path),
    )
    return Trace(workload=whole, format=source.format.NAME, skipped=dict(skipped))


def stream_trace(path: Path, *, lenient: bool = False, rows: int = _ROWS) -> Iterator[Workload]:
    """Read a trace in pieces; memory does not grow with a file of one request a line.

    Parameters
    ----------
    path : Path
    lenient : bool
        Skip rows that cannot be used; :func:`read_trace` counts them.
    rows : int
        Requests of a piece, at least 1; the last piece may have fewer.

    Returns
    -------
    iterator of Workload
        Times go on from one piece to the next, relative to the first request of the file.

    Raises
    ------
    BadInput
        As :func:`read_trace` does; of a row, when its piece is asked for.
    ValueError
        If ``rows`` is below 1.

    Examples
    --------
    >>> [piece.arrival_s.tolist() for piece in stream_trace(example_trace("mooncake.jsonl"), rows=2)]
    [[0.0, 0.74], [0.91]]
    """
    size = int(check_counts("rows", rows, minimum=1))
    source = open_source(path)
    refuse = _counting(Counter()) if lenient else _strict(source, path)
    return _pieces(_arrivals(source, path, refuse), _name(path), size)


def example_trace(name: str) -> Path:
    """Path of a small invented trace in one of the known formats; for doctests and first steps.

    Examples
    --------
    >>> example_trace("mooncake.jsonl").name
    'mooncake.jsonl'
    """
    return Path(__file__).parent / "examples" / name


def _counting(skipped: Counter[str]) -> _Refuse:
    """Skip a row, and count why."""

    def refuse(error: BadInput, _: int) -> None:
        skipped[error.problem] += 1

    return refuse


def _strict(source: Source, path: Path) -> _Refuse:
    """Refuse the file for a row, and say which."""

    def refuse(error: BadInput, number: int) -> None:
        raise error.at(f"{path} {source.noun} {number}")

    return refuse


def _arrivals(source: Source, path: Path, refuse: _Refuse) -> Iterator[_Arrival]:
    """Yield the requests that can be used: seconds since the first of them, prompt and output tokens."""
    row, values, per_s = source.format.row, source.values, source.format.TICKS_PER_S
    first: int | float | None = None
    last_s = 0.0
    for number, record in source.records:
        try:
            ticks, prompt, output = row(values(record))
            start = ticks if first is None else first
            arrival_s = (ticks - start) / per_s
            if arrival_s < last_s:
                raise refusal("time goes back", source.format.FIELDS[0], values(record)[0])
            if arrival_s > _LONGEST_S:
                raise refusal("is over thirty years after the first", source.format.FIELDS[0], values(record)[0])
        except BadInput as error:
            refuse(_cut(error) if _breaks_off(error, record) else error, number)
            continue
        first, last_s = start, arrival_s
        yield arrival_s, prompt, output
    if first is None:
        raise BadInput("holds no request that can be used", file=str(path), remedy="export it again")


def _breaks_off(error: BadInput, record: object) -> bool:
    """Whether a record is not all there because the file ends inside it."""
    return isinstance(error, BrokenRecord) and isinstance(record, str) and not record.endswith("\n")


def _cut(error: BadInput) -> BadInput:
    problem = "the file breaks off in this record"
    remedy = "fetch it again, or read with --lenient, which leaves the record out"
    return BadInput(problem, remedy=remedy, field=error.field, value=error.value)


def _pieces(rows: Iterator[_Arrival], name: str, size: int) -> Iterator[Workload]:
    while piece := list(islice(rows, size)):
        yield Workload(
            arrival_s=np.array([row[0] for row in piece], dtype=np.float64),
            prompt_tokens=np.array([row[1] for row in piece], dtype=np.int64),
            output_tokens=np.array([row[2] for row in piece], dtype=np.int64),
            name=name,
        )


def _name(path: Path) -> str:
    while path.suffix.casefold() in _SUFFIXES:
        path = path.with_suffix("")
    return path.name
