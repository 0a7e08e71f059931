"""Which draft lengths a profile can speak for, and how many tokens a round yields at each.

A profile measured at K = 8 says nothing certain about K = 1: position 1 itself changes with K. So a profile offers the
draft length it was measured at, and no speculation; others are offered only under a named assumption, which every
row of the projection then repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specbook.acceptance.dynamic import DynamicDraft
from specbook.acceptance.dynamic_cost import batch_pass_probability
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import marginal_from_conditional, tokens_for_draft_length
from specbook.checks import BadInput, Floats, check_counts, check_finite

Assumption = Literal["none", "truncation"]
MEASURED = "measured"
TokenInterval = tuple[float, float]
# Draft length → tokens per round, how they are known, and their interval.
Points = dict[int, tuple[float, str, TokenInterval | None]]
Counts = NDArray[np.int64]
# Profiles that agree on these speak of one thing and may be combined, one draft length each.
IDENTITY = ("target", "drafter", "method", "domain", "temperature")


@dataclass(frozen=True, kw_only=True)
class DraftCandidates:
    """Tokens per round at each draft length that may be chosen.

    Attributes
    ----------
    draft_lengths : tuple of int
        Draft passes of a round: K of a chain, the depth of a tree. They rise from 0, unless ``n_nodes`` tells trees of
        one depth apart.
    expected_tokens : tuple of float
        Tokens per round, in [1, K + 1]; 1 at K = 0.
    assumptions : tuple of str
        ``measured``, what was added to what was measured, or what was assumed to get the figure.
    n_nodes : tuple of int or None
        Drafted tokens of each, where some are trees; None for chains, which draft K.
    token_intervals : tuple of (float, float) or None
        95 % intervals of ``expected_tokens`` from prompts drawn again; None where the evidence has none.
    dynamic : tuple of DynamicDraft or None
        How long drafts were, where a cut decided it; None for those of a fixed shape.
    target, drafter, method, domain : str or None
    temperature : float or None
        As the profiles name them.

    Raises
    ------
    ValueError
        If the lengths do not rise from 0, or a round yields less than 1 or more than K + 1 tokens.
    """

    draft_lengths: tuple[int, ...]
    expected_tokens: tuple[float, ...]
    assumptions: tuple[str, ...]
    n_nodes: tuple[int, ...] | None = None
    token_intervals: tuple[TokenInterval | None, ...] | None = None
    dynamic: tuple[DynamicDraft | None, ...] | None = None
    target: str | None = None
    drafter: str | None = None
    method: str | None = None
    domain: str | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        lengths = check_counts("draft_lengths", self.draft_lengths)
        tokens = check_finite("expected_tokens", self.expected_tokens)
        if lengths.size == 0 or lengths[0] != 0 or (self.n_nodes is None and np.any(np.diff(lengths) <= 0)):
            raise ValueError(f"draft_lengths must rise from 0; got {self.draft_lengths}")
        if self.n_nodes is not None:
            _check_nodes(lengths, check_counts("n_nodes", self.n_nodes), self.dynamic)
        for name in ("token_intervals", "dynamic"):
            if getattr(self, name) is not None and len(getattr(self, name)) != lengths.size:
                raise ValueError(f"{name} must be as long as draft_lengths")
        if tokens.shape != lengths.shape or len(self.assumptions) != lengths.size:
            raise ValueError("draft_lengths, expected_tokens and assumptions must be equally long")
        if np.any(tokens < 1.0) or np.any(tokens > lengths + 1.0 + 1e-9) or tokens[0] != 1.0:
            raise ValueError(f"expected_tokens must lie in [1, K + 1] and be 1 at K = 0; got {self.expected_tokens}")

    @property
    def drafted_tokens(self) -> tuple[int, ...]:
        """Tokens that each choice drafts: K of a chain, the nodes of a tree."""
        return self.draft_lengths if self.n_nodes is None else self.n_nodes

    @property
    def verified_drafts(self) -> tuple[float, ...]:
        """Drafted tokens that a pass verifies in the mean: all of a fixed shape, fewer where a cut decides."""
        drafts = self.dynamic or (None,) * len(self.draft_lengths)
        return tuple(
            float(whole) if draft is None else draft.expected_drafted_tokens
            for whole, draft in zip(self.drafted_tokens, drafts, strict=True)
        )

    def draft_passes(self, batches: Sequence[int]) -> Floats:
        """Draft passes of a round, (n_drafts, n_batches): with a cut, a batch drafts until its last sequence is cut."""
        drafts = self.dynamic or (None,) * len(self.draft_lengths)
        rows = [
            np.full(len(batches), float(length))
            if draft is None
            else np.array([batch_pass_probability(draft, batch).sum() for batch in batches])
            for length, draft in zip(self.draft_lengths, drafts, strict=True)
        ]
        return np.stack(rows)

    @property
    def intervals(self) -> tuple[TokenInterval | None, ...]:
        """Intervals of the expected tokens; that of K = 0 is known."""
        known = self.token_intervals or (None,) * len(self.draft_lengths)
        return ((1.0, 1.0), *known[1:])


def _check_nodes(depths: Counts, nodes: Counts, dynamic: tuple[DynamicDraft | None, ...] | None) -> None:
    """A tree has at least as many nodes as it is deep, and each shape stands once, with and without a cut."""
    cuts = [draft is not None for draft in dynamic or (None,) * depths.size]
    shapes = set(zip(depths.tolist(), nodes.tolist(), cuts, strict=False))
    if nodes.shape != depths.shape or np.any(nodes < depths) or nodes[0] != 0 or len(shapes) != depths.size:
        raise ValueError(f"n_nodes must be at least the depth, 0 first, each shape once; got {nodes.tolist()}")


def group_profiles(profiles: Sequence[AcceptanceProfile]) -> list[list[AcceptanceProfile]]:
    """Profiles that speak of the same target, drafter, method, domain and temperature, in order of appearance.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> names = ["vllm-48892-mtp-k8", "vllm-48892-mtp-k1", "model-optimizer-2247"]
    >>> [len(group) for group in group_profiles([library_profile(name) for name in names])]
    [2, 1]
    """
    groups: dict[tuple[object, ...], list[AcceptanceProfile]] = {}
    for profile in profiles:
        groups.setdefault(tuple(getattr(profile, label) for label in IDENTITY), []).append(profile)
    return list(groups.values())


def draft_candidates(
    profiles: Sequence[AcceptanceProfile], *, assume: Assumption = "none", max_draft_length: int = 16
) -> DraftCandidates:
    """Draft lengths that the profiles speak for.

    Parameters
    ----------
    profiles : sequence of AcceptanceProfile
        One or more of the same target, drafter, method, domain and temperature; several give one measured point each.
    assume : "none" or "truncation"
        With ``truncation``, shorter drafts are taken to accept position for position as the longest profile did.
    max_draft_length : int
        Longest draft to offer under an assumption.

    Raises
    ------
    BadInput
        If a profile is of a tree, ran without speculation, or speaks for no draft length without an assumption;
        if profiles disagree on what they are of, or repeat a draft length; if truncation is assumed of drafts that were
        stopped by a cut.

    References
    ----------
    vllm48892 for the dependence of position 1 on K.

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> profile = profile_from_counts({2: [2, 4, 4]}, draft_length=2)
    >>> draft_candidates([profile]).draft_lengths
    (0, 2)
    >>> draft_candidates([profile], assume="truncation").assumptions
    ('measured', 'truncation of a profile at K = 2', 'measured')
    """
    _check_same(profiles)
    points: Points = {0: (1.0, MEASURED, None)}
    for profile in profiles:
        check_chain(profile)
        points |= _measured_point(profile, points)
    if assume == "truncation":
        _check_uncut(profiles)
        longest = max(profiles, key=lambda profile: len(marginal_by_position(profile) or []))
        points = _truncated_points(longest, max_draft_length) | points
    if len(points) == 1:
        _check_uncut(profiles)
        raise BadInput(
            "the source does not say how many tokens each round drafted, or they varied",
            field="draft_length",
            value=None,
            remedy="pass --assume truncation to project every shorter draft from the positions, "
            "or import with --draft-length if every round drafted alike",
        )
    lengths = sorted(points)
    return DraftCandidates(
        draft_lengths=tuple(lengths),
        expected_tokens=tuple(points[k][0] for k in lengths),
        assumptions=tuple(points[k][1] for k in lengths),
        token_intervals=tuple(points[k][2] for k in lengths),
        **{label: getattr(profiles[0], label) for label in IDENTITY},
    )


def _check_uncut(profiles: Sequence[AcceptanceProfile]) -> None:
    """Refuse positions that were drafted only where the drafter was confident: they say too much of shorter drafts."""
    for profile in profiles:
        cut = None if profile.measurement is None else profile.measurement.cut
        if cut is not None:
            raise BadInput(
                "drafts stopped where the drafter was unsure, so later positions were only seen where they are easy",
                field="measurement.cut",
                value=cut,
                remedy="measure without --cut, at the draft length that you will run",
            )


def _check_same(profiles: Sequence[AcceptanceProfile]) -> None:
    if not profiles:
        raise ValueError("profiles must not be empty")
    for label in IDENTITY:
        values = {getattr(profile, label) for profile in profiles}
        if len(values) > 1:
            raise BadInput(
                f"profiles disagree: {', '.join(sorted(map(str, values)))}",
                field=label,
                remedy="project each by itself, or set the label when importing",
            )


def check_chain(profile: AcceptanceProfile) -> None:
    """Raise :class:`BadInput` if the profile is of a tree, or if nothing was ever accepted.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> check_chain(library_profile("vllm-48892-mtp-k8"))
    """
    if profile.tree is not None:
        raise BadInput(
            "this profile is of a tree drafter; its verify width and cost are not those of a chain",
            field="tree",
            value=profile.method,
            remedy="project a profile of a chain: the chain formula would be wrong here",
        )
    positions = marginal_by_position(profile)
    never = profile.n_accepted_tokens == 0 or profile.mean_acceptance_length == 1.0
    if never or (positions and not any(positions)):
        raise BadInput(
            "no draft token was ever accepted",
            field="n_accepted_tokens",
            value=profile.n_accepted_tokens,
            remedy="this run did not speculate, or its drafter never agreed; there is nothing to project",
        )


def marginal_by_position(profile: AcceptanceProfile) -> list[float] | None:
    """Marginal acceptance, from the conditional one where only that is known, up to the first position not seen.

    Examples
    --------
    >>> values = {"evidence": "conditional", "conditional_acceptance": [0.5, 0.5, None]}
    >>> marginal_by_position(AcceptanceProfile(**values))
    [0.5, 0.25]
    """
    if profile.marginal_acceptance is not None:
        return profile.marginal_acceptance
    if profile.conditional_acceptance is None:
        return None
    known = list(takewhile(lambda value: value is not None, profile.conditional_acceptance))
    return [float(value) for value in marginal_from_conditional(np.asarray(known, dtype=np.float64))]


def _measured_point(profile: AcceptanceProfile, points: Points) -> Points:
    length = profile.draft_length
    if not length:
        return {}
    if length in points:
        raise BadInput("two profiles of one draft length", field="draft_length", value=length, remedy="drop one")
    tokens = _measured_tokens(profile, length)
    return {} if tokens is None else {length: (tokens, _origin(profile), _measured_interval(profile, tokens, length))}


def _measured_interval(profile: AcceptanceProfile, tokens: float, length: int) -> TokenInterval | None:
    """The interval of the mean acceptance length, if the tokens are that mean."""
    if profile.intervals is None or profile.mean_acceptance_length is None:
        return None
    low, high = profile.intervals.mean_acceptance_length
    return (low, min(high, length + 1.0)) if low <= tokens <= high else None


def _measured_tokens(profile: AcceptanceProfile, length: int) -> float | None:
    """Tokens per round at the profile's own length: from positions, a length, or the rate, which is (E − 1) ÷ K."""
    marginal = marginal_by_position(profile)
    if marginal is not None and len(marginal) >= length:
        return 1.0 + float(np.sum(marginal[:length]))
    if profile.mean_acceptance_length is not None:
        return min(profile.mean_acceptance_length, length + 1.0)
    if profile.draft_acceptance_rate is not None:
        return 1.0 + length * profile.draft_acceptance_rate
    return None


