"""Forecasts on invented time, where every number that a user has beforehand may be right or wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specbook.acceptance.intervals import standard_errors_to_ends
from specbook.acceptance.profile import AcceptanceProfile, profile_from_counts
from specbook.checks import BadInput
from specbook.hardware.probe.stored import stored_probe
from specbook.hardware.profile import HardwareProfile, catalogue_device
from specbook.roofline.drafting import SequentialDrafter
from specbook.serving.draft_time import ConstantDraft
from specbook.witness.config import WitnessConfig
from specbook.witness.forecast import Beforehand, ForecastTimes, forecast_times, profile_law, prompt_scatter
from specbook.witness.jobs import plan_jobs, prompts_of
from specbook.witness.native_costs import native_drafter, native_rates, native_target, target_step
from specbook.witness.period_table import PeriodTable
from specbook.witness.result import Forecast, TermName
from specbook.witness.run import run_witness, witness
from tests.fake_witness import ACCEPT_S, DRAFT_PASS_S, FOUR, POSITION_S, STEP_S, FakeClock, FakeDecoder

CONFIG = WitnessConfig(configurations=(FOUR,), new_tokens=64, n_prompts=30)
# What the invented engine accepts: each number of a chain as often as any other.
EVEN = profile_from_counts({4: [1, 1, 1, 1, 1]}, draft_length=4)


def _times() -> ForecastTimes:
    seconds = np.array([STEP_S, STEP_S + 4 * POSITION_S]) + ACCEPT_S
    table = PeriodTable(positions=np.array([1, 5]), seconds=seconds, slope_s=0.0)
    draft = ConstantDraft(seconds_per_pass=DRAFT_PASS_S)
    return ForecastTimes(hardware="invented", kind="by hand", iteration_time=table, draft_time=draft)


def _forecast(decoder: FakeDecoder, profile: AcceptanceProfile = EVEN, times: ForecastTimes | None = None) -> Forecast:
    known = {FOUR.name: Beforehand(times=times or _times(), acceptance=profile)}
    jobs = plan_jobs(CONFIG, prompts_of(CONFIG))
    (found,) = witness(CONFIG, jobs, decoder, decoder.clock, known=known, start_s=0.0).results
    assert found.forecast is not None
    return found.forecast


def _difference_s(found: Forecast, name: TermName) -> float:
    return next(term.difference_s for term in found.terms if term.name == name)


def test_a_forecast_that_knows_everything_is_off_by_luck_alone():
    found = _forecast(FakeDecoder(FakeClock()))
    assert found.error_low < 0.0 < found.error_high
    assert abs(found.error) < 0.1
    round_s = STEP_S + 4 * POSITION_S + 4 * DRAFT_PASS_S + ACCEPT_S
    # Tokens of first rounds are for free: 3 a round in the mean, and 61 of 63 gaps to fill, the last round cut.
    rounds_per_token = found.predicted.value_s / round_s
    assert 0.30 < rounds_per_token < 0.45
    assert found.speedup == pytest.approx((STEP_S + ACCEPT_S) * 63 / 21 / round_s, rel=0.05)
    assert (found.hardware, found.step_time_kind, found.acceptance) == ("invented", "by hand", EVEN)


def test_terms_add_up_to_what_the_mean_was_off():
    decoder = FakeDecoder(FakeClock(), verify=lambda job, _: 1.2 if job.kind == "speculative" else 1.0)
    found = _forecast(decoder)
    measured_s = sum(term.measured_s for term in found.terms if term.name != "acceptance")
    rounds = next(term for term in found.terms if term.name == "acceptance")
    assert sum(term.difference_s for term in found.terms) == pytest.approx(rounds.predicted_s - measured_s)
    # At the predicted time of a round, the predicted rounds per token are the predicted mean itself.
    assert rounds.predicted_s == pytest.approx((STEP_S + ACCEPT_S) / found.speedup)


@pytest.mark.parametrize(("name", "factor"), [("verify", {"verify": 1.5}), ("draft", {"draft": 5.0})])
def test_what_was_slower_than_forecast_is_told(name: TermName, factor: dict[str, float]):
    changes = {part: (lambda _job, _number, times=times: times) for part, times in factor.items()}
    found = _forecast(FakeDecoder(FakeClock(), **changes))
    assert found.error < -0.08
    assert max(found.terms, key=lambda term: abs(term.difference_s)).name == name


def test_acceptance_that_was_worse_than_forecast_is_told():
    found = _forecast(FakeDecoder(FakeClock()), profile_from_counts({4: [0, 0, 0, 0, 1]}, draft_length=4))
    assert found.error < -0.3
    assert _difference_s(found, "acceptance") < 3.0 * min(_difference_s(found, "verify"), _difference_s(found, "draft"))


def test_evidence_of_few_prompts_widens_the_interval():
    rows = {4: [10, 10, 10, 10, 10]}
    narrow = profile_from_counts(rows, draft_length=4)
    interval = {"n_prompts": 10, "n_replicates": 10, "seed": 0, "mean_acceptance_length": (2.0, 4.5)}
    wide = AcceptanceProfile.model_validate({**narrow.model_dump(by_alias=True), "intervals": interval})
    widths = [
        found.error_high - found.error_low for found in (_forecast(FakeDecoder(FakeClock()), p) for p in (narrow, wide))
    ]
    assert widths[1] > 1.5 * widths[0]


def _with_interval(n_prompts: int, standard_error: float) -> AcceptanceProfile:
    """A thousand rounds of the even law over prompts, with the interval that such an error has."""
    counted = profile_from_counts({4: [200] * 5}, draft_length=4)
    half = standard_errors_to_ends(n_prompts) * standard_error
    ends = (3.0 * math.exp(-half), 3.0 * math.exp(half))
    interval = {"n_prompts": n_prompts, "n_replicates": 10, "seed": 0, "mean_acceptance_length": ends}
    return AcceptanceProfile.model_validate({**counted.model_dump(by_alias=True), "intervals": interval})


@pytest.mark.parametrize("scatter", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("n_prompts", [10, 40])
def test_how_much_prompts_differ_is_told_from_the_interval_over_them(scatter: float, n_prompts: int):
    relative_variance = 2.0 / 9.0  # of 1 to 5 tokens, each as often
    error = math.sqrt((scatter**2 + relative_variance * n_prompts / 1000) / n_prompts)
    profile = _with_interval(n_prompts, error)
    assert prompt_scatter(profile, profile_law(profile, 4)) == pytest.approx(scatter, abs=1e-6)


def test_prompts_that_nothing_is_said_of_are_alike():
    narrow = _with_interval(20, 1e-4)
    assert prompt_scatter(EVEN, profile_law(EVEN, 4)) == prompt_scatter(narrow, profile_law(narrow, 4)) == 0.0


def test_prompts_that_differ_raise_the_tail_and_not_the_mean():
    alike, different = (_forecast(FakeDecoder(FakeClock()), p) for p in (EVEN, _with_interval(20, 0.3 / math.sqrt(20))))
    assert 1.15 < different.predicted.value_s / alike.predicted.value_s < 1.5
    # Four standard errors of two thousand requests.
    assert different.speedup == pytest.approx(alike.speedup, rel=4.0 * 0.3 / math.sqrt(2000))


def test_nothing_of_the_forecast_touches_the_verdict():
    decoder = FakeDecoder(FakeClock())
    jobs = plan_jobs(CONFIG, prompts_of(CONFIG))
    slow = replace(_times(), draft_time=ConstantDraft(seconds_per_pass=1.0))
    known = {FOUR.name: Beforehand(times=slow, acceptance=EVEN)}
    with_it = witness(CONFIG, jobs, decoder, decoder.clock, known=known, start_s=0.0).results[0]
    assert with_it.forecast is not None
    assert with_it.forecast.error > 1.0
    assert with_it.verdict == "pass"


def test_weaker_evidence_gives_a_law_too():
    marginal = AcceptanceProfile.model_validate(
        {"evidence": "marginal", "draft_length": 2, "marginal_acceptance": [0.8, 0.4], "provenance": []}
    )
    law = profile_law(marginal, 2)
    assert law.expected_tokens == pytest.approx(2.2)
    assert law.probability == pytest.approx((0.2, 0.4, 0.4))


@pytest.mark.parametrize(
    ("hardware", "config", "told"),
    [
        (catalogue_device("h100-sxm5"), CONFIG, "hardware = 'h100-sxm5': was not probed with the native engine"),
        (
            stored_probe("epyc-zen4-2core"),
            replace(CONFIG, arithmetic="naive"),
            "holds no calibration of naive, but of fast",
        ),
        (
            stored_probe("epyc-zen4-2core").model_copy(update={"calibrations": {}}),
            CONFIG,
            "holds no calibration of fast, but of none",
        ),
        (
            stored_probe("epyc-zen4-2core"),
            replace(CONFIG, configurations=(replace(FOUR, drafter="lookahead"),)),
            "drafter = 'lookahead': its verify passes are wider",
        ),
    ],
)
def test_a_forecast_that_cannot_be_made_is_refused_before_anything_runs(
    hardware: HardwareProfile, config: WitnessConfig, told: str
):
    with pytest.raises(BadInput) as caught:
        run_witness(config, hardware=hardware)
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["small", "eagle", "medusa", "early_exit", "prompt_lookup", "ngram", "tree"])
def test_every_other_drafter_has_a_cost_that_rises_with_the_draft(name: str):
    rates = native_rates(stored_probe("epyc-zen4-2core"), "fast")
    drafter, target = native_drafter(name, rates, 8), target_step(rates, 8)
    two, four = (float(drafter.seconds(depth, depth, 1, 128)) for depth in (2.0, 4.0))
    assert 0.0 < two <= four
    assert two < float(target(1, 1, 128)) or name == "early_exit"


def test_the_narrow_head_reads_what_its_weights_are():
    rates = native_rates(stored_probe("epyc-zen4-2core"), "fast")
    drafter = native_drafter("eagle", rates, 8)
    assert isinstance(drafter, SequentialDrafter)
    weights = 128 * 768 + 384 * 128 + 1024 * 384 + 256 * 128 + 128 * 128 + 704 * 128 + 128 * 352
    assert drafter.step.cost.dense_weight_bytes == 4 * weights


def test_the_cost_dial_lengthens_the_target_alone():
    rates = native_rates(stored_probe("epyc-zen4-2core"), "fast")
    assert native_target(1).n_parameters == 6_688_128
    assert float(target_step(rates, 8)(5, 1, 128)) > 2.0 * float(target_step(rates, 1)(5, 1, 128))
    small = [float(native_drafter("small", rates, dial).seconds(4.0, 4.0, 1, 128)) for dial in (1, 8)]
    assert small[0] == small[1]


def test_times_know_the_longest_text_of_the_run():
    times = forecast_times(FOUR, CONFIG, stored_probe("epyc-zen4-2core"), longest_prompt_tokens=90)
    assert float(times.iteration_time.decode_seconds(1, 5, np.array([90 + 64 + 4 + 1]))[0]) > 0.0
    with pytest.raises(BadInput):
        times.iteration_time.decode_seconds(1, 5, np.array([90 + 64 + 4 + 2]))
