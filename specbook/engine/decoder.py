"""The stack of decoder layers: vectors in, vectors out, keys and values into the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.engine.arithmetic import Arithmetic, Linear
from specbook.engine.attention import attend_as_block, attend_by_row
from specbook.engine.kv_cache import Integers, KVCache
from specbook.engine.layout import Mask, causal_mask
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import Tensors

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """The four products of one layer; the norms' weights and the query's scale are folded into them."""

    query_key_value: Linear
    attention_output: Linear
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLayout:
    """Which rows of a padded batch are real, and where each sequence's rows begin among them."""

    real: Mask  # (n_sequences, n_rows)
    starts: list[int]  # (n_sequences + 1,)
    positions: Integers  # (n_real,)
    masks: list[Mask]  # one a sequence, (n_real of the sequence, n_pending + n_real of the sequence)


class Decoder:
    """Decoder layers in one arithmetic.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : mapping of str to ndarray
        ``layers.i.…`` of :meth:`TransformerSpec.layer_shapes`.
    arithmetic : Arithmetic
    """

    def __init__(self, spec: TransformerSpec, tensors: Tensors, arithmetic: Arithmetic) -> None:
        self.spec, self.arithmetic = spec, arithmetic
        self.layers = [_layer(spec, tensors, arithmetic, index) for index in range(spec.n_layers)]
        self._cos, self._sin = _rotations(spec, arithmetic.dtype)
        self._attend = attend_by_row if arithmetic.by_row else attend_as_block

    def new_cache(self, capacity: int, n_sequences: int = 1) -> KVCache:
        """An empty cache for this decoder."""
        return KVCache(self.spec, capacity, n_sequences, self.arithmetic.dtype)

    def forward(
        self, inputs: Array, positions: Integers, mask: Mask | None, cache: KVCache, n_layers: int | None = None
    ) -> Array:
        """Run the layers and leave the rows pending in the cache.

        Parameters
        ----------
        inputs : (n_sequences, n_rows, n_embedding) ndarray
        positions : (n_sequences, n_rows) ndarray of int
        mask : (n_sequences, n_rows, n_pending + n_rows) ndarray of bool, or None
            None for rows that follow one another. See :mod:`specbook.engine.layout`.
        cache : KVCache
        n_layers : int, optional
            Stop after so many layers, whose rows alone are written.

        Returns
        -------
        (n_sequences, n_rows, n_embedding) ndarray
            Before the final norm; zero where a row is padding.

        Raises
        ------
        ValueError
            If the shapes do not fit each other, a position lies outside the context, or the cache has no room.
        """
        layout = self._layout(inputs, positions, mask, cache)
        first = cache.reserve(np.diff(layout.starts))
        rows = np.ascontiguousarray(inputs[layout.real])  # (n_real, n_embedding)
        cos, sin = self._cos[layout.positions], self._sin[layout.positions]
        for index, layer in enumerate(self.layers[:n_layers]):
            mixed = self._attention(index, layer.query_key_value(self.norm(rows)), cos, sin, layout, first, cache)
            rows = rows + layer.attention_output(mixed)
            rows = rows + layer.down(_swiglu(layer.gate_up(self.norm(rows)), self.spec.n_feed_forward))
        outputs = np.zeros(inputs.shape, self.arithmetic.dtype)
        outputs[layout.real] = rows
        return outputs

    def norm(self, rows: Array) -> Array:
        """RMSNorm over the last axis, without its weight."""
        mean_square = np.square(rows).mean(axis=-1, keepdims=True)
        return np.asarray(rows / np.sqrt(mean_square + self.arithmetic.dtype(self.spec.norm_epsilon)))

    def _layout(self, inputs: Array, positions: Integers, mask: Mask | None, cache: KVCache) -> RowLayout:
        n_sequences, n_rows = inputs.shape[:2]
        if n_sequences != cache.n_sequences or positions.shape != (n_sequences, n_rows):
            shapes = f"{cache.n_sequences} sequences, rows {inputs.shape[:2]} and positions {positions.shape}"
            raise ValueError(f"rows, positions and cache must agree; got {shapes}")
        if mask is None:
            masks = [causal_mask(int(pending), n_rows) for pending in cache.n_pending]
            real = np.ones((n_sequences, n_rows), np.bool_)
        else:
            real, masks = _real_rows(mask, n_rows, cache)
        kept = positions[real]
        if kept.size and (kept.min() < 0 or kept.max() >= self.spec.max_context):
            raise ValueError(
                f"positions must lie in 0 to {self.spec.max_context - 1}; got {kept.min()} to {kept.max()}"
            )
        starts = [0, *np.cumsum(real.sum(axis=1)).tolist()]
        return RowLayout(real=real, starts=starts, positions=kept, masks=masks)

    def _attention(
        self, index: int, product: Array, cos: Array, sin: Array, layout: RowLayout, first: Integers, cache: KVCache
    ) -> Array:
        spec = self.spec
        heads = product.reshape(len(product), spec.n_heads + 2 * spec.n_kv_heads, spec.head_size)
        rotated = _rotated(heads[:, : spec.n_heads + spec.n_kv_heads], cos, sin)
        queries, keys = rotated[:, : spec.n_heads], rotated[:, spec.n_heads :]
        values = heads[:, spec.n_heads + spec.n_kv_heads :]
        mixed = np.empty((len(product), spec.n_heads * spec.head_size), product.dtype)
        for sequence, (start, stop) in enumerate(zip(layout.starts, layout.starts[1:], strict=False)):
            if start == stop:
                continue
            slots = slice(int(first[sequence]), int(first[sequence]) + stop - start)
            stored = cache.keys[index, sequence], cache.values[index, sequence]
            stored[0][..., slots] = keys[start:stop].transpose(1, 2, 0)
            stored[1][:, slots] = values[start:stop].swapaxes(0, 1)
            length = int(cache.lengths[sequence])
            mixed[start:stop] = self._attend(queries[start:stop], *stored, length, layout.masks[sequence])
        return mixed


