"""The models as functions of torch tensors that carry the names under which they are stored.

Nothing is converted between training, the float64 reference and the files: all read the same mapping. Straight from the
formulas, without a cache; :mod:`specbook.engine` is the fast form, and is tested against this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from specbook.engine.transformer_spec import TransformerSpec
from specbook.training.sizes import ModelSizes

Tensors = dict[str, torch.Tensor]

# Half of the embedding's scale at the start is lost to the norm; EAGLE's input needs both halves alike in size.
EMBEDDING_SCALE = 8.0
_DEVIATION = 0.02
_EAGLE_DEVIATION = 0.03


def to_torch(arrays: Mapping[str, NDArray[Any]], dtype: torch.dtype = torch.float32) -> Tensors:
    """Arrays as tensors of one type, in memory of their own."""
    return {name: torch.tensor(np.ascontiguousarray(values)).to(dtype) for name, values in arrays.items()}


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, NDArray[np.float32]]:
    """Tensors as float32 arrays, cut off from the gradients."""
    return {name: tensor.detach().float().numpy().copy() for name, tensor in tensors.items()}


def for_training(tensors: Tensors) -> Tensors:
    """The same tensors, of which gradients are taken."""
    return {name: tensor.requires_grad_() for name, tensor in tensors.items()}


def initial_transformer(spec: TransformerSpec, rng: np.random.Generator) -> Tensors:
    """Weights to begin with: norms of 1, matrices normal, those that write into the residual stream smaller.

    Parameters
    ----------
    spec : TransformerSpec
    rng : numpy.random.Generator

    Returns
    -------
    dict of str to tensor of float32
    """
    return _initial(spec.shapes(), 2 * spec.n_layers, _DEVIATION, rng)


def initial_eagle(sizes: ModelSizes, rng: np.random.Generator) -> Tensors:
    """Weights of the EAGLE-like head to begin with: ``combine``, one layer, ``final_norm``, ``widen``."""
    width, wide = sizes.eagle.n_embedding, sizes.target.n_embedding
    ends = {"combine": (width, 2 * wide), "final_norm": (width,), "widen": (wide, width)}
    return _initial(ends | dict(sizes.eagle.layer_shapes()), 1, _EAGLE_DEVIATION, rng)


def initial_medusa(sizes: ModelSizes) -> Tensors:
    """Weights of the Medusa-like heads and the exits to begin with: each passes on what it is given."""
    width = sizes.target.n_embedding
    heads = {f"heads.{head}.residual": torch.zeros(width, width) for head in range(sizes.n_medusa_heads)}
    gains = {f"heads.{head}.gain": torch.ones(width) for head in range(sizes.n_medusa_heads)}
    return heads | gains | {f"exits.{exit_}": torch.zeros(width, width) for exit_ in range(sizes.n_exits)}


def _initial(
    shapes: Mapping[str, tuple[int, ...]], n_writers: int, deviation: float, rng: np.random.Generator
) -> Tensors:
    def values(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        writes = name.endswith(("attention_output", "down"))
        return np.float32(deviation / (n_writers**0.5 if writes else 1.0)) * rng.standard_normal(shape, np.float32)

    return to_torch({name: values(name, shape) for name, shape in shapes.items()})


def residual_streams(spec: TransformerSpec, tensors: Tensors, inputs: torch.Tensor) -> list[torch.Tensor]:
    r"""The vectors before the first layer and after each.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : dict of str to tensor
        ``layers.i.…``.
    inputs : (n_sequences, n_tokens, n_embedding) tensor

    Returns
    -------
    list of n_layers + 1 tensors like ``inputs``

    Notes
    -----
    .. math:: x' = x + W_o \, \mathrm{attention}(\mathrm{norm}(x)), \qquad
              x'' = x' + W_d \left(\mathrm{silu}(W_g \, \mathrm{norm}(x')) \odot W_u \, \mathrm{norm}(x')\right)
    """
    rotation = _rotation(spec, inputs.shape[1], inputs.dtype)
    streams = [inputs]
    for index in range(spec.n_layers):
        streams.append(_layer(spec, tensors, f"layers.{index}.", streams[-1], rotation))
    return streams


def features(spec: TransformerSpec, tensors: Tensors, hidden: torch.Tensor) -> torch.Tensor:
    """Hidden vectors after the final norm, which the head reads and draft heads are given."""
    return _norm(hidden, tensors["final_norm"], spec.norm_epsilon)


def logits(spec: TransformerSpec, tensors: Tensors, tokens: torch.Tensor) -> torch.Tensor:
    """Logits of the next token.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : dict of str to tensor
    tokens : (n_sequences, n_tokens) tensor of int64

    Returns
    -------
    (n_sequences, n_tokens, n_vocab) tensor
    """
    hidden = residual_streams(spec, tensors, embedded(tensors, tokens))[-1]
    return logits_of_features(tensors, features(spec, tensors, hidden))


def embedded(tensors: Tensors, tokens: torch.Tensor) -> torch.Tensor:
    """Embedding of each token."""
    return functional.embedding(tokens, tensors["embedding"])


def logits_of_features(tensors: Tensors, after_norm: torch.Tensor) -> torch.Tensor:
    """Logits of vectors after the final norm, by ``head`` or the tied embedding."""
    return functional.linear(after_norm, tensors.get("head", tensors["embedding"]))


def eagle_features(
    spec: TransformerSpec, tensors: Tensors, next_embedded: torch.Tensor, given: torch.Tensor, scale: float
) -> torch.Tensor:
    """What the EAGLE-like head takes for the target's features one place on.

    Parameters
    ----------
    spec : TransformerSpec
        Of the head's own narrow layer.
    tensors : dict of str to tensor
        ``combine``, ``layers.0.…``, ``final_norm`` and ``widen``.
    next_embedded, given : (n_sequences, n_tokens, width of the target) tensor
        The target's embedding of the next token, and its features at this one (or the head's own of the step before).
    scale : float
        What the embedding is multiplied by.

    Returns
    -------
    tensor like ``given``

    References
    ----------
    eagle2024
    """
    combined = functional.linear(torch.cat([scale * next_embedded, given], dim=-1), tensors["combine"])
    hidden = residual_streams(spec, tensors, combined)[-1]
    return functional.linear(features(spec, tensors, hidden), tensors["widen"])


def medusa_features(tensors: Tensors, head: int, given: torch.Tensor) -> torch.Tensor:
    """What Medusa-like head ``head`` makes of the target's features, to predict the token ``head + 2`` places on.

    References
    ----------
    cai2024
    """
    residual = functional.silu(functional.linear(given, tensors[f"heads.{head}.residual"]))
    return given + residual * tensors[f"heads.{head}.gain"]


def exit_features(
    spec: TransformerSpec, target: Tensors, tensors: Tensors, index: int, hidden: torch.Tensor
) -> torch.Tensor:
    """What an early exit takes for the target's features, from the stream after layer ``index + 1``."""
    correction = functional.linear(features(spec, target, hidden), tensors[f"exits.{index}"])
    return features(spec, target, hidden + correction)


