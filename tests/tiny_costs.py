"""Costs of a pass in round numbers, for tests that work them out by hand."""

from __future__ import annotations

from typing import Any

from specbook.roofline.drafting import SequentialDrafter
from specbook.roofline.pass_cost import ProductCost, StepCost
from specbook.roofline.speedup import DraftingPair, RoundTimes, round_times
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline


def tiny_cost(
    *,
    dense_weight_bytes: float,
    flops_per_token: float,
    kv_bytes_per_token: float = 0.0,
    attention_flops_per_token_and_context: float = 0.0,
    expert_weight_bytes: float = 0.0,
    n_experts: float = 1.0,
    n_experts_per_token: float = 1.0,
) -> StepCost:
    """One product for what every token reads, and one of experts if there are any; all arithmetic in the first."""
    dense = ProductCost(
        count=1.0, weight_bytes=dense_weight_bytes, flops_per_row=flops_per_token, activation_bytes_per_row=0.0
    )
    experts = ProductCost(
        count=1.0,
        weight_bytes=expert_weight_bytes,
        flops_per_row=0.0,
        activation_bytes_per_row=0.0,
        n_experts=n_experts,
        n_experts_per_token=n_experts_per_token,
    )
    return StepCost(
        products=(experts, dense) if expert_weight_bytes else (dense,),
        n_layers=1.0,
        n_mixture_layers=1.0 if expert_weight_bytes else 0.0,
        kv_bytes_per_token=kv_bytes_per_token,
        attention_flops_per_token_and_context=attention_flops_per_token_and_context,
        hidden_bytes=2.0,
    )


def doctrine_pair(
    target: StepCost, draft: StepCost, target_device: DeviceRates, draft_device: DeviceRates
) -> DraftingPair:
    """A draft model before a target, each by the doctrine's roofline."""
    return DraftingPair(
        target=DoctrineRoofline(cost=target, device=target_device),
        drafter=SequentialDrafter(step=DoctrineRoofline(cost=draft, device=draft_device)),
        target_weight_bytes=1e9,
        draft_weight_bytes=1e8,
        target_kv_bytes_per_token=target.kv_bytes_per_token,
        draft_kv_bytes_per_token=draft.kv_bytes_per_token,
    )


def chain_times(draft_length: Any, batch: Any, context: Any, tokens: Any, pair: DraftingPair) -> RoundTimes:
    """The round of a chain, which drafts one token a pass."""
    return round_times(draft_length, draft_length, batch, context, tokens, pair)
