"""Dynamic draft length: a drafter that stops where it is unsure, and what its rounds yield and spend.

The drafter looks at its distribution for the next token *before* the token is drawn, and stops if the entropy is too
high or the best probability too low. A round that drafts D of at most K tokens therefore spends min(D + 1, K) passes of
a drafter that goes token by token: the pass whose proposal was cut is paid for, too. Its verify pass is 1 + D wide. All
that follows rests on the joint law of D and of A, the accepted tokens; seconds are in
:mod:`specbook.acceptance.dynamic_cost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specbook.acceptance.estimates import totals
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import expected_tokens_per_round, marginal_from_conditional
from specbook.checks import BadInput, Floats, check_counts, check_probability

_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class DynamicDraft:
    """What a round yields and spends if its draft length varies.

    Attributes
    ----------
    expected_tokens : float
        Tokens per round, the target's own included: 1 + E[A].
    drafted_probability : tuple of float
        Entry d is the probability that a round drafts d tokens, d = 0 to K; so wide, and one wider, is its verify pass.

    Raises
    ------
    ValueError
        If the probabilities do not sum to 1, or more is accepted than drafted.

    Examples
    --------
    >>> draft = DynamicDraft(expected_tokens=1.75, drafted_probability=(0.25, 0.25, 0.5))
    >>> draft.expected_drafted_tokens, draft.expected_draft_passes, draft.draft_acceptance_rate
    (1.25, 1.75, 0.6)
    """

    expected_tokens: float
    drafted_probability: tuple[float, ...]

    def __post_init__(self) -> None:
        probability = check_probability("drafted_probability", self.drafted_probability)
        if probability.ndim != 1 or abs(probability.sum() - 1.0) > _SUM_TOLERANCE:
            raise ValueError(f"drafted_probability must sum to 1; got {self.drafted_probability}")
        most = 1.0 + self.expected_drafted_tokens
        if not 1.0 <= self.expected_tokens <= most + _SUM_TOLERANCE:
            raise ValueError(f"expected_tokens must lie in [1, {most}], 1 + drafted; got {self.expected_tokens}")

    @property
    def max_draft_length(self) -> int:
        """K, the most that a round drafts."""
        return len(self.drafted_probability) - 1

    @property
    def reach_probability(self) -> Floats:
        """Probability that a round drafts at least 1, 2, …, K tokens, (max_draft_length,)."""
        return np.asarray(np.minimum(np.cumsum(self.drafted_probability[::-1])[::-1][1:], 1.0))

    @property
    def pass_probability(self) -> Floats:
        """Probability that a round spends at least 1, 2, …, K draft passes, (max_draft_length,); the first is 1."""
        return np.concatenate([[1.0], self.reach_probability])[: self.max_draft_length]

    @property
    def expected_drafted_tokens(self) -> float:
        """E[D]; a verify pass is one wider."""
        return float(self.reach_probability.sum())

    @property
    def expected_draft_passes(self) -> float:
        """E[min(D + 1, K)]: the pass whose proposal was cut counts."""
        return float(self.pass_probability.sum())

    @property
    def draft_acceptance_rate(self) -> float | None:
        """Accepted ÷ drafted tokens; None if nothing is drafted."""
        drafted = self.expected_drafted_tokens
        return (self.expected_tokens - 1.0) / drafted if drafted else None


def _from_reached(expected_tokens: float, reached: Floats) -> DynamicDraft:
    """From the probability of at least 1, …, K drafted tokens."""
    law = np.concatenate([[1.0], reached]) - np.concatenate([reached, [0.0]])
    return DynamicDraft(expected_tokens=float(expected_tokens), drafted_probability=tuple(law.tolist()))


def dynamic_from_counts(
    rounds_by_drafted: Mapping[int, Sequence[int]], max_draft_length: int | None = None
) -> DynamicDraft:
    """From rounds that were measured with a cut.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        Drafted tokens → number of rounds by accepted tokens, 0 to drafted: the joint law of D and A.
    max_draft_length : int, optional
        K, where the cut would have let the drafter go no further; the longest draft seen if not given.

    Returns
    -------
    DynamicDraft
        Rounds that were short for another reason, such as the end of the text, count as cut.

    Raises
    ------
    ValueError
        If there is no round, a row has not one entry more than was drafted, or more than K were.

    Examples
    --------
    >>> draft = dynamic_from_counts({0: [2], 1: [1, 1], 2: [0, 1, 3]})
    >>> draft.expected_tokens, draft.expected_drafted_tokens, draft.expected_draft_passes
    (2.0, 1.25, 1.75)
    """
    for drafted, row in rounds_by_drafted.items():
        if check_counts("rounds_by_drafted", row).shape != (drafted + 1,):
            raise ValueError(f"rounds_by_drafted needs {drafted + 1} entries for {drafted} drafted; got {len(row)}")
    n_rounds, _, n_accepted = totals(rounds_by_drafted)
    if not n_rounds:
        raise ValueError("rounds_by_drafted must hold at least one round")
    rounds = {drafted: sum(row) for drafted, row in rounds_by_drafted.items()}
    longest = max(drafted for drafted, count in rounds.items() if count)
    length = longest if max_draft_length is None else int(check_counts("max_draft_length", max_draft_length))
    if length < longest:
        raise ValueError(f"max_draft_length must be at least {longest}, which a round drafted; got {length}")
    law = tuple(rounds.get(drafted, 0) / n_rounds for drafted in range(length + 1))
    return DynamicDraft(expected_tokens=1.0 + n_accepted / n_rounds, drafted_probability=law)


def dynamic_from_profile(profile: AcceptanceProfile) -> DynamicDraft:
    """From a profile of chains that were cut, or of a fixed length.

    Parameters
    ----------
    profile : AcceptanceProfile
        With rounds by drafted and accepted tokens. K is that of its measurement; of other sources, the longest draft.

    Raises
    ------
    BadInput
        If it does not hold rounds by drafted tokens, or is of a tree.

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> dynamic_from_profile(profile_from_counts({1: [1, 1], 2: [0, 1, 1]})).expected_draft_passes
    2.0
    """
    table = profile.table()
    if table is None or profile.tree is not None or not profile.n_rounds:
        raise BadInput(
            "a dynamic draft length needs rounds of a chain by drafted and accepted tokens",
            field="rounds_by_drafted",
            value=profile.evidence,
            remedy="bring a source that counts rounds, or measure with --cut",
        )
    return dynamic_from_counts(table, None if profile.measurement is None else len(profile.measurement.parents))


def dynamic_from_replay(confidence: ArrayLike, accepted: ArrayLike, thresholds: ArrayLike) -> list[DynamicDraft]:
    r"""From rounds of a run without a cut, as if each threshold had cut them.

    It is a replay of rounds, not of texts: with a cut, rounds would begin elsewhere, since a round that accepts less
    leaves the rest to the next one. What a round of the uncut run met is taken for what a round would meet.

    Parameters
    ----------
    confidence : (n_rounds, max_draft_length) array_like of float
        What the drafter would have been judged by at each position: the probability of its best token for a confidence
        cut; for an entropy cut, the *negative* entropy, since more must mean surer.
    accepted : (n_rounds,) array_like of int
        Accepted tokens of each round, 0 to ``max_draft_length``.
    thresholds : (n_thresholds,) array_like of float
        A draft stops before the first position whose confidence is below; −∞ never cuts, ∞ always.

    Returns
    -------
    list of DynamicDraft
        One a threshold.

    Raises
    ------
    ValueError
        If a shape does not fit, a confidence or threshold is NaN, or a round accepted more than it drafted.

    Notes
    -----
    With the confidence :math:`s_j` and the threshold t:

    .. math:: D' = \max\{i : \min_{j \le i} s_j \ge t\}, \qquad A' = \min(A, D')

    References
    ----------
    zhang2025 for the entropy cut

    Examples
    --------
    >>> drafts = dynamic_from_replay([[0.9, 0.4], [0.8, 0.7]], [1, 2], [0.0, 0.5, 1.0])
    >>> [(draft.expected_tokens, draft.expected_drafted_tokens) for draft in drafts]
    [(2.5, 2.0), (2.5, 1.5), (1.0, 0.0)]
    """
    surety = np.asarray(confidence, dtype=np.float64)
    kept = check_counts("accepted", accepted)
    limits = np.atleast_1d(np.asarray(thresholds, dtype=np.float64))
    if surety.ndim != 2 or not len(surety) or kept.shape != surety.shape[:1]:
        raise ValueError(f"confidence needs a row for each round of accepted; got {surety.shape} and {kept.shape}")
    if np.isnan(surety).any() or np.isnan(limits).any() or limits.ndim != 1:
        raise ValueError("confidence and thresholds must hold no NaN, and thresholds be a vector")
    if kept.max() > surety.shape[1]:
        raise ValueError(f"accepted must be at most {surety.shape[1]}, the drafted tokens; got {kept.max()}")
    weakest = np.minimum.accumulate(surety, axis=1)
    positions = range(surety.shape[1])
    reached = np.stack([_share_at_least(weakest[:, i], limits, len(kept)) for i in positions], -1)
    tokens = 1.0 + sum(_share_at_least(weakest[kept > i, i], limits, len(kept)) for i in positions)
    return [_from_reached(*point) for point in zip(np.broadcast_to(tokens, limits.shape), reached, strict=True)]


def _share_at_least(values: Floats, limits: Floats, total: int) -> Floats:
    """How many values reach each limit, ÷ total."""
    return (values.size - np.searchsorted(np.sort(values), limits, side="left")) / total


def dynamic_from_probabilities(
    continue_probability: ArrayLike,
    conditional_acceptance: ArrayLike,
    continue_if_accepted: ArrayLike | None = None,
) -> DynamicDraft:
    r"""From how often the drafter goes on and how often what it drafted is accepted.

    Parameters
    ----------
    continue_probability : (max_draft_length,) array_like of float
        Probability that position i is drafted, given that i − 1 was.
    conditional_acceptance : (max_draft_length,) array_like of float
        Acceptance of position i where it was drafted and every earlier one accepted: that of a drafter with this cut,
        which is higher than without.
    continue_if_accepted : (max_draft_length,) array_like of float, optional
        Probability that position i is drafted, given that i − 1 was drafted *and* accepted. If it is not given, going
        on is assumed not to depend on whether earlier tokens will be accepted. A drafter that is sure where it is right
        goes on more often than that, so the assumption tends to give too few tokens.

    Raises
    ------
    ValueError
        If an entry is no probability, or the vectors are not equally long.

    Notes
    -----
    .. math:: P(D \ge i) = \prod_{j \le i} \gamma_j, \qquad E = 1 + \sum_i \prod_{j \le i} \gamma'_j \alpha_j

    with :math:`\gamma'` the probability of going on where all was accepted, :math:`\gamma' = \gamma` by assumption.

    References
    ----------
    leviathan2023 for a fixed length, where every γ is 1.

    Examples
    --------
    >>> draft = dynamic_from_probabilities([0.5, 0.5], [0.8, 0.8])
    >>> round(draft.expected_tokens, 4), draft.drafted_probability
    (1.56, (0.5, 0.25, 0.25))
    """
    going = check_probability("continue_probability", continue_probability)
    accepted = check_probability("conditional_acceptance", conditional_acceptance)
    kept = going if continue_if_accepted is None else check_probability("continue_if_accepted", continue_if_accepted)
    if going.ndim != 1 or accepted.shape != going.shape or kept.shape != going.shape:
        raise ValueError(
            "continue_probability, conditional_acceptance and continue_if_accepted must be equally long vectors; "
            f"got {going.shape}, {accepted.shape} and {kept.shape}"
        )
    return _from_reached(float(expected_tokens_per_round(kept * accepted)), marginal_from_conditional(going))
