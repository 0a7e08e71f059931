"""The file of step times: what it refuses, what it knows of itself, and that it survives being written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.files import dump_model
from specbook.hardware.step_times import Cell, StepTimePoint, StepTimeTable, read_step_times, write_step_times

POINT: dict[str, Any] = {"batch": 1, "context": 512, "width": 1, "seconds": 0.01}
DOCUMENT: dict[str, Any] = {"schema": "specbook-step-times/1", "source": "by hand", "points": [POINT]}


def _table(*points: dict[str, Any], **fields: Any) -> StepTimeTable:
    return StepTimeTable(source="by hand", points=[StepTimePoint(**POINT | point) for point in points], **fields)


def test_write_step_times_reads_back_the_same(tmp_path: Path):
    table = _table({}, {"width": 4, "seconds": 0.0123456789}, model="m", warnings=["a", "b"])
    write_step_times(table, tmp_path / "s.json")
    assert read_step_times(tmp_path / "s.json") == table


def test_step_time_table_lists_its_axes_in_order():
    table = _table({"batch": 8}, {"width": 4}, {"context": 64, "width": 2})
    assert (table.batches, table.contexts, table.widths) == ([1, 8], [64, 512], [1, 2, 4])


def test_hole_is_the_first_missing_cell_of_the_grid():
    full = [{"batch": b, "context": c, "width": w} for b in (1, 8) for c in (0, 512) for w in (1, 4)]
    assert _table(*full).hole() is None
    for missing in range(len(full)):
        rest = full[:missing] + full[missing + 1 :]
        cell = full[missing]
        assert _table(*rest).hole() == Cell(cell["context"], cell["batch"], cell["width"])


def test_hole_of_a_table_without_context():
    points = [{"context": None, "batch": b, "width": w} for b, w in ((1, 1), (1, 4), (8, 4))]
    assert str(_table(*points).hole()) == "batch 8, width 1"


def test_rounds_of_one_width_may_differ_in_their_setting():
    points = [{"draft_steps": steps, "top_k": 1, "width": 4} for steps in (3, 5)]
    assert len(_table(*points, measures="round").points) == 2


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"seconds": 0.0}, "points.0.seconds = 0.0", "greater than 0"),
        ({"seconds": -0.01}, "points.0.seconds = -0.01", "greater than 0"),
        ({"seconds": 1200.0}, "points.0.seconds = 1200.0", "must lie in [1e-07, 1000] seconds; check the unit"),
        ({"seconds": 1e-9}, "points.0.seconds = 1e-09", "must lie in [1e-07, 1000] seconds; check the unit"),
        ({"seconds": "0.01"}, "points.0.seconds = '0.01'", "number"),
        ({"batch": 0}, "points.0.batch = 0", "greater than or equal to 1"),
        ({"width": 1.5}, "points.0.width = 1.5", "integer"),
        ({"context": -1}, "points.0.context = -1", "greater than or equal to 0"),
        ({"K": 3}, "points.0.K = 3", "not permitted"),
        ({"draft_steps": 3}, "points.0.draft_steps = 3", "a pass drafts nothing"),
    ],
)
def test_read_step_times_refuses_a_point(save, change: dict[str, Any], field: str, problem: str):
    path = save("s.json", DOCUMENT | {"points": [POINT | change]})
    with pytest.raises(BadInput) as caught:
        read_step_times(path)
    assert str(caught.value).startswith(f"{path}: {field}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_read_step_times_refuses_what_is_no_number(save, number: str):
    text = json.dumps(DOCUMENT).replace("0.01", number)
    with pytest.raises(BadInput, match=r"points\.0\.seconds"):
        read_step_times(save("s.json", text))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"points": []}, "points"),
        ({"points": [POINT, POINT | {"seconds": 0.02}]}, "the same cell as points.0 (batch 1, context 512, width 1)"),
        ({"points": [POINT, POINT | {"context": None, "width": 2}]}, "points.1.context = None: is null where other"),
        ({"schema": "specbook-step-times/2"}, "unknown schema"),
        ({"unit": "ms"}, "unit = 'ms'"),
        ({"measures": "token"}, "measures = 'token'"),
        ({"source": ""}, "source = ''"),
        ({"sha256": "ab"}, "sha256 = 'ab'"),
        ({"speed": 3}, "speed = 3"),
    ],
)
def test_read_step_times_refuses_a_table(save, change: dict[str, Any], problem: str):
    with pytest.raises(BadInput) as caught:
        read_step_times(save("s.json", DOCUMENT | change))
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_relative_times_may_be_large_multiples():
    assert _table({}, {"width": 4096, "seconds": 4000.0}, unit="relative").widths == [1, 4096]


def test_dump_model_of_a_table_names_its_schema_first():
    assert json.loads(dump_model(_table({})))["schema"] == "specbook-step-times/1"


def _cells(*cells: tuple[int, int, int]) -> StepTimeTable:
    points = [StepTimePoint(batch=b, context=c, width=w, seconds=0.01) for b, c, w in cells]
    return StepTimeTable(source="by hand", points=points)


def test_full_part_of_a_full_table_is_the_table():
    table = _cells((1, 512, 1), (1, 512, 5), (4, 512, 1), (4, 512, 5))
    assert table.full_part() == table


def test_full_part_leaves_out_what_loses_least():
    grid = [(b, c, w) for b in (1, 4, 16) for c in (512, 4096) for w in (1, 2, 5)]
    table = _cells(*(cell for cell in grid if cell != (16, 4096, 2)))
    part = table.full_part()
    assert part.hole() is None
    assert len(part.points) == 12
    assert "left out" in part.warnings[0]


@given(st.sets(st.tuples(st.sampled_from([1, 4, 16]), st.sampled_from([512, 4096]), st.integers(1, 4)), min_size=1))
def test_full_part_has_no_hole_and_invents_nothing(cells: set[tuple[int, int, int]]):
    table = _cells(*sorted(cells))
    part = table.full_part()
    assert part.hole() is None
    assert part.points
    assert set(part.points) <= set(table.points)
