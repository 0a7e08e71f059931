"""The predicted round against one written out by hand, against the product's own, and in its limits."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.roofline.drafting import drafter_of
from specbook.roofline.engine_overheads import EngineOverheads, engine_overheads
from specbook.roofline.hosted import engine_drafter, engine_step
from specbook.roofline.speedup import DraftingPair, round_times
from specbook.validation.passes import Passes, passes_of
from specbook.validation.rounds import TERMS, Rounds, constants_of, part_of, predict_rounds
from specbook.validation.settings import Setting, example_setting
from specbook.validation.step_times import StepTimes

NOTHING = np.zeros(4)
# Milliseconds by hand: a step of 10, a verify pass of 12, drafting of 1.5 in 3 passes, 2.5 tokens a round.
ROUND: dict[str, float] = {
    "step_s": 10e-3, "verify_s": 12e-3, "draft_s": 1.5e-3, "n_draft_passes": 3.0, "n_further_rows": 3.0,
    "n_small_rows": 3.0,
    "tokens_per_round": 2.5, "baseline_tpot_s": 10e-3, "fastest_tpot_s": 10e-3,
}  # fmt: skip


def _passes(**changes: float) -> Passes:
    values = ROUND | changes
    return Passes(**{item.name: np.array([values[item.name]]) for item in fields(Passes)})


def _speedup(passes: Passes, *constants: float) -> float:
    return float(predict_rounds(passes, np.array(constants or NOTHING)).speedup[0])


def test_nothing_but_passes_is_the_known_formula():
    # 2.5 · 10 ÷ (12 + 1.5)
    assert _speedup(_passes()) == pytest.approx(25 / 13.5, rel=1e-14)


def test_what_a_step_takes_beyond_the_model_a_round_takes_as_well():
    # Steps of 13 ms where the model has 10: 3 ms beside the products, in a round of 12 + 1.5 + 3.
    assert _speedup(_passes(baseline_tpot_s=13e-3, fastest_tpot_s=13e-3)) == pytest.approx(2.5 * 13 / 16.5, rel=1e-14)


def test_a_step_below_the_model_scales_its_verify_pass_down():
    # Steps of 8 ms where the model has 10: a verify pass of 12 · 0.8; drafting is not scaled.
    assert _speedup(_passes(baseline_tpot_s=8e-3, fastest_tpot_s=8e-3)) == pytest.approx(20 / (9.6 + 1.5), rel=1e-14)


def test_an_engine_adds_to_passes_and_to_the_round():
    # 3 passes of 0.2 ms and a round of 0.9 ms.
    assert _speedup(_passes(), 2e-4, 9e-4, 0.0, 0.0) == pytest.approx(25 / (13.5 + 0.6 + 0.9), rel=1e-14)


def test_kernels_of_few_rows_add_a_share_of_the_step_for_each_further_row():
    # 3 further rows of 0.1 of 10 ms.
    assert _speedup(_passes(), 0.0, 0.0, 0.1, 0.0) == pytest.approx(25 / (13.5 + 3.0), rel=1e-14)
    # They take the share of what a step lasts, not of what it was modelled to.
    slow = _passes(baseline_tpot_s=13e-3, fastest_tpot_s=13e-3)
    assert _speedup(slow, 0.0, 0.0, 0.1, 0.0) == pytest.approx(2.5 * 13 / (16.5 + 3.9), rel=1e-14)


def test_what_is_outside_decoding_is_there_with_and_without_speculation():
    # A tenth of 10 ms: a step of 9 ms, so that the verify pass is scaled by 0.9, and 1 ms a token beside it.
    tpot_ms = (12 * 0.9 + 1.5) / 2.5 + 1.0
    assert _speedup(_passes(), 0.0, 0.0, 0.0, 0.1) == pytest.approx(10 / tpot_ms, rel=1e-14)
    # A workload that takes 14 ms where the fastest takes 10: 4 ms outside, a step of 10.
    tpot_ms = 13.5 / 2.5 + 4.0
    assert _speedup(_passes(baseline_tpot_s=14e-3)) == pytest.approx(14 / tpot_ms, rel=1e-14)


def test_all_terms_together():
    # 16 ms a token where the fastest is 14; 5 % of that outside, so 2.7 ms; a step of 13.3, 3.3 ms beyond the model.
    passes = _passes(baseline_tpot_s=16e-3, fastest_tpot_s=14e-3)
    round_ms = 12.0 + 1.5 + 3 * 0.2 + 0.9 + 3 * 0.1 * 13.3 + 3.3
    assert _speedup(passes, 2e-4, 9e-4, 0.1, 0.05) == pytest.approx(16 / (round_ms / 2.5 + 2.7), rel=1e-14)


def test_terms_are_named_and_add_up():
    passes = _passes(baseline_tpot_s=16e-3, fastest_tpot_s=14e-3)
    terms = part_of(predict_rounds(passes, np.array([2e-4, 9e-4, 0.1, 0.05])), 0)
    assert terms["round_s"] == pytest.approx(sum(terms[name] for name in TERMS), rel=1e-14)
    in_ms = {name: round(1e3 * terms[name], 9) for name in TERMS}
    assert in_ms == {
        "draft_s": 1.5, "draft_floor_s": 0.6, "verify_s": 12.0, "verify_rows_s": 3.99, "step_residual_s": 3.3,
        "round_overhead_s": 0.9,
    }  # fmt: skip
    assert set(terms) == {item.name for item in fields(Rounds)}


def test_without_published_speeds_the_model_is_its_own_baseline():
    unknown = _passes(baseline_tpot_s=math.nan, fastest_tpot_s=math.nan)
    rounds = predict_rounds(unknown, np.array([0.0, 0.0, 0.0, 0.2]))
    assert rounds.baseline_s[0] == 10e-3
    assert rounds.outside_s[0] == 0.0  # a share of nothing that is known
    assert rounds.speedup[0] == pytest.approx(25 / 13.5, rel=1e-14)


def test_a_round_that_drafts_nothing_is_a_step():
    nothing = _passes(
        verify_s=10e-3, draft_s=0.0, n_draft_passes=0.0, n_further_rows=0.0, n_small_rows=0.0, tokens_per_round=1.0
    )
    for changes in ({}, {"baseline_tpot_s": 13e-3, "fastest_tpot_s": 12e-3}, {"baseline_tpot_s": 8e-3}):
        passes = replace(nothing, **{name: np.array([value]) for name, value in changes.items()})
        assert _speedup(passes, 2e-4, 9e-4, 0.1, 0.05) == pytest.approx(1.0, rel=1e-14)


def _by_hand(row: dict[str, float], constants: tuple[float, ...]) -> float:
    """The same, one number at a time."""
    draft_pass_s, round_s, row_share, outside_share = constants
    baseline, fastest = row["baseline_tpot_s"], row["fastest_tpot_s"]
    outside = baseline - fastest + outside_share * fastest
    step = baseline - outside
    verify = row["verify_s"] * (step / row["step_s"] if step < row["step_s"] else 1.0)
    residual = step - row["step_s"] if step > row["step_s"] else 0.0
    total = verify + residual + row_share * row["n_small_rows"] * step
    total += row["draft_s"] + row["n_draft_passes"] * draft_pass_s + round_s
    return baseline / (total / row["tokens_per_round"] + outside)


_SECONDS = st.floats(1e-4, 1e-1)


@given(
    st.fixed_dictionaries({
        "step_s": _SECONDS, "verify_s": _SECONDS, "draft_s": _SECONDS, "n_draft_passes": st.integers(0, 16).map(float),
        "n_further_rows": st.integers(1, 64).map(float), "n_small_rows": st.integers(0, 7).map(float),
        "tokens_per_round": st.floats(1.0, 16.0),
        "fastest_tpot_s": _SECONDS,
    }),
    st.floats(1.0, 3.0),
    st.tuples(st.floats(0, 1e-2), st.floats(0, 1e-2), st.floats(0, 1.0), st.floats(0, 0.3)),
)  # fmt: skip
def test_any_round_is_the_one_by_hand(row: dict[str, float], slower: float, constants: tuple[float, ...]):
    row["baseline_tpot_s"] = slower * row["fastest_tpot_s"]
    assert _speedup(_passes(**row), *constants) == pytest.approx(_by_hand(row, constants), rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1e-2), st.floats(0, 1e-2), st.floats(0, 1.0), st.floats(0, 0.3)), max_size=5))
def test_constants_of_each_row_are_those_of_one_row_after_the_other(constants: list[tuple[float, ...]]):
    columns = {item.name: np.full(len(constants), ROUND[item.name]) for item in fields(Passes)}
    together = predict_rounds(Passes(**columns), np.array(constants).reshape(-1, 4)).speedup
    assert together.tolist() == [_speedup(_passes(), *each) for each in constants]


def test_each_constant_makes_a_round_longer_and_never_shorter():
    base = _speedup(_passes(baseline_tpot_s=16e-3, fastest_tpot_s=14e-3), 2e-4, 9e-4, 0.1, 0.05)
    for at in range(3):
        constants = [2e-4, 9e-4, 0.1, 0.05]
        constants[at] *= 1.5
        assert _speedup(_passes(baseline_tpot_s=16e-3, fastest_tpot_s=14e-3), *constants) < base


def _example(method: Any, depth: float = 4.0) -> Setting:
    """A setting whose measured baseline is the model's own, so that the product can say the same."""
    draft = example_setting().target if method == "draft_model" else None
    row = replace(example_setting().row, baseline_tokens_per_s=None, tokens_per_s=None, stated_speedup=1.5)
    changes = {"method": method, "draft": draft, "depth": depth, "n_nodes": depth, "batch": 3, "n_devices": 1}
    return replace(example_setting(), row=row, **changes)


