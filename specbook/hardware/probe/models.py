"""Shapes that a probe measures: the engine's models and the weight matrices that their passes multiply with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specbook.engine.transformer_spec import TransformerSpec

# Positions behind the longest context, for the rows of a pass.
ROOM_TOKENS = 16
LONGEST_CONTEXT_TOKENS = 16384
_POSITIONS = LONGEST_CONTEXT_TOKENS + ROOM_TOKENS

_TARGET = TransformerSpec(
    n_vocab=1024,
    n_embedding=384,
    n_layers=4,
    n_heads=6,
    n_kv_heads=2,
    head_size=64,
    n_feed_forward=1024,
    max_context=_POSITIONS,
)
_DRAFT = TransformerSpec(
    n_vocab=1024,
    n_embedding=128,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_size=32,
    n_feed_forward=352,
    max_context=_POSITIONS,
)

# Named as in the model library; r8 is the target with its cost dial at 8, so that a step reads more than a cache holds.
SCRATCH_MODELS: dict[str, TransformerSpec] = {
    "specbook-target-r8": replace(_TARGET, n_feed_forward=8 * _TARGET.n_feed_forward),
    "specbook-target": _TARGET,
    "specbook-draft": _DRAFT,
}
DIALLED, TARGET, DRAFT = SCRATCH_MODELS


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Weights:
    """A weight matrix, (n_out, n_in)."""

    n_out: int
    n_in: int

    @property
    def n_values(self) -> int:
        """Entries."""
        return self.n_out * self.n_in


def layer_weights(spec: TransformerSpec) -> list[Weights]:
    """The four matrices of one layer, as the engine fuses them: query-key-value, output, gate-up, down.

    Examples
    --------
    >>> [(w.n_out, w.n_in) for w in layer_weights(SCRATCH_MODELS["specbook-target"])]
    [(640, 384), (384, 384), (2048, 384), (384, 1024)]
    """
    shapes = [shape for name, shape in spec.layer_shapes() if name.startswith("layers.0.") and len(shape) == 2]
    return [Weights(n_out=shape[0], n_in=shape[1]) for shape in shapes]


def head_weights(spec: TransformerSpec) -> Weights:
    """The matrix that makes logits.

    Examples
    --------
    >>> head_weights(SCRATCH_MODELS["specbook-draft"]).n_out
    1024
    """
    return Weights(n_out=spec.n_vocab, n_in=spec.n_embedding)


_SMOLLM = [(960, 576), (576, 576), (3072, 576), (576, 1536)]
SMOLLM_HEAD = Weights(n_out=49152, n_in=576)
SMOLLM_LAYER = [Weights(n_out=n_out, n_in=n_in) for n_out, n_in in _SMOLLM]

# Llama-3.1-8B's, for devices that would not notice the engine's own.
_LLAMA = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]
LLAMA_WEIGHTS = [Weights(n_out=n_out, n_in=n_in) for n_out, n_in in _LLAMA]


def engine_weights() -> list[Weights]:
    """Every matrix of the scratch models once, smallest first.

    Examples
    --------
    >>> len(engine_weights())
    12
    """
    found = {weights for spec in SCRATCH_MODELS.values() for weights in [*layer_weights(spec), head_weights(spec)]}
    return sorted(found, key=lambda weights: (weights.n_values, weights.n_out))


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """Heads of one attention layer."""

    n_heads: int
    n_kv_heads: int
    head_size: int

    @property
    def kv_values_per_token(self) -> int:
        """Keys of one token in one layer; as many values."""
        return self.n_kv_heads * self.head_size


TARGET_HEADS = Heads(n_heads=_TARGET.n_heads, n_kv_heads=_TARGET.n_kv_heads, head_size=_TARGET.head_size)
LLAMA_HEADS = Heads(n_heads=32, n_kv_heads=8, head_size=128)
