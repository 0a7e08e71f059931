"""Schedules of any table of times: what holds whatever they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.deploy.deployment import ContextSchedule, Plan
from specbook.deploy.engines import sglang, tensorrt_llm, vllm
from specbook.deploy.rates import AcceptanceRates, acceptance_rates
from specbook.deploy.schedule import MERGE_LIMIT, BatchRange, LengthTable, best_length, draft_schedule
from tests.deploy_cases import ranges, table

LENGTHS = (0, 1, 2, 3, 5)


@st.composite
def tables(draw: st.DrawFn) -> LengthTable:
    """Batches with gaps or without, times that cross each other, lengths that pay or fit here and not there."""
    batches = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=12)))
    times = st.floats(1.0, 10.0).map(lambda value: round(value, 2))
    rows = draw(st.lists(st.lists(times, min_size=5, max_size=5), min_size=len(batches), max_size=len(batches)))
    known = table(rows, batches, LENGTHS)
    fits = np.array(
        draw(st.lists(st.sampled_from([True, True, False]), min_size=known.pays.size, max_size=known.pays.size))
    )
    pays = known.pays & fits.reshape(known.pays.shape)
    pays[:, 0] = True
    return replace(known, pays=pays)


gains = st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5])


@given(tables(), gains, st.integers(1, 8))
def test_ranges_cover_every_batch_once_and_neighbours_differ(known: LengthTable, min_gain: float, min_batches: int):
    found = draft_schedule(known, min_gain=min_gain, min_batches=min_batches)
    assert found[0].first_batch == 1
    assert found[-1].last_batch == known.batches[-1]
    for before, after in pairwise(found):
        assert after.first_batch == before.last_batch + 1
        assert after.draft_length != before.draft_length
    assert [batch for each in found for batch in each.projected_batches] == list(known.batches)
    assert all(each.first_batch <= each.projected_batches[0] for each in found)


def _length_at(found: tuple[BatchRange, ...], batch: int) -> int:
    return next(each.draft_length for each in found if each.first_batch <= batch <= each.last_batch)


@given(tables(), gains)
def test_no_batch_loses_more_than_the_gain_that_was_not_worth_a_change(known: LengthTable, min_gain: float):
    found = draft_schedule(known, min_gain=min_gain, min_batches=1)
    for row, batch in enumerate(known.batches):
        column = known.draft_lengths.index(_length_at(found, batch))
        best_s = min(known.tpot_s[row, k] for k in range(len(LENGTHS)) if known.pays[row, k])
        assert known.pays[row, column]
        assert known.tpot_s[row, column] <= best_s * (1.0 + min_gain) * (1.0 + 1e-12)


@given(tables(), gains, st.integers(1, 8))
def test_what_a_range_says_it_loses_is_what_it_loses(known: LengthTable, min_gain: float, min_batches: int):
    for each in draft_schedule(known, min_gain=min_gain, min_batches=min_batches):
        rows = [known.batches.index(batch) for batch in each.projected_batches]
        column = known.draft_lengths.index(each.draft_length)
        allowed = np.where(known.pays[rows], known.tpot_s[rows], np.inf)
        assert each.largest_loss == (known.tpot_s[rows, column] / allowed.min(axis=1) - 1.0).max()
        assert each.smallest_speedup == (known.tpot_s[rows, 0] / known.tpot_s[rows, column]).min()
        assert np.all(known.pays[rows, column])


@given(tables())
def test_without_a_least_gain_each_batch_has_its_best_length(known: LengthTable):
    found = draft_schedule(known, min_gain=0.0, min_batches=1)
    for row, batch in enumerate(known.batches):
        chosen = known.draft_lengths.index(_length_at(found, batch))
        assert known.tpot_s[row, chosen] == known.tpot_s[row, known.draft_lengths.index(best_length(known, batch))]


@given(tables(), gains)
def test_a_schedule_of_its_own_lengths_is_itself(known: LengthTable, min_gain: float):
    found = draft_schedule(known, min_gain=min_gain, min_batches=1)
    only = np.zeros_like(known.pays)
    for row, batch in enumerate(known.batches):
        only[row, known.draft_lengths.index(_length_at(found, batch))] = True
    only[:, 0] = True
    again = LengthTable(batches=known.batches, draft_lengths=known.draft_lengths, tpot_s=known.tpot_s, pays=only)
    spans = [(each.first_batch, each.last_batch, each.draft_length) for each in found]
    assert spans == [
        (each.first_batch, each.last_batch, each.draft_length)
        for each in draft_schedule(again, min_gain=min_gain, min_batches=1)
    ]


@given(tables(), gains, st.integers(2, 8))
def test_a_range_is_short_only_where_a_neighbour_would_cost_too_much(
    known: LengthTable, min_gain: float, min_batches: int
):
    found = draft_schedule(known, min_gain=min_gain, min_batches=min_batches)
    for place, each in enumerate(found[:-1]):
        first = known.batches[0] if place == 0 else each.first_batch
        if each.last_batch - first + 1 >= min_batches:
            continue
        rows = [known.batches.index(batch) for batch in each.projected_batches]
        for neighbour in (found[place + 1], *found[max(place - 1, 0) : place]):
            losses = known.losses[rows, known.draft_lengths.index(neighbour.draft_length)]
            assert losses.max() > MERGE_LIMIT


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of several contexts and of lengths that rise and fall."""
    schedules = []
    for place in range(draw(st.integers(1, 3))):
        starts = sorted(draw(st.sets(st.integers(2, 60), max_size=4)))
        edges = [1, *starts, 65]
        lengths = draw(st.lists(st.integers(0, 4), min_size=len(edges) - 1, max_size=len(edges) - 1))
        parts = [(first, stop - 1, k) for (first, stop), k in zip(pairwise(edges), lengths, strict=True)]
        schedules.append(ContextSchedule(first_context=512 * 4**place, ranges=ranges(*parts)))
    rates = AcceptanceRates(draft_length=4, expected_tokens=3.2, marginal_acceptance=None)
    return Plan(target="T", drafter="D", method="eagle3", schedules=tuple(schedules), rates=rates)


