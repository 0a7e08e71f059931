"""The profile that a pool gives: as strong as its weakest observation, with what it cannot say written beside."""

from __future__ import annotations

from typing import Any

import numpy as np

from specbook.acceptance.estimates import weighted
from specbook.acceptance.importing.clusters import FEWEST_PROMPTS
from specbook.acceptance.importing.pool import Pool, dense
from specbook.acceptance.profile import (
    VARIED,
    AcceptanceProfile,
    Evidence,
    TreeYield,
    null_for_nan,
    profile_from_accepted,
    profile_from_counts,
)
from specbook.acceptance.readers.observation import Table
from specbook.acceptance.readers.values import MOSTLY
from specbook.acceptance.yields import conditional_from_marginal, marginal_from_conditional
from specbook.checks import BadInput

_TREE = "a tree drafter: positions are depths of the accepted path, and the chain formula does not apply"
_LOWER_BOUND = (
    "where a draft was shorter than a position, the position counts as not accepted: late positions are lower bounds"
)
_WEAKEST = "records differ in what they hold; the profile says what all of them say"
_RISING = (
    "acceptance by position rises, so the length of a draft depended on how likely it was to be accepted; positions "
    "are left out"
)
_NO_ROUNDS = "not every request has rounds and accepted tokens: no intervals"
_TOTALS = "the source holds totals of a run, not of each prompt: no intervals"


def pooled_profile(
    pool: Pool, labels: dict[str, Any], stated: dict[str, Any], n_replicates: int, seed: int
) -> AcceptanceProfile:
    """Make the profile.

    Parameters
    ----------
    pool : Pool
        At least one observation.
    labels : dict
        Agreed labels, warnings and provenance of the profile.
    stated : dict
        Labels that the person importing gave; a stated draft length makes counts of rounds by accepted tokens.
    n_replicates, seed : int
        Of the bootstrap.

    Raises
    ------
    BadInput
        If the stated draft length contradicts the rounds, or nothing can be pooled without guessing weights.
    """
    _check_stated(labels, stated)
    table = _table(pool, stated.get("draft_length"))
    if table is not None:
        labels["draft_length"] = _draft_length(table, stated.get("draft_length"))
    elif labels["draft_length"] is not None and not pool.is_tree:
        labels["draft_length"] = _drafted_length(pool, labels, stated)
    if pool.means.known and pool.n_requests:
        labels["mean_acceptance_length_per_request"] = pool.means.value / pool.n_requests
    elif pool.only is not None:
        labels["mean_acceptance_length_per_request"] = pool.only.mean_acceptance_length_per_request
    if {pool.n_counted, pool.n_histograms, pool.n_positioned} - {0, pool.n_observations}:
        labels["warnings"].append(_WEAKEST)
    if pool.is_tree:
        labels["warnings"].append(_TREE)
    return _with_intervals(pool, _strongest(pool, table, labels), n_replicates, seed)


def _strongest(pool: Pool, table: Table | None, labels: dict[str, Any]) -> AcceptanceProfile:
    if table is not None and not pool.is_tree:
        return profile_from_counts(table, **labels)
    for make in (_from_rounds, _from_positions, _from_vector, _from_lengths, _from_rate):
        profile = make(pool, labels)
        if profile is not None:
            return profile
    if pool.n_observations == 1:
        problem, remedy = "states neither accepted tokens nor a length nor a rate", "export it with its counters"
    else:
        problem = f"{pool.n_observations} records without the rounds behind them, and nobody knows their weights"
        remedy = "keep one of them with --only, or import each file by itself"
    raise BadInput(problem, remedy=remedy)


def _check_stated(labels: dict[str, Any], stated: dict[str, Any]) -> None:
    if labels["method"] == "none" and stated.get("draft_length"):
        remedy = "leave --draft-length out"
        raise BadInput("the run drafted nothing", field="draft_length", value=stated["draft_length"], remedy=remedy)


