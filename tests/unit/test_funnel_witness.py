"""The last stage: what may be run here, what is run, and what becomes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specbook.files import sha256_of
from specbook.hardware.probe.stored import stored_probe
from specbook.hardware.profile import HardwareProfile
from specbook.measuring.traces import book_profile
from specbook.stages import witness as witness_module
from specbook.stages.acceptance import measured_profiles
from specbook.stages.plan import FunnelPlan, MeasurePlan, WitnessPlan, quietly
from specbook.stages.run import run_plan
from specbook.stages.witness import (
    ELSEWHERE,
    NOT_NATIVE,
    OTHER_FORMAT,
    OTHER_PROFILE,
    OTHER_PROMPTS,
    UNFITTED,
    Obstacle,
    is_this_machine,
    obstacle,
    obstacles_of,
    witness_config,
)
from specbook.witness.prompts import choose_prompts
from specbook.witness.receipt import read_receipt
from specbook.witness.result import WitnessResult
from tests.fake_witness import FakeClock, FakeDecoder, fake_witness
from tests.funnel_cases import native_plan, probed_here

ROW: dict[str, Any] = {
    "name": "this-machine: specbook-draft, K = 4, code",
    "hardware": "this-machine",
    "target": "specbook-target-r8",
    "measured_target": "specbook-target",
    "measured_drafter": "specbook-small",
    "method": "draft_model",
    "domain": "code",
    "temperature": 0.0,
    "draft_length": 4,
    "tree_nodes": None,
    "roles": "balanced",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"target": "Llama-3.1-8B"}, NOT_NATIVE),
        ({"measured_drafter": "EAGLE"}, NOT_NATIVE),
        ({"measured_drafter": None}, NOT_NATIVE),
        ({"hardware": "epyc-zen4-2core"}, ELSEWHERE),
        ({"hardware": "h100-sxm5"}, ELSEWHERE),
        ({"domain": "qa"}, OTHER_PROMPTS),
        ({"domain": None}, OTHER_PROMPTS),
    ],
)
def test_what_keeps_a_configuration_from_being_run(change: dict[str, Any], expected: object):
    other = stored_probe("epyc-zen4-2core")
    assert other.probe is not None
    elsewhere = other.model_copy(update={"probe": other.probe.model_copy(update={"processor": "another one"})})
    assert obstacle(ROW | change, [probed_here(), elsewhere]) == expected


def _obstacles(plan: FunnelPlan, devices: list[HardwareProfile]) -> list[Obstacle | None]:
    rows = [ROW | {"name": f"{each.name}: K = 4", "hardware": each.name} for each in devices]
    return list(obstacles_of(rows, devices, plan).values())


def test_what_is_run_is_what_was_projected():
    plan, here = native_plan(), probed_here()
    assert _obstacles(plan, [here]) == [None]
    for change in ({"precision": "bf16"}, {"draft_precision": "int4"}):
        other = replace(plan, choices=replace(plan.choices, **change))
        assert _obstacles(other, [here]) == [OTHER_FORMAT]
    exact = here.model_copy(update={"calibrations": {"exact": here.calibrations["exact"]}})
    assert _obstacles(plan, [exact]) == [UNFITTED]
    assert _obstacles(replace(plan, witness=WitnessPlan(arithmetic="exact")), [exact]) == [None]


def test_one_profile_of_a_machine_is_witnessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(witness_module, "run_witness", fake_run(1.0))
    plan, here = native_plan(n_prompts=4), probed_here()
    second = here.model_copy(update={"name": "again"})
    assert _obstacles(plan, [here, second]) == [None, OTHER_PROFILE]
    run = run_plan(replace(plan, choices=replace(plan.choices, hardware=(here, second))), tmp_path)
    gate = run.gates["5-witness"]
    assert {row["hardware"] for row in run.document["handed_on"]} == {"this-machine", "again"}
    assert gate.left + gate.dropped[OTHER_PROFILE.reason] == gate.entered
    assert min(gate.left, gate.dropped[OTHER_PROFILE.reason]) > 0


def test_a_profile_of_a_device_is_not_of_this_machine():
    here = probed_here()
    assert here.probe is not None
    assert is_this_machine(here)
    for change in ({"backend": "cuda"}, {"processor": "another one"}, {"n_processors": 4096}):
        assert not is_this_machine(here.model_copy(update={"probe": here.probe.model_copy(update=change)}))


def test_what_is_run_is_what_was_measured():
    profiles = [book_profile("small", f"chain {length}", "code", 0.0) for length in (2, 4)]
    config = witness_config([ROW, ROW | {"name": "other", "draft_length": 3}], profiles, WitnessPlan())
    first, second = config.configurations
    assert (first.drafter, first.draft_length, first.domains) == ("small", 4, ("code",))
    assert first.acceptance == profiles[1]
    assert second.acceptance is None  # its acceptance was assumed, so that the forecast measures its own
    assert config.replication == 8


def test_a_tree_is_run_as_it_was_measured():
    measure = MeasurePlan(drafter="tree", domains=("code",), draft_lengths=(4,), n_prompts=2, new_tokens=8)
    (profile,) = measured_profiles(measure, WitnessPlan(), quietly)
    assert profile.measurement is not None
    parents = profile.measurement.parents
    row = ROW | {"draft_length": 4, "tree_nodes": len(parents), "method": profile.method}
    (configuration,) = witness_config([row], [profile], WitnessPlan()).configurations
    assert (configuration.parents, configuration.draft_length) == (tuple(parents), None)
    assert configuration.acceptance == profile


def test_acceptance_is_measured_on_other_prompts_than_the_witness_runs():
    measure = MeasurePlan(domains=("code",), draft_lengths=(2, 3), n_prompts=3, new_tokens=8, arithmetic="fast")
    witness = WitnessPlan(n_prompts=30)
    profiles = measured_profiles(measure, witness, quietly)
    assert [profile.draft_length for profile in profiles] == [2, 3]
    assert all(profile.provenance[0].sha256 for profile in profiles)
    assert all(profile.measurement is not None and profile.measurement.n_prompts == 3 for profile in profiles)
    chosen = choose_prompts(("code",), witness.n_prompts, witness.seed)
    assert not {each.identifier for each in chosen.run} & {each.identifier for each in chosen.others}


def fake_run(slow: float) -> Any:
    """A witness on invented time, in which verify passes of the run take so much longer than those of its probes."""

    def run(config: Any, **_: Any) -> WitnessResult:
        decoder = FakeDecoder(FakeClock(), verify=lambda job, _: slow if job.kind == "speculative" else 1.0)
        return fake_witness(decoder, config)

    return run


@pytest.mark.parametrize(("slow", "verdict"), [(1.0, "pass"), (2.0, "fail")])
def test_verdicts_decide_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float, verdict: str):
    monkeypatch.setattr(witness_module, "run_witness", fake_run(slow))
    run = run_plan(native_plan(n_prompts=4), tmp_path)
    outcomes = run.document["witness"]["configurations"]
    assert [each["verdict"] for each in outcomes] == [verdict] * len(run.document["handed_on"])
    assert run.verdict == verdict
    gate = run.gates["5-witness"]
    assert (gate.left, gate.entered - gate.left) == ((len(outcomes), 0) if verdict == "pass" else (0, len(outcomes)))
    assert dict(gate.dropped) == ({} if verdict == "pass" else {"failed the witness": len(outcomes)})
    receipt = read_receipt(tmp_path / "5-witness" / "receipt.json")
    assert run.document["witness"]["receipt_sha256"] == receipt.receipt_sha256
    assert outcomes[0]["error"] == receipt.configurations[0].error.value


def test_the_native_engine_runs_what_is_left_and_the_receipt_names_its_inputs(tmp_path: Path):
    run = run_plan(native_plan(), tmp_path)
    assert run.gates["5-witness"].entered == len(run.document["handed_on"]) >= 1
    receipt = read_receipt(tmp_path / "5-witness" / "receipt.json")
    assert receipt.attestation.execution == "native"
    hashes = {each.sha256 for each in receipt.attestation.inputs}
    for path in [*tmp_path.glob("1-acceptance/0*.json"), *tmp_path.glob("2-hardware/0*.json")]:
        assert sha256_of(path) in hashes
    for record, row in zip(receipt.configurations, run.document["handed_on"], strict=True):
        assert f"this-machine: {record.name}" == row["name"]
        assert record.parity.n_equal_tokens == record.parity.n_tokens > 0
        assert record.forecast is not None
    before = (tmp_path / "5-witness" / "receipt.json").read_bytes()
    run_plan(replace(native_plan(), last_stage=5), tmp_path)
    assert (tmp_path / "5-witness" / "receipt.json").read_bytes() == before
    assert json.loads((tmp_path / "5-witness" / "witness.json").read_text())
