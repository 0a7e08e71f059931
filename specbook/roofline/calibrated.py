"""Time of one forward pass by a calibrated model: launches, overheads and rates that somebody measured.

The ideal roofline takes the longer of two times and adds one launch. A real pass runs its products one after the other,
each with a launch and a soft corner between memory and arithmetic, and pays for what lies between them. The formulas
are written over a namespace ``xp``, as those of :mod:`specbook.roofline.step_time` are.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from specbook.checks import check_non_negative, check_positive
from specbook.roofline.pass_cost import ProductCost, StepCost, expert_coverage

# Rows that share a read of the cache where all of them do: more than any pass has.
ALL_ROWS = float(2**20)


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedRates:
    """What a calibrated pass needs of a device and backend: numbers, arrays that broadcast, or expressions.

    Attributes
    ----------
    launch_s, bandwidth_bytes_per_s, flops_per_s, norm
        Of one product; ``norm`` is the exponent q of :func:`norm_of_times`.
    step_overhead_s, layer_overhead_s
        Once a pass, and once a layer.
    attention_launch_s, attention_per_sequence_s, attention_bandwidth_bytes_per_s, attention_flops_per_s
        Of one layer's attention.
    attention_norm
        Exponent with which reading the cache and the attention's arithmetic meet.
    rows_per_kv_pass, kv_near_bytes, kv_near_gain
        Positions of one sequence that share a read of its cache, :data:`ALL_ROWS` if they all do; and up to how many
        bytes of one layer and sequence the reads come from a nearer, faster memory, and how many times faster.
    expert_overhead_s, routing_exponent
        Of each expert that a layer touches; how independently tokens choose, 1 for uniform routing.
    link_latency_s, link_bandwidth_bytes_per_s
        Of one all-reduce between devices.
    """

    launch_s: Any
    bandwidth_bytes_per_s: Any
    flops_per_s: Any
    norm: Any
    step_overhead_s: Any
    layer_overhead_s: Any
    attention_launch_s: Any
    attention_per_sequence_s: Any
    attention_bandwidth_bytes_per_s: Any
    attention_flops_per_s: Any
    attention_norm: Any
    rows_per_kv_pass: Any
    kv_near_bytes: Any
    kv_near_gain: Any
    expert_overhead_s: Any
    routing_exponent: Any
    link_latency_s: Any
    link_bandwidth_bytes_per_s: Any


def norm_of_times(memory_s: Any, arithmetic_s: Any, norm: Any, xp: Any = np) -> Any:
    r"""Time of work that reads and computes at once, with a soft corner where the two are equal.

    Parameters
    ----------
    memory_s, arithmetic_s : (...) array_like, or expressions
        What each would take alone.
    norm : (...) array_like, or an expression
        The exponent q, at least 1: 1 adds the two, a large one takes the longer.
    xp : namespace
        Provides ``power``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds; between the longer time and the sum.

    Notes
    -----
    .. math:: T = (T_m^q + T_a^q)^{1/q}

    References
    ----------
    aiconfigurator, whose tables of measured products show the corner

    Examples
    --------
    >>> [round(float(norm_of_times(3.0, 4.0, q)), 3) for q in (1.0, 2.0, 16.0)]
    [7.0, 5.0, 4.002]
    """
    return xp.power(xp.power(memory_s, norm) + xp.power(arithmetic_s, norm), 1.0 / norm)


def product_seconds(rows: Any, cost: ProductCost, rates: CalibratedRates, xp: Any = np) -> Any:
    r"""Time of one product of a pass, over all its repetitions.

    Parameters
    ----------
    rows : (...) array_like, or an expression
        Positions in the pass, over all sequences.
    cost : ProductCost
    rates : CalibratedRates
    xp : namespace
        Provides ``power``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T = n\left(t_0 + \left[\left(\frac{cW + aM}{\beta}\right)^q
              + \left(\frac{fM}{F}\right)^q\right]^{1/q}\right)

    with the share c of the experts that M tokens touch.

    References
    ----------
    aiconfigurator

    Examples
    --------
    >>> from specbook.roofline.pass_cost import product_cost
    >>> square = product_cost(4096, 4096, 2.0)
    >>> print(f"{1e6 * product_seconds(1, square, example_rates()):.1f} µs")
    15.1 µs
    """
    return cost.count * (rates.launch_s + norm_of_times(*_product_times(rows, cost, rates, xp), rates.norm, xp))


def _product_times(rows: Any, cost: ProductCost, rates: CalibratedRates, xp: Any) -> tuple[Any, Any]:
    """What memory and arithmetic of one repetition would each take alone."""
    weight_bytes = cost.weight_bytes
    if cost.n_experts != 1.0:
        coverage = expert_coverage(rows, cost.n_experts, cost.n_experts_per_token, rates.routing_exponent, xp)
        weight_bytes = weight_bytes * coverage
    moved_bytes = weight_bytes + rows * cost.activation_bytes_per_row
    return moved_bytes / rates.bandwidth_bytes_per_s, rows * cost.flops_per_row / rates.flops_per_s


def kv_passes(tokens: Any, rows_per_kv_pass: Any, xp: Any = np) -> Any:
    """How often a pass reads the cache of a sequence: once, if all its rows share a read.

    Examples
    --------
    >>> print(kv_passes(5, ALL_ROWS), kv_passes(5, 2), kv_passes(5, 1))
    1.0 3.0 5.0
    """
    return xp.ceil(tokens / rows_per_kv_pass)


def _attention_times(tokens: Any, batch: Any, cost: StepCost, rates: CalibratedRates) -> tuple[Any, Any]:
    """What one read of the cache and the arithmetic would each take alone, for each token of context."""
    memory_s = batch * (cost.kv_bytes_per_token / rates.attention_bandwidth_bytes_per_s)
    arithmetic_s = tokens * batch * (cost.attention_flops_per_token_and_context / rates.attention_flops_per_s)
    return memory_s, arithmetic_s


def attention_seconds(
    tokens: Any, batch: Any, context: Any, cost: StepCost, rates: CalibratedRates, xp: Any = np
) -> Any:
    r"""Time of the attention of all layers.

    Parameters
    ----------
    tokens, batch, context : (...) array_like, or expressions
        Positions per sequence, sequences, tokens of context in each.
    cost : StepCost
    rates : CalibratedRates
    xp : namespace
        Provides ``power``, ``ceil`` and ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T = n_l(t_a + t_s B) + \left[\left(\frac{p B L \kappa}{\beta_{kv}}\right)^q
              + \left(\frac{g B w L}{F_{kv}}\right)^q\right]^{1/q}

    The number p of reads of the cache is a property of the backend's kernel, :func:`kv_passes`. While the keys and
    values of a layer and sequence fit into ``kv_near_bytes``, as into a processor's cache, the bandwidth is
    ``kv_near_gain`` times as high.

    References
    ----------
    aiconfigurator
    """
    launches = cost.n_layers * (rates.attention_launch_s + rates.attention_per_sequence_s * batch)
    memory_s, arithmetic_s = _attention_times(tokens, batch, cost, rates)
    reads_s = kv_passes(tokens, rates.rows_per_kv_pass, xp) * memory_s
    far = norm_of_times(reads_s, arithmetic_s, rates.attention_norm, xp)
    if isinstance(rates.kv_near_bytes, np.ndarray | float) and not np.any(rates.kv_near_bytes):
        return launches + context * far
    near = norm_of_times(reads_s / rates.kv_near_gain, arithmetic_s, rates.attention_norm, xp)
    return launches + context * xp.where(_is_near(context, cost, rates), near, far)


def _is_near(context: Any, cost: StepCost, rates: CalibratedRates) -> Any:
    """Where the keys and values of a layer and sequence fit into the nearer memory."""
    return context * cost.kv_bytes_per_token_and_layer <= rates.kv_near_bytes


def communication_seconds(rows: Any, cost: StepCost, rates: CalibratedRates) -> Any:
    r"""Time of the two all-reduces of each layer, where several devices share it.

    Notes
    -----
    .. math:: T = 2 n_l\left(\alpha + \frac{2(n - 1)}{n} \frac{M h}{\beta_{link}}\right)

    References
    ----------
    scalingbook
    """
    ring = 2.0 * (cost.n_devices - 1.0) / cost.n_devices
    each = rates.link_latency_s + ring * rows * cost.hidden_bytes / rates.link_bandwidth_bytes_per_s
    return 2.0 * cost.n_layers * each


def state_seconds(batch: Any, cost: StepCost, rates: CalibratedRates) -> Any:
    """Time of reading the states of linear attention, once a pass; writing them is a product of it.

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> cost = step_cost(model("Qwen3-Next-80B-A3B"), "fp8")
    >>> print(f"{1e6 * state_seconds(8, cost, example_rates()):.0f} µs")
    209 µs
    """
    return batch * (cost.state_bytes_per_position / rates.bandwidth_bytes_per_s)


def row_seconds(tokens: Any, batch: Any, cost: StepCost, rates: CalibratedRates, xp: Any = np) -> Any:
    """Everything of a pass that does not depend on the context: products, overheads, communication.

    Parameters
    ----------
    tokens, batch : (...) array_like, or expressions
    cost : StepCost
    rates : CalibratedRates
    xp : namespace

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.
    """
    rows = batch * tokens
    seconds = rates.step_overhead_s + cost.n_layers * rates.layer_overhead_s
    for each in cost.products:
        seconds = seconds + product_seconds(rows, each, rates, xp)
    if cost.n_mixture_layers:
        coverage = expert_coverage(rows, cost.n_experts, cost.n_experts_per_token, rates.routing_exponent, xp)
        seconds = seconds + cost.n_mixture_layers * cost.n_experts * coverage * rates.expert_overhead_s
    if cost.n_linear_layers:
        seconds = seconds + state_seconds(batch, cost, rates)
    if cost.n_devices != 1.0:
        seconds = seconds + communication_seconds(rows, cost, rates)
    return seconds


def calibrated_seconds(
    tokens: Any, batch: Any, context: Any, cost: StepCost, rates: CalibratedRates, xp: Any = np
) -> Any:
    r"""Time of one forward pass: overheads, products one after the other, attention, communication.

    Parameters
    ----------
    tokens, batch, context : (...) array_like, or expressions
        Positions per sequence (K + 1 in a verify pass of a chain), sequences, tokens of context in each.
    cost : StepCost
    rates : CalibratedRates
    xp : namespace
        Provides ``power``, ``ceil`` and ``where``.

    Returns
    -------
    (...) ndarray of float64, or an expression
        Seconds.

    Notes
    -----
    .. math:: T = t_o + n_l t_l + \sum_i T_i(Bw) + T_{attention} + T_{communication}

    The output head is one of the products, at every position of the pass.

    References
    ----------
    aiconfigurator

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> cost = step_cost(model("Llama-3.1-8B"), "bf16")
    >>> print(f"{1e3 * calibrated_seconds(1, 1, 512, cost, example_rates()):.2f} ms")
    6.13 ms
    """
    rows_s = row_seconds(tokens, batch, cost, rates, xp)
    return rows_s + attention_seconds(tokens, batch, context, cost, rates, xp)


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedRoofline:
    """The calibrated step time for one model on one device, or on several along the first axis of the rates.

    Attributes
    ----------
    cost : StepCost
    rates : CalibratedRates

    Raises
    ------
    ValueError
        If a rate is not positive, an overhead negative, or an exponent out of range.

    Examples
    --------
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), rates=example_rates())
    >>> print(f"{step(5, 1, 512) / step(1, 1, 512):.2f}", f"{step(5, 128, 512) / step(1, 128, 512):.2f}")
    1.00 1.66
    """

    cost: StepCost
    rates: CalibratedRates
    kind: str = "calibrated"

    def __post_init__(self) -> None:
        if not isinstance(self.rates.norm, float | np.ndarray):
            return  # the page's expressions have no values yet
        for item in fields(self.rates):
            value = getattr(self.rates, item.name)
            positive = item.name.endswith("_per_s") or not item.name.endswith(("_s", "_near_bytes"))
            (check_positive if positive else check_non_negative)(item.name, value)
        norms = (self.rates.norm, self.rates.attention_norm)
        if any(np.any(np.asarray(norm) < 1.0) for norm in norms) or np.any(
            np.asarray(self.rates.routing_exponent) > 1.0
        ):
            raise ValueError("norm and attention_norm must be at least 1 and routing_exponent at most 1")

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one forward pass, broadcast over the arguments."""
        return calibrated_seconds(tokens, batch, context, self.cost, self.rates, xp)

    @property
    def overhead_s(self) -> Any:
        """What a pass costs once, whatever it computes."""
        return self.rates.step_overhead_s

    def is_compute_bound(self, tokens: Any, batch: Any, context: Any) -> Any:
        """Where all arithmetic of the pass would take longer than all its memory traffic."""
        pairs = [
            [each.count * seconds for seconds in _product_times(batch * tokens, each, self.rates, np)]
            for each in self.cost.products
        ]
        memory_s, arithmetic_s = _attention_times(tokens, batch, self.cost, self.rates)
        faster = np.where(_is_near(context, self.cost, self.rates), self.rates.kv_near_gain, 1.0)
        reads_s = kv_passes(tokens, self.rates.rows_per_kv_pass) * memory_s / faster
        return context * (arithmetic_s - reads_s) > sum(pair[0] - pair[1] for pair in pairs)


def example_rates() -> CalibratedRates:
    """Rates of an H100 in 16 bits, for examples.

    Examples
    --------
    >>> example_rates().norm
    2.5
    """
    from specbook.hardware.profile import catalogue_device
    from specbook.roofline.calibrations import calibrated_rates

    return calibrated_rates(catalogue_device("h100-sxm5"), "bf16")
