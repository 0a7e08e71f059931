"""One run of ``specbook simulate``: from options to rows, figures and the gate's verdict."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from specbook.checks import BadInput
from specbook.commands.option_names import in_one_line
from specbook.commands.output import working
from specbook.commands.projection import TREE_NODES_TEXT, MethodChoice, funnel_config
from specbook.commands.serving_options import MOST_IN_MEMORY, Load, LoadOptions, load_of

if TYPE_CHECKING:
    from specbook.funnel_config import FunnelConfig
    from specbook.progress import Progress
    from specbook.serving.gate import GateVerdict
    from specbook.serving.serving_config import ServingConfig
    from specbook.serving.slo import Slo
    from specbook.serving.summary import ServingSummary
    from specbook.serving_setup import DraftEvidence, Drafts, EngineLimits, ServingSetup

# A word of --step-time → the kind of step time.
_ROOFLINES = {"roofline": "calibrated", "calibrated": "calibrated", "doctrine": "doctrine", "measured": "measured"}
_LONGEST_CONTEXT = 2**24
_STATE_DRAFTS = "state --acceptance or --conditional-acceptance, and a draft length above 0"
# Fields of a step-time file that name further files.
_PARTS = ("file", "linear", "decode", "prefill")


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options that say how long an iteration takes."""

    step_time: str
    hardware: str | None = None
    target: str | None = None
    draft: str | None = None
    precision: str = "bf16"
    draft_precision: str = "bf16"
    tensor_parallel: int = 1
    method: MethodChoice = MethodChoice.evidence
    backend: str | None = None
    steps: tuple[Path, ...] = ()

    @property
    def kind(self) -> str | None:
        """Which roofline, or None where a file states the times."""
        return _ROOFLINES.get(self.step_time.casefold())


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """Everything that the command is asked for; ``acceptance`` are the profiles as they were named."""

    load: LoadOptions
    engine: EngineOptions
    limits: EngineLimits
    acceptance: tuple[str, ...]
    evidence: DraftEvidence
    slo: Slo
    compare: bool
    stream: bool
    seed: int


@dataclass(frozen=True, kw_only=True)
class SimulationReport:
    """What a run comes to; ``skipped`` counts rows of the trace by reason, ``document`` is ``summary.json``."""

    setup: ServingSetup
    summary: ServingSummary
    slo: Slo
    baseline: ServingSummary | None
    verdict: GateVerdict | None
    skipped: dict[str, int]
    trace_notes: tuple[str, ...]
    document: dict[str, Any]


def simulate(request: SimulationRequest, out: Path) -> SimulationReport:
    """Simulate, judge, and write ``requests.parquet``, ``iterations.parquet`` and ``summary.json`` into ``out``.

    Raises
    ------
    BadInput
        If an option is missing or contradicts another, a file cannot be used, or a request can never run. Nothing is
        written then.
    """
    from specbook.serving.gate import judge
    from specbook.serving.summary_file import serving_document

    with in_one_line("specbook simulate"):
        load, setup = _load_and_setup(request)
        about = _about(request, setup, load)
        run = _run(request, load, setup.flops_per_token)
    with working("simulating", load.n_requests * (2 if request.compare else 1)) as progress:
        # First what is not kept, so that nothing is written before everything has run.
        baseline = _figures(run, setup.baseline, out, progress) if request.compare else None
        summary, write = run(setup.config, out, progress)
    verdict = None if baseline is None else judge(summary, baseline, request.slo)
    about["comparison"] = _comparison(setup, baseline, verdict)
    document = serving_document(about, summary)
    write(document)
    return SimulationReport(
        setup=setup,
        summary=summary,
        slo=request.slo,
        baseline=baseline,
        verdict=verdict,
        skipped=load.skipped,
        trace_notes=load.notes,
        document=document,
    )


def _load_and_setup(request: SimulationRequest) -> tuple[Load, ServingSetup]:
    """What comes, and on what; where a trace holds requests that cannot run, what is left of it."""
    from specbook.serving_setup import drafts_from

    drafts = drafts_from(request.evidence)
    _check_drafts(request, drafts)
    load = load_of(request.load, request.seed)
    setup = _setup(request, drafts, load)
    if request.load.trace is None or load.runs_on(setup.config):
        return load, setup
    left = load_of(request.load, request.seed, setup.config)
    return left, _setup(request, drafts, left)


def _check_drafts(request: SimulationRequest, drafts: Drafts) -> None:
    if request.engine.draft is not None and not drafts.deepest:
        remedy = f"{_STATE_DRAFTS}, or leave it out"
        raise BadInput("drafts nothing", field="--draft", value=request.engine.draft, remedy=remedy)
    if request.compare and not drafts.deepest:
        problem = "nothing is drafted that no drafts could be compared with"
        raise BadInput(problem, field="--compare", remedy=_STATE_DRAFTS)


# Runs an engine, with a folder for its rows; gives its figures, and what writes the rest of them.
_Write = Callable[[dict[str, Any]], None]
_Runner = Callable[["ServingConfig", Path, "Progress"], tuple["ServingSummary", _Write]]


