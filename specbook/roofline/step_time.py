"""Time of one forward pass by the doctrine's roofline: ``max(arithmetic, memory) + overhead``.

The formulas are written over a namespace ``xp``, so that the published page evaluates the same functions that numpy
does: with :mod:`specbook.display.formula` they build Vega expressions instead of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specbook.checks import check_non_negative, check_positive
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.model_spec import ModelSpec, precision


class StepTime(Protocol):
    """Seconds of one forward pass over ``tokens`` positions in each of ``batch`` sequences of length ``context``."""

    kind: str

    def __call__(self, tokens: Any, batch: Any, context: Any) -> Any:
        """Return seconds, broadcast over the arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCost:
    """What one forward pass of a model moves and computes; numbers only, from :func:`step_cost`.

    Attributes
    ----------
    dense_weight_bytes : float
        Weights read in every pass: attention, router, the output head, and the feed-forward of a dense model.
    expert_weight_bytes : float
        Weights of all experts; a pass reads those that at least one token was routed to.
    n_experts, n_experts_per_token : float
        1 and 1 for a dense model.
    kv_bytes_per_token : float
        Keys and values of one token of context.
    flops_per_token : float
        Two per active weight of the matrix products.
    attention_flops_per_token_and_context : float
        Four per query head dimension and layer: scores and their product with the values.
    """

    dense_weight_bytes: float
    expert_weight_bytes: float
    n_experts: float
    n_experts_per_token: float
    kv_bytes_per_token: float
    flops_per_token: float
    attention_flops_per_token_and_context: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceRates:
    """What the roofline needs of a device: numbers, arrays that broadcast, or expressions.

    Attributes
    ----------
    flops_per_s, bandwidth_bytes_per_s, overhead_s
        Dense arithmetic rate, sustained bandwidth, launch overhead of one pass.
    """

    flops_per_s: Any
    bandwidth_bytes_per_s: Any
    overhead_s: Any


def step_cost(spec: ModelSpec, precision_name: str, kv_bytes_per_element: float = 2.0) -> StepCost:
    """What one forward pass of a model moves and computes.

    The input embedding is a look-up and is not counted; the output head is a matrix product at every position.

    Parameters
    ----------
    spec : ModelSpec
        The architecture.
    precision_name : str
        A key of :data:`~specbook.roofline.model_spec.PRECISIONS`.
    kv_bytes_per_element : float
        Width of the cache, 2 for 16 bits.

    Raises
    ------
    BadInput
        If the weight format is unknown.

    References
    ----------
    scalingbook

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> cost = step_cost(model("Llama-3.1-8B"), "bf16")
    >>> round(cost.dense_weight_bytes / 1e9, 2), round(cost.flops_per_token / 1e9, 2)
    (15.01, 15.01)
    """
    width = precision(precision_name)
    dense_ffn, experts = (spec.ffn_parameters, 0) if spec.n_experts == 1 else (0, spec.ffn_parameters)
    layer_parameters = spec.attention_parameters + spec.router_parameters + dense_ffn
    active = layer_parameters + spec.head_parameters + experts * spec.n_experts_per_token // spec.n_experts
    return StepCost(
        dense_weight_bytes=layer_parameters * width.layer_bytes + spec.head_parameters * width.head_bytes,
        expert_weight_bytes=experts * width.layer_bytes,
        n_experts=float(spec.n_experts),
        n_experts_per_token=float(spec.n_experts_per_token),
        kv_bytes_per_token=spec.kv_bytes_per_token(kv_bytes_per_element),
        flops_per_token=2.0 * active,
        attention_flops_per_token_and_context=4.0 * spec.n_layers * spec.n_heads * spec.head_dim,
    )


def expert_coverage(n_tokens: Any, n_experts: Any, n_experts_per_token: Any, xp: Any = np) -> Any:
    r"""Share of the experts that at least one of ``n_tokens`` tokens is routed to.

    Parameters
    ----------
    n_tokens : (...) array_like, or an expression
        Tokens in the pass, over all sequences.
    n_experts, n_experts_per_token : float
        Experts in a layer, and those that each token uses.
    xp : namespace
        Provides ``power``.

    Returns
    -------
    (...) ndarray of float64 in (0, 1], or an expression

    Notes
    -----
    .. math:: c = 1 - (1 - k/E)^T

    Takes routing as uniform and independent between tokens; skewed routing reads fewer experts.

    References
    ----------
    finn2026

    Examples
    --------
    >>> print(expert_coverage(np.array([1, 5]), 8, 2).round(3))
    [0.25  0.763]
    """
    return 1.0 - xp.power(1.0 - n_experts_per_token / n_experts, n_tokens)


