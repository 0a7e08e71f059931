"""The 95 % intervals cover 95 %: prompts with acceptance of their own, files imported as users have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.acceptance.estimates import product_limit
from specbook.acceptance.importing import import_profile
from specbook.acceptance.intervals import mean_length, percentile_interval, resampled_sums

DRAFT_LENGTH = 4
N_EXPERIMENTS = 1500


def _prompts(n_prompts: int, rng: np.random.Generator) -> np.ndarray:
    """Rounds by accepted tokens of prompts whose acceptance and length differ, as those of people do."""
    acceptance = rng.beta(4.0, 1.5, size=n_prompts)
    rounds = rng.integers(20, 90, size=n_prompts)
    marginal = acceptance[:, None] ** np.arange(DRAFT_LENGTH + 2)
    marginal[:, -1] = 0.0
    return rng.multinomial(rounds, -np.diff(marginal, axis=1))


def _truth(rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Length and marginal acceptance of the population, from very many prompts."""
    counts = _prompts(1_000_000, rng).sum(axis=0)
    at_least = counts[::-1].cumsum()[::-1]
    marginal = at_least[1:] / counts.sum()
    return 1.0 + float(marginal.sum()), marginal


def _sums(counts: np.ndarray) -> np.ndarray:
    at_least = counts[:, ::-1].cumsum(axis=1)[:, ::-1]
    return np.concatenate([counts @ np.arange(DRAFT_LENGTH + 1)[:, None], at_least], axis=1).astype(float)


@pytest.mark.parametrize("n_prompts", [20, 80, 400])
def test_intervals_of_length_and_positions_cover_95_percent(n_prompts: int):
    rng = np.random.default_rng(480 + n_prompts)
    length, marginal = _truth(rng)
    hits = np.zeros(1 + DRAFT_LENGTH)
    for _ in range(N_EXPERIMENTS):
        sums = resampled_sums(_sums(_prompts(n_prompts, rng)), 400, rng)
        estimates, _ = product_limit(sums[:, 1:-1], sums[:, 2:])
        values = np.column_stack([1.0 + sums[:, 0] / sums[:, 1], estimates])
        ends = percentile_interval(values, n_prompts)
        hits += (ends[:, 0] <= [length, *marginal]) & ([length, *marginal] <= ends[:, 1])
    coverage = hits / N_EXPERIMENTS
    assert np.all((coverage >= 0.93) & (coverage <= 0.97)), coverage


def _coverage(n_prompts: int, draw: Any, length: float, rng: np.random.Generator, n_experiments: int) -> float:
    hits = 0
    for _ in range(n_experiments):
        sums = resampled_sums(_sums(draw(n_prompts, rng))[:, [1, 0]], 400, rng)
        lower, upper = percentile_interval(mean_length(sums), n_prompts)
        hits += lower <= length <= upper
    return hits / n_experiments


def test_interval_of_ten_prompts_covers_a_little_less():
    rng = np.random.default_rng(10)
    length, _ = _truth(rng)
    assert 0.91 <= _coverage(10, _prompts, length, rng, 2000) <= 0.97


def _skewed(n_prompts: int, rng: np.random.Generator) -> np.ndarray:
    """Lognormal numbers of rounds, where long answers are also the easy ones."""
    ease = rng.normal(size=n_prompts)
    acceptance = 1.0 / (1.0 + np.exp(-(0.8 + 0.8 * ease)))
    rounds = np.exp(3.5 + 0.9 * (0.5 * ease + 0.87 * rng.normal(size=n_prompts)))
    marginal = acceptance[:, None] ** np.arange(DRAFT_LENGTH + 2)
    marginal[:, -1] = 0.0
    return rng.multinomial(np.maximum(rounds, 1.0).astype(int), -np.diff(marginal, axis=1))


@pytest.mark.parametrize(("n_prompts", "fewest"), [(20, 0.86), (80, 0.89), (400, 0.92)])
def test_interval_of_skewed_prompts_covers_less_and_comes_closer(n_prompts: int, fewest: float):
    """What the documentation admits: below 95 %, by less the more prompts there are."""
    rng = np.random.default_rng(n_prompts)
    counts = _skewed(1_000_000, rng).sum(axis=0)
    length = 1.0 + float(counts @ np.arange(DRAFT_LENGTH + 1) / counts.sum())
    assert fewest <= _coverage(n_prompts, _skewed, length, rng, 1000) <= 0.97


def test_intervals_of_imported_files_cover_95_percent(tmp_path: Path):
    """End to end, file and all, with fewer experiments: inside four standard errors of 95 %."""
    rng = np.random.default_rng(30)
    length, _ = _truth(rng)
    path, n_experiments, hits = tmp_path / "answers.jsonl", 400, 0
    for _ in range(n_experiments):
        lengths = [np.repeat(np.arange(1, DRAFT_LENGTH + 2), row).tolist() for row in _prompts(60, rng)]
        records = [{"choices": [{"accept_lengths": row}]} for row in lengths]
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        intervals = import_profile([path]).intervals
        assert intervals is not None
        lower, upper = intervals.mean_acceptance_length
        hits += lower <= length <= upper
    assert abs(hits / n_experiments - 0.95) < 4 * np.sqrt(0.95 * 0.05 / n_experiments)
