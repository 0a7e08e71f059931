"""SpecForge on SGLang: ``specforge benchmark --output-json``, the JSON of ``bench_eagle3.py``, and the published table.

Lengths are output tokens ÷ verify rounds and count the bonus token; 1 stands where nothing was verified. Only the
first form also has a mean over requests, ``average_acceptance_length``, which is no length per round (specforge).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from specbook.acceptance.readers.observation import INFERRED, Observation
from specbook.acceptance.readers.sglang_bench_speculative import Setting, setting_of
from specbook.acceptance.readers.values import a_list, an_object, expect_close, number, text, whole
from specbook.checks import BadInput

NAME = "specforge"
WARNINGS = (
    "a length is output tokens ÷ rounds, which counts the token of each prefill and misses what the end of a request "
    "cut off",
)
CUMULATIVE = False

_SUMMARY = {"average_acceptance_length", "spec_verify_count", "output_tokens"}
_BASELINES = ("without", "wihtout")  # how the names of rows without a drafter begin, one as the table has it
_INFERRED = f"{INFERRED}: they are latency × throughput ÷ length"
_NO_SETTING = "steps, top-k and draft tokens are null: the source does not say whether drafts were chains"

# Of one request the two means are the same. Of many they part, and never this far unless one leaves out the bonus.
_PARTED = 0.3


def recognises(record: Any) -> bool:
    """Whether the record is a summary, a set of benchmarks or a table of models."""
    if not isinstance(record, dict):
        return False
    return record.keys() >= _SUMMARY or any(_is_benchmark(value) or _is_model(value) for value in record.values())


def _is_benchmark(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(entry, dict) and "topk" in entry and "metrics" in entry for entry in value
    )


def _is_model(value: Any) -> bool:
    return isinstance(value, dict) and any(
        isinstance(inner, dict) and "benchmark_name" in inner and "results" in inner for inner in value.values()
    )


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the totals of the run, or a mean length for each benchmark, drafter and setting."""
    if record.keys() >= _SUMMARY:
        yield _summary(record, where)
        return
    for name, value in record.items():
        if _is_benchmark(value):
            labels = {"domain": text(name, where, name), "drafter": text(record.get("model"), where, "model")}
            yield from _entries(value, labels, where, name)
        elif _is_model(value):
            yield from _model(value, {"target": text(name, where, name)}, where, name)


def _summary(record: dict[str, Any], where: str) -> Observation:
    """Totals of one run; the stated mean gives every request the same weight and is only compared."""
    rounds, tokens = record["spec_verify_count"], whole(record["output_tokens"], where, "output_tokens")
    seconds = record.get("latency_seconds")
    if seconds and number(seconds, where, "latency_seconds") > 0.0:
        place = "throughput_tokens_per_second"
        expect_close(record.get(place), tokens / seconds, where, place, "output_tokens / latency_seconds")
    if not rounds:
        return Observation(by_accepted=[])
    length = tokens / whole(rounds, where, "spec_verify_count", minimum=1)
    if length < 1.0:
        raise BadInput(
            f"a round emits at least one token, and there were {rounds}",
            file=where,
            field="output_tokens",
            value=tokens,
            remedy="export the file again",
        )
    tolerance = 0.01 if record.get("samples") == 1 else _PARTED
    place = "average_acceptance_length"
    expect_close(record[place], length, where, place, "output_tokens / spec_verify_count", tolerance=tolerance)
    domain = text(record.get("dataset"), where, "dataset")
    labels = {} if domain is None else {"domain": domain}
    return Observation(is_request=False, labels=labels, n_rounds=rounds, mean_acceptance_length=length)


def _model(benchmarks: dict[str, Any], labels: dict[str, Any], where: str, place: str) -> Iterator[Observation]:
    """Settings of one model in the table."""
    for name, value in benchmarks.items():
        benchmark = an_object(value, where, f"{place}.{name}")
        if benchmark.get("benchmark_name") != name:
            raise BadInput(
                f"stands under the name {name}",
                file=where,
                field=f"{place}.{name}.benchmark_name",
                value=benchmark.get("benchmark_name"),
                remedy="correct either",
            )
        domain = {"domain": text(name, where, f"{place}.{name}")}
        yield from _entries(benchmark.get("results"), labels | domain, where, f"{place}.{name}.results")


def _entries(value: Any, labels: dict[str, Any], where: str, place: str) -> Iterator[Observation]:
    """Metrics of each setting of one benchmark."""
    entries = [an_object(entry, where, f"{place}[{i}]") for i, entry in enumerate(a_list(value, where, place))]
    batches = defaultdict(set)
    for entry in entries:
        batches[_key(entry)].add(str(entry.get("batch_size")))
    for index, entry in enumerate(entries):
        prefix = f"{place}[{index}]."
        setting = setting_of(entry, where, prefix)
        for row, metrics in enumerate(a_list(entry.get("metrics"), where, f"{prefix}metrics")):
            at = f"{prefix}metrics[{row}]"
            seen = _row(an_object(metrics, where, at), setting, labels, where, f"{at}.")
            if seen.weight is None and len(batches[_key(entry)]) > 1 and setting is not None:
                # Without rounds there is nothing to weigh batch sizes by, so they are different runs.
                batch = whole(entry.get("batch_size"), where, f"{prefix}batch_size", minimum=1)
                seen.labels["run"] = "-".join(filter(None, (seen.labels.get("run"), f"batch{batch}")))
            yield seen


def _key(entry: dict[str, Any]) -> str:
    return str([entry.get(name) for name in ("steps", "topk", "num_draft_tokens")])


def _row(
    metrics: dict[str, Any], setting: Setting | None, labels: dict[str, Any], where: str, prefix: str
) -> Observation:
    """The mean length of one drafter at one setting; a row that verified nothing is no evidence."""
    name, place = text(metrics.get("Name"), where, f"{prefix}Name"), f"{prefix}accept_length"
    stated = metrics.get("accept_length")
    if setting is None or stated is None or (name or "").lower().startswith(_BASELINES):
        return Observation(by_accepted=[])
    length = setting.check_length(stated, where, place)
    if length == 1.0:
        return Observation(by_accepted=[])
    rounds = _rounds(metrics, length, where, prefix)
    notes = setting.notes if setting.longest is not None else (*setting.notes, _NO_SETTING)
    known = {"drafter": name} if name else {}
    if name or setting.longest is not None:  # the script launches a server with EAGLE3 or not at all
        known["method"] = "eagle3"
    return Observation(
        is_request=False,
        labels={key: value for key, value in (labels | setting.labels | known).items() if value is not None},
        n_rounds=round(rounds) if rounds is not None and abs(rounds - round(rounds)) < 1e-6 else None,
        mean_acceptance_length=length,
        weight=rounds,
        is_tree=setting.is_tree,
        n_tree_nodes=setting.n_tree_nodes,
        notes=notes if rounds is None else (*notes, _INFERRED),
    )


def _rounds(metrics: dict[str, Any], length: float, where: str, prefix: str) -> float | None:
    """Rounds from output tokens, which are time × throughput; not stated, but they follow to the last digit."""
    seconds, speed = metrics.get("latency"), metrics.get("output_throughput")
    if seconds is None or speed is None:
        return None
    tokens = number(seconds, where, f"{prefix}latency") * number(speed, where, f"{prefix}output_throughput")
    return tokens / length if 0.0 < tokens < 2**53 else None