def _layer(spec: TransformerSpec, tensors: Tensors, arithmetic: Arithmetic, index: int) -> Layer:
    def tensor(name: str) -> Array:
        return np.asarray(tensors[f"layers.{index}.{name}"], arithmetic.dtype)

    query_key_value = tensor("query_key_value") * tensor("attention_norm")
    query_key_value[: spec.n_heads * spec.head_size] *= arithmetic.dtype(spec.head_size**-0.5)
    return Layer(
        query_key_value=arithmetic.prepare(query_key_value),
        attention_output=arithmetic.prepare(tensor("attention_output")),
        gate_up=arithmetic.prepare(tensor("gate_up") * tensor("feed_forward_norm")),
        down=arithmetic.prepare(tensor("down")),
    )


def _rotations(spec: TransformerSpec, dtype: Any) -> tuple[Array, Array]:
    """Cosines and signed sines by position, (max_context, 1, head_size) each; the sign does the half rotation."""
    frequencies = spec.rope_theta ** (-np.arange(0, spec.head_size, 2) / spec.head_size)
    angles = np.outer(np.arange(spec.max_context), frequencies)
    cos = np.concatenate([np.cos(angles), np.cos(angles)], axis=1)
    sin = np.concatenate([-np.sin(angles), np.sin(angles)], axis=1)
    return cos[:, None].astype(dtype), sin[:, None].astype(dtype)


def _rotated(heads: Array, cos: Array, sin: Array) -> Array:
    half = heads.shape[-1] // 2
    turned = np.concatenate([heads[..., half:], heads[..., :half]], axis=-1)
    return np.asarray(heads * cos + turned * sin)


def _swiglu(product: Array, n_feed_forward: int) -> Array:
    gate, up = product[:, :n_feed_forward], product[:, n_feed_forward:]
    with np.errstate(over="ignore"):  # exp overflows to infinity for very negative gates, which close, as they should
        return np.asarray(gate / (1.0 + np.exp(-gate)) * up)


def _real_rows(mask: Mask, n_rows: int, cache: KVCache) -> tuple[Mask, list[Mask]]:
    """Rows that see themselves, and each sequence's mask without padding."""
    if mask.dtype != np.bool_:
        raise ValueError(f"mask must be boolean; got {mask.dtype}")
    n_pending = mask.shape[-1] - n_rows
    if mask.shape[:2] != (cache.n_sequences, n_rows) or (cache.n_pending != n_pending).any():
        wanted = (cache.n_sequences, n_rows, int(cache.n_pending.max()) + n_rows)
        raise ValueError(f"mask must have shape {wanted}, one column a pending row; got {mask.shape}")
    real = mask[:, :, n_pending:].diagonal(axis1=1, axis2=2).copy()
    columns = [np.concatenate([np.ones(n_pending, np.bool_), row]) for row in real]
    return real, [mask[s][real[s]][:, columns[s]] for s in range(len(mask))]