def _drafted_length(pool: Pool, labels: dict[str, Any], stated: dict[str, Any]) -> int | None:
    """The configured or stated length, if the totals of drafted tokens leave it possible; null where drafts varied."""
    length, drafted, rounds = labels["draft_length"], pool.drafted.total, pool.rounds.total
    if drafted is None or not rounds:
        return int(length)
    fewest_rounds = max(1, rounds - pool.n_requests) if pool.rounds_inferred else rounds
    if MOSTLY * length * fewest_rounds <= drafted <= length * rounds:
        return int(length)
    average = f"rounds drafted {drafted / rounds:.2f} tokens on average"
    if "draft_length" in stated or drafted > length * rounds:
        raise BadInput(average, field="draft_length", value=length, remedy="leave --draft-length out")
    labels["warnings"].append(f"configured for K = {length}, but {average}: the draft length varied")
    return None


def _table(pool: Pool, stated: int | None) -> Table | None:
    if pool.all_counted and not pool.is_tree:
        return pool.table()
    if stated is None or pool.is_tree or not pool.all_histograms:
        return None
    longest = max(j for j, n in pool.by_accepted.items() if n)
    if longest > stated:
        raise BadInput(
            f"a round accepted {longest} tokens",
            field="draft_length",
            value=stated,
            remedy="a round cannot accept more than it drafted: leave --draft-length out if it varied",
        )
    return {stated: [pool.by_accepted[j] for j in range(stated + 1)]}


def _draft_length(table: Table, stated: int | None) -> int | None:
    """The length that rounds drafted, or null if it varied; a stated one must be it."""
    rounds = {drafted: sum(row) for drafted, row in table.items() if sum(row)}
    longest = max(rounds)
    found = longest if rounds[longest] >= MOSTLY * sum(rounds.values()) else None
    if stated is not None and stated != found:
        drafted = ", ".join(f"{count} rounds of {length}" for length, count in sorted(rounds.items()))
        raise BadInput(
            f"the files say what was drafted: {drafted}",
            field="draft_length",
            value=stated,
            remedy="leave --draft-length out",
        )
    return found


def _totals(pool: Pool) -> dict[str, Any]:
    """Totals that are known, and the ratios that follow from them."""
    rounds, drafted, accepted = pool.rounds.total, pool.drafted.total, pool.accepted.total
    fields: dict[str, Any] = {"n_rounds": rounds, "n_drafted_tokens": drafted, "n_accepted_tokens": accepted}
    if rounds and accepted is not None:
        fields["mean_acceptance_length"] = 1.0 + accepted / rounds
    if drafted and accepted is not None:
        fields["draft_acceptance_rate"] = accepted / drafted
    elif pool.only is not None and pool.only.draft_acceptance_rate is not None:
        fields["draft_acceptance_rate"] = pool.only.draft_acceptance_rate
    return {name: value for name, value in fields.items() if value is not None}


def _from_rounds(pool: Pool, labels: dict[str, Any]) -> AcceptanceProfile | None:
    if not pool.all_histograms:
        return None
    by_accepted = dense(pool.by_accepted)
    if pool.is_tree:
        depth = profile_from_accepted(by_accepted).marginal_acceptance or []
        labels["tree"] = TreeYield(depth_acceptance=depth, n_nodes=_tree_nodes(pool))
    elif labels["method"] != "none":
        labels["warnings"].append(_LOWER_BOUND)
    drafted = pool.drafted.total
    if drafted:
        labels["n_drafted_tokens"] = drafted
        labels["draft_acceptance_rate"] = weighted(by_accepted) / drafted
    return profile_from_accepted(by_accepted, **labels)


def _from_positions(pool: Pool, labels: dict[str, Any]) -> AcceptanceProfile | None:
    if not pool.all_positioned or pool.is_tree:
        return None
    marginal = pool.positions()
    if marginal is None:
        labels["warnings"].append(_RISING)
        return None
    conditional = null_for_nan(conditional_from_marginal(marginal))
    if np.ptp(pool.drafted_by_position) > (1.0 - MOSTLY) * pool.rounds.value:
        labels["warnings"].append(VARIED)
    if labels["draft_length"] is None and pool.mostly_full_length():
        labels["draft_length"] = len(marginal)
    return AcceptanceProfile(
        evidence="marginal",
        marginal_acceptance=marginal,
        conditional_acceptance=conditional,
        **_totals(pool),
        **labels,
    )


