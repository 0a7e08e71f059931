"""From evidence to the drafts that may be chosen, whatever the evidence is of: chains, trees, or drafts with a cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specbook.acceptance.candidates import (
    IDENTITY,
    MEASURED,
    Assumption,
    DraftCandidates,
    TokenInterval,
    draft_candidates,
)
from specbook.acceptance.dynamic import DynamicDraft, dynamic_from_profile
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
        Of chains, as for :func:`~specbook.acceptance.candidates.draft_candidates`; of trees with acceptance by rank,
        which speak for the best tree of each size; of drafts with a cut, which speak for that cut. Where two speak for
        one shape, chains come first, then trees in the order given.
    assume, max_draft_length
        For chains; a tree is at most ``max_draft_length`` deep.
    tree_nodes : sequence of int
        Sizes of trees.

    Raises
    ------
    BadInput
        If a profile speaks for no draft, or says that nothing was ever accepted.

    References
    ----------
    chen2024sequoia

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> drafts_of([profile_from_counts({2: [2, 4, 4]}, draft_length=2)]).draft_lengths
    (0, 2)
    """
    chains = [profile for profile in profiles if profile.tree is None and _cut(profile) is None]
    trees = [profile for profile in profiles if profile.tree is not None]
    cuts = [profile for profile in profiles if profile.tree is None and _cut(profile) is not None]
    if not trees and not cuts:
        return draft_candidates(profiles, assume=assume, max_draft_length=max_draft_length)
    if assume == "truncation" and not (chains or trees):
        return draft_candidates(cuts, assume=assume)  # which says why it refuses
    parts = [draft_candidates(chains, assume=assume, max_draft_length=max_draft_length)] if chains else []
    parts += [_of_trees(profile, max_draft_length, tree_nodes) for profile in trees]
    return _joined([*parts, *(_of_cut(profile) for profile in cuts)])


@dataclass(frozen=True)
class _Draft:
    """What is known of one shape."""

    tokens: float
    assumption: str
    interval: TokenInterval | None
    dynamic: DynamicDraft | None


def _joined(parts: Sequence[DraftCandidates]) -> DraftCandidates:
    """The drafts of all parts; of two with one shape, the first stays, and not to speculate stands once."""
    found: dict[tuple[int, int, bool], _Draft] = {}
    for part in parts:
        dynamic = part.dynamic or (None,) * len(part.draft_lengths)
        drafts = map(_Draft, part.expected_tokens, part.assumptions, part.intervals, dynamic)
        shapes = zip(part.drafted_tokens, part.draft_lengths, drafts, strict=True)
        for n_nodes, depth, draft in shapes:
            found.setdefault((n_nodes, depth, draft.dynamic is not None), draft)
    ordered = sorted(found.items(), key=lambda item: item[0])
    rows = [draft for _, draft in ordered]
    return replace(
        parts[0],
        draft_lengths=tuple(depth for (_, depth, _), _ in ordered),
        n_nodes=tuple(n_nodes for (n_nodes, _, _), _ in ordered),
        expected_tokens=tuple(row.tokens for row in rows),
        assumptions=tuple(row.assumption for row in rows),
        token_intervals=tuple(row.interval for row in rows),
        dynamic=tuple(row.dynamic for row in rows) if any(row.dynamic is not None for row in rows) else None,
    )


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
    depth = min(seen, max_draft_length) if seen else max_draft_length
    trees = tree_candidates(profile, n_nodes=tree_nodes, max_depth=depth)
    if not any(tree.expected_tokens > 1.0 for tree in trees):
        remedy = "this run did not speculate, or its drafter never agreed; there is nothing to project"
        raise BadInput("no draft token was ever accepted", field="tree.rank_acceptance", value=0.0, remedy=remedy)
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
