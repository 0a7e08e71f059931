"""Stage 5: the configurations that are left, run for real by the native engine; what it cannot run is told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specbook.acceptance.profile import AcceptanceProfile
from specbook.engine.library.drafters import DRAFTER_NAMES
from specbook.engine.threads import processor_name
from specbook.files import read_json, to_json, write_text
from specbook.hardware.probe.machine import n_processors
from specbook.hardware.profile import HardwareProfile
from specbook.measuring.prompts import domains
from specbook.stage_folder import Gate, Stage
from specbook.stages.acceptance import read_profiles, same_evidence
from specbook.stages.hardware import read_devices
from specbook.stages.plan import NATIVE_FORMAT, NATIVE_TARGETS, STAGE_NAMES, FunnelPlan, WitnessPlan, Working, plain
from specbook.stages.serving import read_handed_on
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.jobs import n_steps
from specbook.witness.receipt import Receipt, read_receipt, receipt_of, write_receipt
from specbook.witness.receipt_parts import InputRecord, file_input
from specbook.witness.result import ConfigurationResult, WitnessResult
from specbook.witness.run import run_witness

NAME = STAGE_NAMES[4]
NOT_WITNESSED = "not witnessed"
FAILED, INCONCLUSIVE = "failed the witness", "the witness is inconclusive"
_PREFIX = "specbook-"


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """Why the native engine cannot run a configuration here, and what to run instead."""

    reason: str
    remedy: str


NOT_NATIVE = Obstacle(
    reason="not witnessed: not of the native engine, so it stays a projection",
    remedy="run it with its own engine, and attach that benchmark to a receipt with specbook witness --baseline FILE",
)
ELSEWHERE = Obstacle(
    reason="not witnessed: not of this machine, so it stays a projection",
    remedy="run the same funnel there with --probe-seconds 60, or name the profile that specbook probe wrote here",
)
OTHER_PROMPTS = Obstacle(
    reason="not witnessed: of prompts that are not specbook's own",
    remedy="measure acceptance of one of specbook's own domains, with --measure",
)
OTHER_FORMAT = Obstacle(
    reason="not witnessed: projected in another weight format than the native engine's, so it stays a projection",
    remedy=f"project it in {NATIVE_FORMAT}, with --precision and --draft-precision",
)
UNFITTED = Obstacle(
    reason="not witnessed: the device holds no calibration of the arithmetic that would be run",
    remedy="probe for longer, or name an arithmetic that it has with --backend",
)
OTHER_PROFILE = Obstacle(
    reason="not witnessed: of a second profile of this machine",
    remedy="name this profile alone with --hardware, and another --out",
)


def witness_stage(plan: FunnelPlan, working: Working) -> Stage:
    """``witness.json``, what became of each configuration; ``receipt.json`` where any was run."""

    def run(folder: Path) -> Gate:
        rows = read_handed_on(folder.parent)
        profiles, devices = read_profiles(folder.parent), read_devices(folder.parent)
        obstacles = obstacles_of(rows, devices, plan)
        runnable = [row for row in rows if obstacles[row["name"]] is None]
        witnessed: dict[str, ConfigurationResult] = {}
        if runnable:
            device = next(each for each in devices if each.name == runnable[0]["hardware"])
            result = _witnessed(witness_config(runnable, profiles, plan.witness), device, working)
            write_receipt(receipt_of(result, _inputs(folder.parent)), folder / "receipt.json")
            witnessed = {each.configuration.name: each for each in result.results}
        outcomes = [_outcome(row, obstacles[row["name"]], witnessed) for row in rows]
        write_text(folder / "witness.json", to_json(outcomes))
        return _gate(outcomes)

    return Stage(name=NAME, inputs={"witness": plain(plan.witness)}, run=run)


def obstacle(row: Mapping[str, Any], devices: Sequence[HardwareProfile]) -> Obstacle | None:
    """What keeps the native engine from running a configuration here; None if nothing does.

    Parameters
    ----------
    row : mapping
        Of ``handed_on.json``.
    devices : sequence of HardwareProfile
        That stage 2 handed on.

    Examples
    --------
    >>> row = {"target": "Llama-3.1-70B", "measured_drafter": None, "hardware": "l4", "domain": "code"}
    >>> obstacle(row, []).reason
    'not witnessed: not of the native engine, so it stays a projection'
    """
    drafter = str(row["measured_drafter"])
    if row["target"] not in NATIVE_TARGETS or drafter.removeprefix(_PREFIX) not in DRAFTER_NAMES:
        return NOT_NATIVE
    if not any(device.name == row["hardware"] and is_this_machine(device) for device in devices):
        return ELSEWHERE
    return None if row["domain"] in domains() else OTHER_PROMPTS


def obstacles_of(
    rows: Sequence[Mapping[str, Any]], devices: Sequence[HardwareProfile], plan: FunnelPlan
) -> dict[str, Obstacle | None]:
    """What keeps the engine from running each configuration as it was projected; one profile is the machine's.

    Parameters
    ----------
    rows : sequence of mapping
        Of ``handed_on.json``.
    devices : sequence of HardwareProfile
    plan : FunnelPlan
        Its weight formats and its arithmetic count.
    """
    fitted = {device.name for device in devices if plan.witness.arithmetic in device.calibrations}
    is_native = {plan.choices.precision, plan.choices.draft_precision} == {NATIVE_FORMAT}
    found: dict[str, Obstacle | None] = {}
    chosen: str | None = None
    for row in rows:
        hindrance = obstacle(row, devices)
        if hindrance is None and not is_native:
            hindrance = OTHER_FORMAT
        elif hindrance is None and row["hardware"] not in fitted:
            hindrance = UNFITTED
        elif hindrance is None:
            chosen = chosen or row["hardware"]
            hindrance = None if row["hardware"] == chosen else OTHER_PROFILE
        found[row["name"]] = hindrance
    return found


def is_this_machine(device: HardwareProfile) -> bool:
    """Whether a profile was probed on a machine like this one, with the arithmetic of the native engine.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> is_this_machine(catalogue_device("l4"))
    False
    """
    probe = device.probe
    if probe is None or probe.backend != "numpy":
        return False
    return (probe.processor, probe.n_processors) == (processor_name(), n_processors())


def witness_config(
    rows: Sequence[Mapping[str, Any]], profiles: Sequence[AcceptanceProfile], plan: WitnessPlan
) -> WitnessConfig:
    """What is run: of each row its draft, on prompts of the domain that its acceptance was measured on."""
    return WitnessConfig(
        configurations=tuple(_configuration(row, profiles) for row in rows),
        arithmetic=plan.arithmetic,
        replication=NATIVE_TARGETS[rows[0]["target"]],
        new_tokens=plan.new_tokens,
        n_prompts=plan.n_prompts,
        seed=plan.seed,
    )


def _configuration(row: Mapping[str, Any], profiles: Sequence[AcceptanceProfile]) -> Configuration:
    profile = profile_of(row, profiles)
    measurement = None if profile is None else profile.measurement
    is_tree = row["tree_nodes"] is not None
    return Configuration(
        name=name_in_receipt(row),
        drafter=str(row["measured_drafter"]).removeprefix(_PREFIX),
        draft_length=None if is_tree else row["draft_length"],
        parents=tuple(measurement.parents) if is_tree and measurement is not None else None,
        cut="none" if measurement is None or measurement.cut is None else measurement.cut,
        domains=(row["domain"],),
        temperature=row["temperature"] or 0.0,
        acceptance=profile,
    )


def name_in_receipt(row: Mapping[str, Any]) -> str:
    """A configuration without the name of its device, which is the machine that the receipt is of.

    Examples
    --------
    >>> name_in_receipt({"name": "this-machine: specbook-draft, K = 4, code", "hardware": "this-machine"})
    'specbook-draft, K = 4, code'
    """
    return str(row["name"]).removeprefix(f"{row['hardware']}: ")


def profile_of(row: Mapping[str, Any], profiles: Sequence[AcceptanceProfile]) -> AcceptanceProfile | None:
    """The profile that was measured with the very draft of a row; None where its acceptance was assumed."""

    def is_of(profile: AcceptanceProfile) -> bool:
        if row["tree_nodes"] is None:
            return profile.tree is None and profile.draft_length == row["draft_length"]
        return profile.measurement is not None and len(profile.measurement.parents) == row["tree_nodes"]

    return next((profile for profile in same_evidence(profiles, row) if is_of(profile)), None)


def _inputs(root: Path) -> list[InputRecord]:
    """The files of stages 1 and 2, which the forecast is made from."""
    roles: tuple[tuple[Literal["acceptance", "hardware"], str], ...] = (
        ("acceptance", STAGE_NAMES[0]),
        ("hardware", STAGE_NAMES[1]),
    )
    return [file_input(role, path) for role, stage in roles for path in sorted((root / stage).glob("[0-9]*.json"))]


def _witnessed(config: WitnessConfig, device: HardwareProfile, working: Working) -> WitnessResult:
    with working("running the witness", n_steps(config, forecast=True)) as progress:
        return run_witness(config, hardware=device, progress=progress)


def _outcome(
    row: Mapping[str, Any], hindrance: Obstacle | None, witnessed: Mapping[str, ConfigurationResult]
) -> dict[str, Any]:
    """What became of one configuration; its figures are in the receipt."""
    name = row["name"]
    if hindrance is not None:
        return {"name": name, "verdict": NOT_WITNESSED, "reasons": [hindrance.reason], "remedy": hindrance.remedy}
    found = witnessed[name_in_receipt(row)]
    return {"name": name, "verdict": found.verdict, "reasons": list(found.reasons), "remedy": None}


def _gate(outcomes: Sequence[Mapping[str, Any]]) -> Gate:
    reasons = {"fail": FAILED, "inconclusive": INCONCLUSIVE}
    dropped = Counter(
        reasons.get(each["verdict"], each["reasons"][0]) for each in outcomes if each["verdict"] != "pass"
    )
    return Gate(entered=len(outcomes), left=len(outcomes) - dropped.total(), dropped=dropped)


def read_outcomes(root: Path) -> list[dict[str, Any]]:
    """What became of the configurations that were handed on.

    Raises
    ------
    BadInput
        If the file cannot be read.
    """
    outcomes: list[dict[str, Any]] = read_json(root / NAME / "witness.json")
    return outcomes


def read_own_receipt(root: Path) -> Receipt | None:
    """The receipt of stage 5; None where nothing could be run.

    Raises
    ------
    BadInput
        If it cannot be read.
    """
    path = root / NAME / "receipt.json"
    return read_receipt(path) if path.is_file() else None
