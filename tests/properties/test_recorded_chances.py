"""Recorded rounds come out of the simulator as they went in, whatever they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.serving.arrivals import ClosedLoop
from specbook.serving.recorded_chances import RecordedChances, recorded_luck
from specbook.serving.result import simulate_serving
from specbook.serving.round_law import chain_law
from specbook.witness.period_table import PeriodTable
from specbook.witness.trace import RequestTrace, later_rounds, serving_config, simulated_tpot_s, trace_law

Rounds = list[tuple[int, int]]

rounds = st.lists(
    st.integers(0, 6).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted))),
    min_size=1,
    max_size=12,
)
TABLE = PeriodTable(positions=np.arange(1, 8), seconds=2.0**-8 * np.arange(2, 9), slope_s=0.0)


def _trace(requests: list[Rounds], first_tokens: int) -> tuple[RequestTrace, ...]:
    return tuple(
        RequestTrace(
            prompt_tokens=9,
            n_tokens=first_tokens + sum(accepted + 1 for _, accepted in each),
            first_tokens=first_tokens,
            drafted=np.array([drafted for drafted, _ in each], dtype=np.int64),
            accepted=np.array([accepted for _, accepted in each], dtype=np.int64),
        )
        for each in requests
    )


@given(requests=st.lists(rounds, min_size=1, max_size=5), first_tokens=st.integers(1, 7))
def test_the_simulator_runs_the_very_rounds_that_were_recorded(requests: list[Rounds], first_tokens: int):
    trace = _trace(requests, first_tokens)
    law = trace_law(trace, depth=6)
    luck = RecordedChances([recorded_luck(law, each.drafted, each.accepted) for each in trace])
    lengths = np.array([(each.prompt_tokens, each.first_tokens, each.n_tokens) for each in trace]).T
    config, workload = serving_config(law, TABLE, None), later_rounds(*lengths)
    found = simulate_serving(config, workload, rng=luck, loop=ClosedLoop(n_clients=1)).requests
    assert found["rounds"].to_list() == [len(each) for each in requests]
    assert found["drafted_tokens"].to_list() == [sum(drafted for drafted, _ in each) for each in requests]
    assert found["accepted_tokens"].to_list() == [sum(accepted for _, accepted in each) for each in requests]


@given(requests=st.lists(rounds, min_size=1, max_size=5), first_tokens=st.integers(1, 7))
def test_a_request_takes_the_sum_of_its_rounds_to_the_last_bit(requests: list[Rounds], first_tokens: int):
    trace = _trace(requests, first_tokens)
    expected = [
        sum(TABLE.at(drafted + 1) for drafted, _ in each) / (request.n_tokens - 1)
        for each, request in zip(requests, trace, strict=True)
    ]
    assert simulated_tpot_s(trace, 6, TABLE).tolist() == [float(value) for value in expected]


def test_a_last_round_that_was_cut_takes_its_whole_time():
    (whole,) = _trace([[(4, 4)]], first_tokens=2)
    cut = RequestTrace(prompt_tokens=9, n_tokens=4, first_tokens=2, drafted=whole.drafted, accepted=whole.accepted)
    assert simulated_tpot_s((cut,), 4, TABLE).tolist() == [float(TABLE.at(5)) / 3.0]


def test_rounds_that_the_law_does_not_know_are_refused():
    with pytest.raises(ValueError, match="no round that drafts 3 tokens and accepts 1"):
        recorded_luck(chain_law([0.5, 0.5]), [2, 3], [0, 1])
