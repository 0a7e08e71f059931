"""vLLM per-request metrics: ``metrics.speculative_decoding`` of a response, or that object by itself.

The server writes it with ``--per-request-spec-decode-metrics summary`` or ``detailed`` (vllm48915); earlier builds
wrote ``speculative_decoding_stats`` on each choice, with a histogram keyed by strings. Every stated total is checked
against the histogram it must follow from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from specbook.acceptance import estimates
from specbook.acceptance.readers.requests import RequestCounts, text, whole, whole_list
from specbook.checks import BadInput

NAME = "vllm-per-request"
WARNINGS: tuple[str, ...] = ()

# The file rounds its derived figures; 1 % catches a wrong denominator or a missing bonus token, not rounding.
_RELATIVE_TOLERANCE = 0.01
_LARGEST_RATIO = 1e6  # tokens per round or accepted per drafted: anything above, or NaN, is damage

Table = dict[int, list[int]]


def recognises(record: Any) -> bool:
    """Whether the record holds per-request speculation counts."""
    return isinstance(record, dict) and any(True for _ in _statistics(record))


def _statistics(record: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    metrics = record.get("metrics")
    if isinstance(metrics, dict) and "speculative_decoding" in metrics:
        yield "metrics.speculative_decoding", metrics["speculative_decoding"]
    elif "speculative_decoding" in record:
        yield "speculative_decoding", record["speculative_decoding"]
    elif "acceptance_histogram" in record and "num_spec_steps" in record:
        yield "", record
    elif isinstance(record.get("choices"), list):
        for index, choice in enumerate(record["choices"]):
            if isinstance(choice, dict) and "speculative_decoding_stats" in choice:
                yield f"choices[{index}].speculative_decoding_stats", choice["speculative_decoding_stats"]


def read(record: Any, where: str) -> Iterator[RequestCounts]:
    """Yield one request for each statistics object in the record."""
    target = text(record.get("model"), where, "model")
    labels = {} if target is None else {"target": target}
    for place, statistics in _statistics(record):
        if statistics is None:  # a request that ran without speculation
            yield RequestCounts(by_accepted=[])
            continue
        if not isinstance(statistics, dict):
            raise BadInput("must be an object", file=where, field=place, value=statistics, remedy="export again")
        prefix = f"{place}." if place else ""
        yield _request(statistics, where, prefix, labels)


def _request(statistics: dict[str, Any], where: str, prefix: str, labels: dict[str, Any]) -> RequestCounts:
    histogram = _histogram(statistics, "acceptance_histogram", where, prefix)
    by_drafted = _by_drafted(statistics, histogram, where, prefix)
    _check_steps(statistics, histogram, by_drafted, where, prefix)
    _check_tokens(statistics, histogram, by_drafted, where, prefix)
    _check_ratios(statistics, histogram, where, prefix)
    if statistics.get("num_spec_tokens") is not None:
        labels = labels | {"draft_length": _draft_length(statistics, histogram, by_drafted, where, prefix)}
    drafted = statistics.get("num_draft_tokens")
    return RequestCounts(by_accepted=histogram, by_drafted=by_drafted, n_drafted_tokens=drafted, labels=labels)


def _draft_length(stats: dict[str, Any], histogram: list[int], table: Table | None, where: str, prefix: str) -> int:
    """The configured draft length, which no round can exceed."""
    length = whole(stats["num_spec_tokens"], where, f"{prefix}num_spec_tokens")
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


def _histogram(holder: dict[str, Any], key: str, where: str, prefix: str) -> list[int]:
    return dense(holder.get(key), where, f"{prefix}{key}")


def dense(value: Any, where: str, name: str) -> list[int]:
    """A histogram as a list: given as one, or as an object keyed by the accepted count.

    Examples
    --------
    >>> dense({"0": 3, "2": 1}, "a.json", "acceptance_histogram")
    [3, 0, 1]
    """
    if not isinstance(value, dict):
        return whole_list(value, where, name)
    counts = {_key(key, where, name): whole(count, where, f"{name}.{key}") for key, count in value.items()}
    return [counts.get(accepted, 0) for accepted in range(max(counts, default=-1) + 1)]


# No engine drafts near this many tokens; a larger key is damage, and would make a huge list.
_LONGEST_DRAFT = 4096


def _key(key: str, where: str, name: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 4 and int(key) <= _LONGEST_DRAFT):
        raise BadInput("is no number of tokens", file=where, field=name, value=key, remedy="export the file again")
    return int(key)


def _by_drafted(statistics: dict[str, Any], histogram: list[int], where: str, prefix: str) -> Table | None:
    given = statistics.get("acceptance_histogram_by_draft_length")
    if given is not None:
        return _given_table(given, where, f"{prefix}acceptance_histogram_by_draft_length")
    if statistics.get("per_step_drafted") is not None:
        return _table_from_steps(statistics, where, prefix)
    return _table_if_constant(statistics, histogram)


def _given_table(given: Any, where: str, name: str) -> Table:
    if not isinstance(given, dict):
        raise BadInput("must be an object", file=where, field=name, value=given, remedy="export the file again")
    table = {}
    for key in given:
        drafted = _key(key, where, name)
        row = dense(given[key], where, f"{name}.{key}")
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
        if n_accepted > n_drafted or n_drafted > _LONGEST_DRAFT:
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
    if len(histogram) > length + 1 or length > _LONGEST_DRAFT:
        return None
    return {length: histogram + [0] * (length + 1 - len(histogram))}


def _expect(stated: Any, counted: int, where: str, name: str) -> None:
    if stated is not None and whole(stated, where, name) != counted:
        raise BadInput(
            f"does not match the histogram, which gives {counted}",
            file=where,
            field=name,
            value=stated,
            remedy="export the file again; one of the two was cut or edited",
        )


def _check_steps(stats: dict[str, Any], histogram: list[int], table: Table | None, where: str, prefix: str) -> None:
    _expect(stats.get("num_spec_steps"), sum(histogram), where, f"{prefix}num_spec_steps")
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
    _expect(stats.get("num_accepted_draft_tokens"), accepted, where, f"{prefix}num_accepted_draft_tokens")
    if table is not None:
        _expect(drafted, sum(k * sum(row) for k, row in table.items()), where, f"{prefix}num_draft_tokens")


def _check_ratios(stats: dict[str, Any], histogram: list[int], where: str, prefix: str) -> None:
    rounds = sum(histogram)
    accepted = estimates.weighted(histogram)
    drafted = stats.get("num_draft_tokens")
    expected = {
        "mean_acceptance_length": 1.0 + accepted / rounds if rounds else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
    }
    for key, value in expected.items():
        stated = stats.get(key)
        if stated is None or value is None:
            continue
        if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0.0 <= stated <= _LARGEST_RATIO:
            raise BadInput("must be a number", file=where, field=f"{prefix}{key}", value=stated, remedy="export again")
        if abs(stated - value) > _RELATIVE_TOLERANCE * max(value, 0.01):
            raise BadInput(
                f"does not match the histogram, which gives {value:.4f}",
                file=where,
                field=f"{prefix}{key}",
                value=stated,
                remedy="a length counts the bonus token and a rate is a fraction",
            )
