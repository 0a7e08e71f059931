"""What goes into the funnel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbook.acceptance.candidates import Assumption, group_profiles
from specbook.acceptance.choices import TREE_NODES, drafts_of
from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import BadInput
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.drafting import MethodName, costs_like
from specbook.roofline.engine_overheads import EngineOverheads
from specbook.roofline.grid import GridConfig, MeasuredPair, StepTimeKind
from specbook.roofline.measured_steps import measured_steps
from specbook.roofline.model_spec import ModelSpec


@dataclass(frozen=True, kw_only=True)
class FunnelConfig:
    """What goes into the funnel.

    Attributes
    ----------
    profiles : tuple of AcceptanceProfile
        Evidence; profiles of the same target, drafter, method, domain and temperature give a draft length each.
    hardware : tuple of HardwareProfile
    target : ModelSpec
    draft : ModelSpec or None
        The draft model; None for methods that have none.
    batches, contexts : tuple of int
    precision, draft_precision : str
    assume : "none" or "truncation"
    max_draft_length : int
    method : str or None
        What drafting costs like. None: like ``draft`` if one is named, else like the method of the evidence. Where
        some evidence is of a draft model, ``draft`` is for that, and other methods cost what they are.
    step_time : str
        ``doctrine``, ``calibrated`` or ``measured``.
    backend : str or None
        Which of a device's calibrations, or the engine of its measured passes.
    tensor_parallel : int
        Devices of a kind that share the models.
    overheads : EngineOverheads or None
        What an engine spends beside the passes; nothing is added without one.
    tree_nodes : tuple of int
        Sizes of trees to offer where the evidence is of trees.
    """

    profiles: tuple[AcceptanceProfile, ...]
    hardware: tuple[HardwareProfile, ...]
    target: ModelSpec
    draft: ModelSpec | None
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    precision: str = "bf16"
    draft_precision: str = "bf16"
    assume: Assumption = "none"
    max_draft_length: int = 16
    method: MethodName | None = None
    step_time: StepTimeKind = "calibrated"
    backend: str | None = None
    tensor_parallel: int = 1
    overheads: EngineOverheads | None = None
    tree_nodes: tuple[int, ...] = TREE_NODES

    def grids(self) -> list[GridConfig]:
        """One grid for each target, drafter, method, domain and temperature of the evidence.

        Raises
        ------
        BadInput
            If a profile cannot be projected, the cost of its method is not modelled, or measured passes are missing.
        """
        return [self._grid(group) for group in group_profiles(self.profiles)]

    def _grid(self, group: Sequence[AcceptanceProfile]) -> GridConfig:
        length, nodes = self.max_draft_length, self.tree_nodes
        candidates = drafts_of(group, assume=self.assume, max_draft_length=length, tree_nodes=nodes)
        method = self.method_of(candidates.method)
        return GridConfig(
            hardware=self.hardware,
            target=self.target,
            draft=self.draft if method == "draft_model" else None,
            candidates=candidates,
            batches=self.batches,
            contexts=self.contexts,
            precision=self.precision,
            draft_precision=self.draft_precision,
            method=method,
            step_time=self.step_time,
            backend=None if self.step_time == "measured" else self.backend,
            measured_steps=self._measured(method) if self.step_time == "measured" else (),
            tensor_parallel=self.tensor_parallel,
            overheads=self.overheads,
        )

    def method_of(self, measured: str | None) -> MethodName:
        """What drafting costs like for evidence of a method, as the attribute ``method`` says.

        Raises
        ------
        BadInput
            If nobody modelled it.
        """
        if self.method is not None:
            return self.method
        is_for_others = any(profile.method == "draft_model" for profile in self.profiles)
        if self.draft is None or (is_for_others and measured not in (None, "draft_model")):
            return costs_like(measured)
        return "draft_model"

    def _measured(self, method: MethodName) -> tuple[MeasuredPair, ...]:
        if self.tensor_parallel > 1:
            remedy = "use --step-time calibrated, which models what devices exchange"
            raise BadInput(
                "measured passes are of one device", field="tensor_parallel", value=self.tensor_parallel, remedy=remedy
            )
        if method in ("eagle", "eagle3", "mtp", "medusa"):
            remedy = "use --step-time calibrated, which models it"
            raise BadInput("measured passes are of whole models", field="method", value=method, remedy=remedy)
        draft = self.draft if method == "draft_model" else None
        return tuple(
            MeasuredPair(
                target=measured_steps(profile, self.target.name, self.backend),
                draft=None if draft is None else measured_steps(profile, draft.name, self.backend),
            )
            for profile in self.hardware
        )
