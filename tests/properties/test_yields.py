"""Acceptance algebra: bounds, monotonicity, round trips."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

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

ROUNDING = 1e-14
PROBABILITY = st.floats(0.0, 1.0)
VECTORS = hnp.arrays(np.float64, st.integers(0, 16), elements=PROBABILITY)
GRIDS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=PROBABILITY)


@st.composite
def distributions(draw: st.DrawFn, n_tokens: int) -> np.ndarray:
    weights = draw(hnp.arrays(np.float64, n_tokens, elements=st.floats(0.0, 1.0)))
    assume(weights.sum() > 1e-6)
    return weights / weights.sum()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n_tokens = draw(st.integers(1, 12))
    return draw(distributions(n_tokens)), draw(distributions(n_tokens))


@given(GRIDS)
def test_tokens_lie_between_one_and_all(conditional: np.ndarray):
    tokens = expected_tokens_per_round(conditional)
    assert tokens.shape == conditional.shape[:-1]
    assert np.all(tokens >= 1.0)
    assert np.all(tokens <= conditional.shape[-1] + 1.0)


@given(VECTORS, st.data())
def test_tokens_never_fall_when_one_acceptance_rises(conditional: np.ndarray, data: st.DataObject):
    assume(conditional.size > 0)
    raised = conditional.copy()
    position = data.draw(st.integers(0, conditional.size - 1))
    raised[position] = data.draw(st.floats(conditional[position], 1.0))
    assert expected_tokens_per_round(raised) >= expected_tokens_per_round(conditional) * (1 - ROUNDING)


@given(VECTORS, PROBABILITY)
def test_tokens_never_fall_with_one_more_position(conditional: np.ndarray, more: float):
    assert expected_tokens_per_round([*conditional, more]) >= expected_tokens_per_round(conditional) * (1 - ROUNDING)


@given(GRIDS)
def test_rows_of_a_grid_equal_rows_alone(conditional: np.ndarray):
    tokens = expected_tokens_per_round(conditional)
    for index in np.ndindex(tokens.shape):
        np.testing.assert_allclose(tokens[index], expected_tokens_per_round(conditional[index]), rtol=1e-14)


@given(hnp.arrays(np.float64, st.integers(0, 12), elements=st.floats(0.01, 1.0)))
def test_conditional_survives_the_round_trip(conditional: np.ndarray):
    np.testing.assert_allclose(
        conditional_from_marginal(marginal_from_conditional(conditional)), conditional, rtol=1e-12
    )


@given(VECTORS)
def test_marginal_survives_the_round_trip(values: np.ndarray):
    marginal = np.sort(values)[::-1]
    conditional = conditional_from_marginal(marginal)
    known = ~np.isnan(conditional)
    assert np.all((conditional[known] >= 0.0) & (conditional[known] <= 1.0))
    again = marginal_from_conditional(np.where(known, conditional, 0.0))
    np.testing.assert_allclose(again, marginal, rtol=1e-12, atol=1e-300)


@given(GRIDS)
def test_marginal_never_rises(conditional: np.ndarray):
    marginal = marginal_from_conditional(conditional)
    assert np.all(np.diff(marginal, axis=-1) <= 0.0)
    assert np.all(marginal <= conditional)


@given(GRIDS)
def test_tokens_distribution_sums_to_one_and_has_the_mean(conditional: np.ndarray):
    probability = tokens_distribution(conditional)
    assert np.all(probability >= 0.0)
    np.testing.assert_allclose(probability.sum(axis=-1), 1.0, rtol=1e-13)
    mean = probability @ np.arange(1, conditional.shape[-1] + 2)
    np.testing.assert_allclose(mean, expected_tokens_per_round(conditional), rtol=1e-12)


@given(VECTORS, st.integers(0, 20))
def test_tokens_for_draft_length_equals_the_cut_vector(conditional: np.ndarray, length: int):
    tokens = tokens_for_draft_length(length, marginal_from_conditional(conditional))
    np.testing.assert_allclose(tokens, expected_tokens_per_round(conditional[:length]), rtol=1e-13)


@given(VECTORS, st.integers(0, 60))
def test_expected_rounds_lie_between_their_bounds(conditional: np.ndarray, n_tokens: int):
    rounds = expected_rounds(conditional, n_tokens)
    slack = 1e-9 * (n_tokens + 1)
    assert -(-n_tokens // (conditional.size + 1)) - slack <= rounds <= n_tokens + slack
    assert rounds >= n_tokens / expected_tokens_per_round(conditional) - slack


@given(VECTORS, st.integers(0, 40))
def test_expected_rounds_of_a_longer_sequence_are_no_fewer(conditional: np.ndarray, n_tokens: int):
    shorter, longer = (float(expected_rounds(conditional, n)) for n in (n_tokens, n_tokens + 1))
    assert shorter - 1e-9 <= longer <= shorter + 1.0 + 1e-9


@given(pairs())
def test_expected_acceptance_is_a_symmetric_share(pair: tuple[np.ndarray, np.ndarray]):
    target, draft = pair
    acceptance = expected_acceptance(target, draft)
    assert -1e-12 <= acceptance <= 1.0 + 1e-12
    assert acceptance == expected_acceptance(draft, target)
    np.testing.assert_allclose(acceptance, 1.0 - 0.5 * np.abs(target - draft).sum(), atol=1e-12)


@given(pairs())
def test_expected_acceptance_is_one_only_for_equal_distributions(pair: tuple[np.ndarray, np.ndarray]):
    target, draft = pair
    np.testing.assert_allclose(expected_acceptance(target, target), 1.0, rtol=1e-14)
    if np.abs(target - draft).max() > 1e-9:
        assert expected_acceptance(target, draft) < 1.0


@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(-50, 50)), st.floats(0.5, 4.0))
def test_greedy_acceptance_sees_only_the_order(scores: np.ndarray, temperature: float):
    assert np.all(greedy_acceptance(scores, scores))
    draft = np.roll(scores, 1, axis=0)
    assert np.array_equal(greedy_acceptance(scores, draft), np.argmax(scores, -1) == np.argmax(draft, -1))
    assert np.all(greedy_acceptance(np.round(scores), np.round(scores) / temperature))
