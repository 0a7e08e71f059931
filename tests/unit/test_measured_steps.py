"""Measured step times as a step time: exact at their points, refused beyond them, and no round is a pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.hardware.profile import HardwareProfile, catalogue_device
from specbook.hardware.readers import StepTimeOptions, import_step_times
from specbook.hardware.step_times import StepTimePoint, StepTimeTable
from specbook.roofline.measured_rounds import MeasuredRounds
from specbook.roofline.measured_steps import AXES, MeasuredSteps, measured_steps
from tests import step_time_files as files

WIDTHS, BATCHES, CONTEXTS = (1, 2, 5, 9), (1, 8), (512, 4096)


def _time_s(width: float, batch: float, context: float) -> float:
    """Linear along each axis, with all their products."""
    return 1e-3 * (8 + 0.5 * width + 0.2 * batch + 1e-4 * context + 0.01 * width * batch + 1e-6 * batch * context)


def _table(widths: Any = WIDTHS, batches: Any = BATCHES, contexts: Any = CONTEXTS, **fields: Any) -> StepTimeTable:
    points = [
        StepTimePoint(batch=b, context=c, width=w, seconds=_time_s(w, b, c or 0))
        for w in widths
        for b in batches
        for c in contexts
    ]
    return StepTimeTable(source="by hand", points=points, **fields)


def test_measured_steps_are_multilinear_between_points():
    step = MeasuredSteps.from_table(_table())
    width, batch, context = np.array([1.0, 3.3, 7.0, 9.0]), np.array([[1.0], [4.5]]), 1000.0
    expected = [[_time_s(w, b, context) for w in width] for b in batch[:, 0]]
    np.testing.assert_allclose(step(width, batch, context), expected, rtol=1e-12)
    assert step.kind == "measured"


def test_measured_steps_keep_a_staircase():
    times = {1: 10.0, 8: 12.0, 9: 20.0, 16: 21.0}
    points = [StepTimePoint(batch=1, context=64, width=w, seconds=1e-3 * t) for w, t in times.items()]
    step = MeasuredSteps.from_table(StepTimeTable(source="by hand", points=points))
    np.testing.assert_array_equal(step(list(times), 1, 64), [1e-3 * t for t in times.values()])


def test_measured_steps_of_the_published_staircase(save):
    step = MeasuredSteps.from_table(import_step_times(save("a.md", files.BENCH)))
    assert step(9, 1, 0) / step(8, 1, 0) == pytest.approx((9 / 80.38) / (8 / 160.81))


def test_measured_steps_of_batch_costs_multiply_one_pass(save):
    table = import_step_times(save("a.json", files.COSTS), StepTimeOptions(context=4096))
    step = MeasuredSteps.from_table(table, one_pass_s=0.02)
    np.testing.assert_allclose(step([1, 2, 5], 1, 4096), [0.02, 1.21 * 0.02, 5 * 0.374 * 0.02], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((0, 1, 512), r"width must lie in \[1, 9\], where it was measured; got 0"),
        ((9.5, 1, 512), r"width must lie in \[1, 9\], where it was measured; got 9\.5"),
        ((1, 9, 512), r"batch must lie in \[1, 8\], where it was measured; got 9"),
        ((1, 1, 511), r"context must lie in \[512, 4096\], where it was measured; got 511"),
        (([1, 2], 1, [512, 5000]), r"context must lie in \[512, 4096\], where it was measured; got 5000"),
        ((float("nan"), 1, 512), "tokens must be finite; got nan"),
        ((1, float("inf"), 512), "batch must be finite; got inf"),
        ((-1, 1, 512), "tokens must not be negative; got -1"),
    ],
)
def test_measured_steps_refuse_what_was_not_measured(arguments: tuple[Any, ...], problem: str):
    step = MeasuredSteps.from_table(_table())
    with pytest.raises(ValueError, match=problem):
        step(*arguments)


@pytest.mark.parametrize("axis", AXES)
def test_measured_steps_know_a_single_value_of_an_axis_alone(axis: str):
    only = {"width": (2,), "batch": (4,), "context": (512,)}[axis]
    widths, batches, contexts = (
        only if name == axis else default for name, default in zip(AXES, (WIDTHS, BATCHES, CONTEXTS), strict=True)
    )
    values = {"tokens": 2, "batch": 4, "context": 512}
    step = MeasuredSteps.from_table(_table(widths, batches, contexts))
    assert step(**values) == pytest.approx(_time_s(2, 4, 512))
    elsewhere = values | {"tokens" if axis == "width" else axis: 5}
    with pytest.raises(ValueError, match=rf"{axis} must be {only[0]}, where it was measured; got 5"):
        step(**elsewhere)
    near = MeasuredSteps.from_table(_table(widths, batches, contexts), nearest=[axis])
    assert near(**elsewhere) == step(**values)


def test_measured_steps_take_the_nearest_along_named_axes_alone():
    step = MeasuredSteps.from_table(_table(), nearest=["context"])
    np.testing.assert_allclose(step(2, 1, [1, 100_000]), [_time_s(2, 1, 512), _time_s(2, 1, 4096)], rtol=1e-12)
    with pytest.raises(ValueError, match="width must lie in"):
        step(10, 1, 512)


def test_measured_steps_without_context_refuse_any_unless_told():
    table = _table(contexts=(None,))
    with pytest.raises(ValueError, match="the table does not say at which context it was measured; got 512"):
        MeasuredSteps.from_table(table)(1, 1, 512)
    near = MeasuredSteps.from_table(table, nearest=["context"])
    np.testing.assert_allclose(near(2, 8, [1, 512]), 2 * [_time_s(2, 8, 0)], rtol=1e-12)


def test_measured_steps_of_one_point():
    step = MeasuredSteps.from_table(_table((1,), (1,), (512,)))
    assert step(1, 1, 512) == _time_s(1, 1, 512)
    assert step([], 1, 512).shape == (0,)


def test_measured_steps_shapes_broadcast():
    step = MeasuredSteps.from_table(_table())
    assert step(1, 1, 512).shape == ()
    assert step(np.ones((3, 1)), np.ones(4), 512).shape == (3, 4)
    assert step(1, 1, 512).dtype == np.float64


def test_measured_steps_are_no_formula_for_a_page():
    with pytest.raises(ValueError, match="xp must be numpy"):
        MeasuredSteps.from_table(_table())(1, 1, 512, xp=object())


def test_measured_steps_refuse_a_hole_by_name():
    points = [point for point in _table().points if (point.batch, point.context, point.width) != (8, 4096, 5)]
    table = StepTimeTable(source="t.csv", points=points)
    with pytest.raises(
        BadInput, match=r"t\.csv: points: has a hole at batch 8, context 4,096, width 5; measure it, or"
    ):
        MeasuredSteps.from_table(table)


def test_measured_steps_refuse_rounds(save):
    table = import_step_times(save("a.jsonl", files.SGLANG))
    with pytest.raises(BadInput, match="measures rounds, not passes; MeasuredRounds takes it"):
        MeasuredSteps.from_table(table)


@pytest.mark.parametrize("one_pass_s", [None, 0.0, -1.0, float("nan")])
def test_measured_steps_of_a_relative_table_need_one_pass(one_pass_s: float | None):
    with pytest.raises(ValueError, match="one_pass_s must"):
        MeasuredSteps.from_table(_table(unit="relative"), one_pass_s=one_pass_s)


def test_measured_steps_of_a_relative_table_name_it():
    relative = _table(unit="relative")
    with pytest.raises(BadInput, match="by hand: unit = 'relative': one_pass_s must be given"):
        MeasuredSteps.from_table(relative)


def test_measured_steps_in_seconds_refuse_one_pass():
    with pytest.raises(ValueError, match="one_pass_s must be left out, since the table holds seconds"):
        MeasuredSteps.from_table(_table(), one_pass_s=0.01)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"width": np.array([2.0, 1.0])}, "width must rise"),
        ({"width": np.array([1.0, 1.0])}, "width must rise"),
        ({"seconds": np.ones((2, 1))}, r"seconds must have the shape \(2, 1, 1\)"),
        ({"seconds": np.array([[[0.0]], [[1.0]]])}, "seconds must be greater than 0"),
        ({"nearest": ("depth",)}, "nearest must name some of width, batch, context; got depth"),
        ({"width": np.array([]), "seconds": np.ones((0, 1, 1))}, "seconds must have the shape"),
    ],
)
def test_measured_steps_check_their_arrays(change: dict[str, Any], problem: str):
    arrays = {"width": np.array([1.0, 2.0]), "batch": np.ones(1), "context": np.ones(1), "seconds": np.ones((2, 1, 1))}
    with pytest.raises(ValueError, match=problem):
        MeasuredSteps(**(arrays | change))


def _rounds(*settings: tuple[int, int, int, int, float], **fields: Any) -> StepTimeTable:
    points = [
        StepTimePoint(batch=batch, width=width, draft_steps=steps, top_k=top_k or None, seconds=seconds)
        for batch, width, steps, top_k, seconds in settings
    ]
    return StepTimeTable(source="r.jsonl", measures="round", points=points, **fields)


ROUNDS = ((1, 1, 0, 0, 0.008), (1, 4, 3, 1, 0.011), (8, 4, 3, 1, 0.018), (1, 16, 5, 4, 0.02))


def test_measured_rounds_are_linear_in_batch_at_measured_widths():
    rounds = MeasuredRounds.from_table(_rounds(*ROUNDS))
    assert rounds.widths == [1, 4, 16]
    np.testing.assert_allclose(rounds([[1], [4]], 1), [[0.008], [0.011]])
    np.testing.assert_allclose(rounds(4, [1, 4.5, 8]), [0.011, 0.0145, 0.018])
    assert rounds(4, 1).shape == ()


@pytest.mark.parametrize(
    ("width", "batch", "problem"),
    [
        (5, 1, "width must be one of 1, 4, 16, which were measured; got 5"),
        (4.5, 1, "width must be one of 1, 4, 16, which were measured; got 4.5"),
        (4, 9, r"batch must lie in \[1, 8\], where width 4 was measured; got 9"),
        (1, 2, "batch must be 1, where width 1 was measured; got 2"),
        (float("nan"), 1, "width must be finite"),
        (0, 1, "width must be greater than 0"),
    ],
)
def test_measured_rounds_refuse_what_was_not_measured(width: float, batch: float, problem: str):
    with pytest.raises(ValueError, match=problem):
        MeasuredRounds.from_table(_rounds(*ROUNDS))(width, batch)


def test_measured_rounds_of_one_width_need_one_setting():
    table = _rounds(*ROUNDS, (1, 4, 2, 2, 0.010))
    with pytest.raises(BadInput, match="width 4 was measured with several draft settings"):
        MeasuredRounds.from_table(table)
    assert MeasuredRounds.from_table(table, draft_steps=3)(4, 1) == 0.011
    tree = MeasuredRounds.from_table(table, draft_steps=2, top_k=2)
    assert (tree(4, 1), tree(1, 1), tree.widths) == (0.010, 0.008, [1, 4])
    with pytest.raises(BadInput, match="draft_steps = 7: no round of that setting"):
        MeasuredRounds.from_table(_rounds(ROUNDS[1]), draft_steps=7)


def test_measured_rounds_refuse_passes_and_several_contexts():
    with pytest.raises(BadInput, match="measures = 'pass': measures no rounds in seconds"):
        MeasuredRounds.from_table(_table())
    points = [StepTimePoint(batch=1, width=1, context=c, seconds=0.01) for c in (64, 512)]
    with pytest.raises(BadInput, match="rounds at several contexts"):
        MeasuredRounds.from_table(StepTimeTable(source="r", measures="round", points=points))
    with pytest.raises(ValueError, match="curves must not be empty"):
        MeasuredRounds(curves={})
    with pytest.raises(ValueError, match="batch of width 4 must rise"):
        MeasuredRounds(curves={4: np.array([[2.0, 1.0], [0.1, 0.1]])})


def test_measured_rounds_read_from_sglang(save):
    rounds = MeasuredRounds.from_table(import_step_times(save("a.jsonl", files.SGLANG)))
    assert rounds(4, 8) == 0.018


def _profile(*tables: StepTimeTable) -> HardwareProfile:
    return catalogue_device("l4").model_copy(update={"step_times": list(tables)})


def test_measured_steps_chooses_the_table_of_model_and_engine():
    fast, exact = (_table(model="M", engine=engine) for engine in ("specbook fast", "specbook exact"))
    profile = _profile(fast, exact.model_copy(update={"points": _table((1,)).points}), _rounds(*ROUNDS, model="M"))
    assert measured_steps(profile, "m", "Specbook Exact").width.tolist() == [1.0]
    assert measured_steps(profile, "M", "specbook fast", nearest=["context"]).nearest == ("context",)


@pytest.mark.parametrize(
    ("model", "engine", "problem"),
    [
        ("M", None, "step_times = 'M': several measured tables of that model on l4; it holds M under a, M under b"),
        ("N", None, "step_times = 'N': no measured passes of that model on l4; it holds M under a, M under b"),
        (
            "M",
            "c",
            "'M under c': no measured passes of that model under that engine on l4; it holds M under a, M under b",
        ),
    ],
)
def test_measured_steps_says_what_a_profile_holds(model: str, engine: str | None, problem: str):
    profile = _profile(_table(model="M", engine="a"), _table(model="M", engine="b"))
    with pytest.raises(BadInput) as caught:
        measured_steps(profile, model, engine)
    assert problem in str(caught.value)


def test_measured_steps_takes_the_only_table_of_a_model():
    assert measured_steps(_profile(_table(model="M", engine="a")), "M")(1, 1, 512) == _time_s(1, 1, 512)
    relative = _profile(_table(model="M", unit="relative"))
    assert measured_steps(relative, "M", one_pass_s=2.0)(1, 1, 512) == 2.0 * _time_s(1, 1, 512)
