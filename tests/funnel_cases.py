"""Funnels that tests run: one of evidence that ships, and one whose configurations the native engine could run here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specbook.engine.threads import processor_name
from specbook.funnel_config import FunnelConfig
from specbook.hardware.probe.machine import n_processors
from specbook.hardware.probe.stored import stored_probe
from specbook.hardware.profile import HardwareProfile
from specbook.measuring.traces import book_profile
from specbook.roofline.model_spec import model
from specbook.serving_setup import EngineLimits
from specbook.stages.load import example_load
from specbook.stages.plan import FunnelPlan, WitnessPlan


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def probed_here() -> HardwareProfile:
    """A stored probe that says that it is of this machine."""
    stored = stored_probe("epyc-zen4-2core")
    assert stored.probe is not None
    record = stored.probe.model_copy(update={"processor": processor_name(), "n_processors": n_processors()})
    return stored.model_copy(update={"name": "this-machine", "probe": record})


def native_plan(**witness: int) -> FunnelPlan:
    """Measured acceptance of the shipped pair on a machine that counts as this one; one request runs at a time."""
    choices = FunnelConfig(
        profiles=tuple(book_profile("small", f"chain {length}", "code", 0.0) for length in (2, 4)),
        hardware=(probed_here(),),
        target=model("specbook-target"),
        draft=model("specbook-draft"),
        batches=(1, 4),
        contexts=(128, 512),
        precision="fp32",
        draft_precision="fp32",
        backend="fast",
    )
    return FunnelPlan(
        choices=choices,
        load=replace(example_load(), mean_batch=0.5),
        limits=EngineLimits(max_batch=1),
        witness=WitnessPlan(**{"n_prompts": 2, "new_tokens": 12, **witness}),
    )
