"""Recorded traces: what each format says, what no request can be, and what is left out on request."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.serving.traces import FORMATS, Tally, example_trace, read_trace, stream_trace
from specbook.serving.workload import Workload

EXAMPLES = {
    "azure-llm.csv": ("azure-llm", [0.0, 0.42345, 0.42345, 1.5], [412, 1890, 95, 640], [57, 12, 230, 33]),
    "azure-lmm-2025.csv": ("azure-llm", [0.0, 0.65, 1.75], [1210, 310, 2480], [40, 118, 25]),
    "burstgpt.csv": ("burstgpt", [0.0, 40.0, 40.0, 113.0], [472, 1087, 61, 540], [18, 230, 44, 96]),
    "mooncake.jsonl": ("mooncake", [0.0, 0.74, 0.91], [1400, 1030, 300], [52, 9, 120]),
    "vidur.csv": ("vidur", [0.0, 4.314579, 4.541877], [374, 396, 879], [44, 109, 55]),
    "splitwise-sim.csv": ("splitwise-sim", [0.0, 0.3875, 1.8375], [512, 1024, 128], [64, 17, 210]),
    "llm-serving-sim.jsonl": ("llm-serving-sim", [0.0, 0.260000001, 0.85], [4, 2, 3], [3, 4, 2]),
    "vllm-bench-serve.json": ("vllm-bench-serve", [0.0, 0.25, 0.625], [90, 33, 88], [5, 4, 11]),
    "specbook.csv": ("specbook-csv", [0.0, 0.75, 2.5], [512, 96, 2048], [128, 40, 16]),
}
SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "traces"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
SPLIT = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
MOON = '{"timestamp": 0, "input_length": 14, "output_length": 5}\n'


def _lists(load: Workload) -> tuple[list[float], list[int], list[int]]:
    return load.arrival_s.tolist(), load.prompt_tokens.tolist(), load.output_tokens.tolist()


def _refusal(path: Path, *, lenient: bool = False) -> str:
    with pytest.raises(BadInput) as caught:
        read_trace(path, lenient=lenient)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "; " in text
    return text.replace(str(path), "FILE")


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_says_what_it_holds(name: str):
    trace = read_trace(example_trace(name))
    expected, arrival_s, prompts, outputs = EXAMPLES[name]
    assert (trace.format, trace.skipped) == (expected, {})
    assert trace.workload.name == name.partition(".")[0]
    assert trace.workload.arrival_s.tolist() == pytest.approx(arrival_s, abs=1e-12)
    assert _lists(trace.workload)[1:] == (prompts, outputs)


def test_every_format_has_an_example_and_every_example_a_test():
    assert {example[0] for example in EXAMPLES.values()} == set(FORMATS)
    assert {path.name for path in example_trace("").iterdir()} == set(EXAMPLES)


def test_page_on_traces_shows_every_format_as_it_is_read(save):
    page = (Path(__file__).parents[2] / "book" / "how-to" / "traces.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:text|json)\n(.*?)```", page, re.DOTALL)
    assert {read_trace(save("trace", block)).format for block in blocks} == set(FORMATS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_content_decides_and_the_name_does_not(save, name: str):
    content = example_trace(name).read_bytes()
    expected = _lists(read_trace(example_trace(name)).workload)
    assert _lists(read_trace(save("trace.txt", content)).workload) == expected
    assert _lists(read_trace(save("a.csv.gz", gzip.compress(content))).workload) == expected
    assert _lists(read_trace(save("bom.csv", b"\xef\xbb\xbf" + content)).workload) == expected
    assert _lists(read_trace(save("windows.csv", content.replace(b"\n", b"\r\n"))).workload) == expected
    assert _lists(read_trace(save("end.csv", content.rstrip(b"\n"))).workload) == expected
    assert _lists(read_trace(save("blank.csv", b"\n" + content + b"\n\n \n")).workload) == expected


def test_packed_trace_is_named_without_its_endings(save):
    path = save("week.jsonl.gz", gzip.compress(MOON.encode()))
    assert read_trace(path).workload.name == "week"


ONE_TRACE_IN_MANY_FORMATS = {
    "azure": AZURE + "2023-11-16 23:59:59.5000000,10,3\n2023-11-17 00:00:00.0000001,20,4\n",
    "azure with zones": AZURE + "2023-11-17T00:59:59.5+01:00,10,3\n2023-11-17 00:00:00.0000001Z,20,4\n",
    "burstgpt": BURST + "59.5,A,10,3,13,x\n60.0000001,A,20,4,24,x\n",
    "burstgpt quoted": BURST + '"59.5","A, B",10,3,13,x\n60.0000001,A,20,4,24,x\n',
    "vidur": VIDUR + "0,10,3\n0.5000001,20,4\n",
    "vidur, exchanged columns": "num_decode_tokens, num_prefill_tokens,arrived_at\n3,10,7.25\n4,20,7.7500001\n",
    "whole numbers as floats": VIDUR + "1e0,10.0,3.0\n1.5000001,20.0,4\n",
    "splitwise": SPLIT + "0,2,0,3.0,1,10,3\n1,2,0,3.5000001,1,20,4\n",
    "mooncake": '{"timestamp": 1000, "input_length": 10, "output_length": 3}\n'
    '{"timestamp": 1500.0001, "input_length": 20, "output_length": 4, "hash_ids": []}\n',
    "llm-serving-sim": '{"arrival_time_ns": 7, "input_toks": 10, "output_toks": 3}\n'
    '{"arrival_time_ns": 500000107, "input_toks": 20, "output_toks": 4}\n',
    "specbook": "arrival_s,prompt_tokens,output_tokens\n2,10,3\n2.5000001,20,4\n",
    "vllm, out of order": json.dumps({"start_times": [9.5000001, 9.0], "input_lens": [20, 10], "output_lens": [4, 3]}),
    "vllm, indented": json.dumps(
        {"start_times": [9.0, 9.5000001], "input_lens": [10, 20], "output_lens": [3, 4], "errors": ["", ""]}, indent=2
    ),
}


@pytest.mark.parametrize("case", ONE_TRACE_IN_MANY_FORMATS)
def test_formats_agree_about_one_trace(save, case: str):
    arrival_s, prompts, outputs = _lists(read_trace(save("trace", ONE_TRACE_IN_MANY_FORMATS[case])).workload)
    assert arrival_s == pytest.approx([0.0, 0.5000001], abs=1e-12)
    assert (prompts, outputs) == ([10, 20], [3, 4])


def _azure_rows(n: int) -> tuple[str, str]:
    """One random trace as Azure's table and as Vidur's, written with other code than reads it."""
    rng = np.random.default_rng(4)
    microseconds = np.cumsum(rng.integers(0, 300_000, n))
    prompts, outputs = rng.integers(1, 8000, n), rng.integers(1, 900, n)
    start = datetime(2023, 12, 31, 23, 0)  # goes into another year
    rows = list(zip(microseconds.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    azure = "".join(f"{start + timedelta(microseconds=us):%Y-%m-%d %H:%M:%S.%f}0,{p},{o}\n" for us, p, o in rows)
    vidur = "".join(f"{(us - rows[0][0]) / 1e6},{p},{o}\n" for us, p, o in rows)
    return AZURE + azure, VIDUR + vidur


def test_azure_and_vidur_agree_about_a_long_trace(save):
    azure, vidur = (read_trace(save(f"{index}.csv", text)).workload for index, text in enumerate(_azure_rows(30_000)))
    assert np.abs(azure.arrival_s - vidur.arrival_s).max() < 1e-9
    assert np.array_equal(azure.prompt_tokens, vidur.prompt_tokens)
    assert np.array_equal(azure.output_tokens, vidur.output_tokens)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of shared data is not here")
@pytest.mark.parametrize("name", ["conv", "code"])
def test_published_trace_agrees_in_both_formats(name: str):
    azure = read_trace(SHARED / f"azure_llm_2023_{name}.csv")
    vidur = read_trace(SHARED / f"vidur_splitwise_{name}.csv")
    assert (azure.format, vidur.format) == ("azure-llm", "vidur")
    assert np.abs(azure.workload.arrival_s - vidur.workload.arrival_s).max() < 1e-6
    assert np.array_equal(azure.workload.prompt_tokens, vidur.workload.prompt_tokens)
    assert np.array_equal(azure.workload.output_tokens, vidur.workload.output_tokens)
    with (SHARED / f"azure_llm_2023_{name}.csv").open(newline="") as stream:
        assert azure.workload.n_requests == sum(1 for _ in csv.reader(stream)) - 1


BAD_ROWS = {
    "negative time": (VIDUR + "0,1,1\n-1,1,1\n", "FILE line 3: arrived_at = '-1': must not be negative; "),
    "NaN": (VIDUR + "nan,1,1\n", "FILE line 2: arrived_at = 'nan': is not finite; "),
    "infinite": (VIDUR + "0,1,1\n1e999,1,1\n", "FILE line 3: arrived_at = '1e999': is not finite; "),
    "huge": (VIDUR + "1e300,1,1\n", "FILE line 2: arrived_at = '1e300': is no time; "),
    "after thirty years": (VIDUR + "0,1,1\n2e9,1,1\n", "FILE line 3: arrived_at = '2e9': is over thirty years after"),
    "time goes back": (VIDUR + "1,1,1\n0.5,1,1\n", "FILE line 3: arrived_at = '0.5': goes back in time; "),
    "time goes back later": (VIDUR + "1,1,1\n3,1,1\n2,1,1\n", "FILE line 4: arrived_at = '2': goes back in time; "),
    "instant goes back": (
        AZURE + "2023-11-16 18:00:00.5000000,1,1\n2023-11-16 18:00:00.4999999,1,1\n",
        "FILE line 3: TIMESTAMP = '2023-11-16 18:00:00.4999999': goes back in time; ",
    ),
    "no date": (AZURE + "2023-02-30 18:00:00,1,1\n", "FILE line 2: TIMESTAMP = '2023-02-30 18:00:00': is no date and"),
    "no hour": (AZURE + "2023-02-20 24:00:00,1,1\n", "FILE line 2: TIMESTAMP = '2023-02-20 24:00:00': is no date and"),
    "year 0": (AZURE + "0000-02-20 12:00:00,1,1\n", "FILE line 2: TIMESTAMP = '0000-02-20 12:00:00': is no date and"),
    "seconds as a date": (AZURE + "12.5,1,1\n", "FILE line 2: TIMESTAMP = '12.5': is no date and time; "),
    "no prompt": (VIDUR + "0,0,1\n", "FILE line 2: num_prefill_tokens = '0': must be at least 1; "),
    "negative output": (VIDUR + "0,1,-4\n", "FILE line 2: num_decode_tokens = '-4': must be at least 1; "),
    "half a token": (VIDUR + "0,1.5,1\n", "FILE line 2: num_prefill_tokens = '1.5': must be whole; "),
    "more than any context": (VIDUR + "0,1,99999999\n", "FILE line 2: num_decode_tokens = '99999999': must be at most"),
    "a word": (VIDUR + "0,ten,1\n", "FILE line 2: num_prefill_tokens = 'ten': is no number; "),
    "underscores": (VIDUR + "0,1_0,1\n", "FILE line 2: num_prefill_tokens = '1_0': is no number; "),
    "digits of another script": (VIDUR + "0,٣,1\n", "FILE line 2: num_prefill_tokens = '٣': is no number; "),
    "empty cell": (VIDUR + "0,,1\n", "FILE line 2: num_prefill_tokens = '': is empty; "),
    "short row": (VIDUR + "0,1\n0,1,1\n", "FILE line 2: '0,1': is not a full row; "),
    "long row": (VIDUR + "0,1,1,5\n", "FILE line 2: row = '0,1,1,5': has more cells than the header; "),
    "open quote": (VIDUR + '0,1,"1\n', "FILE line 2: '0,1,\"1': has quotes that do not close; "),
    "header again": (VIDUR + "0,1,1\n" + VIDUR, "FILE line 3: arrived_at = 'arrived_at': is no number; "),
    "failed": (BURST + "5,A,4,0,4,x\n", "FILE line 2: Response tokens = '0': is 0, as where a request failed; "),
    "a batch": (SPLIT + "0,2,0,3.0,8,10,3\n", "FILE line 2: batch_size = '8': is no single request; "),
    "missing key": (MOON + '{"timestamp": 0, "input_length": 1}\n', "FILE line 2: output_length: is missing; "),
    "missing in the first": (
        '{"input_length": 14, "output_length": 5}\n' + MOON,
        "FILE line 1: timestamp: is missing; ",
    ),
    "null": (
        MOON + '{"timestamp": 0, "input_length": null, "output_length": 1}\n',
        "FILE line 2: input_length = None: is no number; ",
    ),
    "true": (
        MOON + '{"timestamp": true, "input_length": 1, "output_length": 1}\n',
        "FILE line 2: timestamp = True: is no number; ",
    ),
    "a string": (
        MOON + '{"timestamp": "0", "input_length": 1, "output_length": 1}\n',
        "FILE line 2: timestamp = '0': is no number; ",
    ),
    "NaN in JSON": (
        MOON + '{"timestamp": NaN, "input_length": 1, "output_length": 1}\n',
        "FILE line 2: timestamp = nan: is not finite; ",
    ),
    "a list": (MOON + "[1]\n", "FILE line 2: record = [1]: is no JSON object; "),
    "broken JSON": ('{"timestamp": 0,\n' + MOON, "FILE line 1: '{\"timestamp\": 0,': is not complete JSON; "),
    "another format": (
        MOON + '{"arrival_time_ns": 7, "input_toks": 10, "output_toks": 3}\n',
        "FILE line 2: timestamp: is missing; ",
    ),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_row_is_refused_with_its_place(save, case: str):
    text, expected = BAD_ROWS[case]
    assert expected in _refusal(save("trace", text))


BAD_FILES = {
    "empty": ("", "FILE: is empty; "),
    "blank": ("\n \n", "FILE: holds only blanks; "),
    "header only": (VIDUR, "FILE: holds no request that can be used; "),
    "header without its end": (VIDUR.strip(), "FILE: holds no request that can be used; "),
    "text": ("hello world\n", "FILE: header = 'hello world': is of no known format (azure-llm, burstgpt, "),
    "another table": ("a,b,c\n1,2,3\n", "FILE: header = 'a, b, c': is of no known format"),
    "another object": ('{"a": 1, "b": 2}\n', "FILE: keys = ['a', 'b']: is of no known format"),
    "JSON list": (f"[{MOON}]", "FILE: is one JSON list; write one request a line"),
    "broken document": ('{\n"a": [1, 2\n', "FILE: is not complete JSON"),
    "lengths alone": (
        "num_prefill_tokens,num_decode_tokens,pd_ratio\n1,1,1\n",
        "FILE: holds lengths, and no column arrived_at that says when; add that column, in seconds, or draw arrivals",
    ),
    "column twice": ("arrived_at," + VIDUR + "0,0,1,1\n", "FILE: header = 'arrived_at': names two columns; "),
    "UTF-16": (VIDUR.encode("utf-16"), "is of no known format"),
}


@pytest.mark.parametrize("case", BAD_FILES)
@pytest.mark.parametrize("lenient", [False, True])
def test_bad_file_is_refused_even_leniently(save, case: str, lenient: bool):
    content, expected = BAD_FILES[case]
    assert expected in _refusal(save("trace", content), lenient=lenient)


def test_missing_file_and_folder_are_refused(tmp_path: Path):
    assert "FILE: no such file or directory" in _refusal(tmp_path / "none.csv")
    assert "FILE: is a directory" in _refusal(tmp_path)


VLLM: dict[str, Any] = {
    "num_prompts": 2,
    "completed": 2,
    "duration": 1.5,
    "total_output_tokens": 9,
    "input_lens": [90, 33],
    "output_lens": [5, 4],
    "start_times": [10.0, 10.5],
    "errors": ["", ""],
}
VLLM_REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "an error": ({"errors": ["", "timed out"]}, "FILE request 2: errors = 'timed out': says that the request failed; "),
    "no output": (
        {"output_lens": [0, 4], "total_output_tokens": 4},
        "FILE request 1: output_lens = 0: is 0, as where a request failed; ",
    ),
    "lists of two lengths": ({"input_lens": [90]}, "FILE: lists 2 starts, 1 prompts, 2 outputs, 2 errors; "),
    "another total": ({"total_output_tokens": 10}, "FILE: total_output_tokens = 10: is not the sum of output_lens, 9;"),
    "no list": ({"start_times": 3}, "FILE: start_times = 3: is no list; "),
    "no time": ({"start_times": [10.0, None]}, "FILE request 2: start_times = None: is no number; "),
    "no details": (
        {"start_times": ..., "input_lens": ..., "output_lens": ..., "errors": ...},
        "FILE: start_times: is missing; run vllm bench serve --save-result with --save-detailed",
    ),
}


@pytest.mark.parametrize("case", VLLM_REFUSALS)
def test_vllm_result_is_refused(save, case: str):
    changes, expected = VLLM_REFUSALS[case]
    document = {key: value for key, value in (VLLM | changes).items() if value is not ...}
    assert expected in _refusal(save("result.json", document))


def test_vllm_results_of_several_runs_are_refused(save):
    assert "FILE: holds the results of several runs; " in _refusal(save("runs.jsonl", [VLLM, VLLM]))


def test_vllm_failed_requests_are_skipped_leniently(save):
    changes = {"input_lens": [90, 33, 7, 8], "output_lens": [0, 4, 3, 2], "start_times": [0.0, 9.0, 9.5, 9.75]}
    document = VLLM | changes | {"errors": ["refused", "", "", ""]}
    trace = read_trace(save("result.json", document), lenient=True)
    assert _lists(trace.workload) == ([0.0, 0.5, 0.75], [33, 7, 8], [4, 3, 2])
    assert trace.skipped == {"errors says that the request failed": 1}


def test_lenient_reading_skips_and_counts_by_reason(save):
    rows = "2,7,1\nx,1,1\n3,0,1\n1,1,1\n4,5,y\n2.5,1,1\n3.5,8,2\n-1,1,1\n4,1\n"
    trace = read_trace(save("trace.csv", VIDUR + rows), lenient=True)
    assert _lists(trace.workload) == ([0.0, 0.5, 1.5], [7, 1, 8], [1, 1, 2])
    assert trace.skipped == {
        "arrived_at is no number": 1,
        "num_decode_tokens is no number": 1,
        "num_prefill_tokens must be at least 1": 1,
        "arrived_at goes back in time": 1,
        "arrived_at must not be negative": 1,
        "is not a full row": 1,
    }


def test_lenient_reading_begins_at_the_first_request_that_can_be_used(save):
    trace = read_trace(save("trace.csv", BURST + "5,A,4,0,4,x\n45,A,4,2,6,x\n46,A,4,3,7,x\n"), lenient=True)
    assert trace.workload.arrival_s.tolist() == [0.0, 1.0]
    assert trace.skipped == {"Response tokens is 0, as where a request failed": 1}


def test_strict_reading_of_a_good_file_skips_nothing_leniently(save):
    path = save("trace.csv", _azure_rows(50)[0])
    assert _lists(read_trace(path).workload) == _lists(read_trace(path, lenient=True).workload)
    assert read_trace(path, lenient=True).skipped == {}


def test_nothing_usable_is_refused_leniently(save):
    assert "holds no request that can be used" in _refusal(save("t.csv", BURST + "5,A,4,0,4,x\n"), lenient=True)


CUT = {
    "table": VIDUR + "0,10,3\n0.5,2",
    "table, after a comma": VIDUR + "0,10,3\n0.5,20,",
    "instant": AZURE + "2023-11-16 18:00:00.5000000,10,3\n2023-11-16 18:0",
    "quoted": BURST + '5,A,10,3,13,x\n"6',
    "objects": '\n{"timestamp": 0, "input_length": 10, "output_length": 3}\n{"timestamp": 1, "inp',
}


@pytest.mark.parametrize("case", CUT)
def test_last_record_that_breaks_off_is_refused_or_left_out(save, case: str):
    path = save("trace", CUT[case])
    assert "breaks off with the file; fetch it again" in _refusal(path)
    assert "FILE line 3: " in _refusal(path)
    trace = read_trace(path, lenient=True)
    assert _lists(trace.workload) == ([0.0], [10], [3])
    (reason,) = trace.skipped
    assert reason.endswith("breaks off with the file")
    assert trace.notes == ()


NO_END = {
    "table": (VIDUR + "0,10,3\n0.5,20,1", True),
    "table, whole": (VIDUR + "0,10,3\n0.5,20,18\n", False),
    "table, blank line": (VIDUR + "0,10,3\n ", False),
    "objects end in a bracket": (MOON + MOON.strip(), False),
    "document": (example_trace("vllm-bench-serve.json").read_text().strip(), False),
}


@pytest.mark.parametrize("case", NO_END)
def test_last_number_of_a_table_without_a_line_end_may_be_cut(save, case: str):
    text, is_noted = NO_END[case]
    notes = read_trace(save("trace", text)).notes
    assert len(notes) == is_noted
    assert all("has no line end: it may have been cut" in note for note in notes)


def test_every_cut_of_an_objects_file_is_refused_or_a_shorter_trace(save):
    content = example_trace("mooncake.jsonl").read_bytes()
    ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
    for length in range(1, len(content)):
        path = save("trace", content[:length])
        if length in ends or length + 1 in ends:
            assert read_trace(path).workload.n_requests == sum(end <= length + 1 for end in ends)
        else:
            _refusal(path)


def test_damaged_gzip_is_refused(save):
    packed = gzip.compress(example_trace("azure-llm.csv").read_bytes())
    damaged = (packed[:-10], packed[:5], packed[:20] + b"\x00\xff\x13" + packed[23:], packed[:-3] + b"abc")
    for content in damaged:
        assert "FILE: is packed with gzip, and cannot be unpacked; " in _refusal(
            save("t.csv.gz", content), lenient=True
        )


@pytest.mark.parametrize("rows", [1, 7, 499, 500, 10_000])
def test_streamed_pieces_are_the_trace(save, rows: int):
    path = save("trace.csv", _azure_rows(500)[0])
    pieces = list(stream_trace(path, rows=rows))
    whole = read_trace(path).workload
    assert [piece.n_requests for piece in pieces[:-1]] == [rows] * (len(pieces) - 1)
    assert np.array_equal(np.concatenate([piece.arrival_s for piece in pieces]), whole.arrival_s)
    assert np.array_equal(np.concatenate([piece.output_tokens for piece in pieces]), whole.output_tokens)
    assert {piece.name for piece in pieces} == {"trace"}


def test_stream_gives_what_comes_before_a_bad_row_and_then_refuses(save):
    pieces = stream_trace(save("trace.csv", VIDUR + "0,1,1\n1,1,1\n2,0,1\n"), rows=2)
    assert next(pieces).n_requests == 2
    with pytest.raises(BadInput, match="line 4"):
        next(pieces)
    kept = list(stream_trace(save("trace.csv", VIDUR + "0,1,1\n1,0,1\n2,3,1\n"), rows=1, lenient=True))
    assert [piece.arrival_s.tolist() for piece in kept] == [[0.0], [2.0]]


def test_stream_refuses_at_once_what_it_cannot_begin(save):
    with pytest.raises(BadInput, match="no known format"):
        stream_trace(save("trace.csv", "a,b\n"))
    with pytest.raises(ValueError, match="rows must be whole and at least 1; got 0"):
        stream_trace(example_trace("vidur.csv"), rows=0)


def test_stream_reads_no_further_than_asked(save):
    """A bad row far behind the first piece does not matter to it, so that memory need not hold what lies between."""
    pieces = stream_trace(save("trace.csv", VIDUR + "0,1,1\n" * 5000 + "bad\n"), rows=100)
    assert next(pieces).n_requests == 100


def _too_long(prompt: int, output: int) -> BadInput | None:
    return BadInput("are too many", field="tokens", value=prompt + output, remedy="drop it") if prompt > 9 else None


def test_what_an_engine_cannot_run_is_refused_with_its_line_or_skipped_and_counted(save):
    path = save("trace.csv", VIDUR + "0,50,1\n1,9,1\n2,10,3\n3,1,1\n4,1,0\n5,2,1\n")
    with pytest.raises(BadInput, match=r"trace.csv line 2: tokens = 51: are too many; drop it"):
        list(stream_trace(path, why_not=_too_long))
    tally = Tally()
    pieces = list(stream_trace(path, lenient=True, rows=1, first=2, why_not=_too_long, tally=tally))
    assert [piece.arrival_s.tolist() for piece in pieces] == [[0.0], [2.0]]
    assert (tally.format, tally.skipped) == ("vidur", {"tokens are too many": 2})


def test_stream_reads_only_the_first_requests(save):
    path = save("trace.csv", VIDUR + "0,1,1\n" * 5 + "bad\n")
    assert [piece.n_requests for piece in stream_trace(path, rows=3, first=5)] == [3, 2]
    with pytest.raises(ValueError, match="first must be whole and at least 1; got 0"):
        stream_trace(path, first=0)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_progress_counts_the_bytes_of_the_file(save, pack: Callable[[bytes], bytes]):
    path = save("trace", pack(_azure_rows(10_000)[0].encode()))
    steps: list[int] = []
    assert sum(piece.n_requests for piece in stream_trace(path, progress=steps.append)) == 10_000
    assert len(steps) == 3
    assert sum(steps) == path.stat().st_size
