"""The gate of the serving stage: each reason by itself, and which requests kept their objectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from specbook.serving.compare import example_summaries
from specbook.serving.gate import judge, tail
from specbook.serving.slo import Slo, keeps, latencies
from specbook.serving.summary import ServingSummary, waiting_grew

PLAIN, DRAFTING = example_summaries()


def changed(summary: ServingSummary, latency: str, **points: float) -> ServingSummary:
    return replace(summary, **{latency: replace(getattr(summary, latency), **points)})


def test_gate_keeps_what_meets_everything():
    verdict = judge(DRAFTING, PLAIN, Slo(ttft_s=1.0, tpot_s=1.0, e2e_s=10.0))
    assert verdict.stays
    assert verdict.reasons == ()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"ttft_s": 0.3}, "p90 TTFT 400.0 ms > 300 ms"),
        ({"tpot_s": 0.3, "percentile": 50}, "p50 TPOT 400.0 ms > 300 ms"),
        ({"e2e_s": 0.3, "percentile": 99}, "p99 time of a request 400.0 ms > 300 ms"),
    ],
)
def test_gate_names_the_objective_that_is_missed(limits: dict[str, Any], reason: str):
    (latency, _), *_ = limits.items()
    slo = Slo(**limits)
    candidate = changed(PLAIN, latency, **{f"p{slo.percentile}": 0.4})
    assert judge(candidate, None, slo).reasons == (reason,)
    assert judge(candidate, None, Slo()).stays


def test_gate_drops_what_is_unstable():
    stopped = replace(PLAIN, stable=False, n_unfinished=1234)
    assert judge(stopped, None, Slo()).reasons == (
        "unstable: the load is above what it can serve, 1,234 requests unfinished",
    )
    assert judge(replace(PLAIN, stable=False), None, Slo()).reasons == (
        "unstable: the load is above what it can serve",
    )


def test_gate_compares_tails_with_no_speculation():
    slower = changed(PLAIN, "tpot_s", p90=1.03 * (PLAIN.tpot_s.p90 or 0.0))
    assert judge(slower, PLAIN, Slo()).reasons == ("p90 TPOT 10.3 ms, without speculation 10.0 ms",)
    assert judge(slower, None, Slo()).stays
    assert judge(slower, replace(PLAIN, stable=False), Slo()).stays
    assert judge(slower, PLAIN, Slo(percentile=50)).stays
    hardly = changed(PLAIN, "tpot_s", p90=1.01 * (PLAIN.tpot_s.p90 or 0.0))
    assert judge(hardly, PLAIN, Slo()).stays


def test_gate_compares_waiting_by_the_time_of_a_whole_request():
    whole_s = PLAIN.e2e_s.p90 or 0.0
    longer = changed(PLAIN, "wait_s", p90=(PLAIN.wait_s.p90 or 0.0) + 0.03 * whole_s)
    (reason,) = judge(longer, PLAIN, Slo()).reasons
    assert reason.startswith("p90 waiting ")
    shorter = changed(PLAIN, "wait_s", p90=(PLAIN.wait_s.p90 or 0.0) + 0.01 * whole_s)
    assert judge(shorter, PLAIN, Slo()).stays


def test_gate_leaves_waiting_to_an_objective_that_covers_it():
    longer = changed(PLAIN, "wait_s", p90=(PLAIN.wait_s.p90 or 0.0) + (PLAIN.e2e_s.p90 or 0.0))
    for slo, stays in ((Slo(ttft_s=99.0), True), (Slo(e2e_s=99.0), True), (Slo(tpot_s=99.0), False), (Slo(), False)):
        assert judge(longer, PLAIN, slo).stays == stays


def test_gate_keeps_what_just_meets_an_objective():
    assert judge(changed(PLAIN, "ttft_s", p90=0.3), None, Slo(ttft_s=0.3)).stays


def test_gate_says_everything_that_is_wrong():
    bad = replace(changed(PLAIN, "ttft_s", p90=9.0), stable=False)
    assert len(judge(bad, PLAIN, Slo(ttft_s=1.0)).reasons) == 2


def test_gate_judges_no_latency_that_nobody_had():
    nobody = changed(PLAIN, "tpot_s", p90=None)  # type: ignore[arg-type]
    assert judge(nobody, PLAIN, Slo(tpot_s=0.001)).stays
    assert tail(nobody.tpot_s, 90) is None


@pytest.mark.parametrize("changes", [{"ttft_s": 0.0}, {"tpot_s": -1.0}, {"e2e_s": float("nan")}, {"percentile": 95}])
def test_objectives_that_cannot_be_are_refused(changes: dict[str, Any]):
    with pytest.raises(ValueError, match=f"^{next(iter(changes))}"):
        Slo(**changes)


def test_requests_keep_limits_up_to_the_limit_itself():
    rows = pl.DataFrame(
        {
            "arrival_s": [0.0, 0.0, 0.0],
            "scheduled_s": [0.0, 0.5, 0.0],
            "first_token_s": [1.0, 1.5, 1.0],
            "end_s": [3.0, 3.5, 1.0],
            "output_tokens": [5, 5, 1],
        }
    )
    known = rows.select(**latencies())
    assert known["tpot_s"].to_list() == [0.5, 0.5, None]
    assert known["wait_s"].to_list() == [0.0, 0.5, 0.0]
    for slo, expected in (
        (Slo(), [True, True, True]),
        (Slo(ttft_s=1.0), [True, False, True]),
        (Slo(tpot_s=0.4), [False, False, True]),
        (Slo(tpot_s=0.5, e2e_s=3.0), [True, False, True]),
    ):
        assert rows.select(kept=keeps(slo))["kept"].to_list() == expected


def test_waiting_that_grows_in_an_engine_without_pause_is_instability():
    rising = pl.int_range(0, 100, eager=True).to_numpy() * 0.5
    assert waiting_grew(rising, 100.0, 0.99)
    assert not waiting_grew(rising, 100.0, 0.6)  # a late burst for an engine that is idle otherwise
    assert not waiting_grew(rising, 0.0, 0.99)  # all at once
    assert not waiting_grew(rising[:49], 100.0, 0.99)  # too few to judge
    assert not waiting_grew(rising * 1e-3, 100.0, 0.99)  # too short to notice
    assert not waiting_grew(rising[::-1], 100.0, 0.99)
    rising[90] = 0.0  # the queue was empty again
    assert not waiting_grew(rising, 100.0, 0.99)
