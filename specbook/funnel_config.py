"""What goes into the funnel."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.acceptance.candidates import Assumption, draft_candidates, group_profiles
from specbook.acceptance.profile import AcceptanceProfile
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.grid import GridConfig
from specbook.roofline.model_spec import ModelSpec


@dataclass(frozen=True, kw_only=True)
class FunnelConfig:
    """What goes into the funnel.

    Attributes
    ----------
    profiles : tuple of AcceptanceProfile
        Evidence; profiles of the same target, drafter, method, domain and temperature give a draft length each.
    hardware : tuple of HardwareProfile
    target, draft : ModelSpec
    batches, contexts : tuple of int
    precision, draft_precision : str
    assume : "none" or "truncation"
    max_draft_length : int
    """

    profiles: tuple[AcceptanceProfile, ...]
    hardware: tuple[HardwareProfile, ...]
    target: ModelSpec
    draft: ModelSpec
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    precision: str = "bf16"
    draft_precision: str = "bf16"
    assume: Assumption = "none"
    max_draft_length: int = 16

    def grids(self) -> list[GridConfig]:
        """One grid for each target, drafter, method, domain and temperature of the evidence."""
        return [
            GridConfig(
                hardware=self.hardware,
                target=self.target,
                draft=self.draft,
                candidates=draft_candidates(group, assume=self.assume, max_draft_length=self.max_draft_length),
                batches=self.batches,
                contexts=self.contexts,
                precision=self.precision,
                draft_precision=self.draft_precision,
            )
            for group in group_profiles(self.profiles)
        ]
