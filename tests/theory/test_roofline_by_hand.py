"""Step times and break-even against arithmetic that does not use the package.

Sources: the configuration of Llama-3.1-8B and Mixtral-8x7B on Hugging Face; Williams et al. 2009 for the roofline;
Leviathan et al. 2023, theorem 3.8, for the speedup.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device
from specbook.roofline.frontier import break_even
from specbook.roofline.grid import GridConfig, project
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import StepCost, expert_coverage, step_cost
from specbook.roofline.speedup import break_even_batch
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, device_rates
from tests.tiny_costs import chain_times, doctrine_pair, tiny_cost

# Llama-3.1-8B: 32 layers of 4096, 32 query and 8 key-value heads of 128, feed-forward 14336, vocabulary 128256.
WEIGHTS_8B = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336) + 128256 * 4096
KV_8B = 2 * 32 * 8 * 128 * 2
ATTENTION_8B = 4 * 32 * 32 * 128
# Llama-3.2-1B: 16 layers of 2048, 32 query and 8 key-value heads of 64, feed-forward 8192, the same vocabulary.
WEIGHTS_1B = 16 * (2048 * 2048 * 2 + 2048 * 512 * 2 + 3 * 2048 * 8192) + 128256 * 2048
KV_1B = 2 * 16 * 8 * 64 * 2
ATTENTION_1B = 4 * 16 * 32 * 64
FLOPS, BANDWIDTH, OVERHEAD = 989e12, 0.89 * 3.35e12, 8e-6
TOKENS = 3.3616


def _step(weights: int, kv: int, attention: int, width: int, batch: float, context: int) -> float:
    arithmetic = batch * width * (2 * weights + attention * context) / FLOPS
    return max(arithmetic, (2 * weights + batch * context * kv) / BANDWIDTH) + OVERHEAD


def _speedup(length: int, batch: float, context: int) -> float:
    target = (WEIGHTS_8B, KV_8B, ATTENTION_8B)
    seconds = length * _step(WEIGHTS_1B, KV_1B, ATTENTION_1B, 1, batch, context)
    seconds += _step(*target, length + 1, batch, context)
    return TOKENS * _step(*target, 1, batch, context) / seconds


def _llama(**changes) -> GridConfig:
    base = GridConfig(
        step_time="doctrine",
        hardware=(catalogue_device("h100-sxm5"),),
        target=model("Llama-3.1-8B"),
        draft=model("Llama-3.2-1B"),
        candidates=DraftCandidates(
            draft_lengths=(0, 4), expected_tokens=(1.0, TOKENS), assumptions=("measured", "measured")
        ),
        batches=(1, 64, 500),
        contexts=(512, 16384),
    )
    return replace(base, **changes)


def test_llama_8b_weights_are_7_5_billion_in_the_pass():
    assert WEIGHTS_8B == 7_504_658_432
    cost = step_cost(model("Llama-3.1-8B"), "bf16")
    assert (cost.dense_weight_bytes, cost.flops_per_token) == (2 * WEIGHTS_8B, 2 * WEIGHTS_8B)
    assert (cost.kv_bytes_per_token, cost.attention_flops_per_token_and_context) == (KV_8B, ATTENTION_8B)


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("batch", [1, 64, 500])
@pytest.mark.parametrize("context", [512, 16384])
def test_llama_8b_on_h100_step_time_is_the_hand_arithmetic(width: int, batch: int, context: int):
    step = DoctrineRoofline(
        cost=step_cost(model("Llama-3.1-8B"), "bf16"), device=device_rates(catalogue_device("h100-sxm5"), "bf16")
    )
    expected = _step(WEIGHTS_8B, KV_8B, ATTENTION_8B, width, batch, context)
    assert step(width, batch, context) == pytest.approx(expected, rel=1e-12)


def test_llama_8b_on_h100_single_stream_takes_five_milliseconds():
    row = project(_llama(batches=(1,), contexts=(512,))).row(1, named=True)
    assert row["baseline_tpot_s"] == pytest.approx(5.0647e-3, abs=5e-8)
    assert row["verify_s"] == row["baseline_tpot_s"]
    assert row["speedup"] == pytest.approx(_speedup(4, 1, 512), rel=1e-12)


def test_llama_8b_on_h100_whole_projection_is_the_hand_arithmetic():
    for row in project(_llama()).filter(draft_length=4).iter_rows(named=True):
        batch, context = row["batch"], row["context"]
        assert row["draft_s"] == pytest.approx(4 * _step(WEIGHTS_1B, KV_1B, ATTENTION_1B, 1, batch, context), rel=1e-12)
        assert row["verify_s"] == pytest.approx(_step(WEIGHTS_8B, KV_8B, ATTENTION_8B, 5, batch, context), rel=1e-12)
        assert row["speedup"] == pytest.approx(_speedup(4, batch, context), rel=1e-12)
        assert row["kv_bytes"] == batch * context * (KV_8B + KV_1B)


@pytest.mark.parametrize("context", [1, 128, 512])
def test_break_even_is_the_root_of_the_continuous_speedup(context: int):
    root = brentq(lambda batch: _speedup(4, batch, context) - 1.0, 1.0, 5000.0, xtol=1e-9)
    boundary = break_even(_llama(contexts=(context,)), max_batch=2000)["break_even_batch"].item()
    assert boundary == math.ceil(root)


def _bare(weight_bytes: float, parameters: float) -> StepCost:
    return tiny_cost(
        dense_weight_bytes=weight_bytes,
        kv_bytes_per_token=0.0,
        flops_per_token=2.0 * parameters,
        attention_flops_per_token_and_context=0.0,
    )


@pytest.mark.parametrize(
    ("length", "tokens", "bytes_per_weight"), [(4, 3.3616, 2.0), (1, 1.8, 2.0), (8, 4.496, 1.0), (3, 2.925, 0.5625)]
)
def test_break_even_of_a_free_drafter_meets_the_closed_form(length: int, tokens: float, bytes_per_weight: float):
    parameters, weight_bytes = 7.5e9, 7.5e9 * bytes_per_weight
    device = DeviceRates(flops_per_s=989e12, bandwidth_bytes_per_s=2.98e12, overhead_s=0.0)
    pair = doctrine_pair(
        target=_bare(weight_bytes, parameters),
        draft=_bare(0.0, 0.0),
        target_device=device,
        draft_device=device,
    )
    closed = tokens * weight_bytes * 989e12 / (2 * parameters * 2.98e12 * (length + 1))
    root = brentq(lambda batch: float(chain_times(length, batch, 512, tokens, pair).speedup) - 1.0, 1.0, 1e5, xtol=1e-9)
    assert root == pytest.approx(closed, rel=1e-9)
    batches = np.arange(1, 2000)
    assert break_even_batch(chain_times(length, batches, 512, tokens, pair).speedup, batches) == math.ceil(closed)


def test_break_even_lies_below_the_ridge_of_decoding():
    device = DeviceRates(flops_per_s=989e12, bandwidth_bytes_per_s=2.98e12, overhead_s=0.0)
    ridge = 989e12 / 2.98e12
    closed = TOKENS / 5 * ridge
    step = DoctrineRoofline(cost=_bare(15e9, 7.5e9), device=device)
    assert step.regime(1, closed, 512) == "memory"
    assert step.regime(5, closed, 512) == "compute"


def test_long_context_speedup_rises_with_the_batch_where_the_drafter_has_little_cache():
    pair = _llama(target=model("Llama-2-7B"), draft=model("TinyLlama-1.1B"), batches=(1, 8, 32), contexts=(32768,))
    table = project(pair).filter(draft_length=4).sort("batch")
    assert table["speedup"].is_sorted()
    assert table["speedup"].n_unique() == 3


@pytest.mark.parametrize("n_tokens", [1, 3, 8, 20])
@pytest.mark.parametrize(("n_experts", "per_token"), [(8, 2), (128, 8)])
def test_expert_coverage_meets_simulated_uniform_routing(n_tokens: int, n_experts: int, per_token: int):
    rng = np.random.default_rng(7)
    scores = rng.random((3000, n_tokens, n_experts))
    chosen = scores.argpartition(per_token, axis=-1)[..., :per_token]
    used = np.zeros((3000, n_experts), dtype=bool)
    np.put_along_axis(used, chosen.reshape(3000, -1), True, axis=1)
    share = used.mean(axis=1)
    error = share.std(ddof=1) / np.sqrt(share.size)
    assert abs(share.mean() - expert_coverage(n_tokens, n_experts, per_token)) <= 4 * error + 1e-12


def test_mixtral_verify_reads_more_experts_than_decode():
    layer_experts, dense = 32 * 8 * 3 * 4096 * 14336, 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 * 8) + 32000 * 4096
    step = DoctrineRoofline(
        cost=step_cost(model("Mixtral-8x7B"), "bf16"), device=device_rates(catalogue_device("h100-sxm5"), "bf16")
    )
    for width in (1, 5):
        moved = 2 * dense + 2 * layer_experts * (1 - 0.75**width) + 512 * 2 * 32 * 8 * 128 * 2
        assert step(width, 1, 512) == pytest.approx(moved / BANDWIDTH + OVERHEAD, rel=1e-12)
