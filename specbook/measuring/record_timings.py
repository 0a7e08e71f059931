"""``python -m specbook.measuring.record_timings [--prompts spec_bench.jsonl]``: measure the times that the book shows.

SmolLM2 is measured where it is installed and a file of prompts is given; otherwise its table stays as it was.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specbook.engine.arithmetic import ARITHMETICS
from specbook.engine.draft import chain_shape
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.library import load_target
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.engine.threads import blas_description, blas_threads, processor_name
from specbook.engine.transformer import Transformer
from specbook.files import to_json, write_text
from specbook.measuring.prompts import human_eval_prompts, own_prompts, read_prompts, spread
from specbook.measuring.rounds import MeasuringConfig
from specbook.measuring.subjects import smollm, specbook_reader
from specbook.measuring.timing import FILE, clocked_speedup, pass_seconds

WIDTHS = (1, 2, 3, 5, 7, 9)
_DOMAINS = ("code", "chat", "mathematics", "summarisation")

_PASSES = {"context": 128, "n_repeats": 30}
_SPEEDUPS = {"draft_length": 4, "n_prompts": 12, "max_new_tokens": 96, "drafter": "small"}
_SMOLLM = {"draft_length": 8, "n_prompts": 8, "max_new_tokens": 64, "drafter": "prompt_lookup", "arithmetic": "fast"}
_SAMPLINGS = (SamplingConfig(), SamplingConfig(temperature=1.0))

Rows = Iterator[dict[str, Any]]


def pass_rows() -> Rows:
    """Yield passes of one to nine rows, by cost dial and arithmetic."""
    for replication in (1, 8):
        targets = [load_target(name, replication) for name in ARITHMETICS]
        for name, seconds in zip(ARITHMETICS, pass_seconds(targets, WIDTHS, **_PASSES), strict=True):
            for width, value in zip(WIDTHS, seconds, strict=True):
                labels = {"replication": replication, "arithmetic": name, "rows": width}
                yield {**labels, "pass_s": round(value, 6)}


def speedup_rows() -> Rows:
    """Yield speedups by the clock, by cost dial, arithmetic, domain and temperature; prompts spread over our own."""
    reader = specbook_reader(own=True)
    for replication, arithmetic in ((1, "fast"), (8, "fast"), (8, "exact")):
        target = load_target(arithmetic, replication)
        for domain in _DOMAINS:
            chosen = spread(own_prompts(domain), int(str(_SPEEDUPS["n_prompts"])))
            prompts = [reader.encode(prompt) for prompt in chosen]
            labels = {"replication": replication, "arithmetic": arithmetic, "domain": domain}
            drafter = shipped_drafter(str(_SPEEDUPS["drafter"]), target)
            yield from ({**labels, **row} for row in _clocked(target, drafter, prompts, _SPEEDUPS, frozenset()))


def smollm_rows(file: Path) -> Rows:
    """Yield speedups of SmolLM2 with looked-up drafts, on HumanEval and a file of Spec-Bench."""
    subject, reader = smollm(str(_SMOLLM["drafter"]), str(_SMOLLM["arithmetic"]), own=False)
    sources = {"HumanEval": human_eval_prompts()}
    for name, domain in (("GSM8K", "mathematics"), ("MT-Bench, writing", "writing"), ("summaries", "summarisation")):
        sources[name] = read_prompts(file, domain)
    for name, prompts in sources.items():
        tokens = [reader.encode(prompt) for prompt in spread(prompts, int(str(_SMOLLM["n_prompts"])))]
        rows = _clocked(subject.target, subject.drafter, tokens, _SMOLLM, reader.stop_tokens)
        yield from ({"prompts": name, **row} for row in rows)


def _clocked(
    target: Transformer,
    drafter: Drafter,
    prompts: Sequence[Sequence[int]],
    conditions: Mapping[str, Any],
    stop_tokens: frozenset[int],
) -> Rows:
    for sampling in _SAMPLINGS:
        config = MeasuringConfig(
            shape=chain_shape(conditions["draft_length"]),
            sampling=sampling,
            max_new_tokens=conditions["max_new_tokens"],
            max_context=4096,
            stop_tokens=stop_tokens,
        )
        found = clocked_speedup(target, drafter, prompts, config)
        figures = {name: round(value, 6) for name, value in asdict(found).items()}
        yield {"temperature": sampling.temperature, **figures}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write what was measured, each table with its machine and conditions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=Path, help="questions of Spec-Bench, for SmolLM2")
    options = parser.parse_args(arguments)
    tables = json.loads(FILE.read_text(encoding="utf-8"))["tables"] if FILE.exists() else {}
    wanted: dict[str, tuple[Callable[[], Rows], dict[str, Any]]] = {
        "passes": (pass_rows, _PASSES),
        "speedups": (speedup_rows, _SPEEDUPS),
    }
    if options.prompts is not None:
        wanted["smollm"] = (lambda: smollm_rows(options.prompts), _SMOLLM)
    with blas_threads(1):
        for kind, (measure, conditions) in wanted.items():
            tables[kind] = {"conditions": {**_machine(), **conditions}, "rows": list(measure())}
            write_text(FILE, to_json({"schema": "specbook-timings/1", "tables": tables}))


def _machine() -> dict[str, Any]:
    """What times depend on besides the code."""
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"processor": processor_name(), "blas": blas_description(), "date": date}


if __name__ == "__main__":
    main()
