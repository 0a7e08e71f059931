"""SGLang ``scripts/playground/bench_speculative.py``: one line for each batch size and draft setting.

``step_time`` is the 20th percentile, in seconds, of what the server recorded between two verifications: drafting and
verifying together. ``num_draft_tokens`` counts the last kept token, so that it is the width of the verify pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Readout, Record, StepTimeRow
from specbook.hardware.readers.values import expect_close, pass_seconds, whole
from specbook.hardware.step_times import Cell

NAME = "sglang-bench-speculative"
ENGINE: str | None = "SGLang"
MEASURES: Literal["pass", "round"] = "round"

_SETTING = ("steps", "topk", "num_draft_tokens")
_NOTES = ["step_time is the 20th percentile of the rounds, which is below their mean; the context is not in the file"]


def recognises(document: Document) -> bool:
    """Whether the document holds lines of bench_speculative.py, or the nested form that SpecForge writes."""
    return any(_is_line(record.value) for record in _records(document))


def read(document: Document) -> Readout:
    """One round for each batch size and draft setting; without speculation it is a pass of width 1."""
    return Readout(rows=[_row(record) for record in _records(document)], notes=list(_NOTES))


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= {"batch_size", "steps", "num_draft_tokens"}


def _records(document: Document) -> Iterator[Record]:
    """Lines, or the settings under each data set of a nested file."""
    for record in document.records:
        value = record.value
        nested = isinstance(value, dict) and bool(value) and all(isinstance(inner, list) for inner in value.values())
        if not nested:
            yield record
            continue
        for name, settings in value.items():
            yield from (Record(inner, f"{record.where}: {name}[{place}]") for place, inner in enumerate(settings))


def _row(record: Record) -> StepTimeRow:
    value, where = record.value, record.where
    if not _is_line(value):
        problem = "is no line of bench_speculative.py"
        raise BadInput(problem, file=where, value=value, remedy="take it out, or export the file again")
    batch = whole(value["batch_size"], where, "batch_size")
    width, steps, top_k = _setting(value, where)
    if value.get("step_time") is None:
        problem, remedy = "how long a round took is not in the file", "run bench_speculative.py, which records it"
        raise BadInput(problem, file=where, field="step_time", value=None, remedy=remedy)
    seconds = pass_seconds(value["step_time"], where, "step_time")
    _check_speed(value, seconds, where)
    return StepTimeRow(where=where, cell=Cell(None, batch, width, steps, top_k), seconds=seconds)


def _setting(value: dict[str, Any], where: str) -> tuple[int, int, int | None]:
    """Width, steps and top-k; 1, 0 and None without speculation."""
    if all(value.get(name) is None for name in _SETTING):
        raise BadInput(
            "the draft setting is not in the file, so the time cannot be placed",
            file=where,
            field="steps",
            value=None,
            remedy="the server was started apart from the script: write its steps, topk and num_draft_tokens here",
        )
    if not value.get("num_draft_tokens") and not value.get("steps"):
        return 1, 0, None
    steps, top_k = (whole(value.get(name), where, name) for name in _SETTING[:2])
    return whole(value.get("num_draft_tokens"), where, "num_draft_tokens", minimum=2), steps, top_k


def _check_speed(value: dict[str, Any], seconds: float, where: str) -> None:
    """Raise if tokens per second are not the mean length ÷ the time, which is rounded to 10 µs."""
    length, speed = value.get("acc_length"), value.get("speed")
    if length is None or speed is None or seconds < 1e-4:
        return
    expected = _length(length, where) / seconds
    expect_close(speed, expected, where, "speed", "acc_length ÷ step_time", tolerance=0.01 + 1e-5 / seconds)


def _length(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 <= value <= 1e6:
        problem, remedy = "must be a number of at least 1", "it counts the bonus token"
        raise BadInput(problem, file=where, field="acc_length", value=value, remedy=remedy)
    return float(value)
