"""Benchmark files of other engines: which kind a file is, told by content, and which of its entries are figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.readers.rows import Document, Record
from specbook.hardware.readers.tables import csv_records, header_cells, markdown_tables
from specbook.hardware.readers.values import numeral

FormatName = Literal["vllm-bench-serve", "sglang-bench-serving", "llama-bench", "llama-cpp-timings"]
EngineName = Literal["vllm", "sglang", "llama.cpp"]

QUANTITIES = ("ttft", "tpot", "itl", "e2el", "e2e_latency")
PERCENTILES = ("p50", "p90", "p95", "p99")

_LATENCIES = tuple(
    f"{point}_{quantity}_ms" for quantity in QUANTITIES for point in ("mean", "median", "std", *PERCENTILES)
)
_SERVED = (
    "completed", "failed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput",
    "request_goodput", "input_throughput", "output_throughput", "total_throughput", "total_token_throughput",
    "concurrency", "max_concurrency",
)  # fmt: skip
_VLLM = (
    "num_prompts", "spec_decode_acceptance_rate", "spec_decode_acceptance_length", "spec_decode_num_drafts",
    "spec_decode_draft_tokens", "spec_decode_accepted_tokens",
)  # fmt: skip
_SGLANG = ("random_input_len", "random_output_len", "accept_length", "total_output_tokens_retokenized")
_TIMINGS = (
    "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second", "predicted_n", "predicted_ms",
    "predicted_per_token_ms", "predicted_per_second", "draft_n", "draft_n_accepted",
)  # fmt: skip
_BENCH = (
    "n_prompt", "n_gen", "n_depth", "n_batch", "n_ubatch", "n_threads", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
    "t/s",
)  # fmt: skip
_BENCH_RECORD, _BENCH_TABLE = {"n_prompt", "n_gen", "avg_ts"}, {"test", "t/s"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkFormat:
    """One kind of file.

    Attributes
    ----------
    name : str
    engine : str
        Whose benchmark it is.
    recognises : callable
        Whether a JSON object is a run of this kind.
    figures, models, told_by : tuple of str
        Entries that are figures, that name the model, and that tell one run of a file from another.
    figures_in : callable
        Where in a run the figures stand.
    """

    name: FormatName
    engine: EngineName
    recognises: Callable[[dict[str, Any]], bool]
    figures: tuple[str, ...]
    models: tuple[str, ...]
    told_by: tuple[str, ...]
    figures_in: Callable[[dict[str, Any]], dict[str, Any]] = lambda run: run


def _is_served(run: dict[str, Any]) -> bool:
    return run.keys() >= {"completed", "duration", "output_throughput"}


def _is_sglang(run: dict[str, Any]) -> bool:
    return _is_served(run) and not run.keys().isdisjoint({"accept_length", "total_output_tokens_retokenized"})


def _is_vllm(run: dict[str, Any]) -> bool:
    return _is_served(run) and "num_prompts" in run and not _is_sglang(run)


def _is_bench(run: dict[str, Any]) -> bool:
    return run.keys() >= _BENCH_RECORD or run.keys() >= _BENCH_TABLE


def _timings(run: dict[str, Any]) -> dict[str, Any]:
    """The figures of a response, which stand under ``timings``, or alone."""
    inner = run.get("timings")
    return inner if isinstance(inner, dict) else run


def _is_timed(run: dict[str, Any]) -> bool:
    return _timings(run).keys() >= {"predicted_n", "predicted_ms"}


FORMATS = (
    BenchmarkFormat(
        name="vllm-bench-serve",
        engine="vllm",
        recognises=_is_vllm,
        figures=(*_VLLM, *_SERVED, *_LATENCIES),
        models=("model_id",),
        told_by=("label", "request_rate", "max_concurrency"),
    ),
    BenchmarkFormat(
        name="sglang-bench-serving",
        engine="sglang",
        recognises=_is_sglang,
        figures=(*_SGLANG, *_SERVED, *_LATENCIES),
        models=("model_id", "model"),
        told_by=("backend", "dataset_name", "request_rate", "max_concurrency"),
    ),
    BenchmarkFormat(
        name="llama-bench",
        engine="llama.cpp",
        recognises=_is_bench,
        figures=_BENCH,
        models=("model_type", "model"),
        told_by=("test", "n_prompt", "n_gen", "n_depth"),
    ),
    BenchmarkFormat(
        name="llama-cpp-timings",
        engine="llama.cpp",
        recognises=_is_timed,
        figures=_TIMINGS,
        models=("model",),
        told_by=("id",),
        figures_in=_timings,
    ),
)


def runs_of(document: Document) -> Iterator[Record]:
    """The runs of a document as JSON objects; rows of llama-bench's tables as if they were its JSON.

    Examples
    --------
    >>> lines = ("| model | test | t/s |", "| --- | --- | --: |", "| a 7B | tg128 | 131.42 ± 0.59 |")
    >>> [record.value for record in runs_of(Document(name="a.md", lines=lines))]
    [{'model': 'a 7B', 'test': 'tg128', 't/s': 131.42}]
    """
    if document.records:
        yield from document.records
    elif set(header_cells(document)) >= _BENCH_RECORD:
        for where, cells in csv_records(document):
            yield Record({name: _cell(text, where, name) for name, text in cells.items()}, where)
    else:
        for table in markdown_tables(document):
            if set(table.header) >= _BENCH_TABLE:
                for where, cells in table.records(document):
                    speed = (cells["t/s"].split() or [""])[0]
                    yield Record({**cells, "t/s": numeral(speed, where, "t/s")}, where)


def _cell(text: str, where: str, name: str) -> Any:
    """A number where the column holds figures; None for an empty cell."""
    return numeral(text, where, name) if name in _BENCH and text else text or None


def format_of(runs: list[Record], document: Document) -> BenchmarkFormat:
    """The one format that all runs of a document are of.

    Raises
    ------
    BadInput
        If a run is of no known format, or two are of different ones.
    """
    kinds = [_kind(run) for run in runs]
    if not kinds:
        raise _unknown(document.name, next(filter(str.strip, document.lines), ""))
    other = next((kind for kind in kinds if kind is not kinds[0]), None)
    if other is not None:
        value = f"{kinds[0].name}, {other.name}"
        raise BadInput("holds more than one format", file=document.name, value=value, remedy="attach one file each")
    return kinds[0]


def _kind(run: Record) -> BenchmarkFormat:
    value = run.value
    if not isinstance(value, dict):
        raise _unknown(run.where, value)
    if str(value.get("schema", "")).startswith("specbook-"):
        problem, remedy = f"is a {value['schema']} file", "attach what another engine's benchmark wrote"
        raise BadInput(problem, file=run.where, remedy=remedy)
    found = [kind for kind in FORMATS if kind.recognises(value)]
    if len(found) != 1:
        raise _unknown(run.where, sorted(map(str, value))[:6])
    return found[0]


def _unknown(where: str, value: Any) -> BadInput:
    names = ", ".join(kind.name for kind in FORMATS)
    remedy = "the page on the witness in the book says how to make one"
    return BadInput(f"is no benchmark of one known format ({names})", file=where, value=value, remedy=remedy)
