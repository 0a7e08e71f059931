"""The serving simulator on any small engine and load: what holds whatever happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbook.serving.arrivals import ClosedLoop
from specbook.serving.draft_policy import DraftPolicy, FixedDraft, ScheduledDraft
from specbook.serving.draft_time import ConstantDraft, NoDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law
from specbook.serving.serving_config import ROUTINGS, ServingConfig
from specbook.serving.workload import Workload
from tests.serving_cases import (
    AFFINE,
    SCHEDULERS,
    PlainEngine,
    assert_same_frames,
    column,
    requests,
    simulate,
)

LAWS: dict[int, RoundLaw] = {
    0: no_draft(),
    1: chain_law([0.6]),
    2: tree_law([0.2, 0.3, 0.5], 5),
    3: counted_law({0: [3], 1: [2, 4], 3: [1, 2, 3, 4]}),
    4: chain_law([0.9, 0.8, 0.7, 0.5]),
}


def of_all(share: float) -> settings:
    """A share of the examples that the profile asks for, a hundred or a soak's thousands."""
    return settings(max_examples=int(share * settings.default.max_examples))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Bursts, gaps and single requests; short prompts and outputs, so that small pools count."""
    n = draw(st.integers(1, 24))
    gaps_s = draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.001, 0.013, 0.1, 0.7]), min_size=n, max_size=n))
    prompts = draw(st.lists(st.integers(1, 60), min_size=n, max_size=n))
    outputs = draw(st.lists(st.integers(1, 40), min_size=n, max_size=n))
    return requests(np.cumsum(gaps_s), prompts, outputs)


@st.composite
def policies(draw: st.DrawFn) -> DraftPolicy:
    """One law, a schedule by batch, or one by batch and context."""
    lengths = st.sampled_from(sorted(LAWS))
    if draw(st.booleans()):
        return FixedDraft(law=LAWS[draw(lengths)])
    cells = draw(st.dictionaries(st.tuples(st.integers(1, 6), st.sampled_from([0, 20, 45])), lengths, max_size=6))
    return ScheduledDraft(schedule={(1, 0): draw(lengths)} | cells, law_by_length=LAWS)


@st.composite
def engines(draw: st.DrawFn, workload: Workload, **changes: Any) -> ServingConfig:
    """Engines that can just serve a workload, or with room: pools that preempt, budgets that make decodes sit out."""
    size, watermark = draw(st.sampled_from([4, 16])), draw(st.integers(0, 2))
    longest = int((workload.prompt_tokens + workload.output_tokens).max()) + 5
    blocks = -(-longest // size) + watermark + draw(st.sampled_from([0, 1, 2, 5, 12, 100]))
    values: dict[str, Any] = {
        "scheduler": draw(st.sampled_from(SCHEDULERS)),
        "max_batch": draw(st.integers(1, 8)),
        "kv": KvConfig(n_blocks=blocks, block_size_tokens=size, watermark_blocks=watermark),
        "iteration_time": draw(st.sampled_from([AFFINE, ConstantIterationTime(seconds=0.01)])),
        "draft_time": draw(st.sampled_from([NoDraft(), ConstantDraft(seconds_per_pass=0.002)])),
        "policy": draw(policies()),
    } | changes
    fewest = longest if values["scheduler"] == "vidur-vllm" else 6
    return ServingConfig(chunk_tokens=fewest + draw(st.sampled_from([0, 1, 7, 30, 500])), **values)


@st.composite
def cases(draw: st.DrawFn, **changes: Any) -> tuple[ServingConfig, Workload]:
    """An engine and what it has to serve."""
    workload = draw(workloads())
    return draw(engines(workload, **changes)), workload


@of_all(1.5)
@given(case=cases(), replicas=st.integers(1, 3), routing=st.sampled_from(ROUTINGS), clients=st.integers(0, 6))
def test_stretches_are_the_same_in_every_bit_as_one_iteration_after_the_other(
    case: tuple[ServingConfig, Workload], replicas: int, routing: Any, clients: int
):
    config = replace(case[0], n_replicas=replicas, routing=routing)
    loop = ClosedLoop(n_clients=clients, think_s=0.02 * (clients % 2)) if clients else None
    together = simulate(config, case[1], loop=loop)
    alone = simulate(replace(config, one_by_one=True), case[1], loop=loop)
    assert_same_frames(together.requests, alone.requests)
    assert_same_frames(together.iterations, alone.iterations)
    for name in ("ttft_s", "tpot_s", "e2e_s", "wait_s", "wall_s", "utilisation", "mean_kv_use", "stable"):
        assert getattr(together.summary, name) == getattr(alone.summary, name)


@of_all(1.5)
@given(case=cases(scheduler="vllm-v1"))
def test_engine_does_what_a_plain_one_does_request_by_request(case: tuple[ServingConfig, Workload]):
    result = simulate(*case, seed=5)
    plain = PlainEngine(*case, seed=5)
    plain.run()
    assert result.requests.rows() == sorted(plain.ended)
    assert result.iterations.rows() == plain.iterations
    itl_s, waste = result.summary.itl_s, result.summary.waste
    assert itl_s.count == len(plain.gaps_s)
    for q, reached_s in ((0.5, itl_s.p50), (0.9, itl_s.p90), (0.99, itl_s.p99)):
        if plain.gaps_s:
            assert reached_s == pytest.approx(np.quantile(plain.gaps_s, q, method="inverted_cdf"), rel=6e-4)
    assert (itl_s.mean or 0.0) * itl_s.count == pytest.approx(sum(plain.gaps_s), rel=1e-12)
    assert result.summary.itl_per_token_s.count == (case[1].output_tokens - 1).sum()
    assert waste.rejected_slot_seconds == pytest.approx(plain.rejected_slot_seconds, rel=1e-12)


@of_all(0.6)
@given(case=cases(scheduler="vllm-v1"))
def test_tokens_are_neither_lost_nor_made(case: tuple[ServingConfig, Workload]):
    config, workload = case
    result = simulate(config, workload)
    each, waste = result.requests, result.summary.waste
    assert result.iterations["emitted_tokens"].sum() == workload.output_tokens.sum()
    positions, decodes = column(result.iterations, "decode_positions"), column(result.iterations, "n_decodes")
    assert each["drafted_tokens"].sum() == waste.drafted_tokens == (positions - decodes).sum()
    assert waste.drafted_tokens == waste.accepted_tokens + waste.rejected_tokens
    assert each["rounds"].sum() == decodes.sum()
    in_rounds = column(each, "rounds") + column(each, "accepted_tokens") + 1
    assert np.all(in_rounds <= workload.output_tokens)
    assert np.all(workload.output_tokens <= in_rounds + column(each, "preemptions"))


@of_all(0.6)
@given(case=cases())
def test_limits_of_the_engine_are_kept(case: tuple[ServingConfig, Workload]):
    config, workload = case
    rows = simulate(config, workload).iterations
    assert rows["kv_blocks_used"].is_between(1, config.kv.n_blocks).all()
    assert rows["batch_size"].is_between(1, config.max_batch).all()
    longest = {law.draft_length: law.n_nodes for law in config.policy.laws}
    reserved = column(rows, "n_decodes") * (1 + np.array([longest.get(k, 0) for k in rows["draft_length"]]))
    assert np.all(column(rows, "decode_positions") <= reserved)
    emitted_in_prompts = column(rows, "batch_size") - column(rows, "n_decodes")
    assert np.all(column(rows, "emitted_tokens") >= column(rows, "n_decodes"))
    assert np.all(column(rows, "emitted_tokens") <= column(rows, "decode_positions") + emitted_in_prompts)
    if config.scheduler == "vllm-v1":
        assert np.all(reserved + column(rows, "prefill_tokens") <= config.chunk_tokens)


@of_all(0.6)
@given(case=cases())
def test_engine_is_idle_only_when_nobody_is_there(case: tuple[ServingConfig, Workload]):
    result = simulate(*case)
    start_s, end_s = column(result.iterations, "start_s"), column(result.iterations, "end_s")
    arrival_s, left_s = column(result.requests, "arrival_s"), column(result.requests, "end_s")
    assert np.all(end_s > start_s)
    assert np.all(start_s[1:] >= end_s[:-1])
    for fell_idle_s, woke_s in zip(end_s[:-1], start_s[1:], strict=True):
        if woke_s > fell_idle_s:
            assert woke_s in arrival_s
            assert np.all(left_s[arrival_s < woke_s] <= fell_idle_s)
    first, last = column(result.requests, "scheduled_s"), column(result.requests, "first_token_s")
    assert np.all((arrival_s <= first) & (first < last) & (last <= left_s))
    assert np.all(np.diff(first) >= 0.0)


@given(uniform=st.floats(0.0, 1.0, exclude_max=True), conditional=st.lists(st.floats(0.0, 1.0), max_size=8))
def test_longer_drafts_never_accept_fewer_tokens_of_the_same_round(uniform: float, conditional: list[float]):
    accepted = [
        int(chain_law(conditional[:length]).outcomes(np.array([uniform]))[1][0])
        for length in range(len(conditional) + 1)
    ]
    assert np.all(np.diff(accepted) >= 0)
    assert np.all(accepted <= np.arange(len(conditional) + 1))
