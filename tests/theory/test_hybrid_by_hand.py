"""Passes of hybrid models against arithmetic that does not use the package.

Sources: the configuration of Qwen3-Next-80B-A3B, 48 layers of 2048, one in four with full attention: 16 query heads and
2 for keys and values of 256, and a gate as wide as the queries. The others have 16 key and 32 value heads of 128 and a
convolution of 4. 512 experts of 512, 10 used, one shared; vocabulary 151936.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import CalibratedRoofline, example_rates
from specbook.roofline.drafting import drafter_cost
from specbook.roofline.model_spec import ModelSpec, model
from specbook.roofline.pass_cost import step_cost
from specbook.roofline.step_time import device_rates, memory_seconds

H, N_FULL, N_LINEAR = 2048, 12, 36
FULL = H * (2 * 16 * 256 + 2 * 2 * 256) + 16 * 256 * H
KEYS, VALUES = 16 * 128, 32 * 128
LINEAR = H * (2 * KEYS + 2 * VALUES + 2 * 32) + VALUES * H
EXPERT = 3 * H * 512
USED = 48 * (11 * EXPERT + 512 * H) + N_FULL * FULL + N_LINEAR * LINEAR + 151936 * H
STATE = 32 * 128 * 128  # a matrix of keys by values for every value head
CONV = (2 * KEYS + VALUES) * 4
HYBRIDS = ("Qwen3-Next-80B-A3B", "Qwen3.5-35B-A3B", "Qwen3.6-35B-A3B", "Qwen3.5-27B", "Qwen3.6-27B", "Qwen3.8-27B")


def test_cache_grows_in_the_layers_with_full_attention_alone():
    assert model("Qwen3-Next-80B-A3B").kv_bytes_per_token() == 2 * N_FULL * 2 * 256 * 2
    cost = step_cost(model("Qwen3-Next-80B-A3B"), "bf16")
    assert cost.kv_bytes_per_token_and_layer == 2 * 2 * 256 * 2
    assert cost.attention_flops_per_token_and_context == 4 * N_FULL * 16 * 256


def test_position_moves_the_states_of_its_linear_layers():
    cost = step_cost(model("Qwen3-Next-80B-A3B"), "bf16")
    assert cost.state_bytes_per_position == N_LINEAR * (4 * STATE + 2 * CONV)


def test_position_computes_its_weights_and_states():
    cost = step_cost(model("Qwen3-Next-80B-A3B"), "bf16")
    assert cost.flops_per_token == 2 * USED + N_LINEAR * (7 * STATE + 2 * CONV)
    assert cost.products[-1].weight_bytes == 2 * 151936 * H


def test_dense_hybrid_reads_all_its_weights_but_the_embedding():
    spec = model("Qwen3.8-27B")
    read = step_cost(spec, "bf16").dense_weight_bytes
    small = 2 * (spec.n_parameters - spec.head_parameters) - read  # norms, convolutions, decays
    assert 0 < small < 1e-3 * read


@pytest.mark.parametrize("name", HYBRIDS)
def test_one_layer_in_four_has_full_attention(name: str):
    spec = model(name)
    assert spec.n_layers == 4 * spec.n_attention_layers
    assert spec.n_attention_layers + spec.n_linear_layers == spec.n_layers


def test_states_are_shared_by_devices_as_their_heads_are():
    alone, four = (step_cost(model("Qwen3.8-27B"), "bf16", tensor_parallel=n) for n in (1, 4))
    assert four.state_bytes_per_position == alone.state_bytes_per_position / 4
    assert four.dense_weight_bytes == pytest.approx(alone.dense_weight_bytes / 4)


def test_wide_batches_pay_for_states_and_long_contexts_do_not():
    spec = model("Qwen3.8-27B")
    step = CalibratedRoofline(cost=step_cost(spec, "bf16"), rates=example_rates())
    full = replace(spec, n_linear_layers=0)
    plain = CalibratedRoofline(cost=step_cost(full, "bf16"), rates=example_rates())
    assert step(1, 64, 32768) - step(1, 64, 1024) < 0.3 * (plain(1, 64, 32768) - plain(1, 64, 1024))
    written_s = 64 * 4 * step.cost.state_bytes_per_position / step.rates.bandwidth_bytes_per_s
    bare = CalibratedRoofline(
        cost=replace(step.cost, products=tuple(each for each in step.cost.products if each.weight_bytes)),
        rates=example_rates(),
    )
    assert step(4, 64, 1024) - bare(4, 64, 1024) == pytest.approx(written_s, rel=0.05)


def test_a_pass_reads_states_once_and_writes_them_after_each_position():
    cost, batch = step_cost(model("Qwen3-Next-80B-A3B"), "bf16"), 8
    device = device_rates(catalogue_device("h200-sxm"), "bf16")
    without = replace(cost, state_bytes_per_position=0.0)
    for width in (1, 4, 8):
        moved_s = memory_seconds(width, batch, 512, cost, device) - memory_seconds(width, batch, 512, without, device)
        bytes_moved = batch * (1 + width) * N_LINEAR * (4 * STATE + 2 * CONV)
        assert moved_s * device.bandwidth_bytes_per_s == pytest.approx(bytes_moved)
    step = CalibratedRoofline(cost=cost, rates=example_rates())
    stateless = CalibratedRoofline(cost=without, rates=example_rates())
    read_s = batch * cost.state_bytes_per_position / step.rates.bandwidth_bytes_per_s
    assert step(8, batch, 512) - stateless(8, batch, 512) == pytest.approx(read_s)


@pytest.mark.parametrize("method", ["eagle", "mtp"])
def test_head_of_a_hybrid_is_one_layer_with_full_attention(method):
    cost = drafter_cost(method, model("Qwen3-Next-80B-A3B"), None, "bf16")
    assert cost is not None
    assert (cost.n_layers, cost.n_linear_layers, cost.state_bytes_per_position) == (1.0, 0.0, 0.0)
    assert cost.kv_bytes_per_token == 2 * 2 * 256 * 2


def test_linear_layers_without_sizes_are_refused():
    spec = ModelSpec(
        name="tiny", n_layers=2, hidden_size=8, n_heads=4, n_kv_heads=2, head_dim=2, ffn_size=16, vocab_size=100
    )
    for changes in ({"n_linear_layers": 1}, {"n_linear_layers": 3, "linear_key_heads": 1}):
        with pytest.raises(ValueError, match="linear attention needs all of its sizes"):
            replace(spec, **changes)
