"""A run's rows and figures: in memory as in files, whole or not at all, and what makes a run unstable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.serving.arrivals import ClosedLoop, ConstantArrivals, PoissonArrivals
from specbook.serving.compare import compare_serving
from specbook.serving.draft_policy import ScheduledDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.result import simulate_serving, stream_serving, write_result
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law
from specbook.serving.serving_config import ServingConfig
from specbook.serving.slo import Slo
from specbook.serving.summary import waiting_grew
from specbook.serving.workload import Workload
from tests.serving_cases import (
    assert_same_but_for_order,
    assert_same_frames,
    column,
    drafting,
    engine,
    equal_requests,
    mixed_requests,
    one_at_a_time,
    requests,
    simulate,
)

CHAIN = chain_law([0.8, 0.7, 0.6])
SLO = Slo(ttft_s=0.03, tpot_s=0.012)


def parts_of(workload: Workload, n: int) -> list[Workload]:
    cuts = np.array_split(np.arange(workload.n_requests), n)
    return [requests(workload.arrival_s[cut], workload.prompt_tokens[cut], workload.output_tokens[cut]) for cut in cuts]


@pytest.mark.parametrize("n_parts", [1, 7])
def test_stream_gives_the_rows_and_figures_of_a_run_in_memory(tmp_path: Path, n_parts: int):
    config = drafting(CHAIN, n_replicas=2, kv=KvConfig(n_blocks=60))
    workload = mixed_requests(150, rate_per_s=60.0)
    result = simulate(config, workload, slo=SLO, flops_per_token=2e9)
    summary = stream_serving(
        config,
        parts_of(workload, n_parts),
        tmp_path / "run",
        rng=np.random.default_rng(0),
        slo=SLO,
        flops_per_token=2e9,
    )
    assert summary == result.summary
    assert_same_frames(pl.read_parquet(tmp_path / "run" / "requests.parquet"), result.requests)
    assert_same_frames(pl.read_parquet(tmp_path / "run" / "iterations.parquet"), result.iterations)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"requests.parquet", "iterations.parquet"}


def test_stream_in_several_blocks_of_rows(tmp_path: Path):
    config = one_at_a_time(2.0**-10)
    workload = equal_requests(ConstantArrivals(requests_per_s=100.0), 40, prompt=8, output=2000)
    result = simulate(config, workload)
    summary = stream_serving(config, [workload], tmp_path, rng=np.random.default_rng(0))
    assert len(result.iterations) == 40 * 2000
    assert summary == result.summary
    assert_same_frames(pl.read_parquet(tmp_path / "iterations.parquet"), result.iterations)


def test_a_run_that_fails_leaves_no_file(tmp_path: Path):
    with pytest.raises(ValueError, match="are more than 4 KV blocks"):
        stream_serving(
            engine(kv=KvConfig(n_blocks=4)), [requests([0.0], 100, 20)], tmp_path, rng=np.random.default_rng(0)
        )
    assert list(tmp_path.iterdir()) == []


def test_written_result_is_what_was_computed(tmp_path: Path):
    result = simulate(drafting(CHAIN), mixed_requests(60), slo=SLO)
    write_result(result, tmp_path / "out", {"seed": 0})
    assert_same_frames(pl.read_parquet(tmp_path / "out" / "requests.parquet"), result.requests)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written["seed"] == 0
    assert written["ttft_s"]["p50"] == result.summary.ttft_s.p50
    assert written["waste"]["drafted_tokens"] == result.summary.waste.drafted_tokens


@pytest.mark.parametrize("law", [CHAIN, tree_law([0.2, 0.3, 0.5], 5), counted_law({0: [3], 3: [1, 2, 3, 4]})])
def test_figures_of_stretches_are_those_of_single_iterations(law: RoundLaw):
    config, workload = drafting(law), mixed_requests(60)
    assert_same_but_for_order(simulate(config, workload), simulate(replace(config, one_by_one=True), workload))


def test_figures_follow_from_the_rows():
    config = drafting(CHAIN, kv=KvConfig(n_blocks=400))
    result = simulate(config, mixed_requests(100), slo=SLO, flops_per_token=3.0)
    rows, work, summary = result.requests, result.iterations, result.summary
    ttft_s = column(rows, "first_token_s") - column(rows, "arrival_s")
    assert summary.ttft_s.p90 == np.quantile(ttft_s, 0.9)
    several = column(rows, "output_tokens") > 1
    after_first_s = column(rows, "end_s") - column(rows, "first_token_s")
    tpot_s = after_first_s[several] / (column(rows, "output_tokens")[several] - 1)
    assert summary.tpot_s.p50 == np.quantile(tpot_s, 0.5)
    assert summary.tpot_s.count == several.sum()
    span_s = rows["end_s"].max() - rows["arrival_s"].min()
    assert summary.wall_s == span_s
    assert summary.throughput_tokens_per_s == rows["output_tokens"].sum() / span_s
    seconds, used = column(work, "end_s") - column(work, "start_s"), column(work, "kv_blocks_used") / 400
    assert summary.mean_kv_use == pytest.approx((seconds * used).sum() / seconds.sum())
    assert summary.peak_kv_use == used.max()
    assert summary.mean_batch_size == work["batch_size"].sum() / len(work)
    kept = (ttft_s <= 0.03) & ~several
    kept[several] = (ttft_s[several] <= 0.03) & (tpot_s <= 0.012)
    assert summary.goodput_requests_per_s == kept.sum() / span_s
    assert 0 < kept.sum() < len(kept)
    rejected = summary.waste.rejected_tokens
    assert summary.waste.rejected_flops == 3.0 * rejected
    completed = column(work, "batch_size") - column(work, "n_decodes")
    only_decodes = completed == 0
    vain = (column(work, "decode_positions") - column(work, "emitted_tokens"))[only_decodes]
    assert summary.waste.rejected_slot_seconds >= (vain * seconds[only_decodes]).sum() * (1.0 - 1e-12)


def test_gaps_between_bursts_by_hand():
    config = one_at_a_time(0.25, policy=drafting(chain_law([1.0, 1.0])).policy)
    summary = simulate(config, requests([0.0], 10, 7)).summary  # 1 token, then two rounds of 3
    assert (summary.itl_s.count, summary.itl_s.mean) == (2, 0.25)
    assert (summary.itl_per_token_s.count, summary.itl_per_token_s.mean) == (6, 0.5 / 6)
    assert (summary.waste.drafted_tokens, summary.waste.rejected_tokens) == (4, 0)
    assert summary.tpot_s.mean == 0.5 / 6


def test_waste_by_hand():
    config = one_at_a_time(0.25, policy=drafting(chain_law([1.0, 0.0, 1.0])).policy)
    waste = simulate(config, requests([0.0], 10, 4)).summary.waste  # rounds of 2 and of 1, the latter cut
    assert (waste.drafted_tokens, waste.accepted_tokens, waste.rejected_tokens) == (6, 1, 5)
    assert waste.rejected_slot_seconds == (2 + 3) * 0.25


@pytest.mark.parametrize(("times_capacity", "stable"), [(0.5, True), (0.9, True), (1.5, False), (4.0, False)])
def test_a_load_above_capacity_is_called_unstable(times_capacity: float, stable: bool):
    tau_s, output, cap = 0.02, 20, 8
    arrivals = PoissonArrivals(requests_per_s=times_capacity * cap / (output * tau_s))
    config = engine(iteration_time=ConstantIterationTime(seconds=tau_s), max_batch=cap)
    for seed in range(5):
        summary = simulate(config, equal_requests(arrivals, 500, prompt=50, output=output, seed=seed)).summary
        assert (summary.stable, summary.n_unfinished) == (stable, 0)


def test_a_load_a_little_above_capacity_is_called_unstable_if_there_is_enough_of_it():
    config = engine(iteration_time=ConstantIterationTime(seconds=0.02), max_batch=8)
    for times_capacity, stable in ((0.95, True), (1.1, False)):
        arrivals = PoissonArrivals(requests_per_s=times_capacity * 20.0)
        for seed in range(3):
            workload = equal_requests(arrivals, 3000, prompt=50, output=20, seed=seed)
            assert simulate(config, workload).summary.stable == stable


def test_a_late_burst_is_no_instability_of_an_engine_that_was_idle():
    arrival_s = np.concatenate([np.arange(60) * 1.0, 60.0 + np.arange(60) * 0.001])
    summary = simulate(one_at_a_time(0.01), requests(arrival_s, 10, 10)).summary
    assert summary.utilisation < 0.5
    assert summary.stable


def test_a_backlog_and_clients_that_wait_say_nothing_of_a_rate():
    config = engine(max_batch=4)
    assert simulate(config, requests([0.0] * 200, 10, 20)).summary.stable
    assert simulate(config, requests([0.0] * 200, 10, 20), loop=ClosedLoop(n_clients=150)).summary.stable


def test_figures_do_not_depend_on_when_the_first_request_comes():
    early, late = (
        simulate(one_at_a_time(2.0**-6), requests(np.arange(200) / 32.0 + first_s, 10, 20)).summary
        for first_s in (0.0, 2.0**20)
    )
    assert early == late
    assert not early.stable


def test_waiting_grows_if_the_last_fifth_waits_twice_as_long_as_the_earlier_half():
    early_s, middle_s = [1.0] * 20 + [10.0] * 30, [1.0] * 30
    assert waiting_grew(np.array(early_s + middle_s + [13.0] * 20), 10.0, 1.0)
    assert not waiting_grew(np.array(early_s + middle_s + [12.7] * 20), 10.0, 1.0)


def test_a_run_is_stopped_when_too_many_wait():
    summary = simulate(engine(max_batch=2, max_waiting=30), requests(np.arange(400) * 0.01, 100, 20)).summary
    assert not summary.stable
    assert summary.n_unfinished > 30
    assert 0 < summary.n_requests < 400


def test_drafts_of_a_stopped_run_are_accepted_or_rejected():
    config = drafting(CHAIN, max_batch=8, max_waiting=50)
    summary = simulate(config, requests(np.arange(400) * 0.01, 200, 100)).summary
    assert summary.n_unfinished
    assert summary.waste.drafted_tokens == summary.waste.accepted_tokens + summary.waste.rejected_tokens


def test_slots_without_a_token_by_hand():
    config = one_at_a_time(0.25, policy=drafting(chain_law([1.0, 1.0])).policy)
    result = simulate(config, requests([0.0], 10, 4))  # 1 block of 16: 10 tokens, then 11 and slots for 2 drafts
    assert result.iterations["kv_tokens_used"].to_list() == [10, 11]
    assert result.summary.kv_fragmentation == 1.0 - 21 / 32


def test_gaps_have_intervals_where_every_iteration_holds_a_prompt():
    config = one_at_a_time(0.01, max_batch=64)
    result = simulate(config, equal_requests(ConstantArrivals(requests_per_s=99.0), 11_000, prompt=8, output=3))
    assert (result.iterations["prefill_tokens"] > 0).mean() > 0.9
    for latency in (result.summary.itl_s, result.summary.itl_per_token_s):
        low, high = latency.p90_interval or (0.0, 0.0)
        assert 0.0099 < low <= latency.p90 <= high < 0.0101
        assert latency.mean_interval == pytest.approx((0.01, 0.01), rel=1e-3)


def test_a_run_is_stopped_even_before_the_first_request_has_ended(tmp_path: Path):
    config, workload = engine(max_waiting=5), requests([0.0] * 10, 10, 5)
    summary = simulate(config, workload).summary
    assert (summary.stable, summary.n_unfinished, summary.n_requests) == (False, 6, 0)
    assert stream_serving(config, [workload], tmp_path, rng=np.random.default_rng(0)) == summary


def test_a_stopped_run_holds_only_requests_that_ended():
    config = engine(max_batch=2, max_waiting=30, scheduler="vllm-v1")
    result = simulate(config, requests(np.arange(400) * 0.01, 100, [20, 90] * 200))
    assert len(result.requests) == result.summary.n_requests
    assert result.requests["end_s"].is_not_null().all()
    assert result.requests["request_id"].is_sorted()


def test_comparison_gives_every_engine_the_same_luck():
    plain, workload = engine(), mixed_requests(60)
    configs: dict[str, ServingConfig] = {
        "plain": plain,
        "chain": drafting(CHAIN),
        "again": drafting(CHAIN),
        "by batch": engine(
            policy=ScheduledDraft(schedule={(1, 0): 3, (4, 0): 0}, law_by_length={0: no_draft(), 3: CHAIN})
        ),
        "useless": drafting(chain_law([0.0] * 3)),
    }
    table = compare_serving(configs, workload, seed=3, slo=Slo(ttft_s=10.0))
    assert table["name"].to_list() == list(configs)
    first, second = (table.filter(name=name).drop("name") for name in ("chain", "again"))
    assert_same_frames(first.select(pl.selectors.numeric()), second.select(pl.selectors.numeric()))
    assert table["draft_length"].to_list() == ["0", "3", "3", "0,3", "3"]
    assert table["viable"].to_list()[:2] == [True, True]
    assert not table.filter(name="useless")["viable"].item()
    assert "without speculation" in table.filter(name="useless")["reason"].item()


def test_comparison_is_with_the_engine_that_does_not_draft_wherever_it_stands():
    configs = {"useless": drafting(chain_law([0.0] * 3)), "useless too": drafting(chain_law([0.0])), "plain": engine()}
    table = compare_serving(configs, mixed_requests(60), seed=3)
    assert table["viable"].to_list() == [False, False, True]


def test_every_request_keeps_objectives_that_promise_nothing():
    summary = simulate(engine(), mixed_requests(20), slo=Slo()).summary
    assert summary.goodput_requests_per_s == summary.throughput_requests_per_s


def test_a_generator_is_asked_for_and_a_request(tmp_path: Path):
    with pytest.raises(TypeError, match="rng must be a numpy"):
        simulate_serving(engine(), mixed_requests(2), rng=0)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"^workload: holds no request"):
        stream_serving(engine(), [], tmp_path, rng=np.random.default_rng(0))


def test_a_request_may_come_long_after_the_others():
    ended = simulate(engine(), requests([0.0, 1e300], 10, [2000, 3])).requests["end_s"]
    assert ended.is_finite().all()


def test_comparison_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_serving({}, mixed_requests(2), seed=0)
