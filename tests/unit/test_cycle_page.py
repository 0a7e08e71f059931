"""The sliders of the chapter on draft models: what Vega evaluates on the page equals numpy to 1e-12."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.acceptance.cycle_audit import break_even_cost_ratio
from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import simulate_cycles
from specbook.acceptance.draft_models import FixedAcceptance
from specbook.acceptance.yields import expected_tokens_per_round
from specbook.display.cycle_page import MAX_DRAFT_LENGTH, cycle_page
from specbook.roofline.speedup import best_draft_length
from tests.unit.test_page_formula import _texts, vega_values

LENGTHS = np.arange(MAX_DRAFT_LENGTH + 1)


def _speedups(acceptance: float, cost_ratio: float) -> np.ndarray:
    tokens = np.array([expected_tokens_per_round([acceptance] * k) for k in LENGTHS])
    return tokens / (1.0 + LENGTHS * cost_ratio)


@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.83, 0.95, 1.0])
@pytest.mark.parametrize("cost_ratio", [0.0, 0.04, 0.5, 1.0])
def test_page_equals_numpy(acceptance: float, cost_ratio: float) -> None:
    spec = cycle_page(acceptance, cost_ratio).to_dict()
    expected = _speedups(acceptance, cost_ratio)
    np.testing.assert_allclose(vega_values(spec, "speedup", "K"), expected, rtol=1e-12)
    assert set(vega_values(spec, "best_draft_length", "K")) == {int(best_draft_length(expected, LENGTHS))}


@pytest.mark.parametrize("acceptance", [0.0, 0.5, 0.83, 1.0])
def test_page_break_even_is_that_of_the_audit(acceptance: float) -> None:
    values = vega_values(cycle_page(acceptance).to_dict(), "break_even", "K")[1:]
    expected = [break_even_cost_ratio([acceptance] * k) for k in LENGTHS[1:]]
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("draft_length", [0, 1, 15])
def test_page_is_the_simulator_without_the_cut(draft_length: int) -> None:
    model = FixedAcceptance(acceptance=0.9)
    config = CycleConfig(draft_model=model, draft_length=draft_length, draft_s=5e-5, n_sequences=1)
    value = vega_values(cycle_page(0.9, config.cost_ratio).to_dict(), "speedup", "K")[draft_length]
    assert value == pytest.approx(simulate_cycles(config).untruncated_speedup, rel=1e-12)


@pytest.mark.parametrize(
    ("place", "sentences"),
    [
        ((0.8, 0.1, 4), {"K = 4: 2.4011×, pays while c < 0.5904", "best: K = 6, 2.4696×"}),
        ((0.5, 0.5, 0), {"K = 0: 1.0000×, nothing is drafted", "best: draft nothing, as c ≥ α"}),
    ],
)
def test_page_says_what_it_shows(place: tuple[float, float, int], sentences: set[str]) -> None:
    import vl_convert

    graph = vl_convert.vegalite_to_scenegraph(cycle_page(*place).to_dict(), vl_version="6.4")
    assert sentences <= set(_texts(graph, []))
