"""The cycle simulator against the algebra: exact means inside the simulator's own intervals as often as they should be.

Sources: Leviathan et al. 2023 (arXiv 2211.17192) for the law of a round; renewal theory for the number of rounds;
Wald's identity for tokens per round, which the stopping at the end of a sequence leaves unbiased.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import CyclesResult, simulate_cycles
from specbook.acceptance.draft_models import DraftModel, Empirical, EntropyAware, FixedAcceptance, PositionDecay
from specbook.acceptance.yields import expected_tokens_per_round

MODELS = (
    FixedAcceptance(acceptance=0.7),
    PositionDecay(base=0.95, factor=0.9),
    EntropyAware(),
    Empirical(marginal_acceptance=(0.8, 0.7, 0.2, 0.15), draft_length=4),
)


def _run(draft_model: DraftModel, seed: int, n_sequences: int = 100, tokens: int = 24) -> CyclesResult:
    config = CycleConfig(
        draft_model=draft_model, draft_length=4, n_sequences=n_sequences, tokens_per_sequence=tokens, seed=seed
    )
    return simulate_cycles(config)


@pytest.mark.parametrize("draft_model", MODELS, ids=lambda model: model.name)
def test_intervals_cover_the_exact_speedup_as_often_as_they_say(draft_model: DraftModel):
    results = [_run(draft_model, seed) for seed in range(1500)]
    inside = [low <= r.expected_speedup <= high for r in results for low, high in [r.speedup_interval]]
    rounds = [low <= r.expected_rounds <= high for r in results for low, high in [r.mean_rounds_interval]]
    assert inside == rounds
    assert 0.93 <= np.mean(inside) <= 0.97  # four standard errors of a share of 95 % are 0.0225


def test_intervals_of_few_sequences_are_as_wide_as_few_sequences_ask():
    results = [_run(EntropyAware(), seed, n_sequences=6, tokens=60) for seed in range(1500)]
    inside = [low <= r.expected_speedup <= high for r in results for low, high in [r.speedup_interval]]
    assert 0.93 <= np.mean(inside) <= 0.97


def _expected_rounds_by_enumeration(conditional: np.ndarray, n_tokens: int) -> float:
    """Mean rounds of a short sequence, over every outcome of every throw of as many rounds as it can take."""
    if n_tokens <= 0:
        return 0.0
    mean = 0.0
    for throws in itertools.product((True, False), repeat=conditional.size):
        probability = float(np.prod(np.where(throws, conditional, 1 - conditional)))
        accepted = throws.index(False) if False in throws else conditional.size
        mean += probability * (1 + _expected_rounds_by_enumeration(conditional, n_tokens - accepted - 1))
    return mean


@pytest.mark.parametrize("draft_model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("n_tokens", [1, 2, 5])
def test_exact_rounds_are_those_of_enumerating_every_throw(draft_model: DraftModel, n_tokens: int):
    enumerated = _expected_rounds_by_enumeration(draft_model.conditional_acceptance(4), n_tokens)
    assert _run(draft_model, 0, 2, n_tokens).expected_rounds == pytest.approx(enumerated, rel=1e-12)


@pytest.mark.parametrize("draft_model", MODELS, ids=lambda model: model.name)
def test_whole_rounds_yield_the_expected_tokens_however_short_the_sequence(draft_model: DraftModel):
    result = _run(draft_model, 1, n_sequences=40_000, tokens=3)
    exact = float(expected_tokens_per_round(draft_model.conditional_acceptance(4)))
    residual = result.accepted_tokens + result.rounds - exact * result.rounds  # of mean 0, by Wald
    error = residual.std(ddof=1) / np.sqrt(residual.size)
    assert abs(residual.mean()) <= 4 * error
    assert result.expected_draft_acceptance_rate == pytest.approx((exact - 1) / 4)
    assert result.mean_acceptance_length == pytest.approx(exact, abs=4 * error / result.mean_rounds)


def test_cut_last_round_costs_speed_and_less_of_it_the_longer_the_sequence():
    lost = [1 - r.expected_speedup / r.untruncated_speedup for r in (_run(MODELS[0], 0, 2, n) for n in (8, 64, 512))]
    assert lost[0] > lost[1] > lost[2] > 0
    assert lost[2] < 0.005


def _accepted_with_difficulties(model: EntropyAware, n_rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Accepted drafts of rounds of four tokens, each of which is first made easy or hard."""
    hard = rng.random((n_rounds, 4)) < model.hard_fraction
    taken = rng.random((n_rounds, 4)) < np.where(hard, model.hard_acceptance, model.easy_acceptance)
    return np.logical_and.accumulate(taken, axis=1).sum(axis=1)


@pytest.mark.parametrize("model", [EntropyAware(), EntropyAware(easy_acceptance=1.0, hard_acceptance=0.0)])
def test_rounds_with_explicit_difficulties_follow_the_constant_law(model: EntropyAware):
    n_rounds = 200_000
    counts = np.bincount(_accepted_with_difficulties(model, n_rounds, np.random.default_rng(1)), minlength=5)
    alpha = 1 - model.hard_fraction + model.hard_fraction * model.hard_acceptance
    alpha = alpha - (1 - model.hard_fraction) * (1 - model.easy_acceptance)
    expected = np.array([(1 - alpha) * alpha**j for j in range(4)] + [alpha**4])
    error = np.sqrt(expected * (1 - expected) / n_rounds)
    assert np.all(np.abs(counts / n_rounds - expected) <= 4 * error)
    assert model.conditional_acceptance(4) == pytest.approx([alpha] * 4)


def test_hard_tokens_in_runs_would_not_follow_the_constant_law():
    model, n_rounds, rng = EntropyAware(), 200_000, np.random.default_rng(2)
    hard = rng.random((n_rounds, 1)) < model.hard_fraction  # a whole round is hard or easy
    taken = rng.random((n_rounds, 4)) < np.where(hard, model.hard_acceptance, model.easy_acceptance)
    tokens = 1 + np.logical_and.accumulate(taken, axis=1).sum(axis=1)
    exact = float(expected_tokens_per_round(model.conditional_acceptance(4)))
    assert tokens.mean() > exact + 20 * tokens.std() / np.sqrt(n_rounds)


@pytest.mark.parametrize("draft_length", [1, 3, 8])
def test_fixed_acceptance_meets_equation_one_of_leviathan(draft_length: int):
    alpha, ratio = 0.8, 0.1
    config = CycleConfig(draft_model=FixedAcceptance(acceptance=alpha), draft_length=draft_length, n_sequences=1)
    exact = (1 - alpha ** (draft_length + 1)) / ((1 - alpha) * (draft_length * ratio + 1))
    assert simulate_cycles(config).untruncated_speedup == pytest.approx(exact, rel=1e-12)
