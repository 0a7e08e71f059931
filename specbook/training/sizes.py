"""Shapes of the models that the recipe trains: those that ship, and tiny ones that show in a minute that it works."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.engine.transformer_spec import TransformerSpec


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    """Shapes of a target and of what drafts for it.

    Parameters
    ----------
    target, draft : TransformerSpec
    eagle : TransformerSpec
        The layer inside the EAGLE-like head, which is narrower than the target.
    n_medusa_heads : int
        Medusa-like heads, at least 1: head ``i`` predicts the token ``i + 2`` places ahead.
    """

    target: TransformerSpec
    draft: TransformerSpec
    eagle: TransformerSpec
    n_medusa_heads: int = 4

    @property
    def n_exits(self) -> int:
        """Early exits of the target: one after every layer but the last."""
        return self.target.n_layers - 1


def shipped_sizes(n_vocab: int) -> ModelSizes:
    """The shapes of the shipped models.

    Examples
    --------
    >>> sizes = shipped_sizes(1024)
    >>> sizes.target.n_parameters, sizes.draft.n_parameters
    (6688128, 500352)
    """
    wide = {"n_vocab": n_vocab, "n_embedding": 384, "n_heads": 6, "n_kv_heads": 2, "head_size": 64}
    narrow = {"n_vocab": n_vocab, "n_embedding": 128, "n_heads": 4, "n_kv_heads": 2, "head_size": 32}
    return ModelSizes(
        target=TransformerSpec(**wide, n_layers=4, n_feed_forward=1024),
        draft=TransformerSpec(**narrow, n_layers=2, n_feed_forward=352),
        eagle=TransformerSpec(**narrow, n_layers=1, n_feed_forward=352),
    )


def tiny_sizes(n_vocab: int) -> ModelSizes:
    """Shapes that train in seconds and predict badly.

    Examples
    --------
    >>> tiny_sizes(300).target.n_parameters
    68672
    """
    wide = {"n_vocab": n_vocab, "n_embedding": 64, "n_heads": 4, "n_kv_heads": 2, "head_size": 16}
    narrow = {"n_vocab": n_vocab, "n_embedding": 32, "n_heads": 2, "n_kv_heads": 1, "head_size": 16}
    return ModelSizes(
        target=TransformerSpec(**wide, n_layers=2, n_feed_forward=64),
        draft=TransformerSpec(**narrow, n_layers=1, n_feed_forward=64),
        eagle=TransformerSpec(**narrow, n_layers=1, n_feed_forward=64),
        n_medusa_heads=2,
    )


SIZES = {"shipped": shipped_sizes, "tiny": tiny_sizes}
