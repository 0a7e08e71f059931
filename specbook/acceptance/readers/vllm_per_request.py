"""vLLM per-request metrics: ``metrics.speculative_decoding`` of a response, or that object by itself.

The server writes it with ``--per-request-spec-decode-metrics summary`` or ``detailed`` (vllm48915); earlier builds
wrote ``speculative_decoding_stats`` on each choice, with a histogram keyed by strings. Every stated total is checked
against the histogram it must follow from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from specbook.acceptance import estimates
from specbook.acceptance.readers import vllm_counters
from specbook.acceptance.readers.observation import UNNAMED, Observation, Table
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    SHORTEST_ANSWER_NAME,
    an_object,
    dense,
    expect,
    expect_close,
    length_key,
    text,
    whole,
    whole_list,
)
from specbook.checks import BadInput

NAME = "vllm-per-request"
WARNINGS = (*vllm_counters.WARNINGS, UNNAMED)
CUMULATIVE = False

_KEYS = frozenset({"acceptance_histogram", "num_accepted_draft_tokens", "mean_acceptance_length"})


def recognises(record: Any) -> bool:
    """Whether the record holds per-request speculation counts."""
    return isinstance(record, dict) and any(True for _ in _statistics(record))


def _statistics(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    metrics = record.get("metrics")
    if isinstance(metrics, dict) and "speculative_decoding" in metrics:
        yield "metrics.speculative_decoding", metrics["speculative_decoding"]
    elif "speculative_decoding" in record and _is_ours(record["speculative_decoding"]):
        yield "speculative_decoding", record["speculative_decoding"]
    elif "acceptance_histogram" in record and "num_spec_steps" in record:
        yield "", record
    elif isinstance(record.get("choices"), list):
        for index, choice in enumerate(record["choices"]):
            if isinstance(choice, dict) and "speculative_decoding_stats" in choice:
                yield f"choices[{index}].speculative_decoding_stats", choice["speculative_decoding_stats"]


def _is_ours(statistics: Any) -> bool:
    """Whether they are vLLM's: a configuration may stand under the same name, or another engine's totals."""
    return statistics is None or (isinstance(statistics, dict) and not _KEYS.isdisjoint(statistics))


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one request for each statistics object in the record."""
    target = text(record.get("model"), where, "model")
    labels = {} if target is None else {"target": target}
    name = text(record.get("id"), where, "id")
    answer = name if name and len(name) >= SHORTEST_ANSWER_NAME else None
    for index, (place, statistics) in enumerate(_statistics(record)):
        if statistics is None:  # a request that ran without speculation
            yield Observation(by_accepted=[])
            continue
        prefix = f"{place}." if place else ""
        seen = request(an_object(statistics, where, place), where, prefix, labels)
        yield replace(seen, answer=answer and f"{answer} {index}")


def request(statistics: dict[str, Any], where: str, prefix: str, labels: dict[str, Any]) -> Observation:
    """One statistics object as an observation; every stated total is checked against the histogram."""
    histogram = dense(statistics.get("acceptance_histogram"), where, f"{prefix}acceptance_histogram")
    by_drafted = _by_drafted(statistics, histogram, where, prefix)
    _check_steps(statistics, histogram, by_drafted, where, prefix)
    _check_tokens(statistics, histogram, by_drafted, where, prefix)
    _check_ratios(statistics, histogram, where, prefix)
    if statistics.get("num_spec_tokens") is not None:
        labels = labels | {"draft_length": _draft_length(statistics, histogram, by_drafted, where, prefix)}
    drafted = statistics.get("num_draft_tokens")
    return Observation(
        by_accepted=histogram, by_drafted=by_drafted, n_drafted_tokens=drafted, labels=labels, prompt=where
    )


def _draft_length(stats: dict[str, Any], histogram: list[int], table: Table | None, where: str, prefix: str) -> int:
    """The configured draft length, which no round can exceed."""
    length = draft_length(stats["num_spec_tokens"], where, f"{prefix}num_spec_tokens")
    used = [drafted for drafted, row in (table or {}).items() if sum(row)]
    longest = max([*used, *(accepted for accepted, count in enumerate(histogram) if count)], default=0)
    if longest > length:
        raise BadInput(
            f"a round drafted or accepted {longest} tokens",
            file=where,
            field=f"{prefix}num_spec_tokens",
            value=length,
            remedy="export the file again; it is the longest draft",
        )
    return length


def draft_length(value: Any, where: str, name: str) -> int:
    """A configured draft length as any engine may have it."""
    length = whole(value, where, name)
    if length > LONGEST_DRAFT:
        problem, remedy = f"is beyond {LONGEST_DRAFT}, more than any engine drafts", "export the file again"
        raise BadInput(problem, file=where, field=name, value=value, remedy=remedy)
    return length


