"""The acceptance profile, ``specbook-acceptance/1``: what a source says about acceptance, and no more.

Integer counts are kept wherever the source has them; a weaker source gives a weaker profile, and ``evidence`` says
which. What cannot be known from the source is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specbook.acceptance.yields import conditional_from_marginal
from specbook.checks import Floats
from specbook.files import dump_model, read_model, write_text

Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Length = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Evidence = Literal["counts", "marginal", "conditional", "rank", "mean_length", "draft_rate"]

# Sources round what they print; a stated mean may be off by this much from the one that its own counts give.
MEAN_TOLERANCE = 1e-6


class Provenance(BaseModel):
    """Where a profile came from: one entry a source file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str | None = Field(default=None, description="Name of the source file; null for figures taken from a page.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    format: str = Field(description="The reader that read it, or `published`.")
    n_requests: Count | None = None
    source: str | None = Field(default=None, description="Where the file or the figures were published.")


class TreeYield(BaseModel):
    """What is known of a tree drafter: acceptance by depth, and the size of the tree if the source has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth_acceptance: list[Probability]
    n_nodes: Count | None = None


class AcceptanceProfile(BaseModel):
    """Acceptance evidence for one pair of target and drafter, domain and temperature.

    Examples
    --------
    >>> profile = profile_from_counts({2: [1, 1, 2]}, draft_length=2, target="t")
    >>> profile.mean_acceptance_length, profile.marginal_acceptance
    (2.25, [0.75, 0.5])
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["specbook-acceptance/1"] = Field("specbook-acceptance/1", alias="schema")
    target: str | None = Field(None, description="Target model, as the source names it.")
    drafter: str | None = Field(None, description="Draft model or head, as the source names it.")
    method: str | None = Field(None, description="Drafting method: draft_model, eagle, medusa, mtp, ngram, none, …")
    domain: str | None = Field(None, description="What the prompts were about: code, math, conversation, …")
    temperature: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = Field(
        None, description="Sampling temperature; 0 is greedy."
    )
    draft_length: Count | None = Field(None, description="Tokens drafted in every round (K); null if it varied.")
    evidence: Evidence = Field(description="The strongest thing that the source holds.")
    rounds_by_drafted: dict[Annotated[str, Field(pattern=r"^(0|[1-9]\d*)$")], list[Count]] | None = Field(
        None, description="Drafted tokens → number of rounds by accepted tokens (index 0 to drafted)."
    )
    rounds_by_accepted: list[Count] | None = Field(
        None, description="Number of rounds by accepted tokens, whatever was drafted."
    )
    n_rounds: Count | None = None
    n_drafted_tokens: Count | None = None
    n_accepted_tokens: Count | None = None
    mean_acceptance_length: Length | None = Field(
        None, description="Tokens per round, the bonus token included, pooled over rounds."
    )
    mean_acceptance_length_per_request: Length | None = Field(
        None, description="The same for each request, then averaged over requests with equal weight."
    )
    draft_acceptance_rate: Probability | None = Field(None, description="Accepted ÷ drafted tokens.")
    marginal_acceptance: list[Probability] | None = Field(
        None, description="Probability that positions 1..i are all accepted; never rises."
    )
    conditional_acceptance: list[Probability | None] | None = Field(
        None, description="Probability that position i is accepted given that i−1 was; null where never reached."
    )
    tree: TreeYield | None = Field(
        None, description="Set for tree drafters, to which the chain formula does not apply."
    )
    intervals: dict[str, list[float]] | None = None
    warnings: list[str] = []
    provenance: list[Provenance] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        for check in (_check_rows, _check_totals, _check_marginal, _check_evidence):
            check(self)
        return self


def _impossible(problem: str, field: str, value: Any, remedy: str) -> PydanticCustomError:
    return PydanticCustomError(
        "impossible_profile", "{problem}", {"problem": problem, "field": field, "value": value, "remedy": remedy}
    )


def _check_rows(profile: AcceptanceProfile) -> None:
    for drafted, row in (profile.rounds_by_drafted or {}).items():
        if len(row) != int(drafted) + 1:
            raise _impossible(
                f"needs {int(drafted) + 1} counts, for 0 to {drafted} accepted tokens",
                f"rounds_by_drafted.{drafted}",
                row,
                "a round cannot accept more than it drafted",
            )


def _check_totals(profile: AcceptanceProfile) -> None:
    drafted, accepted, rounds = profile.n_drafted_tokens, profile.n_accepted_tokens, profile.n_rounds
    if drafted is not None and accepted is not None and accepted > drafted:
        raise _impossible(
            f"more tokens accepted than drafted ({drafted})", "n_accepted_tokens", accepted, "exchange or correct them"
        )
    for field, expected in _counted(profile).items():
        value = getattr(profile, field)
        if value != expected:
            raise _impossible(f"does not match the round counts, which give {expected}", field, value, "correct either")
    if rounds and accepted is not None and profile.mean_acceptance_length is not None:
        mean = 1.0 + accepted / rounds
        if abs(mean - profile.mean_acceptance_length) > MEAN_TOLERANCE:
            raise _impossible(
                f"is not 1 + accepted / rounds = {mean:.6f}",
                "mean_acceptance_length",
                profile.mean_acceptance_length,
                "it counts the bonus token; correct it or the counts",
            )


def _counted(profile: AcceptanceProfile) -> dict[str, int]:
    if profile.rounds_by_drafted is not None:
        table = {int(k): row for k, row in profile.rounds_by_drafted.items()}
        return {
            "n_rounds": sum(map(sum, table.values())),
            "n_drafted_tokens": sum(drafted * sum(row) for drafted, row in table.items()),
            "n_accepted_tokens": sum(_weighted(row) for row in table.values()),
        }
    if profile.rounds_by_accepted is not None:
        row = profile.rounds_by_accepted
        return {"n_rounds": sum(row), "n_accepted_tokens": _weighted(row)}
    return {}


def _weighted(row: Sequence[int]) -> int:
    return sum(accepted * count for accepted, count in enumerate(row))


def _check_marginal(profile: AcceptanceProfile) -> None:
    marginal = profile.marginal_acceptance or []
    for position, (before, after) in enumerate(pairwise(marginal), start=2):
        if after > before:
            raise _impossible(
                f"rises at position {position}, from {before:g} to {after:g}",
                "marginal_acceptance",
                marginal,
                "these may be conditional values: name them conditional_acceptance",
            )


def _check_evidence(profile: AcceptanceProfile) -> None:
    needed = {
        "counts": "rounds_by_drafted",
        "marginal": "marginal_acceptance",
        "conditional": "conditional_acceptance",
        "rank": "tree",
        "mean_length": "mean_acceptance_length",
        "draft_rate": "draft_acceptance_rate",
    }[profile.evidence]
    if getattr(profile, needed) is None:
        raise _impossible(
            f"needs the field {needed}", "evidence", profile.evidence, "name the evidence that the profile holds"
        )


def acceptance_from_counts(rounds_by_drafted: Mapping[int, Sequence[int]]) -> tuple[Floats, Floats]:
    """Marginal and conditional acceptance from the table of rounds.

    Position ``i`` is judged only in rounds that drafted it and accepted the positions before, so that rounds with
    shorter drafts do not count as rejections; where drafts vary, the marginal is the product of the conditionals
    (the product-limit estimator). Where every round drafted alike, both are plain shares of rounds.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        Drafted tokens → number of rounds by accepted tokens.

    Returns
    -------
    marginal, conditional : (n_positions,) ndarray of float64
        Up to the first position that could not be judged; conditional is NaN where no round reached a position
        because the position before was never accepted.

    References
    ----------
    kaplan1958

    Examples
    --------
    >>> marginal, conditional = acceptance_from_counts({1: [0, 5], 2: [2, 1, 2]})
    >>> print(marginal, conditional.round(4))
    [0.8        0.53333333] [0.8    0.6667]
    """
    reached, survived = _risk_table(rounds_by_drafted)
    judged = (reached > 0) | (np.concatenate([[1], survived[:-1]])[: survived.size] == 0)
    n_positions = int(np.argmin(judged)) if not judged.all() else judged.size
    reached, survived = reached[:n_positions], survived[:n_positions]
    unknown = np.full(n_positions, np.nan)
    conditional = np.divide(survived, reached, out=unknown, where=reached > 0)
    n_lengths = sum(1 for row in rounds_by_drafted.values() if sum(row))
    if n_lengths == 1 and n_positions:
        return survived / reached[0], conditional
    return np.cumprod(np.nan_to_num(conditional)), conditional


def _risk_table(rounds_by_drafted: Mapping[int, Sequence[int]]) -> tuple[Floats, Floats]:
    longest = max((drafted for drafted, row in rounds_by_drafted.items() if sum(row)), default=0)
    reached, survived = np.zeros(longest), np.zeros(longest)
    for drafted, row in rounds_by_drafted.items():
        at_least = np.cumsum(np.asarray(row, dtype=np.float64)[::-1])[::-1]  # rounds accepting i or more
        reached[:drafted] += at_least[:drafted]
        survived[:drafted] += at_least[1 : drafted + 1]
    return reached, survived


def profile_from_counts(
    rounds_by_drafted: Mapping[int, Sequence[int]], *, warnings: Sequence[str] = (), **labels: Any
) -> AcceptanceProfile:
    """Profile with evidence ``counts`` from the table of rounds.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        Drafted tokens → number of rounds by accepted tokens, 0 to drafted.
    warnings : sequence of str
        What the reader of the profile should know.
    **labels
        Other fields of :class:`AcceptanceProfile`: target, drafter, method, domain, temperature, draft_length, …

    Raises
    ------
    ValueError
        If the counts are impossible.

    Examples
    --------
    >>> profile_from_counts({3: [1, 0, 1, 2]}).conditional_acceptance
    [0.75, 1.0, 0.6666666666666666]
    """
    table = {drafted: list(row) for drafted, row in sorted(rounds_by_drafted.items())}
    marginal, conditional = acceptance_from_counts(table)
    by_accepted = np.zeros(max(map(len, table.values()), default=0), dtype=np.int64)
    for row in table.values():
        by_accepted[: len(row)] += np.asarray(row, dtype=np.int64)
    n_rounds, n_accepted = int(by_accepted.sum()), _weighted(by_accepted.tolist())
    n_drafted = sum(drafted * sum(row) for drafted, row in table.items())
    varied = sum(1 for row in table.values() if sum(row)) > 1
    note = ["draft length varied: position i is judged only in rounds that drafted it, so 1 + the sum of "
            "marginal_acceptance is the length had every round drafted in full"] if varied else []  # fmt: skip
    return AcceptanceProfile(
        evidence="counts",
        rounds_by_drafted={str(drafted): row for drafted, row in table.items()},
        rounds_by_accepted=by_accepted.tolist(),
        n_rounds=n_rounds,
        n_drafted_tokens=n_drafted,
        n_accepted_tokens=n_accepted,
        mean_acceptance_length=1.0 + n_accepted / n_rounds if n_rounds else None,
        draft_acceptance_rate=n_accepted / n_drafted if n_drafted else None,
        marginal_acceptance=marginal.tolist(),
        conditional_acceptance=_null_for_nan(conditional),
        warnings=[*warnings, *note],
        **labels,
    )


def profile_from_accepted(
    rounds_by_accepted: Sequence[int], *, warnings: Sequence[str] = (), **labels: Any
) -> AcceptanceProfile:
    """Profile with evidence ``marginal`` from rounds by accepted tokens, where nobody wrote down what was drafted.

    Parameters
    ----------
    rounds_by_accepted : sequence of int
        Number of rounds that accepted 0, 1, 2, … draft tokens; at least one round.
    warnings, **labels
        As in :func:`profile_from_counts`.

    Examples
    --------
    >>> profile = profile_from_accepted([1, 1, 2])
    >>> profile.marginal_acceptance, profile.n_drafted_tokens
    ([0.75, 0.5], None)
    """
    counts = np.trim_zeros(np.asarray(rounds_by_accepted, dtype=np.int64), "b")
    n_rounds, n_accepted = int(counts.sum()), _weighted(counts.tolist())
    marginal = np.cumsum(counts[::-1])[::-1][1:] / n_rounds
    return AcceptanceProfile(
        evidence="marginal",
        rounds_by_accepted=counts.tolist(),
        n_rounds=n_rounds,
        n_accepted_tokens=n_accepted,
        mean_acceptance_length=1.0 + n_accepted / n_rounds,
        marginal_acceptance=marginal.tolist(),
        conditional_acceptance=_null_for_nan(conditional_from_marginal(marginal)),
        warnings=list(warnings),
        **labels,
    )


def _null_for_nan(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def read_profile(path: Path) -> AcceptanceProfile:
    """Read and check a ``specbook-acceptance/1`` file.

    Raises
    ------
    BadInput
        If the file cannot be read, is another schema, or holds an impossible number.
    """
    return read_model(path, AcceptanceProfile)


def write_profile(profile: AcceptanceProfile, path: Path) -> None:
    """Write a profile atomically."""
    write_text(path, dump_model(profile))
