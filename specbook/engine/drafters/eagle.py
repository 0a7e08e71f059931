"""An EAGLE-like head: one narrow layer that continues the target's own vectors instead of reading tokens alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.engine.decoder import Decoder
from specbook.engine.draft import Draft
from specbook.engine.drafters.branches import Branches
from specbook.engine.drafters.choice import Array, Chooser, Cut, NoCut, grow
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.layout import chain_positions
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights, check_shapes, stored_number, stored_spec


class EagleHead:
    """The head's weights in the target's arithmetic.

    Row j combines the embedding of token j + 1 with the target's vector at position j, and yields the vector that the
    target would have at position j + 1. Beyond the last token known, the head's own vectors are fed back.
    """

    def __init__(self, stored: StoredWeights, target: Transformer) -> None:
        spec = stored_spec(stored, "eagle")
        width, wide = spec.n_embedding, target.spec.n_embedding
        ends = {"combine": (width, 2 * wide), "widen": (wide, width), "final_norm": (width,)}
        check_shapes(stored.tensors, dict(spec.layer_shapes()) | ends, "eagle")
        self.target = target
        self.decoder = Decoder(spec, stored.tensors, target.arithmetic)
        self._embedding = target.embedding * target.arithmetic.dtype(stored_number(stored, "embedding_scale", "eagle"))
        self._combine = target.arithmetic.prepare(stored.tensors["combine"])
        widen = stored.tensors["widen"].astype(target.arithmetic.dtype)
        self._widen = target.arithmetic.prepare(widen * stored.tensors["final_norm"])

    def inputs(self, tokens: Sequence[int], features: Array) -> Array:
        """Rows for tokens and the target's vectors at the positions before them, (1, n_rows, width)."""
        rows = np.concatenate([self._embedding[np.asarray(tokens)], features], axis=1)
        return np.asarray(self._combine(rows)[None])

    def features(self, hidden: Array) -> Array:
        """The target's vectors that these rows stand for, (n_rows, target width)."""
        return self._widen(self.decoder.norm(hidden))


class EagleDrafter:
    """Drafts with an EAGLE-like head.

    Parameters
    ----------
    head : EagleHead
        Of the target that verifies.
    cut : Cut
        Fixed length, or where to stop.

    References
    ----------
    eagle2024, of which it keeps the idea and not the size: the layer is narrower than the target's.
    """

    method = "eagle"

    def __init__(self, head: EagleHead, cut: Cut | None = None) -> None:
        self.head, self.cut = head, cut or NoCut()

    @property
    def n_vocab(self) -> int:
        """The target's."""
        return self.head.target.n_vocab

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Wait for the first round: the head reads what the target has read."""
        self._state = state
        self._cache = self.head.decoder.new_cache(capacity)

    def propose(self, request: Request) -> Draft:
        """Catch up with the target, then draft level by level."""
        self._vectors: dict[int, Array] = {}
        chooser = Chooser(sampling=request.sampling, chance=request.chance, cut=self.cut)
        root = self._catch_up(request.tokens)
        self._branches = Branches(self._cache)
        if root is None:
            return Draft()
        self._vectors[-1] = root
        return grow(request.shape, self._logits(root[None])[0], self._extend, chooser)

    def _catch_up(self, tokens: Sequence[int]) -> Array | None:
        """Read the target's vectors up to the last token; the head's vector there, None if the target read nothing."""
        known = int(self._cache.lengths[0])
        features = self._state.features(known)
        if not len(features):
            return None
        inputs = self.head.inputs(tokens[known + 1 :], features)
        positions = chain_positions(self._cache, inputs.shape[1])
        hidden = self.head.decoder.forward(inputs, positions, None, self._cache)
        self._cache.commit_all()
        return np.asarray(self.head.features(hidden[0, -1:])[0])

    def _logits(self, features: Array) -> Array:
        return self.head.target.logits_of_features(features)

    def _extend(self, draft: Draft, nodes: list[int]) -> Array:
        before = np.stack([self._vectors[draft.parents[node]] for node in nodes])
        inputs = self.head.inputs([draft.tokens[node] for node in nodes], before)
        positions, mask = self._branches.place(draft, nodes)
        hidden = self.head.decoder.forward(inputs, positions, mask, self._cache)
        features = self.head.features(hidden[0])
        self._vectors.update(zip(nodes, features, strict=True))
        return self._logits(features)

    def accept(self, path: Sequence[int]) -> None:  # noqa: ARG002
        """Drop every row: they were computed from the head's own vectors, and the target's are known now."""
        self._cache.drop_pending()
