"""Distributions from logits, at every temperature and truncation, and draws from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from specbook.engine.chance import Dice, outcomes
from specbook.engine.sampling import (
    GREEDY,
    SamplingConfig,
    distribution,
    draw_distinct,
    entropy_nats,
    logit_gap,
    one_hot,
)

SAMPLED = SamplingConfig(temperature=1.0)
LOGITS = np.log([0.1, 0.4, 0.2, 0.3])

logits_of = arrays(np.float64, st.integers(1, 8), elements=st.floats(-50, 50))


@st.composite
def samplings(draw: st.DrawFn) -> SamplingConfig:
    """Any temperature, top-k and top-p."""
    temperature = draw(st.sampled_from([0.0, 1e-300, 0.1, 1.0, 3.0, 1e6]))
    return SamplingConfig(temperature=temperature, top_k=draw(st.integers(0, 9)), top_p=draw(st.floats(1e-6, 1.0)))


@given(logits_of, samplings())
def test_distribution_any_logits_sums_to_one(logits: np.ndarray, sampling: SamplingConfig):
    probabilities = distribution(logits, sampling)
    assert probabilities.dtype == np.float64
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-14)
    assert (probabilities >= 0.0).all()


@given(logits_of, samplings())
def test_distribution_any_truncation_keeps_the_most_probable(logits: np.ndarray, sampling: SamplingConfig):
    whole = distribution(logits, SamplingConfig(temperature=sampling.temperature))
    kept = distribution(logits, sampling) > 0.0
    assert kept.sum() <= (sampling.top_k or len(logits))
    assert whole[kept].min() >= whole[~kept].max(initial=0.0)
    assert whole[kept].max() == whole.max()


def test_distribution_at_temperature_one_is_the_softmax():
    assert distribution(LOGITS + 700.0, SAMPLED) == pytest.approx([0.1, 0.4, 0.2, 0.3], abs=1e-13)


def test_distribution_at_temperature_half_squares_the_odds():
    wanted = np.array([1.0, 16.0, 4.0, 9.0]) / 30.0
    assert distribution(LOGITS, SamplingConfig(temperature=0.5)) == pytest.approx(wanted, abs=1e-13)


@pytest.mark.parametrize("temperature", [1e-300, 5e-324, 1e-12])
def test_distribution_at_tiny_temperature_is_the_greedy_one(temperature: float):
    logits = np.array([1.0, 3.0, 2.999, -1e30])
    assert distribution(logits, SamplingConfig(temperature=temperature)).tolist() == distribution(logits).tolist()


def test_distribution_at_tiny_temperature_shares_between_equal_tops():
    assert distribution(np.array([3.0, 1.0, 3.0]), SamplingConfig(temperature=1e-300)).tolist() == [0.5, 0.0, 0.5]


def test_distribution_greedy_tie_goes_to_the_lowest_id():
    assert distribution(np.array([1.0, 3.0, 3.0])).tolist() == [0.0, 1.0, 0.0]


def test_distribution_leading_axes_are_kept():
    rows = np.stack([[LOGITS, LOGITS[::-1]]] * 3)
    found = distribution(rows, SamplingConfig(temperature=1.0, top_k=2, top_p=0.9))
    assert found.shape == (3, 2, 4)
    assert np.array_equal(found[1, 1], found[1, 0][::-1])


@pytest.mark.parametrize(
    ("top_k", "wanted"),
    [(1, [0, 1, 0, 0]), (2, [0, 4 / 7, 0, 3 / 7]), (4, [0.1, 0.4, 0.2, 0.3]), (9, [0.1, 0.4, 0.2, 0.3])],
)
def test_distribution_top_k_keeps_the_most_probable(top_k: int, wanted: list[float]):
    found = distribution(LOGITS, SamplingConfig(temperature=1.0, top_k=top_k))
    assert found == pytest.approx(wanted, abs=1e-13)


def test_distribution_top_k_tie_at_the_edge_goes_to_the_lowest_ids():
    found = distribution(np.array([0.0, 1.0, 0.0, 0.0]), SamplingConfig(temperature=1.0, top_k=2))
    assert np.flatnonzero(found).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("top_p", "kept"), [(1e-9, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.76, 3), (0.875, 3), (1.0, 4)]
)
def test_distribution_top_p_keeps_the_fewest_that_reach_the_sum(top_p: float, kept: int):
    logits = np.log([0.5, 0.25, 0.125, 0.125])
    found = distribution(logits, SamplingConfig(temperature=1.0, top_p=top_p))
    assert np.flatnonzero(found).tolist() == list(range(kept))


def test_distribution_top_p_counts_what_top_k_left():
    # Of 0.4 and 0.3 the first is 0.571, which reaches 0.55, though 0.4 alone does not.
    found = distribution(LOGITS, SamplingConfig(temperature=1.0, top_k=2, top_p=0.55))
    assert found.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_distribution_minus_infinity_never_follows():
    logits = np.array([-np.inf, 0.0, -np.inf])
    for sampling in (GREEDY, SAMPLED, SamplingConfig(temperature=1e-300, top_k=2)):
        assert distribution(logits, sampling).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("logits", [[1.0, np.nan], [np.nan, np.nan], [1.0, np.inf], [-np.inf, -np.inf]])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_distribution_logits_without_a_finite_top_are_refused(logits: list[float], sampling: SamplingConfig):
    with pytest.raises(ValueError, match=r"^logits must not hold NaN, and the largest must be finite$"):
        distribution(np.array([[0.0, 1.0], logits]), sampling)


def test_distribution_does_not_change_its_argument():
    logits = LOGITS.copy()
    distribution(logits, SamplingConfig(temperature=0.5, top_k=2, top_p=0.5))
    assert np.array_equal(logits, LOGITS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -0.1}, r"temperature must not be negative; got -0\.1"),
        ({"temperature": math.nan}, r"temperature must be finite; got nan"),
        ({"top_k": -1}, r"top_k must be whole and at least 0; got -1\.0"),
        ({"top_k": 1.5}, r"top_k must be whole and at least 0; got 1\.5"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\]; got 0\.0"),
        ({"top_p": 1.1}, r"top_p must lie in \(0, 1\]; got 1\.1"),
        ({"top_p": math.nan}, r"top_p must lie in \(0, 1\]; got nan"),
    ],
)
def test_sampling_out_of_range_is_refused(values: dict[str, float], message: str):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        SamplingConfig(**values)


def test_draw_distinct_two_of_three_has_the_law_of_draws_without_replacement():
    p = np.array([0.5, 0.3, 0.2])
    law = outcomes(lambda chance: tuple(token for token, _ in draw_distinct(p, 2, chance)))
    wanted = {(a, b): p[a] * p[b] / (1.0 - p[a]) for a in range(3) for b in range(3) if a != b}
    assert law == pytest.approx(wanted, abs=1e-15)


def test_draw_distinct_states_what_each_was_drawn_from():
    (first, whole), (second, rest) = draw_distinct(np.array([0.5, 0.5, 0.0]), 2, Dice(np.random.default_rng(1)))
    assert {first, second} == {0, 1}
    assert whole.tolist() == [0.5, 0.5, 0.0]
    assert rest.tolist() == one_hot(second, 3).tolist()


@pytest.mark.parametrize(("n_tokens", "n_drawn"), [(0, 0), (1, 1), (2, 2), (5, 2)])
def test_draw_distinct_draws_no_more_than_are_possible(n_tokens: int, n_drawn: int):
    drawn = draw_distinct(np.array([0.5, 0.0, 0.5]), n_tokens, Dice(np.random.default_rng(1)))
    assert len({token for token, _ in drawn}) == len(drawn) == n_drawn


def test_dice_never_draws_what_has_no_probability():
    dice = Dice(np.random.default_rng(0))
    probabilities = np.array([0.0, 0.3, 0.0, 0.7, 0.0])
    assert {dice.draw(probabilities) for _ in range(300)} == {1, 3}


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1.0 - 2.0**-53])
def test_dice_any_uniform_number_gives_a_possible_token(uniform: float):
    class Fixed:
        def random(self) -> float:
            return uniform

    token = Dice(Fixed()).draw(np.array([0.0, 0.1, 0.2, 0.7, 0.0]) / 3.0)
    assert token == {0.0: 1, 0.5: 3}.get(uniform, 3)


def test_dice_draws_as_often_as_the_distribution_says():
    dice, probabilities = Dice(np.random.default_rng(7)), np.array([0.1, 0.2, 0.7])
    counts = np.bincount([dice.draw(probabilities) for _ in range(4000)], minlength=3)
    assert np.abs(counts / 4000 - probabilities).max() < 0.03  # four standard errors of 0.7 are 0.029


def test_dice_certain_and_impossible_are_decided_without_luck():
    dice = Dice(np.random.default_rng(0))
    assert all(dice.accepts(1.0) for _ in range(100))
    assert not any(dice.accepts(0.0) for _ in range(100))


def test_outcomes_nested_decisions_multiply():
    law = outcomes(lambda chance: (chance.draw(np.array([0.25, 0.0, 0.75])), chance.accepts(0.5)))
    assert law == {(0, False): 0.125, (0, True): 0.125, (2, False): 0.375, (2, True): 0.375}


def test_outcomes_without_decisions_is_certain():
    assert outcomes(lambda chance: "done") == {"done": 1.0}  # noqa: ARG005


@pytest.mark.parametrize(("n_possible", "nats"), [(1, 0.0), (2, math.log(2)), (5, math.log(5))])
def test_entropy_of_equal_shares_is_the_log_of_their_number(n_possible: int, nats: float):
    probabilities = np.zeros(7)
    probabilities[:n_possible] = 1.0 / n_possible
    assert entropy_nats(probabilities) == pytest.approx(nats, abs=1e-15)


def test_logit_gap_is_the_lead_of_the_top():
    assert logit_gap(np.array([1.0, -2.0, 1.25], np.float32)) == 0.25
    assert logit_gap(np.array([2.0, 2.0])) == 0.0
    assert math.isnan(logit_gap(np.array([1.0, np.nan])))
