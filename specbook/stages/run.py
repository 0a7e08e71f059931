"""All stages of a plan, file to file, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.files import read_json, to_json, write_text
from specbook.stage_folder import Gate, Stage, alone_in, run_stages_alone
from specbook.stages.acceptance import acceptance_stage
from specbook.stages.hardware import hardware_stage
from specbook.stages.plan import STAGE_NAMES, FunnelPlan, Working, quietly
from specbook.stages.roofline import roofline_stage
from specbook.stages.serving import serving_stage
from specbook.stages.summary import funnel_document, stage_label
from specbook.stages.witness import witness_stage

SUMMARY, REPORT = "summary.json", "report.html"
_SCHEMA = "specbook-funnel/1"


@dataclass(frozen=True, kw_only=True)
class FunnelRun:
    """A funnel that has run.

    Attributes
    ----------
    folder : Path
        Holds ``1-acceptance`` to ``5-witness``, as far as they ran, and ``summary.json``.
    gates : mapping of str to Gate
        By stage, in order.
    document : dict
        What ``summary.json`` says.
    """

    folder: Path
    gates: Mapping[str, Gate]
    document: dict[str, Any]

    @property
    def verdict(self) -> str | None:
        """``pass``, ``fail`` or ``inconclusive``; None where nothing was run for real."""
        witness = self.document["witness"]
        return None if witness is None else witness["verdict"]


def _silent(name: str, kept: bool) -> None:
    del name, kept


def run_plan(
    plan: FunnelPlan,
    folder: Path,
    *,
    working: Working = quietly,
    executor: Executor | None = None,
    report: Callable[[str, bool], None] = _silent,
    page: Callable[[FunnelRun], str] | None = None,
) -> FunnelRun:
    """Run the stages that a plan asks for; those that are in the folder already, made from the same, are kept.

    Parameters
    ----------
    plan : FunnelPlan
    folder : Path
        Made if it is not there.
    working : callable
        Gives a context for a piece of work, in which steps done are reported.
    executor : concurrent.futures.Executor or None
        Simulates devices side by side; the files are the same.
    report : callable
        Called with each stage's name, and whether it is kept, when its turn comes.
    page : callable or None
        Makes ``report.html``.

    Returns
    -------
    FunnelRun

    Raises
    ------
    BadInput
        If another funnel works in the folder, what is in it was edited or is of another version, something cannot be
        written, or the plan cannot be carried out.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from specbook.stages.example import example_plan
    >>> with TemporaryDirectory() as scratch:
    ...     run = run_plan(example_plan(), Path(scratch))
    ...     [(name, gate.entered, gate.left) for name, gate in run.gates.items()]
    [('1-acceptance', 1, 1), ('2-hardware', 2, 1), ('3-roofline', 8, 1), ('4-serving', 1, 1), ('5-witness', 1, 0)]
    """
    stages = _stages(plan, working, executor)[: plan.last_stage]
    with alone_in(folder):
        for leftover in [*folder.glob(f".{SUMMARY}.*.part"), *folder.glob(f".{REPORT}.*.part")]:
            leftover.unlink()
        gates = run_stages_alone(folder, stages, report)
        run = FunnelRun(folder=folder, gates=gates, document=funnel_document(plan, folder, gates))
        if page is not None:
            write_text(folder / REPORT, page(run))
        write_text(folder / SUMMARY, to_json(run.document))
    return run


def _stages(plan: FunnelPlan, working: Working, executor: Executor | None) -> list[Stage]:
    return [
        acceptance_stage(plan, working),
        hardware_stage(plan, working),
        roofline_stage(plan, working),
        serving_stage(plan, working, executor),
        witness_stage(plan, working),
    ]


def read_run(folder: Path) -> FunnelRun:
    """A funnel that ran before, from its folder.

    Raises
    ------
    BadInput
        If there is none, or its summary is of another schema.
    """
    path = folder / SUMMARY
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA or "witness" not in document:
        raise BadInput(f"is no summary of a funnel ({_SCHEMA})", file=str(path), remedy="run specbook funnel again")
    by_label = {stage_label(name): name for name in STAGE_NAMES}
    gates = {
        by_label[each["stage"]]: Gate(entered=each["entered"], left=each["left"], dropped=each["dropped"])
        for each in document["gates"]
    }
    return FunnelRun(folder=folder, gates=gates, document=document)
