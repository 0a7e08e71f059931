"""What makes a profile impossible: fields that contradict each other, or numbers that no run can give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic_core import PydanticCustomError

from specbook.acceptance.estimates import acceptance_from_counts, by_accepted, totals, weighted

if TYPE_CHECKING:
    from specbook.acceptance.profile import AcceptanceProfile

# Derived figures follow from counts exactly; sources print vectors with three digits or four.
_DERIVED_TOLERANCE = 1e-6
_PRINTED_TOLERANCE = 0.01

# Published lengths differ from the sum of published positions by up to 0.05, through rounding and averaging.
_AVERAGING_TOLERANCE = 0.1

_NEEDED = {
    "counts": "rounds_by_drafted",
    "marginal": "marginal_acceptance",
    "conditional": "conditional_acceptance",
    "rank": "tree",
    "mean_length": "mean_acceptance_length",
    "draft_rate": "draft_acceptance_rate",
}


def check_profile(profile: AcceptanceProfile) -> None:
    """Raise at the first contradiction.

    Raises
    ------
    PydanticCustomError
        With the field, its value and the remedy in the context.
    """
    for check in (
        _check_evidence,
        _check_rows,
        _check_totals,
        _check_vectors,
        _check_derived,
        _check_length,
        _check_identity,
        _check_intervals,
    ):
        check(profile)


def _impossible(problem: str, field: str, value: Any, remedy: str) -> PydanticCustomError:
    context = {"problem": problem, "field": field, "value": value, "remedy": remedy}
    return PydanticCustomError("impossible_profile", "{problem}", context)


def _check_evidence(profile: AcceptanceProfile) -> None:
    needed = _NEEDED[profile.evidence]
    if getattr(profile, needed) is None:
        remedy = "name the evidence that the profile holds"
        raise _impossible(f"needs the field {needed}", "evidence", profile.evidence, remedy)


def _check_rows(profile: AcceptanceProfile) -> None:
    for drafted, row in (profile.table() or {}).items():
        if len(row) != drafted + 1:
            problem = f"needs {drafted + 1} counts, for 0 to {drafted} accepted tokens"
            remedy = "a round cannot accept more than it drafted"
            raise _impossible(problem, f"rounds_by_drafted.{drafted}", row, remedy)


def _check_totals(profile: AcceptanceProfile) -> None:
    drafted, accepted, rounds = profile.n_drafted_tokens, profile.n_accepted_tokens, profile.n_rounds
    if drafted is not None and accepted is not None and accepted > drafted:
        problem = f"more tokens accepted than drafted ({drafted})"
        raise _impossible(problem, "n_accepted_tokens", accepted, "exchange or correct them")
    for field, expected in _counted(profile):
        value = getattr(profile, field)
        if value != expected:
            raise _impossible(f"does not match the round counts, which give {expected}", field, value, "correct either")
    mean = profile.mean_acceptance_length
    if (
        rounds
        and accepted is not None
        and mean is not None
        and abs(1.0 + accepted / rounds - mean) > _DERIVED_TOLERANCE
    ):
        problem = f"is not 1 + accepted / rounds = {1.0 + accepted / rounds:.6f}"
        remedy = "it counts the bonus token; correct it or the counts"
        raise _impossible(problem, "mean_acceptance_length", mean, remedy)


def _counted(profile: AcceptanceProfile) -> Iterator[tuple[str, Any]]:
    """Fields that the round counts fix, with their values."""
    table = profile.table()
    if table is not None:
        yield from zip(("n_rounds", "n_drafted_tokens", "n_accepted_tokens"), totals(table), strict=True)
        if profile.rounds_by_accepted is not None:
            yield "rounds_by_accepted", by_accepted(table)
    elif profile.rounds_by_accepted is not None:
        yield "n_rounds", sum(profile.rounds_by_accepted)
        yield "n_accepted_tokens", weighted(profile.rounds_by_accepted)


def _check_derived(profile: AcceptanceProfile) -> None:
    drafted, accepted, rate = profile.n_drafted_tokens, profile.n_accepted_tokens, profile.draft_acceptance_rate
    if drafted and accepted is not None and rate is not None and abs(accepted / drafted - rate) > _DERIVED_TOLERANCE:
        problem = f"is not accepted / drafted = {accepted / drafted:.6f}"
        raise _impossible(problem, "draft_acceptance_rate", rate, "it is a fraction; correct it or the counts")
    table = profile.table()
    if table is None:
        return
    for field, derived in zip(
        ("marginal_acceptance", "conditional_acceptance"), acceptance_from_counts(table), strict=True
    ):
        stated = getattr(profile, field)
        if stated is not None and not _same(stated, derived):
            shown = [None if np.isnan(value) else round(float(value), 6) for value in derived]
            raise _impossible(f"does not match the round counts, which give {shown}", field, stated, "correct either")


def _same(stated: Sequence[float | None], derived: np.ndarray) -> bool:
    values = np.array([np.nan if value is None else value for value in stated])
    return values.shape == derived.shape and np.allclose(values, derived, atol=_DERIVED_TOLERANCE, equal_nan=True)


def _check_length(profile: AcceptanceProfile) -> None:
    length, table = profile.draft_length, profile.table()
    if length is None:
        return
    longest = max((drafted for drafted, row in (table or {}).items() if sum(row)), default=length)
    if longest != length:
        problem = f"does not match the round counts, whose longest draft is {longest}"
        raise _impossible(problem, "draft_length", length, "correct either; null if it varied")
    if profile.mean_acceptance_length is not None and profile.mean_acceptance_length > length + 1 + _DERIVED_TOLERANCE:
        problem = f"a round of {length} drafts yields at most {length + 1} tokens"
        raise _impossible(
            problem, "mean_acceptance_length", profile.mean_acceptance_length, "correct it or draft_length"
        )
    for field in ("marginal_acceptance", "conditional_acceptance"):
        vector = getattr(profile, field)
        if vector is not None and len(vector) > length:
            problem = f"has more positions than the {length} that were drafted"
            raise _impossible(problem, field, vector, "correct it or draft_length")
    accepted, rounds = profile.n_accepted_tokens, profile.n_rounds
    if accepted is not None and rounds is not None and accepted > length * rounds:
        problem = f"{rounds} rounds of {length} drafts cannot accept that many"
        raise _impossible(problem, "n_accepted_tokens", accepted, "correct it or draft_length")


def _check_intervals(profile: AcceptanceProfile) -> None:
    intervals = profile.intervals
    if intervals is None:
        return
    pairs = [intervals.mean_acceptance_length, *intervals.marginal_acceptance]
    for lower, upper in pairs:
        if lower > upper:
            remedy = "the lower end comes first"
            raise _impossible("ends before it begins", "intervals", [lower, upper], remedy)


def _check_identity(profile: AcceptanceProfile) -> None:
    marginal, mean = profile.marginal_acceptance, profile.mean_acceptance_length
    if marginal is None or mean is None or profile.draft_length != len(marginal) or profile.table() is not None:
        return
    if abs(1.0 + sum(marginal) - mean) > _AVERAGING_TOLERANCE:
        problem = f"is not 1 + the sum of marginal_acceptance = {1.0 + sum(marginal):.3f}"
        raise _impossible(problem, "mean_acceptance_length", mean, "it counts the bonus token; correct either")


def _check_vectors(profile: AcceptanceProfile) -> None:
    marginal = profile.marginal_acceptance or []
    for position, (before, after) in enumerate(pairwise(marginal), start=2):
        if after > before:
            problem = f"rises at position {position}, from {before:g} to {after:g}"
            remedy = "these may be conditional values: name them conditional_acceptance"
            raise _impossible(problem, "marginal_acceptance", marginal, remedy)
    conditional = [value for value in profile.conditional_acceptance or [] if value is not None]
    product = np.cumprod(conditional)
    for position, (stated, implied) in enumerate(zip(marginal, product, strict=False), start=1):
        if abs(stated - implied) > _PRINTED_TOLERANCE:
            problem = (
                f"does not multiply to marginal_acceptance: {implied:.3f} against {stated:g} at position {position}"
            )
            remedy = "one vector may stand under both names"
            raise _impossible(problem, "conditional_acceptance", conditional, remedy)
