"""From logits to a distribution, and from a distribution to tokens.

Temperature 0 is the distribution that puts everything on the top token, so that greedy decoding needs no rule of its
own: acceptance, rejection and the residual are the same arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import check_counts, check_non_negative
from specbook.engine.chance import Chance

Probabilities = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingConfig:
    """How the next token is drawn.

    Parameters
    ----------
    temperature : float
        Divides the logits; 0 is greedy.
    top_k : int
        Keep this many of the most probable tokens; 0 keeps all. A tie at the edge goes to the lowest ids.
    top_p : float
        Then keep the fewest most probable tokens whose probabilities reach this sum, in (0, 1].

    Raises
    ------
    ValueError
        If a value is out of range.

    Examples
    --------
    >>> SamplingConfig(top_p=0.0)
    Traceback (most recent call last):
        ...
    ValueError: top_p must lie in (0, 1]; got 0.0
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        check_non_negative("temperature", self.temperature)
        check_counts("top_k", self.top_k)
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must lie in (0, 1]; got {self.top_p}")

    @property
    def is_greedy(self) -> bool:
        """Whether the top token is always taken."""
        return self.temperature == 0.0


GREEDY = SamplingConfig()


def distribution(logits: NDArray[Any], sampling: SamplingConfig = GREEDY) -> Probabilities:
    """Next-token distributions after temperature, top-k and top-p, in this order.

    Parameters
    ----------
    logits : (..., n_vocab) ndarray of float
    sampling : SamplingConfig

    Returns
    -------
    (..., n_vocab) ndarray of float64
        Each sums to 1. A tie for the top goes to the lowest id, as in ``numpy.argmax``.

    Raises
    ------
    ValueError
        If a logit is NaN, which would win every comparison, or the largest is infinite.

    Examples
    --------
    >>> distribution(np.array([1.0, 3.0, 2.0]))
    array([0., 1., 0.])
    >>> print(distribution(np.log([0.5, 0.3, 0.2]), SamplingConfig(temperature=1.0, top_k=2)).round(3))
    [0.625 0.375 0.   ]
    """
    scores = np.asarray(logits, dtype=np.float64)
    top = scores.max(axis=-1, keepdims=True)
    if not np.isfinite(top).all():
        raise ValueError("logits must not hold NaN, and the largest must be finite")
    if sampling.is_greedy:
        return one_hot(scores.argmax(axis=-1), scores.shape[-1])
    # A tiny temperature overflows the division to −∞, whose weight is 0: what the limit asks for.
    with np.errstate(over="ignore"):
        weights = np.exp((scores - top) / sampling.temperature)
    if sampling.top_k or sampling.top_p < 1.0:
        weights = _truncated(weights / weights.sum(axis=-1, keepdims=True), sampling)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _truncated(probabilities: Probabilities, sampling: SamplingConfig) -> Probabilities:
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=-1)
    if sampling.top_k:
        ordered[..., int(sampling.top_k) :] = 0.0
        ordered /= ordered.sum(axis=-1, keepdims=True)
    before = np.cumsum(ordered, axis=-1) - ordered
    ordered[before >= sampling.top_p] = 0.0
    kept = np.zeros_like(probabilities)
    np.put_along_axis(kept, order, ordered, axis=-1)
    return kept


def one_hot(tokens: Any, n_vocab: int) -> Probabilities:
    """All probability on each token, (..., n_vocab).

    Examples
    --------
    >>> one_hot(1, 3)
    array([0., 1., 0.])
    """
    ids = np.asarray(tokens)
    certain = np.zeros((*ids.shape, n_vocab))
    np.put_along_axis(certain, ids[..., None], 1.0, axis=-1)
    return certain


def draw_distinct(probabilities: Probabilities, n_tokens: int, chance: Chance) -> list[tuple[int, Probabilities]]:
    """Tokens drawn one after the other without putting them back, each with the distribution it was drawn from.

    Fewer come back where fewer have any probability.

    Examples
    --------
    >>> from specbook.engine.chance import Dice
    >>> drawn = draw_distinct(np.array([0.5, 0.5, 0.0]), 3, Dice(np.random.default_rng(0)))
    >>> sorted(token for token, _ in drawn)
    [0, 1]
    """
    left = probabilities.copy()
    drawn: list[tuple[int, Probabilities]] = []
    for _ in range(min(n_tokens, int(np.count_nonzero(probabilities)))):
        total = left.sum()
        if not total > 0.0:
            break
        left = left / total
        token = chance.draw(left)
        drawn.append((token, left))
        left = left.copy()
        left[token] = 0.0
    return drawn


def entropy_nats(probabilities: Probabilities) -> float:
    """Shannon entropy of a distribution, (n_vocab,), in nats.

    Examples
    --------
    >>> round(entropy_nats(np.array([0.5, 0.5, 0.0])) / math.log(2.0), 6)
    1.0
    """
    positive = probabilities[probabilities > 0.0]
    return float(-(positive * np.log(positive)).sum()) if len(positive) > 1 else 0.0


def logit_gap(logits: NDArray[Any]) -> float:
    """How far the top logit stands above the second, (n_vocab,) → float.

    Examples
    --------
    >>> logit_gap(np.array([1.0, 4.0, 2.5]))
    1.5
    """
    second, first = np.partition(np.asarray(logits, dtype=np.float64), -2)[-2:]
    return float(first - second) if math.isfinite(first) else math.nan
