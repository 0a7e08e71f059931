"""Figures that other projects published, through this package's own functions.

Sources: Leviathan et al. 2023 (arXiv 2211.17192), table 4 and equation (1); NVIDIA/Model-Optimizer#2247;
vllm-project/vllm#48892 and #26498; ggml-org/llama.cpp#24536; sgl-project/sglang#33518; Soup#843 (an H100 with
Llama-3.1-8B and Llama-3.2-1B).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from specbook.acceptance.candidates import draft_candidates
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile, profile_from_counts
from specbook.acceptance.yields import (
    conditional_from_marginal,
    expected_tokens_per_round,
    marginal_from_conditional,
    tokens_distribution,
    tokens_for_draft_length,
)
from specbook.roofline.speedup import round_seconds, speedup

LEVIATHAN_TABLE_4 = [
    ("EnDe small T=0", 7, 0.75, 0.02, 3.2),
    ("EnDe base T=0", 7, 0.80, 0.04, 3.3),
    ("EnDe large T=0", 7, 0.82, 0.11, 2.5),
    ("EnDe small T=1", 7, 0.62, 0.02, 2.3),
    ("EnDe base T=1", 5, 0.68, 0.04, 2.4),
    ("EnDe large T=1", 3, 0.71, 0.11, 2.0),
    ("CNNDM small T=0", 5, 0.65, 0.02, 2.4),
    ("CNNDM base T=0", 5, 0.73, 0.04, 2.6),
    ("CNNDM large T=0", 3, 0.74, 0.11, 2.0),
    ("CNNDM small T=1", 5, 0.53, 0.02, 1.9),
    ("CNNDM base T=1", 3, 0.55, 0.04, 1.8),
    ("CNNDM large T=1", 3, 0.56, 0.11, 1.6),
]


def _speedup(alpha: float, length: int, cost: float) -> float:
    """Speedup with a drafter that takes ``cost`` of the target's time, verifying for free."""
    tokens = expected_tokens_per_round([alpha] * length)
    return float(speedup(tokens, 1.0, round_seconds(length, cost, 1.0)))


@pytest.mark.parametrize(("row", "length", "alpha", "cost", "expected"), LEVIATHAN_TABLE_4)
def test_leviathan_table_4_expected_column_is_met(row: str, length: int, alpha: float, cost: float, expected: float):
    assert _speedup(alpha, length, cost) == pytest.approx(expected, abs=0.07), row


def test_leviathan_table_4_nine_rows_meet_the_printed_digit():
    met = sum(
        round(_speedup(alpha, length, cost), 1) == expected for _, length, alpha, cost, expected in LEVIATHAN_TABLE_4
    )
    assert met == 9


def test_four_drafts_at_eight_tenths_yield_3_3616():
    assert expected_tokens_per_round([0.8] * 4) == pytest.approx(3.3616, abs=1e-12)


@pytest.mark.parametrize("length", [0, 1, 2, 4, 8, 16, 64])
def test_constant_acceptance_meets_the_closed_form(length: int):
    alphas = np.concatenate([np.linspace(0.0, 0.99, 100), 1.0 - np.logspace(-3, -7, 9)])
    conditional = np.repeat(alphas[:, None], length, axis=1)
    closed = (1.0 - alphas ** (length + 1)) / (1.0 - alphas)
    np.testing.assert_allclose(expected_tokens_per_round(conditional), closed, rtol=3e-9)


def test_constant_acceptance_of_one_is_the_limit_of_the_closed_form():
    near = expected_tokens_per_round([1.0 - 1e-12] * 8)
    assert near == pytest.approx(9.0, abs=1e-9)
    assert expected_tokens_per_round([1.0] * 8) == 9.0


def test_constant_acceptance_distribution_is_a_capped_geometric():
    probability = tokens_distribution([0.7] * 5)
    np.testing.assert_allclose(probability, [*(0.3 * 0.7**j for j in range(5)), 0.7**5], rtol=1e-12)


