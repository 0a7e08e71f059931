"""What each method's drafting costs, by hand, how wide it makes the verify pass, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.roofline.calibrated import CalibratedRoofline, example_rates
from specbook.roofline.drafting import (
    METHODS,
    HostLookup,
    Lookahead,
    MethodName,
    ParallelHeads,
    SequentialDrafter,
    costs_like,
    drafter_cost,
    drafter_of,
    drafter_weight_bytes,
)
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost

LLAMA, DEEPSEEK, MIXTRAL = model("Llama-3.1-8B"), model("DeepSeek-V3"), model("Mixtral-8x7B")
KIMI, QWEN, HYBRID = model("Kimi-K2"), model("Qwen3-30B-A3B"), model("Qwen3-Next-80B-A3B")
LAYER_8B = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
HEAD_8B = 128256 * 4096


@dataclass(frozen=True)
class Recorder:
    """A step time that counts positions, and remembers what it was asked."""

    asked: list[tuple[Any, ...]]
    kind: str = "measured"
    overhead_s: float = 0.0

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        del xp
        self.asked.append((tokens, batch, context))
        return 1.0 + 0.0 * batch + 0.01 * tokens


def test_a_chain_drafts_one_position_a_pass():
    step = Recorder([])
    assert SequentialDrafter(step=step).seconds(4.0, 4.0, 2.0, 512.0) == pytest.approx(4 * 1.01)
    assert step.asked == [(1.0, 2.0, 512.0)]


def test_a_tree_drafts_a_level_a_pass():
    step = Recorder([])
    assert SequentialDrafter(step=step).seconds(3.0, 21.0, 2.0, 512.0) == pytest.approx(3 * 1.07)
    assert step.asked == [(7.0, 2.0, 512.0)]


def test_medusa_heads_cost_the_same_whatever_the_tree():
    heads = ParallelHeads(step=Recorder([]))
    assert heads.seconds(4.0, 4.0, 1.0, 512.0) == heads.seconds(4.0, 64.0, 1.0, 32768.0) == pytest.approx(4 * 1.01)


def test_lookup_searches_each_sequence_once():
    lookup = HostLookup(seconds_per_round=1e-3, seconds_per_context_token=1e-6)
    assert lookup.seconds(5.0, 5.0, 3.0, 100.0) == pytest.approx(1e-3 + 3e-4)
    assert lookup.seconds(1.0, 1.0, 3.0, 100.0) == lookup.seconds(8.0, 8.0, 3.0, 100.0)
    assert lookup.seconds(np.array([0.0, 2.0]), 2.0, 3.0, 100.0).tolist() == [0.0, pytest.approx(1.3e-3)]


def test_lookahead_pays_in_the_width_of_the_pass_alone():
    assert Lookahead().seconds(5.0, 5.0, 8.0, 512.0) == 0.0
    assert Lookahead(window=10, n_candidates=5).verify_width(3) == 3 * 15 + 1


@pytest.mark.parametrize("drafter", [
    SequentialDrafter(step=Recorder([])), ParallelHeads(step=Recorder([])), HostLookup(), Lookahead(),
])  # fmt: skip
def test_no_draft_costs_nothing_and_verifies_one_position(drafter: Any):
    assert drafter.seconds(0.0, 0.0, 4.0, 512.0) == 0.0
    assert drafter.verify_width(0.0) == 1.0


@pytest.mark.parametrize("drafter", [
    SequentialDrafter(step=Recorder([])), ParallelHeads(step=Recorder([])), HostLookup(),
])  # fmt: skip
def test_the_verify_pass_has_a_position_for_each_node_and_the_bonus_token(drafter: Any):
    assert [drafter.verify_width(nodes) for nodes in (1, 5, 64)] == [2, 6, 65]


def test_a_draft_model_costs_what_it_is():
    draft = model("Llama-3.2-1B")
    assert drafter_cost("draft_model", LLAMA, draft, "bf16") == step_cost(draft, "bf16")
    assert drafter_weight_bytes("draft_model", LLAMA, draft, "bf16") == draft.weight_bytes("bf16")


def test_an_eagle_head_is_a_projection_a_layer_and_the_output_head():
    cost = drafter_cost("eagle", LLAMA, None, "bf16")
    assert cost.dense_weight_bytes == 2 * (2 * 4096 * 4096 + LAYER_8B + HEAD_8B)
    assert cost.n_layers == 1.0
    assert cost.kv_bytes_per_token == 2 * 8 * 128 * 2
    assert drafter_weight_bytes("eagle", LLAMA, None, "bf16") == 2 * (2 * 4096 * 4096 + LAYER_8B)


def test_an_eagle3_head_reads_two_vectors_and_writes_the_commonest_tokens():
    cost = drafter_cost("eagle3", LLAMA, None, "bf16")
    attention = (4096 + 2 * 1024) * 2 * 4096 + 4096 * 4096
    elements = attention + 3 * 4096 * 14336 + 32000 * 4096
    assert cost.dense_weight_bytes == 2 * elements == 748_683_264
    assert cost.products[0].activation_bytes_per_row == 2 * (4096 + 2 * 1024 + 2 * 4096)
    assert cost.products[0].flops_per_row == 2 * (4096 + 2 * 1024) * 2 * 4096
    assert cost.products[-1].weight_bytes == 2 * 32000 * 4096
    assert (cost.n_layers, cost.kv_bytes_per_token) == (1.0, 2 * 8 * 128 * 2)


def test_an_eagle3_head_occupies_what_its_checkpoint_does():
    # Its passes, and the product that mixes three hidden vectors once a round; the published file is 850 MB.
    passes = drafter_cost("eagle3", LLAMA, None, "bf16").dense_weight_bytes
    assert drafter_weight_bytes("eagle3", LLAMA, None, "bf16") == passes + 2 * 3 * 4096 * 4096
    assert drafter_weight_bytes("eagle3", LLAMA, None, "bf16") == pytest.approx(850e6, rel=2e-3)


def test_an_eagle3_head_of_a_latent_target_has_plain_keys_and_values():
    cost = drafter_cost("eagle3", KIMI, None, "bf16")
    heads = 64 * 128
    attention = 3 * heads * 2 * 7168 + 7168 * heads
    assert cost.dense_weight_bytes == 2 * (attention + 3 * 7168 * 18432 + 32000 * 7168)
    assert cost.kv_bytes_per_token == 2 * 64 * 128 * 2
    assert (cost.n_experts, cost.n_mixture_layers, cost.expert_weight_bytes) == (1.0, 0.0, 0.0)


def test_an_eagle3_head_of_a_mixture_is_dense():
    cost = drafter_cost("eagle3", QWEN, None, "bf16")
    attention = (32 + 2 * 4) * 128 * 2 * 2048 + 2048 * 32 * 128
    dense = 3 * 2048 * (8 * 768)  # as wide as the experts that one token uses
    assert cost.dense_weight_bytes == 2 * (attention + dense + 32000 * 2048)
    assert cost.expert_weight_bytes == 0.0


def test_an_eagle3_head_of_a_hybrid_has_attention_and_no_state():
    cost = drafter_cost("eagle3", HYBRID, None, "bf16")
    attention = (16 + 2 * 2) * 256 * 2 * 2048 + 2048 * 16 * 256
    assert cost.products[0].weight_bytes == 2 * (16 + 2 * 2) * 256 * 2 * 2048
    assert cost.dense_weight_bytes > 2 * (attention + 32000 * 2048)
    assert len(cost.products) == len(drafter_cost("eagle3", QWEN, None, "bf16").products)
    assert cost.kv_bytes_per_token == 2 * 2 * 256 * 2


def test_an_eagle3_head_of_a_small_vocabulary_has_that():
    small = model("Vicuna-7B-v1.3")
    assert small.vocab_size == 32000
    smaller = replace(small, vocab_size=1000)
    assert drafter_cost("eagle3", smaller, None, "bf16").products[-1].weight_bytes == 2 * 1000 * 4096


def test_an_eagle3_pass_is_half_an_eagle_pass_where_the_vocabulary_is_large():
    eagle, eagle3 = (
        float(CalibratedRoofline(cost=drafter_cost(name, LLAMA, None, "bf16"), rates=example_rates())(1, 1, 512))
        for name in ("eagle", "eagle3")
    )
    assert 0.4 < eagle3 / eagle < 0.6


def test_an_eagle_pass_on_an_h100_is_a_tenth_of_the_target_and_mostly_output_head():
    cost = drafter_cost("eagle", LLAMA, None, "bf16")
    step = CalibratedRoofline(cost=cost, rates=example_rates())
    target = CalibratedRoofline(cost=step_cost(LLAMA, "bf16"), rates=example_rates())
    share = float(step(1, 1, 512) / target(1, 1, 512))
    assert 0.08 < share < 0.1
    head = 2 * HEAD_8B / 2.9815e12
    assert 0.55 < head / float(step(1, 1, 512)) < 0.7


def test_an_eagle_head_of_a_mixture_has_one_dense_network_and_an_mtp_layer_keeps_the_experts():
    eagle, mtp = (drafter_cost(name, MIXTRAL, None, "bf16") for name in ("eagle", "mtp"))
    assert (eagle.n_experts, eagle.n_mixture_layers, eagle.expert_weight_bytes) == (1.0, 0.0, 0.0)
    assert (mtp.n_experts, mtp.n_experts_per_token, mtp.n_mixture_layers) == (8.0, 2.0, 1.0)
    assert mtp.expert_weight_bytes == 8 * 3 * 4096 * 14336 * 2
    dense = 3 * 4096 * (2 * 14336) * 2  # as wide as the experts that one token uses
    head_and_attention = 2 * (2 * 4096 * 4096 + 2 * 4096 * 4096 + 2 * 4096 * 1024 + 32000 * 4096)
    assert eagle.dense_weight_bytes == dense + head_and_attention


def test_an_mtp_layer_of_deepseek_keeps_its_latent_cache_and_shared_expert():
    mtp = drafter_cost("mtp", DEEPSEEK, None, "fp8")
    assert mtp.kv_bytes_per_token == 576 * 2
    assert (mtp.n_experts, mtp.n_layers) == (256.0, 1.0)
    assert mtp.expert_weight_bytes == 256 * 3 * 7168 * 2048
    assert sum(each.weight_bytes for each in mtp.products) > mtp.expert_weight_bytes + 3 * 7168 * 2048


def test_an_mtp_layer_of_a_dense_target_is_an_eagle_head():
    assert drafter_cost("mtp", LLAMA, None, "bf16") == drafter_cost("eagle", LLAMA, None, "bf16")


def test_a_medusa_head_is_a_square_and_an_output_head_without_cache():
    cost = drafter_cost("medusa", LLAMA, None, "bf16")
    assert cost.dense_weight_bytes == 2 * (4096 * 4096 + HEAD_8B)
    assert cost.kv_bytes_per_token == cost.n_layers == cost.attention_flops_per_token_and_context == 0.0
    assert drafter_weight_bytes("medusa", LLAMA, None, "bf16", n_heads=5) == 5 * cost.dense_weight_bytes


@pytest.mark.parametrize("name", ["ngram", "lookahead"])
def test_methods_without_weights_have_no_pass(name: MethodName):
    assert drafter_cost(name, LLAMA, None, "bf16") is None
    assert drafter_weight_bytes(name, LLAMA, None, "bf16") == 0.0


@pytest.mark.parametrize("name", ["eagle", "eagle3", "mtp", "medusa", "draft_model"])
def test_devices_that_share_a_drafter_divide_its_weights(name: MethodName):
    draft = model("Llama-3.2-1B")
    whole, share = (drafter_cost(name, LLAMA, draft, "bf16", tensor_parallel=n) for n in (1, 4))
    assert share.dense_weight_bytes == pytest.approx(whole.dense_weight_bytes / 4, rel=1e-15)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_drafter(name: MethodName):
    kinds = {"ngram": HostLookup, "lookahead": Lookahead, "medusa": ParallelHeads}
    assert isinstance(drafter_of(name, Recorder([])), kinds.get(name, SequentialDrafter))
    assert costs_like(name) == name
    assert get_args(MethodName) == METHODS


@pytest.mark.parametrize("name", ["draft_model", "eagle", "eagle3", "mtp", "medusa"])
def test_a_method_with_weights_needs_a_step_time(name: MethodName):
    with pytest.raises(ValueError, match=name):
        drafter_of(name, None)


def test_a_missing_draft_model_is_refused():
    with pytest.raises(BadInput, match="--draft"):
        drafter_cost("draft_model", LLAMA, None, "bf16")


def test_only_the_third_eagle_has_a_head_of_its_own():
    assert [costs_like(name) for name in ("eagle", "eagle2", "eagle3")] == ["eagle", "eagle", "eagle3"]


@pytest.mark.parametrize("name", ["rest", None, ""])
def test_a_method_that_nobody_modelled_is_refused(name: str | None):
    with pytest.raises(BadInput, match="--method"):
        costs_like(name)


@pytest.mark.parametrize("changes", [{"seconds_per_round": -1.0}, {"seconds_per_context_token": np.nan}])
def test_lookup_refuses_impossible_times(changes: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(changes))):
        HostLookup(**changes)


@pytest.mark.parametrize("changes", [{"window": 0}, {"n_candidates": 1.5}])
def test_lookahead_refuses_impossible_sizes(changes: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(changes))):
        Lookahead(**changes)
