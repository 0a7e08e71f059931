"""An early exit: the target's first layers draft, and its own cache is theirs.

One head serves every depth, fed with its own drafts one after the other, as a multi-token-prediction head is when it is
used more than once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.checks import check_counts
from specbook.engine.draft import Draft
from specbook.engine.drafters.branches import Branches
from specbook.engine.drafters.choice import Array, Chooser, Cut, NoCut, grow
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.layout import chain_positions
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights, check_shapes, stored_number


class EarlyExitDrafter:
    """Drafts with the first layers of the target and a small correction of their output.

    Parameters
    ----------
    stored : StoredWeights
        Holds ``exits.i``, (n_embedding, n_embedding), for the exit after layer i + 1.
    target : Transformer
        The model that verifies.
    n_layers : int
        Layers to run, at least 1 and at most the number of exits.
    cut : Cut
        Fixed length, or where to stop.

    Raises
    ------
    ValueError
        If there is no exit after that layer.

    References
    ----------
    elhoushi2024, of which it keeps drafting with the first layers and their cache; the target was not trained for it.
    """

    method = "early_exit"

    def __init__(self, stored: StoredWeights, target: Transformer, n_layers: int = 2, cut: Cut | None = None) -> None:
        n_exits, width = int(stored_number(stored, "n_exits", "medusa")), target.spec.n_embedding
        self.n_layers = int(check_counts("n_layers", n_layers, minimum=1))
        if self.n_layers > n_exits:
            raise ValueError(f"n_layers must be at most {n_exits}, the number of exits; got {n_layers}")
        check_shapes(stored.tensors, {f"exits.{self.n_layers - 1}": (width, width)}, "medusa")
        self.target, self.cut = target, cut or NoCut()
        self._exit = target.arithmetic.prepare(stored.tensors[f"exits.{self.n_layers - 1}"])

    @property
    def n_vocab(self) -> int:
        """The target's."""
        return self.target.n_vocab

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Share the target's cache: what it committed is right for its first layers too."""
        self._cache = state.cache

    def propose(self, request: Request) -> Draft:
        """Run the first layers over the last token, then level by level; leave no pending row behind."""
        root = np.array([[request.tokens[-1]]])
        hidden = self.target.forward(root, chain_positions(self._cache, 1), None, self._cache, self.n_layers)
        self._branches = Branches(self._cache)
        chooser = Chooser(sampling=request.sampling, chance=request.chance, cut=self.cut)
        draft = grow(request.shape, self.logits(hidden[0])[0], self._extend, chooser)
        self._cache.drop_pending()
        return draft

    def _extend(self, draft: Draft, nodes: list[int]) -> Array:
        positions, mask = self._branches.place(draft, nodes)
        tokens = np.array([[draft.tokens[node] for node in nodes]])
        hidden = self.target.forward(tokens, positions, mask, self._cache, self.n_layers)
        return self.logits(hidden[0])

    def logits(self, hidden: Array) -> Array:
        """Logits of the exit from hidden vectors after its layers, (n_rows, n_vocab)."""
        return self.target.logits(hidden + self._exit(self.target.features(hidden)))

    def accept(self, path: Sequence[int]) -> None:
        """Nothing to keep: the verify pass wrote all layers."""
