"""The known formats, and which of them a file is: told by the names of its columns or keys, never by its own."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, Protocol, cast

from specbook.checks import BadInput
from specbook.serving.traces import (
    azure_llm,
    burstgpt,
    llm_serving_sim,
    mooncake,
    specbook_csv,
    splitwise_sim,
    vidur,
    vllm_bench_serve,
)
from specbook.serving.traces.values import Row

Syntax = Literal["table", "objects", "document"]

_MODULES: tuple[ModuleType, ...] = (
    azure_llm,
    burstgpt,
    mooncake,
    vidur,
    splitwise_sim,
    llm_serving_sim,
    vllm_bench_serve,
    specbook_csv,
)


class TraceFormat(Protocol):
    """One format.

    ``FIELDS`` are the columns or keys that a row is made of, the time first; ``TICKS_PER_S`` is the unit of that time.
    """

    NAME: str
    SYNTAX: Syntax
    FIELDS: tuple[str, ...]
    TICKS_PER_S: int

    def row(self, values: Sequence[Any]) -> Row:
        """One request, from the values of the fields; raises :class:`BadInput` without a place."""


FORMATS: dict[str, TraceFormat] = {module.NAME: cast(TraceFormat, module) for module in _MODULES}

_LENGTHS_ALONE = frozenset({"num_prefill_tokens", "num_decode_tokens"})


def format_of(names: Sequence[str], syntax: Syntax) -> TraceFormat:
    """The format of a file with these columns (in lower case) or keys.

    Raises
    ------
    BadInput
        If there is none.

    Examples
    --------
    >>> format_of(["timestamp", "contexttokens", "generatedtokens"], "table").NAME
    'azure-llm'
    """
    given = frozenset(names)
    for trace_format in FORMATS.values():
        if syntax == trace_format.SYNTAX and _is_of(trace_format, given):
            return trace_format
    if syntax == "table" and given >= _LENGTHS_ALONE:
        remedy = "add that column, in seconds, or draw arrivals for these lengths with make_workload"
        raise BadInput("holds lengths, and no column arrived_at that says when", remedy=remedy)
    raise BadInput(
        f"is of no known format ({', '.join(FORMATS)})",
        field="header" if syntax == "table" else "keys",
        value=", ".join(names) if syntax == "table" else sorted(names)[:6],
        remedy="see the page on traces in the book, or write a table arrival_s,prompt_tokens,output_tokens",
    )


def _is_of(trace_format: TraceFormat, names: frozenset[str]) -> bool:
    if trace_format.SYNTAX == "document":
        return vllm_bench_serve.recognises(names)
    fold = str.casefold if trace_format.SYNTAX == "table" else str
    return names >= {fold(field) for field in trace_format.FIELDS}
