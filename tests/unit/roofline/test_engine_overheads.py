"""What an engine adds to passes and rounds: refusals, the same step where nothing is added, and who is charged what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device
from specbook.roofline.calibrated import CalibratedRoofline, example_rates
from specbook.roofline.drafting import (
    METHODS,
    HostLookup,
    Lookahead,
    MethodName,
    ParallelHeads,
    SequentialDrafter,
    drafter_of,
)
from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads, engine_names, engine_overheads
from specbook.roofline.grid import evaluate_grid, example_grid, project
from specbook.roofline.hosted import EngineStep, HostedDrafter, engine_drafter, engine_step, sequential_part
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost
from specbook.roofline.step_time import DoctrineRoofline, device_rates

COST = step_cost(model("Llama-3.1-8B"), "bf16")
STEP = CalibratedRoofline(cost=COST, rates=example_rates())
IDEAL = DoctrineRoofline(cost=COST, device=device_rates(catalogue_device("h100-sxm5"), "bf16"))
SGLANG, LLAMA_CPP = engine_overheads("sglang"), engine_overheads("llama.cpp")
PASS_S, ROUND_S = 1e-4, 5e-4


def _hosted(drafter: Any) -> HostedDrafter:
    return HostedDrafter(drafter=drafter, pass_s=PASS_S, round_s=ROUND_S)


@pytest.mark.parametrize("name", engine_names())
def test_every_engine_has_figures_with_their_evidence(name: str):
    found = engine_overheads(name)
    assert found.engine == name
    assert found.evidence in ("fitted", "assumed")
    assert found.n_rows > 0
    for constant, low, high in found.intervals:
        assert 0.0 <= low <= getattr(found, constant) <= high
    low, high = found.ratio_interval
    if found.evidence == "assumed":  # nobody knows how far another engine's figures are off
        assert (low, high) == (None, None)
        return
    assert low is not None
    assert high is not None
    assert 0.0 < low < 1.0 < high


def test_engines_without_rows_of_their_own_say_whose_figures_they_have():
    for name in ("vllm", "tensorrt-llm"):
        found = engine_overheads(name)
        assert [getattr(found, each) for each in CONSTANTS] == [getattr(SGLANG, each) for each in CONSTANTS]
        assert found.label == f"{name}: assumed, those of sglang"
    assert SGLANG.label == f"sglang: fitted to {SGLANG.n_rows} published rows"
    assert SGLANG.n_constants == 3
    assert LLAMA_CPP.n_constants == 1


def test_an_engine_is_found_however_it_is_written():
    assert engine_overheads("vLLM") == engine_overheads("vllm")


@pytest.mark.parametrize("name", ["", "mlx", "sglang ", "../sglang"])
def test_an_engine_that_nobody_fitted_is_refused_in_one_line(name: str):
    with pytest.raises(BadInput, match="nobody fitted") as refused:
        engine_overheads(name)
    assert "sglang, llama.cpp" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf])
def test_impossible_constants_are_refused(constant: str, value: float):
    with pytest.raises(ValueError, match=constant):
        replace(SGLANG, **{constant: value})


@pytest.mark.parametrize("name", ["pass_s", "round_s"])
def test_a_hosted_drafter_refuses_negative_times(name: str):
    with pytest.raises(ValueError, match=name):
        HostedDrafter(**{"drafter": HostLookup(), "pass_s": 0.0, "round_s": 0.0, name: -1e-6})


def test_a_step_refuses_a_negative_share():
    with pytest.raises(ValueError, match="row_share"):
        EngineStep(step=STEP, row_share=-0.1)


def test_a_drafter_without_an_engine_or_its_seconds_is_the_very_same():
    drafter = HostLookup()
    assert engine_drafter(None, drafter) is drafter
    assert engine_drafter(replace(SGLANG, draft_pass_s=0.0, round_s=0.0), drafter) is drafter
    hosted = HostedDrafter(drafter=drafter, pass_s=SGLANG.draft_pass_s, round_s=SGLANG.round_s)
    assert engine_drafter(SGLANG, drafter) == hosted


def test_a_step_without_a_share_is_the_very_same():
    assert engine_step(None, STEP) is STEP
    assert engine_step(SGLANG, STEP) is STEP
    assert isinstance(engine_step(LLAMA_CPP, STEP), EngineStep)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 32768))
def test_a_share_of_nothing_changes_no_bit(tokens: int, batch: int, context: int):
    assert EngineStep(step=STEP, row_share=0.0)(tokens, batch, context) == STEP(tokens, batch, context)


@given(st.floats(0.0, 1.0), st.integers(1, 64), st.integers(0, 32768))
def test_a_pass_of_one_position_costs_what_it_did(share: float, batch: int, context: int):
    assert EngineStep(step=STEP, row_share=share)(1, batch, context) == STEP(1, batch, context)


def test_each_further_row_of_a_small_pass_takes_its_share_of_a_step():
    wide = EngineStep(step=STEP, row_share=0.2)
    for batch, rows in ((1, (1, 2, 5, 7, 7)), (3, (3, 5, 5, 5, 5)), (8, (0, 0, 0, 0, 0)), (64, (0, 0, 0, 0, 0))):
        one = float(STEP(1, batch, 512))
        added = [float(wide(width, batch, 512) - STEP(width, batch, 512)) for width in (2, 3, 6, 9, 64)]
        assert added == pytest.approx([0.2 * each * one for each in rows], rel=1e-12, abs=1e-15)


def test_a_step_inside_an_engine_keeps_its_kind_and_overhead():
    for step in (STEP, IDEAL):
        wide = EngineStep(step=step, row_share=0.2)
        assert (wide.kind, wide.overhead_s) == (step.kind, step.overhead_s)


@pytest.mark.parametrize("drafter", [SequentialDrafter(step=STEP), ParallelHeads(step=STEP), HostLookup(), Lookahead()])
def test_drafting_nothing_costs_nothing_inside_an_engine(drafter: Any):
    assert _hosted(drafter).seconds(0.0, 0.0, 4.0, 512.0) == 0.0
    depths = _hosted(drafter).seconds(np.array([0.0, 2.0]), np.array([0.0, 2.0]), 4.0, 512.0)
    assert depths[0] == 0.0
    assert depths[1] > 0.0


@pytest.mark.parametrize(
    ("drafter", "n_passes"),
    [(SequentialDrafter(step=STEP), 4), (ParallelHeads(step=STEP), 1), (HostLookup(), 0), (Lookahead(), 0)],
)
@pytest.mark.parametrize("n_nodes", [4.0, 20.0])
def test_passes_are_charged_as_often_as_they_are_made(drafter: Any, n_passes: int, n_nodes: float):
    bare = float(drafter.seconds(4.0, n_nodes, 2.0, 512.0))
    added = float(_hosted(drafter).seconds(4.0, n_nodes, 2.0, 512.0)) - bare
    assert added == pytest.approx(n_passes * PASS_S + ROUND_S, rel=1e-9)
    assert _hosted(drafter).verify_width(n_nodes) == drafter.verify_width(n_nodes)


class Symbols:
    """A namespace of another array library, as a page's formula is one: numpy's functions are not allowed."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        self.asked.append("where")
        return yes if condition else no

    def maximum(self, left: Any, right: Any) -> Any:
        self.asked.append("maximum")
        return max(left, right)