def _layer(
    spec: TransformerSpec, tensors: Tensors, prefix: str, inputs: torch.Tensor, rotation: tuple[Any, Any]
) -> torch.Tensor:
    def linear(name: str, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, tensors[prefix + name])

    def norm(name: str, rows: torch.Tensor) -> torch.Tensor:
        return _norm(rows, tensors[prefix + name], spec.norm_epsilon)

    product = linear("query_key_value", norm("attention_norm", inputs))
    hidden = inputs + linear("attention_output", _attention(spec, product, rotation))
    gate, up = linear("gate_up", norm("feed_forward_norm", hidden)).chunk(2, dim=-1)
    return hidden + linear("down", functional.silu(gate) * up)


def _attention(spec: TransformerSpec, product: torch.Tensor, rotation: tuple[Any, Any]) -> torch.Tensor:
    """Causal grouped-query attention; each key and value head serves ``n_heads / n_kv_heads`` query heads."""
    n_sequences, n_tokens, _ = product.shape
    heads = product.view(n_sequences, n_tokens, -1, spec.head_size).transpose(1, 2)
    query, key, value = heads.split([spec.n_heads, spec.n_kv_heads, spec.n_kv_heads], dim=1)
    query, key = (_rotated(part, rotation).to(value.dtype) for part in (query, key))
    group = spec.n_heads // spec.n_kv_heads
    key, value = (part.repeat_interleave(group, dim=1) for part in (key, value))
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return mixed.transpose(1, 2).reshape(n_sequences, n_tokens, -1)


def _norm(rows: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMSNorm, in the precision of its weight."""
    rows = rows.to(weight.dtype)
    return rows * torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + epsilon) * weight


def _rotation(spec: TransformerSpec, n_tokens: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, (n_tokens, head_size / 2) each, computed in float64."""
    exponents = torch.arange(0, spec.head_size, 2, dtype=torch.float64) / spec.head_size
    angles = torch.outer(torch.arange(n_tokens, dtype=torch.float64), spec.rope_theta**-exponents)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotated(heads: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotary positions; the two numbers that turn together are half a head apart."""
    (cos, sin), (first, second) = rotation, heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
