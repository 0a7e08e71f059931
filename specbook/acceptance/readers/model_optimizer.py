"""NVIDIA Model-Optimizer specdec_bench: ``acceptance_rate.json``, a list to which each run appends one element.

Keys are tokens emitted in a round, the bonus token included: draft position i is key i + 1, and the smallest length
seen always reads 1. A length that no round had has no key, so a conditional rate after a gap spans several positions.
``Average_AL`` gives every request the same weight and is no length per round (modeloptimizer2247).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import an_object, expect_close, fraction, length_key, number, text, whole
from specbook.checks import BadInput

NAME = "model-optimizer"
WARNINGS = (
    "the source does not say how many tokens each round drafted",
    "a round is a chunk of streamed tokens; builds differ in whether the first and the last of a request are counted",
)
CUMULATIVE = False

_HISTOGRAM, _CONDITIONAL = "Acceptance_Length_Histogram", "Conditional_Acceptance_Rate"
_JOINT, _AVERAGES, _REQUESTS = "Joint_Acceptance_Rate", ("Average_AL", "Average_AR"), ("Request_AL", "Request_AR")
_MARKS = frozenset({_HISTOGRAM, _CONDITIONAL, _JOINT, *_AVERAGES, *_REQUESTS})
_PLACE = re.compile(r"(?:\[(?P<index>\d{1,9})\]| line (?P<line>\d{1,9}))$")

_NO_TOKENS = "chunks without a token were left out"
_ONLY_AVERAGE = "the length is a mean over requests, each of equal weight: the source has no rounds to weigh them by"


def recognises(record: Any) -> bool:
    """Whether the record is one run of specdec_bench."""
    return isinstance(record, dict) and not _MARKS.isdisjoint(record)


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the run: its rounds by accepted tokens, or the typed vector or average that it has without them."""
    labels = _labels(record, where)
    lengths = lengths_of(record.get(_HISTOGRAM), where, _HISTOGRAM)
    means = _means(record, where)
    if lengths:
        _check_rates(record, survival(lengths), where)
        _check_means(means, lengths, where)
        notes = (_NO_TOKENS,) if lengths.get(0) else ()
        average = next((means[name] for name in _AVERAGES if means.get(name)), None)
        yield Observation(
            is_request=False,
            by_accepted=by_accepted(lengths),
            mean_acceptance_length_per_request=average,
            labels=labels,
            notes=notes,
        )
    else:
        yield _without_rounds(record, means, where, labels)


def lengths_of(value: Any, where: str, name: str) -> dict[int, int]:
    """Rounds by tokens emitted, the bonus token included, as far as there were any.

    Examples
    --------
    >>> lengths_of({"1": 3, "3": 1, "4": 0}, "a.json", "Acceptance_Length_Histogram")
    {1: 3, 3: 1}
    """
    counts = {} if value is None else an_object(value, where, name)
    lengths = {length_key(key, where, name): whole(count, where, f"{name}.{key}") for key, count in counts.items()}
    return {length: lengths[length] for length in sorted(lengths) if lengths[length]}


def by_accepted(lengths: dict[int, int]) -> list[int]:
    """Rounds by accepted tokens: the emitted ones without the bonus token.

    Examples
    --------
    >>> by_accepted({1: 3, 3: 1})
    [3, 0, 1]
    """
    return [lengths.get(length, 0) for length in range(1, max(lengths) + 1)]


def survival(lengths: dict[int, int]) -> list[float]:
    """Share of rounds that emitted at least 0, 1, … tokens.

    Examples
    --------
    >>> survival({1: 3, 3: 1})
    [1.0, 1.0, 0.25, 0.25]
    """
    total = reached = sum(lengths.values())
    shares = []
    for length in range(max(lengths) + 1):
        shares.append(reached / total)
        reached -= lengths.get(length, 0)
    return shares


def _labels(record: dict[str, Any], where: str) -> dict[str, Any]:
    """Which element of the list the run is, and its domain if all prompts have one."""
    place = _PLACE.search(where)
    labels: dict[str, Any] = {}
    if place is not None:
        labels["run"] = place["line"] or str(int(place["index"]) + 1)
    categories = record.get("Category_AL")
    if categories:
        names = [text(name, where, "Category_AL") for name in an_object(categories, where, "Category_AL")]
        labels["domain"] = names[0] if len(names) == 1 else "mixed"
    return labels


