"""Iteration times against arithmetic in round numbers that does not use the package's formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from specbook.roofline.drafting import HostLookup, ParallelHeads, SequentialDrafter
from specbook.roofline.hosted import HostedDrafter
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline
from specbook.serving.draft_time import SteppedDraft
from specbook.serving.iteration_time import AffineIterationTime
from specbook.serving.stepped_time import SteppedTime
from tests.tiny_costs import tiny_cost

# 1000 bytes of weights at 500 a second: 2 s a pass. 4 bytes a token of context: 0.008 s each. Arithmetic of 0.1 s a
# position and 0.002 s for each position and token of context. 0.25 s of overhead.
TARGET = DoctrineRoofline(
    cost=tiny_cost(
        dense_weight_bytes=1000.0, kv_bytes_per_token=4.0, flops_per_token=100.0,
        attention_flops_per_token_and_context=2.0,
    ),
    device=DeviceRates(flops_per_s=1000.0, bandwidth_bytes_per_s=500.0, overhead_s=0.25),
)  # fmt: skip
# A tenth of the weights and no cache: 0.2 s a pass and 0.01 s a position.
DRAFT = DoctrineRoofline(
    cost=tiny_cost(dense_weight_bytes=100.0, flops_per_token=10.0),
    device=DeviceRates(flops_per_s=1000.0, bandwidth_bytes_per_s=500.0, overhead_s=0.0),
)
ITERATION = SteppedTime(step=TARGET, max_context_tokens=1000)


@dataclass(frozen=True, kw_only=True)
class SumOfCosts:
    """A pass whose parts add up, with a cost for each sequence that the rooflines by doctrine do not have."""

    base_s: float
    position_s: float
    sequence_s: float
    context_token_s: float
    kind: str = "sum"
    overhead_s: float = 0.0

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        each_s = self.position_s * tokens + self.sequence_s + self.context_token_s * xp.asarray(context)
        return self.base_s + batch * each_s


WITH_LAUNCHES = SumOfCosts(base_s=2.0, position_s=0.1, sequence_s=0.05, context_token_s=0.008)


def test_decodes_of_round_numbers_read_weights_once_and_each_cache():
    # 3 sequences with 30, 50 and 70 tokens: 2 + 0.008 · 150 of memory, 0.1 · 3 + 0.002 · 150 of arithmetic.
    assert ITERATION.decode_seconds(3, 3, np.array([150])) == pytest.approx([2.0 + 1.2 + 0.25], rel=1e-12)
    # 5 positions each read their cache once: 15 positions compute 1.5 + 0.002 · 5 · 150 = 3 s, less than the memory.
    assert ITERATION.decode_seconds(3, 15, np.array([150])) == pytest.approx([3.45], rel=1e-12)
    # 11 positions each: 3.3 + 3.3 of arithmetic.
    assert ITERATION.decode_seconds(3, 33, np.array([150])) == pytest.approx([6.6 + 0.25], rel=1e-12)


def test_mean_context_stands_for_unequal_ones():
    apart = 2.0 + 0.25 + sum(0.008 * context for context in (1, 2, 147))
    assert ITERATION.decode_seconds(3, 3, np.array([150])) == pytest.approx([apart], rel=1e-12)


def test_prefill_of_round_numbers():
    # 10 tokens: the weights take 2 s, the products 1 s. Behind 20 others the chunk sees 25 tokens in the mean: memory
    # 2 + 0.2 s, arithmetic 1 + 0.5 s.
    assert ITERATION.mixed_seconds(0, 0, 0, [(10, 20)]) == pytest.approx(2.2 + 0.25, rel=1e-12)
    # 40 tokens behind none: products 4 s, attention 0.002 · 40 · 20 = 1.6 s.
    assert ITERATION.mixed_seconds(0, 0, 0, [(40, 0)]) == pytest.approx(5.6 + 0.25, rel=1e-12)


def test_mixed_iteration_of_round_numbers():
    # 3 decodes and a chunk of 40: the products of 43 positions take 4.3 s and hide the weights. The decodes read
    # 0.008 · 150 s of cache; the attention of the chunk takes 1.6 s.
    seconds = ITERATION.mixed_seconds(3, 3, 150, [(40, 0)])
    assert seconds == pytest.approx(4.3 + 1.2 + 1.6 + 0.25, rel=1e-12)
    # A chunk of 7 beside them fits under the weights; its reads of 3.5 tokens in the mean are memory's, 0.028 s.
    assert ITERATION.mixed_seconds(3, 3, 150, [(7, 0)]) == pytest.approx(2.0 + 1.2 + 0.028 + 0.25, rel=1e-12)


def test_mixed_iteration_with_launches_of_round_numbers():
    iteration = SteppedTime(step=WITH_LAUNCHES, max_context_tokens=1000)
    # 3 decodes of 5 positions: 2 + 0.1 · 15 + 0.05 · 3 + 0.008 · 150 s. A chunk of 40 adds 40 positions and 20 tokens
    # of context in the mean, one of 10 behind 60 adds 10 and 65; neither adds a launch, nor takes one away.
    decodes_s = 2.0 + 1.5 + 0.15 + 1.2
    assert iteration.mixed_seconds(3, 15, 150, []) == pytest.approx(decodes_s, rel=1e-12)
    assert iteration.mixed_seconds(3, 15, 150, [(40, 0)]) == pytest.approx(decodes_s + 4.0 + 0.16, rel=1e-12)
    both = iteration.mixed_seconds(3, 15, 150, [(40, 0), (10, 60)])
    assert both == pytest.approx(decodes_s + 5.0 + 0.16 + 0.52, rel=1e-12)
    # Alone, the two share the weights and one launch.
    alone = iteration.mixed_seconds(0, 0, 0, [(40, 0), (10, 60)])
    assert alone == pytest.approx(2.0 + 5.0 + 0.05 + 0.16 + 0.52, rel=1e-12)


def test_mixed_iteration_with_a_step_of_its_own_for_prompts():
    prompts = SumOfCosts(base_s=7.0, position_s=0.2, sequence_s=0.3, context_token_s=0.001)
    iteration = SteppedTime(step=WITH_LAUNCHES, prefill=prompts, max_context_tokens=1000)
    decodes_s = 2.0 + 1.5 + 0.15 + 1.2
    assert iteration.mixed_seconds(3, 15, 150, [(40, 100)]) == pytest.approx(decodes_s + 8.0 + 0.12, rel=1e-12)
    assert iteration.mixed_seconds(0, 0, 0, [(40, 100)]) == pytest.approx(7.0 + 8.0 + 0.3 + 0.12, rel=1e-12)


def test_two_chunks_add_their_attention():
    one, other = [(40, 0)], [(30, 60)]
    both = ITERATION.mixed_seconds(0, 0, 0, one + other)
    # Products 7 s; attention 0.002 · 40 · 20 and 0.002 · 30 · 75.
    assert both == pytest.approx(7.0 + 1.6 + 4.5 + 0.25, rel=1e-12)


def test_a_prompt_in_chunks_pays_for_the_weights_again_and_for_attention_once():
    whole = ITERATION.mixed_seconds(0, 0, 0, [(400, 0)])
    parts = sum(ITERATION.mixed_seconds(0, 0, 0, [(100, done)]) for done in (0, 100, 200, 300))
    # All of it is arithmetic: the same pairs of tokens, and three more overheads.
    assert parts - whole == pytest.approx(3 * 0.25, rel=1e-9)


def test_affine_of_round_numbers():
    affine = AffineIterationTime(c0_ms=1.0, c1_ms=2.0, c2_ms=0.5, c3_ms=0.25)
    # 3 + 4 tokens, 100 of context, 4 (2 · 6 + 4) = 64 pairs twice: 1 + 14 + 50 + 8 ms.
    assert affine.mixed_seconds(3, 3, 100, [(4, 6)]) == pytest.approx(0.073, rel=1e-15)
    assert affine.decode_seconds(3, 3, np.array([100])) == pytest.approx([0.057], rel=1e-15)


def test_drafting_of_round_numbers():
    draft = SteppedDraft(drafter=SequentialDrafter(step=DRAFT), prefill_step=DRAFT, max_context_tokens=1000)
    # 4 passes of 0.2 s; 30 sequences need 0.3 s a pass.
    assert draft.seconds(4, 4, 3, np.array([150])) == pytest.approx([0.8], rel=1e-12)
    assert draft.seconds(4, 4, 30, np.array([150])) == pytest.approx([1.2], rel=1e-12)
    # In one round 30, 25 and 3 of 30 sequences draft on: 0.3, 0.25 and 0.2 s. In the other, 3 draft one token.
    reached = np.array([[30, 3], [25, 0], [3, 0]])
    assert draft.cut_seconds(reached, np.array([150, 150]), 30) == pytest.approx([0.75, 0.2], rel=1e-12)
    assert draft.prefill_seconds([(50, 0), (50, 0)]) == pytest.approx(1.0, rel=1e-12)


def test_drafting_with_cuts_reads_the_mean_context_of_all():
    draft = SteppedDraft(drafter=SequentialDrafter(step=WITH_LAUNCHES), prefill_step=None, max_context_tokens=1000)
    # 10 sequences of 20 tokens each in the mean, 4 of which draft a second token: 0.15 + 0.16 s for each, and 2 a pass.
    seconds = draft.cut_seconds(np.array([[10], [4]]), np.array([200]), 10)
    assert seconds == pytest.approx([2 * 2.0 + 14 * 0.31], rel=1e-12)


def test_drafting_at_once_with_cuts_of_round_numbers():
    reached, contexts = np.array([[10, 2, 0], [4, 0, 0]]), np.array([200, 300, 300])
    lookup = SteppedDraft(
        drafter=HostLookup(seconds_per_round=0.5, seconds_per_context_token=0.001),
        prefill_step=None,
        max_context_tokens=1000,
    )
    # One search of all contexts, however long the drafts are.
    assert lookup.cut_seconds(reached, contexts, 10) == pytest.approx([0.7, 0.8, 0.0], rel=1e-12)
    heads = SteppedDraft(drafter=ParallelHeads(step=DRAFT), prefill_step=None, max_context_tokens=1000)
    # A head over 10 rows takes the 0.2 s of its weights.
    assert heads.cut_seconds(reached, contexts, 10) == pytest.approx([0.4, 0.2, 0.0], rel=1e-12)


def test_drafting_inside_an_engine_of_round_numbers():
    hosted = HostedDrafter(drafter=SequentialDrafter(step=DRAFT), pass_s=0.01, round_s=0.1)
    draft = SteppedDraft(drafter=hosted, prefill_step=DRAFT, max_context_tokens=1000)
    # 4 passes of 0.2 + 0.01 s and a round of 0.1 s; with cuts 0.3, 0.25 and 0.2 s of passes, or 0.2 s of one.
    assert draft.seconds(4, 4, 3, np.array([150])) == pytest.approx([0.94], rel=1e-12)
    reached = np.array([[30, 3, 0], [25, 0, 0], [3, 0, 0]])
    seconds = draft.cut_seconds(reached, np.array([150, 150, 150]), 30)
    assert seconds == pytest.approx([0.75 + 0.03 + 0.1, 0.2 + 0.01 + 0.1, 0.0], rel=1e-12)
