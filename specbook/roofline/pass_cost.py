"""What one forward pass of a model reads and computes, product by product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specbook.checks import check_counts
from specbook.roofline.model_spec import ModelSpec, Precision, precision


@dataclass(frozen=True, kw_only=True, slots=True)
class ProductCost:
    """One matrix product of a pass, ``count`` times; numbers only.

    Attributes
    ----------
    count : float
        How often the pass computes it: once a layer, or once.
    weight_bytes, flops_per_row, activation_bytes_per_row : float
        Each time: weights of all experts; operations and traffic of one position, through the experts that it uses.
    n_experts, n_experts_per_token : float
        1 and 1 for a product that every position uses.
    """

    count: float
    weight_bytes: float
    flops_per_row: float
    activation_bytes_per_row: float
    n_experts: float = 1.0
    n_experts_per_token: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCost:
    """What one forward pass of a model moves and computes; numbers only, from :func:`step_cost`.

    Attributes
    ----------
    products : tuple of ProductCost
        The output head is the last.
    n_layers, n_mixture_layers : float
    kv_bytes_per_token : float
        Keys and values of one token of context.
    attention_flops_per_token_and_context : float
        Scores and their product with the values.
    hidden_bytes : float
        One position's vector between layers, which devices exchange.
    n_devices : float
        Devices that share each product; all figures above are of one of them.
    n_linear_layers : float
        Layers with linear attention, which keep a state instead of keys and values.
    state_bytes_per_position : float
        The states of all those layers of one sequence. A pass reads them once, and writes them after each of its
        positions, since a verify pass may end at any.
    """

    products: tuple[ProductCost, ...]
    n_layers: float
    n_mixture_layers: float
    kv_bytes_per_token: float
    attention_flops_per_token_and_context: float
    hidden_bytes: float
    n_devices: float = 1.0
    n_linear_layers: float = 0.0
    state_bytes_per_position: float = 0.0

    @property
    def kv_bytes_per_token_and_layer(self) -> float:
        """Keys and values of one token in one layer that keeps them; 0 without layers."""
        n_layers = self.n_layers - self.n_linear_layers
        return self.kv_bytes_per_token / n_layers if n_layers else 0.0

    @property
    def dense_weight_bytes(self) -> float:
        """Weights read in every pass, whatever the routing."""
        return sum(each.count * each.weight_bytes for each in self.products if each.n_experts == 1.0)

    @property
    def expert_weight_bytes(self) -> float:
        """Weights of all experts; a pass reads those that at least one token was routed to."""
        return sum(each.count * each.weight_bytes for each in self.products if each.n_experts != 1.0)

    @property
    def n_experts(self) -> float:
        """Experts of a layer; 1 for a dense model."""
        return max(each.n_experts for each in self.products)

    @property
    def n_experts_per_token(self) -> float:
        """Experts that a token is routed to; 1 for a dense model."""
        return max(each.n_experts_per_token for each in self.products)

    @property
    def flops_per_token(self) -> float:
        """Two per active weight of the products."""
        return sum(each.count * each.flops_per_row for each in self.products)


def product_cost(
    n_out: float, n_in: float, weight_bytes_each: float, count: float = 1.0, activation_bytes_each: float = 2.0
) -> ProductCost:
    """A product that every position uses, from its shape.

    Examples
    --------
    >>> product_cost(4096, 4096, 2.0).weight_bytes
    33554432.0
    """
    return ProductCost(
        count=count,
        weight_bytes=n_out * n_in * weight_bytes_each,
        flops_per_row=2.0 * n_out * n_in,
        activation_bytes_per_row=(n_out + n_in) * activation_bytes_each,
    )


def step_cost(
    spec: ModelSpec, precision_name: str, kv_bytes_per_element: float | None = None, tensor_parallel: int = 1
) -> StepCost:
    """What one forward pass of a model moves and computes, on one of the devices that share it.

    The input embedding is a look-up and is not counted; the output head is a matrix product at every position. With
    latent attention the up-projections are absorbed into queries and outputs, as decode kernels do. Linear attention
    reads and writes its state at every position: a verify pass keeps the state after each draft token, since it
    cannot be cut back to the accepted ones as a cache can.

    Parameters
    ----------
    spec : ModelSpec
        The architecture.
    precision_name : str
        A key of :data:`~specbook.roofline.model_spec.PRECISIONS`.
    kv_bytes_per_element : float, optional
        Width of the cache; without it, that of the activations: 2 for 16 bits.
    tensor_parallel : int
        Devices that each product is divided among; a latent cache is kept whole by each.

    Raises
    ------
    BadInput
        If the weight format is unknown.
    ValueError
        If ``tensor_parallel`` is not a whole number of at least 1.

    References
    ----------
    scalingbook; deepseek2024 for latent attention

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> cost = step_cost(model("Llama-3.1-8B"), "bf16")
    >>> round(cost.dense_weight_bytes / 1e9, 2), round(cost.flops_per_token / 1e9, 2)
    (15.01, 15.01)
    """
    n_devices = float(check_counts("tensor_parallel", tensor_parallel, minimum=1))
    width = precision(precision_name)
    head = product_cost(spec.vocab_size, spec.hidden_size, width.head_bytes, 1.0, width.activation_bytes)
    layers = [*_attention_products(spec, width), *_linear_products(spec, width), *_feed_forward_products(spec, width)]
    states = _state_updates(spec, width, n_devices)
    kv_width = width.activation_bytes if kv_bytes_per_element is None else kv_bytes_per_element
    kv_devices = 1.0 if spec.has_latent_attention else min(n_devices, float(spec.n_kv_heads))
    return StepCost(
        products=(*(_shared(each, n_devices) for each in layers), *states, _shared(head, n_devices)),
        n_layers=float(spec.n_layers),
        n_mixture_layers=float(spec.n_mixture_layers),
        kv_bytes_per_token=spec.kv_bytes_per_token(kv_width) / kv_devices,
        attention_flops_per_token_and_context=_attention_flops(spec) / n_devices,
        hidden_bytes=spec.hidden_size * width.activation_bytes,
        n_devices=n_devices,
        n_linear_layers=float(spec.n_linear_layers),
        state_bytes_per_position=sum(each.count * each.activation_bytes_per_row for each in states),
    )


def _shared(each: ProductCost, n_devices: float) -> ProductCost:
    weight_bytes, flops = each.weight_bytes / n_devices, each.flops_per_row / n_devices
    return replace(each, weight_bytes=weight_bytes, flops_per_row=flops)


def _attention_flops(spec: ModelSpec) -> float:
    if spec.has_latent_attention:  # scores over latent and rotation, values over the latent
        return 2.0 * spec.n_layers * spec.n_heads * (2 * spec.kv_lora_rank + spec.rope_head_dim)
    return 4.0 * spec.n_attention_layers * spec.n_heads * spec.head_dim


def _products(shapes: list[tuple[int, int]], width: Precision, count: int) -> list[ProductCost]:
    return [product_cost(*shape, width.layer_bytes, count, width.activation_bytes) for shape in shapes]


def _attention_products(spec: ModelSpec, width: Precision) -> list[ProductCost]:
    if spec.has_latent_attention:
        return _products(_latent_shapes(spec), width, spec.n_layers)
    q_size, kv_size = spec.n_heads * spec.head_dim, spec.n_kv_heads * spec.head_dim
    inputs = (1 + spec.attention_gate) * q_size + 2 * kv_size
    shapes = [(inputs, spec.hidden_size), (spec.hidden_size, q_size)]
    return _products(shapes, width, spec.n_attention_layers)


def _linear_products(spec: ModelSpec, width: Precision) -> list[ProductCost]:
    if not spec.n_linear_layers:
        return []
    inputs = 2 * spec.linear_key_size + 2 * spec.linear_value_size + 2 * spec.linear_value_heads
    shapes = [(inputs, spec.hidden_size), (spec.hidden_size, spec.linear_value_size)]
    return _products(shapes, width, spec.n_linear_layers)


# Checkpoints of these models ask for states of 32 bits (`mamba_ssm_dtype`).
_STATE_BYTES_EACH = 4.0
# A position decays the state, asks it for the key's value, adds the correction and asks it for the query's.
_STATE_FLOPS_EACH = 1.0 + 2.0 + 2.0 + 2.0


def _state_updates(spec: ModelSpec, width: Precision, n_devices: float) -> list[ProductCost]:
    """What linear attention does besides its projections: a state of each sequence, written after every position.

    Verify kernels keep it on the chip from position to position, and read it once (flashinfer's ``gdn_decode``).
    """
    if not spec.n_linear_layers:
        return []
    n_shares = min(n_devices, float(spec.linear_value_heads))
    conv = spec.linear_conv_channels * spec.linear_conv_width
    state_bytes = spec.linear_state_size * _STATE_BYTES_EACH + conv * width.activation_bytes
    update = ProductCost(
        count=float(spec.n_linear_layers),
        weight_bytes=0.0,
        flops_per_row=(_STATE_FLOPS_EACH * spec.linear_state_size + 2.0 * conv) / n_shares,
        activation_bytes_per_row=state_bytes / n_shares,
    )
    return [update]


def _latent_shapes(spec: ModelSpec) -> list[tuple[int, int]]:
    queries, rank = spec.n_heads * (spec.head_dim + spec.rope_head_dim), spec.kv_lora_rank
    return [
        (spec.q_lora_rank + rank + spec.rope_head_dim, spec.hidden_size),
        (queries, spec.q_lora_rank or spec.hidden_size),
        (spec.n_heads * spec.head_dim, rank),  # keys' up-projection, absorbed into the queries, head by head
        (spec.n_heads * spec.v_head_dim, rank),  # values' up-projection, absorbed into the output
        (spec.hidden_size, spec.n_heads * spec.v_head_dim),
    ]


def _feed_forward_products(spec: ModelSpec, width: Precision) -> list[ProductCost]:
    if not spec.is_mixture:
        return _products(_gated(spec, spec.ffn_size), width, spec.n_layers)
    n_mixture = spec.n_mixture_layers
    products = _products([(spec.n_experts, spec.hidden_size)], width, n_mixture)
    products += [_of_experts(each, spec) for each in _products(_gated(spec, spec.ffn_size), width, n_mixture)]
    if spec.n_shared_experts:
        products += _products(_gated(spec, spec.n_shared_experts * spec.ffn_size), width, n_mixture)
    if spec.n_dense_layers:
        products += _products(_gated(spec, spec.dense_ffn_size), width, spec.n_dense_layers)
    return products


def _gated(spec: ModelSpec, ffn_size: int) -> list[tuple[int, int]]:
    return [(2 * ffn_size, spec.hidden_size), (spec.hidden_size, ffn_size)]


def _of_experts(one: ProductCost, spec: ModelSpec) -> ProductCost:
    """The same product in each of many experts, of which a position uses a few."""
    used = float(spec.n_experts_per_token)
    return ProductCost(
        count=one.count,
        weight_bytes=spec.n_experts * one.weight_bytes,
        flops_per_row=used * one.flops_per_row,
        activation_bytes_per_row=used * one.activation_bytes_per_row,
        n_experts=float(spec.n_experts),
        n_experts_per_token=used,
    )


def expert_coverage(
    n_tokens: Any, n_experts: Any, n_experts_per_token: Any, routing_exponent: Any = 1.0, xp: Any = np
) -> Any:
    r"""Share of the experts that at least one of ``n_tokens`` tokens is routed to.

    Parameters
    ----------
    n_tokens : (...) array_like, or an expression
        Tokens in the pass, over all sequences.
    n_experts, n_experts_per_token : float
        Experts in a layer, and those that each token uses.
    routing_exponent : (...) array_like, or an expression
        In (0, 1]: T tokens touch as many experts as T to this power independent ones. 1 is uniform routing.
    xp : namespace
        Provides ``power``.

    Returns
    -------
    (...) ndarray of float64 in (0, 1], or an expression

    Notes
    -----
    .. math:: c = 1 - (1 - k/E)^{T^\gamma}

    The exponent is the simplest form that keeps one token at k experts and lets skewed routing reach fewer.

    References
    ----------
    finn2026; aiconfigurator for skewed routing

    Examples
    --------
    >>> print(expert_coverage(np.array([1, 5]), 8, 2).round(3))
    [0.25  0.763]
    """
    return 1.0 - xp.power(1.0 - n_experts_per_token / n_experts, xp.power(n_tokens, routing_exponent))