def test_model_optimizer_2247_vectors_and_length_agree():
    conditional = [0.816, 0.777, 0.750]
    marginal = marginal_from_conditional(conditional)
    np.testing.assert_allclose(marginal, [0.816, 0.634, 0.475], atol=6e-4)
    np.testing.assert_allclose(marginal, [0.816, 0.634032, 0.475524], rtol=1e-12)
    assert expected_tokens_per_round(conditional) == pytest.approx(2.9256, abs=5e-5)
    np.testing.assert_allclose(conditional_from_marginal([0.816, 0.634, 0.475]), conditional, atol=1e-3)
    assert library_profile("model-optimizer-2247").mean_acceptance_length == 2.925


VLLM_48892_K8 = [0.7617, 0.6158, 0.5125, 0.4243, 0.3640, 0.3094, 0.2722, 0.2365]


def test_vllm_48892_at_eight_drafts_both_routes_give_4_496():
    assert tokens_for_draft_length(8, VLLM_48892_K8) == pytest.approx(4.496, abs=5e-4)
    profile = library_profile("vllm-48892-mtp-k8")
    assert profile.marginal_acceptance == VLLM_48892_K8
    assert (profile.n_rounds, profile.n_accepted_tokens) == (11_043, 38_611)
    assert profile.mean_acceptance_length == pytest.approx(4.496, abs=5e-4)
    assert draft_candidates([profile]).expected_tokens[-1] == pytest.approx(4.496, abs=5e-4)


def test_vllm_48892_truncating_eight_drafts_underrates_one():
    k1, k8 = (library_profile(f"vllm-48892-mtp-k{length}") for length in (1, 8))
    measured = draft_candidates([k1]).expected_tokens[1]
    truncated = draft_candidates([k8], assume="truncation", max_draft_length=1).expected_tokens[1]
    assert measured == pytest.approx(1.834, abs=5e-4)
    assert truncated == pytest.approx(1.762, abs=5e-4)


def test_vllm_26498_at_ten_drafts_gives_3_64():
    marginal = [0.74, 0.54, 0.41, 0.30, 0.22, 0.16, 0.12, 0.08, 0.05, 0.02]
    assert tokens_for_draft_length(10, marginal) == pytest.approx(3.64, abs=1e-12)


def test_llama_cpp_24536_both_routes_give_2_92():
    assert tokens_for_draft_length(3, [0.805, 0.632, 0.483]) == pytest.approx(2.92, abs=5e-3)
    totals = {"n_rounds": 87, "n_drafted_tokens": 259, "n_accepted_tokens": 167}
    profile = AcceptanceProfile(evidence="mean_length", mean_acceptance_length=1 + 167 / 87, **totals)
    assert profile.mean_acceptance_length == pytest.approx(2.92, abs=5e-3)


def test_sglang_33518_five_identities_hold():
    profile = profile_from_counts({5: [11, 14, 11, 4, 0, 3]}, draft_length=5)
    rounds, drafted, accepted = profile.n_rounds, profile.n_drafted_tokens, profile.n_accepted_tokens
    assert (rounds, accepted) == (43, 63)
    assert 43 + 63 == 106
    assert drafted == 215 == 43 * 5
    assert profile.mean_acceptance_length == pytest.approx(106 / 43, rel=1e-15)
    assert profile.draft_acceptance_rate == pytest.approx(63 / 215, rel=1e-15)
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(106 / 43, rel=1e-14)


SOUP_COST = 39.28 / 65.90


def test_soup_843_draft_costs_596_thousandths_of_the_target():
    assert pytest.approx(0.596, abs=5e-4) == SOUP_COST


@pytest.mark.parametrize(("length", "expected"), [(1, 1.136), (2, 1.129), (5, 0.956)])
def test_soup_843_speedups_are_met(length: int, expected: float):
    assert _speedup(0.813, length, SOUP_COST) == pytest.approx(expected, abs=5e-4)


def test_soup_843_break_even_acceptance_and_cap_are_met():
    break_even = brentq(lambda alpha: _speedup(alpha, 5, SOUP_COST) - 1.0, 0.1, 0.999)
    assert break_even == pytest.approx(0.832, abs=5e-4)
    assert _speedup(1.0, 5, SOUP_COST) == pytest.approx(1.507, abs=5e-4)
