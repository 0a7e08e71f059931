"""The known formats, and which of them a document is of: told by content, never by name."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

from specbook.checks import BadInput
from specbook.hardware.readers import (
    llama_batch_costs,
    llama_batched_bench,
    llama_bench,
    sglang_bench_speculative,
    splitwise,
    step_csv,
)
from specbook.hardware.readers.rows import Document, Reader

_MODULES: tuple[ModuleType, ...] = (
    sglang_bench_speculative,
    llama_bench,
    llama_batched_bench,
    llama_batch_costs,
    splitwise,
    step_csv,
)
FORMATS: dict[str, Reader] = {module.NAME: cast(Reader, module) for module in _MODULES}

# Files of this program that hold step times, or may, and are no benchmark.
_OWN = {
    "specbook-step-times/1": "specbook steps show prints it",
    "specbook-hardware/1": "its step times are used as they are",
    "specbook-acceptance/1": "it holds no times",
}


def reader_of(document: Document, wanted: str = "auto") -> Reader:
    """The reader of a document.

    Raises
    ------
    BadInput
        If the document is of no known format, of two, or not of the ``wanted`` one.

    Examples
    --------
    >>> reader_of(Document(name="a.txt", lines=("1 0.605 0.473",))).NAME
    'llama-batch-costs'
    """
    readers = list(FORMATS.values()) if wanted == "auto" else [FORMATS[wanted]]
    found = [reader for reader in readers if reader.recognises(document)]
    if len(found) > 1:
        names = [reader.NAME for reader in found]
        problem, remedy = "holds more than one format", "choose one with --format"
        raise BadInput(problem, file=document.name, value=", ".join(names), remedy=remedy)
    if not found:
        raise _unknown(document, readers)
    return found[0]


def _unknown(document: Document, readers: Sequence[Reader]) -> BadInput:
    first: Any = document.records[0].value if document.records else next(filter(str.strip, document.lines), "")
    if isinstance(first, dict) and first.get("schema") in _OWN:
        return BadInput(f"is a {first['schema']} file", file=document.name, remedy=_OWN[first["schema"]])
    known = ", ".join(reader.NAME for reader in readers)
    return BadInput(
        f"holds no step times of a known format ({known})",
        file=document.name,
        field="keys" if isinstance(first, dict) else None,
        value=sorted(first)[:6] if isinstance(first, dict) else first,
        remedy="see the page on step times in the book for what each looks like",
    )
