"""Medusa-like heads: head i guesses the token i + 1 places behind the last one from the target's last vector alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.engine.draft import Draft
from specbook.engine.drafters.choice import Array, Chooser, Cut, NoCut, grow
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.layout import depths
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights, check_shapes, stored_number


class MedusaHeads:
    """The heads' weights in the target's arithmetic."""

    def __init__(self, stored: StoredWeights, target: Transformer) -> None:
        width = target.spec.n_embedding
        self.n_heads = int(stored_number(stored, "n_heads", "medusa"))
        shapes: dict[str, tuple[int, ...]] = {f"heads.{i}.residual": (width, width) for i in range(self.n_heads)}
        check_shapes(stored.tensors, shapes | {f"heads.{i}.gain": (width,) for i in range(self.n_heads)}, "medusa")
        self.target = target
        dtype = target.arithmetic.dtype
        self._residual = [target.arithmetic.prepare(stored.tensors[f"heads.{i}.residual"]) for i in range(self.n_heads)]
        self._gain = [stored.tensors[f"heads.{i}.gain"].astype(dtype) for i in range(self.n_heads)]

    def logits(self, feature: Array, n_heads: int) -> Array:
        """Logits of the first heads for one vector of the target, (n_heads, n_vocab)."""
        rows = [feature + _silu(self._residual[i](feature[None])[0]) * self._gain[i] for i in range(n_heads)]
        return self.target.logits_of_features(np.stack(rows))


def _silu(values: Array) -> Array:
    with np.errstate(over="ignore"):  # exp overflows to infinity, whose inverse is the limit 0
        return np.asarray(values / (1.0 + np.exp(-values)))


class MedusaDrafter:
    """Drafts all depths at once; the guesses at one depth do not know which token stands before them.

    Parameters
    ----------
    heads : MedusaHeads
        Of the target that verifies; a draft is no deeper than there are heads.
    cut : Cut
        Fixed length, or where to stop.

    References
    ----------
    cai2024
    """

    method = "medusa"

    def __init__(self, heads: MedusaHeads, cut: Cut | None = None) -> None:
        self.heads, self.cut = heads, cut or NoCut()

    @property
    def n_vocab(self) -> int:
        """The target's."""
        return self.heads.target.n_vocab

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:  # noqa: ARG002
        """Remember where the target's vectors are."""
        self._state = state

    def propose(self, request: Request) -> Draft:
        """Read the target's last vector; nothing is drafted before it has one."""
        shape = request.shape.cut(self.heads.n_heads)
        if self._state.length == 0 or not shape.n_nodes:
            return Draft()
        logits = self.heads.logits(self._state.features(self._state.length - 1)[0], shape.depth)

        def extend(draft: Draft, nodes: list[int]) -> Array:
            return np.asarray(logits[depths(draft.parents)[nodes]])

        return grow(shape, logits[0], extend, Chooser(sampling=request.sampling, chance=request.chance, cut=self.cut))

    def accept(self, path: Sequence[int]) -> None:
        """Nothing to keep."""
