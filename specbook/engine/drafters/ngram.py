"""An n-gram model of the text so far: counts of what followed, longest context first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from specbook.checks import check_counts
from specbook.engine.draft import Draft
from specbook.engine.drafters.choice import Array, Chooser, Cut, NoCut, grow
from specbook.engine.drafters.drafter import Request, TargetState


class NgramDrafter:
    """Predicts from the counts behind the longest context that has any.

    Unlike prompt lookup it has a distribution at every node, so it can be sampled, branch by rank, and stop where its
    entropy is high. Where no context is known it proposes nothing.

    Parameters
    ----------
    n_vocab : int
        The target's.
    longest : int
        Tokens of the longest context, at least 1.
    cut : Cut
        Fixed length, or where to stop.
    """

    method = "ngram"

    def __init__(self, n_vocab: int, longest: int = 3, cut: Cut | None = None) -> None:
        self.n_vocab = int(check_counts("n_vocab", n_vocab, minimum=1))
        self.longest = int(check_counts("longest", longest, minimum=1))
        self.cut = cut or NoCut()

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Forget other texts."""
        self._counts: dict[tuple[int, ...], Counter[int]] = {}
        self._n_counted = 0

    def _count(self, tokens: Sequence[int]) -> None:
        for end in range(max(1, self._n_counted), len(tokens)):
            for size in range(1, min(self.longest, end) + 1):
                context = tuple(tokens[end - size : end])
                self._counts.setdefault(context, Counter())[tokens[end]] += 1
        self._n_counted = len(tokens)

    def propose(self, request: Request) -> Draft:
        """Count what is new, then follow the counts."""
        self._count(request.tokens)
        self._tail = list(request.tokens[-self.longest :])
        chooser = Chooser(sampling=request.sampling, chance=request.chance, cut=self.cut)
        return grow(request.shape, self._logits(self._tail), self._extend, chooser)

    def _extend(self, draft: Draft, nodes: list[int]) -> Array:
        return np.stack([self._logits([*self._tail, *_path(draft, node)]) for node in nodes])

    def _logits(self, context: Sequence[int]) -> Array:
        """Log counts; −∞ for all tokens where no context is known."""
        logits = np.full(self.n_vocab, -np.inf)
        for size in range(min(self.longest, len(context)), 0, -1):
            found = self._counts.get(tuple(context[-size:]))
            if found:
                logits[list(found)] = np.log(list(found.values()))
                break
        return logits

    def accept(self, path: Sequence[int]) -> None:
        """Nothing to keep: accepted tokens are counted with the text."""


def _path(draft: Draft, node: int) -> list[int]:
    """Tokens from the root to a node."""
    tokens: list[int] = []
    while node >= 0:
        tokens.append(draft.tokens[node])
        node = draft.parents[node]
    return tokens[::-1]
