"""Identities that hold on every sample path, float for float, at any load."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from specbook.serving.arrivals import ConstantArrivals, TogetherArrivals
from specbook.serving.draft_policy import FixedDraft, ScheduledDraft
from specbook.serving.draft_time import ConstantDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.queueing import lindley_wait_s
from specbook.serving.result import ServingResult
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law
from specbook.serving.workload import Workload
from tests.serving_cases import (
    AFFINE,
    SCHEDULERS,
    assert_same_frames,
    assert_same_results,
    column,
    drafting,
    engine,
    equal_requests,
    mixed_requests,
    one_at_a_time,
    requests,
    simulate,
)

TAU_S = 2.0**-6
LOADS_PER_S = (0.5, 2.0, 20.0)  # far below what one request at a time allows, near it, and far above
CHAIN = chain_law([0.9, 0.8, 0.7, 0.5])
CUT = counted_law({0: [3], 1: [2, 4], 3: [1, 2, 3, 4]})


def dyadic(workload: Workload) -> Workload:
    """The same load with arrivals that are multiples of 2 ** -20 s, whose sums are exact."""
    arrival_s = np.round(workload.arrival_s * 2.0**20) / 2.0**20
    return requests(arrival_s, workload.prompt_tokens, workload.output_tokens)


def served_in_order(workload: Workload, services_s: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Starts and ends of requests served one after the other, each for several iterations."""
    starts_s, ends_s, end_s = [], [], -np.inf
    for arrival_s, service_s in zip(workload.arrival_s.tolist(), services_s, strict=True):
        starts_s.append(max(arrival_s, end_s))
        end_s = starts_s[-1]
        for seconds in service_s:
            end_s += seconds
        ends_s.append(end_s)
    return starts_s, ends_s


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("rate_per_s", LOADS_PER_S)
def test_lindley_one_request_at_a_time_at_affine_times(rate_per_s: float, scheduler: str):
    workload = mixed_requests(200, rate_per_s=rate_per_s)
    services_s = [
        [AFFINE.mixed_seconds(0, 0, 0, [(prompt, 0)])]
        + [AFFINE.mixed_seconds(1, 1, prompt + emitted, []) for emitted in range(1, output)]
        for prompt, output in zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    ]
    result = simulate(engine(max_batch=1, scheduler=scheduler), workload)
    starts_s, ends_s = served_in_order(workload, services_s)
    assert result.requests["scheduled_s"].to_list() == starts_s
    assert result.requests["end_s"].to_list() == ends_s


@pytest.mark.parametrize("law", [CHAIN, CUT, tree_law([0.2, 0.3, 0.5], 5)])
@pytest.mark.parametrize("rate_per_s", LOADS_PER_S)
def test_lindley_one_request_at_a_time_with_speculation(rate_per_s: float, law: RoundLaw):
    workload = dyadic(mixed_requests(200, rate_per_s=rate_per_s))
    result = simulate(one_at_a_time(TAU_S, policy=FixedDraft(law=law)), workload)
    service_s = (1 + column(result.requests, "rounds")) * TAU_S
    wait_s = column(result.requests, "scheduled_s") - workload.arrival_s
    assert wait_s.tolist() == lindley_wait_s(workload.arrival_s, service_s).tolist()
    assert (column(result.requests, "end_s") - column(result.requests, "scheduled_s")).tolist() == service_s.tolist()


def test_lindley_drafting_adds_its_passes_to_each_round():
    workload = mixed_requests(200, rate_per_s=1.0)
    config = one_at_a_time(0.01, policy=FixedDraft(law=CHAIN), draft_time=ConstantDraft(seconds_per_pass=0.003))
    result = simulate(config, workload)
    services_s = [[0.01] + [0.01 + 4 * 0.003] * rounds for rounds in result.requests["rounds"]]
    assert result.requests["end_s"].to_list() == served_in_order(workload, services_s)[1]


@pytest.mark.parametrize("n_replicas", [2, 3])
def test_lindley_replicas_in_turn_each_serve_every_nth_request(n_replicas: int):
    workload = mixed_requests(150, rate_per_s=4.0)
    config = one_at_a_time(0.01, policy=FixedDraft(law=CHAIN), n_replicas=n_replicas)
    result = simulate(config, workload)
    for number in range(n_replicas):
        own = result.requests.filter(pl.col("request_id") % n_replicas == number)
        assert own["replica"].to_list() == [number] * len(own)
        load = requests(column(own, "arrival_s"), 1, 1)
        starts_s, ends_s = served_in_order(load, [[0.01] * (1 + rounds) for rounds in own["rounds"]])
        assert (own["scheduled_s"].to_list(), own["end_s"].to_list()) == (starts_s, ends_s)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_replicas_in_turn_are_as_many_engines_that_know_nothing_of_each_other(scheduler: str):
    workload = mixed_requests(150, rate_per_s=60.0)
    config = engine(scheduler=scheduler, kv=KvConfig(n_blocks=60, watermark_blocks=1))
    result = simulate(engine(scheduler=scheduler, kv=config.kv, n_replicas=3), workload)
    for number in range(3):
        kept = slice(number, None, 3)
        columns = workload.arrival_s[kept], workload.prompt_tokens[kept], workload.output_tokens[kept]
        alone = simulate(config, requests(*columns))
        own = result.requests.filter(pl.col("replica") == number).drop("replica", "request_id")
        assert_same_frames(own, alone.requests.drop("replica", "request_id"))
        worked = result.iterations.filter(pl.col("replica") == number).drop("replica")
        assert_same_frames(worked, alone.iterations.drop("replica"))


