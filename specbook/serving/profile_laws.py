"""Laws of rounds from acceptance profiles: by draft length, and what was assumed to get each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from specbook.acceptance.candidates import (
    MEASURED,
    Assumption,
    check_chain,
    draft_candidates,
    group_profiles,
    marginal_by_position,
)
from specbook.acceptance.draft_models import DraftModel
from specbook.acceptance.dynamic import dynamic_from_profile
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.tree_candidates import measured_tree
from specbook.acceptance.yields import conditional_from_marginal, expected_tokens_per_round
from specbook.checks import BadInput
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law


class KnownLaw(NamedTuple):
    """A law, and ``measured`` or what was assumed of it."""

    law: RoundLaw
    assumption: str


def model_laws(draft_model: DraftModel, draft_lengths: Sequence[int]) -> dict[int, KnownLaw]:
    """Laws by draft length of a parametric draft model; no speculation is one of them.

    Examples
    --------
    >>> from specbook.acceptance.draft_models import FixedAcceptance
    >>> laws = model_laws(FixedAcceptance(acceptance=0.8), [2])
    >>> sorted(laws), round(laws[2].law.expected_tokens, 3), laws[2].assumption
    ([0, 2], 2.44, 'fixed draft model')
    """
    assumption = f"{draft_model.name.replace('_', ' ')} draft model"
    laws = {length: chain_law(draft_model.conditional_acceptance(length)) for length in draft_lengths}
    return {0: KnownLaw(no_draft(), MEASURED)} | {length: KnownLaw(law, assumption) for length, law in laws.items()}


def profile_laws(
    profiles: Sequence[AcceptanceProfile], *, assume: Assumption = "none", max_draft_length: int = 16
) -> dict[int, KnownLaw]:
    """Laws by draft length that profiles speak for; no speculation is one of them.

    Parameters
    ----------
    profiles : sequence of AcceptanceProfile
        Of one target, drafter, method, domain and temperature. One of a tree, or of drafts that were cut, stands alone.
    assume : "none" or "truncation"
        As in :func:`~specbook.acceptance.candidates.draft_candidates`.
    max_draft_length : int
        Longest draft under an assumption.

    Returns
    -------
    dict of int to KnownLaw
        Positions and counts give their own law. A mean alone gives that of one acceptance at every position which has
        this mean, and says so: how much rounds differ is then assumed, and with it the tail.

    Raises
    ------
    BadInput
        If the profiles are not of one thing, or speak for no draft length.

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> laws = profile_laws([profile_from_counts({2: [2, 4, 4]}, draft_length=2)])
    >>> sorted(laws), laws[2].law.expected_tokens, laws[2].assumption
    ([0, 2], 2.2, 'measured')
    """
    if len(group_profiles(profiles)) > 1:
        raise BadInput(
            "profiles are of different things",
            field="acceptance",
            remedy="simulate the evidence of one drafter at a time",
        )
    whole = {0: KnownLaw(no_draft(), MEASURED)}
    if len(profiles) == 1 and profiles[0].tree is not None:
        known = _tree(profiles[0])
        return whole | {known.law.draft_length: known}
    if len(profiles) == 1 and profiles[0].measurement is not None and profiles[0].measurement.cut is not None:
        known = _cut(profiles[0], profiles[0].measurement.cut)
        return whole | {known.law.draft_length: known}
    return whole | _chains(profiles, assume, max_draft_length)


def _tree(profile: AcceptanceProfile) -> KnownLaw:
    tree = measured_tree(profile)
    if profile.tree is None:
        raise BadInput("holds no tree", field="tree", remedy="measure one with --tree")
    reached = np.asarray(profile.tree.depth_acceptance, dtype=np.float64)
    distribution = np.concatenate([[1.0], reached]) - np.concatenate([reached, [0.0]])
    return KnownLaw(tree_law(distribution, tree.n_nodes), MEASURED)


def _cut(profile: AcceptanceProfile, cut: str) -> KnownLaw:
    table = profile.table()
    if table is None:
        dynamic_from_profile(profile)  # says what is missing
        raise BadInput("holds no counts", field="rounds_by_drafted", remedy="measure it again with --cut")
    return KnownLaw(counted_law(table), f"{MEASURED}, cut {cut}")


def _chains(profiles: Sequence[AcceptanceProfile], assume: Assumption, longest: int) -> dict[int, KnownLaw]:
    candidates = draft_candidates(profiles, assume=assume, max_draft_length=longest)
    by_length = {profile.draft_length: profile for profile in profiles}
    furthest = max(profiles, key=lambda profile: len(marginal_by_position(profile) or []))
    found = {}
    for length, tokens, assumption in zip(
        candidates.draft_lengths, candidates.expected_tokens, candidates.assumptions, strict=True
    ):
        if length:
            found[length] = _chain(by_length.get(length, furthest), length, tokens, assumption)
    return found


def _chain(profile: AcceptanceProfile, length: int, tokens: float, assumption: str) -> KnownLaw:
    check_chain(profile)
    marginal = marginal_by_position(profile)
    if marginal is not None and len(marginal) >= length:
        return KnownLaw(chain_law(conditional_from_marginal(np.asarray(marginal[:length]))), assumption)
    return KnownLaw(
        chain_law([constant_acceptance(tokens, length)] * length), f"{assumption}, one acceptance throughout"
    )


def constant_acceptance(expected_tokens: float, draft_length: int) -> float:
    """The conditional acceptance that gives so many tokens a round if every position has it.

    Parameters
    ----------
    expected_tokens : float
        In [1, K + 1].
    draft_length : int
        K, at least 1.

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> round(constant_acceptance(2.44, 2), 6)
    0.8
    """
    if not 1.0 <= expected_tokens <= draft_length + 1.0:
        raise ValueError(f"expected_tokens must lie in [1, {draft_length + 1}]; got {expected_tokens}")

    def excess(acceptance: float) -> float:
        return float(expected_tokens_per_round([acceptance] * draft_length)) - expected_tokens

    return 0.0 if expected_tokens == 1.0 else 1.0 if excess(1.0) <= 0.0 else float(brentq(excess, 0.0, 1.0, xtol=1e-14))
