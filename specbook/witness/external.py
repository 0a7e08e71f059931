"""Benchmarks of other engines as baselines of a receipt: read, hashed, and never more than ``external``.

What is kept are figures that a file itself states, under the file's own names. Whatever else it says, of execution,
engines or verdicts, has no field to go to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specbook.checks import BadInput, printable
from specbook.files import check_readable, sha256_of
from specbook.hardware.readers.documents import read_document
from specbook.hardware.readers.rows import Record
from specbook.hardware.readers.values import label
from specbook.witness.external_formats import (
    PERCENTILES,
    QUANTITIES,
    BenchmarkFormat,
    EngineName,
    FormatName,
    format_of,
    runs_of,
)

_LARGEST = 1e18
_MOST_RUNS = 1000
_LIMIT_BYTES = 16 * 2**20
_LONGEST_TOLD = 80
_EXPORT_AGAIN = "correct it, or export the file again"
# What cannot be more than what.
_AT_MOST = (
    ("spec_decode_accepted_tokens", "spec_decode_draft_tokens"),
    ("draft_n_accepted", "draft_n"),
    ("completed", "num_prompts"),
)

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# Where a file lay on somebody's disk is nobody else's business.
FileName = Annotated[str, Field(min_length=1, max_length=512, pattern="^[^/]+$")]
Stated = Annotated[float, Field(ge=0.0, le=_LARGEST, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExternalRun(_Part):
    """One run, or one response, of a benchmark file."""

    name: str = Field(description="Which of the file's runs it is.")
    model: str | None = Field(description="As the file names it; null if it does not.")
    figures: dict[str, Stated] = Field(min_length=1, description="What the file states, under its own names.")


class ExternalBaseline(_Part):
    """A benchmark that another engine ran; nothing of it was executed here."""

    execution: Literal["external"] = Field(description="Always external: the file was read, and nothing was run.")
    engine: EngineName = Field(description="Whose benchmark wrote the file.")
    format: FormatName
    file: FileName = Field(description="Name of the file, without its folder.")
    sha256: Digest
    runs: list[ExternalRun] = Field(min_length=1, max_length=_MOST_RUNS)
    notes: list[str] = Field(description="What of the file was left out.")


def read_external(path: Path) -> ExternalBaseline:
    """Read another engine's benchmark file.

    Parameters
    ----------
    path : Path
        What ``vllm bench serve --save-result``, SGLang's ``bench_serving``, ``llama-bench`` or ``llama-server`` wrote.

    Returns
    -------
    ExternalBaseline
        Its ``execution`` is ``external`` whatever the file says.

    Raises
    ------
    BadInput
        If it cannot be read, is of no known format or of two, or states an impossible figure.

    Examples
    --------
    >>> import json, tempfile
    >>> result = {"num_prompts": 8, "completed": 8, "duration": 2.0, "output_throughput": 400.0, "p90_tpot_ms": 21.5}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "result.json"
    ...     _ = path.write_text(json.dumps(result))
    ...     baseline = read_external(path)
    >>> baseline.execution, baseline.engine, baseline.runs[0].figures["p90_tpot_ms"]
    ('external', 'vllm', 21.5)
    """
    if check_readable(path) > _LIMIT_BYTES:
        problem, remedy = f"is larger than {_LIMIT_BYTES / 1e6:.0f} MB", "save it without details of each request"
        raise BadInput(problem, file=str(path), remedy=remedy)
    document = read_document(path)
    runs = list(runs_of(document))
    kind = format_of(runs, document)
    if len(runs) > _MOST_RUNS:
        problem, remedy = f"holds {len(runs):,} runs", f"attach at most {_MOST_RUNS:,}"
        raise BadInput(problem, file=str(path), remedy=remedy)
    return ExternalBaseline(
        execution="external",
        engine=kind.engine,
        format=kind.name,
        file=printable(path.name),
        sha256=sha256_of(path),
        runs=[_run(kind, run, number) for number, run in enumerate(runs, start=1)],
        notes=list(document.notes),
    )


def _run(kind: BenchmarkFormat, run: Record, number: int) -> ExternalRun:
    value, stated = run.value, kind.figures_in(run.value)
    figures = {name: _figure(stated[name], run.where, name) for name in kind.figures if stated.get(name) is not None}
    if not figures:
        raise BadInput("states no figure", file=run.where, remedy=_EXPORT_AGAIN)
    _check_possible(figures, run.where)
    models = (label(value.get(name), run.where, name) for name in kind.models)
    told = [f"{name} {text}" for name in kind.told_by if (text := _told(value.get(name), run.where, name))]
    return ExternalRun(
        name=f"{number}: {', '.join(told)}" if told else str(number),
        model=next((_without_folder(model) for model in models if model), None),
        figures=figures,
    )


def _figure(value: Any, where: str, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.0 <= value <= _LARGEST:
        raise BadInput("is no figure of a benchmark", file=where, field=name, value=value, remedy=_EXPORT_AGAIN)
    return float(value)


def _told(value: Any, where: str, name: str) -> str | None:
    """What a run is known by, short enough to stand in its name; None if there is no such thing."""
    if isinstance(value, str):
        text = label(value, where, name)
        return text if text and len(text) <= _LONGEST_TOLD else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value == math.inf or abs(value) <= _LARGEST):
        return None
    return f"{value:g}" if isinstance(value, float) else str(value)


def _without_folder(model: str) -> str:
    """The name of a model, which may be an identifier with a slash in it; of a path, its last part.

    Examples
    --------
    >>> _without_folder("Qwen/Qwen3-8B"), _without_folder("/models/qwen3-8b.gguf")
    ('Qwen/Qwen3-8B', 'qwen3-8b.gguf')
    """
    if model.startswith(("/", "~", ".")):
        return PurePosixPath(model).name or model
    windows = PureWindowsPath(model)
    return windows.name if windows.drive and windows.name else model


def _check_possible(figures: Mapping[str, float], where: str) -> None:
    """Raise if a part is more than the whole, or a percentile above a later one."""
    pairs = list(_AT_MOST)
    for quantity in QUANTITIES:
        pairs += pairwise(name for name in (f"{point}_{quantity}_ms" for point in PERCENTILES) if name in figures)
    for less, more in pairs:
        if less in figures and more in figures and figures[less] > figures[more]:
            problem = f"is above {more}, {figures[more]:g}"
            raise BadInput(problem, file=where, field=less, value=figures[less], remedy=_EXPORT_AGAIN)