def test_least_outstanding_sends_each_request_to_the_replica_with_the_fewest():
    loads = mixed_requests(200), mixed_requests(60, rate_per_s=3.0)
    in_bursts = [requests(np.round(load.arrival_s), load.prompt_tokens, load.output_tokens) for load in loads]
    times = ConstantIterationTime(seconds=2.0**-6)  # iterations end as requests come
    config = engine(n_replicas=3, routing="least_outstanding", max_batch=2, iteration_time=times)
    for load in (*loads, *in_bursts):
        result = simulate(config, load)
        arrival_s, end_s, replica = (column(result.requests, name) for name in ("arrival_s", "end_s", "replica"))
        for number in range(len(arrival_s)):
            unfinished = np.bincount(replica[:number][end_s[:number] >= arrival_s[number]], minlength=3)
            assert replica[number] == unfinished.argmin()
        assert set(replica) >= {0, 1}


def busy_seconds(result: ServingResult, what: str) -> Fraction:
    """Exact sum over the iterations of their time, times what was in them."""
    rows = result.iterations.select("start_s", "end_s", what).rows()
    return sum((count * (Fraction(end_s) - Fraction(start_s)) for start_s, end_s, count in rows), Fraction())


def waiting_seconds(result: ServingResult) -> Fraction:
    """Exact integral of the number that waits: those left by each plan, and those that come until the next one."""
    total = busy_seconds(result, "waiting")
    ends_s = [
        (Fraction(start_s), Fraction(end_s)) for start_s, end_s in result.iterations.select("start_s", "end_s").rows()
    ]
    for arrival in map(Fraction, result.requests["arrival_s"]):
        total += sum(end_s - arrival for start_s, end_s in ends_s if start_s < arrival < end_s)
    return total


def between(result: ServingResult, first: str, last: str) -> Fraction:
    """Exact sum over the requests of the time from one instant to another."""
    rows = result.requests.select(first, last).rows()
    return sum((Fraction(end_s) - Fraction(start_s) for start_s, end_s in rows), Fraction())


@pytest.mark.parametrize("rate_per_s", LOADS_PER_S)
@pytest.mark.parametrize("law", [no_draft(), CHAIN, CUT])
def test_little_integrals_over_time_are_sums_over_requests(rate_per_s: float, law: RoundLaw):
    result = simulate(drafting(law, max_batch=4, chunk_tokens=4096), mixed_requests(120, rate_per_s=rate_per_s))
    assert result.summary.n_preemptions == 0
    assert busy_seconds(result, "batch_size") == between(result, "scheduled_s", "end_s")
    assert waiting_seconds(result) == between(result, "arrival_s", "scheduled_s")


@pytest.mark.parametrize("output", [1, 3, 16])
def test_dd1_waits_for_nothing_or_ever_longer(output: int):
    gap_s, service_s = 2.0**-4, output * TAU_S
    workload = equal_requests(ConstantArrivals(requests_per_s=1.0 / gap_s), 50, prompt=100, output=output)
    result = simulate(one_at_a_time(TAU_S), workload)
    wait_s = column(result.requests, "scheduled_s") - workload.arrival_s
    assert wait_s.tolist() == (np.arange(50) * max(service_s - gap_s, 0.0)).tolist()


@pytest.mark.parametrize(("n_batches", "cap", "output"), [(1, 8, 5), (4, 8, 20), (7, 3, 1)])
@pytest.mark.parametrize("n_replicas", [1, 2])
def test_backlog_is_worked_off_batch_by_batch(n_batches: int, cap: int, output: int, n_replicas: int):
    workload = equal_requests(TogetherArrivals(), n_batches * cap * n_replicas, prompt=64, output=output)
    config = engine(max_batch=cap, iteration_time=ConstantIterationTime(seconds=TAU_S), n_replicas=n_replicas)
    result = simulate(config, workload)
    assert result.summary.wall_s == n_batches * output * TAU_S
    assert result.summary.utilisation == 1.0
    assert result.summary.throughput_requests_per_s == n_replicas * cap / (output * TAU_S)


