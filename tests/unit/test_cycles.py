"""The cycle simulator where everything can be counted by hand, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import CyclesResult, simulate_cycles
from specbook.acceptance.draft_models import Empirical, EntropyAware, FixedAcceptance, PositionDecay
from specbook.checks import BadInput

ALWAYS, NEVER = FixedAcceptance(acceptance=1.0), FixedAcceptance(acceptance=0.0)
# Position 1 is always accepted, position 2 never: every round yields two tokens.
ONE_OF_TWO = PositionDecay(base=1.0, factor=0.0)


def _run(draft_model: Any = ALWAYS, draft_length: int = 4, **fields: Any) -> CyclesResult:
    return simulate_cycles(CycleConfig(draft_model=draft_model, draft_length=draft_length, **fields))


@pytest.mark.parametrize("tokens", [1, 7, 128])
def test_no_drafts_is_the_baseline_exactly(tokens: int):
    result = _run(FixedAcceptance(), 0, tokens_per_sequence=tokens, draft_s=1.0)
    assert result.speedup == result.expected_speedup == result.untruncated_speedup == 1.0
    assert result.speedup_interval == (1.0, 1.0)
    assert (result.rounds == tokens).all()
    assert not result.drafted_tokens.any()
    assert math.isnan(result.draft_acceptance_rate)
    assert math.isnan(result.waste)
    assert result.config.overhead == 0.0


def test_all_accepted_emits_drafts_and_bonus_every_round():
    result = _run(ALWAYS, 4, tokens_per_sequence=128, draft_s=1.0, verify_s=10.0)
    assert (result.rounds == 26).all()  # 25 rounds of 5, and 3 tokens of the last
    assert (result.accepted_tokens == 26 * 4).all()
    assert (result.kept_tokens == 25 * 4 + 3).all()
    assert result.expected_rounds == pytest.approx(26)
    assert result.speedup == pytest.approx(1280 / (26 * 14))
    assert result.untruncated_speedup == pytest.approx(5 * 10 / 14)
    assert (result.draft_acceptance_rate, result.waste) == (1.0, 0.0)


def test_none_accepted_pays_for_drafts_and_gains_nothing():
    result = _run(NEVER, 4, tokens_per_sequence=9, draft_s=1.0, verify_s=10.0)
    assert (result.rounds == 9).all()
    assert not result.kept_tokens.any()
    assert result.speedup == result.expected_speedup == pytest.approx(10 / 14)
    assert (result.draft_acceptance_rate, result.waste) == (0.0, 1.0)


def test_two_tokens_a_round_by_hand():
    result = _run(ONE_OF_TWO, 2, tokens_per_sequence=5, n_sequences=3, draft_s=1.0, verify_s=4.0)
    assert result.rounds.tolist() == [3, 3, 3]
    assert result.drafted_tokens.tolist() == [6, 6, 6]
    assert result.accepted_tokens.tolist() == [3, 3, 3]
    assert result.kept_tokens.tolist() == [3, 3, 3]  # the last round emits its draft and drops the correction
    assert result.mean_acceptance_length == 2.0
    assert result.emitted_tokens_per_round == pytest.approx(5 / 3)
    assert result.speedup == pytest.approx(5 * 4 / (3 * 6))
    assert result.config.overhead == pytest.approx(1 / 3)
    assert result.waste == 0.5


def test_last_round_drops_accepted_drafts_beyond_the_end():
    result = _run(ALWAYS, 4, tokens_per_sequence=3)
    assert (result.rounds == 1).all()
    assert (result.accepted_tokens == 4).all()
    assert (result.kept_tokens == 3).all()


def test_tokens_of_every_sequence_add_up():
    result = _run(FixedAcceptance(), 5)
    bonus = result.config.tokens_per_sequence - result.kept_tokens
    assert np.all((bonus == result.rounds) | (bonus == result.rounds - 1))
    assert np.all(result.kept_tokens <= result.accepted_tokens)
    assert np.all(result.accepted_tokens <= result.drafted_tokens)


def test_same_seed_same_result_other_seed_another():
    first, again, other = (_run(FixedAcceptance(), seed=seed) for seed in (1, 1, 2))
    assert first.rounds.tolist() == again.rounds.tolist()
    assert first.rounds.tolist() != other.rounds.tolist()


def test_costs_do_not_change_what_is_accepted():
    cheap, dear = (_run(FixedAcceptance(), draft_s=cost) for cost in (1e-6, 1e-4))
    assert cheap.rounds.tolist() == dear.rounds.tolist()
    assert cheap.speedup * cheap.config.round_s == pytest.approx(dear.speedup * dear.config.round_s)


def test_one_sequence_has_no_interval():
    result = _run(FixedAcceptance(), n_sequences=1)
    assert all(math.isnan(end) for end in (*result.speedup_interval, *result.mean_rounds_interval))
    assert result.frame["speedup_low"].to_list() == [None]


def test_interval_never_leaves_what_a_sequence_can_take():
    for seed in range(40):
        result = _run(FixedAcceptance(acceptance=0.9), 15, n_sequences=2, tokens_per_sequence=16, seed=seed)
        low, high = result.mean_rounds_interval
        if result.rounds[0] == result.rounds[1]:  # two alike say nothing of the spread
            assert np.isnan([low, high]).all()
            continue
        assert 1 <= low <= result.mean_rounds <= high <= 16
        assert result.speedup_interval[0] <= result.speedup <= result.speedup_interval[1]


def test_interval_is_students_t_over_sequences():
    result = _run(FixedAcceptance(acceptance=0.6), 3, n_sequences=7, tokens_per_sequence=64)
    error = stats.sem(result.rounds)
    expected = stats.t.interval(0.95, 6, loc=result.rounds.mean(), scale=error)
    np.testing.assert_allclose(result.mean_rounds_interval, expected)


def test_interval_of_sequences_that_happen_to_agree_is_unknown():
    """Fifty short sequences without one acceptance: that the next would be alike is not sure."""
    result = _run(FixedAcceptance(acceptance=0.0005), 1, n_sequences=50, tokens_per_sequence=5)
    assert set(result.rounds.tolist()) == {5}
    assert np.isnan(result.speedup_interval).all()
    assert result.row()["speedup_low"] is None


@pytest.mark.parametrize("acceptance", [0.0, 1.0])
def test_interval_of_sequences_that_must_agree_has_no_width(acceptance: float):
    result = _run(FixedAcceptance(acceptance=acceptance), 3, n_sequences=20, tokens_per_sequence=64)
    assert result.speedup_interval == (result.speedup, result.speedup)


@pytest.mark.parametrize("fields", [{"n_sequences": 5.0}, {"tokens_per_sequence": 128.0}, {"seed": True}])
def test_config_takes_whole_numbers_only(fields: dict[str, Any]):
    with pytest.raises(ValueError, match="must be an int"):
        CycleConfig(draft_model=FixedAcceptance(), **fields)


def test_frame_repeats_every_parameter_and_concatenates():
    results = [_run(model, 3) for model in (FixedAcceptance(), PositionDecay(), EntropyAware())]
    measured = Empirical(marginal_acceptance=(0.8, 0.5, 0.2), draft_length=3, source="mine")
    frame = pl.concat([result.frame for result in [*results, _run(measured, 3), _run(ALWAYS, 0)]])
    assert frame["draft_model"].to_list() == ["fixed", "position_decay", "entropy_aware", "empirical", "fixed"]
    assert frame["source"].to_list() == [None, None, None, "mine", None]
    assert frame["base"].to_list() == [None, 0.9, None, None, None]
    assert frame["waste"].null_count() == 1
    row = results[0].frame.row(0, named=True)
    assert (row["draft_length"], row["draft_s"], row["verify_s"], row["cost_ratio"]) == (3, 2e-5, 2e-4, 0.1)
    assert (row["n_sequences"], row["tokens_per_sequence"], row["seed"]) == (500, 128, 42)
    assert row["speedup"] == results[0].speedup


def test_progress_counts_every_token():
    steps: list[int] = []
    simulate_cycles(CycleConfig(draft_model=FixedAcceptance(), n_sequences=7, tokens_per_sequence=11), steps.append)
    assert sum(steps) == 77


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"draft_length": -1}, "draft_length must be whole and at least 0"),
        ({"draft_length": 4097}, "draft_length must be at most 4,096; got 4,097"),
        ({"draft_s": -1e-6}, "draft_s must not be negative"),
        ({"draft_s": math.inf}, "draft_s must be finite"),
        ({"verify_s": 0.0}, "verify_s must be greater than 0"),
        ({"verify_s": math.nan}, "verify_s must be finite"),
        ({"n_sequences": 0}, "n_sequences must be whole and at least 1"),
        ({"tokens_per_sequence": 0}, "tokens_per_sequence must be whole and at least 1"),
        ({"tokens_per_sequence": 10**6}, "tokens_per_sequence must be at most 100,000"),
        ({"seed": -1}, "seed must be whole and at least 0"),
        ({"seed": 10**400}, "seed must be at most 9,007,199,254,740,992"),
        ({"n_sequences": 10**12}, "n_sequences must be at most 16,777,216"),
        ({"n_sequences": 2**24}, r"n_sequences × \(draft_length \+ 1\) must be at most 16,777,216; got 100,663,296"),
        ({"n_sequences": 10**6, "tokens_per_sequence": 10**4}, "must be at most 1,000,000,000"),
    ],
)
def test_configurations_out_of_range_are_refused(fields: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        CycleConfig(**({"draft_model": FixedAcceptance()} | fields))


def test_configuration_that_the_draft_model_cannot_speak_for_is_refused():
    with pytest.raises(BadInput, match="measured at K = 2"):
        CycleConfig(draft_model=Empirical(marginal_acceptance=(0.8, 0.4), draft_length=2), draft_length=1)
