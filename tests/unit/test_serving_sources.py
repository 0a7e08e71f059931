"""Where requests come from: in parts as in one piece, and clients that wait for their answers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from specbook.checks import BadInput
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.iteration_time import ConstantIterationTime
from specbook.serving.round_law import chain_law
from specbook.serving.sources import ClosedSource, OpenSource
from specbook.serving.workload import Workload
from tests.serving_cases import column, drafting, engine, mixed_requests, requests, simulate


def parts_of(n: int) -> list[Workload]:
    load = mixed_requests(20)
    cuts = np.array_split(np.arange(20), n)
    return [requests(load.arrival_s[cut], load.prompt_tokens[cut], load.output_tokens[cut]) for cut in cuts]


def test_parts_that_go_back_in_time_are_refused():
    source = OpenSource([requests([0.0, 50.0], 9, 1), requests([49.0], 9, 1)])
    source.pop()
    with pytest.raises(BadInput, match=r"^arrival_s = 49.0: is before that of the part before it, 50.0"):
        source.pop()


@pytest.mark.parametrize("n_parts", [1, 3, 20])
def test_open_source_numbers_requests_across_parts(n_parts: int):
    source, load, seen = OpenSource(parts_of(n_parts)), mixed_requests(20), []
    while source.next_s < math.inf:
        due_s, request = source.next_s, source.pop()
        assert request.arrival_s == due_s
        seen.append((request.request_id, request.arrival_s, request.prompt_tokens, request.rest_tokens))
    assert seen == [
        (number, *row)
        for number, row in enumerate(
            zip(load.arrival_s.tolist(), load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)
        )
    ]


def test_open_source_without_parts_is_empty():
    assert OpenSource([]).next_s == math.inf


def test_open_source_reads_no_further_than_the_next_request():
    taken = []

    def parts() -> Iterator[Workload]:
        for part in parts_of(20):
            taken.append(part)
            yield part

    source = OpenSource(parts())
    assert len(taken) == 1
    source.pop()
    assert len(taken) == 2


@pytest.mark.parametrize("n_clients", [1, 3, 50])
@pytest.mark.parametrize("think_s", [0.0, 0.25])
@pytest.mark.parametrize("n_replicas", [1, 3])
def test_clients_send_when_their_answer_is_there_and_they_have_thought(n_clients: int, think_s: float, n_replicas: int):
    loop = ClosedLoop(n_clients=n_clients, think_s=think_s)
    result = simulate(engine(n_replicas=n_replicas), mixed_requests(30), loop=loop)
    arrival_s, end_s = column(result.requests, "arrival_s"), column(result.requests, "end_s")
    first = min(n_clients, 30)
    assert arrival_s[:first].tolist() == [0.0] * first
    assert arrival_s[first:].tolist() == (np.sort(end_s)[: 30 - first] + think_s).tolist()
    for now_s in arrival_s:
        assert np.sum((arrival_s <= now_s) & (end_s > now_s)) <= n_clients


def test_one_client_never_waits():
    result = simulate(drafting(chain_law([0.5, 0.5])), mixed_requests(20), loop=ClosedLoop(n_clients=1))
    assert result.requests["scheduled_s"].to_list() == result.requests["arrival_s"].to_list()
    assert result.summary.utilisation == pytest.approx(1.0)


def test_clients_of_two_replicas_keep_both_busy():
    config = engine(iteration_time=ConstantIterationTime(seconds=2.0**-5), n_replicas=2, routing="least_outstanding")
    result = simulate(config, requests([0.0] * 40, 10, 4), loop=ClosedLoop(n_clients=2))
    assert result.summary.wall_s == 20 * 4 * 2.0**-5
    assert result.iterations.group_by("replica").agg(pl.len()).sort("replica").rows() == [(0, 80), (1, 80)]


def test_no_replica_runs_ahead_of_a_client_that_another_one_answers():
    config = engine(iteration_time=ConstantIterationTime(seconds=2.0**-6), n_replicas=2, chunk_tokens=8192)
    result = simulate(config, mixed_requests(40), loop=ClosedLoop(n_clients=6))
    assert result.requests["scheduled_s"].to_list() == result.requests["arrival_s"].to_list()


def test_closed_source_ends_when_nothing_is_left_to_ask():
    source = ClosedSource(requests([0.0, 0.0], 9, 1), ClosedLoop(n_clients=5))
    source.pop(), source.pop()
    source.ended(2, 1.0)
    assert source.next_s == math.inf
