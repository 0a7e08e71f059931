"""TensorRT-LLM's statistics of one request: ``speculative_decoding`` with totals, in a response or a metrics file.

They stand on each choice of a response beside ``avg_decoded_tokens_per_iter``, or under ``perf_metrics``. Rounds are
not among them before trtllm19311. Builds before trtllm17082 wrote zeros for all totals, whatever was drafted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from specbook.acceptance import estimates
from specbook.acceptance.readers import vllm_per_request
from specbook.acceptance.readers.observation import UNNAMED, Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT, dense, expect, expect_close, number, text, whole
from specbook.checks import BadInput

NAME = "tensorrt-llm"
WARNINGS = (UNNAMED,)
CUMULATIVE = False

_STATISTICS = "speculative_decoding"
_ACCEPTED, _DRAFTED, _RATE = "total_accepted_draft_tokens", "total_draft_tokens", "acceptance_rate"
_STEPS, _HISTOGRAM, _LENGTH = "num_spec_steps", "acceptance_histogram", "num_spec_tokens"
_AVERAGE = "avg_decoded_tokens_per_iter"
_INSIDE = ("choices", "outputs", "perf_metrics", "request_perf_metrics", "gen_perf_metrics", "phases", "server", "gen")
_DEEPEST = 4

_WEIGHTED = f"requests are weighted by accepted tokens / ({_AVERAGE} − 1)"
_ZEROED = f"totals of 0 beside an {_AVERAGE} above 1 are a known fault of the server: they are unknown"

_Place = tuple[str, dict[str, Any], Any]


def recognises(record: Any) -> bool:
    """Whether the record holds TensorRT-LLM's statistics, or could have held them."""
    return isinstance(record, dict) and any(True for _ in _places(record))


def _places(record: dict[str, Any]) -> Iterator[_Place]:
    """Where statistics stand or are missing, with the average beside them."""
    for place, holder, average in _holders(record, "", None, 0):
        statistics = holder.get(_STATISTICS)
        if isinstance(statistics, dict):
            if _ACCEPTED in statistics or _DRAFTED in statistics:
                yield place, statistics, average
        elif place and ((statistics is None and _STATISTICS in holder) or "timing_metrics" in holder):
            yield place, {}, None


