"""``python -m specbook.measuring.record_timings [--prompts spec_bench.jsonl]``: measure the times that the book shows.

SmolLM2 is measured where it is installed and a file of prompts is given; otherwise its table stays as it was.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specbook.engine.arithmetic import ARITHMETICS
from specbook.engine.draft import chain_shape
from specbook.engine.library import load_target
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.engine.threads import blas_description, blas_threads
from specbook.files import to_json, write_text
from specbook.measuring.prompts import human_eval_prompts, own_prompts, read_prompts
from specbook.measuring.rounds import MeasuringConfig
from specbook.measuring.subjects import smollm, specbook_reader
from specbook.measuring.timing import FILE, clocked_speedup, pass_seconds

WIDTHS = (1, 2, 3, 5, 7, 9)
_DOMAINS = ("code", "chat", "mathematics", "summarisation")


def pass_rows() -> Iterator[dict[str, Any]]:
    """Yield passes of one to nine rows, by arithmetic and cost dial."""
    for replication in (1, 8):
        targets = [load_target(name, replication) for name in ARITHMETICS]
        for name, seconds in zip(ARITHMETICS, pass_seconds(targets, WIDTHS), strict=True):
            for width, value in zip(WIDTHS, seconds, strict=True):
                yield {"model": f"R = {replication}", "arithmetic": name, "rows": width, "ms": round(1e3 * value, 3)}


def speedup_rows(n_prompts: int = 12, max_new_tokens: int = 96) -> Iterator[dict[str, Any]]:
    """Yield speedups by the clock at K = 4, by cost dial, arithmetic, domain and temperature."""
    reader = specbook_reader(own=True)
    for replication, arithmetic in ((1, "fast"), (8, "fast"), (8, "exact")):
        target = load_target(arithmetic, replication)
        for domain in _DOMAINS:
            prompts = [reader.encode(prompt) for prompt in own_prompts(domain)[:n_prompts]]
            for temperature in (0.0, 1.0):
                config = MeasuringConfig(
                    shape=chain_shape(4),
                    sampling=SamplingConfig(temperature=temperature),
                    max_new_tokens=max_new_tokens,
                )
                result = clocked_speedup(target, shipped_drafter("small", target), prompts, config)
                labels = {"replication": replication, "arithmetic": arithmetic, "domain": domain}
                yield {**labels, "temperature": temperature, **_rounded(result)}


def _rounded(result: Any) -> dict[str, float]:
    names = ("speedup", "low", "high", "tokens_per_round")
    figures = {name: round(getattr(result, name), 3) for name in names}
    return figures | {"baseline_ms": round(1e3 * result.baseline_tpot_s, 3), "ms": round(1e3 * result.tpot_s, 3)}


def smollm_rows(file: Path, n_prompts: int = 8, max_new_tokens: int = 64) -> Iterator[dict[str, Any]]:
    """Yield speedups of SmolLM2 with looked-up drafts of eight tokens, on HumanEval and a file of Spec-Bench."""
    subject, reader = smollm("prompt_lookup", "fast", own=False)
    sources = {"HumanEval": human_eval_prompts()}
    for name, domain in (("GSM8K", "mathematics"), ("MT-Bench, writing", "writing"), ("summaries", "summarisation")):
        sources[name] = read_prompts(file, domain)
    for name, prompts in sources.items():
        tokens = [reader.encode(prompt) for prompt in prompts[:n_prompts]]
        for temperature in (0.0, 1.0):
            config = MeasuringConfig(
                shape=chain_shape(8),
                sampling=SamplingConfig(temperature=temperature),
                max_new_tokens=max_new_tokens,
                max_context=4096,
                stop_tokens=reader.stop_tokens,
            )
            result = clocked_speedup(subject.target, subject.drafter, tokens, config)
            yield {"prompts": name, "temperature": temperature, **_rounded(result)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=Path, help="questions of Spec-Bench, for SmolLM2")
    options = parser.parse_args(arguments)
    tables = json.loads(FILE.read_text(encoding="utf-8"))["tables"] if FILE.exists() else {}
    with blas_threads(1):
        blas = blas_description()
        tables["passes"] = list(pass_rows())
        tables["speedups"] = list(speedup_rows())
        if options.prompts is not None:
            tables["smollm"] = list(smollm_rows(options.prompts))
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    machine = {"processor": _processor(), "blas": blas, "date": date}
    write_text(FILE, to_json({"schema": "specbook-timings/1", "machine": machine, "tables": tables}))


def _processor() -> str:
    """Name of the processor as Linux states it, else what Python knows."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
