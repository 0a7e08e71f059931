"""The rule of acceptance by hand: probabilities, residuals, and the walk down a draft."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from specbook.engine.chance import outcomes
from specbook.engine.draft import Draft
from specbook.engine.sampling import one_hot
from specbook.engine.verification import acceptance_probability, residual, verify

weights = arrays(np.float64, 5, elements=st.integers(0, 9).map(float)).filter(lambda values: values.sum() > 0.0)
distributions = weights.map(lambda values: values / values.sum())


class Script:
    """Decides as it is told, and takes the first possible token."""

    def __init__(self, *accepted: bool) -> None:
        self.accepted, self.asked = list(accepted), []

    def accepts(self, probability: float) -> bool:
        self.asked.append(probability)
        return self.accepted.pop(0)

    def draw(self, probabilities: np.ndarray) -> int:
        return int(np.flatnonzero(probabilities)[0])


def _chain(*tokens: int) -> Draft:
    draft = Draft()
    for node, token in enumerate(tokens):
        draft.add(token, node - 1, None)
    return draft


@pytest.mark.parametrize(
    ("p", "q", "wanted"),
    [(0.2, 0.4, 0.5), (0.4, 0.2, 1.0), (0.3, 0.3, 1.0), (0.0, 0.5, 0.0), (0.5, 0.0, 0.0), (1.0, 5e-324, 1.0)],
)
def test_acceptance_probability_is_the_ratio_at_most_one(p: float, q: float, wanted: float):
    assert acceptance_probability(np.array([p, 1 - p]), 0, np.array([q, 1 - q])) == wanted


def test_acceptance_probability_of_a_chosen_token_is_its_own():
    assert acceptance_probability(np.array([0.2, 0.8]), 0, None) == 0.2


@given(distributions, distributions)
def test_residual_any_pair_restores_the_target(target: np.ndarray, drawn_from: np.ndarray):
    accepted = [q * acceptance_probability(target, x, drawn_from) for x, q in enumerate(drawn_from)]
    rejected = drawn_from - accepted
    total = np.array(accepted)
    for token, probability in enumerate(rejected):
        if probability > 1e-12:
            total = total + probability * residual(target, token, drawn_from)
    assert total == pytest.approx(target, abs=1e-12)


@given(distributions, st.integers(0, 4))
def test_residual_of_a_chosen_token_is_the_target_without_it(target: np.ndarray, token: int):
    left = residual(target, token, None)
    if target[token] < 1.0:
        wanted = np.where(np.arange(5) == token, 0.0, target)
        assert left == pytest.approx(wanted / wanted.sum(), abs=1e-15)


def test_residual_of_equal_distributions_is_the_target_itself():
    target = np.array([0.25, 0.75])
    assert residual(target, 0, target.copy()).tolist() == [0.25, 0.75]


def test_residual_does_not_change_its_arguments():
    target, drawn_from = np.array([0.25, 0.75]), np.array([0.5, 0.5])
    residual(target, 0, None)
    residual(target, 0, drawn_from)
    assert (target.tolist(), drawn_from.tolist()) == ([0.25, 0.75], [0.5, 0.5])


def test_verify_empty_draft_draws_from_the_target():
    verdict = verify(Draft(), [one_hot(3, 5)], Script())
    assert (verdict.path, verdict.next_token, verdict.tried, verdict.kept) == ((), 3, (), ())


@pytest.mark.parametrize("n_accepted", range(4))
def test_verify_chain_stops_at_the_first_rejection(n_accepted: int):
    target = [np.full(5, 0.2)] * 4
    decisions = [True] * n_accepted + [False] * (n_accepted < 3)
    verdict = verify(_chain(0, 0, 0), target, Script(*decisions))
    assert verdict.path == tuple(range(n_accepted))
    assert verdict.next_token == (0 if n_accepted == 3 else 1)  # the residual has no token 0, the bonus has
    assert verdict.tried == (len(decisions),)
    assert sum(verdict.kept) == n_accepted


def test_verify_greedy_chain_is_accepted_while_it_agrees():
    target = [one_hot(token, 5) for token in (1, 2, 4, 0)]
    law = outcomes(lambda chance: verify(_chain(1, 2, 3), target, chance))
    (verdict,) = law
    assert (verdict.path, verdict.next_token) == ((0, 1), 4)
    assert law[verdict] == 1.0


def _family() -> Draft:
    """Two children of the root, the second with a child of its own, listed between them and after."""
    draft = Draft()
    draft.add(0, -1, None)
    draft.add(1, -1, None)
    draft.add(2, 0, None)
    draft.add(3, 1, None)
    return draft


def test_verify_tree_goes_on_below_the_sibling_that_stays():
    target = [np.full(5, 0.2)] * 5
    verdict = verify(_family(), target, Script(False, True, True))
    assert verdict.path == (1, 3)
    assert (verdict.tried, verdict.kept) == ((2, 1), (1, 1))


def test_verify_tree_tries_siblings_against_what_is_left():
    script = Script(False, False)
    verify(_family(), [np.array([0.5, 0.25, 0.25, 0.0, 0.0])] * 5, script)
    assert script.asked == [0.5, 0.5]


def test_verify_duplicate_sibling_is_never_accepted_after_a_rejection():
    draft = Draft()
    draft.add(0, -1, None)
    draft.add(0, -1, None)
    script = Script(False, False)
    verify(draft, [np.array([0.5, 0.5])] * 3, script)
    assert script.asked == [0.5, 0.0]


def test_verify_uses_the_distribution_behind_the_accepted_node():
    target = [np.full(5, 0.2), one_hot(0, 5), one_hot(3, 5), one_hot(0, 5), one_hot(4, 5)]
    verdict = verify(_family(), target, Script(False, True, True))
    assert (verdict.path, verdict.next_token) == ((1, 3), 4)
