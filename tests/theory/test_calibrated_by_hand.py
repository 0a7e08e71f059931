"""The calibrated step time against arithmetic that does not use the package, and its limits.

Sources: the configurations of Llama-3.1-8B, Mixtral-8x7B and DeepSeek-V3 on Hugging Face; the formula of
aiconfigurator's tables as the package documents it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import (
    ALL_ROWS,
    CalibratedRates,
    CalibratedRoofline,
    attention_seconds,
    calibrated_seconds,
    communication_seconds,
    example_rates,
    norm_of_times,
    product_seconds,
)
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import ProductCost, StepCost, expert_coverage, step_cost
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline

ROUND = CalibratedRates(
    launch_s=1.0, bandwidth_bytes_per_s=10.0, flops_per_s=100.0, norm=1.0, step_overhead_s=5.0, layer_overhead_s=0.5,
    attention_launch_s=0.25, attention_per_sequence_s=0.125, attention_bandwidth_bytes_per_s=20.0,
    attention_flops_per_s=50.0, attention_norm=16.0, rows_per_kv_pass=ALL_ROWS, kv_near_bytes=0.0, kv_near_gain=1.0,
    expert_overhead_s=0.0, routing_exponent=1.0,
    link_latency_s=2.0, link_bandwidth_bytes_per_s=4.0,
)  # fmt: skip
DENSE = ProductCost(count=3.0, weight_bytes=40.0, flops_per_row=200.0, activation_bytes_per_row=5.0)
COST = StepCost(
    products=(DENSE,), n_layers=4.0, n_mixture_layers=0.0, kv_bytes_per_token=2.0,
    attention_flops_per_token_and_context=10.0, hidden_bytes=8.0,
)  # fmt: skip
BARE = replace(
    ROUND, launch_s=0.0, step_overhead_s=0.0, layer_overhead_s=0.0, attention_launch_s=0.0,
    attention_per_sequence_s=0.0, attention_bandwidth_bytes_per_s=10.0, attention_flops_per_s=100.0,
)  # fmt: skip

# Llama-3.1-8B on an H100: shapes (outputs, inputs) of a layer's products, and of the output head.
LAYER_8B = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
HEAD_8B = (128256, 4096)
BANDWIDTH, RATE = 0.89 * 3.35e12, 0.89 * 989e12


def test_product_of_round_numbers():
    # 2 rows: (40 + 2 · 5) ÷ 10 = 5 s of memory, 2 · 200 ÷ 100 = 4 s of arithmetic, three times with a launch each.
    assert product_seconds(2.0, DENSE, ROUND) == 3 * (1 + 5 + 4)
    assert product_seconds(2.0, DENSE, replace(ROUND, norm=2.0)) == pytest.approx(3 * (1 + np.sqrt(41)), rel=1e-15)


def test_pass_of_round_numbers():
    # 2 positions in each of 3 sequences of 7 tokens. Products: 3 (1 + 70 ÷ 10 + 1200 ÷ 100) = 60. Then 5 + 4 · 0.5.
    # Attention: 4 (0.25 + 3 · 0.125) = 2.5 of launches, and the longer of 3 · 7 · 2 ÷ 20 and 3 · 2 · 7 · 10 ÷ 50 = 8.4,
    # since an exponent of 16 leaves of the shorter nothing that counts.
    assert calibrated_seconds(2.0, 3.0, 7.0, COST, ROUND) == pytest.approx(60 + 7 + 2.5 + 8.4, rel=1e-11)


def test_attention_of_round_numbers_reads_the_cache_as_often_as_the_kernel_does():
    cost = replace(COST, attention_flops_per_token_and_context=0.0)
    read_s = 3 * 7 * 2 / 20
    for rows, reads in ((ALL_ROWS, 1), (1.0, 5), (2.0, 3), (4.0, 2), (5.0, 1)):
        seconds = attention_seconds(5.0, 3.0, 7.0, cost, replace(ROUND, rows_per_kv_pass=rows))
        assert seconds == pytest.approx(2.5 + reads * read_s, rel=1e-15), rows


def test_attention_of_round_numbers_reads_faster_what_is_near():
    cost = replace(COST, attention_flops_per_token_and_context=0.0)  # 2 ÷ 4 bytes a token and layer
    again = replace(ROUND, rows_per_kv_pass=1.0, kv_near_bytes=3.5, kv_near_gain=4.0)
    near, far = (attention_seconds(5.0, 3.0, context, cost, again) for context in (7.0, 8.0))
    assert near == pytest.approx(2.5 + 5 * 3 * 7 * 2 / 20 / 4, rel=1e-14)
    assert far == pytest.approx(2.5 + 5 * 3 * 8 * 2 / 20, rel=1e-14)


def test_attention_of_round_numbers_adds_with_an_exponent_of_one():
    rates = replace(ROUND, attention_norm=1.0)
    assert attention_seconds(2.0, 3.0, 7.0, COST, rates) == pytest.approx(2.5 + 2.1 + 8.4, rel=1e-14)


def test_communication_of_round_numbers():
    # Two all-reduces in each of 4 layers: 2 s and, on 4 devices, 2 · 3 ÷ 4 of 6 rows of 8 bytes at 4 bytes/s.
    assert communication_seconds(6.0, replace(COST, n_devices=4.0), ROUND) == 2 * 4 * (2 + 1.5 * 12)
    alone, shared = (calibrated_seconds(1.0, 6.0, 7.0, replace(COST, n_devices=n), ROUND) for n in (1.0, 4.0))
    assert shared - alone == pytest.approx(160, rel=1e-13)


def test_mixture_of_round_numbers_reads_and_launches_the_experts_it_touches():
    experts = replace(DENSE, n_experts=4.0, n_experts_per_token=1.0)
    cost = replace(COST, products=(experts, DENSE), n_mixture_layers=2.0)
    rates = replace(ROUND, expert_overhead_s=0.5)
    touched = 1 - 0.75**2
    expected = 3 * (1 + (40 * touched + 10) / 10 + 4) + 30 + 7 + 2 * 4 * touched * 0.5
    expected += 4 * (0.25 + 0.125) + max(7 * 2 / 20, 2 * 7 * 10 / 50)
    assert calibrated_seconds(2.0, 1.0, 7.0, cost, rates) == pytest.approx(expected, rel=1e-11)


def _product_8b(shape: tuple[int, int], rows: int, norm: float = 2.5) -> float:
    n_out, n_in = shape
    memory = (2 * n_out * n_in + 2 * rows * (n_out + n_in)) / BANDWIDTH
    arithmetic = 2 * rows * n_out * n_in / RATE
    return 3.8e-6 + (memory**norm + arithmetic**norm) ** (1 / norm)


def _pass_8b(width: int, batch: int, context: int, reads: int = 1) -> float:
    rows = width * batch
    products = 32 * sum(_product_8b(shape, rows) for shape in LAYER_8B) + _product_8b(HEAD_8B, rows)
    launches = 32 * (6.4e-6 + 11.6e-6 + 0.07e-6 * batch)
    memory = reads * batch * context * (2 * 32 * 8 * 128 * 2) / (0.9 * 3.35e12)
    arithmetic = rows * context * (4 * 32 * 32 * 128) / RATE
    return products + launches + max(memory, arithmetic)


def _llama(**changes: float) -> CalibratedRoofline:
    rates = replace(calibrated_rates(catalogue_device("h100-sxm5"), "bf16"), **changes)
    return CalibratedRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), rates=rates)


@pytest.mark.parametrize("width", [1, 4, 9])
@pytest.mark.parametrize("batch", [1, 16, 256])
@pytest.mark.parametrize("context", [512, 32768])
def test_llama_8b_on_h100_pass_is_the_hand_arithmetic(width: int, batch: int, context: int):
    assert _llama()(width, batch, context) == pytest.approx(_pass_8b(width, batch, context), rel=1e-12)
    split = _llama(rows_per_kv_pass=2.0)(width, batch, context)
    assert split == pytest.approx(_pass_8b(width, batch, context, reads=-(-width // 2)), rel=1e-12)


def test_llama_8b_on_h100_decodes_in_six_milliseconds_of_which_one_is_overhead():
    decode = float(_llama()(1, 1, 512))
    assert 6.0e-3 < decode < 6.3e-3
    bare = float(
        _llama(launch_s=0.0, layer_overhead_s=0.0, attention_launch_s=0.0, attention_per_sequence_s=0.0)(1, 1, 512)
    )
    assert decode - bare == pytest.approx(129 * 3.8e-6 + 32 * 18.07e-6, rel=1e-9)
    assert 0.15 < (decode - bare) / decode < 0.2


def test_every_verified_position_pays_for_the_output_head():
    step = _llama()
    headless = CalibratedRoofline(cost=replace(step.cost, products=step.cost.products[:-1]), rates=step.rates)
    for rows in (1, 64, 2048):
        assert step(rows, 1, 512) - headless(rows, 1, 512) == pytest.approx(_product_8b(HEAD_8B, rows), rel=1e-9)


def test_without_overheads_and_with_a_large_norm_it_is_the_doctrine_of_each_product():
    rates = replace(BARE, norm=16.0)
    cost = replace(COST, products=(replace(DENSE, activation_bytes_per_row=0.0),))
    doctrine = DoctrineRoofline(
        cost=cost, device=DeviceRates(flops_per_s=100.0, bandwidth_bytes_per_s=10.0, overhead_s=0.0)
    )
    for batch in (1.0, 100.0):  # bound by memory throughout, and by arithmetic throughout
        context = 1.0
        assert calibrated_seconds(1.0, batch, context, cost, rates) == pytest.approx(
            doctrine(1.0, batch, context), rel=0.02
        )


@pytest.mark.parametrize("batch", [1, 64, 1000])
def test_without_overheads_it_lies_between_the_doctrine_and_the_sum_of_both_times(batch: int):
    bare = dict.fromkeys(("launch_s", "layer_overhead_s", "attention_launch_s", "attention_per_sequence_s"), 0.0)
    step = _llama(**bare, norm=16.0, attention_bandwidth_bytes_per_s=BANDWIDTH)
    ideal = DoctrineRoofline(
        cost=step.cost, device=DeviceRates(flops_per_s=RATE, bandwidth_bytes_per_s=BANDWIDTH, overhead_s=0.0)
    )
    assert float(ideal(5, batch, 512)) <= float(step(5, batch, 512)) <= 1.3 * float(ideal(5, batch, 512))


def test_seconds_grow_linearly_where_arithmetic_binds_everything():
    step = _llama()
    one, two = float(step(1, 1e7, 512)), float(step(1, 2e7, 512))
    assert two == pytest.approx(2 * one, rel=1e-3)
    products = 1e7 * 2 * 7_504_658_432 / RATE
    cache = 1e7 * 512 * 131072 / (0.9 * 3.35e12)
    assert products + cache < one < 1.1 * (products + cache)


def test_latent_attention_computes_242_operations_for_each_byte_of_cache():
    cost = step_cost(model("DeepSeek-V3"), "bf16")
    assert cost.kv_bytes_per_token == 61 * 576 * 2
    assert cost.attention_flops_per_token_and_context == 2 * 61 * 128 * (2 * 512 + 64)
    assert cost.attention_flops_per_token_and_context / cost.kv_bytes_per_token == pytest.approx(242, abs=0.5)
    free = replace(example_rates(), attention_launch_s=0.0, attention_per_sequence_s=0.0)
    attention = [attention_seconds(width, 1, 32768, cost, free) for width in (1, 2, 4)]
    assert attention[1] > 1.5 * attention[0]  # the ridge lies near one position already
    assert attention[2] == pytest.approx(2 * attention[1], rel=1e-4)


def test_latent_attention_shared_by_eight_reaches_its_ridge_near_ten_positions():
    cost = step_cost(model("DeepSeek-V3"), "bf16", tensor_parallel=8)
    per_position = cost.attention_flops_per_token_and_context / cost.kv_bytes_per_token
    assert 8.5 < (RATE / (0.9 * 3.35e12)) / per_position < 11


def test_tensor_parallel_divides_weights_and_cache_and_adds_communication():
    whole, half = (step_cost(model("Llama-3.1-70B"), "bf16", tensor_parallel=n) for n in (1, 2))
    assert half.dense_weight_bytes == pytest.approx(whole.dense_weight_bytes / 2, rel=1e-15)
    assert half.flops_per_token == pytest.approx(whole.flops_per_token / 2, rel=1e-15)
    assert half.kv_bytes_per_token == whole.kv_bytes_per_token / 2
    rates = example_rates()
    seconds = [float(CalibratedRoofline(cost=cost, rates=rates)(1, 1, 512)) for cost in (whole, half)]
    link = 2 * 80 * (8e-6 + 8192 * 2 / 450e9)
    overhead = 80 * (4 * 3.8e-6 + 18.07e-6) + 3.8e-6
    assert communication_seconds(1, half, rates) == pytest.approx(link, rel=1e-12)
    assert seconds[1] == pytest.approx((seconds[0] - overhead) / 2 + overhead + link, rel=1e-3)


@pytest.mark.parametrize("exponent", [0.2, 0.8, 1.0])
@pytest.mark.parametrize(("n_experts", "used"), [(8, 2), (128, 8), (256, 8)])
def test_one_token_touches_its_own_experts_whatever_the_routing(exponent: float, n_experts: int, used: int):
    assert expert_coverage(1.0, n_experts, used, exponent) == pytest.approx(used / n_experts, rel=1e-12)


def test_skewed_routing_of_32_tokens_touches_what_32_to_the_exponent_independent_ones_do():
    assert expert_coverage(32.0, 128, 8, 0.8) == pytest.approx(1 - (15 / 16) ** 16.0, rel=1e-12)


def test_mixtral_at_batch_one_reads_a_quarter_of_its_experts():
    step = CalibratedRoofline(cost=step_cost(model("Mixtral-8x7B"), "bf16"), rates=example_rates())
    experts, dense = (
        32 * 8 * 3 * 4096 * 14336 * 2,
        2 * (32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8) + 32000 * 4096),
    )
    assert step.cost.expert_weight_bytes == experts
    decode, verify = float(step(1, 1, 1)), float(step(5, 1, 1))
    assert 1.0 < decode / ((dense + experts / 4) / BANDWIDTH) < 1.25
    more_s = experts * (0.75 - 0.75**5) / BANDWIDTH
    assert verify - decode == pytest.approx(more_s, rel=0.02)


def test_norm_of_times_at_the_corner():
    assert norm_of_times(1.0, 1.0, 2.5) == pytest.approx(2**0.4, rel=1e-15)
