"""llama.cpp ``llama-bench``: its Markdown table, ``-o json``, ``-o jsonl`` or ``-o csv``.

``tg`` generates tokens one by one: the pass over one position takes 1 ÷ (t/s), at the depth plus half of what was
generated. ``pp`` of N tokens is one pass over N positions if N fits into a micro-batch; longer prompts are many passes,
and say nothing about one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Readout, StepTimeRow, in_a_few
from specbook.hardware.readers.tables import MarkdownTable, csv_records, header_cells, markdown_tables
from specbook.hardware.readers.values import expect_close, label, numeral, pass_seconds, positive, whole
from specbook.hardware.step_times import Cell

NAME = "llama-bench"
ENGINE: str | None = "llama.cpp"
MEASURES: Literal["pass", "round"] = "pass"

# Wider prompt passes are prefill, which nobody verifies drafts with.
WIDEST = 64
# Half of such a generation is too little context to change a pass: it may stand beside prompt passes of its depth.
_SHORT = 256
_NUMBERS = ("n_prompt", "n_gen", "n_depth", "n_batch", "n_ubatch", "avg_ts", "avg_ns")
_DEFAULTS = {"n_depth": 0, "n_batch": 2048, "n_ubatch": 512}
# Neither what was measured, nor what it was measured on.
_NO_LABELS = {
    *_NUMBERS, "stddev_ns", "stddev_ts", "samples_ns", "samples_ts", "test_time", "test", "t/s", "size", "params",
    "build_commit", "build_number", "model_size", "model_n_params",
}  # fmt: skip
_NAMES = {"model": "model", "model_type": "model", "backend": "engine", "backends": "engine"}
_TEST = re.compile(
    r"(?:pp *(?P<pp>\d{1,8}))?(?: *\+ *)?(?:tg *(?P<tg>\d{1,8}))?(?: *@ *d *(?P<depth>\d{1,8}))?", re.ASCII
)
_HEAD = "prompt passes compute the output head for their last position alone, and a verify pass for every position"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Test:
    """One row: what was run, how fast, and on what."""

    where: str
    figure: str
    n_prompt: int
    n_gen: int
    n_depth: int
    batches: tuple[int, int]
    tokens_per_s: float
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        parts = [f"{kind}{n}" for kind, n in (("pp", self.n_prompt), ("tg", self.n_gen)) if n]
        return "+".join(parts) + (f" @ d{self.n_depth}" if self.n_depth else "")

    @property
    def is_decode(self) -> bool:
        return not self.n_prompt

    @property
    def is_pass(self) -> bool:
        """Whether it is one pass over the few positions of a prompt."""
        return not self.n_gen and self.n_prompt <= min(WIDEST, *self.batches)

    def row(self, context: int) -> StepTimeRow:
        width = self.n_prompt or 1
        return StepTimeRow(
            where=self.where,
            cell=Cell(context, 1, width),
            seconds=pass_seconds(width / self.tokens_per_s, self.where, f"{width} ÷ ({self.figure})"),
            labels=self.labels,
            variant="n_batch {}, n_ubatch {}".format(*self.batches),
        )


def recognises(document: Document) -> bool:
    """Whether the document holds such a table, or such records."""
    if document.records:
        return any(_is_record(record.value) for record in document.records)
    if {"n_prompt", "n_gen", "avg_ts"} <= set(header_cells(document)):
        return True
    return any(_is_table(table) for table in markdown_tables(document))


def read(document: Document) -> Readout:
    """Passes over one position from what was generated, and over several from short prompts."""
    tests = list(_tests(document))
    used = [test for test in tests if test.is_decode or test.is_pass]
    if tests and not used:
        problem = f"holds neither tg nor pp of at most {WIDEST} tokens"
        remedy = "measure passes with llama-bench -p 1,2,3,4,6,8 -n 128"
        raise BadInput(problem, file=document.name, value=in_a_few(test.name for test in tests), remedy=remedy)
    notes = [_HEAD] if any(test.is_pass for test in used) else []
    if len(used) < len(tests):
        left_out = in_a_few(test.name for test in tests if test not in used)
        notes.append(f"left out, since it is not one pass of a few positions: {left_out}")
    by_depth: defaultdict[tuple[Any, ...], list[_Test]] = defaultdict(list)
    for test in used:
        by_depth[(*test.labels.items(), test.n_depth)].append(test)
    rows: list[StepTimeRow] = []
    for group in by_depth.values():
        placed, said = _placed(group)
        rows += placed
        notes += [note for note in said if note not in notes]
    return Readout(rows=rows, notes=notes)


def _placed(group: list[_Test]) -> tuple[list[StepTimeRow], list[str]]:
    """Rows of one depth, where prompt passes and generated tokens have to share a context."""
    passes = [test for test in group if test.is_pass]
    decodes = [test for test in group if test.is_decode]
    rows = [test.row(test.n_depth) for test in passes]
    if any(test.n_prompt == 1 for test in passes):
        names = in_a_few(test.name for test in decodes)
        return rows, [f"left out, since pp1 of the same depth stands for it: {names}"] if decodes else []
    shortest = min((test.n_gen for test in decodes), default=0)
    if passes and 0 < shortest <= _SHORT:
        near = [test for test in decodes if test.n_gen == shortest]
        note = f"{near[0].name} stands at context {near[0].n_depth:,}, as the prompt passes beside it; its mean is "
        note += f"{shortest // 2} tokens further"
        return rows + [test.row(test.n_depth) for test in near], [note]
    means = [test.row(test.n_depth + test.n_gen // 2) for test in decodes]
    return rows + means, ["tg stands at its depth + half of its tokens, its mean context"] if means else []


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() >= {"n_prompt", "n_gen", "avg_ts"}


def _is_table(table: MarkdownTable) -> bool:
    return {"test", "t/s"} <= set(table.header)


def _tests(document: Document) -> Iterator[_Test]:
    if document.records:
        for record in document.records:
            if not _is_record(record.value):
                problem, remedy = "is no record of llama-bench", "take it out, or export the file again"
                raise BadInput(problem, file=record.where, value=record.value, remedy=remedy)
            yield _of_values(record.value, record.where)
    elif {"n_prompt", "n_gen", "avg_ts"} <= set(header_cells(document)):
        for where, cells in csv_records(document):
            spelled = {name: numeral(cells[name], where, name) for name in _NUMBERS if cells.get(name)}
            yield _of_values({**cells, **spelled}, where)
    else:
        for table in filter(_is_table, markdown_tables(document)):
            yield from (_of_cells(cells, where) for where, cells in table.records(document))


def _of_values(values: dict[str, Any], where: str) -> _Test:
    sizes = {name: whole(values.get(name, 0), where, name, minimum=0) for name in ("n_prompt", "n_gen", "n_depth")}
    tokens_per_s = positive(values["avg_ts"], where, "avg_ts")
    n_tokens = sizes["n_prompt"] + sizes["n_gen"]
    if not n_tokens:
        problem, remedy = "neither reads nor generates a token", "correct n_prompt or n_gen"
        raise BadInput(problem, file=where, field="n_prompt", value=0, remedy=remedy)
    if values.get("avg_ns") is not None:  # two means of the same repetitions
        expected = n_tokens * 1e9 / positive(values["avg_ns"], where, "avg_ns")
        expect_close(values["avg_ts"], expected, where, "avg_ts", "tokens ÷ avg_ns", tolerance=0.1)
    labels = _labels(values.items(), where)
    return _Test(
        where=where,
        figure="avg_ts",
        **sizes,
        batches=_batches(values, where),
        tokens_per_s=tokens_per_s,
        labels=labels | _hardware(values, where),
    )


def _hardware(values: dict[str, Any], where: str) -> dict[str, str]:
    """The device: the GPU, or the processor where there is none."""
    names = [label(values.get(name), where, name) for name in ("gpu_info", "cpu_info")]
    return next(({"hardware": name} for name in names if name), {})


def _of_cells(cells: dict[str, str], where: str) -> _Test:
    match = _TEST.fullmatch(cells["test"])
    if match is None or not (match["pp"] or match["tg"]):
        problem, remedy = "is no test of llama-bench", "such as tg128, pp4 or pp4 @ d512"
        raise BadInput(problem, file=where, field="test", value=cells["test"], remedy=remedy)
    speed, *_ = cells["t/s"].split() or [""]
    sizes: dict[str, Any] = {n: numeral(cells[n], where, n) for n in ("n_batch", "n_ubatch") if n in cells}
    test = _Test(
        where=where,
        figure="t/s",
        n_prompt=int(match["pp"] or 0),
        n_gen=int(match["tg"] or 0),
        n_depth=int(match["depth"] or 0),
        batches=_batches(sizes, where),
        tokens_per_s=positive(numeral(speed, where, "t/s"), where, "t/s"),
        labels=_labels(cells.items(), where),
    )
    if not test.n_prompt and not test.n_gen:
        problem, remedy = "neither reads nor generates a token", "correct it, or take the row out"
        raise BadInput(problem, file=where, field="test", value=cells["test"], remedy=remedy)
    return test


def _batches(values: dict[str, Any], where: str) -> tuple[int, int]:
    n_batch, n_ubatch = (whole(values.get(name, _DEFAULTS[name]), where, name) for name in ("n_batch", "n_ubatch"))
    return n_batch, n_ubatch


def _labels(items: Iterable[tuple[str, Any]], where: str) -> dict[str, str]:
    """Everything that the row was measured on, the model first; cells that hold no name are left out."""
    named: dict[str, str] = {}
    for name, value in items:
        if name in _NO_LABELS or name in ("gpu_info", "cpu_info"):
            continue
        text = label(str(value), where, name)
        if text is not None:
            key = _NAMES.get(name, name)
            named[key] = f"llama.cpp ({text})" if key == "engine" else text
    return {key: named[key] for key in sorted(named, key=lambda key: key != "model")}
