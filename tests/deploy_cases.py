"""Small projections with chosen times, and plans, for tests of deployments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from specbook import __version__
from specbook.deploy.deployment import ContextSchedule, Plan
from specbook.deploy.rates import AcceptanceRates
from specbook.deploy.schedule import BatchRange, LengthTable
from specbook.roofline.grid import COLUMNS

DIGEST = "5" * 64
# Tokens per round of a chain that is accepted with 0.8, then 0.75, 0.75 and 7/9.
TOKENS = {0: 1.0, 1: 1.8, 2: 2.4, 3: 2.85, 4: 3.2}
MARGINAL = [0.8, 0.6, 0.45, 0.35]
# ms per token by batch and K: 4 up to batch 4, then 2, then nothing.
FALLING = {
    1: {0: 9.0, 2: 5.0, 4: 4.0},
    4: {0: 9.0, 2: 6.0, 4: 5.9},
    8: {0: 9.0, 2: 7.0, 4: 8.0},
    16: {0: 9.0, 2: 9.5, 4: 12.0},
}
RISING = {1: {0: 9.0, 2: 5.0, 4: 6.0}, 8: {0: 9.0, 2: 7.0, 4: 5.0}}
TRUNCATED = {0: "no speculation", 1: "truncation of a profile at K = 4", 2: "truncation of a profile at K = 4",
             3: "truncation of a profile at K = 4", 4: "measured"}  # fmt: skip
LABELS: dict[str, Any] = {
    "hardware": "h100-sxm5", "target": "T", "drafter": "D", "method": "eagle3", "tree_nodes": None, "precision": "bf16",
    "context": 512, "step_time_kind": "calibrated", "kv_bytes": 1e9, "regime": "memory", "fits_memory": True,
    "draft_precision": "bf16", "measured_target": "T", "measured_drafter": "D", "domain": "code", "temperature": 0.0,
    "speedup_low": None, "speedup_high": None, "step_time_source": "assumed", "n_devices": 1,
}  # fmt: skip
EVIDENCE = {
    "target": "T", "drafter": "D", "method": "eagle3", "domain": "code", "temperature": 0.0, "draft_length": 4,
    "evidence": "counts", "n_rounds": 1000, "mean_acceptance_length": 3.2, "marginal_acceptance": MARGINAL,
    "provenance": [{"file": "responses.jsonl", "sha256": DIGEST, "format": "vllm-per-request", "key": None}],
}  # fmt: skip
_SCHEMA = {"tree_nodes": pl.Int64, "speedup_low": pl.Float64, "speedup_high": pl.Float64, "regime": pl.String}


def projected(ms: Mapping[int, Mapping[int, float]], **labels: Any) -> pl.DataFrame:
    """Rows of a projection with given ms per token by batch and K, whose columns follow from each other."""
    assumptions = labels.pop("assumptions", TRUNCATED)
    rows = [
        _row(batch, length, value, of[0], assumptions, LABELS | labels)
        for batch, of in ms.items()
        for length, value in of.items()
    ]
    return pl.DataFrame(rows, schema_overrides=_SCHEMA).select(COLUMNS)


def _row(
    batch: int, length: int, ms: float, baseline_ms: float, assumptions: Mapping[int, str], labels: Mapping[str, Any]
) -> dict[str, Any]:
    tokens, tpot_s, baseline_s = TOKENS[length], ms / 1e3, baseline_ms / 1e3
    round_s, draft_s = tpot_s * tokens, 0.25 * tpot_s * tokens * (length > 0)
    return {
        **labels,
        "batch": batch,
        "draft_length": length,
        "draft_s": draft_s,
        "verify_s": round_s - draft_s,
        "round_s": round_s,
        "tpot_s": tpot_s,
        "baseline_tpot_s": baseline_s,
        "expected_tokens": tokens,
        "speedup": baseline_s / tpot_s,
        "throughput_tokens_per_s": batch / tpot_s,
        "viable": labels["fits_memory"] and (length == 0 or tpot_s < baseline_s),
        "acceptance_assumption": assumptions[length],
    }


def write_projection(path: Path, *frames: pl.DataFrame, **metadata: str) -> Path:
    """A projection file of frames one after the other; ``metadata`` by the last part of its key replaces the usual."""
    usual = {
        "schema": "specbook-projection/1",
        "version": __version__,
        "evidence": json.dumps([EVIDENCE]),
        "notes": json.dumps(["memory is counted in full"]),
    }
    values = {f"specbook.{name}": value for name, value in (usual | metadata).items() if value}
    pl.concat(frames).write_parquet(path, metadata=values)
    return path


def table(ms: Sequence[Sequence[float]], batches: Sequence[int], draft_lengths: Sequence[int]) -> LengthTable:
    """A table of times in which a length may be chosen where it beats none."""
    tpot_s = np.asarray(ms, dtype=np.float64)
    pays = tpot_s < tpot_s[:, :1]
    pays[:, 0] = True
    return LengthTable(batches=tuple(batches), draft_lengths=tuple(draft_lengths), tpot_s=tpot_s, pays=pays)


def ranges(*parts: tuple[int, int, int]) -> tuple[BatchRange, ...]:
    """Ranges from (first batch, last batch, K), of which the first batch was projected."""
    return tuple(
        BatchRange(
            first_batch=first,
            last_batch=last,
            draft_length=length,
            projected_batches=(first,),
            largest_loss=0.0,
            smallest_speedup=1.5 if length else 1.0,
        )
        for first, last, length in parts
    )


def planned(
    *parts: tuple[int, int, int], method: str = "eagle3", drafter: str | None = "my org/D", by_position: bool = True
) -> Plan:
    """A plan of ranges whose longest draft has the usual acceptance."""
    longest = max(length for _, _, length in parts)
    rates = AcceptanceRates(
        draft_length=longest,
        expected_tokens=1.0 + sum(MARGINAL[:longest]),
        marginal_acceptance=tuple(MARGINAL[:longest]) if by_position else None,
    )
    return Plan(
        target="my org/T",
        drafter=drafter,
        method=method,
        schedules=(ContextSchedule(first_context=512, ranges=ranges(*parts)),),
        rates=rates if longest else None,
    )