def test_the_namespace_that_is_asked_is_the_one_that_answers():
    symbols = Symbols()
    drafter = _hosted(HostLookup(seconds_per_round=1e-3, seconds_per_context_token=0.0))
    assert drafter.seconds(3.0, 3.0, 1.0, 512.0, symbols) == pytest.approx(1e-3 + ROUND_S)
    assert symbols.asked == ["where", "where"]
    assert drafter.seconds(0.0, 0.0, 1.0, 512.0, symbols) == 0.0


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_inside_an_engine(name: MethodName):
    bare = drafter_of(name, STEP)
    hosted = engine_drafter(SGLANG, bare)
    assert isinstance(hosted, HostedDrafter)
    assert hosted.drafter == bare
    assert sequential_part(hosted) == sequential_part(bare)
    assert (sequential_part(bare) is bare) == isinstance(bare, SequentialDrafter)


def _grids(overheads: EngineOverheads, **changes: Any) -> tuple[Any, Any]:
    bare = replace(example_grid(), **changes)
    return evaluate_grid(bare), evaluate_grid(replace(bare, overheads=overheads))


@pytest.mark.parametrize("kind", ["calibrated", "doctrine"])
def test_a_grid_inside_an_engine_is_longer_by_exactly_its_seconds(kind: Any):
    bare, hosted = _grids(SGLANG, step_time=kind)
    lengths = np.array(example_grid().candidates.draft_lengths, dtype=np.float64).reshape(1, -1, 1, 1)
    added = np.where(lengths > 0, SGLANG.round_s, 0.0) + lengths * SGLANG.draft_pass_s
    np.testing.assert_allclose(hosted.round_s - bare.round_s, np.broadcast_to(added, bare.round_s.shape), atol=1e-15)
    np.testing.assert_array_equal(hosted.baseline_tpot_s, bare.baseline_tpot_s)
    np.testing.assert_array_equal(hosted.verify_s, bare.verify_s)
    assert np.all(hosted.speedup[:, 1:] < bare.speedup[:, 1:])
    assert np.all(hosted.speedup[:, 0] == 1.0)


def test_a_grid_inside_llama_cpp_widens_the_verify_pass():
    bare, hosted = _grids(LLAMA_CPP)
    lengths = np.array(example_grid().candidates.draft_lengths, dtype=np.float64).reshape(1, -1, 1, 1)
    batches = np.array(example_grid().batches, dtype=np.float64).reshape(1, 1, -1, 1)
    rows = np.minimum((lengths + 1.0) * batches, 8.0) - np.minimum(batches, 8.0)
    added = LLAMA_CPP.row_share * rows * bare.baseline_tpot_s
    np.testing.assert_allclose(hosted.verify_s - bare.verify_s, added, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("overheads", [SGLANG, LLAMA_CPP])
@pytest.mark.parametrize("kind", ["calibrated", "doctrine"])
def test_the_regime_is_still_that_of_the_products(overheads: EngineOverheads, kind: Any):
    bare, hosted = (
        replace(example_grid(), step_time=kind, batches=(1, 1024), overheads=each) for each in (None, overheads)
    )
    regimes = project(hosted)["regime"]
    assert regimes.null_count() == 0
    assert set(regimes) == {"memory", "compute"}
    assert regimes.equals(project(bare)["regime"])


@pytest.mark.parametrize(("kind", "text"), [("calibrated", "fitted to published tables"), ("doctrine", "ideal bound")])
def test_every_row_says_whose_overheads_are_in_it(kind: Any, text: str):
    grid = replace(example_grid(), step_time=kind)
    assert project(grid)["step_time_source"].unique().to_list() == [text]
    hosted = project(replace(grid, overheads=SGLANG))
    assert hosted["step_time_source"].unique().to_list() == [f"{text}; {SGLANG.label}"]
    assert hosted.columns == project(grid).columns
