"""What the files of ``specbook simulate`` say beside figures: what went in, by SHA-256, and every parameter."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbook.commands.serving_options import Load
from specbook.commands.serving_request import SimulationRequest

if TYPE_CHECKING:
    from specbook.serving_setup import ServingSetup

# Fields of a step-time file that name further files.
_PARTS = ("file", "linear", "decode", "prefill")


def about_of(request: SimulationRequest, setup: ServingSetup, load: Load) -> dict[str, Any]:
    """What went in, what was chosen, and what is assumed, as far as it is known before a run."""
    return {
        "inputs": _inputs(request, load),
        "parameters": _parameters(request, setup, load),
        "step_time_kind": setup.config.iteration_time.kind,
        "assumptions": list(setup.assumptions),
        "notes": [setup.kv_text, *setup.notes, *load.notes],
    }


def _inputs(request: SimulationRequest, load: Load) -> dict[str, Any]:
    """Files by their SHA-256; what ships with specbook by that of its JSON."""
    from specbook.files import dump_model, read_json
    from specbook.funnel import evidence_of
    from specbook.hardware.profile import load_hardware

    trace, times, hardware = request.load.trace, Path(request.engine.step_time), request.engine.hardware
    files = []
    if request.engine.kind is None:
        document = read_json(times)
        files = [times, *(times.parent / document[name] for name in _PARTS if name in document)]
    named = zip(request.acceptance, request.evidence.profiles, strict=True)
    return {
        "trace": None if trace is None else {**_file(trace), "format": load.trace_format, "skipped": load.skipped},
        "step_time": [_file(path) for path in (*files, *request.engine.steps)],
        "hardware": None
        if hardware is None
        else {"name": hardware, "sha256": _digest(dump_model(load_hardware(hardware)))},
        "acceptance": [
            {"name": name, "sha256": _digest(dump_model(profile)), **evidence_of(profile)} for name, profile in named
        ],
    }


def _file(path: Path) -> dict[str, Any]:
    from specbook.files import sha256_of

    return {"file": str(path), "sha256": sha256_of(path)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parameters(request: SimulationRequest, setup: ServingSetup, load: Load) -> dict[str, Any]:
    config, engine, evidence = setup.config, request.engine, request.evidence
    models = {} if engine.kind is None else asdict(engine)
    drawn = {name: value for name, value in asdict(request.load).items() if value is not None and name != "trace"}
    schedule = {f"{batch}@{context}": length for (batch, context), length in (evidence.schedule or {}).items()}
    return {
        "scheduler": config.scheduler,
        "max_batch": config.max_batch,
        "chunk_tokens": config.chunk_tokens,
        "kv_blocks": config.kv.n_blocks,
        "block_size_tokens": config.kv.block_size_tokens,
        "watermark_blocks": config.kv.watermark_blocks,
        "n_replicas": config.n_replicas,
        "routing": config.routing,
        "max_waiting": config.max_waiting,
        "draft_lengths": [law.draft_length for law in config.policy.laws],
        "schedule": schedule or None,
        "conditional_acceptance": evidence.conditional_acceptance,
        "slo": asdict(request.slo),
        "load": {**drawn, "n_requests": load.n_requests, "longest_tokens": load.longest_tokens},
        "models": {name: value for name, value in models.items() if name not in ("step_time", "steps")} or None,
    }
