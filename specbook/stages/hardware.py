"""Stage 2: hardware profiles, given or probed on this machine; those that no configuration could be costed on go."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from specbook.checks import BadInput
from specbook.files import dump_model, model_sha256, read_model, to_json, write_text
from specbook.funnel_config import FunnelConfig
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.pass_cost import step_cost
from specbook.stage_folder import Gate, Stage
from specbook.stages.plan import STAGE_NAMES, FunnelPlan, ProbePlan, Working, numbered_file, plain

NAME = STAGE_NAMES[1]
TOO_SMALL = "cannot hold the target and one sequence"
UNCALIBRATED = "was probed too briefly for a calibrated model, or beside other work"


def hardware_stage(plan: FunnelPlan, working: Working) -> Stage:
    """Devices into files, one each, in their order; ``dropped.json`` names those that do not go on."""

    def run(folder: Path) -> Gate:
        devices = plan.choices.hardware if plan.probe is None else (probed_machine(plan.probe, working),)
        refused = {device.name: why_dropped(device, plan.choices) for device in devices}
        kept = [device for device in devices if refused[device.name] is None]
        for number, device in enumerate(kept, 1):
            write_text(folder / numbered_file(number, len(kept), device.name), dump_model(device))
        dropped = [{"device": name, "reason": reason} for name, reason in refused.items() if reason is not None]
        write_text(folder / "dropped.json", to_json(dropped))
        counts = Counter(each["reason"] for each in dropped)
        return Gate(entered=len(devices), left=len(kept), dropped=counts)

    return Stage(name=NAME, inputs=_inputs(plan), run=run, reads_before=False)


def _inputs(plan: FunnelPlan) -> dict[str, Any]:
    source: dict[str, Any] = (
        {"devices": [model_sha256(device) for device in plan.choices.hardware]}
        if plan.probe is None
        else {"probed": plain(plan.probe)}
    )
    names = ("target", "precision", "tensor_parallel", "step_time", "backend")
    needed = {name: plan.model_inputs[name] for name in names}
    return {**source, **needed, "smallest_context_tokens": min(plan.choices.contexts)}


def read_devices(root: Path) -> tuple[HardwareProfile, ...]:
    """The devices that stage 2 handed on.

    Raises
    ------
    BadInput
        If one cannot be read.
    """
    return tuple(read_model(path, HardwareProfile) for path in sorted((root / NAME).glob("[0-9]*.json")))


def why_dropped(device: HardwareProfile, choices: FunnelConfig) -> str | None:
    """What keeps a device from being costed; None if nothing does.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> from specbook.hardware.profile import catalogue_device
    >>> why_dropped(catalogue_device("l4"), example_funnel())
    'cannot hold the target and one sequence'
    """
    if not holds_target(device, choices):
        return TOO_SMALL
    if choices.step_time != "calibrated" or device.probe is None:
        return None
    known = device.calibrations if choices.backend is None else {choices.backend} & set(device.calibrations)
    return None if known else UNCALIBRATED


def holds_target(device: HardwareProfile, choices: FunnelConfig) -> bool:
    """Whether weights and the cache of one sequence of the shortest context fit, with no drafter beside them.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> from specbook.hardware.profile import catalogue_device
    >>> [holds_target(catalogue_device(name), example_funnel()) for name in ("l4", "mi300x")]
    [False, True]
    """
    share = choices.tensor_parallel
    cost = step_cost(choices.target, choices.precision, tensor_parallel=share)
    weight_bytes = choices.target.weight_bytes(choices.precision) / share
    return weight_bytes + min(choices.contexts) * cost.kv_bytes_per_token <= device.memory_bytes.value


def probed_machine(probe: ProbePlan, working: Working) -> HardwareProfile:
    """What ``specbook probe`` measures here, with a calibrated model of each arithmetic that it had the time for.

    Raises
    ------
    BadInput
        If memory is short.
    """
    from specbook.engine.threads import blas_threads
    from specbook.hardware.probe.numpy_backend import NumpyBackend
    from specbook.hardware.probe.run import ProbeConfig, run_probe
    from specbook.roofline.fit import with_calibrations

    with blas_threads(probe.n_threads), working("probing this machine", round(1e3 * probe.budget_s)) as progress:
        config = ProbeConfig(name=probe.name, budget_s=probe.budget_s, seed=probe.seed)
        measured = run_probe(config, NumpyBackend(probe.n_threads), progress=progress)
    try:
        return with_calibrations(measured)
    except BadInput:  # too few passes, for which the gate drops it
        return measured
