"""The calibrated grid and the streamed sweep: time, and the memory of a process that does nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from specbook.acceptance.candidates import DraftCandidates
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.grid import GridConfig
from specbook.roofline.model_spec import model
from specbook.roofline.sweep import SweepConfig

METHODS = {"draft_model": 0.7, "eagle": 0.75, "mtp": 0.65, "medusa": 0.5, "ngram": 0.4}
TREES = {8: 3, 16: 4, 24: 5, 32: 5, 48: 6, 64: 6}
TARGETS = ("Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-32B", "Qwen3-30B-A3B")
PRECISIONS = ("bf16", "fp8", "int4")


def _drafts(method: str, acceptance: float) -> DraftCandidates:
    """Chains of 0 to 10, and trees for the heads that draft them; each draft with an interval."""
    tokens = {(k, k): 1.0 + sum(acceptance**i for i in range(1, k + 1)) for k in range(11)}
    if method in ("eagle", "medusa"):
        wider = min(acceptance + 0.1, 1.0)
        tokens |= {(depth, n): 1.0 + sum(wider**i for i in range(1, depth + 1)) for n, depth in TREES.items()}
    return DraftCandidates(
        draft_lengths=tuple(depth for depth, _ in tokens),
        n_nodes=tuple(n for _, n in tokens),
        expected_tokens=tuple(tokens.values()),
        assumptions=("measured",) * len(tokens),
        token_intervals=tuple((1.0 + 0.95 * (each - 1.0), each) for each in tokens.values()),
        method=method,
        domain="code",
        temperature=0.0,
    )


def doctrine_space(n_targets: int, precisions: tuple[str, ...], n_batches: int, n_contexts: int) -> SweepConfig:
    """Methods × drafts × targets × precisions × the catalogue × batches to 64 × contexts to 32,768."""
    batches = np.unique(np.geomspace(1, 64, n_batches).round().astype(int)) if n_batches < 64 else np.arange(1, 65)
    base = GridConfig(
        hardware=tuple(map(catalogue_device, catalogue_names())),
        target=model(TARGETS[0]),
        draft=model("Llama-3.2-1B"),
        candidates=_drafts("draft_model", METHODS["draft_model"]),
        batches=tuple(batches.tolist()),
        contexts=tuple(np.unique(np.geomspace(512, 32768, n_contexts).astype(int)).tolist()),
    )
    grids = tuple(
        replace(base, target=model(target), precision=precision, method=method, candidates=_drafts(method, acceptance))
        for target in TARGETS[:n_targets]
        for precision in precisions
        for method, acceptance in METHODS.items()
    )
    return SweepConfig(grids=grids)


# Sweeps in a process of its own and prints configurations, seconds, and the largest memory that it ever held.
_SWEEP = """
import time
from pathlib import Path
from specbook.roofline.sweep import sweep
from tests.benchmarks.sweep_rows import PRECISIONS, doctrine_space
config = doctrine_space(4, PRECISIONS, 64, 116)
start = time.perf_counter()
result = sweep(config)
seconds = time.perf_counter() - start
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(config.n_configurations, seconds, peak, result.front.height)
"""


def sweep_rows() -> Iterator[tuple[str, str, str]]:
    """Yield time and memory of a sweep of a hundred million configurations."""
    done = subprocess.run([sys.executable, "-c", _SWEEP], check=True, capture_output=True, text=True)
    count, seconds, peak, front = done.stdout.split()
    what = f"calibrated sweep of {int(count):,} configurations, streamed"
    yield f"{what}: time", "≤ 60 s", f"{float(seconds):.1f} s"
    yield f"{what}: largest memory", "≤ 1 GiB", f"{int(peak) / 2**30:.2f} GiB"
    yield f"{what}: on the fronts", "", f"{int(front):,}"
