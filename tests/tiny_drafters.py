"""Every drafter for the random models of :mod:`tests.tiny_models`: heads and exits are random too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from specbook.engine.drafters.choice import Cut
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.drafters.eagle import EagleDrafter, EagleHead
from specbook.engine.drafters.early_exit import EarlyExitDrafter
from specbook.engine.drafters.lookahead import LookaheadDrafter
from specbook.engine.drafters.medusa import MedusaDrafter, MedusaHeads
from specbook.engine.drafters.ngram import NgramDrafter
from specbook.engine.drafters.prompt_lookup import PromptLookupDrafter
from specbook.engine.drafters.small_model import SmallModelDrafter
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import StoredWeights
from tests.tiny_models import random_tensors, tiny_transformer

N_HEADS = 4


def small(target: Transformer, cut: Cut | None = None) -> Drafter:
    """A model of one layer with the target's vocabulary."""
    sizes = {"n_vocab": target.n_vocab, "n_layers": 1, "max_context": target.spec.max_context}
    return SmallModelDrafter(tiny_transformer(target.arithmetic.name, 5, **sizes), cut)


def eagle(target: Transformer, cut: Cut | None = None) -> Drafter:
    """A narrow layer of four heads."""
    sizes = {"n_embedding": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "head_size": 2, "n_feed_forward": 8}
    spec = TransformerSpec(n_vocab=target.n_vocab, max_context=target.spec.max_context, **sizes)
    rng, wide = np.random.default_rng(6), target.spec.n_embedding
    ends = {"combine": rng.normal(0.0, 0.3, (12, 2 * wide)), "widen": rng.normal(0.0, 0.3, (wide, 12))}
    tensors = random_tensors(spec, 6) | {name: values.astype(np.float32) for name, values in ends.items()}
    config = asdict(spec) | {"embedding_scale": 2.0}
    stored = StoredWeights(kind="eagle", config=config, sha256="", tensors=tensors)
    return EagleDrafter(EagleHead(stored, target), cut)


def _heads_and_exits(target: Transformer) -> StoredWeights:
    rng, width = np.random.default_rng(7), target.spec.n_embedding
    names = [f"heads.{head}.residual" for head in range(N_HEADS)] + ["exits.0"]
    tensors = {name: rng.normal(0.0, 0.3, (width, width)).astype(np.float32) for name in names}
    tensors |= {f"heads.{head}.gain": np.ones(width, np.float32) for head in range(N_HEADS)}
    return StoredWeights(kind="medusa", config={"n_heads": N_HEADS, "n_exits": 1}, sha256="", tensors=tensors)


def medusa(target: Transformer, cut: Cut | None = None) -> Drafter:
    """Four heads."""
    return MedusaDrafter(MedusaHeads(_heads_and_exits(target), target), cut)


def early_exit(target: Transformer, cut: Cut | None = None) -> Drafter:
    """The first layer of the target."""
    return EarlyExitDrafter(_heads_and_exits(target), target, n_layers=1, cut=cut)


def ngram(target: Transformer, cut: Cut | None = None) -> Drafter:
    """Contexts of up to three tokens."""
    return NgramDrafter(target.n_vocab, cut=cut)


def prompt_lookup(target: Transformer, cut: Cut | None = None) -> Drafter:  # noqa: ARG001
    """Suffixes of up to four tokens."""
    return PromptLookupDrafter()


def lookahead(target: Transformer, cut: Cut | None = None) -> Drafter:  # noqa: ARG001
    """Five columns and runs of four tokens."""
    return LookaheadDrafter(target)


def oracle(target: Transformer, cut: Cut | None = None) -> Drafter:
    """The target as its own draft model: greedy drafts are always right."""
    return SmallModelDrafter(target, cut)


WITH_CUT: dict[str, Callable[..., Drafter]] = {
    "small": small,
    "eagle": eagle,
    "medusa": medusa,
    "early_exit": early_exit,
    "ngram": ngram,
}
TINY_DRAFTERS: dict[str, Callable[..., Drafter]] = WITH_CUT | {"prompt_lookup": prompt_lookup, "lookahead": lookahead}
