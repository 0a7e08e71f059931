"""``specbook simulate``: options, files, exit codes, one line for bad input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.profile import profile_from_counts, write_profile
from specbook.checks import BadInput
from specbook.commands import serving_options, serving_run
from specbook.files import sha256_of

CONTRACT = {
    *("ttft_s", "tpot_s", "itl_s", "e2e_s", "throughput_tokens_per_s", "goodput_requests_per_s", "waste"),
    *("n_iterations", "n_preemptions", "wall_s", "stable", "schema", "seed", "step_time_kind", "assumptions", "notes"),
}
MODELS = ("--hardware", "h100-sxm5", "--target", "Llama-3.1-8B")
DRAFTED = ("--conditional-acceptance", 0.8, "--draft-length", 4)
FILES = ["iterations.parquet", "requests.parquet", "summary.json"]


@pytest.fixture
def constant(save: Callable[..., Path]) -> Path:
    return save("S.json", {"kind": "constant", "ms": 10})


@pytest.fixture
def three(save: Callable[..., Path]) -> Path:
    """Requests that never overlap at 10 ms an iteration."""
    rows = "".join(f"{second},100,{output}\n" for second, output in ((0, 3), (1, 4), (2, 5)))
    return save("trace.csv", "arrival_s,prompt_tokens,output_tokens\n" + rows)


@pytest.fixture
def burst(save: Callable[..., Path]) -> Path:
    """Forty requests at one instant, and one in the middle that is longer than the others."""
    rows = "".join(f"0,{900 if number == 20 else 64},32\n" for number in range(40))
    return save("burst.csv", "arrival_s,prompt_tokens,output_tokens\n" + rows)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    write_profile(
        profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method="draft_model"), tmp_path / "p.json"
    )
    return tmp_path / "p.json"


def _file(constant: Path, *arguments: object, blocks: int = 100) -> tuple[object, ...]:
    return ("simulate", "--step-time", constant, "--kv-blocks", blocks, *arguments)


def _summary(outcome: Any, code: int = 0) -> dict[str, Any]:
    assert outcome.code == code, outcome.err
    document: dict[str, Any] = json.loads(outcome.out)
    return document


def _one_line(outcome: Any, out: Path, *parts: str) -> None:
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("specbook: ")
    for part in parts:
        assert part in outcome.err
    assert not out.exists()


def test_simulate_of_single_requests_is_arithmetic(cli, tmp_path: Path, constant: Path, three: Path):
    out = tmp_path / "s"
    document = _summary(cli(*_file(constant, "--trace", three, "--out", out, "--json")))
    assert set(document) >= CONTRACT
    assert document == json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert sorted(path.name for path in out.iterdir()) == FILES
    requests = pl.read_parquet(out / "requests.parquet")
    assert (requests["first_token_s"] - requests["arrival_s"]).to_list() == pytest.approx([0.01] * 3)
    assert (requests["end_s"] - requests["arrival_s"]).to_list() == pytest.approx([0.03, 0.04, 0.05])
    assert (document["n_iterations"], document["wall_s"]) == (12, pytest.approx(2.05))
    assert (document["schema"], document["seed"], document["step_time_kind"]) == ("specbook-serving/1", 0, "constant")
    assert document["goodput_requests_per_s"] is None
    assert document["comparison"] is None
    assert document["inputs"]["trace"]["sha256"] == sha256_of(three)
    assert document["inputs"]["step_time"] == [{"file": str(constant), "sha256": sha256_of(constant)}]
    assert document["parameters"]["watermark_blocks"] == 1
    assert set(document["ttft_s"]) >= {"p50", "p90", "p99", "mean"}


def test_simulate_table_says_latencies_throughput_waste_and_where(cli, tmp_path: Path, constant: Path, three: Path):
    outcome = cli(*_file(constant, "--trace", three, *DRAFTED, "--slo-tpot", 0.02, "--out", tmp_path / "s"))
    assert outcome.code == 0
    assert outcome.out.startswith("KV cache: 100 blocks of 16 tokens as stated, 1 kept free\n")
    for part in ("(TTFT)", "p99", "tokens/s", "goodput", "waste", "preemptions", "busy", f"wrote {tmp_path / 's'}"):
        assert part in outcome.out
    assert "states no draft_ms_per_pass" in outcome.err


def test_simulate_drafts_cost_what_the_file_states(cli, save, tmp_path: Path, three: Path):
    times = save("S.json", {"kind": "constant", "ms": 10, "draft_ms_per_pass": 2})
    arguments = ("--trace", three, "--conditional-acceptance", 1, "--draft-length", 1, "--out", tmp_path / "s")
    outcome = cli(*_file(times, *arguments, "--json"))
    requests = pl.read_parquet(tmp_path / "s" / "requests.parquet")
    # Rounds of 12 ms with two tokens each, the last one cut.
    assert (requests["end_s"] - requests["first_token_s"]).to_list() == pytest.approx([0.012, 0.024, 0.024])
    assert _summary(outcome)["waste"]["rejected_tokens"] == 1


def test_simulate_twice_is_the_same_and_another_seed_is_not(cli, tmp_path: Path, constant: Path):
    load = ("--rate", 20, "--requests", 30, "--output-tokens", "geometric:20", *DRAFTED, "--json")
    runs = [_summary(cli(*_file(constant, *load, "--seed", s, "--out", tmp_path / "s"))) for s in (3, 3, 4)]
    assert runs[0] == runs[1]
    assert runs[0]["ttft_s"] != runs[2]["ttft_s"]


def test_simulate_streamed_is_the_same_as_in_memory(cli, tmp_path: Path, constant: Path, burst: Path):
    arguments = ("--trace", burst, *DRAFTED, "--compare", "--json")
    documents = []
    for name, streams in (("a", ()), ("b", ("--stream",))):
        documents.append(_summary(cli(*_file(constant, *arguments, *streams, "--out", tmp_path / name))))
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == FILES
    assert documents[0] == documents[1]
    for name in ("requests", "iterations"):
        assert pl.read_parquet(tmp_path / f"a/{name}.parquet").equals(pl.read_parquet(tmp_path / f"b/{name}.parquet"))


def test_simulate_streams_what_is_long(cli, monkeypatch, tmp_path: Path, constant: Path, burst: Path):
    from specbook.serving import result

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("in memory")

    monkeypatch.setattr(serving_run, "MOST_IN_MEMORY", 39)
    monkeypatch.setattr(result, "simulate_serving", refuse)
    assert _summary(cli(*_file(constant, "--trace", burst, "--out", tmp_path / "s", "--json")))["n_requests"] == 40


def test_simulate_scales_and_cuts_a_trace(cli, tmp_path: Path, constant: Path, three: Path):
    def spans(*arguments: object) -> tuple[float, int]:
        document = _summary(cli(*_file(constant, "--trace", three, *arguments, "--out", tmp_path / "s", "--json")))
        return round(document["wall_s"], 9), document["n_requests"]

    assert spans("--time-factor", 0.5) == (1.05, 3)
    assert spans("--at-rate", 4) == (0.55, 3)
    assert spans("--first", 2) == (1.04, 2)
    assert spans("--first", 2, "--at-rate", 2) == (0.54, 2)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_simulate_lenient_counts_what_it_skips(cli, tmp_path: Path, constant: Path, stream: tuple[str, ...]):
    text = "arrival_s,prompt_tokens,output_tokens\n0,10,2\n1,10,0\n2,10,2\n"
    trace = tmp_path / "t.csv.gz"
    trace.write_bytes(gzip.compress(text.encode()))
    arguments = _file(constant, "--trace", trace, *stream, "--out", tmp_path / "s", "--json")
    refused = cli(*arguments)
    _one_line(refused, tmp_path / "s", "line 3", "output_tokens")
    outcome = cli(*arguments, "--lenient")
    assert "warning: 1 row of the trace was skipped: output_tokens must be at least 1\n" in outcome.err
    document = _summary(outcome)
    assert list(document["inputs"]["trace"]["skipped"].values()) == [1]
    assert document["n_requests"] == 2


LOADS = {
    "poisson": ("--rate", 50),
    "gamma": ("--arrivals", "gamma", "--rate", 50, "--burstiness", 0.5),
    "constant": ("--arrivals", "constant", "--rate", 50, "--prompt-tokens", "10-90"),
    "closed": ("--arrivals", "closed", "--clients", 3, "--think", 0.1, "--output-tokens", "lognormal:20,0.5,64"),
}


@pytest.mark.parametrize("name", LOADS)
def test_simulate_draws_loads(cli, tmp_path: Path, constant: Path, name: str):
    arguments = ("--prompt-tokens", 64, "--output-tokens", 8, *LOADS[name], "--requests", 25)
    document = _summary(cli(*_file(constant, *arguments, "--out", tmp_path / "s", "--json")))
    assert document["n_requests"] == 25
    if name == "closed":
        requests = pl.read_parquet(tmp_path / "s" / "requests.parquet")
        running = [((requests["arrival_s"] <= t) & (requests["end_s"] > t)).sum() for t in requests["arrival_s"]]
        assert max(running) == 3


def test_simulate_models_take_what_fits(cli, tmp_path: Path):
    arguments = ("simulate", *MODELS, "--rate", 4, "--requests", 20, "--out", tmp_path / "s")
    outcome = cli(*arguments)
    assert outcome.out.startswith("KV cache: ")
    assert "give its own count with --kv-blocks" in outcome.out.splitlines()[0]
    assert "step times are calibrated" in outcome.err
    document = _summary(cli(*arguments, "--json"))
    # 0.9 × 80 GiB or GB of the catalogue, less 16 GB of weights, at 131,072 bytes a token.
    assert 24_000 < document["parameters"]["kv_blocks"] < 34_000
    assert document["step_time_kind"] == "calibrated"
    assert document["parameters"]["models"]["target"] == "Llama-3.1-8B"
    assert document["inputs"]["hardware"]["name"] == "h100-sxm5"


@pytest.mark.parametrize(
    ("draft", "method"), [(("--draft", "Llama-3.2-1B"), ()), ((), ("--method", "eagle")), ((), ("--method", "ngram"))]
)
def test_simulate_drafters_of_a_roofline(cli, tmp_path: Path, draft: tuple[str, ...], method: tuple[str, ...]):
    load = ("--rate", 2, "--requests", 20, *DRAFTED, "--compare", "--json")
    outcome = cli("simulate", *MODELS, *draft, *method, *load, "--step-time", "doctrine", "--out", tmp_path / "s")
    document = _summary(outcome)
    assert document["comparison"]["viable"]
    assert document["tpot_s"]["mean"] < document["comparison"]["without_speculation"]["tpot_s"]["mean"]
    assert document["waste"]["rejected_flops"] > 0.0
    assert document["assumptions"] == ["K = 4: fixed draft model"]


def test_simulate_measured_passes(cli, tmp_path: Path):
    measured = ("--step-time", "measured", "--hardware", "epyc-zen4-2core", "--target", "specbook-target-r8")
    engine = ("--backend", "specbook exact", "--precision", "fp32", "--max-batch", 4, "--kv-blocks", 400)
    load = ("--rate", 0.5, "--requests", 4, "--output-tokens", 8)
    arguments = ("simulate", *measured, *engine, *load, "--out", tmp_path / "s", "--json")
    document = _summary(cli(*arguments, "--prompt-tokens", 600))
    assert document["step_time_kind"] == "measured, prefill calibrated"
    outcome = cli("simulate", *measured, *engine, *load, "--out", tmp_path / "t", "--prompt-tokens", 100)
    _one_line(outcome, tmp_path / "t", "tokens of context", "must lie in [512, ")


def test_simulate_profile_and_schedule(cli, tmp_path: Path, constant: Path, profile: Path, burst: Path):
    load = ("--trace", burst, "--acceptance", profile, "--out", tmp_path / "s", "--json")
    document = _summary(cli(*_file(constant, *load)))
    assert document["parameters"]["draft_lengths"] == [4]
    assert document["inputs"]["acceptance"][0]["draft_length"] == 4
    scheduled = _summary(cli(*_file(constant, *load, "--schedule", "1:4,16:2,32:0", "--assume", "truncation")))
    assert scheduled["parameters"]["schedule"] == {"1@0": 4, "16@0": 2, "32@0": 0}
    assert scheduled["assumptions"] == ["K = 2: truncation of a profile at K = 4", "K = 4: measured"]
    lengths = pl.read_parquet(tmp_path / "s" / "iterations.parquet")
    by_batch = dict(lengths.filter(pl.col("n_decodes") > 0).select("n_decodes", "draft_length").iter_rows())
    assert all(by_batch[batch] == (0 if batch >= 32 else 2 if batch >= 16 else 4) for batch in by_batch)


def test_simulate_replicas_share_the_load(cli, tmp_path: Path, constant: Path, burst: Path):
    replicas = ("--replicas", 2, "--routing", "least-outstanding")
    _summary(cli(*_file(constant, "--trace", burst, *replicas, "--out", tmp_path / "s", "--json")))
    assert pl.read_parquet(tmp_path / "s" / "requests.parquet")["replica"].value_counts()["count"].to_list() == [20, 20]


def test_simulate_compare_drops_what_does_not_pay(cli, save, tmp_path: Path, three: Path):
    costly = save("S.json", {"kind": "constant", "ms": 10, "draft_ms_per_pass": 50})
    outcome = cli(*_file(costly, "--trace", three, *DRAFTED, "--compare", "--out", tmp_path / "s"))
    assert outcome.code == 1
    assert "K = 4 is dropped: p90 TPOT" in outcome.out
    assert "no speculation" in outcome.out
    document = json.loads((tmp_path / "s" / "summary.json").read_text(encoding="utf-8"))
    assert not document["comparison"]["viable"]
    assert document["comparison"]["without_speculation"]["tpot_s"]["mean"] == pytest.approx(0.01)


def test_simulate_unstable_says_so_and_only_a_comparison_fails(cli, tmp_path: Path, constant: Path):
    load = ("--rate", 100, "--requests", 400, "--max-batch", 1, "--output-tokens", 10, "--out", tmp_path / "s")
    outcome = cli(*_file(constant, *load))
    assert outcome.code == 0
    assert "specbook: warning: unstable: the load is above" in outcome.err
    assert "unstable" in outcome.out
    compared = cli(*_file(constant, *load, *DRAFTED, "--compare", "--json"))
    document = _summary(compared, code=1)
    assert document["stable"] is False
    assert "unstable" in document["comparison"]["reasons"][0]


BAD: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "no load": ((), ("needs --rate", "or bring a --trace")),
    "no rate": (("--arrivals", "constant"), ("needs --rate",)),
    "rate 0": (("--rate", 0), ("--rate = 0", "above 0")),
    "rate nan": (("--rate", "nan"), ("--rate = nan",)),
    "no burstiness": (("--arrivals", "gamma", "--rate", 1), ("needs --burstiness",)),
    "clients of poisson": (("--rate", 1, "--clients", 3), ("--clients = 3", "poisson")),
    "negative think": (("--arrivals", "closed", "--clients", 3, "--think", -1), ("--think = -1",)),
    "streamed clients": (("--arrivals", "closed", "--clients", 3, "--stream"), ("--stream",)),
    "trace and closed": (("--trace", "TRACE", "--arrivals", "closed"), ("--arrivals", "beside a trace")),
    "trace and rate": (("--trace", "TRACE", "--rate", 1), ("--rate = 1", "beside a trace")),
    "first without trace": (("--rate", 1, "--first", 3), ("--first = 3", "there is none")),
    "first of too many": (("--trace", "TRACE", "--first", 4), ("--first = 4", "3 requests")),
    "both scales": (("--trace", "TRACE", "--at-rate", 1, "--time-factor", 2), ("--time-factor",)),
    "time factor 0": (("--trace", "TRACE", "--time-factor", 0), ("--time-factor = 0",)),
    "time factor vast": (("--trace", "TRACE", "--time-factor", 1e308), ("thirty years",)),
    "no such trace": (("--trace", "none.csv"), ("none.csv", "no such file")),
    "lengths": (("--rate", 1, "--prompt-tokens", "many"), ("--prompt-tokens = 'many'", "lognormal:800,0.9")),
    "length 0": (("--rate", 1, "--output-tokens", "0"), ("--output-tokens = '0'", "at least 1")),
    "lengths exchanged": (("--rate", 1, "--output-tokens", "9-3"), ("low must be at most high",)),
    "scheduler": (("--rate", 1, "--scheduler", "fcfs"), ("--scheduler", "fcfs")),
    "routing": (("--rate", 1, "--routing", "random"), ("--routing",)),
    "negative batch": (("--rate", 1, "--max-batch", -1), ("--max-batch",)),
    "watermark": (("--rate", 1, "--watermark-blocks", 100), ("--watermark-blocks = 100", "100 blocks")),
    "draft without acceptance": (
        ("--rate", 1, "--draft-length", 4),
        ("--draft-length = 4", "--acceptance", "--conditional-acceptance"),
    ),
    "schedule without acceptance": (("--rate", 1, "--schedule", "1:4"), ("--schedule = 4", "--conditional-acceptance")),
    "acceptance without K": (("--rate", 1, "--conditional-acceptance", 0.8), ("--draft-length",)),
    "acceptance above 1": (("--rate", 1, "--conditional-acceptance", 1.8, "--draft-length", 2), ("acceptance",)),
    "two acceptances": (
        ("--rate", 1, *DRAFTED, "--acceptance", "PROFILE"),
        ("--conditional-acceptance = 0.8", "beside profiles"),
    ),
    "K unknown to the evidence": (
        ("--rate", 1, "--acceptance", "PROFILE", "--draft-length", 2),
        ("--draft-length = 2", "0, 4", "--assume truncation"),
    ),
    "K and schedule": (("--rate", 1, *DRAFTED, "--schedule", "1:4"), ("beside a schedule",)),
    "schedule text": (("--rate", 1, "--conditional-acceptance", 0.8, "--schedule", "1=4"), ("--schedule", "1:4,16:2")),
    "schedule from 2": (("--rate", 1, "--conditional-acceptance", 0.8, "--schedule", "2:4"), ("batch 1",)),
    "schedule twice": (("--rate", 1, "--conditional-acceptance", 0.8, "--schedule", "1:4,1:2"), ("twice",)),
    "compare nothing": (("--rate", 1, "--compare"), ("--compare", "nothing is drafted")),
    "chunk below a round": (("--rate", 1, *DRAFTED, "--chunk-tokens", 4), ("--chunk-tokens = 4", "at least 5")),
    "slo": (("--rate", 1, "--slo-ttft", -2), ("--slo-ttft = -2",)),
    "percentile": (("--rate", 1, "--slo-percentile", 95), ("--slo-percentile = 95", "50, 90, 99")),
    "models beside a file": (("--rate", 1, "--target", "Llama-3.1-8B"), ("--target", "step-time file")),
    "too long a request": (("--rate", 1, "--prompt-tokens", 5000), ("request 0: tokens = 5128", "100 KV blocks")),
    "rate beyond floats": (("--rate", 1e-308), ("arrival_s must be finite",)),
    "rate of an age": (("--rate", 1e-8), ("thirty years",)),
    "watermark as a share": (
        ("--rate", 1, "--watermark-blocks", "1.0"),
        ("--watermark-blocks = '1.0'", "counts blocks", "1 %"),
    ),
    "watermark below 0": (("--rate", 1, "--watermark-blocks", "-1"), ("--watermark-blocks",)),
    "longest draft": (
        ("--rate", 1, *DRAFTED[:2], "--draft-length", 65),
        ("--draft-length = '65'", "whole numbers from 0 to 64"),
    ),
    "no room to wait": (("--rate", 1, "--max-waiting", 0), ("--max-waiting",)),
    "too long for a batch": (
        ("--trace", "TRACE", "--scheduler", "vidur-vllm", "--chunk-tokens", 64),
        ("line 2: prompt tokens = 100: are more than a batch takes, 64; raise --chunk-tokens", "--lenient"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_simulate_bad_input_is_one_line_and_writes_nothing(
    cli, tmp_path: Path, constant: Path, three: Path, profile: Path, case: str
):
    arguments, parts = BAD[case]
    named = {"TRACE": three, "PROFILE": profile}
    filled = [named.get(each, each) if isinstance(each, str) else each for each in arguments]
    _one_line(cli(*_file(constant, *filled, "--out", tmp_path / "s")), tmp_path / "s", *parts)


BAD_ENGINES: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "no models": ((), ("--hardware", "no hardware is named")),
    "no target": (("--hardware", "l4"), ("--target", "no target is named")),
    "device": (("--hardware", "l5", "--target", "Llama-3.1-8B"), ("hardware = 'l5'",)),
    "too large": (("--hardware", "l4", "--target", "Llama-3.1-70B"), ("Llama-3.1-70B", "no room", "--kv-blocks")),
    "mistyped": (("--step-time", "calibratd"), ("--step-time = 'calibratd'", "roofline, calibrated")),
    "no file": (("--step-time", "none.json"), ("none.json", "no such file")),
    "no blocks": (("--step-time", "FILE"), ("--kv-blocks", "number of KV blocks is missing")),
    "no draft model": ((*MODELS, *DRAFTED), ("--method", "state --draft or --method")),
    "draft for nothing": ((*MODELS, "--draft", "Llama-3.2-1B"), ("--draft", "drafts nothing")),
    "lookahead": ((*MODELS, *DRAFTED, "--method", "lookahead"), ("lookahead", "wider than K + 1")),
    "no measured passes": ((*MODELS, "--step-time", "measured"), ("no measured passes",)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ENGINES)
def test_simulate_bad_engine_is_one_line(cli, tmp_path: Path, constant: Path, case: str):
    arguments, parts = BAD_ENGINES[case]
    filled = [constant if each == "FILE" else each for each in arguments]
    outcome = cli("simulate", "--rate", 1, "--requests", 3, *filled, "--out", tmp_path / "s")
    _one_line(outcome, tmp_path / "s", *parts)


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_simulate_names_the_request_that_is_too_long(
    cli, tmp_path: Path, constant: Path, burst: Path, stream: tuple[str, ...]
):
    outcome = cli(*_file(constant, "--trace", burst, *stream, "--out", tmp_path / "s", blocks=50))
    _one_line(outcome, tmp_path / "s", "burst.csv line 22: tokens = 932: are more than 50 KV blocks", "--lenient")


@pytest.mark.parametrize("content", ["{", '{"kind": "linear"}', '{"kind": "constant", "ms": -1}', "[]"])
def test_simulate_unreadable_step_times_are_one_line(cli, save, tmp_path: Path, three: Path, content: str):
    outcome = cli(*_file(save("bad.json", content), "--trace", three, "--out", tmp_path / "s"))
    _one_line(outcome, tmp_path / "s", "bad.json")


def test_simulate_out_that_is_a_file_is_refused_and_left_alone(cli, save, constant: Path, three: Path):
    taken = save("taken", "mine")
    outcome = cli(*_file(constant, "--trace", three, "--out", taken))
    assert outcome.code == 2
    assert "--out" in outcome.err
    assert "is a file" in outcome.err
    assert taken.read_text() == "mine"


def test_lengths_of_each_law():
    rng = np.random.default_rng(0)
    for text, low, high in (("512", 512, 512), ("3-9", 3, 9), ("lognormal:8,2,16", 1, 16), ("geometric:4", 1, 2**16)):
        tokens = serving_options.lengths_of("--prompt-tokens", text).tokens(500, rng)
        assert low <= tokens.min()
        assert tokens.max() <= high


def _arguments(constant: Path, three: Path, tmp_path: Path) -> tuple[object, ...]:
    return _file(constant, "--trace", three, "--out", tmp_path / "s")


@pytest.mark.parametrize("most", [10, 200_000])
def test_simulate_lenient_skips_what_can_never_run(
    cli, monkeypatch, tmp_path: Path, constant: Path, burst: Path, most: int
):
    """In memory, and where the trace is read again for each run."""
    for module in (serving_options, serving_run):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", most)
    arguments = ("--trace", burst, "--lenient", "--first", 30, *DRAFTED, "--compare", "--out", tmp_path / "s")
    outcome = cli(*_file(constant, *arguments, "--json", blocks=50))
    reason = "tokens are more than 50 KV blocks of 16 tokens hold, the longest draft of 4 included"
    assert f"warning: 1 row of the trace was skipped: {reason}\n" in outcome.err
    document = _summary(outcome)
    assert document["inputs"]["trace"]["skipped"] == {reason: 1}
    assert (document["n_requests"], document["parameters"]["load"]["longest_tokens"]) == (30, 96)


def test_simulate_lenient_skips_prompts_that_no_batch_takes(cli, tmp_path: Path, constant: Path, burst: Path):
    engine = ("--scheduler", "vidur-vllm", "--chunk-tokens", 128, "--lenient")
    document = _summary(cli(*_file(constant, "--trace", burst, *engine, "--out", tmp_path / "s", "--json")))
    assert document["inputs"]["trace"]["skipped"] == {"prompt tokens are more than a batch takes, 128": 1}
    assert document["n_requests"] == 39


@pytest.mark.parametrize(("most", "n_readings"), [(10, 3), (200_000, 1)])
def test_simulate_reads_a_trace_no_more_often_than_it_must(
    cli, monkeypatch, tmp_path: Path, constant: Path, burst: Path, most: int, n_readings: int
):
    from specbook.serving import traces

    readings: list[Path] = []
    original = traces.stream_trace

    def counting(path: Path, **how: Any) -> Any:
        readings.append(path)
        return original(path, **how)

    monkeypatch.setattr(traces, "stream_trace", counting)
    for module in (serving_options, serving_run):
        monkeypatch.setattr(module, "MOST_IN_MEMORY", most)
    _summary(cli(*_file(constant, "--trace", burst, *DRAFTED, "--compare", "--out", tmp_path / "s", "--json")))
    assert readings == [burst] * n_readings


def test_simulate_reports_bytes_as_it_reads(cli, monkeypatch, tmp_path: Path, constant: Path, burst: Path):
    from contextlib import contextmanager

    steps: list[int] = []

    @contextmanager
    def reading(paths: list[Path]) -> Any:
        assert paths == [burst]
        yield steps.append

    monkeypatch.setattr(serving_options, "reading", reading)
    _summary(cli(*_file(constant, "--trace", burst, "--out", tmp_path / "s", "--json")))
    assert sum(steps) == burst.stat().st_size


CROWD = ("--rate", 1000, "--requests", 400, "--max-batch", 1, "--output-tokens", 10, "--max-waiting", 50)


def test_simulate_stops_where_too_many_wait(cli, tmp_path: Path, constant: Path):
    outcome = cli(*_file(constant, *CROWD, "--out", tmp_path / "s"))
    text = "unstable: stopped with more than 50 waiting at a replica"
    assert outcome.err.count("unstable") == outcome.out.count("unstable") == 1
    assert f"specbook: warning: {text}\n" in outcome.err
    assert f"\n{text}\n" in outcome.out
    document = json.loads((tmp_path / "s" / "summary.json").read_text(encoding="utf-8"))
    assert document["parameters"]["max_waiting"] == 50
    assert document["n_unfinished"] > 0
    assert f"{document['n_unfinished']} more had arrived and not ended" in outcome.out


def test_simulate_says_that_the_yardstick_is_unstable(cli, tmp_path: Path, constant: Path):
    outcome = cli(*_file(constant, *CROWD, *DRAFTED, "--compare", "--out", tmp_path / "s"))
    assert outcome.code == 1
    assert "no speculation is itself unstable under this load: tails were not compared with it" in outcome.out
    assert "K = 4 is dropped: unstable: stopped with more than 50 waiting at a replica\n" in outcome.out
    assert outcome.err.count("unstable") == 1


@pytest.mark.parametrize("width", [60, 80, 200])
def test_simulate_tables_cut_no_digit(cli, monkeypatch, save, tmp_path: Path, width: int):
    slow = save("slow.json", {"kind": "constant", "ms": 90_000})
    monkeypatch.setenv("COLUMNS", str(width))
    load = ("--rate", 10, "--requests", 60, "--slo-ttft", 5, *DRAFTED, "--compare", "--out", tmp_path / "s")
    lines = cli(*_file(slow, *load)).out.splitlines()
    document = json.loads((tmp_path / "s" / "summary.json").read_text(encoding="utf-8"))
    table = "\n".join(lines)
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        for figures in (document, document["comparison"]["without_speculation"]):
            assert f" {figures[name]['p90']:,.1f} " in table + " "
    assert "…" not in table
    assert ("KV peak" in table) == (width == 200)
    heads = [line for line in lines if "p90" in line and line.startswith((" latency", " engine"))]
    assert len(heads) == 2
    assert max(map(len, heads)) <= width
    assert " speculation " in table
    assert "TTFT p90 s" in heads[1]
    assert ("goodput" in heads[1]) == (width > 60)


def test_simulate_says_how_sure_its_figures_are(cli, tmp_path: Path, constant: Path, three: Path):
    few = cli(*_arguments(constant, three, tmp_path))
    assert "p99 of 3 requests is made of the largest one or two values\n" in few.out
    assert "95 % intervals" not in few.out
    load = ("--rate", 5, "--requests", 1500, "--output-tokens", 4, "--prompt-tokens", 8, "--out", tmp_path / "s")
    many = cli(*_file(constant, *load))
    assert "p99 of" not in many.out
    assert "95 % intervals: p90 TTFT 1" in many.out
    assert ", p90 TPOT 1" in many.out


def test_simulate_speaks_of_one_in_the_singular(cli, tmp_path: Path, constant: Path):
    load = ("--arrivals", "constant", "--rate", 1, "--requests", 1, "--output-tokens", 1, "--out", tmp_path / "s")
    outcome = cli(*_file(constant, *load))
    for text in (": 1 request in ", "over 1 iteration\n", "0 preemptions", "p99 of 1 request is"):
        assert text in outcome.out


def test_simulate_notes_a_trace_without_its_last_line_end(cli, save, tmp_path: Path, constant: Path):
    trace = save("cut.csv", "arrival_s,prompt_tokens,output_tokens\n0,100,3\n1,100,18")
    outcome = cli(*_file(constant, "--trace", trace, "--out", tmp_path / "s"))
    assert "note: the last line of the trace has no line end: it may have been cut" in outcome.err
    document = json.loads((tmp_path / "s" / "summary.json").read_text(encoding="utf-8"))
    assert any("no line end" in text for text in document["notes"])


def test_simulate_takes_the_one_length_that_the_evidence_speaks_for(cli, tmp_path: Path, constant: Path):
    evidence = ("--acceptance", "soup-843", "--assume", "truncation")
    load = ("--rate", 1, "--requests", 5, "--output-tokens", 8, "--json", "--out", tmp_path / "s")
    document = _summary(cli(*_file(constant, *load, *evidence)))
    assert document["parameters"]["draft_lengths"] == [1]


def test_simulate_lets_a_fault_of_its_own_be_a_traceback(cli, monkeypatch, tmp_path: Path, constant: Path, three: Path):
    from specbook.serving import result

    def fail(*_: object, **__: object) -> None:
        raise ValueError("of our own making")

    monkeypatch.setattr(result, "simulate_serving", fail)
    with pytest.raises(ValueError, match="of our own making") as caught:
        cli(*_arguments(constant, three, tmp_path))
    assert not isinstance(caught.value, BadInput)


def test_simulate_out_that_is_empty_is_refused(cli, monkeypatch, tmp_path: Path, constant: Path, three: Path):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    outcome = cli(*_file(constant, "--trace", three, "--out", ""))
    assert (outcome.code, outcome.err) == (2, "specbook: --out = '': is empty; name a folder\n")
    assert sorted(tmp_path.iterdir()) == before
