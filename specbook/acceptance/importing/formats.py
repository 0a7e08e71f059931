"""The known formats, and a file as what one of them says: recognised by content, never by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from specbook.acceptance.importing.records import first_line, read_lines, read_records
from specbook.acceptance.readers import (
    aiperf,
    automodel,
    deepspec,
    dflash_bench,
    fak_acceptance,
    golden_al,
    ik_llama,
    llama_cpp,
    model_optimizer,
    sglang_bench_speculative,
    sglang_meta_info,
    spec_bench,
    specforge,
    speculation_profile,
    speculators_csv,
    tensorrt_llm,
    vllm_bench_serve,
    vllm_log,
    vllm_per_request,
    vllm_prometheus,
)
from specbook.acceptance.readers.observation import Observation, Reader, RecordReader, TextReader
from specbook.checks import BadInput
from specbook.files import check_readable
from specbook.progress import Progress

# In the order in which they are tried: a narrower form before a wider one.
_MODULES: tuple[ModuleType, ...] = (
    aiperf,
    tensorrt_llm,
    vllm_per_request,
    vllm_bench_serve,
    vllm_log,
    vllm_prometheus,
    model_optimizer,
    speculation_profile,
    sglang_meta_info,
    sglang_bench_speculative,
    specforge,
    automodel,
    fak_acceptance,
    ik_llama,
    deepspec,
    llama_cpp,
    speculators_csv,
    golden_al,
    dflash_bench,
    spec_bench,
)
FORMATS: dict[str, Reader] = {module.NAME: cast(Reader, module) for module in _MODULES}


_PROFILE_SCHEMA = "specbook-acceptance/1"


class NoAcceptanceFile(BadInput):
    """What is wrong with a file in which no record was recognised; a folder may hold such files."""


class ProfileAlready(NoAcceptanceFile):
    """An acceptance profile, which an import writes and does not read."""


class UnknownFormat(NoAcceptanceFile):
    """A readable file that is of no known format."""


def observations(
    path: Path, wanted: str, warn: Callable[[str], None], progress: Progress
) -> Iterator[tuple[Observation, str]]:
    """Yield what a file says, each with the name of its format.

    Raises
    ------
    NoAcceptanceFile
        If the file cannot be read, or nothing in it is of a known format, or of the ``wanted`` one.
    BadInput
        If a record was recognised, and that or a later one is broken or says something impossible.
    """
    readers = list(FORMATS.values()) if wanted == "auto" else [FORMATS[wanted]]
    recognised = _Recognised()
    try:
        check_readable(path)
        line = first_line(path)
        if not line:
            raise BadInput("holds only blanks", file=str(path), remedy="export it again")
        if _is_json(line):
            yield from _from_records(path, readers, warn, progress, recognised)
        else:
            yield from _from_lines(path, readers, progress, recognised)
    except BadInput as error:
        if recognised.any or isinstance(error, NoAcceptanceFile):
            raise
        raise NoAcceptanceFile(**vars(error)) from None


@dataclass
class _Recognised:
    """Whether any record of the file was."""

    any: bool = False


def _is_json(line: bytes) -> bool:
    if line[:1] == b"{" or (line[:1] == b"[" and line[1:].lstrip()[:1] in (b"", b"{", b"[", b"]")):
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _from_records(
    path: Path,
    readers: Sequence[Reader],
    warn: Callable[[str], None],
    progress: Progress,
    recognised: _Recognised,
) -> Iterator[tuple[Observation, str]]:
    candidates = [cast(RecordReader, reader) for reader in readers if hasattr(reader, "recognises")]
    for record in read_records(path, warn, progress):
        for reader in candidates:
            if reader.recognises(record.value):
                recognised.any = True
                yield from ((seen, reader.NAME) for seen in reader.read(record.value, record.where))
                break
        else:
            unknown = _unknown(record.where, record.value, readers)
            raise BadInput(**vars(unknown)) if recognised.any else unknown


def _from_lines(
    path: Path, readers: Sequence[Reader], progress: Progress, recognised: _Recognised
) -> Iterator[tuple[Observation, str]]:
    candidates = [cast(TextReader, reader) for reader in readers if hasattr(reader, "recognises_line")]
    for number, line in enumerate(read_lines(path), start=1):
        if "\0" in line:
            raise BadInput("holds bytes that are no text", file=f"{path} line {number}", remedy="export it again")
        for reader in candidates:
            if reader.recognises_line(line):
                recognised.any = True
                lines = read_lines(path, progress)
                yield from ((seen, reader.NAME) for seen in reader.read_lines(lines, str(path)))
                return
    raise _unknown(str(path), first_line(path)[:200].decode("utf-8", errors="replace"), readers)


def _unknown(where: str, value: Any, readers: Sequence[Reader]) -> NoAcceptanceFile:
    known = ", ".join(reader.NAME for reader in readers)
    if isinstance(value, dict) and value.get("schema") == _PROFILE_SCHEMA:
        remedy = "specbook profile show prints it, specbook project --acceptance takes it"
        return ProfileAlready("is an acceptance profile already", file=where, remedy=remedy)
    return UnknownFormat(
        f"holds no record of a known format ({known})",
        file=where,
        field="keys" if isinstance(value, dict) else None,
        value=sorted(value)[:6] if isinstance(value, dict) else value,
        remedy="see the page on acceptance files in the book for what each looks like",
    )
