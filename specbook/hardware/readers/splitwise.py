"""Splitwise's table of measured times: many repetitions over prompt sizes, batches and devices.

``token_time`` is the time of a decode pass in milliseconds; a run decodes ``token_size`` tokens behind prompts of
``prompt_size``, so that its mean context is the prompt and half of them. That holds where ``e2e_time`` is what prompt
and tokens add up to: a shorter run stopped before its last token, and a longer one made sequences wait.
"""

from __future__ import annotations

from typing import Literal

from specbook.hardware.readers.rows import Document, Readout, StepTimeRow, counted
from specbook.hardware.readers.tables import csv_records, header_cells
from specbook.hardware.readers.values import label, numeral, pass_seconds, positive, whole
from specbook.hardware.step_times import Cell

NAME = "splitwise"
ENGINE: str | None = None
MEASURES: Literal["pass", "round"] = "pass"

_MARKS = {"prompt_size", "batch_size", "token_size", "token_time"}
_LABELS = ("model", "hardware", "tensor_parallel")
_MS = 1e-3
_TOLERANCE = 0.1
_CONTEXT = "a pass stands at prompt_size + token_size ÷ 2, the mean context over its tokens; times are in milliseconds"
_CUT = "runs whose e2e_time is not prompt_time + (token_size − 1) × token_time stopped early or waited"


def recognises(document: Document) -> bool:
    """Whether the document is a CSV with these columns."""
    return set(header_cells(document)) >= _MARKS


def read(document: Document) -> Readout:
    """One decode pass for each row whose run was what it says."""
    rows = [_row(cells, where) for where, cells in csv_records(document)]
    kept = [row for row in rows if row is not None]
    cut = (
        [f"left out {len(rows) - len(kept):,} of {counted(len(rows), 'row')}: {_CUT}"] if len(kept) < len(rows) else []
    )
    return Readout(rows=kept, notes=[_CONTEXT, *cut])


def _row(cells: dict[str, str], where: str) -> StepTimeRow | None:
    prompt, generated, batch = (
        whole(numeral(cells[name], where, name), where, name) for name in ("prompt_size", "token_size", "batch_size")
    )
    time_ms = numeral(cells["token_time"], where, "token_time")
    seconds = pass_seconds(time_ms, where, "token_time", unit_s=_MS)
    if not _is_whole_run(cells, (generated - 1) * float(time_ms), where):
        return None
    named = {name: label(cells.get(name, ""), where, name) for name in _LABELS}
    return StepTimeRow(
        where=where,
        cell=Cell(prompt + generated // 2, batch, 1),
        seconds=seconds,
        labels={name: text for name, text in named.items() if text is not None},
        variant=where,
    )


def _is_whole_run(cells: dict[str, str], tokens_ms: float, where: str) -> bool:
    """Whether prompt and tokens make up the whole run; a table without these columns does not say."""
    if not cells.get("e2e_time") or not cells.get("prompt_time"):
        return True
    total_ms, prompt_ms = (
        positive(numeral(cells[name], where, name), where, name) for name in ("e2e_time", "prompt_time")
    )
    return abs(prompt_ms + tokens_ms - total_ms) <= _TOLERANCE * total_ms
