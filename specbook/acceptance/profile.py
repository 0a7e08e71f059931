"""The acceptance profile, ``specbook-acceptance/1``: what a source says about acceptance, and no more.

Integer counts are kept wherever the source has them; a weaker source gives a weaker profile, and ``evidence`` says
which. What cannot be known from the source is null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from specbook.acceptance.estimates import acceptance_from_counts, by_accepted, totals, weighted
from specbook.acceptance.profile_checks import check_profile
from specbook.acceptance.yields import conditional_from_marginal
from specbook.checks import Floats, check_counts
from specbook.files import dump_model, read_model, write_text

Probability = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Length = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Evidence = Literal["counts", "marginal", "conditional", "rank", "mean_length", "draft_rate"]


class Provenance(BaseModel):
    """Where a profile came from: one entry a source file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str | None = Field(default=None, description="Name of the source file; null for figures taken from a page.")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    format: str = Field(description="The reader that read it, or `published`.")
    n_requests: Count | None = None
    source: str | None = Field(default=None, description="Where the file or the figures were published.")
    key: str | None = Field(default=None, description="Key of references.bib.")


class TreeYield(BaseModel):
    """What is known of a tree drafter: acceptance by depth, and the size of the tree if the source has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth_acceptance: list[Probability]
    n_nodes: Count | None = None
    rank_acceptance: list[Probability | None] | None = Field(
        default=None, description="Probability that the r-th sibling is accepted once it is tried; null where none was."
    )


class Measurement(BaseModel):
    """How the native engine measured a profile: enough to do it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: str = Field(description="specbook and its version.")
    arithmetic: Literal["exact", "fast", "ref64", "naive"]
    blas: dict[str, str | int] = Field(description="Library, version, kernel family and threads.")
    seed: Annotated[int, Field(ge=0, le=2**53)]
    n_prompts: Annotated[int, Field(ge=1, le=2**53)]
    max_new_tokens: Annotated[int, Field(ge=1, le=2**53)]
    n_new_tokens: Count
    top_k: Count = 0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    parents: list[int] = Field(description="Parent of each node that a round may draft; -1 is the last token.")
    cut: str | None = Field(
        default=None, description="Where drafts stop early, such as entropy:1.5; null for a fixed shape."
    )
    replication: Annotated[int, Field(ge=1, le=4096)] = Field(default=1, description="The cost dial R of the target.")
    weights_sha256: dict[str, str] = Field(description="File of weights → SHA-256.")
    draft_s: float | None = Field(
        default=None, description="Median seconds of drafting in a round, on the measuring machine."
    )
    verify_s: float | None = Field(default=None, description="Median seconds of the target's pass.")
    accept_s: float | None = Field(default=None, description="Median seconds of acceptance and bookkeeping.")


Interval = tuple[Annotated[float, Field(allow_inf_nan=False)], Annotated[float, Field(allow_inf_nan=False)]]


class Intervals(BaseModel):
    """Lower and upper end of 95 % intervals from prompts drawn again with replacement."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["cluster bootstrap over prompts"] = "cluster bootstrap over prompts"
    level: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.95
    n_prompts: Annotated[int, Field(ge=2, le=2**53)]
    n_replicates: Annotated[int, Field(ge=1, le=2**53)]
    seed: Annotated[int, Field(ge=0, le=2**53)]
    mean_acceptance_length: Interval
    mean_acceptance_length_per_request: Interval | None = None
    draft_acceptance_rate: Interval | None = None
    marginal_acceptance: list[Interval] = Field([], description="One a position, up to the 32nd.")
    conditional_acceptance: list[Interval | None] = Field([], description="Null where a resample never got there.")


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
    draft_length: Annotated[int, Field(ge=0, le=4096)] | None = Field(
        None, description="Tokens that rounds drafted (K), all but a few cut at the end; null if it varied."
    )
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
    expected_acceptance: list[Probability | None] | None = Field(
        None,
        description="Mean of 1 − TV(target, draft) at position i over rounds that reached it; sampled drafts only.",
    )
    tree: TreeYield | None = Field(
        None, description="Set for tree drafters, to which the chain formula does not apply."
    )
    intervals: Intervals | None = Field(
        None, description="95 % intervals over prompts; null where the source holds totals, or too few prompts."
    )
    measurement: Measurement | None = Field(None, description="Set where the native engine measured it.")
    stated_labels: list[str] = Field([], description="Labels that were stated at import, not by the source.")
    warnings: list[str] = []
    provenance: list[Provenance] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_profile(self)
        return self

    def table(self) -> dict[int, list[int]] | None:
        """``rounds_by_drafted`` with whole numbers for keys."""
        if self.rounds_by_drafted is None:
            return None
        return {int(drafted): row for drafted, row in self.rounds_by_drafted.items()}


VARIED = (
    "draft length varied: position i is judged only in rounds that drafted it, which is unbiased if the length of a "
    "draft did not depend on how likely it was to be accepted; drafters that stop by confidence break that"
)


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
    n_rounds, n_drafted, n_accepted = totals(table)
    marginal, conditional = acceptance_from_counts(table)
    varied = sum(1 for row in table.values() if sum(row)) > 1
    note = [VARIED] if varied else []
    return AcceptanceProfile(
        evidence="counts",
        rounds_by_drafted={str(drafted): row for drafted, row in table.items()},
        rounds_by_accepted=by_accepted(table),
        n_rounds=n_rounds,
        n_drafted_tokens=n_drafted,
        n_accepted_tokens=n_accepted,
        mean_acceptance_length=1.0 + n_accepted / n_rounds if n_rounds else None,
        draft_acceptance_rate=n_accepted / n_drafted if n_drafted else None,
        marginal_acceptance=marginal.tolist(),
        conditional_acceptance=null_for_nan(conditional),
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

    Raises
    ------
    ValueError
        If there is no round, or a count is negative or not whole.

    Examples
    --------
    >>> profile = profile_from_accepted([1, 1, 2])
    >>> profile.marginal_acceptance, profile.n_drafted_tokens
    ([0.75, 0.5], None)
    """
    counts = np.trim_zeros(check_counts("rounds_by_accepted", rounds_by_accepted), "b")
    if not counts.size:
        raise ValueError("rounds_by_accepted must hold at least one round")
    n_rounds, n_accepted = int(counts.sum()), weighted(counts.tolist())
    marginal = np.cumsum(counts[::-1])[::-1][1:] / n_rounds
    return AcceptanceProfile(
        evidence="marginal",
        rounds_by_accepted=counts.tolist(),
        n_rounds=n_rounds,
        n_accepted_tokens=n_accepted,
        mean_acceptance_length=1.0 + n_accepted / n_rounds,
        marginal_acceptance=marginal.tolist(),
        conditional_acceptance=null_for_nan(conditional_from_marginal(marginal)),
        warnings=list(warnings),
        **labels,
    )


def null_for_nan(values: Floats) -> list[float | None]:
    """A vector as JSON can carry it.

    Examples
    --------
    >>> null_for_nan(np.array([0.8, np.nan]))
    [0.8, None]
    """
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
