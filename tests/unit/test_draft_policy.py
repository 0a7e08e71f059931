"""Which draft length a policy chooses, and how long it stays with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specbook.serving.chances import Chances
from specbook.serving.draft_policy import FixedDraft, ScheduledDraft, batch_schedule
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.live_request import LiveRequest
from specbook.serving.recorder import Recorder
from specbook.serving.replica import Replica
from specbook.serving.round_law import chain_law, no_draft
from specbook.serving.schedulers.vllm_v1 import VllmV1
from tests.serving_cases import engine, requests, simulate

LAWS = {length: chain_law([0.5] * length) for length in (1, 2, 4)} | {0: no_draft()}


def scheduled(schedule: dict[tuple[int, int], int]) -> ScheduledDraft:
    return ScheduledDraft(schedule=schedule, law_by_length=LAWS)


def test_fixed_draft_never_changes():
    policy = FixedDraft(law=LAWS[4])
    assert policy.choose(1, 0.0) is policy.choose(500, 1e6) is LAWS[4]
    assert (policy.holds_below(3, 7.0), policy.laws) == (math.inf, (LAWS[4],))
    assert FixedDraft().choose(1, 0.0).draft_length == 0


@pytest.mark.parametrize(("batch", "length"), [(0, 4), (1, 4), (3, 4), (4, 2), (15, 2), (16, 0), (999, 0)])
def test_schedule_by_batch_takes_the_largest_row_that_is_reached(batch: int, length: int):
    policy = scheduled(batch_schedule({1: 4, 4: 2, 16: 0}))
    assert policy.choose(batch, 12345.0).draft_length == length
    assert policy.holds_below(batch, 0.0) == math.inf


@pytest.mark.parametrize(
    ("batch", "context", "length", "until"),
    [
        (1, 0.0, 4, 1000.0), (1, 999.9, 4, 1000.0), (1, 1000.0, 1, math.inf), (7, 5000.0, 1, math.inf),
        (8, 0.0, 4, 500.0), (8, 500.0, 2, 8000.0), (8, 9000.0, 0, math.inf),
    ],
)  # fmt: skip
def test_schedule_by_batch_and_context(batch: int, context: float, length: int, until: float):
    policy = scheduled({(1, 0): 4, (1, 1000): 1, (8, 500): 2, (8, 8000): 0})
    assert policy.choose(batch, context).draft_length == length
    assert policy.holds_below(batch, context) == until


def test_schedule_that_is_silent_of_context_0_takes_it_from_the_next_smaller_batch():
    policy = scheduled({(1, 0): 4, (4, 0): 2, (8, 500): 0})
    assert [policy.choose(8, context).draft_length for context in (0.0, 499.0, 500.0)] == [2, 2, 0]
    assert policy.holds_below(8, 0.0) == 500.0


def test_laws_are_those_of_the_table_alone():
    assert [law.draft_length for law in scheduled({(1, 0): 4, (8, 0): 0, (9, 0): 4}).laws] == [0, 4]


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ({}, r"must say what holds from batch 1 and context 0 on"),
        ({(2, 0): 4}, r"as \(1, 0\)"),
        ({(1, 0): 4, (0, 0): 2}, "batches of schedule must"),
        ({(1, 0): 4, (1, -1): 2}, "contexts of schedule must"),
        ({(1, 0): 3, (8, 0): 7}, r"it lacks \[3, 7\]"),
    ],
)
def test_schedules_that_leave_something_open_are_refused(schedule: dict[tuple[int, int], int], error: str):
    with pytest.raises(ValueError, match=error):
        scheduled(schedule)


def test_a_law_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"its own draft length; got \{4: 2\}"):
        ScheduledDraft(schedule={(1, 0): 4}, law_by_length={4: chain_law([0.8] * 2)})


def test_changes_of_the_draft_length_leave_no_path_behind():
    config = engine(
        policy=ScheduledDraft(schedule={(1, 0): 4, (3, 0): 0}, law_by_length={0: no_draft(), 4: chain_law([0.8] * 4)}),
        max_batch=4,
    )
    recorder = Recorder(lambda _: None, lambda _: None)
    replica = Replica(0, config, VllmV1(), Chances(np.random.default_rng(0)), recorder)
    for number in range(60):
        replica.push(LiveRequest(number, 0.0, 10, 20 + 7 * number))
    while not replica.is_idle:
        replica.advance(replica.now_s + 1e-9)
        assert len(replica._ends) <= config.max_batch


def test_draft_length_follows_the_batch_in_a_run():
    config = engine(
        iteration_time=ConstantIterationTime(seconds=1.0),
        policy=ScheduledDraft(
            schedule=batch_schedule({1: 2, 2: 0}), law_by_length={0: no_draft(), 2: chain_law([0, 0])}
        ),
    )
    rows = simulate(config, requests([0.0, 0.0], 10, [6, 3])).iterations
    assert rows["n_decodes"].to_list() == [0, 2, 2, 1, 1, 1]
    assert rows["draft_length"].to_list() == [0, 0, 0, 2, 2, 2]
    assert rows["decode_positions"].to_list() == [0, 2, 2, 3, 3, 3]


def test_draft_length_follows_the_context_in_a_run():
    laws = {0: no_draft(), 1: chain_law([1.0])}
    policy = ScheduledDraft(schedule={(1, 0): 1, (1, 15): 0}, law_by_length=laws)
    config = engine(iteration_time=ConstantIterationTime(seconds=1.0), policy=policy)
    rows = simulate(config, requests([0.0], 10, 9)).iterations
    assert rows["decode_context_tokens"].to_list() == [0, 11, 13, 15, 16, 17, 18]
    assert rows["draft_length"].to_list() == [0, 1, 1, 0, 0, 0, 0]