def _holders(holder: dict[str, Any], place: str, average: Any, depth: int) -> Iterator[_Place]:
    average = holder.get(_AVERAGE, average)
    yield place, holder, average
    for name in _INSIDE if depth < _DEEPEST else ():
        inner = holder.get(name)
        inners = {f"{name}[{i}]": item for i, item in enumerate(inner)} if isinstance(inner, list) else {name: inner}
        for key, value in inners.items():
            if isinstance(value, dict):
                yield from _holders(value, f"{place}{key}.", average, depth + 1)


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one request for each statistics object; one that drafted nothing is empty."""
    target = text(record.get("model"), where, "model")
    labels = {} if target is None else {"target": target}
    for place, statistics, average in _places(record):
        yield replace(_request(statistics, average, where, f"{place}{_STATISTICS}.", labels), prompt=where)


def _request(statistics: dict[str, Any], average: Any, where: str, prefix: str, labels: dict[str, Any]) -> Observation:
    accepted, drafted, steps = (
        None if statistics.get(name) is None else whole(statistics[name], where, f"{prefix}{name}")
        for name in (_ACCEPTED, _DRAFTED, _STEPS)
    )
    length = statistics.get(_LENGTH)
    mean = _mean(average, where)
    _check(statistics, accepted, drafted, where, prefix)
    if statistics.get(_HISTOGRAM) is not None:
        return _with_histogram(statistics, accepted, mean, where, prefix, labels)
    if length is not None:
        labels = labels | {"draft_length": vllm_per_request.draft_length(length, where, f"{prefix}{_LENGTH}")}
    if steps is not None:
        _check_steps(accepted, drafted, steps, length, where, prefix)
        usual = -(-drafted // steps) if drafted and steps else accepted
        _check_mean(mean, accepted, steps, usual if length is None else length, where)
        return Observation(labels=labels, n_rounds=steps, n_accepted_tokens=accepted, n_drafted_tokens=drafted)
    if not accepted and not drafted:
        return _zeroed(mean, labels)
    _check_mean_alone(mean, accepted, where)
    weight = accepted / (mean - 1.0) if accepted and mean is not None else None
    return Observation(
        labels=labels,
        n_accepted_tokens=accepted,
        n_drafted_tokens=drafted,
        mean_acceptance_length=mean,
        weight=weight,
        notes=() if weight is None else (_WEIGHTED,),
    )


def _mean(average: Any, where: str) -> float | None:
    """Tokens per step, the bonus token included; 0 means that nobody counted."""
    mean = None if average is None else number(average, where, _AVERAGE, maximum=LONGEST_DRAFT + 1.0)
    if mean is not None and 0.0 < mean < 1.0:
        problem, remedy = "must be at least 1: it counts the bonus token", "export the file again"
        raise BadInput(problem, file=where, field=_AVERAGE, value=average, remedy=remedy)
    return mean or None


def _zeroed(mean: float | None, labels: dict[str, Any]) -> Observation:
    """No totals: the known fault if more than a token a step was decoded, else a request that drafted nothing."""
    if mean is None or mean == 1.0:
        return Observation(by_accepted=[])
    return Observation(labels=labels, mean_acceptance_length=mean, notes=(_ZEROED,))


def _check(statistics: dict[str, Any], accepted: int | None, drafted: int | None, where: str, prefix: str) -> None:
    if accepted is None or drafted is None:
        return
    if accepted > drafted:
        problem, remedy = f"more tokens accepted ({accepted}) than drafted", "export the file again"
        raise BadInput(problem, file=where, field=f"{prefix}{_DRAFTED}", value=drafted, remedy=remedy)
    if drafted:
        expect_close(statistics.get(_RATE), accepted / drafted, where, f"{prefix}{_RATE}", "the totals")


def _with_histogram(
    statistics: dict[str, Any],
    accepted: int | None,
    mean: float | None,
    where: str,
    prefix: str,
    labels: dict[str, Any],
) -> Observation:
    """The counts in full, under vLLM's names."""
    histogram = dense(statistics[_HISTOGRAM], where, f"{prefix}{_HISTOGRAM}")
    expect(accepted, estimates.weighted(histogram), where, f"{prefix}{_ACCEPTED}")
    kept = {name: statistics.get(name) for name in (_HISTOGRAM, _STEPS, _LENGTH)}
    seen = vllm_per_request.request(kept | {"num_draft_tokens": statistics.get(_DRAFTED)}, where, prefix, labels)
    _check_mean(mean, estimates.weighted(histogram), sum(histogram), len(histogram) - 1, where)
    return seen


def _check_steps(
    accepted: int | None, drafted: int | None, steps: int, length: int | None, where: str, prefix: str
) -> None:
    most = LONGEST_DRAFT if length is None else length
    for tokens, name in ((accepted, _ACCEPTED), (drafted, _DRAFTED)):
        if tokens is not None and tokens > steps * most:
            problem = f"{steps} steps of at most {most} tokens give no more than {steps * most}"
            raise BadInput(problem, file=where, field=f"{prefix}{name}", value=tokens, remedy="export the file again")


def _check_mean(mean: float | None, accepted: int | None, steps: int, longest: int | None, where: str) -> None:
    """Raise if the average is off by more than two rounds: it counts the first token, and stops at the last."""
    if mean is None or accepted is None or not steps:
        return
    derived = 1.0 + accepted / steps
    if abs(mean - derived) * steps > 2.0 * (1.0 + (longest if longest is not None else accepted)):
        raise _wrong_mean(f"does not match the counts, which give {derived:.4f}", mean, where)


def _check_mean_alone(mean: float | None, accepted: int | None, where: str) -> None:
    """Raise if no number of steps gives this average with the accepted tokens."""
    if mean is not None and accepted is not None and ((accepted and mean == 1.0) or mean > accepted + 2.0):
        raise _wrong_mean(f"cannot be with {accepted} accepted tokens", mean, where)


def _wrong_mean(problem: str, mean: float, where: str) -> BadInput:
    remedy = "it counts the bonus token; export the file again"
    return BadInput(problem, file=where, field=_AVERAGE, value=mean, remedy=remedy)
