"""From evidence to the drafts that may be chosen, whatever the evidence is of: chains, trees, or drafts with a cut."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.acceptance.candidates import (
    IDENTITY,
    MEASURED,
    Assumption,
    DraftCandidates,
    TokenInterval,
    draft_candidates,
)
from specbook.acceptance.dynamic import dynamic_from_profile
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.tree_candidates import TreeCandidate, measured_tree, tree_candidates
from specbook.checks import BadInput

TREE_NODES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def drafts_of(
    profiles: Sequence[AcceptanceProfile],
    *,
    assume: Assumption = "none",
    max_draft_length: int = 16,
    tree_nodes: Sequence[int] = TREE_NODES,
) -> DraftCandidates:
    """Drafts that profiles of one target, drafter, method, domain and temperature speak for.

    Parameters
    ----------
    profiles : sequence of AcceptanceProfile
        Of chains, as for :func:`~specbook.acceptance.candidates.draft_candidates`; or one of a tree with acceptance by
        rank, which speaks for the best tree of each size; or one of drafts with a cut, which speaks for that cut.
    assume, max_draft_length
        For chains; a tree is at most ``max_draft_length`` deep.
    tree_nodes : sequence of int
        Sizes of trees.

    Raises
    ------
    BadInput
        If the evidence speaks for no draft, or one tree or cut comes with other profiles.

    References
    ----------
    chen2024sequoia

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> drafts_of([profile_from_counts({2: [2, 4, 4]}, draft_length=2)]).draft_lengths
    (0, 2)
    """
    special = [profile for profile in profiles if profile.tree is not None or _cut(profile) is not None]
    if not special or (assume == "truncation" and special[0].tree is None):  # which a cut refuses
        return draft_candidates(profiles, assume=assume, max_draft_length=max_draft_length)
    if len(profiles) > 1:
        raise BadInput(
            "several profiles of one pair, one of them of a tree or with a cut",
            field="acceptance",
            value=len(profiles),
            remedy="project each by itself",
        )
    profile = special[0]
    return _of_cut(profile) if profile.tree is None else _of_trees(profile, max_draft_length, tree_nodes)


def _cut(profile: AcceptanceProfile) -> str | None:
    return None if profile.measurement is None else profile.measurement.cut


def _of_cut(profile: AcceptanceProfile) -> DraftCandidates:
    draft = dynamic_from_profile(profile)
    tokens = draft.expected_tokens
    interval = None if profile.intervals is None else profile.intervals.mean_acceptance_length
    return DraftCandidates(
        draft_lengths=(0, draft.max_draft_length),
        expected_tokens=(1.0, tokens),
        assumptions=(MEASURED, f"{MEASURED}, cut {_cut(profile)}"),
        token_intervals=(None, interval),
        dynamic=(None, draft),
        **{label: getattr(profile, label) for label in IDENTITY},
    )


def _of_trees(profile: AcceptanceProfile, max_draft_length: int, tree_nodes: Sequence[int]) -> DraftCandidates:
    seen = len(profile.tree.depth_acceptance) if profile.tree is not None else 0
    trees = tree_candidates(profile, n_nodes=tree_nodes, max_depth=min(seen, max_draft_length) or None)
    shapes: dict[tuple[int, int], TreeCandidate] = {(tree.n_nodes, tree.depth): tree for tree in trees}
    if profile.measurement is not None:
        measured = measured_tree(profile)
        shapes[measured.n_nodes, measured.depth] = measured
    ordered = [shapes[key] for key in sorted(shapes)]
    intervals: list[TokenInterval | None] = [tree.token_interval for tree in ordered]
    return DraftCandidates(
        draft_lengths=(0, *(tree.depth for tree in ordered)),
        n_nodes=(0, *(tree.n_nodes for tree in ordered)),
        expected_tokens=(1.0, *(tree.expected_tokens for tree in ordered)),
        assumptions=(MEASURED, *(tree.assumption for tree in ordered)),
        token_intervals=(None, *intervals),
        **{label: getattr(profile, label) for label in IDENTITY},
    )
