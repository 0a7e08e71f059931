"""NVIDIA Model-Optimizer ``speculation_profile.json``: what a draft checkpoint accepts, to travel beside it.

Both vectors are given and named, with the mean over rounds and the histogram they come from. A profile that does not
keep 1 + sum of marginal = mean length is refused; an earlier producer wrote such (modeloptimizer2315).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from specbook.acceptance.readers.model_optimizer import by_accepted, lengths_of, survival
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    a_list,
    an_object,
    expect_close,
    fractions,
    number,
    text,
    whole,
)
from specbook.checks import BadInput

NAME = "speculation-profile"
WARNINGS: tuple[str, ...] = ()
CUMULATIVE = False

_CONDITIONAL, _MARGINAL = "conditional_accept_rates", "marginal_accept_rates"
_LENGTH, _HISTOGRAM = "mean_accept_length", "acceptance_length_histogram"
_METHODS = {"draft": "draft_model", "draft_target": "draft_model", "none": "none"}
_KNOWN = frozenset({"draft_model", "eagle", "eagle2", "eagle3", "medusa", "mtp", "ngram", "dflash", "dspark"})

# Producers round to six digits, people who copy to three: half a unit on each of two factors and their product.
_PRINTED = 0.0015

_NOT_SERVED = "measured beside the training, without a serving engine: what a server accepts may be less"
_BLOCK = "drafts were verified as blocks, so that acceptance of a position is not that of a longest matching prefix"


def recognises(record: Any) -> bool:
    """Whether the record is a speculation profile."""
    return isinstance(record, dict) and _CONDITIONAL in record and _MARGINAL in record


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the profile; a stub that says it was not measured yields nothing."""
    if str(record.get("schema_version", 1)).split(".")[0] != "1":
        remedy = "this is written for version 1"
        raise BadInput(
            "unknown version", file=where, field="schema_version", value=record["schema_version"], remedy=remedy
        )
    if record.get("measured") is False:
        yield Observation(by_accepted=[])
        return
    labels = _labels(record, where)
    lengths = lengths_of(record.get(_HISTOGRAM), where, _HISTOGRAM)
    marginal, conditional = _vectors(record, labels.get("draft_length"), where)
    _check_product(marginal, conditional, where)
    if lengths:
        _check_histogram(lengths, marginal, record, labels.get("draft_length"), where)
    yield Observation(
        is_request=False,
        labels=labels,
        by_accepted=by_accepted(lengths) if lengths else None,
        marginal_acceptance=marginal,
        conditional_acceptance=conditional,
        mean_acceptance_length=_mean(record, marginal, where),
        mean_acceptance_length_per_request=_mean_per_request(record, where),
        notes=tuple(_notes(record)),
    )


def _mean_per_request(record: dict[str, Any], where: str) -> float | None:
    name = "mean_accept_length_per_request"
    return None if record.get(name) is None else number(record[name], where, name, minimum=1.0)


def _labels(record: dict[str, Any], where: str) -> dict[str, Any]:
    conditions = an_object(record.get("measurement_conditions") or {}, where, "measurement_conditions")
    labels: dict[str, Any] = {
        "target": _model(record.get("target_model"), where, "target_model"),
        "drafter": _model(record.get("draft_checkpoint"), where, "draft_checkpoint"),
        "method": _method(text(record.get("method"), where, "method")),
        "domain": text(conditions.get("dataset"), where, "measurement_conditions.dataset"),
    }
    if conditions.get("temperature") is not None:
        place = "measurement_conditions.temperature"
        labels["temperature"] = number(conditions["temperature"], where, place, maximum=100.0)
    if record.get("num_speculative_tokens") is not None:
        length = whole(record["num_speculative_tokens"], where, "num_speculative_tokens")
        labels["draft_length"] = length
        if length > LONGEST_DRAFT:
            raise BadInput(
                "is beyond any engine",
                file=where,
                field="num_speculative_tokens",
                value=length,
                remedy="export the file again",
            )
    return {name: value for name, value in labels.items() if value is not None}


def _method(name: str | None) -> str | None:
    """The method as profiles name it; an unknown one as it stands."""
    known = (name or "").lower()
    return _METHODS.get(known, known if known in _KNOWN else name or None)


