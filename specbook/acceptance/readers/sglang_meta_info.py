"""SGLang responses: the counts in ``meta_info``, of ``/generate`` or of a choice, under their old or new names.

Names without a bonus token: ``spec_accept_token_num`` (first), ``spec_accepted_drafts`` (sglang23530),
``spec_num_correct_drafts`` (sglang24081); the same counts come as ``sglext.spec_tokens_details`` (sglang33518).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specbook.acceptance.estimates import weighted
from specbook.acceptance.readers.observation import INFERRED, UNNAMED, Observation
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    an_object,
    dense,
    expect,
    expect_close,
    number,
    text,
    whole,
)
from specbook.checks import BadInput

NAME = "sglang-meta-info"
WARNINGS = (
    "SGLang multiplies rounds by the configured draft tokens and does not count what was proposed: with top-k above 1 "
    "they are nodes of a tree, and with an adaptive length they are not what was drafted",
    UNNAMED,
)
CUMULATIVE = False

_ROUNDS = "spec_verify_ct"
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_LENGTH, _RATE = "spec_accept_length", "spec_accept_rate"
_MARKS = frozenset({_ROUNDS, *_ACCEPTED, *_DRAFTED, *_HISTOGRAM, _LENGTH, _RATE})
# What every meta_info has, so that a request without speculation is known as such and not as another format.
_USUAL = frozenset({"finish_reason", "completion_tokens"})

_SHORT_HISTOGRAM = (
    "the histogram ends before the proposed tokens of a round, as with a tree or an adaptive length: what was drafted "
    "is unknown"
)
_BIASED_RATE = "spec_accept_rate counts a bonus token in each round, as SGLang did before sgl-project/sglang#23530"
_ONE_SHORT = (
    "accepted tokens are one short in every round, as for n-gram drafts before sgl-project/sglang#24965: only the mean "
    "length is used"
)
_LENGTH_ONLY = "completion tokens ÷ rounds, which counts the token of the prefill and misses what the end cut off"


def recognises(record: Any) -> bool:
    """Whether the record is a response of SGLang, or its ``meta_info``."""
    return isinstance(record, dict) and any(True for _ in _places(record))


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one request for each ``meta_info`` in the record."""
    target = text(record.get("model"), where, "model")
    labels = {} if target is None else {"target": target}
    for place, value, completion in _places(record):
        prefix = f"{place}." if place else ""
        counts = _counts(an_object(value, where, place), completion, where, prefix)
        if counts is not None:
            yield _observation(counts, where, prefix, labels)
        else:
            yield _without_rounds(value, completion, where, prefix, labels)


