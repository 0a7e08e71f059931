"""Queues in their steady state: means within four standard errors of their formula, by batch means after a warm-up.

Servers that take one request each behind one common queue, the system of Erlang C, are none that the simulator has: its
replicas have queues of their own. That formula is tested where it is defined.
"""

from __future__ import annotations

import numpy as np
import pytest

from specbook.acceptance.yields import tokens_distribution
from specbook.checks import Floats
from specbook.serving.arrivals import PoissonArrivals, TogetherArrivals
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.queueing import (
    batching_e2e_s,
    batching_requests_in_system,
    batching_wait_s,
    capacity_requests_per_s,
    md1_wait_s,
    mg1_wait_s,
    round_count_moments,
    speculative_service_moments_s,
)
from specbook.serving.result import ServingResult
from specbook.serving.round_law import chain_law
from tests.serving_cases import column, drafting, engine, equal_requests, one_at_a_time, simulate

N_BATCHES = 30
CONDITIONAL = [0.8] * 4


def assert_mean_is(values: Floats, expected: float) -> None:
    """Within four standard errors, from the means of batches; the first tenth is warm-up."""
    steady = values[values.size // 10 :]
    means = np.array([batch.mean() for batch in np.array_split(steady, N_BATCHES)])
    error = float(means.std(ddof=1)) / N_BATCHES**0.5
    assert 0.0 < error < 0.15 * expected
    assert abs(float(means.mean()) - expected) < 4.0 * error


def waits_s(result: ServingResult) -> Floats:
    return column(result.requests, "scheduled_s") - column(result.requests, "arrival_s")


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_md1_one_request_at_a_time_all_of_one_length(load: float):
    service_s = 10 * 0.02
    arrivals = PoissonArrivals(requests_per_s=load / service_s)
    workload = equal_requests(arrivals, 6000, prompt=100, output=10, seed=11)
    assert_mean_is(waits_s(simulate(one_at_a_time(0.02), workload)), float(md1_wait_s(load / service_s, service_s)))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_mg1_one_request_at_a_time_with_speculation(load: float):
    mean, second = round_count_moments(tokens_distribution(CONDITIONAL), 64)
    service_s, second_s2 = speculative_service_moments_s(0.02, 0.02, mean[64], second[64])
    rate_per_s = load / float(service_s)
    workload = equal_requests(PoissonArrivals(requests_per_s=rate_per_s), 6000, prompt=100, output=65, seed=12)
    result = simulate(one_at_a_time(0.02, policy=FixedDraft(law=chain_law(CONDITIONAL))), workload)
    assert_mean_is(waits_s(result), float(mg1_wait_s(rate_per_s, service_s, second_s2)))
    ends_s, starts_s = column(result.requests, "end_s"), column(result.requests, "scheduled_s")
    assert_mean_is(ends_s - starts_s, float(service_s))


@pytest.mark.parametrize("output", [2, 65])
def test_rounds_of_a_request_have_the_moments_of_the_recursion(output: int):
    workload = equal_requests(TogetherArrivals(), 6000, prompt=16, output=output)
    config = drafting(chain_law([0.9, 0.5, 0.7]), max_batch=512, chunk_tokens=8192)
    rounds = column(simulate(config, workload).requests, "rounds").astype(np.float64)
    mean, second = (float(each[-1]) for each in round_count_moments(tokens_distribution([0.9, 0.5, 0.7]), output - 1))
    if output == 2:
        assert set(rounds) == {mean} == {1.0}
    else:
        assert_mean_is(rounds, mean)
        assert_mean_is(rounds**2, second)


@pytest.mark.parametrize(("rate_per_s", "output"), [(1.0, 20), (5.0, 10), (60.0, 1), (30.0, 4)])
def test_continuous_batching_without_a_cap_waits_for_the_end_of_an_iteration(rate_per_s: float, output: int):
    tau_s = 0.02
    workload = equal_requests(PoissonArrivals(requests_per_s=rate_per_s), 6000, prompt=10, output=output, seed=13)
    times = ConstantIterationTime(seconds=tau_s)
    result = simulate(engine(iteration_time=times, max_batch=10_000, chunk_tokens=100_000), workload)
    assert_mean_is(waits_s(result), float(batching_wait_s(rate_per_s, tau_s, output)))
    e2e_s = column(result.requests, "end_s") - column(result.requests, "arrival_s")
    assert_mean_is(e2e_s - output * tau_s, float(batching_e2e_s(rate_per_s, tau_s, output)) - output * tau_s)
    in_system = float(e2e_s.sum()) / result.summary.wall_s
    offered = float(batching_requests_in_system(rate_per_s, tau_s, output))
    assert in_system == pytest.approx(offered, rel=4.0 / 6000**0.5)


@pytest.mark.parametrize("times_capacity", [0.7, 1.0, 3.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_throughput_is_never_above_what_the_batch_allows(times_capacity: float, seed: int):
    tau_s, output, cap = 2.0**-6, 20, 4
    bound = cap / (output * tau_s)
    arrivals = PoissonArrivals(requests_per_s=times_capacity * bound)
    workload = equal_requests(arrivals, 1000, prompt=10, output=output, seed=seed)
    config = engine(iteration_time=ConstantIterationTime(seconds=tau_s), max_batch=cap)
    summary = simulate(config, workload).summary
    assert summary.throughput_requests_per_s <= bound
    if times_capacity < 1.0:
        assert summary.stable
    if times_capacity > 1.0:
        assert not summary.stable
        assert summary.throughput_requests_per_s > 0.98 * bound


def test_throughput_is_never_above_what_the_cache_allows():
    tau_s, output, prompt, pool = 2.0**-6, 20, 12, KvConfig(n_blocks=16)
    config = engine(iteration_time=ConstantIterationTime(seconds=tau_s), max_batch=64, kv=pool)
    workload = equal_requests(TogetherArrivals(), 400, prompt=prompt, output=output)
    result = simulate(config, workload)
    held = [1 + (prompt + done > 16) for done in range(output)]
    bound = capacity_requests_per_s(
        max_batch=64,
        iteration_s=tau_s,
        iterations_per_request=output,
        kv_tokens=pool.n_tokens,
        mean_residence_s=output * tau_s,
        mean_kv_tokens=16 * float(np.mean(held)),
    )
    assert 0.5 * float(bound) < result.summary.throughput_requests_per_s <= float(bound)