def _model(value: Any, where: str, name: str) -> str | None:
    """Name of a checkpoint, given as such or in an object that describes it."""
    if isinstance(value, dict):
        for key in ("name", "id", "model", "checkpoint", "path"):
            if isinstance(value.get(key), str):
                return text(value[key], where, f"{name}.{key}")
    return text(value, where, name)


def _vectors(
    record: dict[str, Any], length: int | None, where: str
) -> tuple[list[float] | None, list[float | None] | None]:
    """Both vectors as stated; after a position that is never accepted, a conditional rate says nothing."""
    vectors: list[list[float] | None] = []
    for name in (_MARGINAL, _CONDITIONAL):
        if record[name] is None:
            vectors.append(None)
            continue
        n_positions = len(a_list(record[name], where, name))
        if length is not None and n_positions != length:
            raise BadInput(
                f"has {n_positions} positions for num_speculative_tokens = {length}",
                file=where,
                field=name,
                remedy="export the file again; one of the two was cut or edited",
            )
        vectors.append(fractions(record[name], where, name))
    marginal, conditional = vectors
    if marginal is None or conditional is None:
        return marginal, None if conditional is None else [*conditional]
    before = [1.0, *marginal]
    return marginal, [rate if before[i] > 0.0 else None for i, rate in enumerate(conditional[: len(before)])]


def _check_product(marginal: list[float] | None, conditional: Sequence[float | None] | None, where: str) -> None:
    """Raise unless each marginal rate is the one before it times the conditional rate."""
    if marginal is None or conditional is None:
        return
    if len(marginal) != len(conditional):
        problem = f"has {len(conditional)} positions where {_MARGINAL} has {len(marginal)}"
        raise BadInput(problem, file=where, field=_CONDITIONAL, remedy="export the file again")
    before = 1.0
    for index, (joint, rate) in enumerate(zip(marginal, conditional, strict=True)):
        if abs(before * (rate or 0.0) - joint) > _PRINTED:
            raise BadInput(
                f"is not {_MARGINAL}[{index - 1}] × {_CONDITIONAL}[{index}]" if index else f"is not {_CONDITIONAL}[0]",
                file=where,
                field=f"{_MARGINAL}[{index}]",
                value=joint,
                remedy="one vector may stand under both names",
            )
        before = joint


def _check_histogram(
    lengths: dict[int, int], marginal: list[float] | None, record: dict[str, Any], length: int | None, where: str
) -> None:
    """Raise if the vector or the mean does not follow from the rounds, or a round accepted more than was drafted."""
    shares = survival(lengths)
    longest = max(lengths) - 1
    if length is not None and longest > length:
        raise BadInput(
            f"a round accepted {longest} tokens",
            file=where,
            field="num_speculative_tokens",
            value=length,
            remedy="the draft length of the run is understated; correct it",
        )
    for index, rate in enumerate(marginal or []):
        share = shares[index + 2] if index + 2 < len(shares) else 0.0
        if abs(rate - share) > _PRINTED:
            raise BadInput(
                f"does not match {_HISTOGRAM}, which gives {share:.4f}",
                file=where,
                field=f"{_MARGINAL}[{index}]",
                value=rate,
                remedy="position i is length i + 1, which counts the bonus token",
            )
    mean = sum(emitted * count for emitted, count in lengths.items()) / sum(lengths.values())
    expect_close(record.get(_LENGTH), mean, where, _LENGTH, _HISTOGRAM, tolerance=0.001)


def _mean(record: dict[str, Any], marginal: list[float] | None, where: str) -> float | None:
    """The mean over rounds, which must be 1 + the sum of the marginal rates."""
    mean = None if record.get(_LENGTH) is None else number(record[_LENGTH], where, _LENGTH, minimum=1.0)
    if marginal is None:
        return mean
    expect_close(mean, 1.0 + sum(marginal), where, _LENGTH, f"1 + the sum of {_MARGINAL}", tolerance=0.002)
    return mean


def _notes(record: dict[str, Any]) -> Iterator[str]:
    if record.get("producer") == "ar_validate":
        yield _NOT_SERVED
    if record.get("verification_method") == "block":
        yield _BLOCK