def _origin(profile: AcceptanceProfile) -> str:
    """``measured``, and what had to be added to what was."""
    added = ["rounds inferred"] if profile.evidence == "draft_rate" and profile.n_rounds is not None else []
    added += ["draft length stated at import"] if "draft_length" in profile.stated_labels else []
    return ", ".join([MEASURED, *added])


def _truncated_interval(profile: AcceptanceProfile, length: int) -> TokenInterval | None:
    """Sums of the ends of the positions' intervals, which are no narrower than the interval of the sum."""
    if profile.intervals is None or len(profile.intervals.marginal_acceptance) < length:
        return None
    ends = np.asarray(profile.intervals.marginal_acceptance[:length], dtype=np.float64).sum(axis=0)
    return 1.0 + float(ends[0]), 1.0 + float(ends[1])


def _truncated_points(profile: AcceptanceProfile, max_draft_length: int) -> Points:
    marginal = marginal_by_position(profile)
    if marginal is None:
        raise BadInput(
            "truncation needs acceptance by position, which this profile does not hold",
            field="evidence",
            value=profile.evidence,
            remedy="leave --assume out, or bring a source with positions",
        )
    measured = profile.draft_length
    origin = f"a profile at K = {measured}" if measured else "drafts of unknown or varying length"
    return {
        length: (
            float(tokens_for_draft_length(length, marginal)),
            f"truncation of {origin}",
            _truncated_interval(profile, length),
        )
        for length in range(1, min(len(marginal), max_draft_length) + 1)
    }
