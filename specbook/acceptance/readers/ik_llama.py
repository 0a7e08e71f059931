"""ik_llama.cpp's ``llama-spec-bench --output-format jsonl``: one row an attempt, with counts by draft position.

A stage is one drafter of a chain; each has its own counts of rounds that drafted and that accepted position i, so that
short drafts do not count as rejections (ikllama2156). Summary rows repeat the attempts and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from specbook.acceptance.readers.observation import Observation, Table
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    a_list,
    an_object,
    expect,
    expect_close,
    number,
    text,
    whole,
    whole_list,
)
from specbook.checks import BadInput
from specbook.files import parse_json

NAME = "ik-llama"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_COUNTS = "the counts by position"
_METHODS = {"draft": "draft_model"}


def recognises(record: Any) -> bool:
    """Whether the record is a row of ``llama-spec-bench``, of whatever type."""
    return isinstance(record, dict) and isinstance(record.get("row_type"), str)


def recognises_line(line: str) -> bool:
    """Whether the line is such a row among the messages that backends print while they start."""
    return '"row_type"' in line and line.lstrip().startswith("{") and '"attempt"' in line


def read_lines(lines: Iterable[str], where: str) -> Iterator[Observation]:
    """Yield the rows among other lines."""
    for count, line in enumerate(lines, start=1):
        if recognises_line(line):
            place = f"{where} line {count}"
            record = parse_json(line.encode("utf-8", errors="replace"), place)
            yield from read(record, place) if recognises(record) else ()


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one request for each stage of an attempt; one that failed, or ran without speculation, has no rounds."""
    if record["row_type"] != "attempt":
        return
    labels = _labels(record, where)
    prompt = (text(record.get("task_id", record.get("task")), where, "task") or "")[:64] or None
    place, stages = _stages(record, where)
    quality = record.get("quality")
    ok = record.get("ok", quality.get("ok") if isinstance(quality, dict) else None)
    if ok is False or not stages:
        yield Observation(by_accepted=[], labels=labels)
        return
    chain = "+".join(str(stage.get("type")) for stage in stages) if len(stages) > 1 else None
    for index, stage in enumerate(stages):
        own = labels | _stage_labels(stage, chain, where, f"{place}[{index}]")
        yield _stage(stage, where, f"{place}[{index}].", own, prompt)


def _labels(record: dict[str, Any], where: str) -> dict[str, Any]:
    """Target and temperature stand only in rows written with ``--output-details``."""
    runtime, sampler = record.get("runtime"), record.get("sampler")
    stated = {
        "target": runtime.get("model") if isinstance(runtime, dict) else None,
        "domain": record.get("task_category", record.get("task")),
    }
    labels = {name: value for name, value in stated.items() if text(value, where, name) is not None}
    if isinstance(sampler, dict) and sampler.get("temp") is not None:
        labels["temperature"] = max(0.0, number(sampler["temp"], where, "sampler.temp", minimum=-1e6))
    return labels


def _stages(record: dict[str, Any], where: str) -> tuple[str, list[dict[str, Any]]]:
    """Stages of a compact or a detailed row, and where they stand; the totals of a detailed row are their sums."""
    speculative = record.get("speculative")
    place = "stages" if speculative is None else "speculative.stages"
    holder = record if speculative is None else an_object(speculative, where, "speculative")
    items = a_list(holder.get("stages") or [], where, place)
    stages = [an_object(item, where, f"{place}[{index}]") for index, item in enumerate(items)]
    if speculative is not None:
        for name in ("num_drafts", "draft_tokens", "accepted_tokens"):
            summed = sum(whole(stage.get(name), where, f"{place}[{i}].{name}") for i, stage in enumerate(stages))
            expect(holder.get(name), summed, where, f"speculative.{name}", "the sum of the stages")
    return place, stages


def _stage_labels(stage: dict[str, Any], chain: str | None, where: str, place: str) -> dict[str, Any]:
    kind = text(stage.get("type"), where, f"{place}.type")
    labels = {"method": None if kind is None else _METHODS.get(kind, kind), "run": chain}
    return {name: value for name, value in labels.items() if value is not None}


