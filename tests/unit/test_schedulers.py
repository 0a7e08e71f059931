"""What each scheduler puts in an iteration, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.result import ServingResult
from specbook.serving.round_law import chain_law
from specbook.serving.serving_config import ServingConfig
from tests.serving_cases import requests, simulate


def run(
    prompts: list[int], outputs: list[int], *, blocks: int = 100, watermark: int = 0, **changes: Any
) -> ServingResult:
    """Requests that all come at 0, iterations of a second, blocks of four tokens."""
    kv = KvConfig(n_blocks=blocks, block_size_tokens=4, watermark_blocks=watermark)
    config = ServingConfig(kv=kv, iteration_time=ConstantIterationTime(seconds=1.0), **changes)
    return simulate(config, requests([0.0] * len(prompts), prompts, outputs))


def rows(result: ServingResult, *names: str) -> list[list[Any]]:
    return [result.iterations[name].to_list() for name in names]


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vidur-sarathi"])
def test_prompts_get_what_decodes_leave_of_the_budget(scheduler: Any):
    result = run([10, 10], [2, 2], chunk_tokens=12, scheduler=scheduler)
    assert rows(result, "prefill_tokens", "n_decodes") == [[12, 8, 0], [0, 1, 1]]
    assert result.requests["first_token_s"].to_list() == [1.0, 2.0]


def test_vllm_v1_gives_a_prompt_its_blocks_chunk_by_chunk():
    assert rows(run([10, 10], [2, 2], chunk_tokens=12), "kv_blocks_used") == [[3 + 1, 3 + 3, 3]]


def test_sarathi_gives_a_prompt_all_its_blocks_at_once():
    result = run([10, 10], [2, 2], chunk_tokens=12, scheduler="vidur-sarathi")
    assert rows(result, "kv_blocks_used") == [[3 + 3, 3 + 3, 3]]


def test_sarathi_puts_a_prompt_that_gets_no_tokens_before_the_decodes():
    policy = FixedDraft(law=chain_law([0.0]))
    result = run([1, 1, 8], [9, 9, 1], blocks=6, chunk_tokens=3, scheduler="vidur-sarathi", policy=policy)
    assert rows(result, "prefill_tokens")[0][:5] == [3, 0, 0, 0, 1]
    assert result.requests["preemptions"].to_list() == [0, 1, 0]  # the last decode gives way, the prompt does not


def test_vllm_batches_whole_prompts_padded_to_the_longest_before_any_decode():
    result = run([10, 4, 10], [2, 2, 2], chunk_tokens=20, scheduler="vidur-vllm")
    assert rows(result, "prefill_tokens", "batch_size", "n_decodes") == [[14, 10, 0], [2, 1, 3], [0, 0, 3]]


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vidur-sarathi", "vidur-vllm"])
@pytest.mark.parametrize(("watermark", "together"), [(1, True), (2, False)])
def test_watermark_stays_free_when_a_request_is_admitted(scheduler: Any, watermark: int, together: bool):
    result = run([8, 12], [1, 1], blocks=6, watermark=watermark, scheduler=scheduler, chunk_tokens=64)
    assert rows(result, "batch_size") == [[2] if together else [1, 1]]


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vidur-sarathi", "vidur-vllm"])
def test_nobody_overtakes_a_request_that_does_not_fit(scheduler: Any):
    result = run([8, 16, 1], [3, 1, 1], blocks=5, scheduler=scheduler, chunk_tokens=64)
    assert result.requests["scheduled_s"].to_list() == [0.0, 3.0, 3.0]


def test_vllm_v1_preempts_the_last_and_admits_nobody_in_the_same_iteration():
    result = run([8, 8, 4], [6, 6, 1], blocks=5, max_batch=2)
    assert rows(result, "n_decodes", "waiting")[0][:6] == [0, 1, 1, 1, 1, 1]
    assert rows(result, "waiting")[0][:2] == [1, 2]
    assert result.requests["preemptions"].to_list() == [0, 1, 0]
    assert rows(result, "prefill_tokens")[0][:7] == [16, 0, 0, 0, 0, 0, 13]
    assert result.requests["first_token_s"].to_list() == [1.0, 1.0, 7.0]


def test_vllm_v1_lets_decodes_sit_out_whose_drafts_do_not_fit():
    policy = FixedDraft(law=chain_law([0.0, 0.0]))
    result = run([1, 1, 1], [4, 4, 4], chunk_tokens=6, policy=policy)
    assert rows(result, "n_decodes", "decode_positions") == [[0, 2, 2, 2, 1, 1, 1], [0, 6, 6, 6, 3, 3, 3]]
    assert result.requests["end_s"].to_list() == [4.0, 4.0, 7.0]


def test_vllm_v1_reserves_slots_for_drafts_and_the_bonus_token():
    plain = run([8], [3])
    drafted = run([8], [3], policy=FixedDraft(law=chain_law([0.0] * 4)))
    assert rows(plain, "kv_blocks_used") == [[2, 3, 3]]
    assert rows(drafted, "kv_blocks_used") == [[2, 4, 4]]  # 9 tokens and 4 drafts, of which the last token is new


@pytest.mark.parametrize("scheduler", ["vidur-sarathi", "vidur-vllm"])
def test_vidur_needs_a_free_block_even_where_none_is_taken(scheduler: Any):
    result = run([8], [8], blocks=4, scheduler=scheduler, chunk_tokens=64)
    assert result.requests["preemptions"].to_list() == [2]  # for each token after the one that took the last block
    assert run([8], [8], blocks=4).requests["preemptions"].to_list() == [0]


@pytest.mark.parametrize("scheduler", ["vllm-v1", "vidur-sarathi", "vidur-vllm"])
def test_a_request_that_needs_more_blocks_than_there_are_is_refused(scheduler: Any):
    with pytest.raises(
        BadInput, match=r"^request 1: tokens = 24: are more than 6 KV blocks of 4 tokens hold with 1 kept free; "
    ):
        run([8, 16], [4, 8], blocks=6, watermark=1, scheduler=scheduler)


def test_a_request_that_only_its_drafts_take_out_of_the_cache_is_refused():
    assert run([8], [4], blocks=3).summary.n_requests == 1
    with pytest.raises(BadInput, match=r"^request 0: tokens = 16: are more than 3 KV blocks of 4 tokens"):
        run([8], [4], blocks=3, policy=FixedDraft(law=chain_law([0.5] * 4)))


def test_vllm_refuses_a_prompt_that_no_batch_takes():
    with pytest.raises(
        BadInput, match=r"^request 0: prompt tokens = 30: are more than a batch takes, 20; raise chunk_tokens"
    ):
        run([30], [4], chunk_tokens=20, scheduler="vidur-vllm")


def test_a_round_must_fit_in_an_iteration():
    with pytest.raises(BadInput, match=r"^chunk_tokens = 4: are fewer than one round verifies; at least 5"):
        run([8], [4], chunk_tokens=4, policy=FixedDraft(law=chain_law([0.5] * 4)))
    assert run([8], [4], chunk_tokens=5, policy=FixedDraft(law=chain_law([0.5] * 4))).summary.n_requests == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"scheduler": "orca"}, r"^scheduler = 'orca': no such choice; one of vidur-sarathi, vidur-vllm, vllm-v1"),
        ({"routing": "random"}, r"^routing = 'random': no such choice; one of round_robin, least_outstanding"),
        ({"max_batch": 0}, "max_batch must"),
        ({"n_replicas": 0}, "n_replicas must"),
        ({"max_waiting": 0}, "max_waiting must"),
        ({"max_batch": [1, 2]}, "max_batch must be one number"),
    ],
)
def test_engines_that_cannot_be_are_refused(changes: dict[str, Any], error: str):
    with pytest.raises(ValueError, match=error):
        run([8], [4], **changes)


@pytest.mark.parametrize(("blocks", "watermark"), [(4, 4), (0, 0), (4, -1)])
def test_pools_that_cannot_be_are_refused(blocks: int, watermark: int):
    with pytest.raises(ValueError, match=r"(watermark|n)_blocks must"):
        run([1], [1], blocks=blocks, watermark=watermark)