def _by_drafted(statistics: dict[str, Any], histogram: list[int], where: str, prefix: str) -> Table | None:
    given = statistics.get("acceptance_histogram_by_draft_length")
    if given is not None:
        return _given_table(given, where, f"{prefix}acceptance_histogram_by_draft_length")
    if statistics.get("per_step_drafted") is not None:
        return _table_from_steps(statistics, where, prefix)
    return _table_if_constant(statistics, histogram)


def _given_table(given: Any, where: str, name: str) -> Table:
    table = {}
    for key, counts in an_object(given, where, name).items():
        drafted = length_key(key, where, name)
        row = dense(counts, where, f"{name}.{key}")
        if any(row[drafted + 1 :]):
            raise BadInput(
                f"more tokens accepted than the {drafted} drafted",
                file=where,
                field=f"{name}.{key}",
                value=row,
                remedy="correct the key or the counts",
            )
        table[drafted] = (row + [0] * (drafted + 1))[: drafted + 1]
    return table


def _table_from_steps(statistics: dict[str, Any], where: str, prefix: str) -> Table:
    drafted = whole_list(statistics["per_step_drafted"], where, f"{prefix}per_step_drafted")
    accepted = whole_list(statistics.get("per_step_accepted"), where, f"{prefix}per_step_accepted")
    if len(drafted) != len(accepted):
        raise BadInput(
            f"has {len(accepted)} steps where per_step_drafted has {len(drafted)}",
            file=where,
            field=f"{prefix}per_step_accepted",
            remedy="export the file again",
        )
    for index, (n_drafted, n_accepted) in enumerate(zip(drafted, accepted, strict=True)):
        if n_accepted > n_drafted or n_drafted > LONGEST_DRAFT:
            raise BadInput(
                f"more tokens accepted than drafted ({n_drafted})",
                file=where,
                field=f"{prefix}per_step_accepted[{index}]",
                value=n_accepted,
                remedy="export the file again",
            )
    pairs = Counter(zip(drafted, accepted, strict=True))
    return {k: [pairs[k, j] for j in range(k + 1)] for k in sorted(set(drafted))}


def _table_if_constant(statistics: dict[str, Any], histogram: list[int]) -> Table | None:
    """The table where the totals prove that every round drafted ``num_spec_tokens``; else nothing is known."""
    length, total = statistics.get("num_spec_tokens"), statistics.get("num_draft_tokens")
    if not isinstance(length, int) or not isinstance(total, int) or total != length * sum(histogram):
        return None
    if len(histogram) > length + 1 or length > LONGEST_DRAFT:
        return None
    return {length: histogram + [0] * (length + 1 - len(histogram))}


def _check_steps(stats: dict[str, Any], histogram: list[int], table: Table | None, where: str, prefix: str) -> None:
    expect(stats.get("num_spec_steps"), sum(histogram), where, f"{prefix}num_spec_steps")
    if table is None:
        return
    totals = estimates.by_accepted(table)
    width = max(len(totals), len(histogram))
    if totals + [0] * (width - len(totals)) != histogram + [0] * (width - len(histogram)):
        raise BadInput(
            f"does not sum to acceptance_histogram {histogram}",
            file=where,
            field=f"{prefix}acceptance_histogram_by_draft_length",
            value={str(k): row for k, row in table.items()},
            remedy="export the file again; one of the two was cut or edited",
        )


def _check_tokens(stats: dict[str, Any], histogram: list[int], table: Table | None, where: str, prefix: str) -> None:
    accepted = estimates.weighted(histogram)
    drafted = stats.get("num_draft_tokens")
    if drafted is not None and accepted > whole(drafted, where, f"{prefix}num_draft_tokens"):
        raise BadInput(
            f"more tokens accepted ({accepted}) than drafted",
            file=where,
            field=f"{prefix}num_draft_tokens",
            value=drafted,
            remedy="export the file again",
        )
    expect(stats.get("num_accepted_draft_tokens"), accepted, where, f"{prefix}num_accepted_draft_tokens")
    if table is not None:
        expect(drafted, sum(k * sum(row) for k, row in table.items()), where, f"{prefix}num_draft_tokens")


def _check_ratios(stats: dict[str, Any], histogram: list[int], where: str, prefix: str) -> None:
    rounds = sum(histogram)
    accepted = estimates.weighted(histogram)
    drafted = stats.get("num_draft_tokens")
    if rounds:
        expect_close(
            stats.get("mean_acceptance_length"), 1.0 + accepted / rounds, where, f"{prefix}mean_acceptance_length"
        )
    if drafted:
        expect_close(stats.get("draft_acceptance_rate"), accepted / drafted, where, f"{prefix}draft_acceptance_rate")
