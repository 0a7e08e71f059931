"""What ``specbook simulate`` is asked for, and the load and the engine that this comes to."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specbook.checks import BadInput
from specbook.commands.projection import TREE_NODES_TEXT, MethodChoice, funnel_config
from specbook.commands.serving_options import Load, LoadOptions, load_of

if TYPE_CHECKING:
    from specbook.funnel_config import FunnelConfig
    from specbook.serving.slo import Slo
    from specbook.serving_setup import DraftEvidence, Drafts, EngineLimits, ServingSetup

# A word of --step-time → the kind of step time.
_ROOFLINES = {"roofline": "calibrated", "calibrated": "calibrated", "doctrine": "doctrine", "measured": "measured"}
_LONGEST_CONTEXT = 2**24
_STATE_DRAFTS = "state --acceptance or --conditional-acceptance, and a draft length above 0"


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
    engine_overheads: str | None = None
    method: MethodChoice = MethodChoice.evidence
    backend: str | None = None
    steps: tuple[Path, ...] = ()

    @property
    def kind(self) -> str | None:
        """Which roofline, or None where a file states the times."""
        return _ROOFLINES.get(self.step_time.casefold())


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    """Everything that the command is asked for; ``acceptance`` are the profiles as they were named.

    ``jobs`` and ``cluster`` say who does what can be done side by side.
    """

    load: LoadOptions
    engine: EngineOptions
    limits: EngineLimits
    acceptance: tuple[str, ...]
    evidence: DraftEvidence
    slo: Slo
    compare: bool
    stream: bool
    seed: int
    jobs: int = 1
    cluster: str | None = None


def load_and_setup(request: SimulationRequest) -> tuple[Load, ServingSetup]:
    """What comes, and on what; where a trace holds requests that cannot run, what is left of it.

    Raises
    ------
    BadInput
        If an option is missing or contradicts another, or a file cannot be used.
    """
    from specbook.serving_setup import drafts_from

    drafts = drafts_from(request.evidence)
    _check_drafts(request, drafts)
    load = load_of(request.load, request.seed)
    setup = setup_of(request, drafts, load)
    if request.load.trace is None or load.runs_on(setup.config):
        return load, setup
    left = load_of(request.load, request.seed, setup.config)
    return left, setup_of(request, drafts, left)


def _check_drafts(request: SimulationRequest, drafts: Drafts) -> None:
    if request.engine.draft is not None and not drafts.deepest:
        remedy = f"{_STATE_DRAFTS}, or leave it out"
        raise BadInput("drafts nothing", field="--draft", value=request.engine.draft, remedy=remedy)
    if request.compare and not drafts.deepest:
        problem = "nothing is drafted that no drafts could be compared with"
        raise BadInput(problem, field="--compare", remedy=_STATE_DRAFTS)


def setup_of(request: SimulationRequest, drafts: Drafts, load: Load) -> ServingSetup:
    """The engine, with drafts and without, for requests as long as those of the load.

    Raises
    ------
    BadInput
        If an option is missing, or the models or the file do not make an engine.
    """
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
        engine_overheads=engine.engine_overheads,
    )


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
    folder = existing(out)
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput("cannot be written", field="--out", value=str(out), remedy="choose another --out")
    return out


def existing(out: Path) -> Path:
    """The folder itself, or the nearest one above it that exists.

    Examples
    --------
    >>> existing(Path("/") / "no such folder" / "s") == Path("/").absolute()
    True
    """
    return next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