def arithmetic_seconds(tokens: Any, batch: Any, context: Any, cost: StepCost, device: DeviceRates) -> Any:
    r"""Time that the arithmetic of one pass takes at the dense rate.

    Parameters
    ----------
    tokens, batch, context : (...) array_like, or expressions
        Positions per sequence (K + 1 in a verify pass), sequences, tokens of context in each.
    cost : StepCost
    device : DeviceRates

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T_a = B\,w\,(f + g L) / F

    References
    ----------
    scalingbook
    """
    flops = batch * tokens * (cost.flops_per_token + cost.attention_flops_per_token_and_context * context)
    return flops / device.flops_per_s


def memory_seconds(tokens: Any, batch: Any, context: Any, cost: StepCost, device: DeviceRates, xp: Any = np) -> Any:
    r"""Time that the memory traffic of one pass takes at sustained bandwidth.

    Parameters
    ----------
    tokens, batch, context : (...) array_like, or expressions
        As in :func:`arithmetic_seconds`.
    cost : StepCost
    device : DeviceRates
    xp : namespace
        Provides ``power``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T_m = (W + \kappa B L) / \beta

    The cache of a sequence is read once for all its K + 1 positions, as the kernels of data-centre GPUs do.

    References
    ----------
    scalingbook
    """
    weight_bytes = cost.dense_weight_bytes
    if cost.expert_weight_bytes:
        coverage = expert_coverage(batch * tokens, cost.n_experts, cost.n_experts_per_token, xp)
        weight_bytes = weight_bytes + cost.expert_weight_bytes * coverage
    return (weight_bytes + batch * context * cost.kv_bytes_per_token) / device.bandwidth_bytes_per_s


def step_seconds(tokens: Any, batch: Any, context: Any, cost: StepCost, device: DeviceRates, xp: Any = np) -> Any:
    r"""Time of one forward pass: ``max(arithmetic, memory) + overhead``.

    Parameters
    ----------
    tokens, batch, context : (...) array_like, or expressions
        As in :func:`arithmetic_seconds`.
    cost : StepCost
    device : DeviceRates
    xp : namespace
        Provides ``maximum`` and ``power``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T = \max(T_a, T_m) + T_o

    A lower bound on any real pass: the two overlap perfectly, and no kernel has a floor of its own.

    References
    ----------
    williams2009, scalingbook
    """
    arithmetic = arithmetic_seconds(tokens, batch, context, cost, device)
    return xp.maximum(arithmetic, memory_seconds(tokens, batch, context, cost, device, xp)) + device.overhead_s


def device_rates(profile: HardwareProfile, precision_name: str) -> DeviceRates:
    """Rates of a device for one weight format; an unknown launch overhead counts as none.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> device_rates(catalogue_device("l4"), "bf16").bandwidth_bytes_per_s
    240000000000.0
    """
    return DeviceRates(
        flops_per_s=profile.flops_per_s(precision(precision_name).arithmetic),
        bandwidth_bytes_per_s=profile.sustained_bandwidth_bytes_per_s.value,
        overhead_s=profile.step_overhead_s.value if profile.step_overhead_s else 0.0,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctrineRoofline:
    """The doctrine's step time for one model on one device; a :class:`StepTime`.

    Attributes
    ----------
    cost : StepCost
    device : DeviceRates

    Raises
    ------
    ValueError
        If a rate is not positive.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> from specbook.roofline.model_spec import model
    >>> h100 = device_rates(catalogue_device("h100-sxm5"), "bf16")
    >>> step = DoctrineRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), device=h100)
    >>> print(f"{1e3 * step(1, 1, 512):.2f} ms", step.regime(1, 1, 512), step.regime(5, 128, 512))
    5.06 ms memory compute
    """

    cost: StepCost
    device: DeviceRates
    kind: str = "doctrine"

    def __post_init__(self) -> None:
        check_positive("flops_per_s", self.device.flops_per_s)
        check_positive("bandwidth_bytes_per_s", self.device.bandwidth_bytes_per_s)
        check_non_negative("overhead_s", self.device.overhead_s)

    def __call__(self, tokens: Any, batch: Any, context: Any) -> Any:
        """Seconds of one forward pass, broadcast over the arguments."""
        return step_seconds(tokens, batch, context, self.cost, self.device)

    def regime(self, tokens: Any, batch: Any, context: Any) -> Any:
        """``compute`` where arithmetic takes longer than memory traffic, else ``memory``."""
        arithmetic = arithmetic_seconds(tokens, batch, context, self.cost, self.device)
        is_compute = arithmetic > memory_seconds(tokens, batch, context, self.cost, self.device)
        return np.where(is_compute, "compute", "memory")
