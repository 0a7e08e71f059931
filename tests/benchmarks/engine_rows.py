"""Rows of ``make bench`` about the engine: load, passes of several rows, and speculation by the clock."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from specbook.engine.draft import chain_shape
from specbook.engine.library import load_target
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.prompts import own_prompts, spread
from specbook.measuring.rounds import MeasuringConfig
from specbook.measuring.subjects import specbook_reader
from specbook.measuring.timing import clocked_speedup, pass_seconds

Row = tuple[str, str, str]

_PROMISED = {"code": 1.3, "chat": 1.4, "mathematics": 2.0}
_N_PROMPTS = 12

# In a process of its own: what a command pays before its first token, imports of numpy left out.
_LOAD = """
import time
import numpy, safetensors.numpy, threadpoolctl, specbook.engine.decoding
start = time.perf_counter()
from specbook.engine.library import load_target, tokenizer
from specbook.engine.library.drafters import shipped_drafter
target = load_target("exact")
shipped_drafter("small", target), tokenizer()
print(time.perf_counter() - start)
"""


def engine_rows() -> Iterator[Row]:
    """Yield what the issue of the engine promises, but for parity and SmolLM2."""
    yield from load_rows()
    yield from pass_rows()
    yield from clock_rows()


def load_rows() -> Iterator[Row]:
    """Yield the time to read, check and build the shipped pair."""
    runs = [subprocess.run([sys.executable, "-c", _LOAD], check=True, capture_output=True, text=True) for _ in range(5)]
    seconds = statistics.median(float(run.stdout) for run in runs)
    yield "engine: read, check and build target, draft and tokenizer", "≤ 0.5 s", f"{seconds:.2f} s"


def pass_rows() -> Iterator[Row]:
    """Yield a pass of five rows beside a single step, all arithmetics interleaved, at R = 8."""
    names = ("fast", "exact", "ref64", "naive")
    seconds = pass_seconds([load_target(name, replication=8) for name in names], (1, 5))
    for name, (one, five) in zip(names, seconds, strict=True):
        promised = "≤ 1.50" if name == "fast" else ""
        what = f"engine, R = 8, {name}: verify(5) ÷ step(1), step {1e3 * one:.1f} ms"
        yield what, promised, f"{five / one:.2f}"


def clock_rows() -> Iterator[Row]:
    """Yield speedups by the clock at R = 8, K = 4, each prompt with and without drafts in random order."""
    reader = specbook_reader(own=True)
    for arithmetic in ("fast", "exact"):
        target = load_target(arithmetic, replication=8)
        drafter = shipped_drafter("small", target)
        for domain, least in _PROMISED.items():
            prompts = [reader.encode(prompt) for prompt in spread(own_prompts(domain), _N_PROMPTS)]
            for temperature in (0.0, 1.0):
                sampling = SamplingConfig(temperature=temperature)
                config = MeasuringConfig(shape=chain_shape(4), sampling=sampling, max_new_tokens=64)
                found = clocked_speedup(target, drafter, prompts, config)
                what = f"engine, R = 8, K = 4, {arithmetic}: speedup, {domain}, temperature {temperature:g}"
                yield what, f"≥ {least}" if arithmetic == "fast" else "", f"{found.speedup:.2f}"
