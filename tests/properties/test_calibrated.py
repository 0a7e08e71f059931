"""The calibrated step time: bounds, monotonicity, scaling, and what overheads do to a speedup."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.calibrated import (
    ALL_ROWS,
    CalibratedRates,
    CalibratedRoofline,
    kv_passes,
    norm_of_times,
    product_seconds,
)
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.drafting import METHODS, drafter_cost, drafter_of
from specbook.roofline.model_spec import PRECISIONS, model, model_names
from specbook.roofline.pass_cost import expert_coverage, step_cost
from specbook.roofline.speedup import DraftingPair, round_times

MODELS = st.sampled_from(model_names())
DEVICES = st.sampled_from(catalogue_names()).map(catalogue_device)
TOKENS, BATCHES, CONTEXTS = st.integers(1, 40), st.integers(1, 2000), st.integers(1, 200_000)
OVERHEADS = (
    "launch_s", "step_overhead_s", "layer_overhead_s", "attention_launch_s", "attention_per_sequence_s",
    "expert_overhead_s", "link_latency_s",
)  # fmt: skip
SMALL = st.floats(0.0, 1e-4)


@st.composite
def rates_of(draw: st.DrawFn) -> CalibratedRates:
    rates = calibrated_rates(draw(DEVICES), draw(st.sampled_from(list(PRECISIONS))))
    return replace(
        rates,
        **{name: draw(SMALL) for name in OVERHEADS},
        norm=draw(st.floats(1.0, 16.0)),
        rows_per_kv_pass=draw(st.sampled_from([ALL_ROWS, 1.0, 2.0, 4.0])),
        routing_exponent=draw(st.floats(0.1, 1.0)),
    )


@st.composite
def steps(draw: st.DrawFn) -> CalibratedRoofline:
    name, width = draw(MODELS), draw(st.sampled_from(list(PRECISIONS)))
    cost = step_cost(model(name), width, tensor_parallel=draw(st.sampled_from([1, 2, 8])))
    return CalibratedRoofline(cost=cost, rates=draw(rates_of()))


def _pair(step: CalibratedRoofline, draft: str, name: str, target: str) -> DraftingPair:
    cost = drafter_cost(name, model(target), model(draft), "bf16")
    own = None if cost is None else CalibratedRoofline(cost=cost, rates=step.rates)
    return DraftingPair(
        target=step,
        drafter=drafter_of(name, own),
        target_weight_bytes=1.0,
        draft_weight_bytes=1.0,
        target_kv_bytes_per_token=1.0,
        draft_kv_bytes_per_token=1.0,
    )


@given(steps(), TOKENS, BATCHES, CONTEXTS, st.integers(1, 500))
def test_step_time_never_falls_with_more_work(
    step: CalibratedRoofline, tokens: int, batch: int, context: int, more: int
):
    base = step(tokens, batch, context) * (1 - 1e-12)
    assert step(tokens + more, batch, context) >= base
    assert step(tokens, batch + more, context) >= base
    assert step(tokens, batch, context + more) >= base


@given(steps(), TOKENS, BATCHES, CONTEXTS)
def test_step_time_is_at_least_the_bytes_and_the_operations_of_every_part(
    step: CalibratedRoofline, tokens: int, batch: int, context: int
):
    rows, rates, cost = tokens * batch, step.rates, step.cost
    read_s = batch * context * cost.kv_bytes_per_token / rates.attention_bandwidth_bytes_per_s
    arithmetic_s = rows * context * cost.attention_flops_per_token_and_context / rates.attention_flops_per_s
    weights_s = cost.dense_weight_bytes / rates.bandwidth_bytes_per_s
    flops_s = rows * cost.flops_per_token / rates.flops_per_s
    seconds = step(tokens, batch, context) * (1 + 1e-12)
    assert seconds >= weights_s + read_s
    assert seconds >= flops_s + arithmetic_s
    assert seconds >= sum(each.count for each in cost.products) * rates.launch_s


@given(st.floats(1e-9, 1e2), st.floats(1e-9, 1e2), st.floats(1.0, 16.0))
def test_norm_lies_between_the_longer_time_and_the_sum(memory_s: float, arithmetic_s: float, norm: float):
    seconds = norm_of_times(memory_s, arithmetic_s, norm)
    assert max(memory_s, arithmetic_s) * (1 - 1e-9) <= seconds <= (memory_s + arithmetic_s) * (1 + 1e-9)
    assert seconds >= norm_of_times(memory_s, arithmetic_s, norm + 1.0) * (1 - 1e-9)


@given(steps(), BATCHES)
def test_product_is_at_least_its_bounds_and_at_most_their_sum(step: CalibratedRoofline, rows: int):
    for each in step.cost.products:
        coverage = 1.0
        if each.n_experts != 1.0:
            coverage = expert_coverage(rows, each.n_experts, each.n_experts_per_token, step.rates.routing_exponent)
        memory_s = (
            coverage * each.weight_bytes + rows * each.activation_bytes_per_row
        ) / step.rates.bandwidth_bytes_per_s
        arithmetic_s = rows * each.flops_per_row / step.rates.flops_per_s
        seconds = product_seconds(float(rows), each, step.rates) / each.count - step.rates.launch_s
        slack = 1e-9 * (memory_s + arithmetic_s) + 1e-15
        assert max(memory_s, arithmetic_s) - slack <= seconds <= memory_s + arithmetic_s + slack


@given(steps(), TOKENS, BATCHES, CONTEXTS, st.floats(0.01, 100.0))
def test_step_time_scales_with_all_rates(
    step: CalibratedRoofline, tokens: int, batch: int, context: int, factor: float
):
    faster = {}
    for item in fields(step.rates):
        value = getattr(step.rates, item.name)
        if item.name.endswith("_per_s"):
            faster[item.name] = value * factor
        elif item.name.endswith("_s"):
            faster[item.name] = value / factor
    other = CalibratedRoofline(cost=step.cost, rates=replace(step.rates, **faster))
    np.testing.assert_allclose(other(tokens, batch, context) * factor, step(tokens, batch, context), rtol=1e-9)


@given(steps(), st.sampled_from(METHODS), MODELS, BATCHES, CONTEXTS)
def test_no_draft_is_exactly_the_baseline(step: CalibratedRoofline, name: str, target: str, batch: int, context: int):
    times = round_times(0.0, 0.0, float(batch), float(context), 1.0, _pair(step, "Llama-68M", name, target))
    assert times.draft_s == 0.0
    assert times.speedup == 1.0
    assert times.tpot_s == times.baseline_tpot_s == times.verify_s


@given(steps(), st.sampled_from(METHODS), MODELS, st.integers(1, 12), BATCHES, CONTEXTS)
def test_speedup_is_at_most_the_tokens_of_a_round(
    step: CalibratedRoofline, name: str, target: str, length: int, batch: int, context: int
):
    pair = _pair(step, "Llama-68M", name, target)
    times = round_times(float(length), float(length), float(batch), float(context), length + 1.0, pair)
    assert times.speedup <= (length + 1.0) * (1 + 1e-12)
    assert times.draft_s >= 0.0


@given(st.sampled_from(["Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-8B"]), st.integers(1, 8), SMALL, SMALL)
def test_overheads_only_shrink_the_speedup_of_a_memory_bound_pair(
    target: str, length: int, launch_s: float, layer_s: float
):
    rates = calibrated_rates(catalogue_device("h100-sxm5"), "bf16")
    assume(launch_s >= rates.launch_s and layer_s >= rates.layer_overhead_s)
    cost, draft = (
        step_cost(model(target), "bf16"),
        drafter_cost("draft_model", model(target), model("Llama-3.2-1B"), "bf16"),
    )
    # Shallower for its bytes than the target: each overhead is a larger share of the drafter's pass.
    assert draft.n_layers / draft.dense_weight_bytes > cost.n_layers / cost.dense_weight_bytes
    slow = replace(rates, launch_s=launch_s, layer_overhead_s=layer_s)
    gains = []
    for each in (rates, slow):
        step = CalibratedRoofline(cost=cost, rates=each)
        gains.append(
            round_times(
                float(length), float(length), 1.0, 512.0, 2.0, _pair(step, "Llama-3.2-1B", "draft_model", target)
            ).speedup
        )
    assert gains[1] <= gains[0] * (1 + 1e-9)


@given(st.integers(1, 64), st.integers(1, 64))
def test_reads_of_the_cache_are_whole_and_enough(tokens: int, rows: int):
    reads = kv_passes(float(tokens), float(rows))
    assert reads == int(reads)
    assert (reads - 1) * rows < tokens <= reads * rows


@given(steps(), TOKENS, BATCHES, CONTEXTS)
def test_reading_the_cache_oftener_never_helps(step: CalibratedRoofline, tokens: int, batch: int, context: int):
    often, once = (
        CalibratedRoofline(cost=step.cost, rates=replace(step.rates, rows_per_kv_pass=rows)) for rows in (1.0, ALL_ROWS)
    )
    assert often(tokens, batch, context) >= once(tokens, batch, context)
    assert often(1, batch, context) == once(1, batch, context)


@given(st.integers(1, 4000), st.integers(2, 256), st.floats(0.05, 1.0), st.data())
def test_skewed_routing_touches_fewer_experts(n_tokens: int, n_experts: int, exponent: float, data: st.DataObject):
    used = data.draw(st.integers(1, n_experts))
    skewed, uniform = (expert_coverage(float(n_tokens), n_experts, used, each) for each in (exponent, 1.0))
    assert used / n_experts * (1 - 1e-12) <= skewed <= uniform * (1 + 1e-12)
