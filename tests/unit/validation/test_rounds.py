"""What a predicted round is made of, of shipped rows; ``tests/theory`` writes rounds out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.roofline.engine_overheads import engine_overheads
from specbook.validation.published_errors import FITTED, comparable
from specbook.validation.rounds import TERMS, constants_of, part_of, predict_rounds


@pytest.mark.parametrize("engine", FITTED)
def test_rounds_of_shipped_rows_are_finite_and_add_up(engine: str):
    passes = comparable(engine).passes
    rounds = predict_rounds(passes, constants_of(engine_overheads(engine)))
    for name in TERMS:
        assert np.all(np.isfinite(getattr(rounds, name)))
        assert np.all(getattr(rounds, name) >= 0.0)
    total_s = sum(getattr(rounds, name) for name in TERMS)
    assert rounds.round_s.tolist() == pytest.approx(np.asarray(total_s).tolist(), rel=1e-12)
    # A round emits its tokens; what is outside decoding comes on top.
    tpot_s = rounds.round_s / passes.tokens_per_round + rounds.outside_s
    assert (rounds.speedup * tpot_s).tolist() == pytest.approx(rounds.baseline_s.tolist(), rel=1e-12)
    assert np.all(rounds.speedup < passes.tokens_per_round)


@pytest.mark.parametrize("engine", FITTED)
def test_a_step_is_beyond_the_model_or_scales_it_and_never_both(engine: str):
    passes = comparable(engine).passes
    rounds = predict_rounds(passes, constants_of(engine_overheads(engine)))
    step_s = rounds.baseline_s - rounds.outside_s
    is_beyond = step_s > passes.step_s
    assert np.array_equal(rounds.step_residual_s > 0.0, is_beyond)
    assert np.array_equal(rounds.verify_s == passes.verify_s, step_s >= passes.step_s)


def test_a_part_is_one_row_of_plain_numbers():
    rounds = predict_rounds(comparable("sglang").passes, np.zeros(4))
    part = part_of(rounds, 3)
    assert all(type(value) is float for value in part.values())
    assert part["speedup"] == rounds.speedup[3]
