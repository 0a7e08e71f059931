"""What a funnel is asked for, before anything is measured or computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from specbook.checks import BadInput, check_counts, printable
from specbook.funnel_config import FunnelConfig
from specbook.progress import Progress, silent
from specbook.roofline.engine_overheads import CONSTANTS, EngineOverheads
from specbook.serving.slo import Slo
from specbook.serving_setup import EngineLimits
from specbook.stages.load import FunnelLoad

STAGE_NAMES = ("1-acceptance", "2-hardware", "3-roofline", "4-serving", "5-witness")
# What goes through the gate of each stage.
THINGS = dict(zip(STAGE_NAMES, ("profiles", "devices", *["configurations"] * 3), strict=True))
# Configurations that may be run for real.
MOST_HANDED_ON = 3

# Models that the native engine runs → the cost dial that they are.
NATIVE_TARGETS = {"specbook-target": 1, "specbook-target-r8": 8}
# The weight format that it computes in.
NATIVE_FORMAT = "fp32"

# Given a label and a number of steps, a context in which steps done are reported.
Working = Callable[[str, int], AbstractContextManager[Progress]]


@contextmanager
def quietly(label: str, n_steps: int) -> Iterator[Progress]:
    """Report no progress."""
    del label, n_steps
    yield silent


@dataclass(frozen=True, kw_only=True)
class MeasurePlan:
    """Acceptance to measure with the native engine, in place of files.

    Attributes
    ----------
    drafter : str
        A name of the shipped drafters.
    domains : tuple of str
        Of specbook's own prompts.
    draft_lengths : tuple of int
        Each is measured by itself, so that none has to be assumed.
    n_prompts, new_tokens : int
        Prompts of each domain, at most those that the witness leaves, and new tokens of each.
    arithmetic : str
    seed : int

    Raises
    ------
    ValueError
        If a number is below 1, or there is no domain or draft length.
    """

    drafter: str = "small"
    domains: tuple[str, ...] = ("code", "mathematics", "chat", "summarisation")
    draft_lengths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8)
    n_prompts: int = 20
    new_tokens: int = 64
    arithmetic: str = "exact"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.domains or not self.draft_lengths:
            raise ValueError("domains and draft_lengths must not be empty")
        for name in ("draft_lengths", "n_prompts", "new_tokens"):
            check_counts(name, getattr(self, name), minimum=1)


@dataclass(frozen=True, kw_only=True)
class ProbePlan:
    """A probe of this machine, in place of a catalogue or files.

    Attributes
    ----------
    budget_s : float
        Wall time of the probe.
    name : str
        What the machine is called in results.
    n_threads : int
        Of BLAS.
    seed : int
    """

    budget_s: float = 60.0
    name: str = "this-machine"
    n_threads: int = 1
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class WitnessPlan:
    """How much the witness runs, as :class:`~specbook.witness.config.WitnessConfig` has it.

    Attributes
    ----------
    n_prompts, new_tokens : int
        Requests of each configuration, and tokens of each.
    arithmetic : str
    seed : int
        Decides which prompts are the witness's; acceptance is measured on others.

    Raises
    ------
    ValueError
        If there are fewer than two prompts, or no token.
    """

    n_prompts: int = 12
    new_tokens: int = 64
    arithmetic: str = "fast"
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts("n_prompts", self.n_prompts, minimum=2)
        check_counts("new_tokens", self.new_tokens, minimum=1)


@dataclass(frozen=True, kw_only=True)
class FunnelPlan:
    """What a funnel is asked for.

    Attributes
    ----------
    choices : FunnelConfig
        Models, batches, contexts and formats; with the profiles and devices that were given, none where they are
        measured first.
    load : FunnelLoad
    slo : Slo
    limits : EngineLimits
    measure : MeasurePlan or None
        None where profiles are given.
    probe : ProbePlan or None
        None where devices are given.
    witness : WitnessPlan
    last_stage : int
        1 to 5; those after it are not run.
    seed : int
        Of acceptance in the simulations.

    Raises
    ------
    ValueError
        If both or neither of profiles and their measurement, or of devices and a probe, are there.
    BadInput
        If acceptance is to be measured of a model that the native engine does not have.
    """

    choices: FunnelConfig
    load: FunnelLoad
    slo: Slo = field(default_factory=Slo)
    limits: EngineLimits = field(default_factory=EngineLimits)
    measure: MeasurePlan | None = None
    probe: ProbePlan | None = None
    witness: WitnessPlan = field(default_factory=WitnessPlan)
    last_stage: int = len(STAGE_NAMES)
    seed: int = 0

    def __post_init__(self) -> None:
        if bool(self.choices.profiles) == (self.measure is not None):
            raise ValueError("either profiles or a plan to measure them must be given")
        if bool(self.choices.hardware) == (self.probe is not None):
            raise ValueError("either devices or a plan to probe one must be given")
        if not 1 <= self.last_stage <= len(STAGE_NAMES):
            raise ValueError(f"last_stage must lie in [1, {len(STAGE_NAMES)}]; got {self.last_stage}")
        if self.measure is not None and self.choices.target.name not in NATIVE_TARGETS:
            remedy = f"bring evidence with --acceptance, or name one of {', '.join(NATIVE_TARGETS)}"
            problem = "is no model of the native engine, which measures acceptance here"
            raise BadInput(problem, field="target", value=self.choices.target.name, remedy=remedy)

    @property
    def model_inputs(self) -> dict[str, Any]:
        """The choices of models and formats, as a manifest says them."""
        config = self.choices
        return {
            "target": config.target.name,
            "draft": None if config.draft is None else config.draft.name,
            "precision": config.precision,
            "draft_precision": config.draft_precision,
            "method": config.method,
            "step_time": config.step_time,
            "backend": config.backend,
            "tensor_parallel": config.tensor_parallel,
            "engine_overheads": None if config.overheads is None else _stated(config.overheads),
        }

    @property
    def evidence_inputs(self) -> dict[str, Any]:
        """How profiles become drafts."""
        config = self.choices
        return {
            "assume": config.assume,
            "max_draft_length": config.max_draft_length,
            "tree_nodes": list(config.tree_nodes),
        }


def _stated(overheads: EngineOverheads) -> dict[str, Any]:
    """Whose overheads, and how large, so that other constants are another input."""
    return {"engine": overheads.label, **{name: getattr(overheads, name) for name in CONSTANTS}}


def file_slug(text: str) -> str:
    """Letters, digits and hyphens of a name that came from anywhere, for a file.

    Examples
    --------
    >>> file_slug("../Vicuna 7B (code)")
    'vicuna-7b-code'
    """
    return re.sub(r"[^a-z0-9]+", "-", printable(text).casefold()).strip("-")[:60] or "unnamed"


def numbered_file(number: int, of: int, label: str) -> str:
    """Name of a JSON file among so many, which sorts by its number.

    Examples
    --------
    >>> numbered_file(2, 8, "Vicuna 7B"), numbered_file(2, 120, "Vicuna 7B")
    ('02-vicuna-7b.json', '002-vicuna-7b.json')
    """
    return f"{number:0{max(2, len(str(of)))}d}-{file_slug(label)}.json"


def plain(value: Any) -> dict[str, Any]:
    """A dataclass of plain values as JSON can carry it: lists for tuples, text for paths.

    Examples
    --------
    >>> plain(ProbePlan())["budget_s"]
    60.0
    """
    return {
        name: list(each) if isinstance(each, tuple) else str(each) if isinstance(each, Path) else each
        for name, each in asdict(value).items()
    }
