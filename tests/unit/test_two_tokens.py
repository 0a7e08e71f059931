"""The rule of acceptance on two tokens: formulas, the code that decides, and the page, all the same."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.display.two_tokens_page import two_tokens_page
from specbook.engine.chance import Chance, outcomes
from specbook.engine.draft import Draft
from specbook.engine.verification import verify
from specbook.parity.faults import planted
from specbook.parity.two_tokens import RULES, accepting_all, by_the_rule, without_residual
from tests.unit.test_page_formula import _texts, vega_values

PLACES = [(0.7, 0.4), (0.4, 0.7), (0.5, 0.5), (0.99, 0.01), (0.01, 0.99)]


def _law_of_the_engine(p: float, q: float) -> float:
    """Probability of token 0 from the engine's own rule, with a draft drawn from ``q``."""

    def run(chance: Chance) -> int:
        drawn_from = np.array([q, 1.0 - q])
        draft = Draft()
        draft.add(chance.draw(drawn_from), -1, drawn_from)
        target = np.array([p, 1.0 - p])
        verdict = verify(draft, [target, target], chance)
        return draft.tokens[0] if verdict.path else verdict.next_token

    return outcomes(run).get(0, 0.0)


@pytest.mark.parametrize(("p", "q"), PLACES)
def test_formulas_are_what_the_engine_does(p: float, q: float) -> None:
    assert by_the_rule(np.array(p), np.array(q)) == pytest.approx(p, abs=1e-15)
    assert _law_of_the_engine(p, q) == pytest.approx(p, abs=1e-15)
    with planted("forget the residual"):
        assert _law_of_the_engine(p, q) == pytest.approx(float(without_residual(p, q)), abs=1e-15)


@pytest.mark.parametrize(("p", "q"), PLACES)
def test_page_equals_numpy(p: float, q: float) -> None:
    values = vega_values(two_tokens_page(p, q).to_dict(), "law", "index")
    np.testing.assert_allclose(values, [float(rule(p, q)) for rule in RULES.values()], rtol=1e-12)


def test_wrong_rules_are_right_only_where_models_agree_or_the_target_is_certain() -> None:
    p, q = np.meshgrid(np.linspace(0.0, 1.0, 21), np.linspace(0.0, 1.0, 21))
    wrong = np.abs(without_residual(p, q) - p) > 1e-12
    assert (wrong == ((np.abs(p - q) > 1e-12) & (p > 0.0) & (p < 1.0))).all()
    assert (accepting_all(p, q) == q).all()


def test_page_says_how_often_a_draft_stays() -> None:
    import vl_convert

    graph = vl_convert.vegalite_to_scenegraph(two_tokens_page(0.7, 0.4).to_dict(), vl_version="6.4")
    assert "accepted: 0.700, target 0.70" in _texts(graph, [])