def _places(record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Where counts stand, with the completion tokens beside them if they are not among them."""
    if _is_meta(record.get("meta_info")):
        yield "meta_info", record["meta_info"], None
        return
    if not _MARKS.isdisjoint(record):
        yield "", record, None
        return
    choices = record.get("choices")
    found = False
    for index, choice in enumerate(choices if isinstance(choices, list) else []):
        if isinstance(choice, dict) and _is_meta(choice.get("meta_info")):
            found = True
            yield f"choices[{index}].meta_info", choice["meta_info"], None
    extension = record.get("sglext")
    details = extension.get("spec_tokens_details") if isinstance(extension, dict) else None
    if isinstance(details, dict) and not found:
        usage = record.get("usage")
        one = isinstance(usage, dict) and isinstance(choices, list) and len(choices) == 1
        yield "sglext.spec_tokens_details", details, usage.get("completion_tokens") if one and usage else None


def _is_meta(value: Any) -> bool:
    return isinstance(value, dict) and not (_MARKS | _USUAL).isdisjoint(value)


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """What one request states; None where it does not."""

    meta: dict[str, Any]
    rounds: int
    accepted: int | None
    drafted: int | None
    histogram: list[int] | None
    completion: int | None
    n_prefills: int

    @property
    def longest(self) -> int:
        """Most tokens that a round may have accepted, as far as the source says."""
        if self.histogram is not None:
            return max((accepted for accepted, count in enumerate(self.histogram) if count), default=0)
        return self.drafted // self.rounds if self.drafted is not None else max(self.accepted or 0, 0)


def _counts(meta: dict[str, Any], completion: Any, where: str, prefix: str) -> _Counts | None:
    """The counts, or None for a request without a round that drafted."""
    name, value = _first(meta, _HISTOGRAM, where, prefix)
    histogram = None if value is None else dense(value, where, prefix + name)
    if histogram is not None and len(histogram) > LONGEST_DRAFT + 1:
        raise _refused("is longer than any draft", where, prefix + name, len(histogram))
    rounds = meta.get(_ROUNDS)
    rounds = whole(rounds, where, prefix + _ROUNDS) if rounds is not None else sum(histogram or [])
    name, value = _first(meta, _DRAFTED, where, prefix)
    drafted = None if value is None else whole(value, where, prefix + name)
    name, value = _first(meta, _ACCEPTED, where, prefix)
    accepted = None if value is None else whole(value, where, prefix + name, minimum=-rounds)
    if accepted is None and histogram is not None:
        accepted = weighted(histogram)
    if not accepted and (drafted == 0 or not (rounds or sum(histogram or []))):
        return None
    if not rounds:
        raise _refused("must be at least 1 where there is a histogram or an accepted token", where, prefix + _ROUNDS, 0)
    completion = meta.get("completion_tokens", completion)
    retractions = meta.get("num_retractions", meta.get("total_retractions"))
    return _Counts(
        meta=meta,
        rounds=rounds,
        accepted=accepted,
        drafted=drafted,
        histogram=histogram,
        completion=None if completion is None else whole(completion, where, f"{prefix}completion_tokens"),
        n_prefills=1 + (0 if retractions is None else whole(retractions, where, f"{prefix}num_retractions")),
    )


def _without_rounds(
    meta: dict[str, Any], completion: Any, where: str, prefix: str, labels: dict[str, Any]
) -> Observation:
    """A request without a round; only where rounds are not stated, a length says that there were some."""
    stated = meta.get(_LENGTH)
    if meta.get(_ROUNDS) is not None or not stated:
        return Observation(by_accepted=[])
    length = number(stated, where, prefix + _LENGTH, minimum=1.0)
    completion = meta.get("completion_tokens", completion)
    weight = None if completion is None else whole(completion, where, f"{prefix}completion_tokens") / length
    note = f"{INFERRED}: requests are weighed by completion tokens ÷ length"
    return Observation(
        labels=labels, prompt=where, mean_acceptance_length=length, weight=weight, notes=(note,) if weight else ()
    )


def _first(meta: dict[str, Any], names: tuple[str, ...], where: str, prefix: str) -> tuple[str, Any]:
    """The value under the newest of its names; an alias beside it must say the same."""
    found = [(name, meta[name]) for name in names if meta.get(name) is not None]
    for name, value in found[1:]:
        if value != found[0][1]:
            raise _refused(f"is another name of {found[0][0]} = {found[0][1]}", where, prefix + name, value)
    return found[0] if found else (names[0], None)


def _observation(counts: _Counts, where: str, prefix: str, labels: dict[str, Any]) -> Observation:
    accepted = counts.accepted
    if accepted is None or _is_one_short(counts, accepted, where, prefix):
        return _mean_only(counts, where, prefix, labels)
    if accepted < 0:
        raise _refused("must be at least 0", where, prefix + _ACCEPTED[0], accepted)
    _check_histogram(counts, accepted, where, prefix)
    _check_length(counts, accepted, where, prefix)
    length = _draft_length(counts, accepted, where, prefix)
    notes = (_BIASED_RATE,) if _has_biased_rate(counts, accepted, where, prefix) else ()
    histogram, table = counts.histogram, None
    if length is not None and histogram is not None:
        if len(histogram) == length + 1:
            table = {length: histogram}
        else:  # nodes of a tree are proposed too, and its paths are shorter
            length, notes = None, (*notes, _SHORT_HISTOGRAM)
    return Observation(
        labels=labels if length is None else labels | {"draft_length": length},
        prompt=where,
        by_drafted=table,
        by_accepted=histogram,
        n_rounds=counts.rounds,
        n_drafted_tokens=counts.drafted,
        n_accepted_tokens=accepted,
        notes=notes,
    )


def _is_one_short(counts: _Counts, accepted: int, where: str, prefix: str) -> bool:
    """Whether every round counted one accepted token too few; raise if the completion fits neither count.

    A completion is rounds + accepted tokens, and the token that each prefill samples, which some builds do not count;
    less what the stop cut from the last round, which keeps at least one of its tokens.
    """
    if counts.completion is None:
        return False
    excess = counts.completion - counts.rounds - accepted
    if -counts.longest <= excess <= counts.n_prefills:
        return False
    if -counts.longest - 1 <= excess - counts.rounds <= counts.n_prefills:
        return True
    problem = f"does not match {counts.rounds} rounds that accepted {accepted} tokens"
    raise _refused(problem, where, f"{prefix}completion_tokens", counts.completion)


def _mean_only(counts: _Counts, where: str, prefix: str, labels: dict[str, Any]) -> Observation:
    """Rounds and their mean length, where accepted tokens are not stated or not right."""
    stated = counts.meta.get(_LENGTH)
    if counts.completion is None:
        if stated is None:
            raise _refused(
                f"needs {_ACCEPTED[0]} or completion_tokens beside it", where, prefix + _ROUNDS, counts.rounds
            )
        length = number(stated, where, prefix + _LENGTH, minimum=1.0)
    else:
        length = counts.completion / counts.rounds
        expect_close(stated, length, where, prefix + _LENGTH, "completion_tokens / spec_verify_ct")
        if length < 1.0:
            problem = f"a round emits at least one token, and there were {counts.rounds}"
            raise _refused(problem, where, f"{prefix}completion_tokens", counts.completion)
    return Observation(
        labels=labels,
        prompt=where,
        n_rounds=counts.rounds,
        n_drafted_tokens=counts.drafted,
        mean_acceptance_length=length,
        notes=(_LENGTH_ONLY,) if counts.accepted is None else (_ONE_SHORT, _LENGTH_ONLY),
    )


def _check_histogram(counts: _Counts, accepted: int, where: str, prefix: str) -> None:
    if counts.histogram is not None:
        expect(counts.rounds, sum(counts.histogram), where, prefix + _ROUNDS)
        name, _ = _first(counts.meta, _ACCEPTED, where, prefix)
        expect(accepted, weighted(counts.histogram), where, prefix + name)


def _check_length(counts: _Counts, accepted: int, where: str, prefix: str) -> None:
    """Raise unless the stated length is completion ÷ rounds, or may be where the completion is not stated."""
    stated = counts.meta.get(_LENGTH)
    if stated is None:
        return
    if counts.completion is not None:
        derived = counts.completion / counts.rounds
        expect_close(stated, derived, where, prefix + _LENGTH, "completion_tokens / spec_verify_ct")
        return
    most = 1.0 + (accepted + counts.n_prefills) / counts.rounds
    least = 1.0 + (accepted - counts.longest) / counts.rounds
    if not 0.99 * least <= number(stated, where, prefix + _LENGTH) <= 1.01 * most:
        problem = f"does not match {counts.rounds} rounds that accepted {accepted} tokens"
        raise _refused(problem, where, prefix + _LENGTH, stated)


def _has_biased_rate(counts: _Counts, accepted: int, where: str, prefix: str) -> bool:
    """Whether the stated rate counts bonus tokens; raise if it is neither that nor accepted ÷ proposed."""
    drafted, stated = counts.drafted, counts.meta.get(_RATE)
    if drafted is None or stated is None:
        return False
    rate, derived = number(stated, where, prefix + _RATE), accepted / drafted
    if abs(rate - derived) > 0.01 * max(derived, 0.01):
        for bonus in (counts.rounds, 1):
            if abs(rate - (accepted + bonus) / (drafted + bonus)) <= 0.001:
                return True
    expect_close(stated, derived, where, prefix + _RATE, "accepted / proposed tokens")
    return False


def _draft_length(counts: _Counts, accepted: int, where: str, prefix: str) -> int | None:
    """Draft tokens of each round, if the proposed tokens are a multiple of the rounds."""
    if counts.drafted is None:
        return None
    name, _ = _first(counts.meta, _DRAFTED, where, prefix)
    length, rest = divmod(counts.drafted, counts.rounds)
    if accepted > counts.drafted or length > LONGEST_DRAFT or (not rest and _longest_seen(counts) > length):
        problem = f"does not match {counts.rounds} rounds that accepted {accepted} tokens"
        raise _refused(problem, where, prefix + name, counts.drafted)
    return None if rest else length


def _longest_seen(counts: _Counts) -> int:
    return counts.longest if counts.histogram is not None else 0


def _refused(problem: str, where: str, field: str, value: Any) -> BadInput:
    return BadInput(problem, file=where, field=field, value=value, remedy="export the file again")
