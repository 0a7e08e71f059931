"""Benchmark files of other engines: told by content, figures as stated, refused where impossible, always external."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from specbook.checks import BadInput
from specbook.witness.external import ExternalBaseline, read_external

VLLM: dict[str, Any] = {
    "date": "20260301-101500", "endpoint_type": "openai-chat", "backend": "openai-chat", "label": None,
    "model_id": "Q/Q3-8B",
    "num_prompts": 40, "request_rate": "inf", "max_concurrency": 4, "duration": 99.0, "completed": 40, "failed": 0,
    "total_input_tokens": 6676, "total_output_tokens": 20480, "output_throughput": 206.75, "request_goodput": None,
    "spec_decode_acceptance_rate": 86.1, "spec_decode_draft_tokens": 10991, "spec_decode_accepted_tokens": 9467,
    "mean_tpot_ms": 18.9, "median_tpot_ms": 18.8, "p90_tpot_ms": 19.6, "p99_tpot_ms": 20.3, "p90_ttft_ms": 232.5,
    "itls": [[0.1]], "generated_texts": ["a"],
}  # fmt: skip
SGLANG: dict[str, Any] = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None,
    "random_input_len": 256,
    "random_output_len": 64, "duration": 30.5, "completed": 100, "total_input_tokens": 25600,
    "total_output_tokens": 6400, "total_output_tokens_retokenized": 6390, "output_throughput": 209.8,
    "mean_ttft_ms": 60.1, "mean_tpot_ms": 9.5, "median_tpot_ms": 9.4, "p99_tpot_ms": 12.5, "accept_length": 2.6,
}  # fmt: skip
BENCH: dict[str, Any] = {
    "build_commit": "8cf427ff", "model_filename": "/home/me/m.gguf", "model_type": "qwen2 7B Q4_K", "n_prompt": 0,
    "n_gen": 128, "n_depth": 0, "avg_ns": 1076767880, "avg_ts": 118.88, "stddev_ts": 1.04, "samples_ns": [1, 2],
}  # fmt: skip
BENCH_TABLE = """| model         |     size | backend | test         |             t/s |
| ------------- | -------: | ------- | -----------: | --------------: |
| qwen2 7B Q4_K | 4.36 GiB | CUDA    |        tg128 |   120.60 ± 0.59 |
| qwen2 7B Q4_K | 4.36 GiB | CUDA    | tg128 @ d512 |   116.71 ± 0.60 |
"""
BENCH_CSV = 'build_commit,model_type,n_prompt,n_gen,n_depth,avg_ts\n"8cf4","qwen2 7B","0","128","0","118.88"\n'
TIMINGS: dict[str, Any] = {
    "prompt_n": 20, "prompt_ms": 80.0, "predicted_n": 64, "predicted_ms": 900.0, "predicted_per_token_ms": 14.0625,
    "draft_n": 90, "draft_n_accepted": 40,
}  # fmt: skip
RESPONSE: dict[str, Any] = {"model": "/models/q.gguf", "content": "hi", "timings": TIMINGS}

FILES: dict[str, tuple[str, Any, str, str]] = {
    "vllm": ("v.json", VLLM, "vllm", "vllm-bench-serve"),
    "vllm without speculation": (
        "v.json",
        {k: v for k, v in VLLM.items() if "spec" not in k},
        "vllm",
        "vllm-bench-serve",
    ),
    "sglang": ("s.jsonl", [SGLANG, SGLANG | {"request_rate": 8.0}], "sglang", "sglang-bench-serving"),
    "sglang on vllm": ("s.jsonl", [SGLANG | {"backend": "vllm"}], "sglang", "sglang-bench-serving"),
    "llama-bench json": ("b.json", [BENCH, BENCH | {"n_depth": 512}], "llama.cpp", "llama-bench"),
    "llama-bench jsonl": ("b.jsonl", [BENCH], "llama.cpp", "llama-bench"),
    "llama-bench table": ("b.md", BENCH_TABLE, "llama.cpp", "llama-bench"),
    "llama-bench csv": ("b.csv", BENCH_CSV, "llama.cpp", "llama-bench"),
    "llama-server response": ("r.json", RESPONSE, "llama.cpp", "llama-cpp-timings"),
    "llama-server timings": ("t.jsonl", [TIMINGS, TIMINGS], "llama.cpp", "llama-cpp-timings"),
}


@pytest.mark.parametrize("case", FILES)
def test_every_format_is_told_by_content_and_stays_external(save: Callable[..., Path], case: str) -> None:
    name, content, engine, kind = FILES[case]
    path = save(name, content)
    baseline = read_external(path)
    assert (baseline.execution, baseline.engine, baseline.format) == ("external", engine, kind)
    assert baseline.file == name
    assert baseline.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(path.parent) not in baseline.model_dump_json()


def test_figures_are_those_that_the_file_states(save: Callable[..., Path]) -> None:
    (run,) = read_external(save("v.json", VLLM)).runs
    assert (run.name, run.model) == ("1: request_rate inf, max_concurrency 4", "Q/Q3-8B")
    assert run.figures == {
        name: value for name, value in VLLM.items() if isinstance(value, int | float) and name in run.figures
    }
    assert {"p90_tpot_ms", "p90_ttft_ms", "spec_decode_accepted_tokens", "completed"} <= run.figures.keys()
    assert "request_goodput" not in run.figures


def test_runs_of_one_file_keep_their_settings_in_their_names(save: Callable[..., Path]) -> None:
    served = read_external(save("s.jsonl", [SGLANG, SGLANG | {"request_rate": float("inf")}])).runs
    assert [run.name for run in served] == [
        "1: backend sglang, dataset_name random, request_rate 4",
        "2: backend sglang, dataset_name random, request_rate inf",
    ]
    table = read_external(save("b.md", BENCH_TABLE)).runs
    assert [(run.name, run.figures) for run in table] == [
        ("1: test tg128", {"t/s": 120.6}),
        ("2: test tg128 @ d512", {"t/s": 116.71}),
    ]


def test_folders_of_models_are_left_out(save: Callable[..., Path]) -> None:
    assert read_external(save("r.json", RESPONSE)).runs[0].model == "q.gguf"
    text = read_external(save("b.json", [BENCH])).model_dump_json()
    assert "/home/me" not in text


def test_a_cut_last_line_is_left_out_and_said(save: Callable[..., Path]) -> None:
    text = json.dumps(SGLANG) + "\n" + json.dumps(SGLANG)[:50]
    baseline = read_external(save("s.jsonl", text))
    assert len(baseline.runs) == 1
    assert baseline.notes == ["line 2, the last, is unreadable and was left out"]


CLAIMS: dict[str, Any] = {
    "execution": "native",
    "engine": "specbook",
    "attestation": {"execution": "native", "engine": "specbook"},
    "verdict": "pass",
}


@pytest.mark.parametrize("case", ["vllm", "sglang", "llama-bench json", "llama-server response"])
def test_a_file_that_calls_itself_native_is_external(save: Callable[..., Path], case: str) -> None:
    name, content, *_ = FILES[case]
    claiming = [item | CLAIMS for item in content] if isinstance(content, list) else content | CLAIMS
    baseline = read_external(save(name, claiming))
    assert baseline.execution == "external"
    assert "native" not in baseline.model_dump_json()


def test_a_baseline_cannot_be_made_native(save: Callable[..., Path]) -> None:
    document = read_external(save("v.json", VLLM)).model_dump()
    with pytest.raises(ValidationError, match="external"):
        ExternalBaseline(**document | {"execution": "native"})
    with pytest.raises(ValidationError):
        ExternalBaseline(**document | {"attestation": {}})
    with pytest.raises(ValidationError):
        ExternalBaseline(**document | {"file": "folder/v.json"})


REFUSED: dict[str, tuple[str, Any, str]] = {
    "no benchmark": ("a.json", {"loss": 0.1}, "is no benchmark of one known format"),
    "no object": ("a.json", [1, 2], "is no benchmark"),
    "text": ("a.txt", "hello", "is no benchmark"),
    "empty": ("a.json", b"", "is empty"),
    "binary": ("a.json", b"\x00\x01", "no text"),
    "a receipt": ("a.json", {"schema": "specbook-receipt/1"} | VLLM, "is a specbook-receipt/1 file"),
    "two formats": ("a.jsonl", [VLLM, SGLANG], "holds more than one format"),
    "keys of two formats": ("a.json", VLLM | TIMINGS, "is no benchmark of one known format"),
    "a figure of text": ("a.json", VLLM | {"p90_tpot_ms": "fast"}, "p90_tpot_ms = 'fast'"),
    "a figure that is true": ("a.json", VLLM | {"duration": True}, "duration = True"),
    "a negative figure": ("a.json", VLLM | {"mean_tpot_ms": -1.0}, "mean_tpot_ms = -1.0"),
    "NaN": ("a.json", VLLM | {"mean_tpot_ms": float("nan")}, "mean_tpot_ms = nan"),
    "an endless figure": ("a.json", VLLM | {"duration": 10**400}, "duration = 1000"),
    "accepted above drafted": ("a.json", VLLM | {"spec_decode_accepted_tokens": 10992}, "is above spec_decode_draft"),
    "llama accepted above drafted": ("a.json", RESPONSE | {"timings": TIMINGS | {"draft_n": 3}}, "is above draft_n, 3"),
    "completed above asked": ("a.json", VLLM | {"completed": 41}, "is above num_prompts"),
    "percentiles that fall": ("a.json", VLLM | {"p90_tpot_ms": 21.0}, "is above p99_tpot_ms"),
    "only nulls": ("a.json", dict.fromkeys(("completed", "duration", "output_throughput", "num_prompts")), "no figure"),
    "too many runs": ("a.jsonl", [TIMINGS] * 1001, "holds 1,001 runs"),
    "a speed of text": ("a.md", BENCH_TABLE.replace("120.60", "quick"), "t/s = 'quick'"),
    "a lone surrogate": ("a.json", '{"model": "\\ud800", "timings": ' + json.dumps(TIMINGS) + "}", "not valid text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(save: Callable[..., Path], case: str) -> None:
    name, content, problem = REFUSED[case]
    path = save(name, content)
    with pytest.raises(BadInput) as caught:
        read_external(path)
    text = str(caught.value)
    assert problem in text
    assert text.startswith(str(path))
    assert "\n" not in text


def test_a_file_beyond_any_benchmark_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(17 * 2**20)
    with pytest.raises(BadInput, match="larger than 17 MB; save it without details"):
        read_external(path)


def test_settings_that_are_no_names_are_left_out(save: Callable[..., Path]) -> None:
    odd = VLLM | {"label": "x" * 100, "request_rate": 10**400, "max_concurrency": 4}
    assert read_external(save("v.json", odd)).runs[0].name == "1: max_concurrency 4"
