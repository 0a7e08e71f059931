"""Readers of step times: each form gives the times it was made from, and published tables give their own figures."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.hardware.readers import FORMATS, StepTimeOptions, import_step_times
from specbook.hardware.step_times import Cell, StepTimeTable
from tests import step_time_files as files


def _seconds(table: StepTimeTable) -> dict[Cell, float]:
    return {point.cell: point.seconds for point in table.points}


@pytest.mark.parametrize("name", files.EXAMPLES)
def test_import_step_times_knows_every_example(save, name: str):
    path = save(name, files.EXAMPLES[name])
    table = import_step_times(path)
    kinds = {
        "sglang": "sglang-bench-speculative",
        "costs": "llama-batch-costs",
        "batched": "llama-batched-bench",
        "bench": "llama-bench",
        "depths": "llama-bench",
        "table": "csv",
        "splitwise": "splitwise",
    }
    assert table.format == kinds[name.partition(".")[0]]
    assert table.source == name
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert _seconds(import_step_times(path, StepTimeOptions(format=table.format))) == _seconds(table)


def test_every_format_has_an_example(save):
    read = {import_step_times(save(name, text)).format for name, text in files.EXAMPLES.items()}
    assert read == set(FORMATS)


def test_sglang_step_time_is_a_round_of_its_verify_width(save):
    table = import_step_times(save("a.jsonl", files.SGLANG))
    assert (table.measures, table.unit, table.engine) == ("round", "seconds", "SGLang")
    assert _seconds(table) == {
        Cell(None, 1, 1, 0, None): 0.008,
        Cell(None, 1, 4, 3, 1): 0.011,
        Cell(None, 1, 16, 5, 4): 0.02,
        Cell(None, 8, 4, 3, 1): 0.018,
    }
    assert any("20th percentile" in warning for warning in table.warnings)


@pytest.mark.parametrize("setting", [(0, None, None), (0, 0, 0), (None, None, 0), (0, 1, None)])
def test_sglang_without_speculation_is_width_one(save, setting: tuple[Any, Any, Any]):
    line = files.SGLANG_LINE | dict(zip(("steps", "topk", "num_draft_tokens"), setting, strict=True))
    table = import_step_times(save("a.jsonl", [line | {"acc_length": None, "speed": None}]))
    assert [point.cell for point in table.points] == [Cell(None, 1, 1, 0, None)]


def test_sglang_last_line_that_breaks_off_is_left_out_with_a_note(save):
    table = import_step_times(save("a.jsonl", files.SGLANG[:-30]))
    assert len(table.points) == 3
    assert "line 4, the last, is unreadable and was left out" in table.warnings


@pytest.mark.parametrize(
    "text",
    [
        files.COSTS_ENVIRONMENT,
        files.COSTS_C,
        json.dumps(files.COSTS),
        " ".join(map(str, files.COSTS)),
        "\n".join(map(str, files.COSTS)),
        "GGML_BATCH_COSTS=1,0.605,0.473,0.408,0.374,0.351,0.334,0.32 ./llama-server -m m.gguf",
        "batch_costs = [1, 0.605, 0.473, 0.408, 0.374, 0.351, 0.334, 0.32]  # eight",
        "double batch_costs[] = {1.0, 0.605, /* three */ 0.473, 0.408,\n 0.374F, 0.351, 0.334, 3.2e-1};",
        'GGML_BATCH_COSTS="1,0.605,0.473,\\\n0.408,0.374,0.351,0.334,0.32"',
    ],
)
def test_batch_costs_times_width_are_multiples_of_one_pass(save, text: str):
    table = import_step_times(save("a.txt", text))
    assert (table.unit, table.measures, table.batches, table.contexts) == ("relative", "pass", [1], [None])
    assert [point.width for point in table.points] == list(range(1, 9))
    assert [point.seconds for point in table.points] == pytest.approx(
        [1.0, 1.21, 1.419, 1.632, 1.87, 2.106, 2.338, 2.56], abs=1e-12
    )


def test_batch_costs_take_the_context_that_is_stated(save):
    table = import_step_times(save("a.json", files.COSTS), StepTimeOptions(context=4096, model="DeepSeek-R1"))
    assert (table.contexts, table.model, table.engine) == ([4096], "DeepSeek-R1", "llama.cpp")
    assert "context 4,096 was stated at import" in table.warnings


def test_batched_bench_pass_is_total_by_tokens(save):
    table = import_step_times(save("a.txt", files.BATCHED))
    published_ms = {1: 24.054688, 2: 39.289062, 4: 53.734375, 8: 57.375, 16: 66.054688, 32: 68.757812}
    seconds = _seconds(table)
    for batch, time_ms in published_ms.items():
        assert seconds[Cell(192, batch, 1)] == pytest.approx(time_ms * 1e-3, abs=5e-10)
    assert seconds[Cell(256, 1, 1)] == pytest.approx(6.329 / 256, rel=1e-12)
    assert "hole at batch 2, context 256, width 1" in table.warnings[-1]


def test_batched_bench_records_give_published_times(save):
    table = import_step_times(save("a.jsonl", files.BATCHED_JSONL))
    published_ms = {
        (528, 1): 12.65625, (528, 2): 14.65625, (528, 4): 17.8125,
        (4112, 1): 13.375, (4112, 2): 16.0625, (4112, 4): 20.46875,
    }  # fmt: skip
    assert {cell[:2]: 1e3 * time for cell, time in _seconds(table).items()} == pytest.approx(published_ms, abs=1e-9)
    assert table.hole() is None


def test_batched_bench_banner_before_the_records_does_not_matter(save):
    table = import_step_times(save("a.txt", "main: loading\n\n" + files.BATCHED_JSONL))
    assert len(table.points) == 6
    assert "1 line of no JSON left out" in table.warnings


def test_batched_bench_shared_prompt_is_another_series(save):
    shared = files.BATCHED_RECORD | {"is_pp_shared": 1, "pl": 2, "n_kv": 576, "t_tg": 0.45, "speed_tg": 142.2}
    path = save("a.jsonl", [files.BATCHED_RECORD, shared])
    with pytest.raises(BadInput, match=r"holds 2 series.*'is_pp_shared 0', 'is_pp_shared 1'"):
        import_step_times(path)
    assert import_step_times(path, StepTimeOptions(series="is_pp_shared 1")).batches == [2]


def test_batched_bench_equal_mean_contexts_are_pooled(save):
    long = files.BATCHED_RECORD | {"pp": 496, "tg": 64, "n_kv": 560, "t_tg": 0.8, "speed_tg": 80.0}
    table = import_step_times(save("a.jsonl", [files.BATCHED_RECORD, long]))
    assert _seconds(table) == {Cell(528, 1, 1): pytest.approx((0.405 / 32 + 0.8 / 64) / 2)}
    assert "pooled by their median: 2 times of 1 cell; the widest range" in table.warnings[-1]


def test_batched_bench_coarse_times_are_noted(save):
    row = "|   128 |      4 |    1 |    132 |    0.108 |  1186.64 |    0.030 |   133.33 |    0.138 |   956.52 |\n"
    lines = files.BATCHED.splitlines(keepends=True)
    table = import_step_times(save("a.txt", "".join([*lines[:4], row])))
    assert any("three digits" in warning for warning in table.warnings)


def test_bench_staircase_is_kept(save):
    table = import_step_times(save("a.md", files.BENCH))
    times = {point.width: point.seconds for point in table.points}
    assert times == pytest.approx({n: n / speed for n, speed in files.STAIRCASE.items()}, rel=1e-12)
    assert times[9] / times[8] == pytest.approx(2.25, abs=0.01)
    assert (table.contexts, table.model, table.engine) == ([0], "llama 34B Q8_0", "llama.cpp (CUDA)")
    assert any("output head for their last position alone" in warning for warning in table.warnings)


def test_bench_generation_stands_at_its_mean_context(save):
    table = import_step_times(save("a.md", files.BENCH_DEPTHS))
    assert _seconds(table) == {
        Cell(64, 1, 1): pytest.approx(1 / 120.60),
        Cell(576, 1, 1): pytest.approx(1 / 116.71),
    }
    assert any("pp512, pp512+tg128" in warning for warning in table.warnings)


@pytest.mark.parametrize("name", ["bench.json", "bench.jsonl", "bench.csv"])
def test_bench_short_prompts_and_generation_make_a_grid(save, name: str):
    table = import_step_times(save(name, files.EXAMPLES[name]))
    widths = (1, 2, 4, 8)
    expected = {Cell(0, 1, w): 0.008 + 0.0005 * w for w in widths} | {
        Cell(4096, 1, w): 0.009 + 0.0005 * w for w in widths
    }
    assert _seconds(table) == pytest.approx(expected, rel=1e-6)
    assert (table.hole(), table.hardware, table.model) == (None, "a card", "qwen2 7B Q4_K - Medium")
    assert any("tg128 stands at context 0" in warning for warning in table.warnings)


def test_bench_prompt_of_one_token_stands_for_generation(save):
    table = import_step_times(save("a.json", [*files.BENCH_RECORDS[:4], files.bench_record(1, 0, 0.0086)]))
    assert _seconds(table)[Cell(0, 1, 1)] == pytest.approx(0.0086)
    assert any("since pp1 of the same depth" in warning for warning in table.warnings)


def test_bench_long_generation_keeps_its_own_context(save):
    table = import_step_times(save("a.json", [files.bench_record(2, 0, 0.009), files.bench_record(0, 4096, 40.96)]))
    assert set(_seconds(table)) == {Cell(0, 1, 2), Cell(2048, 1, 1)}


def test_bench_prompt_beyond_the_micro_batch_is_many_passes(save):
    records = [files.bench_record(8, 0, 0.02, n_ubatch=4), files.bench_record(4, 0, 0.01, n_ubatch=4)]
    table = import_step_times(save("a.json", records))
    assert table.widths == [4]
    assert any(warning.endswith("not one pass of a few positions: pp8") for warning in table.warnings)


def test_bench_repeats_that_differ_in_batch_size_are_pooled(save):
    records = [files.bench_record(4, 0, time, n_ubatch=n) for time, n in ((0.010, 4), (0.012, 64), (0.011, 512))]
    table = import_step_times(save("a.json", records))
    assert _seconds(table) == {Cell(0, 1, 4): pytest.approx(0.011)}


def test_bench_threads_are_different_series(save):
    records = [files.bench_record(4, 0, 0.02 / n, n_threads=n) for n in (1, 2)]
    path = save("a.json", records)
    with pytest.raises(BadInput, match=r"choose one with --series: 'n_threads 1', 'n_threads 2'"):
        import_step_times(path)
    table = import_step_times(path, StepTimeOptions(series="n_threads 2"))
    assert [point.seconds for point in table.points] == pytest.approx([0.01])


def test_bench_models_are_named_alone(save):
    path = save("a.md", files.BENCH + files.BENCH_DEPTHS)
    with pytest.raises(BadInput, match=r"'llama 34B Q8_0', 'qwen2 7B Q4_K - Medium'"):
        import_step_times(path)
    assert import_step_times(path, StepTimeOptions(series="34B")).widths == sorted(files.STAIRCASE)


def test_powershell_redirection_is_read(save):
    table = import_step_times(save("a.md", files.BENCH_DEPTHS.encode("utf-16")))
    assert len(table.points) == 2


def test_bench_in_another_code_page_is_read(save):
    assert len(import_step_times(save("a.md", files.BENCH_DEPTHS.encode("cp1252"))).points) == 2


def test_csv_times_are_in_the_unit_of_their_column(save):
    seconds = {}
    for unit, factor in (("seconds", 1e-3), ("time_ms", 1.0), ("us", 1e3)):
        rows = [f"1,512,{w},{t * factor:.9g}" for w, t in ((1, 10), (4, 13))]
        seconds[unit] = _seconds(import_step_times(save("a.csv", "\n".join([f"batch,context,width,{unit}", *rows]))))
    assert list(seconds["seconds"].values()) == pytest.approx([0.01, 0.013])
    assert seconds["time_ms"] == pytest.approx(seconds["seconds"])
    assert seconds["us"] == pytest.approx(seconds["seconds"])


@pytest.mark.parametrize("separator", [",", ";", "\t", " , "])
def test_csv_separators_and_comments(save, separator: str):
    text = "# made by hand\n\n" + files.TABLE.replace(",", separator)
    assert len(import_step_times(save("a.csv", text)).points) == 8


def test_csv_context_may_be_empty_or_missing(save):
    empty = import_step_times(save("a.csv", "batch,context,width,ms\n1,,1,10\n1,,4,13\n"))
    missing = import_step_times(save("b.csv", "batch,width,ms\n1,1,10\n1,4,13\n"))
    assert _seconds(empty) == _seconds(missing)
    assert empty.contexts == [None]


def test_csv_of_several_series_asks_for_one(save):
    path = save("a.csv", files.TABLES)
    with pytest.raises(BadInput) as caught:
        import_step_times(path)
    assert str(caught.value).endswith("'verify', 'costs', 'drafts, big', 'drafts, small'")
    with pytest.raises(BadInput, match=r"--series = 'drafts': holds 2 series; .*: 'drafts, big', 'drafts, small'$"):
        import_step_times(path, StepTimeOptions(series="drafts"))
    with pytest.raises(BadInput, match=r"--series = 'none': no such series; .*'verify', 'costs'"):
        import_step_times(path, StepTimeOptions(series="none"))


def test_csv_series_have_their_own_units_and_labels(save):
    path = save("a.csv", files.TABLES)
    verify = import_step_times(path, StepTimeOptions(series="Verify"))
    costs = import_step_times(path, StepTimeOptions(series="costs"))
    small = import_step_times(path, StepTimeOptions(series="small"))
    assert [point.seconds for point in verify.points] == pytest.approx([0.00847, 0.01349])
    assert (verify.unit, verify.hardware, verify.model) == ("seconds", None, "m")
    assert (costs.unit, [point.seconds for point in costs.points]) == ("relative", pytest.approx([1.0, 1.21]))
    assert (small.unit, small.hardware, small.points[0].seconds) == ("seconds", "GPU", pytest.approx(0.00375))


def test_csv_columns_that_were_not_read_are_named(save):
    table = import_step_times(save("a.csv", "batch,width,ms,speed,watts\n1,1,10,3,4\n"))
    assert table.warnings == ["columns that were not read: speed, watts"]


def test_csv_source_is_kept_beside_the_file(save):
    table = import_step_times(save("a.csv", "batch,width,ms,source\n1,1,10,somebody#1\n1,2,11,somebody#1\n"))
    assert table.source == "somebody#1 (in a.csv)"


def test_equal_rows_count_once(save):
    table = import_step_times(save("a.csv", files.TABLE + files.TABLE.splitlines()[1] + "\n"))
    assert len(table.points) == 8


def test_only_keeps_a_part_of_the_grid(save):
    only = {"context": (4096,), "width": (1, 4)}
    table = import_step_times(save("a.csv", files.TABLE), StepTimeOptions(only=only))
    assert (table.contexts, table.batches, table.widths) == ([4096], [1, 8], [1, 4])


def test_splitwise_repetitions_are_pooled_by_their_median(save):
    path = save("a.csv", files.SPLITWISE)
    with pytest.raises(BadInput, match=r"'tensor_parallel 2', 'tensor_parallel 8'"):
        import_step_times(path)
    table = import_step_times(path, StepTimeOptions(series="tensor_parallel 2"))
    assert _seconds(table) == pytest.approx({Cell(576, 1, 1): 0.05488, Cell(576, 2, 1): 0.0558}, rel=1e-12)
    assert (table.hardware, table.model) == ("2 × a100", "m")
    assert any("3 times of 1 cell" in warning for warning in table.warnings)
    assert any(warning.startswith("left out 1 of 6 rows") for warning in table.warnings)


def test_names_that_are_stated_stand_over_those_of_the_file(save):
    options = StepTimeOptions(model="another", hardware="rack", engine="mine")
    table = import_step_times(save("a.json", files.BENCH_JSON), options)
    assert (table.model, table.hardware, table.engine) == ("another", "rack", "mine")
