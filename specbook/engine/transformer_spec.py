"""The shape of a Llama-style transformer, and the tensors that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from types import UnionType

from specbook.checks import check_counts, check_positive

_SIZES = ("n_vocab", "n_embedding", "n_layers", "n_heads", "n_kv_heads", "head_size", "n_feed_forward", "max_context")


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerSpec:
    """A decoder with RMSNorm, rotary positions, grouped-query attention and SwiGLU.

    Parameters
    ----------
    n_vocab, n_embedding, n_layers, n_heads, n_kv_heads, head_size, n_feed_forward : int
        Sizes, each at least 1; ``n_kv_heads`` divides ``n_heads``, ``head_size`` is even.
    rope_theta : float
        Base of the rotary frequencies.
    norm_epsilon : float
        Added to the mean square in RMSNorm.
    max_context : int
        Largest number of tokens in a sequence.

    Raises
    ------
    ValueError
        If a size is impossible.

    Examples
    --------
    >>> sizes = {"n_vocab": 8, "n_embedding": 4, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "head_size": 2}
    >>> TransformerSpec(**sizes, n_feed_forward=6).n_parameters
    164
    """

    n_vocab: int
    n_embedding: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_size: int
    n_feed_forward: int
    rope_theta: float = 10_000.0
    norm_epsilon: float = 1e-5
    max_context: int = 4096

    def __post_init__(self) -> None:
        for name in _SIZES:
            _check_type(name, getattr(self, name), int)
            check_counts(name, getattr(self, name), minimum=1)
        for name in ("rope_theta", "norm_epsilon"):
            _check_type(name, getattr(self, name), int | float)
            check_positive(name, getattr(self, name))
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_kv_heads must divide n_heads = {self.n_heads}; got {self.n_kv_heads}")
        if self.head_size % 2:
            raise ValueError(f"head_size must be even, for rotary positions; got {self.head_size}")

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Names of all fields, as stored with weights."""
        return tuple(field.name for field in fields(cls))

    def layer_shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the layers' tensors; matrices are (n_out, n_in)."""
        query, both = self.n_heads * self.head_size, 2 * self.n_kv_heads * self.head_size
        for layer in range(self.n_layers):
            prefix = f"layers.{layer}."
            yield prefix + "attention_norm", (self.n_embedding,)
            yield prefix + "query_key_value", (query + both, self.n_embedding)
            yield prefix + "attention_output", (self.n_embedding, query)
            yield prefix + "feed_forward_norm", (self.n_embedding,)
            yield prefix + "gate_up", (2 * self.n_feed_forward, self.n_embedding)
            yield prefix + "down", (self.n_embedding, self.n_feed_forward)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all tensors of a model with a tied head."""
        ends = {"embedding": (self.n_vocab, self.n_embedding), "final_norm": (self.n_embedding,)}
        return ends | dict(self.layer_shapes())

    @property
    def n_parameters(self) -> int:
        """Parameters with a tied head."""
        total = 0
        for shape in self.shapes().values():
            total += shape[0] * (shape[1] if len(shape) == 2 else 1)
        return total


def _check_type(name: str, value: object, wanted: type | UnionType) -> None:
    """Text and whole floats pass for numbers where only a value is looked at, and fail where a size is used."""
    fits = isinstance(value, wanted) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"{name} must be a number of type {getattr(wanted, '__name__', wanted)}; got {value!r}")