def _vllm_length(rows: list[list[int]], batch: int, context: int) -> int:
    """As the proposal looks a length up: the rows must tile the plane."""
    hits = [row[-1] for row in rows if row[0] <= batch <= row[1] and (len(row) == 3 or row[2] <= context <= row[3])]
    assert len(hits) == 1
    return hits[0]


@given(plans(), st.integers(1, 64), st.integers(1, 40_000))
def test_vllm_looks_up_the_length_of_the_plan(plan: Plan, batch: int, context: int):
    payload = vllm.deploy(plan).payload
    here = [each for each in plan.schedules if each.first_context <= context] or [plan.schedules[0]]
    expected = _length_at(here[-1].ranges, batch)
    if payload is None:
        assert expected == 0
        return
    rows = payload.get("num_speculative_tokens_per_batch_size", [[1, 64, payload["num_speculative_tokens"]]])
    assert _vllm_length(rows, batch, context) == expected
    assert max(row[-1] for row in rows) == payload["num_speculative_tokens"]


@given(plans(), st.integers(1, 64))
def test_sglang_routes_a_batch_to_the_length_of_the_plan(plan: Plan, batch: int):
    single = Plan(target="T", drafter="D", method="eagle3", schedules=plan.schedules[:1], rates=plan.rates)
    steps = sglang.deploy(single).payload
    if steps is None:
        assert len({each.draft_length for each in single.ranges}) == 1 or single.longest == 0
        return
    key = max(int(each) for each in steps if int(each) <= batch)
    assert steps[str(key)]["candidate_steps"] == [_length_at(single.ranges, batch)]


@given(plans(), st.integers(1, 64))
def test_tensorrt_llm_looks_up_the_first_key_that_is_no_smaller(plan: Plan, batch: int):
    falling = sorted((each.draft_length for each in plan.ranges), reverse=True)
    parts = [(each.first_batch, each.last_batch, k) for each, k in zip(plan.ranges, falling, strict=True)]
    schedule = (ContextSchedule(first_context=512, ranges=ranges(*parts)),)
    payload = tensorrt_llm.deploy(
        Plan(target="T", drafter="D", method="eagle3", schedules=schedule, rates=plan.rates)
    ).payload
    if payload is None:
        assert falling[0] == 0
        return
    config = payload["speculative_config"]
    by_last = config.get("draft_len_schedule", {64: config["max_draft_len"]})
    assert by_last[min(key for key in by_last if key >= batch)] == _length_at(schedule[0].ranges, batch)
    assert by_last[min(by_last)] == config["max_draft_len"]


@given(st.integers(1, 8), st.floats(0.0, 1.0))
def test_one_conditional_acceptance_gives_back_the_tokens(draft_length: int, alpha: float):
    tokens = float(np.sum(alpha ** np.arange(draft_length + 1)))
    rates = AcceptanceRates(draft_length=draft_length, expected_tokens=tokens, marginal_acceptance=None)
    assert len(set(rates.conditional_acceptance)) == 1
    assert 1.0 + float(np.cumprod(rates.conditional_acceptance).sum()) == pytest.approx(tokens, abs=1e-4)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_truncations_of_one_profile_give_its_positions_back(conditional: list[float]):
    marginal = np.cumprod(conditional)
    tokens = {0: 1.0} | {k: 1.0 + float(marginal[:k].sum()) for k in range(1, marginal.size + 1)}
    rates = acceptance_rates(marginal.size, tokens, dict.fromkeys(tokens, "truncation of a profile at K = 8"))
    assert rates.marginal_acceptance is None or np.allclose(rates.marginal_acceptance, marginal, atol=1e-6)
    if np.all(np.diff(marginal) < -1e-5):
        assert rates.marginal_acceptance is not None
