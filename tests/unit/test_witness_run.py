"""Whole runs on invented time: what the replay says, what the verdict follows from, and what is blamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.jobs import CONTROL_STEPS, Job
from specbook.witness.result import ConfigurationResult, Control, Term, Verdict, WitnessResult
from specbook.witness.verdict import judge_replay
from tests.fake_witness import (
    ACCEPT_S,
    CONFIG,
    DRAFT_PASS_S,
    FOUR,
    POSITION_S,
    STEP_S,
    FakeClock,
    FakeDecoder,
    fake_witness,
)

CUT = Configuration(name="cut", drafter="small", draft_length=6, cut="entropy:1.5")
TREE = Configuration(name="tree", drafter="small", parents=(-1, -1, 0, 0, 1))


def _decoder(**changes: object) -> FakeDecoder:
    return FakeDecoder(FakeClock(), **changes)


def _only(result: WitnessResult) -> ConfigurationResult:
    (found,) = result.results
    return found


def _difference_s(result: ConfigurationResult) -> float:
    """Predicted − measured mean seconds per token; all requests are equally long."""
    measured = result.replay.tpot_s.mean()
    return float(measured - _measured_tpot(result))


def _measured_tpot(result: ConfigurationResult) -> float:
    return sum(term.measured_s for term in result.terms if term.name != "acceptance")


def in_the_run(factor: float) -> Callable[[Job, int], float]:
    """Longer in requests than in probes."""
    return lambda job, _: factor if job.kind == "speculative" else 1.0


@pytest.mark.parametrize("configuration", [FOUR, TREE])
def test_rounds_that_take_what_the_probe_says_are_replayed_to_the_last_bit(configuration: Configuration):
    result = fake_witness(_decoder(), replace(CONFIG, configurations=(configuration,)))
    found = _only(result)
    measured = result.requests.filter(kind="speculative").sort("prompt")["tpot_s"].to_numpy()
    assert sorted(found.replay.tpot_s) == sorted(measured)
    assert (found.replay.error, found.replay.error_low, found.replay.error_high) == (0.0, 0.0, 0.0)
    assert (found.verdict, result.verdict, found.fresh_probe) == ("pass", "pass", None)
    assert [term.difference_s for term in found.terms] == pytest.approx([0.0] * 4, abs=1e-15)


def test_cut_drafts_are_replayed_at_the_length_that_each_round_had():
    found = _only(fake_witness(_decoder(), replace(CONFIG, configurations=(CUT,))))
    expected = STEP_S + (found.replay.table.positions - 1) * (POSITION_S + DRAFT_PASS_S) + ACCEPT_S
    assert found.replay.table.seconds == pytest.approx(expected)
    assert found.replay.table.positions.size == 6
    assert found.replay.error == pytest.approx(0.0, abs=1e-12)


def test_the_first_round_counts_as_the_first_token_does():
    result = fake_witness(_decoder())
    row = result.requests.filter(kind="speculative").row(0, named=True)
    rounds = result.rounds.filter(order=row["order"])
    later_s = rounds.filter(pl.col("round") > 0)["period_s"].sum()
    assert row["ttft_s"] == rounds["period_s"][0]
    assert row["tpot_s"] == later_s / (row["n_tokens"] - 1)
    assert row["n_tokens"] == CONFIG.new_tokens == rounds["emitted"].sum()


def test_the_clock_says_what_speculation_gained():
    found = _only(fake_witness(_decoder()))
    alone_s = STEP_S + ACCEPT_S
    assert found.autoregressive.value_s == alone_s
    assert found.speedup == pytest.approx(alone_s / _measured_tpot(found))
    assert found.speedup_low <= found.speedup <= found.speedup_high


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        ({"verify": in_the_run(1.3)}, "verify"),
        ({"draft": in_the_run(4.0)}, "draft"),
        ({"overhead_s": lambda job, _: 0.004 * (job.kind == "speculative")}, "overhead"),
    ],
)
def test_a_run_that_is_slower_than_its_probe_fails_by_the_term_that_was(changes: dict[str, object], blamed: str):
    found = _only(fake_witness(_decoder(**changes)))
    assert found.verdict == "fail"
    assert found.replay.error_high < -0.08
    largest = max(found.terms, key=lambda term: abs(term.difference_s))
    assert largest.name == blamed
    assert f"most of it in {blamed}" in found.reasons[-1]
    assert sum(term.difference_s for term in found.terms) == pytest.approx(_difference_s(found))


def test_a_fresh_probe_is_run_after_a_failure_and_changes_no_verdict():
    decoder = _decoder(verify=in_the_run(1.3))
    found = _only(fake_witness(decoder))
    assert found.fresh_probe is not None
    assert found.fresh_probe.error_after == found.fresh_probe.error_before == found.replay.error
    assert [job.kind for job in decoder.done[-8:]] == ["probe"] * 8
    assert found.verdict == "fail"


def test_a_fresh_probe_tells_a_machine_that_changed_from_a_model_that_is_wrong():
    """Verify passes became slower between the probes and the requests, and are still slow when it is asked again."""
    probed: set[str] = set()

    def slower(job: Job, number: int) -> float:
        if job.kind == "probe" and job.prompt.identifier not in probed:
            if number == 15:
                probed.add(job.prompt.identifier)
            return 1.0
        return 1.3 if job.kind != "autoregressive" else 1.0

    found = _only(fake_witness(_decoder(verify=slower)))
    assert found.verdict == "fail"
    assert found.fresh_probe is not None
    assert found.fresh_probe.error_before < -0.08
    assert found.fresh_probe.error_after == pytest.approx(0.0, abs=1e-12)
    assert [term.difference_s for term in found.fresh_probe.terms] == pytest.approx([0.0] * 4, abs=1e-15)


def test_an_error_inside_the_gate_passes():
    found = _only(fake_witness(_decoder(verify=in_the_run(1.06))))
    assert -0.08 < found.replay.error < -0.03
    assert (found.verdict, found.fresh_probe) == ("pass", None)


def test_an_error_that_more_requests_could_bring_inside_is_inconclusive():
    """Half of the probes are as slow as the requests, so that nobody knows what a round takes."""

    def scattered(job: Job, _: int) -> float:
        slow = job.kind == "speculative" or (job.kind == "probe" and job.number % 2 == 0)
        return 1.35 if slow else 1.0

    found = _only(fake_witness(_decoder(verify=scattered), replace(CONFIG, n_prompts=4)))
    assert found.replay.error < -0.08 < found.replay.error_high
    assert found.verdict == "inconclusive"
    assert "run more prompts" in found.reasons[0]


def test_other_processes_make_it_inconclusive():
    clock = FakeClock(share=0.9)
    result = fake_witness(FakeDecoder(clock))
    assert (result.verdict, _only(result).replay.error) == ("inconclusive", 0.0)
    assert "other processes had the processor: the witness got 90%" in _only(result).reasons[0]


def test_a_second_process_on_another_processor_shows_in_the_load():
    # Long enough for a load average to say something.
    result = fake_witness(FakeDecoder(FakeClock(load=2.0)), replace(CONFIG, n_prompts=32))
    assert result.control.load_average == pytest.approx(2.0)
    assert result.control.reasons == ("2.0 processes ran in the mean, at most 1.5, the witness included",)
    assert result.verdict == "inconclusive"


def test_a_run_of_a_few_seconds_or_a_system_without_a_load_average_is_not_judged_by_it():
    short = fake_witness(FakeDecoder(FakeClock(load=9.0)), replace(CONFIG, n_prompts=2, new_tokens=8))
    silent = fake_witness(FakeDecoder(FakeClock(load=None)), replace(CONFIG, n_prompts=32))
    assert (short.control.load_average, silent.control.load_average) == (None, None)
    assert (short.control.is_quiet, silent.control.is_quiet) == (True, True)


def _is_control(job: Job) -> bool:
    return job.kind == "autoregressive" and job.new_tokens == CONTROL_STEPS


def test_steps_that_scatter_make_it_inconclusive():
    def scattered(job: Job, number: int) -> float:
        return 1.7 if _is_control(job) and number % 4 == 0 else 1.0

    result = fake_witness(_decoder(verify=scattered))
    assert result.control.spread > 0.5
    assert "scatter" in _only(result).reasons[0]
    assert result.verdict == "inconclusive"


def test_a_machine_that_drifts_makes_it_inconclusive():
    clock = FakeClock()
    decoder = FakeDecoder(clock, verify=lambda job, _: 1.0 + clock.time_s / 12.0 if _is_control(job) else 1.0)
    result = fake_witness(decoder)
    assert result.control.drift > 0.25
    assert "drift" in _only(result).reasons[0]
    assert result.verdict == "inconclusive"


def test_cold_steps_and_rounds_are_left_out():
    def cold(job: Job, number: int) -> float:
        n_cold = 8 if _is_control(job) else 5 if job.kind == "probe" else 0
        return 9.0 if number < n_cold else 1.0

    result = fake_witness(_decoder(verify=cold))
    assert (result.verdict, _only(result).replay.error) == ("pass", 0.0)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_token_that_differs_fails_whatever_the_noise(share: float):
    def broken(job: Job, place: int, token: int) -> int:
        return token + (job.kind == "speculative" and job.number == 2 and place >= 30)

    found = _only(fake_witness(FakeDecoder(FakeClock(share=share), token=broken)))
    assert (found.verdict, found.fresh_probe) == ("fail", None)
    assert not found.parity.is_equal
    assert (found.parity.n_requests, found.parity.n_tokens, found.parity.n_equal_tokens) == (8, 8 * 48, 8 * 48 - 18)
    assert found.parity.first_difference is not None
    assert ": token 31 is " in found.parity.first_difference
    assert found.reasons == (f"greedy tokens differ: {found.parity.first_difference}",)


def test_drawn_tokens_are_not_compared():
    warm = replace(FOUR, temperature=1.0)
    found = _only(fake_witness(_decoder(token=lambda job, *_: len(job.kind)), replace(CONFIG, configurations=(warm,))))
    assert (found.parity.n_requests, found.parity.is_equal, found.verdict) == (0, True, "pass")
    assert found.parity.why_not == "tokens are drawn at temperature 1, and only their distribution is the same"


def test_configurations_are_judged_one_by_one_and_the_run_by_the_worst():
    config = replace(CONFIG, configurations=(FOUR, replace(FOUR, name="two", draft_length=2)))

    def slow(job: Job, _: int) -> float:
        return 1.3 if job.kind == "speculative" and job.configuration == config.configurations[1] else 1.0

    result = fake_witness(_decoder(verify=slow), config)
    assert [each.verdict for each in result.results] == ["pass", "fail"]
    assert result.verdict == "fail"


def test_the_same_seed_gives_the_same_result():
    first, again = fake_witness(_decoder()), fake_witness(_decoder())
    assert first.requests.equals(again.requests)
    assert _only(first).speedup_low == _only(again).speedup_low


def _control(reasons: tuple[str, ...]) -> Control:
    return replace(fake_witness(_decoder(), replace(CONFIG, n_prompts=2, new_tokens=8)).control, reasons=reasons)


@pytest.mark.parametrize(
    ("error", "low", "high", "reasons", "verdict"),
    [
        (0.08, -0.2, 0.2, (), "pass"),
        (0.081, 0.0800001, 0.2, (), "fail"),
        (0.081, 0.08, 0.2, (), "inconclusive"),
        (-0.1, -0.2, -0.081, (), "fail"),
        (-0.1, -0.2, 0.3, (), "inconclusive"),
        (0.0, 0.0, 0.0, ("noisy",), "inconclusive"),
        (0.5, 0.4, 0.6, ("noisy",), "inconclusive"),
    ],
)
def test_the_rule(error: float, low: float, high: float, reasons: tuple[str, ...], verdict: Verdict):
    found = _only(fake_witness(_decoder(), replace(CONFIG, n_prompts=2, new_tokens=8)))
    off = replace(found.replay, error=error, error_low=low, error_high=high)
    given, told = judge_replay(off, _control(reasons), found.parity)
    assert given == verdict
    assert told


def test_results_that_contradict_themselves_are_refused():
    found = _only(fake_witness(_decoder(), replace(CONFIG, n_prompts=2, new_tokens=8)))
    with pytest.raises(ValueError, match="reasons must say"):
        replace(found, reasons=())
    with pytest.raises(ValueError, match="must lie in its interval"):
        replace(found, speedup_low=found.speedup + 1.0)
    with pytest.raises(ValueError, match="must be finite"):
        Term(name="verify", predicted_s=np.nan, measured_s=0.0)
    with pytest.raises(ValueError, match="first_difference"):
        replace(found.parity, n_equal_tokens=0)
    with pytest.raises(ValueError, match="blocks"):
        Control(blocks=(), load_average=None, reasons=())


def test_results_belong_to_their_configurations():
    result = fake_witness(_decoder(), replace(CONFIG, n_prompts=2, new_tokens=8))
    other = WitnessConfig(configurations=(replace(FOUR, name="other"),), n_prompts=2, new_tokens=8)
    with pytest.raises(ValueError, match="results must be those of the configurations"):
        replace(result, config=other)
