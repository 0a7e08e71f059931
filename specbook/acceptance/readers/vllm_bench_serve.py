"""What ``vllm bench serve --save-result`` writes for a server that speculates (vllm31739): totals of one run.

``spec_decode_acceptance_rate`` is a percentage, ``spec_decode_per_position_acceptance_rates`` are fractions of all
rounds, so marginal; times the rounds they are whole numbers again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specbook.acceptance.readers import vllm_counters
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import expect_close, fractions, number, text, whole
from specbook.acceptance.readers.vllm_counters import Counters
from specbook.checks import BadInput

NAME = "vllm-bench-serve"
WARNINGS = vllm_counters.WARNINGS
CUMULATIVE = False

_ROUNDS, _DRAFTED, _ACCEPTED = "spec_decode_num_drafts", "spec_decode_draft_tokens", "spec_decode_accepted_tokens"
_SHARES = "spec_decode_per_position_acceptance_rates"
_LENGTH, _PERCENT = "spec_decode_acceptance_length", "spec_decode_acceptance_rate"
_KEYS = frozenset({_ROUNDS, _DRAFTED, _ACCEPTED, _SHARES, _LENGTH, _PERCENT})

# Shares printed in full give back their counts to this many parts of them.
_WHOLE = 1e-6


def recognises(record: Any) -> bool:
    """Whether the record is a result of ``vllm bench serve`` with speculation."""
    return isinstance(record, dict) and not _KEYS.isdisjoint(record)


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the run; one without a draft is empty."""
    target = text(record.get("model_id"), where, "model_id")
    labels = {} if target is None else {"target": target}
    rounds, drafted, accepted = (_count(record, name, where) for name in (_ROUNDS, _DRAFTED, _ACCEPTED))
    shares = [] if record.get(_SHARES) is None else fractions(record[_SHARES], where, _SHARES)
    if rounds is None:
        yield _without_counts(record, drafted, accepted, shares, labels, where)
        return
    seen = Counters(
        n_rounds=rounds,
        n_drafted=drafted,
        n_accepted=accepted,
        by_position=_counts(shares, rounds),
        names=(_ROUNDS, _DRAFTED, _ACCEPTED, _SHARES),
        where=where,
    ).observation(labels)
    if rounds and seen.n_accepted_tokens is not None:
        expect_close(record.get(_LENGTH), 1.0 + seen.n_accepted_tokens / rounds, where, _LENGTH, "the counts")
        _check_percent(record.get(_PERCENT), seen.n_accepted_tokens, drafted, where)
    yield seen


def _count(record: dict[str, Any], name: str, where: str) -> int | None:
    return None if record.get(name) is None else whole(record[name], where, name)


def _counts(shares: list[float], rounds: int) -> list[float]:
    """Rounds behind the shares: whole numbers if all of them are, to rounding."""
    products = [share * rounds for share in shares]
    if all(abs(product - round(product)) <= _WHOLE * max(product, 1.0) for product in products):
        return [float(round(product)) for product in products]
    return products


def _check_percent(stated: Any, accepted: int, drafted: int | None, where: str) -> None:
    if stated is None or not drafted:
        return
    percent = 100.0 * accepted / drafted
    if abs(number(stated, where, _PERCENT, maximum=100.0) - percent) > 0.01 * max(percent, 1.0):
        remedy = "this rate is a percentage; export the file again"
        problem = f"does not match the counts, which give {percent:.4f} percent"
        raise BadInput(problem, file=where, field=_PERCENT, value=stated, remedy=remedy)


def _without_counts(
    record: dict[str, Any],
    drafted: int | None,
    accepted: int | None,
    shares: list[float],
    labels: dict[str, Any],
    where: str,
) -> Observation:
    """What servers say that count no rounds: shares, a length, a percentage."""
    length, percent = record.get(_LENGTH), record.get(_PERCENT)
    if shares:
        expect_close(length, 1.0 + sum(shares), where, _LENGTH, f"1 + the sum of {_SHARES}")
    if accepted is not None:
        _check_percent(percent, accepted, drafted, where)
    return Observation(
        is_request=False,
        labels=labels,
        n_drafted_tokens=drafted,
        n_accepted_tokens=accepted,
        marginal_acceptance=shares or None,
        mean_acceptance_length=None if length is None else number(length, where, _LENGTH, minimum=1.0),
        draft_acceptance_rate=None if percent is None else number(percent, where, _PERCENT, maximum=100.0) / 100.0,
    )
