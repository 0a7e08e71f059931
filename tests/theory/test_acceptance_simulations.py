"""Simulated speculation against the algebra, inside intervals of four standard errors.

Sources: Leviathan et al. 2023 (arXiv 2211.17192), sections 2.3 and 3; Kaplan and Meier 1958 for the product-limit
estimator and Greenwood's formula for its error; renewal theory for the number of rounds.
"""

from __future__ import annotations

import numpy as np
import pytest

from specbook.acceptance.profile import acceptance_from_counts, profile_from_counts
from specbook.acceptance.yields import (
    expected_acceptance,
    expected_rounds,
    expected_tokens_per_round,
    marginal_from_conditional,
    tokens_distribution,
)


def _accepted(conditional: np.ndarray, n_rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Accepted tokens of each round: drafts are judged in order until one is rejected."""
    accepted, alive = np.zeros(n_rounds, dtype=np.int64), np.ones(n_rounds, dtype=bool)
    for alpha in conditional:
        alive &= rng.random(n_rounds) < alpha
        accepted += alive
    return accepted


def _inside(sample: np.ndarray, expected: float) -> bool:
    error = sample.std(ddof=1) / np.sqrt(sample.size)
    return bool(abs(sample.mean() - expected) <= 4 * error)


@pytest.mark.parametrize("conditional", [[0.8] * 4, [0.95, 0.6, 0.3], [0.1], [0.99] * 16])
def test_simulated_rounds_yield_the_expected_tokens(conditional: list[float]):
    tokens = 1 + _accepted(np.asarray(conditional), 200_000, np.random.default_rng(1))
    assert _inside(tokens.astype(float), float(expected_tokens_per_round(conditional)))


def test_simulated_rounds_follow_the_distribution():
    conditional, n_rounds = [0.9, 0.5, 0.7], 200_000
    counts = np.bincount(_accepted(np.asarray(conditional), n_rounds, np.random.default_rng(2)), minlength=4)
    probability = tokens_distribution(conditional)
    error = np.sqrt(probability * (1 - probability) / n_rounds)
    assert np.all(np.abs(counts / n_rounds - probability) <= 4 * error)


def _rounds_to_emit(conditional: np.ndarray, n_tokens: int, n_sequences: int, rng: np.random.Generator) -> np.ndarray:
    left, rounds = np.full(n_sequences, n_tokens), np.zeros(n_sequences)
    while np.any(left > 0):
        rounds += left > 0
        left = left - 1 - _accepted(conditional, n_sequences, rng)
    return rounds


def test_expected_rounds_of_64_tokens_are_19_504():
    assert expected_rounds([0.8] * 4, 64) == pytest.approx(19.504, abs=5e-4)


@pytest.mark.parametrize(("conditional", "n_tokens"), [([0.8] * 4, 64), ([0.8] * 4, 5), ([0.9, 0.2, 0.9], 17)])
def test_simulated_sequences_need_the_expected_rounds(conditional: list[float], n_tokens: int):
    rounds = _rounds_to_emit(np.asarray(conditional), n_tokens, 20_000, np.random.default_rng(3))
    assert _inside(rounds, float(expected_rounds(conditional, n_tokens)))


def test_expected_rounds_meet_the_renewal_limit():
    conditional = [0.8, 0.6, 0.4]
    per_round = float(expected_tokens_per_round(conditional))
    step = float(expected_rounds(conditional, 801) - expected_rounds(conditional, 800))
    assert step == pytest.approx(1 / per_round, rel=1e-9)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_simulated_speculative_sampling_accepts_as_expected(temperature: float):
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(2, 12)) / temperature
    target, draft = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    drafted = rng.choice(12, size=400_000, p=draft)
    accepted = rng.random(drafted.size) < target[drafted] / draft[drafted]
    assert _inside(accepted.astype(float), float(expected_acceptance(target, draft)))


def _variable_drafts(conditional: np.ndarray, n_rounds: int, rng: np.random.Generator) -> dict[int, list[int]]:
    drafted = rng.choice(np.arange(1, 5), size=n_rounds, p=[0.4, 0.3, 0.2, 0.1])
    accepted = np.minimum(_accepted(conditional, n_rounds, rng), drafted)
    return {k: np.bincount(accepted[drafted == k], minlength=k + 1).tolist() for k in range(1, 5)}


def test_varied_drafts_product_limit_is_unbiased_and_the_plain_share_is_not():
    true = np.array([0.85, 0.7, 0.6, 0.5])
    table = _variable_drafts(true, 100_000, np.random.default_rng(5))
    marginal, conditional = acceptance_from_counts(table)
    reached = np.array([sum(sum(row[i:]) for k, row in table.items() if k > i) for i in range(4)])
    assert np.all(np.abs(conditional - true) <= 4 * np.sqrt(true * (1 - true) / reached))
    expected = marginal_from_conditional(true)
    greenwood = expected * np.sqrt(np.cumsum((1 - true) / (true * reached)))
    assert np.all(np.abs(marginal - expected) <= 4 * greenwood)
    n_rounds = sum(map(sum, table.values()))
    plain = np.array([sum(sum(row[i:]) for row in table.values()) / n_rounds for i in range(1, 5)])
    assert np.all(plain[1:] < expected[1:] - 20 * greenwood[1:])


def test_varied_drafts_pooled_length_is_below_that_of_full_drafts():
    profile = profile_from_counts(_variable_drafts(np.array([0.85, 0.7, 0.6, 0.5]), 20_000, np.random.default_rng(6)))
    assert profile.mean_acceptance_length is not None
    assert profile.mean_acceptance_length < 1 + sum(profile.marginal_acceptance or []) - 0.3