@pytest.mark.parametrize("engine", ["sglang", "llama.cpp"])
@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "mtp", "medusa", "ngram", "lookahead"])
def test_the_product_and_the_validation_say_the_same_of_a_round(method: Any, engine: str):
    setting, overheads = _example(method), engine_overheads(engine)
    rounds = predict_rounds(passes_of([setting]), constants_of(overheads))
    times = StepTimes()
    target = times.target(setting.device, setting.target, setting.precision, 1)
    step = getattr(times.drafter(setting), "step", None)
    pair = DraftingPair(
        target=engine_step(overheads, target),
        drafter=engine_drafter(overheads, drafter_of(method, step)),
        target_weight_bytes=0.0,
        draft_weight_bytes=0.0,
        target_kv_bytes_per_token=0.0,
        draft_kv_bytes_per_token=0.0,
    )
    at = (float(setting.batch), setting.context_tokens)
    product = round_times(setting.depth, setting.n_nodes, *at, setting.tokens_per_round, pair)
    assert rounds.speedup[0] == pytest.approx(float(product.speedup), rel=1e-12)
    assert rounds.round_s[0] == pytest.approx(float(product.round_s), rel=1e-12)


def test_constants_are_in_the_order_in_which_they_are_fitted():
    stated = replace(engine_overheads("sglang"), draft_pass_s=1.0, round_s=2.0, row_share=3.0, outside_share=4.0)
    assert isinstance(stated, EngineOverheads)
    assert constants_of(stated).tolist() == [1.0, 2.0, 3.0, 4.0]
