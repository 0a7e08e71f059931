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
from specbook.roofline.model_spec import precision
from specbook.roofline.pass_cost import StepCost, expert_coverage


class StepTime(Protocol):
    """Seconds of one forward pass over ``tokens`` positions in each of ``batch`` sequences of length ``context``."""

    @property
    def kind(self) -> str:
        """``doctrine``, ``calibrated`` or ``measured``; the output repeats it."""

    @property
    def overhead_s(self) -> Any:
        """What a pass costs once, whatever it computes; 0 where nobody can tell."""

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Return seconds, broadcast over the arguments; ``xp`` as in :func:`step_seconds`."""


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
    .. math:: T_m = (W + \kappa B L + \sigma B (1 + w)) / \beta

    The cache of a sequence is read once for all its K + 1 positions, as the kernels of data-centre GPUs do; recurrent
    states, of :math:`\sigma` bytes, are read once and written after each of them.

    References
    ----------
    scalingbook
    """
    weight_bytes = cost.dense_weight_bytes
    if cost.expert_weight_bytes:
        coverage = expert_coverage(batch * tokens, cost.n_experts, cost.n_experts_per_token, xp=xp)
        weight_bytes = weight_bytes + cost.expert_weight_bytes * coverage
    cache_bytes = batch * context * cost.kv_bytes_per_token
    if cost.state_bytes_per_position:
        cache_bytes = cache_bytes + batch * (1.0 + tokens) * cost.state_bytes_per_position
    return (weight_bytes + cache_bytes) / device.bandwidth_bytes_per_s


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
    >>> from specbook.roofline.pass_cost import step_cost
    >>> h100 = device_rates(catalogue_device("h100-sxm5"), "bf16")
    >>> step = DoctrineRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), device=h100)
    >>> print(f"{1e3 * step(1, 1, 512):.2f} ms", step.regime(1, 1, 512), step.regime(5, 128, 512))
    5.06 ms memory compute
    """

    cost: StepCost
    device: DeviceRates
    kind: str = "doctrine"

    def __post_init__(self) -> None:
        if isinstance(self.device.flops_per_s, float | np.ndarray):  # the page's expressions have no values yet
            check_positive("flops_per_s", self.device.flops_per_s)
            check_positive("bandwidth_bytes_per_s", self.device.bandwidth_bytes_per_s)
            check_non_negative("overhead_s", self.device.overhead_s)

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one forward pass, broadcast over the arguments."""
        return step_seconds(tokens, batch, context, self.cost, self.device, xp)

    @property
    def overhead_s(self) -> Any:
        """What a pass costs once, whatever it computes."""
        return self.device.overhead_s

    def is_compute_bound(self, tokens: Any, batch: Any, context: Any) -> Any:
        """Where arithmetic takes longer than memory traffic."""
        arithmetic = arithmetic_seconds(tokens, batch, context, self.cost, self.device)
        return arithmetic > memory_seconds(tokens, batch, context, self.cost, self.device)

    def regime(self, tokens: Any, batch: Any, context: Any) -> Any:
        """``compute`` where arithmetic takes longer than memory traffic, else ``memory``."""
        return np.where(self.is_compute_bound(tokens, batch, context), "compute", "memory")
