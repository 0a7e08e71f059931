"""Seconds and speedup of rounds whose draft length varies, and the cut that is fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from specbook.acceptance.dynamic import DynamicDraft
from specbook.checks import Floats, check_counts, check_non_negative, check_positive

NO_DRAFT = DynamicDraft(expected_tokens=1.0, drafted_probability=(1.0,))


def batch_pass_probability(draft: DynamicDraft, batch: int) -> Floats:
    r"""Probability that a batch spends at least 1, 2, …, K draft passes: it drafts until its last sequence is cut.

    Parameters
    ----------
    draft : DynamicDraft
        Law of each sequence; they are taken to be independent.
    batch : int
        Sequences, at least 1.

    Returns
    -------
    (max_draft_length,) ndarray of float64

    Notes
    -----
    .. math:: P\left(\max_b \min(D_b + 1, K) \ge i\right) = 1 - P(D < i - 1)^B

    References
    ----------
    leviathan2023 for one sequence

    Examples
    --------
    >>> draft = DynamicDraft(expected_tokens=1.25, drafted_probability=(0.5, 0.5, 0.0))
    >>> batch_pass_probability(draft, 2).tolist()
    [1.0, 0.75]
    """
    batch = int(check_counts("batch", batch, minimum=1))
    return np.asarray(1.0 - (1.0 - draft.pass_probability) ** batch)


def verify_pass_tokens(draft: DynamicDraft, batch: int) -> float:
    """Mean positions of a verify pass over a batch: B (1 + E[D]), without padding.

    Examples
    --------
    >>> verify_pass_tokens(DynamicDraft(expected_tokens=1.25, drafted_probability=(0.5, 0.5)), 4)
    6.0
    """
    return int(check_counts("batch", batch, minimum=1)) * (1.0 + draft.expected_drafted_tokens)


def dynamic_round_seconds(draft: DynamicDraft, verify_s: ArrayLike, draft_pass_s: ArrayLike, batch: int = 1) -> float:
    r"""Mean seconds of a round.

    Parameters
    ----------
    draft : DynamicDraft
    verify_s : (max_draft_length + 1,) array_like of float
        Seconds of a pass of the target over 1 + d positions of each sequence of the batch, d = 0 to K; entry 0 is
        decoding without drafts.
    draft_pass_s : float or (max_draft_length,) array_like of float
        Seconds of a pass of the drafter over the batch, by position. A drafter that proposes all positions at once has
        its seconds in the first and 0 in the others.
    batch : int
        Sequences of a pass.

    Returns
    -------
    float
        Of one sequence, the mean over the law of the width. In a batch, sequences have different widths: the time of
        the pass is taken to be that of their mean width 1 + E[D], between entries on a straight line, and drafting
        lasts until the last sequence is cut. Where time rises ever faster with width, the mean of the times is above
        the time of the mean; where kernels pad to the widest sequence, the time is that of the widest.

    Raises
    ------
    ValueError
        If a pass of the target takes no time, one of the drafter is negative, or an axis does not fit.

    Notes
    -----
    .. math:: T_\text{round} = \sum_{i=1}^{K} P(\text{passes} \ge i)\, t_i + E[T(1 + D)]

    References
    ----------
    leviathan2023 for a fixed length

    Examples
    --------
    >>> draft = DynamicDraft(expected_tokens=1.75, drafted_probability=(0.25, 0.25, 0.5))
    >>> dynamic_round_seconds(draft, [1.0, 1.0, 1.5], 0.5)
    2.125
    """
    verify = check_positive("verify_s", verify_s)
    length = draft.max_draft_length
    if verify.shape != (length + 1,):
        raise ValueError(f"verify_s needs {length + 1} entries, one a draft length; got shape {verify.shape}")
    each = check_non_negative("draft_pass_s", draft_pass_s)
    if each.shape not in ((), (length,)):
        raise ValueError(f"draft_pass_s needs one entry or {length}, one a position; got shape {each.shape}")
    drafting = float((batch_pass_probability(draft, batch) * each).sum())
    if batch == 1:
        return drafting + float(np.asarray(draft.drafted_probability) @ verify)
    return drafting + float(np.interp(draft.expected_drafted_tokens, np.arange(length + 1), verify))


@dataclass(frozen=True, kw_only=True)
class BestCut:
    """The fastest of several dynamic drafts.

    Attributes
    ----------
    index : int or None
        Which one; None if drafting nothing is faster.
    draft : DynamicDraft
    round_s : float
        Seconds of a round.
    speedup : float
        Time per token without drafts ÷ with them; at least 1.
    """

    index: int | None
    draft: DynamicDraft
    round_s: float
    speedup: float


def dynamic_speedup(draft: DynamicDraft, verify_s: ArrayLike, draft_pass_s: ArrayLike, batch: int = 1) -> float:
    """Time per token without drafts ÷ with them, over many rounds: mean tokens over mean seconds.

    Parameters
    ----------
    draft, verify_s, draft_pass_s, batch
        As in :func:`dynamic_round_seconds`.

    Examples
    --------
    >>> draft = DynamicDraft(expected_tokens=1.75, drafted_probability=(0.25, 0.25, 0.5))
    >>> round(dynamic_speedup(draft, [1.0, 1.0, 1.2], 0.1), 4)
    1.3725
    """
    seconds = dynamic_round_seconds(draft, verify_s, draft_pass_s, batch)
    return float(draft.expected_tokens * np.asarray(verify_s, np.float64)[0] / seconds)


def best_cut(drafts: Sequence[DynamicDraft], verify_s: ArrayLike, draft_pass_s: ArrayLike, batch: int = 1) -> BestCut:
    """The fastest of several cuts; drafting nothing is always a candidate.

    Parameters
    ----------
    drafts : sequence of DynamicDraft
        Such as one a threshold, all with the same K. A threshold that cuts everything is not the same as drafting
        nothing: it pays for one draft pass a round.
    verify_s, draft_pass_s, batch
        As in :func:`dynamic_round_seconds`.

    Returns
    -------
    BestCut
        The first of equally fast ones, and no draft before any.

    Raises
    ------
    ValueError
        As :func:`dynamic_round_seconds`.

    References
    ----------
    leviathan2023 for a fixed length; zhang2025 for entropy cuts.

    Examples
    --------
    >>> from specbook.acceptance.dynamic import dynamic_from_replay
    >>> drafts = dynamic_from_replay([[0.9, 0.4], [0.8, 0.3]], [1, 1], [0.0, 0.5, 1.0])
    >>> best_cut(drafts, [1.0, 1.2, 1.4], 0.1).index
    1
    """
    decode_s = float(check_positive("verify_s", verify_s).flat[0])
    best = BestCut(index=None, draft=NO_DRAFT, round_s=decode_s, speedup=1.0)
    for index, draft in enumerate(drafts):
        speedup = dynamic_speedup(draft, verify_s, draft_pass_s, batch)
        if speedup > best.speedup:
            round_s = draft.expected_tokens * decode_s / speedup
            best = BestCut(index=index, draft=draft, round_s=round_s, speedup=speedup)
    return best
