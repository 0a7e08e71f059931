"""Which tokens become nodes: the best, or draws without replacement; and where a draft stops for lack of confidence.

A cut must be decided *before* the token is drawn. Dropping a drawn token because it looks unlikely changes the law of
what remains: the rule of verification would divide by a probability that the token did not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specbook.checks import check_non_negative, check_probability
from specbook.engine.chance import Chance
from specbook.engine.draft import Draft, TreeShape
from specbook.engine.sampling import (
    Probabilities,
    SamplingConfig,
    distribution,
    draw_distinct,
    entropy_nats,
)

Array = NDArray[Any]
Extend = Callable[[Draft, list[int]], Array]

_AS_IT_IS = SamplingConfig(temperature=1.0)


class Cut(Protocol):
    """When to stop drafting below a node."""

    def stops(self, probabilities: Probabilities) -> bool:
        """Whether nothing is drafted from this distribution of the drafter at temperature 1."""


def read_cut(text: str) -> Cut:
    """A cut as the command line writes it: ``none``, ``entropy:NATS`` or ``confidence:PROBABILITY``.

    Raises
    ------
    ValueError
        If it is written otherwise, or its number is out of range.

    Examples
    --------
    >>> read_cut("entropy:1.5")
    EntropyCut(max_nats=1.5)
    """
    kind, _, number = text.partition(":")
    if text == "none":
        return NoCut()
    try:
        limit = float(number)
    except ValueError:
        kind = ""
    if kind == "entropy":
        return EntropyCut(limit)
    if kind == "confidence":
        return ConfidenceCut(limit)
    raise ValueError(f"cut must be none, entropy:NATS or confidence:PROBABILITY; got {text!r}")


@dataclass(frozen=True, slots=True)
class NoCut:
    """Fixed draft length: every round drafts the whole shape.

    Examples
    --------
    >>> NoCut().stops(np.array([0.5, 0.5]))
    False
    """

    def stops(self, probabilities: Probabilities) -> bool:  # noqa: ARG002
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class EntropyCut:
    """Stop where the drafter's entropy exceeds a limit, in nats.

    Examples
    --------
    >>> EntropyCut(0.5).stops(np.array([0.5, 0.5]))
    True
    """

    max_nats: float

    def __post_init__(self) -> None:
        check_non_negative("max_nats", self.max_nats)

    def stops(self, probabilities: Probabilities) -> bool:
        """Whether the entropy is above the limit."""
        return entropy_nats(probabilities) > self.max_nats


@dataclass(frozen=True, slots=True)
class ConfidenceCut:
    """Stop where the drafter's best token has less probability than this.

    Examples
    --------
    >>> ConfidenceCut(0.4).stops(np.array([0.5, 0.5]))
    False
    """

    min_probability: float

    def __post_init__(self) -> None:
        check_probability("min_probability", self.min_probability)

    def stops(self, probabilities: Probabilities) -> bool:
        """Whether the best token is below the limit."""
        return float(probabilities.max()) < self.min_probability


@dataclass(frozen=True, kw_only=True, slots=True)
class Chooser:
    """Chooses the children of a node from the drafter's logits."""

    sampling: SamplingConfig
    chance: Chance
    cut: Cut = NoCut()

    def children(self, logits: Array, n_children: int) -> list[tuple[int, Probabilities | None]]:
        """Tokens with the distribution each was drawn from; fewer if the distribution has fewer, none if it is cut.

        Parameters
        ----------
        logits : (n_vocab,) ndarray
            −∞ where a token cannot follow.
        n_children : int
        """
        if not np.isfinite(logits).any():
            return []
        if not isinstance(self.cut, NoCut) and self.cut.stops(distribution(logits, _AS_IT_IS)):
            return []
        if self.sampling.is_greedy:
            return [(token, None) for token in _best(logits, n_children)]
        return list(draw_distinct(distribution(logits, self.sampling), n_children, self.chance))


def _best(logits: Array, n_tokens: int) -> list[int]:
    """The tokens of the largest logits, best first; the lower id first in a tie."""
    if n_tokens == 1:
        best = int(np.argmax(logits))
        return [best] if np.isfinite(logits[best]) else []
    order = np.argsort(-logits, kind="stable")[:n_tokens]
    return [int(token) for token in order if np.isfinite(logits[token])]


def grow(shape: TreeShape, root_logits: Array, extend: Extend, chooser: Chooser) -> Draft:
    """Draft a tree level by level.

    Parameters
    ----------
    shape : TreeShape
    root_logits : (n_vocab,) ndarray
        The drafter's logits behind the last token.
    extend : callable
        Takes the draft and the nodes of one level that have children, and returns the logits behind each of them,
        (n_nodes, n_vocab).
    chooser : Chooser

    Returns
    -------
    Draft
    """
    draft = Draft()
    offspring = {node: len(shape.children(node)) for node in range(-1, shape.n_nodes)}
    level, logits, place = [-1], root_logits[None], {-1: -1}  # place: node of the draft → node of the shape
    while level:
        grown: list[int] = []
        for node, scores in zip(level, logits, strict=True):
            places = shape.children(place[node])
            for spot, (token, drawn_from) in zip(places, chooser.children(scores, len(places)), strict=False):
                child = draft.add(token, node, drawn_from)
                place[child] = spot
                grown.append(child)
        level = [node for node in grown if offspring[place[node]]]
        if level:
            logits = extend(draft, level)
    return draft
