"""Gaps between the tokens of a request, tokens drafted in vain, and rows in their order, from what replicas report."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from specbook.serving.draft_policy import FixedDraft, ScheduledDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.live_request import LiveRequest
from specbook.serving.recorder import Recorder
from specbook.serving.round_law import chain_law, no_draft
from specbook.serving.summary import summarise
from tests.serving_cases import engine, one_at_a_time, requests, simulate


def ignored(_: pl.DataFrame) -> None:
    """Take no notice of rows."""


def gaps_s(recorder: Recorder) -> list[float]:
    """Quantiles of four gaps, which are the gaps themselves but for the accuracy of the sketch."""
    recorder.close()
    assert recorder.bursts.count == 4
    return [recorder.bursts.quantile(q) for q in (0.25, 0.5, 0.75, 1.0)]


def test_gap_of_a_request_that_joins_begins_with_its_own_last_token():
    joined = LiveRequest(7, 0.0, 10, 9)
    joined.last_emission_s = 1.0
    one, stretch = Recorder(ignored, ignored), Recorder(ignored, ignored)
    one.round(5.0, 6.0, 4, 4, 4, 4.0, [joined])
    stretch.rounds(np.array([5.0, 6.0, 6.5]), 4, 2, 4.0, [joined])
    assert gaps_s(one) == pytest.approx([2.0, 2.0, 2.0, 5.0], rel=1e-3)
    assert gaps_s(stretch) == pytest.approx([0.5, 0.5, 2.0, 5.0], rel=1e-3)


def test_a_change_of_the_draft_length_makes_no_gap():
    policy = ScheduledDraft(schedule={(1, 0): 1, (1, 15): 0}, law_by_length={0: no_draft(), 1: chain_law([1.0])})
    config = engine(iteration_time=ConstantIterationTime(seconds=0.25), policy=policy)
    itl_s = simulate(config, requests([0.0], 10, 9)).summary.itl_s
    assert (itl_s.count, itl_s.mean) == (6, 0.25)


def test_gap_over_a_preemption_begins_with_the_last_token_before():
    pool = KvConfig(n_blocks=5, block_size_tokens=4)
    config = engine(kv=pool, iteration_time=ConstantIterationTime(seconds=0.25))
    result = simulate(config, requests([0.0, 0.0], [8, 6], [6, 6]))
    assert result.requests["preemptions"].to_list() == [0, 1]
    itl_s, held_s = result.summary.itl_s, (result.requests["end_s"] - result.requests["first_token_s"]).sum()
    assert itl_s.count == 10
    assert (itl_s.mean or 0.0) * 10 == held_s


def test_rejected_slots_are_held_for_the_iterations_of_prompts_too():
    config = engine(iteration_time=ConstantIterationTime(seconds=0.25), policy=FixedDraft(law=chain_law([0.0, 0.0])))
    result = simulate(config, requests([0.0, 0.6], 10, [6, 1]))
    mixed = result.iterations.filter((pl.col("prefill_tokens") > 0) & (pl.col("n_decodes") > 0))
    assert len(mixed) == 1
    assert result.summary.waste.rejected_slot_seconds == 5 * 2 * 0.25


def test_intervals_of_gaps_are_those_of_their_own_percentile():
    frames: list[pl.DataFrame] = []
    recorder = Recorder(frames.append, ignored)
    some_s = np.concatenate([[0.0], np.cumsum(np.tile([0.01] * 19 + [0.03], 60))])
    for _ in range(30):
        recorder.rounds(some_s, some_s.size - 1, 1, -0.01, [])
    recorder.close()
    itl_s = summarise(frames[0].lazy(), recorder, engine()).itl_s
    for low_high, expected_s in ((itl_s.p50_interval, 0.01), (itl_s.p90_interval, 0.01), (itl_s.p99_interval, 0.03)):
        assert low_high == pytest.approx((expected_s, expected_s), rel=3e-3)


def test_rows_of_requests_are_in_the_order_of_arrival_even_if_an_earlier_one_never_ends():
    frames: list[pl.DataFrame] = []
    recorder = Recorder(frames.append, ignored)
    for number in (5, 0, 3, 2):
        recorder.ended(LiveRequest(number, 0.5 * number, 100, 20), 9.0, 0)
    recorder.close()
    assert pl.concat(frames)["request_id"].to_list() == [0, 2, 3, 5]


def test_sums_over_iterations_go_on_from_one_block_of_rows_to_the_next():
    result = simulate(one_at_a_time(2.0**-10), requests([0.0, 0.0], [60_000, 10], [2, 40_000]))
    used, summary = result.iterations["kv_blocks_used"].to_numpy(), result.summary
    assert summary.n_iterations == len(used) > 40_000
    assert used.max() > used[32_768:].max()
    assert (summary.peak_kv_use, summary.utilisation) == (used.max() / 4000, 1.0)
    assert summary.mean_kv_use == pytest.approx(used.mean() / 4000, rel=1e-12)
