"""Acceptance algebra: values by hand, corners, leading axes, and every refusal."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.acceptance.yields import (
    conditional_from_marginal,
    expected_acceptance,
    expected_rounds,
    expected_tokens_per_round,
    greedy_acceptance,
    marginal_from_conditional,
    tokens_distribution,
    tokens_for_draft_length,
)

VECTOR_FUNCTIONS = [
    expected_tokens_per_round,
    marginal_from_conditional,
    tokens_distribution,
    lambda value: expected_rounds(value, 3),
]


@pytest.mark.parametrize(
    ("conditional", "tokens"),
    [([], 1.0), ([0.0] * 5, 1.0), ([1.0] * 5, 6.0), ([0.5], 1.5), ([0.5, 0.5, 0.5], 1.875), ([0.0, 1.0], 1.0)],
)
def test_expected_tokens_corner_is_exact(conditional: list[float], tokens: float):
    assert expected_tokens_per_round(conditional) == tokens


def test_expected_tokens_unequal_positions_by_hand():
    assert expected_tokens_per_round([0.9, 0.5, 0.2]) == pytest.approx(1 + 0.9 + 0.45 + 0.09, rel=1e-15)


def test_expected_tokens_leading_axes_are_kept():
    conditional = np.linspace(0.0, 1.0, 24).reshape(2, 3, 4)
    tokens = expected_tokens_per_round(conditional)
    assert tokens.shape == (2, 3)
    assert tokens[1, 2] == expected_tokens_per_round(conditional[1, 2])


def test_expected_tokens_no_speculation_on_leading_axes_is_one():
    assert expected_tokens_per_round(np.empty((2, 3, 0))).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("function", VECTOR_FUNCTIONS)
@pytest.mark.parametrize(
    ("conditional", "message"),
    [
        (0.8, r"conditional_acceptance needs a draft axis; got a scalar"),
        ([0.5, 1.2], r"conditional_acceptance must lie in \[0, 1\]; got 1\.2"),
        ([-0.1], r"conditional_acceptance must lie in \[0, 1\]; got -0\.1"),
        ([0.5, np.nan], r"conditional_acceptance must lie in \[0, 1\]; got nan"),
        ([[0.5, 0.5], [0.5, np.inf]], r"conditional_acceptance must lie in \[0, 1\]; got inf"),
    ],
)
def test_conditional_acceptance_bad_vector_is_refused(function, conditional: object, message: str):
    with pytest.raises(ValueError, match=message):
        function(conditional)


def test_marginal_from_conditional_is_a_running_product():
    assert marginal_from_conditional([0.5, 0.5, 0.0, 1.0]).tolist() == [0.5, 0.25, 0.0, 0.0]


def test_conditional_from_marginal_never_reached_position_is_unknown():
    conditional = conditional_from_marginal([0.8, 0.4, 0.0, 0.0])
    assert conditional[:3].tolist() == [0.8, 0.5, 0.0]
    assert np.isnan(conditional[3])


def test_conditional_from_marginal_empty_vector_is_empty():
    assert conditional_from_marginal([]).shape == (0,)
    assert conditional_from_marginal(np.empty((3, 0))).shape == (3, 0)


def test_conditional_from_marginal_rows_are_independent():
    conditional = conditional_from_marginal([[0.0, 0.0], [0.5, 0.5]])
    assert conditional[1].tolist() == [0.5, 1.0]
    assert conditional[0, 0] == 0.0
    assert np.isnan(conditional[0, 1])


@pytest.mark.parametrize(
    ("marginal", "message"),
    [
        (0.5, r"marginal_acceptance needs a draft axis; got a scalar"),
        ([0.5, 0.7], r"marginal_acceptance must not rise from one position to the next; got 0\.7"),
        ([1.5, 0.5], r"marginal_acceptance must lie in \[0, 1\]; got 1\.5"),
        ([np.nan, 0.5], r"marginal_acceptance must lie in \[0, 1\]; got nan"),
    ],
)
def test_conditional_from_marginal_bad_vector_is_refused(marginal: object, message: str):
    with pytest.raises(ValueError, match=message):
        conditional_from_marginal(marginal)


@pytest.mark.parametrize(("length", "tokens"), [(0, 1.0), (1, 1.8), (2, 2.2), (9, 2.2)])
def test_tokens_for_draft_length_counts_only_drafted_positions(length: int, tokens: float):
    assert tokens_for_draft_length(length, [0.8, 0.4]) == pytest.approx(tokens, rel=1e-15)


def test_tokens_for_draft_length_empty_vector_is_one():
    assert tokens_for_draft_length(3, []) == 1.0


def test_tokens_distribution_by_hand():
    assert tokens_distribution([0.5, 0.5]).tolist() == [0.5, 0.25, 0.25]
    assert tokens_distribution([]).tolist() == [1.0]
    assert tokens_distribution([1.0, 1.0]).tolist() == [0.0, 0.0, 1.0]
    assert tokens_distribution([0.0, 1.0]).tolist() == [1.0, 0.0, 0.0]


def test_tokens_distribution_leading_axes_are_kept():
    assert tokens_distribution(np.full((2, 5, 3), 0.5)).shape == (2, 5, 4)


@pytest.mark.parametrize(
    ("conditional", "n_tokens", "rounds"),
    [
        ([0.8] * 4, 0, 0.0),
        ([0.8] * 4, 1, 1.0),
        ([], 7, 7.0),
        ([0.0] * 3, 7, 7.0),
        ([1.0] * 3, 8, 2.0),
        ([1.0] * 3, 9, 3.0),
        ([0.5], 2, 1.5),
        ([0.5], 3, 2.25),
    ],
)
def test_expected_rounds_short_sequence_by_hand(conditional: list[float], n_tokens: int, rounds: float):
    assert expected_rounds(conditional, n_tokens) == pytest.approx(rounds, rel=1e-14)


def test_expected_rounds_leading_axes_are_kept():
    rounds = expected_rounds([[0.0, 0.0], [1.0, 1.0]], 6)
    assert rounds.tolist() == [6.0, 2.0]


@pytest.mark.parametrize(
    ("n_tokens", "message"),
    [(-1, "whole and at least 0; got -1"), (2.5, "whole and at least 0; got 2.5"), (np.nan, "must be finite; got nan")],
)
def test_expected_rounds_bad_count_is_refused(n_tokens: float, message: str):
    with pytest.raises(ValueError, match=f"n_tokens .*{message}"):
        expected_rounds([0.5], n_tokens)


def test_expected_acceptance_by_hand():
    assert expected_acceptance([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]) == 0.5
    assert expected_acceptance([1.0, 0.0], [0.0, 1.0]) == 0.0
    assert expected_acceptance([0.3, 0.7], [0.3, 0.7]) == 1.0


def test_expected_acceptance_one_draft_for_many_targets_broadcasts():
    targets = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    assert expected_acceptance(targets, [0.25, 0.75]).tolist() == [0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("target", "draft", "message"),
    [
        ([0.5, 0.6], [0.5, 0.5], r"target_probability must sum to 1 along the last axis; got 1\.1"),
        ([0.5, 0.5], [0.5, 0.4], r"draft_probability must sum to 1 along the last axis; got 0\.9"),
        ([1.5, -0.5], [0.5, 0.5], r"target_probability must lie in \[0, 1\]; got 1\.5"),
        ([np.nan, 0.5], [0.5, 0.5], r"target_probability must lie in \[0, 1\]; got nan"),
        (1.0, [1.0], r"target_probability needs a vocabulary axis; got a scalar"),
        ([1.0], 1.0, r"draft_probability needs a vocabulary axis; got a scalar"),
        ([], [], r"target_probability must sum to 1"),
    ],
)
def test_expected_acceptance_no_distribution_is_refused(target: object, draft: object, message: str):
    with pytest.raises(ValueError, match=message):
        expected_acceptance(target, draft)


def test_expected_acceptance_float32_softmax_is_accepted():
    logits = np.sin(np.arange(150_000, dtype=np.float32))
    softmax = np.exp(logits) / np.exp(logits).sum(dtype=np.float32)
    assert expected_acceptance(softmax, softmax) == pytest.approx(1.0, abs=1e-5)


def test_greedy_acceptance_tie_goes_to_lowest_token():
    assert greedy_acceptance([1.0, 1.0, 0.0], [9.0, 8.0, 7.0])
    assert not greedy_acceptance([1.0, 1.0, 0.0], [0.0, 8.0, 7.0])


def test_greedy_acceptance_infinite_logits_are_compared():
    assert greedy_acceptance([-np.inf, 0.0], [-np.inf, -5.0])


@pytest.mark.parametrize("bad", ["target_scores", "draft_scores"])
def test_greedy_acceptance_nan_is_refused(bad: str):
    scores = {"target_scores": [1.0, 0.0], "draft_scores": [1.0, 0.0], bad: [np.nan, 0.0]}
    with pytest.raises(ValueError, match=rf"^{bad} must not hold NaN$"):
        greedy_acceptance(**scores)
