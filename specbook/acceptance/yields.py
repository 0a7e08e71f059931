"""Acceptance algebra: from acceptance per position to tokens per round.

A round drafts ``draft_length`` tokens and verifies them in one pass of the target. The accepted prefix and one more
token, the target's own (the bonus token, or the correction where a draft was rejected), are kept. Two vectors
describe it and are never mixed: ``conditional_acceptance`` (position i accepted, given that i - 1 was) and
``marginal_acceptance`` (positions 1 to i all accepted).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.checks import (
    Floats,
    check_counts,
    check_draft_axis,
    check_non_increasing,
    check_probability,
)

# How far the entries of a probability vector may sum from 1: float32 soft-max over 150,000 entries stays inside.
_SUM_TOLERANCE = 1e-5


def _probability_vector(name: str, value: ArrayLike) -> Floats:
    return check_draft_axis(name, check_probability(name, value))


def expected_tokens_per_round(conditional_acceptance: ArrayLike) -> Floats:
    r"""Mean number of tokens that one round yields, the target's own token included.

    Parameters
    ----------
    conditional_acceptance : (..., draft_length) array_like of float
        Probability in [0, 1] that draft position ``i`` is accepted, given that every earlier one was. An empty
        last axis (no speculation) yields 1.

    Returns
    -------
    (...) ndarray of float64
        Tokens per round, in [1, draft_length + 1].

    Raises
    ------
    ValueError
        If the input has no draft axis, or an entry lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: E = 1 + \sum_{i=1}^{K} \prod_{j=1}^{i} \alpha_j

    Assumes only that the first rejection ends the round; positions may differ.

    References
    ----------
    leviathan2023, whose equation (1) is the case of one constant acceptance.

    Examples
    --------
    >>> print(expected_tokens_per_round([0.8, 0.8, 0.8, 0.8]).round(4))
    3.3616
    """
    return np.asarray(1.0 + marginal_from_conditional(conditional_acceptance).sum(axis=-1))


def marginal_from_conditional(conditional_acceptance: ArrayLike) -> Floats:
    r"""Probability that positions 1 to i are all accepted.

    Parameters
    ----------
    conditional_acceptance : (..., draft_length) array_like of float
        Acceptance of position ``i`` given that every earlier one was accepted, in [0, 1].

    Returns
    -------
    (..., draft_length) ndarray of float64
        Marginal acceptance, in [0, 1], non-increasing along the last axis.

    Raises
    ------
    ValueError
        If the input has no draft axis, or an entry lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: m_i = \prod_{j \le i} \alpha_j

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> print(marginal_from_conditional([0.816, 0.777, 0.750]).round(4))
    [0.816  0.634  0.4755]
    """
    alpha = _probability_vector("conditional_acceptance", conditional_acceptance)
    return np.asarray(np.cumprod(alpha, axis=-1), dtype=np.float64)


def conditional_from_marginal(marginal_acceptance: ArrayLike) -> Floats:
    r"""Acceptance of position i given that every earlier position was accepted.

    Parameters
    ----------
    marginal_acceptance : (..., draft_length) array_like of float
        Probability in [0, 1] that positions 1 to ``i`` are all accepted; it never rises.

    Returns
    -------
    (..., draft_length) ndarray of float64
        Conditional acceptance, in [0, 1]; NaN where the position before is never accepted, so that nothing was
        observed.

    Raises
    ------
    ValueError
        If the input has no draft axis, leaves [0, 1], is NaN or rises.

    Notes
    -----
    .. math:: \alpha_i = m_i / m_{i-1}, \qquad m_0 = 1

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> print(conditional_from_marginal([0.8, 0.4, 0.0, 0.0]))
    [0.8 0.5 0.  nan]
    """
    marginal = _probability_vector("marginal_acceptance", marginal_acceptance)
    check_non_increasing("marginal_acceptance", marginal)
    before = np.concatenate([np.ones_like(marginal[..., :1]), marginal[..., :-1]], axis=-1)[..., : marginal.shape[-1]]
    unknown = np.full_like(marginal, np.nan)
    return np.asarray(np.divide(marginal, before, out=unknown, where=before > 0.0))


def tokens_for_draft_length(draft_length: Any, marginal_acceptance: Any, xp: Any = np) -> Any:
    r"""Tokens per round when only the first ``draft_length`` positions of a vector are drafted.

    Written over a namespace ``xp`` (numpy, or the Vega expressions of :mod:`specbook.display.formula`), so that the
    published page evaluates this same function. It takes the vector to hold at every draft length, which is an
    assumption: position 1 was accepted in 83.4 % of rounds at K = 1 and in 76.2 % at K = 8 on one server.

    Parameters
    ----------
    draft_length : (...) array_like of int, or an expression
        Number of drafted tokens K; above the length of the vector, further positions count as never accepted.
    marginal_acceptance : sequence of float, arrays or expressions
        Probability that positions 1 to i are all accepted; one entry a position.
    xp : namespace
        Provides ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Tokens per round.

    Notes
    -----
    .. math:: E(K) = 1 + \sum_i m_i \, [K \ge i]

    References
    ----------
    leviathan2023; vllm48892 for the dependence on K.

    Examples
    --------
    >>> print(tokens_for_draft_length(np.array([0, 1, 2]), [0.8, 0.4]))
    [1.  1.8 2.2]
    """
    total = 1.0
    for position, marginal in enumerate(marginal_acceptance, start=1):
        total = total + xp.where(draft_length >= position, marginal, 0.0)
    return total


def draft_acceptance_rate(draft_length: Any, marginal_acceptance: Any, xp: Any = np) -> Any:
    r"""Accepted ÷ drafted tokens when only the first ``draft_length`` positions of a vector are drafted.

    It is the mean of the marginal acceptances that were drafted, so it falls with every further draft, even where each
    one pays: rates at different draft lengths do not rank anything. Written over ``xp`` and under the same assumption
    as :func:`tokens_for_draft_length`.

    Parameters
    ----------
    draft_length : (...) array_like of int, or an expression
        Number of drafted tokens K, at least 1.
    marginal_acceptance : sequence of float, arrays or expressions
        Probability that positions 1 to i are all accepted; one entry a position.
    xp : namespace
        Provides ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        In [0, 1].

    Notes
    -----
    .. math:: \frac{E(K) - 1}{K} = \frac{1}{K} \sum_{i \le K} m_i

    References
    ----------
    minefield2026

    Examples
    --------
    >>> print(draft_acceptance_rate(np.array([1, 2]), [0.8, 0.4]).round(4))
    [0.8 0.6]
    """
    return (tokens_for_draft_length(draft_length, marginal_acceptance, xp) - 1.0) / draft_length


def tokens_distribution(conditional_acceptance: ArrayLike) -> Floats:
    r"""Distribution of the number of tokens one round yields.

    Parameters
    ----------
    conditional_acceptance : (..., draft_length) array_like of float
        Acceptance of position ``i`` given that every earlier one was accepted, in [0, 1].

    Returns
    -------
    (..., draft_length + 1) ndarray of float64
        Entry ``j`` is the probability of ``j + 1`` tokens; each row sums to 1.

    Raises
    ------
    ValueError
        If the input has no draft axis, or an entry lies outside [0, 1] or is NaN.

    Notes
    -----
    .. math:: P(T = j) = m_{j-1} - m_j, \qquad m_0 = 1, \; m_{K+1} = 0

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> print(tokens_distribution([0.5, 0.5]))
    [0.5  0.25 0.25]
    """
    marginal = marginal_from_conditional(conditional_acceptance)
    edge = np.ones((*marginal.shape[:-1], 1))
    return -np.diff(np.concatenate([edge, marginal, 0.0 * edge], axis=-1), axis=-1)


def expected_rounds(conditional_acceptance: ArrayLike, n_tokens: int) -> Floats:
    r"""Mean number of rounds that emit exactly ``n_tokens``, the last one cut at the end of the sequence.

    A long sequence needs ``n_tokens / expected_tokens_per_round`` rounds; a short one needs more, because what the
    last round yields beyond the end is thrown away.

    Parameters
    ----------
    conditional_acceptance : (..., draft_length) array_like of float
        Acceptance of position ``i`` given that every earlier one was accepted, in [0, 1].
    n_tokens : int
        Tokens to emit, at least 0.

    Returns
    -------
    (...) ndarray of float64
        Rounds, between ``ceil(n_tokens / (draft_length + 1))`` and ``n_tokens``.

    Raises
    ------
    ValueError
        If the acceptance is no vector of probabilities, or ``n_tokens`` is negative or not whole.

    Notes
    -----
    .. math:: N_0 = 0, \qquad N_d = 1 + \sum_{j=1}^{K+1} P(T = j) \, N_{\max(0,\, d-j)}

    Rounds are taken to be independent and alike.

    References
    ----------
    leviathan2023 for the law of one round; the recursion is renewal theory.

    Examples
    --------
    >>> print(expected_rounds([0.8] * 4, 64).round(3), (64 / expected_tokens_per_round([0.8] * 4)).round(3))
    19.504 19.039
    """
    probability = tokens_distribution(conditional_acceptance)  # (..., draft_length + 1)
    n_tokens = int(check_counts("n_tokens", n_tokens))
    rounds = np.zeros((*probability.shape[:-1], n_tokens + 1))
    for emitted in range(1, n_tokens + 1):
        remaining = np.maximum(0, emitted - np.arange(1, probability.shape[-1] + 1))
        rounds[..., emitted] = 1.0 + (probability * rounds[..., remaining]).sum(axis=-1)
    return np.asarray(rounds[..., -1])


def expected_acceptance(target_probability: ArrayLike, draft_probability: ArrayLike) -> Floats:
    r"""Probability that speculative sampling accepts one drafted token: one minus the total variation.

    Parameters
    ----------
    target_probability, draft_probability : (..., vocab) array_like of float
        Next-token distributions P and Q of target and draft; each sums to 1.

    Returns
    -------
    (...) ndarray of float64
        Expected acceptance in [0, 1].

    Raises
    ------
    ValueError
        If an entry lies outside [0, 1] or a distribution does not sum to 1 (within 1e-5).

    Notes
    -----
    .. math:: E_{x \sim Q}\left[\min(1, P(x)/Q(x))\right] = \sum_x \min(P(x), Q(x)) = 1 - \mathrm{TV}(P, Q)

    References
    ----------
    leviathan2023, section 3.2; chen2023, theorem 1.

    Examples
    --------
    >>> print(expected_acceptance([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]))
    0.5
    """
    target = _distribution("target_probability", target_probability)
    draft = _distribution("draft_probability", draft_probability)
    return np.asarray(np.minimum(target, draft).sum(axis=-1))


def _distribution(name: str, value: ArrayLike) -> Floats:
    array = check_probability(name, value)
    if array.ndim == 0:
        raise ValueError(f"{name} needs a vocabulary axis; got a scalar")
    total = array.sum(axis=-1)
    if np.any(np.abs(total - 1.0) > _SUM_TOLERANCE):
        raise ValueError(f"{name} must sum to 1 along the last axis; got {total.flat[np.argmax(np.abs(total - 1.0))]}")
    return array


def greedy_acceptance(target_scores: ArrayLike, draft_scores: ArrayLike) -> NDArray[np.bool_]:
    """Whether greedy decoding accepts the draft: target and draft have the same top token.

    Parameters
    ----------
    target_scores, draft_scores : (..., vocab) array_like of float
        Logits or probabilities; a tie goes to the lowest token id, as in ``numpy.argmax``.

    Returns
    -------
    (...) ndarray of bool

    Raises
    ------
    ValueError
        If a score is NaN: it would win every comparison.

    References
    ----------
    leviathan2023, the limit of temperature 0.

    Examples
    --------
    >>> print(greedy_acceptance([[2.0, 1.0], [0.0, 1.0]], [[0.9, 0.1], [0.9, 0.1]]))
    [ True False]
    """
    target, draft = np.asarray(target_scores, dtype=np.float64), np.asarray(draft_scores, dtype=np.float64)
    for name, scores in (("target_scores", target), ("draft_scores", draft)):
        if np.any(np.isnan(scores)):
            raise ValueError(f"{name} must not hold NaN")
    return np.asarray(target.argmax(axis=-1) == draft.argmax(axis=-1))