def _run(request: SimulationRequest, load: Load, flops_per_token: float | None) -> _Runner:
    """How to run any engine under this load and luck: in memory, or with its rows streamed into the folder."""
    import numpy as np

    from specbook.serving.result import simulate_serving, stream_serving, write_result, write_summary

    slo = request.slo if request.slo.limits else None

    def stream(config: ServingConfig, folder: Path, progress: Progress) -> tuple[ServingSummary, _Write]:
        rng = np.random.default_rng(request.seed)
        with _no_empty_folder(folder):
            summary = stream_serving(
                config,
                load.parts(),
                folder,
                rng=rng,
                slo=slo,
                flops_per_token=flops_per_token,
                progress=progress,
            )
        return summary, lambda about: write_summary(summary, folder, about)

    if _streams(request, load):
        return stream
    workload = load.whole()

    def in_memory(config: ServingConfig, folder: Path, progress: Progress) -> tuple[ServingSummary, _Write]:
        result = simulate_serving(
            config,
            workload,
            rng=np.random.default_rng(request.seed),
            loop=load.loop,
            slo=slo,
            flops_per_token=flops_per_token,
            progress=progress,
        )
        return result.summary, lambda about: write_result(result, folder, about)

    return in_memory


def _streams(request: SimulationRequest, load: Load) -> bool:
    if request.stream and load.loop is not None:
        remedy = "leave it out, or choose other --arrivals"
        raise BadInput("does not go with clients that wait for their answers", field="--stream", remedy=remedy)
    return request.stream or (load.n_requests > MOST_IN_MEMORY and load.loop is None)


def _figures(run: _Runner, config: ServingConfig, out: Path, progress: Progress) -> ServingSummary:
    """Figures alone: rows that were streamed are thrown away."""
    with TemporaryDirectory(prefix=".simulate-", dir=_existing(out)) as scratch:
        return run(config, Path(scratch), progress)[0]


def _setup(request: SimulationRequest, drafts: Drafts, load: Load) -> ServingSetup:
    from specbook.serving_setup import setup_from_file, setup_from_models

    engine = request.engine
    if engine.kind is None:
        _check_file(engine)
        return setup_from_file(Path(engine.step_time), drafts, request.limits)
    return setup_from_models(_funnel(request, load), drafts, request.limits)


def _check_file(engine: EngineOptions) -> None:
    """Models and devices mean nothing beside a file of times, and a word that is no file is a mistyped choice."""
    path = Path(engine.step_time)
    if not path.exists() and not path.suffix and len(path.parts) == 1:
        remedy = f"one of {', '.join(_ROOFLINES)}, or a JSON file"
        raise BadInput("no such step time", field="--step-time", value=engine.step_time, remedy=remedy)
    plain = EngineOptions(step_time=engine.step_time)
    for name, value in asdict(engine).items():
        if value != getattr(plain, name):
            remedy = "leave it out, or take --step-time roofline"
            option = f"--{name.replace('_', '-')}"
            raise BadInput("means nothing beside a step-time file", field=option, value=str(value), remedy=remedy)


def _funnel(request: SimulationRequest, load: Load) -> FunnelConfig:
    engine = request.engine
    for name in ("hardware", "target"):
        if getattr(engine, name) is None:
            remedy = f"name one with --{name}, or bring a step-time file with --step-time"
            raise BadInput(f"no {name} is named", field=f"--{name}", remedy=remedy)
    return funnel_config(
        request.acceptance,
        [str(engine.hardware)],
        (str(engine.target), engine.draft),
        (str(request.limits.max_batch), str(min(load.longest_tokens, _LONGEST_CONTEXT))),
        precision=engine.precision,
        draft_precision=engine.draft_precision,
        assume=request.evidence.assume,
        method=engine.method,
        step_time=engine.kind,
        backend=engine.backend,
        steps=engine.steps,
        tree_nodes=TREE_NODES_TEXT,
        tensor_parallel=engine.tensor_parallel,
    )


def _about(request: SimulationRequest, setup: ServingSetup, load: Load) -> dict[str, Any]:
    """What ``summary.json`` says beside the figures, as far as it is known before the run."""
    from specbook import __version__

    return {
        "schema": "specbook-serving/1",
        "specbook_version": __version__,
        "inputs": _inputs(request, load),
        "parameters": _parameters(request, setup, load),
        "seed": request.seed,
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


def _comparison(
    setup: ServingSetup, baseline: ServingSummary | None, verdict: GateVerdict | None
) -> dict[str, Any] | None:
    if baseline is None or verdict is None:
        return None
    return {
        "viable": verdict.stays,
        "reasons": list(verdict.reasons),
        "kv_blocks": setup.baseline.kv.n_blocks,
        "without_speculation": baseline.as_dict(),
    }


def folder_of(text: str) -> Path:
    """The folder to write, out of the words of ``--out``; what could not be written is refused before the run.

    Raises
    ------
    BadInput
        If it is empty, a file, or cannot be written.
    """
    if not text:
        raise BadInput("is empty", field="--out", value=text, remedy="name a folder")
    out = Path(text)
    if out.exists() and not out.is_dir():
        raise BadInput("is a file", field="--out", value=str(out), remedy="name a folder")
    folder = _existing(out)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput("cannot be written", field="--out", value=str(out), remedy="choose another --out")
    return out


def _existing(out: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())


@contextmanager
def _no_empty_folder(folder: Path) -> Iterator[None]:
    """Take a folder away again that was made for rows that never came."""
    existed = folder.exists()
    try:
        yield
    except BaseException:
        if not existed and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise
