"""AIPerf's record of acceptance, the same for every engine (aiperf1167, aiperf1191).

It stands by itself, or as ``spec_decode_acceptance`` in the lines of ``profile_export.jsonl``. The histogram is
sparse and keyed by accepted draft tokens as strings; the counts are those of vLLM's statistics under the same names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from specbook.acceptance.readers import vllm_per_request
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT, an_object, dense, expect_close, text, whole, whole_list
from specbook.acceptance.readers.vllm_per_request import draft_length
from specbook.checks import BadInput

NAME = "aiperf"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_RECORD = "spec_decode_acceptance"
_IDENTIFIES = frozenset({"x_request_id", "record_processor_id", "benchmark_phase", "credit_phase"})


def recognises(record: Any) -> bool:
    """Whether it is a record of acceptance, or a line of AIPerf's records that may hold one."""
    if not isinstance(record, dict):
        return False
    if _RECORD in record or ("engine" in record and ("acceptance_histogram" in record or "num_spec_steps" in record)):
        return True
    metadata = record.get("metadata")
    return (
        isinstance(metadata, dict)
        and ("metrics" in record or "error" in record)
        and not _IDENTIFIES.isdisjoint(metadata)
    )


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the request; one without acceptance is empty."""
    statistics, prefix = record, ""
    if _RECORD in record or "engine" not in record:
        statistics, prefix = record.get(_RECORD), f"{_RECORD}."
    if statistics is None:  # failed, or ran without speculation
        yield Observation(by_accepted=[])
        return
    statistics = an_object(statistics, where, _RECORD)
    target = text(record.get("model"), where, "model")
    labels = {} if target is None else {"target": target}
    if statistics.get("acceptance_histogram") is None:
        seen = _without_histogram(statistics, where, prefix, labels)
    else:
        _check_steps(statistics, where, prefix)
        seen = vllm_per_request.request(statistics, where, prefix, labels)
    engine = text(statistics.get("engine"), where, f"{prefix}engine")
    notes = () if engine is None else (f"the engine was {engine[:64]}",)
    faults = vllm_per_request.WARNINGS if engine == "vllm" else ()
    yield replace(seen, prompt=_prompt(record, where), notes=(*seen.notes, *notes, *faults))


def _prompt(record: dict[str, Any], where: str) -> str:
    """Turns of a conversation are one cluster."""
    metadata = record.get("metadata")
    name = "conversation_id"
    conversation = text(metadata.get(name), where, f"metadata.{name}") if isinstance(metadata, dict) else None
    return conversation[:64] if conversation else where


def _check_steps(statistics: dict[str, Any], where: str, prefix: str) -> None:
    """Steps without drafted tokens must still be the histogram; with them, the table is checked against it."""
    if statistics.get("per_step_accepted") is None:
        return
    steps = Counter(whole_list(statistics["per_step_accepted"], where, f"{prefix}per_step_accepted"))
    histogram = dense(statistics["acceptance_histogram"], where, f"{prefix}acceptance_histogram")
    if steps != Counter({accepted: count for accepted, count in enumerate(histogram) if count}):
        raise BadInput(
            f"does not sum to acceptance_histogram {histogram}",
            file=where,
            field=f"{prefix}per_step_accepted",
            remedy="export the file again; one of the two was cut or edited",
        )


def _without_histogram(statistics: dict[str, Any], where: str, prefix: str, labels: dict[str, Any]) -> Observation:
    """Totals of engines that count no steps by accepted tokens."""
    names = ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
    steps, accepted, drafted = (
        None if statistics.get(name) is None else whole(statistics[name], where, f"{prefix}{name}") for name in names
    )
    length = statistics.get("num_spec_tokens")
    if length is not None:
        labels = labels | {"draft_length": draft_length(length, where, f"{prefix}num_spec_tokens")}
    longest = LONGEST_DRAFT if length is None else length
    for most, name in ((drafted, names[2]), (None if steps is None else steps * longest, names[0])):
        if accepted is not None and most is not None and accepted > most:
            problem = f"more tokens accepted ({accepted}) than {most}"
            remedy = "export the file again"
            raise BadInput(problem, file=where, field=f"{prefix}{name}", value=statistics[name], remedy=remedy)
    source = "the counts"
    if steps and accepted is not None:
        name = "mean_acceptance_length"
        expect_close(statistics.get(name), 1.0 + accepted / steps, where, f"{prefix}{name}", source)
    if drafted and accepted is not None:
        name = "draft_acceptance_rate"
        expect_close(statistics.get(name), accepted / drafted, where, f"{prefix}{name}", source)
    return Observation(labels=labels, n_rounds=steps, n_accepted_tokens=accepted, n_drafted_tokens=drafted)