def _means(record: dict[str, Any], where: str) -> dict[str, float]:
    """Mean lengths by the place where they stand; the average must follow from those of the requests."""
    means = {}
    for name in (*_REQUESTS, "Category_AL"):
        for key, value in an_object(record.get(name) or {}, where, name).items():
            turns = value if isinstance(value, dict) else {"": value}
            for turn, mean in turns.items():
                place = f"{name}.{key}.{turn}".rstrip(".")
                means[place] = number(mean, where, place)
    requests = [mean for place, mean in means.items() if place.startswith(_REQUESTS)]
    for name in _AVERAGES:
        if record.get(name) is not None:
            means[name] = number(record[name], where, name)
            if requests:
                expect_close(means[name], sum(requests) / len(requests), where, name, "the mean over requests")
    return means


def _check_rates(record: dict[str, Any], shares: list[float], where: str) -> None:
    """Raise if a rate is not what the histogram gives at its key; the one before it is the key before, not one less."""
    for name in (_CONDITIONAL, _JOINT):
        before = 1.0
        for length, rate in sorted(_rates(record.get(name), where, name).items()):
            share = shares[length] if length < len(shares) else 0.0
            if before:
                derived = share / before if name == _CONDITIONAL else share
                expect_close(rate, derived, where, f"{name}.{length}", _HISTOGRAM)
            before = share


def _rates(value: Any, where: str, name: str) -> dict[int, float]:
    """Rates by length; a quotient of quotients may exceed 1 by a rounding error."""
    rates = {}
    for key, rate in ({} if value is None else an_object(value, where, name)).items():
        rounded = 1.0 if isinstance(rate, float) and 1.0 < rate < 1.0 + 1e-9 else rate
        rates[length_key(key, where, name)] = fraction(rounded, where, f"{name}.{key}")
    return rates


def _check_means(means: dict[str, float], lengths: dict[int, int], where: str) -> None:
    """Raise if a mean lies outside the lengths that rounds had, as one without the bonus token may."""
    shortest, longest = min(lengths), max(lengths)
    for place, mean in means.items():
        if not 0.99 * shortest <= mean <= 1.01 * longest:
            raise BadInput(
                f"is no mean of lengths from {shortest} to {longest}",
                file=where,
                field=place,
                value=mean,
                remedy="a length counts the bonus token; export the file again",
            )


def _without_rounds(record: dict[str, Any], means: dict[str, float], where: str, labels: dict[str, Any]) -> Observation:
    marginal = _marginal(record, where)
    if marginal is not None:
        length = 1.0 + sum(marginal)
        return Observation(is_request=False, marginal_acceptance=marginal, mean_acceptance_length=length, labels=labels)
    requests = [mean for place, mean in means.items() if place.startswith(_REQUESTS)]
    averages = [means[name] for name in _AVERAGES if name in means] or (
        [sum(requests) / len(requests)] if requests else []
    )
    if not any(averages):
        return Observation(by_accepted=[], labels=labels)
    length = number(averages[0], where, _AVERAGES[0], minimum=1.0)
    return Observation(is_request=False, mean_acceptance_length=length, labels=labels, notes=(_ONLY_AVERAGE,))


def _marginal(record: dict[str, Any], where: str) -> list[float] | None:
    """Marginal acceptance from the rates alone; a length that no round had is reached as often as the next longer."""
    reached = 1.0
    joint = {}
    for length, rate in sorted(_rates(record.get(_CONDITIONAL), where, _CONDITIONAL).items()):
        joint[length] = reached = reached * rate
    stated = _rates(record.get(_JOINT), where, _JOINT)
    for length in joint.keys() & stated.keys():
        expect_close(stated[length], joint[length], where, f"{_JOINT}.{length}", f"the product of {_CONDITIONAL}")
    joint = {length: rate for length, rate in sorted((stated or joint).items()) if length}
    if not joint:
        return None
    if abs(next(iter(joint.values())) - 1.0) > 1e-6 or any(later > rate for rate, later in pairwise(joint.values())):
        raise BadInput(
            "must read 1 at the smallest length and never rise",
            file=where,
            field=_JOINT if stated else _CONDITIONAL,
            value=joint,
            remedy="keys are lengths that count the bonus token, not draft positions",
        )
    marginal: list[float] = []
    for length in range(max(joint), 1, -1):
        marginal.append(joint.get(length, marginal[-1] if marginal else 0.0))
    return marginal[::-1]
