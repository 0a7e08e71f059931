"""What no table of step times can say: each is refused in one line with place, value and remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specbook.acceptance.library import example_file
from specbook.checks import BadInput
from specbook.hardware.readers import FORMATS, StepTimeOptions, import_step_times
from tests import step_time_files as files

HEADER = "batch,context,width,time_ms\n"
NOT_POSITIVE = "must be greater than 0"


def _refusal(path: Any, options: StepTimeOptions | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        import_step_times(path, options)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "; " in text
    return text.replace(str(path), "FILE")


CSV_ROWS = {
    "zero": ("1,512,1,0", f"FILE line 2: time_ms = 0: {NOT_POSITIVE}"),
    "negative": ("1,512,1,-3.5", f"FILE line 2: time_ms = -3.5: {NOT_POSITIVE}"),
    "NaN": ("1,512,1,nan", "FILE line 2: time_ms = 'nan': is no number"),
    "infinite": ("1,512,1,inf", "FILE line 2: time_ms = 'inf': is no number"),
    "huge exponent": ("1,512,1,1e99", "FILE line 2: time_ms = 1e+99: must be finite"),
    "empty time": ("1,512,1,", "FILE line 2: time_ms: is empty; take the row out, or measure it"),
    "longer than any pass": ("1,512,1,2000000", "FILE line 2: time_ms = 2000000: is 2000 s, and no pass takes that"),
    "shorter than any launch": ("1,512,1,0.00001", "is 1e-08 s, and no pass takes that; check the unit"),
    "unit in the cell": ("1,512,1,10ms", "FILE line 2: time_ms = '10ms': is no number"),
    "decimal comma": ('1,512,1,"10,5"', "FILE line 2: time_ms = '10,5': is no number"),
    "no batch": ("0,512,1,10", "FILE line 2: batch = 0: must lie in [1, "),
    "negative context": ("1,-1,1,10", "FILE line 2: context = -1: must lie in [0, "),
    "half a position": ("1,512,1.5,10", "FILE line 2: width = 1.5: must be a whole number"),
    "empty batch": (",512,1,10", "FILE line 2: batch = '': is no number"),
    "damaged count": ("1,512,99999999999,10", "FILE line 2: width = 99999999999: must lie in [1, "),
    "short row": ("1,512,1", "FILE line 2: 3 cells under 4 names"),
    "long row": ("1,512,1,10,11", "FILE line 2: 5 cells under 4 names"),
    "open quote": ('1,512,1,"10', "is not a table: unexpected end of data"),
    "two values": (
        "1,512,1,10\n1,512,1,11",
        "FILE line 3: '0.011 s': FILE line 2 says 0.01 s for the same batch 1, context 512, width 1; ",
    ),
    "context in some rows": ("1,512,1,10\n1,,2,11", "FILE line 3: context = None: is not said, and other rows say it"),
    "no row": ("", "FILE: holds no time"),
}


@pytest.mark.parametrize("case", CSV_ROWS)
def test_csv_row_is_refused(save, case: str):
    rows, expected = CSV_ROWS[case]
    assert expected in _refusal(save("a.csv", HEADER + rows + "\n"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("batch,context,width,time", "has no column of times that says its unit; name it seconds, time_ms or time_us"),
        ("batch,context,width,latency", "has no column of times that says its unit"),
        ("batch,context,ms", "has no column width; name one of the columns width, query_tokens_per_sequence"),
        ("context,width,ms", "has no column batch"),
        ("batch,width,ms,seconds", "two columns of times"),
        ("batch,batch_size,width,ms", "two columns for batch"),
        ("batch,width,ms,note,note", "header = 'note': names two columns"),
    ],
)
def test_csv_header_is_refused(save, header: str, expected: str):
    assert expected in _refusal(save("a.csv", f"{header}\n1,1,1,1\n"))


def test_csv_without_a_header_is_refused(save):
    text = _refusal(save("a.csv", "1,512,1,10\n1,512,4,13\n"))
    assert "a table of times needs a header: batch,context,width,seconds" in text


def test_csv_that_mixes_units_is_refused(save):
    rows = "batch,width,ms,relative_cost\n1,1,10,\n1,2,,1.2\n"
    assert "FILE line 3: is in relative, and FILE line 2 in seconds" in _refusal(save("a.csv", rows))


COSTS = {
    "[1, 0.6, 0]": f"cost of n = 3 = 0: {NOT_POSITIVE}",
    "[1, -0.6]": f"cost of n = 2 = -0.6: {NOT_POSITIVE}",
    "[1, NaN]": "cost of n = 2 = nan: must be a number",
    "[1, 1e400]": "cost of n = 2 = inf: must be finite",
    "[1, null]": "cost of n = 2 = None: must be a number",
    '[1, "0.6"]': "cost of n = 2 = '0.6': must be a number",
    "[1, [0.6]]": "cost of n = 2 = [0.6]: must be a number",
    "[2, 1.2]": "cost of n = 1 = 2.0: must be 1, the cost of one token by itself",
    "[1]": "holds one cost, and a curve needs at least two",
    "[1, 1.21, 1.42, 1.63]": "no batch makes a token cheaper: these are times of whole passes; divide each by its n",
    "[1, 0.9, 41.57]": "cost of n = 3 = 41.57: is the cost of one token in a batch of n",
    "1, nan, 0.4": "cost of n = 2 = 'nan': is no number",
    "1 0.6 0.4.5": "cost of n = 3 = '0.4.5': is no number",
    "1,0.6,-,0.4": "cost of n = 3 = '-': is no number",
    'GGML_BATCH_COSTS="1,0.605': 'the array that " opens is not closed',
    "float batch_costs[] = {1.0f, 0.6f": "the array that { opens is not closed",
    "float batch_costs[] = {1.0f, many};": "cost of n = 2 = 'many': is no number",
    "GGML_BATCH_COSTS=": "cost of n = 1 = None: must be 1",
    " ".join(["1", *["0.5"] * 4096]): "more than 4096 costs",
}


@pytest.mark.parametrize("text", COSTS)
def test_batch_costs_are_refused(save, text: str):
    assert COSTS[text] in _refusal(save("a.txt", text))


SGLANG: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"step_time": 0}, f"FILE line 2: step_time = 0: {NOT_POSITIVE}"),
    "negative": ({"step_time": -0.01}, f"FILE line 2: step_time = -0.01: {NOT_POSITIVE}"),
    "NaN": ({"step_time": float("nan")}, "FILE line 2: step_time = nan: must be a number"),
    "infinite": ({"step_time": float("inf")}, "FILE line 2: step_time = inf: must be finite"),
    "text": ({"step_time": "0.011"}, "FILE line 2: step_time = '0.011': must be a number"),
    "milliseconds": ({"step_time": 1100.0, "speed": None}, "step_time = 1100.0: is 1100 s, and no pass takes that"),
    "no time": ({"step_time": None}, "step_time = None: how long a round took is not in the file"),
    "no setting": (
        {"steps": None, "topk": None, "num_draft_tokens": None},
        "steps = None: the draft setting is not in the file, so the time cannot be placed; the server was started",
    ),
    "no width": ({"num_draft_tokens": None}, "num_draft_tokens = None: must be a whole number"),
    "width of one": ({"num_draft_tokens": 1}, "num_draft_tokens = 1: must lie in [2, "),
    "no steps": ({"steps": 0}, "steps = 0: must lie in [1, "),
    "no top-k": ({"topk": 0}, "topk = 0: must lie in [1, "),
    "boolean": ({"batch_size": True}, "batch_size = True: must be a whole number"),
    "half a sequence": ({"batch_size": 1.5}, "batch_size = 1.5: must be a whole number"),
    "contradiction": ({"speed": 500.0}, "speed = 500.0: does not match acc_length ÷ step_time, which gives 236.36"),
    "short length": ({"acc_length": 0.4}, "acc_length = 0.4: must be a number of at least 1"),
}


@pytest.mark.parametrize("case", SGLANG)
def test_sglang_line_is_refused(save, case: str):
    changes, expected = SGLANG[case]
    assert expected in _refusal(save("a.jsonl", [files.SGLANG_LINE | {"batch_size": 64}, files.SGLANG_LINE | changes]))


def test_sglang_two_runs_in_one_file_are_refused(save):
    lines = [files.SGLANG_LINE, files.SGLANG_LINE | {"step_time": 0.012, "speed": 216.667}]
    text = _refusal(save("a.jsonl", lines))
    assert text.startswith(
        "FILE line 2: '0.012 s': FILE line 1 says 0.011 s for the same batch 1, width 4, draft steps 3"
    )


def test_sglang_file_of_specforge_says_what_is_missing(save):
    setting = {"batch_size": 1, "steps": None, "topk": None, "num_draft_tokens": None, "metrics": [{"latency": 12.2}]}
    assert "FILE: gsm8k[0]: steps = None: the draft setting" in _refusal(save("a.json", {"gsm8k": [setting]}))
    known = setting | {"steps": 3, "topk": 1, "num_draft_tokens": 4}
    assert "gsm8k[0]: step_time = None: how long a round took" in _refusal(save("b.json", {"gsm8k": [known]}))


BATCHED: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"t_tg": 0.0}, f"FILE line 2: T_TG s = 0.0: {NOT_POSITIVE}"),
    "negative": ({"t_tg": -1.0}, f"FILE line 2: T_TG s = -1.0: {NOT_POSITIVE}"),
    "NaN": ({"t_tg": float("nan")}, "FILE line 2: T_TG s = nan: must be a number"),
    "milliseconds": (
        {"t_tg": 405000.0, "speed_tg": None},
        "T_TG ÷ TG = 12656.25: is 12656.2 s, and no pass takes that",
    ),
    "no batch": ({"pl": 0}, "FILE line 2: B = 0: must lie in [1, "),
    "cache": ({"n_kv": 545}, "N_KV = 545: PP 512, TG 32, B 1 need 544, or 544 if they share the prompt"),
    "speed": ({"speed_tg": 100.0}, "S_TG t/s = 100.0: does not match B × TG ÷ T_TG, which gives 79.012"),
    "one by one": ({"is_tg_separate": 1, "pl": 2, "n_kv": 1088}, "sequences are generated one after the other"),
}


@pytest.mark.parametrize("case", BATCHED)
def test_batched_bench_record_is_refused(save, case: str):
    changes, expected = BATCHED[case]
    assert expected in _refusal(save("a.jsonl", [files.BATCHED_RECORDS[3], files.BATCHED_RECORD | changes]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    3.079 |", "    0.000 |", f"FILE line 5: T_TG s = 0: {NOT_POSITIVE}"),
        ("    3.079 |", "   -3.079 |", f"FILE line 5: T_TG s = -3.079: {NOT_POSITIVE}"),
        ("    3.079 |", "      nan |", "FILE line 5: T_TG s = 'nan': is no number"),
        ("    3.079 |", "          |", "FILE line 5: T_TG s = '': is no number"),
        ("    3.079 |", "", "FILE line 5: 9 cells under 10 names"),
        ("|   T_TG s | S_TG t/s |", "|   T_TG s |     T_TG s |", "FILE line 3: header = 'T_TG s': names two columns"),
        ("|    B |", "|    K |", "FILE line 3: header = "),
        ("|   128 |    128 |    2 |    512", "|   128 |    128 |    2 |    513", "FILE line 6: N_KV = 513"),
    ],
)
def test_batched_bench_table_is_refused(save, old: str, new: str, expected: str):
    assert old in files.BATCHED
    assert expected in _refusal(save("a.txt", files.BATCHED.replace(old, new, 1)))


def test_batched_bench_two_runs_in_one_file_are_refused(save):
    text = _refusal(save("a.txt", files.BATCHED + files.BATCHED.replace("3.079", "3.081")))
    assert "FILE line 5 says 0.0240547 s for the same batch 1, context 192, width 1" in text


BENCH: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"avg_ts": 0.0}, f"FILE line 2: avg_ts = 0.0: {NOT_POSITIVE}"),
    "negative": ({"avg_ts": -5.0}, f"FILE line 2: avg_ts = -5.0: {NOT_POSITIVE}"),
    "NaN": ({"avg_ts": float("nan")}, "FILE line 2: avg_ts = nan: must be a number"),
    "contradiction": ({"avg_ts": 200.0}, "avg_ts = 200.0: does not match tokens ÷ avg_ns, which gives 118.87"),
    "no tokens": ({"n_gen": 0}, "neither reads nor generates a token"),
    "text": ({"n_gen": "128"}, "n_gen = '128': must be a whole number"),
    "too slow": ({"avg_ts": 0.0005, "avg_ns": None}, "1 ÷ (avg_ts) = 2000.0: is 2000 s, and no pass takes that"),
    "only prefill": ({"n_gen": 0, "n_prompt": 512, "avg_ts": 475.5}, "'pp512': holds neither tg nor pp of at most 64"),
}


@pytest.mark.parametrize("case", BENCH)
def test_bench_record_is_refused(save, case: str):
    changes, expected = BENCH[case]
    assert expected in _refusal(save("a.jsonl", [files.bench_record(512, 0, 0.1), files.BENCH_RECORD | changes]))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("34.67 ± 0.28", "0.00 ± 0.00", f"FILE line 5: t/s = 0: {NOT_POSITIVE}"),
        ("34.67 ± 0.28", "-34.67 ± 0.28", f"FILE line 5: t/s = -34.67: {NOT_POSITIVE}"),
        ("34.67 ± 0.28", "nan ± nan", "FILE line 5: t/s = 'nan': is no number"),
        ("34.67 ± 0.28", "", "FILE line 5: t/s = '': is no number"),
        ("pp 1 |", "qq 1 |", "FILE line 5: test = 'qq 1': is no test of llama-bench; such as tg128"),
        ("pp 1 |", "pp 0 |", "FILE line 5: test = 'pp 0': neither reads nor generates a token"),
        ("| 99 | pp 1 |", "| pp 1 |", "FILE line 5: 6 cells under 7 names"),
    ],
)
def test_bench_table_is_refused(save, old: str, new: str, expected: str):
    assert old in files.BENCH
    assert expected in _refusal(save("a.md", files.BENCH.replace(old, new, 1)))


def test_splitwise_bad_cells_are_refused(save):
    for old, new, expected in (
        ("54.88", "0", f"FILE line 2: token_time = 0: {NOT_POSITIVE}"),
        ("54.88", "-54.88", f"FILE line 2: token_time = -54.88: {NOT_POSITIVE}"),
        ("54.88", "", "FILE line 2: token_time = '': is no number"),
        ("7166.0", "x", "FILE line 2: e2e_time = 'x': is no number"),
        ("m,a100,512,1,", "m,a100,512,0,", "FILE line 2: batch_size = 0: must lie in [1, "),
    ):
        assert expected in _refusal(save("a.csv", files.SPLITWISE.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "FILE: is empty"),
        (b" \n\n", "FILE: holds only blanks"),
        (b"\x00" * 40, "FILE: holds bytes that are no text"),
        ("hello", "FILE: 'hello': holds no step times of a known format (sglang-bench-speculative, llama-bench,"),
        ({"loss": 0.1}, "FILE: keys = ['loss']: holds no step times of a known format"),
        ("[" * 100_000, "holds no step times of a known format"),
        ("{" * 100_000, "holds no step times of a known format"),
        (files.BENCH_JSON[:-200], "holds no step times of a known format"),
        ("| test | t/s |\n| --- | --- |\n", "FILE: holds no time; the benchmark may have failed; run it again"),
        (b"1 " * 10_000_000, "FILE: is larger than 17 MB; no table of step times is"),
        (files.BENCH + files.BATCHED, "'llama-bench, llama-batched-bench': holds more than one format; choose one"),
        ({"schema": "specbook-step-times/1"}, "is a specbook-step-times/1 file; specbook steps show prints it"),
    ],
)
def test_file_of_no_known_format_is_refused(save, content: Any, expected: str):
    assert expected in _refusal(save("a.txt", content))


def test_broken_line_in_the_middle_is_refused(save):
    first, second, *rest = files.SGLANG.splitlines()
    text = _refusal(save("a.jsonl", "\n".join([first, second[:40], *rest])))
    assert text.startswith("FILE line 2: is not complete JSON")


@pytest.mark.parametrize("path", sorted(example_file("spec-bench.jsonl").parent.iterdir()), ids=lambda path: path.name)
def test_acceptance_files_hold_no_step_times(path: Any):
    if path.stem == "sglang-bench-speculative":
        assert import_step_times(path).measures == "round"
    else:
        assert "holds no step times" in _refusal(path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"format": "xml"}, f"--format = 'xml': no such format; one of auto, {', '.join(FORMATS)}"),
        ({"context": -1}, "--context = -1: must lie in [0, "),
        ({"model": " "}, "--model = ' ': must be a name"),
        ({"only": {"depth": (1,)}}, "--only = 'depth': no such axis; one of batch, context, width"),
    ],
)
def test_step_time_options_are_refused(options: dict[str, Any], expected: str):
    with pytest.raises(BadInput) as caught:
        StepTimeOptions(**options)
    assert expected in str(caught.value)


def test_options_that_the_file_contradicts_are_refused(save):
    path = save("a.csv", files.TABLE)
    assert "FILE: --context = 99: the file says it: 4,096, 512; keep one" in _refusal(path, StepTimeOptions(context=99))
    text = _refusal(path, StepTimeOptions(only={"batch": (3,)}))
    assert "FILE: --only batch = 3: no time there; measured were 1, 8" in text
    assert "holds no step times of a known format (splitwise)" in _refusal(path, StepTimeOptions(format="splitwise"))


def test_hostile_names_are_shown_and_kept_out_of_the_source(save):
    text = "series,batch,width,ms\n\x1b[31mred,1,1,10\nblue,1,1,10\n"
    assert r"'\x1b[31mred'" in _refusal(save("a.csv", text)) or r"'\\x1b[31mred'" in _refusal(save("a.csv", text))
    surrogate = json.dumps([files.BENCH_RECORD | {"model_type": "\ud800"}])
    assert "model_type = '\\ud800': is not valid text" in _refusal(save("a.json", surrogate))