def test_busy_time_is_the_sum_of_the_iterations():
    result = simulate(one_at_a_time(TAU_S, n_replicas=2), dyadic(mixed_requests(100, rate_per_s=2.0)))
    busy_s = float((result.iterations["end_s"] - result.iterations["start_s"]).sum())
    assert busy_s == len(result.iterations) * TAU_S
    assert result.summary.utilisation == busy_s / (2 * result.summary.wall_s)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_no_draft_by_any_name_is_no_speculation(scheduler: str):
    workload, tight = mixed_requests(120, rate_per_s=60.0), KvConfig(n_blocks=60, watermark_blocks=1)
    plain = simulate(engine(scheduler=scheduler, kv=tight), workload)
    assert plain.summary.n_preemptions > 0
    scheduled = ScheduledDraft(schedule={(1, 0): 0, (4, 0): 0, (8, 100): 0}, law_by_length={0: no_draft(), 4: CHAIN})
    for policy in (FixedDraft(law=chain_law([])), scheduled):
        draft_time = ConstantDraft(seconds_per_pass=0.5)
        config = engine(scheduler=scheduler, kv=tight, policy=policy, draft_time=draft_time)
        assert_same_results(simulate(config, workload, seed=9), plain)


@pytest.mark.parametrize("law", [chain_law([0.0] * 3), tree_law([1.0, 0.0], 7), counted_law({0: [2], 3: [5]})])
def test_drafts_that_are_free_and_never_right_change_no_time(law: RoundLaw):
    workload, times = mixed_requests(120, rate_per_s=60.0), ConstantIterationTime(seconds=0.01)
    plain = simulate(engine(iteration_time=times, chunk_tokens=4096), workload)
    vain = simulate(engine(iteration_time=times, chunk_tokens=4096, policy=FixedDraft(law=law)), workload)
    spent = ["rounds", "drafted_tokens"]
    assert_same_frames(vain.requests.drop(spent), plain.requests.drop(spent))
    times_and_tokens = ["start_s", "end_s", "batch_size", "emitted_tokens", "waiting", "decode_context_tokens"]
    assert_same_frames(vain.iterations.select(times_and_tokens), plain.iterations.select(times_and_tokens))
    assert vain.requests["rounds"].to_list() == (workload.output_tokens - 1).tolist()
    assert vain.summary.waste.accepted_tokens == 0


@pytest.mark.parametrize("draft_length", [1, 3, 8])
def test_drafts_that_are_always_right_fill_every_round(draft_length: int):
    workload = mixed_requests(120, rate_per_s=60.0)
    result = simulate(drafting(chain_law([1.0] * draft_length)), workload)
    rounds = -(-(workload.output_tokens - 1) // (draft_length + 1))
    assert result.requests["rounds"].to_list() == rounds.tolist()
    assert result.requests["accepted_tokens"].to_list() == (workload.output_tokens - 1 - rounds).tolist()


def test_luck_of_a_request_does_not_depend_on_what_runs_beside_it():
    drawn = ["request_id", "rounds", "drafted_tokens", "accepted_tokens"]
    load = mixed_requests(120)
    spread, heaped = load.scaled(20.0), load.scaled(0.01)
    expected = simulate(drafting(CHAIN), load, seed=3).requests.select(drawn)
    for scheduler in SCHEDULERS:
        for workload in (load, spread, heaped):
            config = drafting(CHAIN, scheduler=scheduler, max_batch=8, n_replicas=2)
            assert_same_frames(simulate(config, workload, seed=3).requests.select(drawn), expected)


def test_luck_of_a_request_survives_being_preempted():
    workload = requests([0.0] * 12, 40, 80)
    roomy = simulate(drafting(CHAIN), workload).requests
    tight = simulate(drafting(CHAIN, kv=KvConfig(n_blocks=30)), workload).requests
    again = column(tight, "preemptions")
    assert again.max() > 0
    whole = again == 0
    assert tight.filter(whole)["rounds"].to_list() == roomy.filter(whole)["rounds"].to_list()
    assert np.all(column(tight, "rounds") <= column(roomy, "rounds"))


def test_longer_drafts_never_need_more_rounds_with_the_same_luck():
    conditional, workload = [0.9, 0.8, 0.7, 0.5, 0.9, 0.3], mixed_requests(120)
    rounds = [
        column(simulate(drafting(chain_law(conditional[:length])), workload, seed=4).requests, "rounds")
        for length in range(len(conditional) + 1)
    ]
    assert np.all(np.diff(rounds, axis=0) <= 0)
    assert np.all(rounds[0] == workload.output_tokens - 1)


def test_same_seed_same_bytes_and_another_seed_others():
    config, workload = drafting(CHAIN, kv=KvConfig(n_blocks=60)), mixed_requests(100)
    first, again, other = (simulate(config, workload, seed=seed) for seed in (1, 1, 2))
    assert_same_results(first, again)
    assert not first.requests.equals(other.requests)
