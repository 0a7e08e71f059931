"""S.json: what it may state, and one line for all that it may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.hardware.step_times import StepTimePoint, StepTimeTable, write_step_times
from specbook.serving.draft_time import ConstantDraft, NoDraft
from specbook.serving.iteration_time import AffineIterationTime, ConstantIterationTime
from specbook.serving.step_time_file import read_draft_time, read_iteration_time

AFFINE = {"kind": "affine", "c0_ms": 9.0, "c1_ms": 0.06, "c2_ms": 0.0004, "c3_ms": 0.00002}
CONSTANT = {"kind": "constant", "ms": 10}
VIDUR = {"kind": "vidur_tables", "linear": "l.csv", "decode": "d.csv", "prefill": "sub/p.csv", "n_layers": 28}
TABLE = {"kind": "table", "file": "t.json", "prefill_ms_per_token": 0.02}

Save = Callable[..., Path]


def _write_table(folder: Path, contexts: tuple[Any, ...] = (512, 4096), **fields: Any) -> None:
    points = [
        StepTimePoint(batch=b, context=c, width=w, seconds=1e-3 * (8 + w + b) + 1e-6 * (c or 0))
        for b in (1, 8)
        for c in contexts
        for w in (1, 5)
    ]
    write_step_times(StepTimeTable(source="by hand", points=points, **fields), folder / "t.json")


def test_affine_file(save: Save):
    path = save("s.json", AFFINE)
    assert read_iteration_time(path) == AffineIterationTime(c0_ms=9.0, c1_ms=0.06, c2_ms=0.0004, c3_ms=0.00002)
    assert read_draft_time(path) == NoDraft()


def test_constant_file_with_a_draft(save: Save):
    path = save("s.json", CONSTANT | {"draft_ms_per_pass": 2})
    assert read_iteration_time(path) == ConstantIterationTime(seconds=0.01)
    assert read_draft_time(path) == ConstantDraft(seconds_per_pass=0.002)
    assert read_draft_time(save("f.json", AFFINE | {"draft_ms_per_pass": 0})) == ConstantDraft(seconds_per_pass=0.0)


def test_vidur_file_names_tables_beside_it(save: Save, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    save("l.csv", "num_tokens,non_attention_ms_per_layer,kv_cache_save_ms_per_layer\n1,0.5,0.1\n8,0.6,0.1\n")
    save("d.csv", "decode_batch_size,avg_kv_rounded_up_64,attn_decode_ms_per_layer\n1,64,0.2\n")
    save("sub/p.csv", "sum_kv_rounded_up_64,chunk_rms_tokens,attn_prefill_ms_per_layer\n0,8,0.3\n")
    iteration = read_iteration_time(save("s.json", VIDUR))
    assert iteration.kind == "vidur_tables"
    assert iteration.mixed_seconds(1, 1, 40, []) == pytest.approx(28 * 0.8e-3)
    assert iteration.mixed_seconds(0, 0, 0, [(8, 0)]) == pytest.approx(28 * 1.0e-3)
    with pytest.raises(BadInput, match=r"gone\.csv: no such file or directory"):
        read_iteration_time(save("s.json", VIDUR | {"decode": "gone.csv"}))


def test_table_file_interpolates_passes_and_charges_prompts_by_token(save: Save, tmp_path: Path):
    _write_table(tmp_path)
    iteration = read_iteration_time(save("s.json", TABLE))
    assert iteration.kind == "measured, prefill per token"
    decode_s = 1e-3 * (8 + 3 + 4) + 1e-6 * 1000
    assert iteration.decode_seconds(4, 12, np.array([4000])) == pytest.approx([decode_s])
    assert iteration.mixed_seconds(4, 12, 4000, [(100, 0)]) == pytest.approx(decode_s + 100 * 2e-5)
    assert iteration.mixed_seconds(0, 0, 0, [(100, 900)]) == pytest.approx(100 * 2e-5)
    with pytest.raises(BadInput, match=r"context_tokens = 511.0: must lie in \[512, 4096\]"):
        iteration.decode_seconds(1, 1, np.array([511]))
    with pytest.raises(BadInput, match=r"batch must lie in \[1, 8\], where it was measured; got 9"):
        iteration.decode_seconds(9, 9, np.array([9 * 512]))
    assert read_draft_time(tmp_path / "s.json") == NoDraft()


def test_table_file_takes_the_nearest_along_named_axes(save: Save, tmp_path: Path):
    _write_table(tmp_path)
    iteration = read_iteration_time(save("s.json", TABLE | {"nearest": ["context", "batch"]}))
    ends = iteration.decode_seconds(1, 1, np.array([0, 512, 4096, 10**6]))
    assert ends == pytest.approx([1e-2 + 512e-6, 1e-2 + 512e-6, 1e-2 + 4096e-6, 1e-2 + 4096e-6])
    assert iteration.decode_seconds(64, 64, np.array([64 * 512])) == pytest.approx([17e-3 + 512e-6])
    assert iteration.mixed_seconds(0, 0, 0, [(100, 10**6)]) == pytest.approx(100 * 2e-5)


def test_table_file_without_contexts_needs_to_be_told(save: Save, tmp_path: Path):
    _write_table(tmp_path, contexts=(None,))
    with pytest.raises(BadInput, match=r"file = 't.json': the table does not say at which context .* add \"nearest\""):
        read_iteration_time(save("s.json", TABLE))
    iteration = read_iteration_time(save("s.json", TABLE | {"nearest": ["context"]}))
    assert iteration.decode_seconds(1, 1, np.array([777])) == pytest.approx([1e-2])


def test_table_file_of_a_relative_table_needs_one_pass(save: Save, tmp_path: Path):
    _write_table(tmp_path, unit="relative")
    with pytest.raises(BadInput, match=r"t\.json: unit = 'relative': one_pass_s must be given"):
        read_iteration_time(save("s.json", TABLE))
    iteration = read_iteration_time(save("s.json", TABLE | {"one_pass_ms": 2000.0}))
    assert iteration.decode_seconds(1, 1, np.array([512])) == pytest.approx([2 * (1e-2 + 512e-6)])
    _write_table(tmp_path)
    with pytest.raises(BadInput, match="one_pass_ms: one_pass_s must be left out, since the table holds seconds"):
        read_iteration_time(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "is not a JSON object; state a"),
        ({}, "kind = None: no such kind of step time; one of affine, constant, vidur_tables, table"),
        ({"kind": "spline"}, "kind = 'spline': no such kind of step time; one of affine"),
        ({"kind": ["affine"]}, "no such kind of step time"),
        ({name: value for name, value in AFFINE.items() if name != "c2_ms"}, "c2_ms: Field required"),
        (AFFINE | {"c1_ms": -0.06}, "c1_ms = -0.06: Input should be greater than or equal to 0"),
        (AFFINE | {"c1_ms": "0.06"}, "c1_ms = '0.06': Input should be a valid number"),
        (AFFINE | {"c1_ms": True}, "c1_ms = True: Input should be a valid number"),
        (AFFINE | {"c4_ms": 1.0}, "c4_ms = 1.0: Extra inputs are not permitted"),
        (AFFINE | {"draft_ms_per_pass": -1}, "draft_ms_per_pass = -1: Input should be greater"),
        (
            {"kind": "affine"} | dict.fromkeys(("c0_ms", "c1_ms", "c2_ms", "c3_ms"), 0),
            "c0_ms = 0.0: an iteration would take no time; state at least one of c0_ms to c3_ms above 0",
        ),
        (CONSTANT | {"ms": 0}, "ms = 0: Input should be greater than 0"),
        (CONSTANT | {"ms": 1e9}, "ms = 1000000000.0: Input should be less than or equal to 1000000"),
        ({"kind": "constant"}, "ms: Field required"),
        (VIDUR | {"n_layers": 0}, "n_layers = 0: Input should be greater"),
        (VIDUR | {"linear": ""}, "linear = '': String should have at least 1 character"),
        ({"kind": "table", "file": "t.json"}, "prefill_ms_per_token: Field required"),
        (TABLE | {"prefill_ms_per_token": 0}, "prefill_ms_per_token = 0: Input should be greater than 0"),
        (TABLE | {"nearest": ["depth"]}, "nearest.0 = 'depth': Input should be 'width', 'batch' or 'context'"),
        (TABLE | {"draft_ms_per_pass": 1}, "draft_ms_per_pass = 1: Extra inputs"),
        (TABLE, "t.json: no such file or directory"),
    ],
)
def test_impossible_files_are_refused_in_one_line(save: Save, document: Any, problem: str):
    path = save("s.json", document)
    with pytest.raises(BadInput) as caught:
        read_iteration_time(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"kind": "constant", "ms": NaN}', '{"kind": "constant", "ms": 1e999}', "{", "[[["])
def test_damaged_files_are_refused_in_one_line(save: Save, text: str):
    path = save("s.json", text)
    for read in (read_iteration_time, read_draft_time):
        with pytest.raises(BadInput, match=r"s\.json") as caught:
            read(path)
        assert "\n" not in str(caught.value)
