"""NeMo Automodel drafter benchmarks, ``--output-json``: one workload, or ``{"results": […]}`` of a sweep over datasets.

Against vLLM it holds totals of the run; against SGLang only the server's average length (automodel2912).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import an_object, expect_close, number, text, whole
from specbook.checks import BadInput

NAME = "automodel"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_MARKS = {"accept_length", "acceptance_rate", "output_throughput_tok_s"}
_SERVER_AVERAGE = (
    "the length is SGLang's average since the server started, other datasets and warm-up included; its acceptance_rate "
    "is derived from it and left out"
)
_STEPS = "speculative_num_steps is the depth of a draft; the source does not say whether it was a chain"


def recognises(record: Any) -> bool:
    """Whether the record is a summary or a sweep."""
    return isinstance(record, dict) and (record.keys() >= _MARKS or _is_sweep(record))


def _is_sweep(record: dict[str, Any]) -> bool:
    results = record.get("results")
    if "aggregate" not in record or not isinstance(results, list):
        return False
    return any(
        isinstance(row, dict) and "dataset" in row and (row.keys() >= _MARKS or "error" in row) for row in results
    )


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the workload, or that of each dataset; one that failed yields nothing."""
    if not _is_sweep(record):
        yield _workload(record, where, "")
        return
    for index, row in enumerate(record["results"]):
        yield _workload(an_object(row, where, f"results[{index}]"), where, f"results[{index}].")


def _workload(row: dict[str, Any], where: str, prefix: str) -> Observation:
    if "error" in row:
        return Observation(by_accepted=[])
    names = {"target": "model", "domain": "dataset"}
    found = {label: text(row.get(name), where, prefix + name) for label, name in names.items()}
    labels = {label: value for label, value in found.items() if value is not None}
    if row.get("num_drafts") is not None:
        return _counted(row, labels, where, prefix)
    return _average(row, labels, where, prefix)


def _counted(row: dict[str, Any], labels: dict[str, Any], where: str, prefix: str) -> Observation:
    """Totals of vLLM's counters over the run."""
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    rounds, drafted, accepted = (whole(row.get(name), where, prefix + name) for name in names)
    if accepted > drafted or (drafted and not rounds):
        raise BadInput(
            f"more than the {drafted} drafted in {rounds} rounds" if accepted > drafted else "needs rounds",
            file=where,
            field=prefix + (names[2] if accepted > drafted else names[0]),
            value=accepted if accepted > drafted else rounds,
            remedy="export the file again",
        )
    if not rounds:
        return Observation(by_accepted=[])
    source = "1 + num_accepted_tokens / num_drafts"
    _expect(row, "accept_length", 1.0 + accepted / rounds, where, prefix, source)
    if drafted:
        _expect(row, "acceptance_rate", accepted / drafted, where, prefix, "num_accepted_tokens / num_draft_tokens")
    return Observation(
        is_request=False,
        labels=labels,
        n_rounds=rounds,
        n_drafted_tokens=drafted,
        n_accepted_tokens=accepted,
    )


def _average(row: dict[str, Any], labels: dict[str, Any], where: str, prefix: str) -> Observation:
    """The length that SGLang gives of itself; null where the server did not speculate."""
    if row.get("accept_length") is None:
        return Observation(by_accepted=[])
    length = number(row["accept_length"], where, f"{prefix}accept_length", minimum=1.0)
    steps = row.get("speculative_num_steps")
    notes: tuple[str, ...] = (_SERVER_AVERAGE,)
    if steps is not None:
        notes += (_STEPS,)
        source = "(accept_length - 1) / speculative_num_steps"
        depth = whole(steps, where, f"{prefix}speculative_num_steps", minimum=1)
        _expect(row, "acceptance_rate", (length - 1.0) / depth, where, prefix, source)
        if length > depth + 1.0:
            raise BadInput(
                f"a round of {depth} steps yields at most {depth + 1} tokens",
                file=where,
                field=f"{prefix}accept_length",
                value=length,
                remedy="correct either",
            )
    return Observation(is_request=False, labels=labels, mean_acceptance_length=length, notes=notes)


def _expect(row: dict[str, Any], name: str, derived: float, where: str, prefix: str, source: str) -> None:
    tolerance = 0.001 if name == "accept_length" else 0.01  # lengths are printed with four digits
    expect_close(row.get(name), derived, where, prefix + name, source, tolerance=tolerance)
