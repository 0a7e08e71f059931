"""llama.cpp ``llama-batched-bench``: its Markdown table, or ``--output-format jsonl``.

Each row decodes TG tokens in each of B sequences that hold PP tokens, one pass a token: the pass over one position of B
sequences takes T_TG ÷ TG, at PP + TG ÷ 2 tokens of context on average.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Readout, StepTimeRow, counted
from specbook.hardware.readers.tables import MarkdownTable, markdown_tables
from specbook.hardware.readers.values import expect_close, numeral, pass_seconds, positive, whole
from specbook.hardware.step_times import Cell

NAME = "llama-batched-bench"
ENGINE: str | None = "llama.cpp"
MEASURES: Literal["pass", "round"] = "pass"

_COLUMNS = {"PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_TG s": "t_tg", "S_TG t/s": "speed_tg"}
_NEEDED = ("pp", "tg", "pl", "n_kv", "t_tg")
_SETTINGS = ("n_batch", "n_ubatch", "flash_attn", "is_pp_shared", "n_gpu_layers", "n_threads", "n_threads_batch")
_BANNER = re.compile(r"\b(\w+) = (-?\w+)", re.ASCII)
# Digits of T_TG in the table; more stand in JSON Lines.
_DIGIT_S = 1e-3
_COARSE = 0.01
_MEAN_CONTEXT = "a pass stands at PP + TG ÷ 2, the mean context over its tokens"


def recognises(document: Document) -> bool:
    """Whether the document holds such a table, or such records."""
    if document.records:
        return any(_is_record(record.value) for record in document.records)
    return any(_is_table(table) for table in markdown_tables(document))


def read(document: Document) -> Readout:
    """The pass over one position for each prompt, generation and batch."""
    stated = list(_of_records(document) if document.records else _of_tables(document))
    rows = [_row(values, settings, where) for where, values, settings in stated if values["tg"] != 0]
    notes = [_MEAN_CONTEXT]
    if len(rows) < len(stated):
        notes.append(f"left out {len(stated) - len(rows)} of {counted(len(stated), 'row')}, which generate nothing")
    if not document.records and any(_COARSE * values["t_tg"] < _DIGIT_S / 2 for _, values, _ in stated):
        notes.append("T_TG has three digits, too few for the shortest runs: --output-format jsonl has six")
    return Readout(rows=rows, notes=notes)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= {"pp", "tg", "pl", "t_tg"}


def _is_table(table: MarkdownTable) -> bool:
    return {"PP", "TG", "T_TG s"} <= set(table.header)


_Stated = tuple[str, dict[str, Any], dict[str, Any]]


def _of_records(document: Document) -> Iterator[_Stated]:
    for record in document.records:
        if not _is_record(record.value):
            problem, remedy = "is no record of llama-batched-bench", "take it out, or export the file again"
            raise BadInput(problem, file=record.where, value=record.value, remedy=remedy)
        yield record.where, record.value, record.value


def _of_tables(document: Document) -> Iterator[_Stated]:
    for table in filter(_is_table, markdown_tables(document)):
        missing = [name for name, key in _COLUMNS.items() if key in _NEEDED and name not in table.header]
        if missing:
            where = document.line(table.number)
            problem, remedy = f"has no column {missing[0]}", "llama-batched-bench writes PP, TG, B, N_KV, T_TG s"
            raise BadInput(problem, file=where, field="header", value=list(table.header), remedy=remedy)
        settings = _settings_before(document, table.number)
        for where, cells in table.records(document):
            values = {key: numeral(cells[name], where, name) for name, key in _COLUMNS.items() if name in cells}
            yield where, values, settings


def _settings_before(document: Document, number: int) -> dict[str, str]:
    """What the program printed about itself before the table that begins in this line."""
    banner = next((line for line in reversed(document.lines[:number]) if "n_kv_max = " in line), "")
    return dict(_BANNER.findall(banner))


def _row(values: dict[str, Any], settings: dict[str, Any], where: str) -> StepTimeRow:
    prompt = whole(values["pp"], where, "PP", minimum=0)
    generated, batch = whole(values["tg"], where, "TG"), whole(values["pl"], where, "B")
    if str(settings.get("is_tg_separate", 0)) not in ("0", "False") and batch > 1:
        problem, remedy = "sequences are generated one after the other", "run it without -tgs"
        raise BadInput(problem, file=where, field="is_tg_separate", value=settings["is_tg_separate"], remedy=remedy)
    total_s = positive(values["t_tg"], where, "T_TG s")
    seconds = pass_seconds(total_s / generated, where, "T_TG ÷ TG")
    _check_cache(values.get("n_kv"), (prompt, generated, batch), where)
    if values.get("speed_tg") is not None:
        expected, tolerance = batch * generated / total_s, 0.01 + _DIGIT_S / total_s
        expect_close(values["speed_tg"], expected, where, "S_TG t/s", "B × TG ÷ T_TG", tolerance=tolerance)
    return StepTimeRow(
        where=where,
        cell=Cell(prompt + generated // 2, batch, 1),
        seconds=seconds,
        labels={name: str(settings[name]) for name in _SETTINGS if name in settings},
        variant=f"PP {prompt}, TG {generated}",
    )


def _check_cache(stated: Any, sizes: tuple[int, int, int], where: str) -> None:
    """Raise unless the cache holds the tokens of the row, with a prompt of each or one for all."""
    prompt, generated, batch = sizes
    apart, shared = batch * (prompt + generated), prompt + batch * generated
    if whole(stated, where, "N_KV", minimum=0) not in (apart, shared):
        problem = f"PP {prompt}, TG {generated}, B {batch} need {apart}, or {shared} if they share the prompt"
        raise BadInput(problem, file=where, field="N_KV", value=stated, remedy="the row was edited; export it again")
