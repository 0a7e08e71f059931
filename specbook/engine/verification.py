"""Which drafted tokens stay: one rule for greedy and sampled decoding, for chains and trees.

A child ``x`` drawn from ``q`` stays with probability ``min(1, p(x) / q(x))``; if it does not, ``p`` becomes the
residual ``max(p − q, 0)``, scaled to 1, and the next sibling is tried against it. If no child stays, the token is drawn
from what is left of ``p``. The law of the tokens is the target's, whatever the drafts were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbook.engine.chance import Chance
from specbook.engine.draft import Draft
from specbook.engine.sampling import Probabilities


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The accepted path, as nodes of the draft, and the target's own token behind it.

    ``tried`` and ``kept`` count, for each rank among siblings, how often that sibling was tried and accepted.
    """

    path: tuple[int, ...]
    next_token: int
    tried: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()


def acceptance_probability(target: Probabilities, token: int, drawn_from: Probabilities | None) -> float:
    """Probability that a drafted token stays.

    Parameters
    ----------
    target : (n_vocab,) ndarray
        The target's distribution, or what earlier siblings left of it.
    token : int
    drawn_from : (n_vocab,) ndarray or None
        Distribution of the draft; None if the token was chosen without chance.

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> acceptance_probability(np.array([0.25, 0.75]), 0, np.array([0.5, 0.5]))
    0.5
    """
    draft = 1.0 if drawn_from is None else float(drawn_from[token])
    return min(1.0, float(target[token]) / draft) if draft > 0.0 else 0.0


def residual(target: Probabilities, token: int, drawn_from: Probabilities | None) -> Probabilities:
    r"""What is left of the target's distribution after a drafted token was rejected.

    Notes
    -----
    .. math:: p'(x) = \frac{\max(0,\, p(x) - q(x))}{\sum_y \max(0,\, p(y) - q(y))}

    Where target and draft agree to rounding, nothing is left, and a rejection has probability 0 to rounding; then ``p``
    itself comes back.

    References
    ----------
    leviathan2023, chen2023

    Examples
    --------
    >>> print(residual(np.array([0.25, 0.75]), 0, np.array([0.5, 0.5])))
    [0. 1.]
    """
    if drawn_from is None:
        left = target.copy()
        left[token] = 0.0
    else:
        left = np.maximum(target - drawn_from, 0.0)
        left[token] = 0.0  # a rejected token has p(x) < q(x); rounding must not bring it back
    total = left.sum()
    if not total > 0.0:
        return target
    return np.asarray(left / total)


def verify(draft: Draft, target: Sequence[Probabilities], chance: Chance) -> Verdict:
    """Walk down the draft as far as it is accepted.

    Parameters
    ----------
    draft : Draft
    target : (1 + n_nodes) sequence of (n_vocab,) ndarray of float64
        The target's distribution after the last token, then after each node.
    chance : Chance
        Of acceptance; drafts have a stream of their own.

    Returns
    -------
    Verdict

    References
    ----------
    leviathan2023 for chains; miao2024 and chen2024sequoia for siblings drawn without replacement.

    Examples
    --------
    >>> from specbook.engine.chance import Dice
    >>> draft, chance = Draft(), Dice(np.random.default_rng(0))
    >>> node = draft.add(1, -1, None)
    >>> verdict = verify(draft, [np.array([0.0, 1.0]), np.array([1.0, 0.0])], chance)
    >>> verdict.path, verdict.next_token
    ((0,), 0)
    """
    children = draft.children()
    path: list[int] = []
    tried: list[int] = []
    kept: list[int] = []
    node, left = -1, target[0]
    while node in children:
        accepted = None
        for rank, child in enumerate(children[node]):
            _count(tried, rank)
            token, drawn_from = draft.tokens[child], draft.probabilities[child]
            if chance.accepts(acceptance_probability(left, token, drawn_from)):
                _count(kept, rank)
                accepted = child
                break
            left = residual(left, token, drawn_from)
        if accepted is None:
            break
        path.append(accepted)
        node, left = accepted, target[accepted + 1]
    return Verdict(path=tuple(path), next_token=chance.draw(left), tried=tuple(tried), kept=tuple(kept))


def _count(counts: list[int], rank: int) -> None:
    counts.extend([0] * (rank + 1 - len(counts)))
    counts[rank] += 1
