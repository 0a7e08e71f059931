"""How long a whole funnel takes: the short one on this machine, and one over a hundred thousand configurations."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from specbook.acceptance.library import library_profile
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.model_spec import model
from specbook.stages.load import example_load
from specbook.stages.plan import FunnelPlan
from specbook.stages.run import run_plan

Row = tuple[str, str, str]

_DOMAINS = ("conversation", "translation", "summarization", "qa", "math", "rag")
_CONTEXTS = (128, 256, 512, 768, 1024, 1536, 2048)


def large_plan() -> FunnelPlan:
    """Six domains of one pair on the whole catalogue, every batch up to 32, seven contexts, drafts up to eight."""
    choices = FunnelConfig(
        profiles=tuple(library_profile(f"spec-bench-sps-vicuna-7b-{domain}") for domain in _DOMAINS),
        hardware=tuple(map(catalogue_device, catalogue_names())),
        target=model("Vicuna-7B-v1.3"),
        draft=model("Llama-68M"),
        batches=tuple(range(1, 33)),
        contexts=_CONTEXTS,
        assume="truncation",
        max_draft_length=8,
    )
    return FunnelPlan(choices=choices, load=example_load())


def funnel_rows() -> Iterator[Row]:
    """Yield the time of both, and what came out."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from specbook.cli import main; main()", "funnel", "--quick", "--json"]
        start = time.perf_counter()
        done = subprocess.run([*command, "--out", folder], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        witness = json.loads(done.stdout)["witness"]
    yield "short funnel, all stages on this machine", "≤ 90 s", f"{seconds:.1f} s"
    verdicts = ", ".join(each["verdict"] for each in witness["configurations"])
    yield "short funnel: verdicts of its witness", "", verdicts or "none left"
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = run_plan(large_plan(), Path(folder))
        seconds = time.perf_counter() - start
    entered = run.gates["3-roofline"].entered
    yield (
        f"funnel over {entered:,} configurations, {run.gates['4-serving'].entered} simulated",
        "≤ 300 s",
        f"{seconds:.1f} s",
    )
