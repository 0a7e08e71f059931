"""One replica by itself: its clock, its blocks, and schedulers that would never end."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.roofline.drafting import SequentialDrafter
from specbook.serving.chances import Chances
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.draft_time import SteppedDraft
from specbook.serving.engine import Engine, Prefill, Scheduler
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.live_request import LiveRequest
from specbook.serving.per_token_prefill import PerTokenPrefill
from specbook.serving.recorder import Recorder
from specbook.serving.replica import Replica
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft
from specbook.serving.schedulers.vidur import VidurSarathi, VidurVllm
from specbook.serving.schedulers.vllm_v1 import VllmV1
from specbook.serving.serving_config import ServingConfig
from tests.serving_cases import drafting, mixed_requests, one_at_a_time


class PreemptsForEver:
    """Admits whoever waits, and takes the blocks away again at once."""

    restarts_prompt = True

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        engine.preempt(engine.admit(1))
        return [], True


class AdmitsNobody:
    restarts_prompt = True

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        del engine
        return [], True


def replica_of(config: ServingConfig, scheduler: Scheduler) -> Replica:
    recorder = Recorder(lambda _: None, lambda _: None)
    return Replica(0, config, scheduler, Chances(np.random.default_rng(0)), recorder)


def finish(replica: Replica) -> int:
    """Work until nothing is left; how many requests ended."""
    ended = 0
    while not replica.is_idle:
        ended += replica.advance(math.inf)
    return ended


@pytest.mark.parametrize("law", [no_draft(), chain_law([0.7, 0.7, 0.7]), counted_law({0: [3], 2: [1, 2, 3]})])
@pytest.mark.parametrize("scheduler", [VllmV1, VidurSarathi, VidurVllm])
def test_all_blocks_are_free_at_the_end(scheduler: type[Scheduler], law: RoundLaw):
    kv = KvConfig(n_blocks=40, watermark_blocks=1)
    replica, load = replica_of(drafting(law, kv=kv), scheduler()), mixed_requests(40)
    for number, (prompt, output) in enumerate(zip(load.prompt_tokens, load.output_tokens, strict=True)):
        replica.push(LiveRequest(number, 0.0, int(prompt), int(output)))
    assert finish(replica) == 40
    assert replica.free_blocks == 40
    assert (replica.n_decodes, replica.n_prefilling, replica.context_tokens, replica.running) == (0, 0, 0, [])
    assert replica.next_start_s == math.inf


def test_replica_wakes_when_a_request_arrives_and_works_no_longer_than_asked():
    replica = replica_of(one_at_a_time(1.0), VllmV1())
    assert replica.next_start_s == math.inf
    replica.push(LiveRequest(0, 5.0, 10, 4))
    assert replica.next_start_s == 5.0
    assert replica.advance(6.5) == 0
    assert replica.now_s == 7.0  # an iteration that has started is not broken off
    assert replica.advance(math.inf) == 1
    assert (replica.now_s, replica.is_idle) == (9.0, False)
    assert replica.advance(math.inf) == 0
    assert replica.is_idle


def test_outstanding_counts_a_request_until_its_last_iteration_is_over():
    replica = replica_of(one_at_a_time(1.0), VllmV1())
    for number in range(2):
        replica.push(LiveRequest(number, 0.0, 10, 2))
    assert replica.outstanding_at(0.0) == 2
    replica.advance(1.5)
    assert replica.now_s == 2.0
    assert replica.outstanding_at(1.5) == replica.outstanding_at(2.0) == 2
    assert replica.outstanding_at(2.5) == 1


def test_requests_that_preempt_each_other_for_ever_are_found():
    replica = replica_of(one_at_a_time(1.0), PreemptsForEver())
    replica.push(LiveRequest(7, 0.0, 10, 2))
    with pytest.raises(BadInput, match=r"^request = 7: requests preempt each other and none moves on at 0\.000 s"):
        replica.advance(math.inf)


def test_a_request_that_nobody_admits_is_found():
    replica = replica_of(one_at_a_time(1.0), AdmitsNobody())
    replica.push(LiveRequest(3, 0.5, 10, 2))
    with pytest.raises(BadInput, match=r"^request = 3: cannot be admitted into an empty engine at 0\.500 s"):
        replica.advance(math.inf)


def test_draft_model_adds_its_own_pass_over_a_prompt():
    step = PerTokenPrefill(seconds_per_token=2.0**-6)
    draft = SteppedDraft(drafter=SequentialDrafter(step=step), prefill_step=step, max_context_tokens=99)
    replica = replica_of(one_at_a_time(1.0, draft_time=draft, chunk_tokens=16), VllmV1())
    replica.push(LiveRequest(0, 0.0, 32, 2))
    assert finish(replica) == 1
    assert replica.now_s == 3.0 + 32 * 2.0**-6


def test_iterations_longer_than_the_calendar_is_wide():
    config = drafting(no_draft(), kv=KvConfig(n_blocks=2000), iteration_time=ConstantIterationTime(seconds=2.0**-10))
    replica = replica_of(config, VllmV1())
    replica.push(LiveRequest(0, 0.0, 1, 9000))
    replica.push(LiveRequest(1, 0.0, 1, 20000))
    assert finish(replica) == 2
    assert replica.now_s == 20000 * 2.0**-10
    assert isinstance(config.policy, FixedDraft)