def _from_vector(pool: Pool, labels: dict[str, Any]) -> AcceptanceProfile | None:
    """The typed vector of a single record, as it stands."""
    only = pool.only
    if only is None or pool.is_tree or (only.marginal_acceptance is None and only.conditional_acceptance is None):
        return None
    marginal, conditional = only.marginal_acceptance, only.conditional_acceptance
    evidence: Evidence = "marginal" if marginal is not None else "conditional"
    if conditional is None and marginal is not None:
        conditional = null_for_nan(conditional_from_marginal(marginal))
    elif marginal is None and conditional is not None and None not in conditional:
        marginal = marginal_from_conditional(np.asarray(conditional, dtype=np.float64)).tolist()
    fields: dict[str, Any] = {"mean_acceptance_length": only.mean_acceptance_length, **_totals(pool), **labels}
    return AcceptanceProfile(
        evidence=evidence, marginal_acceptance=marginal, conditional_acceptance=conditional, **fields
    )


def _from_lengths(pool: Pool, labels: dict[str, Any]) -> AcceptanceProfile | None:
    fields = _totals(pool)
    if "mean_acceptance_length" not in fields:
        length = _averaged_length(pool)
        if length is None:
            return None
        fields["mean_acceptance_length"] = length
    inferred = pool.rounds_inferred and "draft_acceptance_rate" in fields
    evidence: Evidence = "draft_rate" if inferred else "mean_length"
    return AcceptanceProfile(evidence=evidence, tree=_tree(pool), **fields, **labels)


def _averaged_length(pool: Pool) -> float | None:
    """Mean length weighted by estimated rounds, or that of the only record."""
    if pool.weights.known and pool.weighted_tokens.known and pool.weights.value > 0:
        return pool.weighted_tokens.value / pool.weights.value
    return pool.only.mean_acceptance_length if pool.only is not None else None


def _from_rate(pool: Pool, labels: dict[str, Any]) -> AcceptanceProfile | None:
    fields = _totals(pool)
    if "draft_acceptance_rate" not in fields:
        return None
    return AcceptanceProfile(evidence="draft_rate", tree=_tree(pool), **fields, **labels)


def _tree(pool: Pool) -> TreeYield | None:
    return TreeYield(depth_acceptance=[], n_nodes=_tree_nodes(pool)) if pool.is_tree else None


def _tree_nodes(pool: Pool) -> int | None:
    return next(iter(pool.tree_nodes)) if len(pool.tree_nodes) == 1 else None


def _with_intervals(pool: Pool, profile: AcceptanceProfile, n_replicates: int, seed: int) -> AcceptanceProfile:
    def note(text: str) -> AcceptanceProfile:
        return profile.model_copy(update={"warnings": [*profile.warnings, text]})

    if not pool.n_requests:
        return note(_TOTALS)
    if pool.n_requests < pool.n_observations or not pool.clusters.n_prompts:
        return note(_NO_ROUNDS)
    shares = pool.n_histograms == 0 and pool.all_positioned
    alike = shares or (pool.n_counted in (0, pool.n_observations) and pool.all_histograms)
    n_positions = len(profile.marginal_acceptance or []) if alike else 0
    intervals = pool.clusters.intervals(n_positions, shares=shares, n_replicates=n_replicates, seed=seed)
    if intervals is None:
        return note(f"{pool.clusters.n_prompts} prompts, fewer than {FEWEST_PROMPTS}: no intervals")
    effective = pool.clusters.effective_prompts()
    if effective < FEWEST_PROMPTS:
        problem = f"most rounds come from few prompts ({effective:.0f} of {intervals.n_prompts} count)"
        profile = note(f"{problem}: intervals cover less than 95 %")
    return profile.model_copy(update={"intervals": intervals})