def _stage(stage: dict[str, Any], where: str, prefix: str, labels: dict[str, Any], prompt: str | None) -> Observation:
    def total(*names: str) -> int:
        """A total under the name that compact or detailed rows give it."""
        name = next((name for name in names if name in stage), names[0])
        return whole(stage.get(name), where, f"{prefix}{name}")

    drafts, tokens = total("drafts", "num_drafts"), total("draft_tokens")
    kept = total("accepted", "accepted_tokens")
    drafted, accepted = _positions(stage, where, prefix)
    if drafted is not None and accepted is not None:
        _check_positions(stage, drafts, drafted, accepted, where, prefix)
        expect(tokens, sum(drafted), where, f"{prefix}draft_tokens", _COUNTS)
        expect(kept, sum(accepted), where, f"{prefix}accepted", _COUNTS)
    _check_ratios(stage, drafts, tokens, kept, where, prefix)
    return Observation(
        labels=labels,
        prompt=prompt,
        by_drafted=_table(drafts, drafted, accepted),
        accepted_by_position=None if accepted is None else [float(count) for count in accepted],
        drafted_by_position=drafted,
        n_rounds=drafts,
        n_drafted_tokens=tokens,
        n_accepted_tokens=kept,
    )


def _positions(stage: dict[str, Any], where: str, prefix: str) -> tuple[list[int] | None, list[int] | None]:
    """Rounds that drafted and accepted each position, as far as any round drafted."""
    if stage.get("drafted_by_position") is None:
        return None, None
    drafted = whole_list(stage["drafted_by_position"], where, f"{prefix}drafted_by_position")
    accepted = whole_list(stage.get("accepted_by_position"), where, f"{prefix}accepted_by_position")
    if max(len(drafted), len(accepted)) > LONGEST_DRAFT:
        raise _contradiction("more positions than any drafter drafts", where, f"{prefix}drafted_by_position", ...)
    width = max((i for i, count in enumerate(drafted, start=1) if count), default=0)
    if any(accepted[width:]):
        raise _contradiction(
            "accepts positions that were not drafted", where, f"{prefix}accepted_by_position", accepted
        )
    return drafted[:width], (accepted + [0] * width)[:width]


def _check_positions(
    stage: dict[str, Any], drafts: int, drafted: list[int], accepted: list[int], where: str, prefix: str
) -> None:
    for name, counts in (("drafted_by_position", drafted), ("accepted_by_position", accepted)):
        if any(after > before for before, after in pairwise([drafts, *counts])):
            problem = f"rises, or begins above the {drafts} drafts: position i + 1 needs position i"
            raise _contradiction(problem, where, f"{prefix}{name}", counts)
    if any(kept > made for made, kept in zip(drafted, accepted, strict=True)):
        raise _contradiction(f"more accepted than drafted {drafted}", where, f"{prefix}accepted_by_position", accepted)
    expect(stage.get("accepted_drafts"), accepted[0] if accepted else 0, where, f"{prefix}accepted_drafts", _COUNTS)
    conditional = [None, *(b / a if a else None for a, b in pairwise(accepted))]
    rates = [kept / made for made, kept in zip(drafted, accepted, strict=True)]
    for name, derived in (("acceptance_rate_by_position", rates), ("conditional_acceptance_rate", conditional)):
        stated = a_list(stage.get(name) or [], where, f"{prefix}{name}")
        for index, (value, rate) in enumerate(zip(stated, derived, strict=False)):
            if rate is not None:
                expect_close(value, rate, where, f"{prefix}{name}[{index}]", _COUNTS)


def _check_ratios(stage: dict[str, Any], drafts: int, tokens: int, kept: int, where: str, prefix: str) -> None:
    """Lengths count the bonus token; compact rows give a percentage, detailed ones a fraction."""
    if drafts:
        for name in ("accept_length", "acceptance_length"):
            expect_close(stage.get(name), 1.0 + kept / drafts, where, f"{prefix}{name}", "drafts and accepted")
    if tokens:
        for name, scale in (("accept_percent", 100.0), ("acceptance_rate", 1.0)):
            expect_close(
                stage.get(name), scale * kept / tokens, where, f"{prefix}{name}", "accepted and drafted tokens"
            )


def _table(drafts: int, drafted: list[int] | None, accepted: list[int] | None) -> Table | None:
    """Rounds by drafted and accepted tokens, which counts by position fix only where every draft was as long."""
    if not drafts or not drafted or accepted is None or drafted[-1] != drafts:
        return None
    at_least = [drafts, *accepted, 0]
    return {len(drafted): [at_least[j] - at_least[j + 1] for j in range(len(drafted) + 1)]}


def _contradiction(problem: str, where: str, field: str, value: Any) -> BadInput:
    return BadInput(problem, file=where, field=field, value=value, remedy="run the benchmark again; the row was edited")
