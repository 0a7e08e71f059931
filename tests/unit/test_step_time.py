"""The doctrine's step time, by hand on a model small enough to count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import ModelSpec, model
from specbook.roofline.pass_cost import expert_coverage, step_cost
from specbook.roofline.step_time import (
    DeviceRates,
    DoctrineRoofline,
    arithmetic_seconds,
    device_rates,
    memory_seconds,
    step_seconds,
)
from tests.tiny_costs import tiny_cost

TINY = ModelSpec(
    name="tiny", n_layers=2, hidden_size=8, n_heads=4, n_kv_heads=2, head_dim=2, ffn_size=16, vocab_size=100
)
COST = tiny_cost(
    dense_weight_bytes=1000.0,
    kv_bytes_per_token=4.0,
    flops_per_token=100.0,
    attention_flops_per_token_and_context=2.0,
)
MOE = tiny_cost(
    dense_weight_bytes=200.0,
    expert_weight_bytes=800.0,
    n_experts=8.0,
    n_experts_per_token=2.0,
    kv_bytes_per_token=4.0,
    flops_per_token=100.0,
    attention_flops_per_token_and_context=2.0,
)
DEVICE = DeviceRates(flops_per_s=1000.0, bandwidth_bytes_per_s=500.0, overhead_s=0.25)


def test_step_cost_dense_model_by_hand():
    cost = step_cost(TINY, "bf16")
    active = 2 * (8 * 8 * 2 + 8 * 4 * 2) + 2 * 3 * 8 * 16 + 100 * 8
    assert cost.dense_weight_bytes == 2 * active
    assert cost.expert_weight_bytes == 0.0
    assert cost.flops_per_token == 2 * active
    assert cost.kv_bytes_per_token == 2 * 2 * 2 * 2 * 2
    assert cost.attention_flops_per_token_and_context == 4 * 2 * 4 * 2


def test_step_cost_experts_compute_only_with_the_chosen():
    dense, moe = step_cost(TINY, "bf16"), step_cost(replace(TINY, n_experts=4, n_experts_per_token=2), "bf16")
    ffn, router = 2 * 3 * 8 * 16, 2 * 8 * 4
    assert moe.expert_weight_bytes == 2 * 4 * ffn
    assert moe.dense_weight_bytes == dense.dense_weight_bytes - 2 * ffn + 2 * router
    assert moe.flops_per_token == dense.flops_per_token + 2 * ffn + 2 * router


def test_step_cost_weight_format_narrows_the_layers_and_not_the_head():
    wide, narrow = step_cost(TINY, "bf16"), step_cost(TINY, "FP8")
    assert wide.dense_weight_bytes - narrow.dense_weight_bytes == (wide.dense_weight_bytes - 1600) / 2
    assert narrow.flops_per_token == wide.flops_per_token


def test_step_cost_cache_of_eight_bits_halves_its_bytes():
    assert step_cost(TINY, "bf16", 1.0).kv_bytes_per_token == step_cost(TINY, "bf16").kv_bytes_per_token / 2


def test_step_cost_unknown_format_is_refused():
    with pytest.raises(BadInput, match="no such weight format"):
        step_cost(TINY, "fp3")


def test_step_cost_tied_head_is_still_computed():
    assert step_cost(replace(TINY, tied_embeddings=True), "bf16") == step_cost(TINY, "bf16")


@pytest.mark.parametrize(
    ("n_tokens", "n_experts", "per_token", "share"),
    [(1, 8, 2, 0.25), (2, 8, 2, 1 - 0.75**2), (7, 8, 8, 1.0), (1, 1, 1, 1.0), (10**6, 128, 8, 1.0)],
)
def test_expert_coverage_by_hand(n_tokens: int, n_experts: int, per_token: int, share: float):
    assert expert_coverage(n_tokens, n_experts, per_token) == pytest.approx(share, rel=1e-15)


def test_arithmetic_seconds_by_hand():
    assert arithmetic_seconds(5, 3, 10, COST, DEVICE) == 3 * 5 * (100 + 2 * 10) / 1000


def test_memory_seconds_cache_is_read_once_for_all_positions():
    assert memory_seconds(1, 3, 10, COST, DEVICE) == memory_seconds(5, 3, 10, COST, DEVICE) == (1000 + 3 * 10 * 4) / 500


def test_memory_seconds_experts_are_read_by_all_tokens_of_the_pass():
    read = 200 + 800 * (1 - 0.75**15) + 3 * 10 * 4
    assert memory_seconds(5, 3, 10, MOE, DEVICE) == pytest.approx(read / 500, rel=1e-15)


def test_step_seconds_takes_the_longer_and_adds_the_overhead():
    assert step_seconds(1, 1, 10, COST, DEVICE) == 1040 / 500 + 0.25
    assert step_seconds(50, 1, 10, COST, DEVICE) == 6.0 + 0.25


def test_doctrine_roofline_is_the_step_time_with_its_regime():
    step = DoctrineRoofline(cost=COST, device=DEVICE)
    tokens = np.array([1, 50])
    assert step(tokens, 1, 10).tolist() == [2.33, 6.25]
    assert step.regime(tokens, 1, 10).tolist() == ["memory", "compute"]
    assert step.kind == "doctrine"


def test_doctrine_roofline_equal_times_count_as_memory_bound():
    balanced = replace(COST, kv_bytes_per_token=0.0, attention_flops_per_token_and_context=0.0)
    assert DoctrineRoofline(cost=balanced, device=DEVICE).regime(20, 1, 10) == "memory"


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"flops_per_s": 0.0}, "flops_per_s must be greater than 0; got 0.0"),
        ({"flops_per_s": np.array([1.0, np.nan])}, "flops_per_s must be finite; got nan"),
        ({"bandwidth_bytes_per_s": -1.0}, "bandwidth_bytes_per_s must be greater than 0; got -1.0"),
        ({"bandwidth_bytes_per_s": np.inf}, "bandwidth_bytes_per_s must be finite; got inf"),
        ({"overhead_s": -1e-6}, "overhead_s must not be negative; got -1e-06"),
    ],
)
def test_doctrine_roofline_impossible_rate_is_refused(rates: dict, message: str):
    with pytest.raises(ValueError, match=message):
        DoctrineRoofline(cost=COST, device=replace(DEVICE, **rates))


def test_device_rates_are_sustained_dense_and_by_format():
    h100 = catalogue_device("h100-sxm5")
    assert device_rates(h100, "bf16") == DeviceRates(
        flops_per_s=989e12, bandwidth_bytes_per_s=h100.sustained_bandwidth_bytes_per_s.value, overhead_s=8e-6
    )
    assert device_rates(h100, "fp8").flops_per_s == 1978e12
    assert device_rates(h100, "int4").flops_per_s == 989e12


def test_device_rates_unknown_overhead_counts_as_none():
    assert device_rates(catalogue_device("genoa"), "bf16").overhead_s == 0.0


def test_step_cost_qwen_experts_read_one_sixteenth_for_one_token():
    cost = step_cost(model("Qwen3-30B-A3B"), "bf16")
    assert expert_coverage(1, cost.n_experts, cost.n_experts_per_token) == 1 / 16
