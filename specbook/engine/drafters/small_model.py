"""A small model of the same family, which runs ahead of the target with a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.engine.draft import Draft
from specbook.engine.drafters.branches import Branches
from specbook.engine.drafters.choice import Array, Chooser, Cut, NoCut, grow
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.transformer import Transformer


class SmallModelDrafter:
    """Drafts with a second, smaller language model.

    Parameters
    ----------
    model : Transformer
    cut : Cut
        Fixed length, or where to stop.

    References
    ----------
    leviathan2023, chen2023
    """

    method = "draft_model"

    def __init__(self, model: Transformer, cut: Cut | None = None) -> None:
        self.model, self.cut = model, cut or NoCut()

    @property
    def n_vocab(self) -> int:
        """Size of the draft model's vocabulary."""
        return self.model.n_vocab

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Read the prompt, all but its last token."""
        self._cache = self.model.new_cache(capacity)
        if len(tokens) > 1:
            self.model.prefill(tokens[:-1], self._cache)
        self._branches = Branches(self._cache)

    def propose(self, request: Request) -> Draft:
        """Read what is new, then draft level by level."""
        fresh = request.tokens[int(self._cache.lengths[0]) :]
        hidden = self.model.prefill(fresh, self._cache)
        self._branches = Branches(self._cache)
        chooser = Chooser(sampling=request.sampling, chance=request.chance, cut=self.cut)
        return grow(request.shape, self.model.logits(hidden[-1:])[0], self._extend, chooser)

    def _extend(self, draft: Draft, nodes: list[int]) -> Array:
        positions, mask = self._branches.place(draft, nodes)
        tokens = np.array([[draft.tokens[node] for node in nodes]])
        hidden = self.model.forward(tokens, positions, mask, self._cache)
        return np.asarray(self.model.logits(hidden)[0])

    def accept(self, path: Sequence[int]) -> None:
        """Keep the rows of accepted nodes; the others are overwritten."""
        self._cache.commit([self._branches.rows(path)])
