"""A recorded trace as a workload: at once, or in pieces when it is longer than memory should be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from specbook.checks import BadInput, check_counts
from specbook.progress import Progress, silent
from specbook.serving.traces.sources import Source, open_source
from specbook.serving.traces.tally import NO_LINE_END, Refuse, Tally, has_no_end, refusing, skipping, with_its_cause
from specbook.serving.traces.values import refusal
from specbook.serving.workload import Workload

_ROWS = 65536
# No trace runs for thirty years: the unit of its times is another one.
_LONGEST_S = 1e9
_SUFFIXES = frozenset({".gz", ".csv", ".jsonl", ".json"})

_Arrival = tuple[float, int, int]
# Says why a request of so many tokens of prompt and output cannot be used; None if it can.
WhyNot = Callable[[int, int], BadInput | None]


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
    notes : tuple of str
        What a person should know of the file.
    """

    workload: Workload
    format: str
    notes: tuple[str, ...] = ()
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
    tally = Tally()
    pieces = list(stream_trace(path, lenient=lenient, tally=tally))
    whole = Workload(
        arrival_s=np.concatenate([piece.arrival_s for piece in pieces]),
        prompt_tokens=np.concatenate([piece.prompt_tokens for piece in pieces]),
        output_tokens=np.concatenate([piece.output_tokens for piece in pieces]),
        name=_name(path),
    )
    return Trace(workload=whole, format=tally.format, skipped=dict(tally.skipped), notes=tuple(tally.notes))


def stream_trace(
    path: Path,
    *,
    lenient: bool = False,
    rows: int = _ROWS,
    first: int | None = None,
    why_not: WhyNot | None = None,
    tally: Tally | None = None,
    progress: Progress = silent,
) -> Iterator[Workload]:
    """Read a trace in pieces; memory does not grow with a file of one request a line.

    Parameters
    ----------
    path : Path
    lenient : bool
        Skip rows that cannot be used.
    rows : int
        Requests of a piece, at least 1; the last piece may have fewer.
    first : int or None
        Read no further than so many requests.
    why_not : callable or None
        Given the tokens of a prompt and of its output, says why such a request cannot be used, or None. It is then
        refused or skipped like a row that is damaged.
    tally : Tally or None
        Gets what is skipped and noticed, as far as the pieces were taken.
    progress : callable
        Called with bytes of the file, as they are read.

    Returns
    -------
    iterator of Workload
        Times go on from one piece to the next, relative to the first request of the file.

    Raises
    ------
    BadInput
        As :func:`read_trace` does; of a row, when its piece is asked for.
    ValueError
        If ``rows`` or ``first`` is below 1.

    Examples
    --------
    >>> [piece.arrival_s.tolist() for piece in stream_trace(example_trace("mooncake.jsonl"), rows=2)]
    [[0.0, 0.74], [0.91]]
    """
    size = int(check_counts("rows", rows, minimum=1))
    most = None if first is None else int(check_counts("first", first, minimum=1))
    source, tally = open_source(path, progress), tally or Tally()
    tally.format = source.format.NAME
    refuse = skipping(tally) if lenient else refusing(source, path)
    return _pieces(islice(_arrivals(source, path, refuse, why_not, tally), most), _name(path), size)


def example_trace(name: str) -> Path:
    """Path of a small invented trace in one of the known formats; for doctests and first steps.

    Examples
    --------
    >>> example_trace("mooncake.jsonl").name
    'mooncake.jsonl'
    """
    return Path(__file__).parent / "examples" / name


def _arrivals(source: Source, path: Path, refuse: Refuse, why_not: WhyNot | None, tally: Tally) -> Iterator[_Arrival]:
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
                raise refusal("goes back in time", source.format.FIELDS[0], values(record)[0])
            if arrival_s > _LONGEST_S:
                raise refusal("is over thirty years after the first", source.format.FIELDS[0], values(record)[0])
            if why_not is not None and (reason := why_not(prompt, output)) is not None:
                raise reason
        except BadInput as error:
            refuse(with_its_cause(error, record), number)
            continue
        if source.format.SYNTAX == "table" and has_no_end(record):
            tally.notes.append(NO_LINE_END)
        first, last_s = start, arrival_s
        yield arrival_s, prompt, output
    if first is None:
        raise BadInput("holds no request that can be used", file=str(path), remedy="export it again")


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
