"""A file as a stream of records of a recognised format, whatever its syntax."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.progress import Progress, silent
from specbook.serving.traces import vllm_bench_serve
from specbook.serving.traces.formats import TraceFormat, format_of
from specbook.serving.traces.lines import first_lines, numbered_lines, whole_document
from specbook.serving.traces.records import from_object, from_table, names_of

# So many first lines of JSON may be damaged, and the file is still one object a line.
_MOST_LINES = 20


@dataclass(frozen=True, kw_only=True)
class Source:
    """Records of one file.

    Attributes
    ----------
    format : TraceFormat
    records : iterator of (int, object)
        Each with its number; can be gone through once.
    values : callable
        The values of the format's fields in a record; raises :class:`BadInput` without a place.
    noun : str
        What a number counts.
    """

    format: TraceFormat
    records: Iterator[tuple[int, Any]]
    values: Callable[[Any], Sequence[Any]]
    noun: str = "line"


def open_source(path: Path, progress: Progress = silent) -> Source:
    """Recognise a file.

    Parameters
    ----------
    path : Path
    progress : callable
        Called with bytes of the file, as its records are taken.

    Raises
    ------
    BadInput
        If it cannot be read, or is of no known format.
    """
    head = first_lines(path, _MOST_LINES)
    number, first = head[0]
    try:
        if not first.lstrip().startswith(("{", "[")):
            return _table(path, number, first, progress)
        keyed = [keys for line in head if (keys := _keys(line)) is not None]
        if not keyed:
            return _document(whole_document(path))
        keys = list(dict.fromkeys(chain.from_iterable(keyed)))
        if vllm_bench_serve.recognises(frozenset(keys)):
            _check_single(keyed)
            return _document(whole_document(path))
        return _objects(path, keys, progress)
    except BadInput as error:
        raise error.at(str(path)) from None


def _table(path: Path, number: int, header: str, progress: Progress) -> Source:
    names = names_of(header)
    trace_format = format_of(names, "table")
    rows = (line for line in numbered_lines(path, progress) if line[0] > number)
    return Source(format=trace_format, records=rows, values=from_table(names, trace_format.FIELDS))


def _objects(path: Path, keys: list[str], progress: Progress) -> Source:
    trace_format = format_of(keys, "objects")
    records = numbered_lines(path, progress)
    return Source(format=trace_format, records=records, values=from_object(trace_format.FIELDS))


def _check_single(keyed: list[list[str]]) -> None:
    if len(keyed) > 1:
        raise BadInput("holds the results of several runs", remedy="keep one line: one run is one trace")


def _document(document: object) -> Source:
    if not isinstance(document, dict):
        raise BadInput("is one JSON list", remedy="write one request a line, or a table with a header")
    trace_format = format_of(list(document), "document")
    requests = vllm_bench_serve.requests(document)
    return Source(format=trace_format, records=iter(requests), values=tuple, noun="request")


def _keys(numbered: tuple[int, str]) -> list[str] | None:
    """Keys of a line that is a JSON object; None if it is none, or stands inside another one."""
    if not numbered[1].startswith("{"):
        return None
    try:
        value = json.loads(numbered[1])
    except (ValueError, RecursionError):
        return None
    return list(value) or None
