"""All stages of a funnel: what passes each gate, resumed after a kill at any point, and refused where it must be."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_accepted, profile_from_counts
from specbook.checks import BadInput
from specbook.hardware.profile import catalogue_device
from specbook.roofline.model_spec import model
from specbook.serving.slo import Slo
from specbook.serving.workload import Workload
from specbook.stage_folder import alone_in, read_manifest
from specbook.stages.acceptance import measured_profiles, read_profiles
from specbook.stages.device_run import DeviceTask, run_device
from specbook.stages.example import example_plan
from specbook.stages.hardware import UNCALIBRATED
from specbook.stages.load import FunnelLoad
from specbook.stages.plan import MOST_HANDED_ON, STAGE_NAMES, FunnelPlan, MeasurePlan, ProbePlan, quietly
from specbook.stages.run import FunnelRun, read_run, run_plan
from specbook.stages.serving import read_comparison, read_handed_on
from tests.funnel_cases import contents, native_plan, probed_here

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> FunnelRun:
    """The example, run once."""
    return run_plan(example_plan(), tmp_path_factory.mktemp("funnel"))


def _with(plan: FunnelPlan, **choices: Any) -> FunnelPlan:
    return replace(plan, choices=replace(plan.choices, **choices))


def test_every_stage_has_a_folder_whose_files_its_manifest_names(whole: FunnelRun):
    assert tuple(whole.gates) == STAGE_NAMES
    for name, gate in whole.gates.items():
        manifest = read_manifest(whole.folder / name)
        assert manifest.gate == gate
        files = {path.name for path in (whole.folder / name).iterdir()} - {"manifest.json"}
        assert set(manifest.files) == files
    tops = {path.name for path in whole.folder.iterdir()} - {".lock"}
    assert tops == {*STAGE_NAMES, "summary.json"}


def test_summary_says_what_the_stages_say(whole: FunnelRun):
    document = json.loads((whole.folder / "summary.json").read_text(), parse_constant=pytest.fail)
    assert document == whole.document == read_run(whole.folder).document
    assert read_run(whole.folder).gates == whole.gates
    assert [gate["stage"] for gate in document["gates"]] == [name[2:] for name in STAGE_NAMES]
    assert [gate["of"] for gate in document["gates"]][:3] == ["profiles", "devices", "configurations"]
    assert document["config"]["hardware"] == ["mi300x", "l4"]
    assert document["schema"] == "specbook-funnel/1"
    ranking = pl.read_parquet(whole.folder / "3-roofline" / "ranking.parquet")
    assert len(document["best"]) == ranking.filter(pl.col("rank") == 1).height
    (row,) = document["handed_on"]
    served = read_comparison(whole.folder).filter(name=row["name"]).row(0, named=True)
    assert row["tail_gain"] == served["tail_gain"] == row["tpot_p90_s_without"] / row["tpot_p90_s"]


def test_a_device_that_cannot_hold_the_target_is_dropped_by_name(whole: FunnelRun):
    assert whole.gates["2-hardware"].dropped == {"cannot hold the target and one sequence": 1}
    dropped = json.loads((whole.folder / "2-hardware" / "dropped.json").read_text())
    assert [each["device"] for each in dropped] == ["l4"]


def test_a_machine_that_was_probed_too_briefly_is_dropped_and_no_error(tmp_path: Path):
    hasty = probed_here().model_copy(update={"calibrations": {}})
    plan = native_plan()
    for backend in ("fast", None):
        run = run_plan(replace(_with(plan, hardware=(hasty,), backend=backend), last_stage=4), tmp_path)
        assert dict(run.gates["2-hardware"].dropped) == {UNCALIBRATED: 1}
        assert run.gates["4-serving"].entered == 0


def test_what_the_native_engine_cannot_run_is_neither_passed_nor_lost(whole: FunnelRun):
    gate = whole.gates["5-witness"]
    reason = "not witnessed: not of the native engine, so it stays a projection"
    assert (gate.entered, gate.left, dict(gate.dropped)) == (1, 0, {reason: 1})
    (outcome,) = whole.document["witness"]["configurations"]
    assert outcome["verdict"] == "not witnessed"
    assert "--baseline" in outcome["remedy"]
    assert whole.verdict is None
    assert not (whole.folder / "5-witness" / "receipt.json").exists()


def test_a_second_run_keeps_everything_and_changes_no_byte(whole: FunnelRun):
    before, seen = contents(whole.folder), []
    run_plan(example_plan(), whole.folder, report=lambda *event: seen.append(event))
    assert seen == [(name, True) for name in STAGE_NAMES]
    assert contents(whole.folder) == before


def test_an_executor_gives_the_same_bytes(whole: FunnelRun, tmp_path: Path):
    with ThreadPoolExecutor(2) as executor:
        run_plan(example_plan(), tmp_path, executor=executor)
    assert contents(tmp_path) == contents(whole.folder)


def test_other_objectives_run_the_load_again_and_keep_what_was_measured(whole: FunnelRun, tmp_path: Path):
    run_plan(example_plan(), tmp_path)
    seen: list[tuple[str, bool]] = []
    strict = replace(example_plan(), slo=Slo(tpot_s=1e-4))
    run = run_plan(strict, tmp_path, report=lambda *event: seen.append(event))
    assert [kept for _, kept in seen] == [True, True, True, False, False]
    assert dict(run.gates["4-serving"].dropped) == {"misses an objective": 1}
    assert run.document["handed_on"] == []
    assert run.gates["5-witness"].entered == 0
    assert contents(tmp_path)["3-roofline/ranking.parquet"] == contents(whole.folder)["3-roofline/ranking.parquet"]


def test_other_evidence_does_not_probe_the_devices_again(tmp_path: Path):
    plan = replace(example_plan(), last_stage=3)
    run_plan(plan, tmp_path)
    seen: list[tuple[str, bool]] = []
    other = profile_from_counts({2: [2, 4, 4]}, draft_length=2, method="draft_model", domain="code")
    run_plan(_with(plan, profiles=(other,)), tmp_path, report=lambda *event: seen.append(event))
    assert [kept for _, kept in seen] == [False, True, False]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_first_stages_alone_say_so_far_as_they_came(tmp_path: Path, last: int):
    run = run_plan(replace(example_plan(), last_stage=last), tmp_path)
    assert tuple(run.gates) == STAGE_NAMES[:last]
    assert bool(run.document["best"]) == (last == 3)
    assert (run.document["handed_on"], run.document["witness"]) == ([], None)


def test_unusable_evidence_is_dropped_with_its_reason_and_the_rest_goes_on(tmp_path: Path):
    plan = example_plan()
    mixed = (*plan.choices.profiles, profile_from_accepted([1, 1]))
    run = run_plan(replace(_with(plan, profiles=mixed), last_stage=3), tmp_path)
    assert (run.gates["1-acceptance"].entered, run.gates["1-acceptance"].left) == (2, 1)
    (dropped,) = json.loads((tmp_path / "1-acceptance" / "dropped.json").read_text())
    assert "--assume truncation" in dropped["remedy"]


def test_a_method_costs_under_load_what_it_costs_without_other_evidence(tmp_path: Path):
    drafted, eagle = (
        profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method=method, domain="code")
        for method in ("draft_model", "eagle")
    )
    both = replace(_with(example_plan(), profiles=(drafted, eagle)), last_stage=4)
    alone = replace(_with(example_plan(), profiles=(eagle,), draft=None), last_stage=4)
    run_plan(both, tmp_path / "both")
    run_plan(alone, tmp_path / "alone")
    columns = ("drafter", "projected_speedup", "kv_blocks", "tpot_p90_s")
    beside, own = (
        read_comparison(tmp_path / name).filter(kind="draft", method="eagle").select(columns).rows()
        for name in ("both", "alone")
    )
    assert own[0][0] == "eagle"
    assert beside == own


def test_one_request_alone_has_no_rate_and_is_no_error(tmp_path: Path):
    plan = example_plan()
    alone = Workload(arrival_s=[0.0], prompt_tokens=[100], output_tokens=[20])
    run = run_plan(replace(plan, load=FunnelLoad(workload=alone, mean_batch=None, about={})), tmp_path)
    assert [row["requests_per_s"] for row in run.document["handed_on"]] == [None]
    assert json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail) == run.document


def test_a_tree_is_simulated_as_it_was_measured_and_is_no_chain():
    plan = native_plan()
    trees = MeasurePlan(drafter="tree", domains=("code",), draft_lengths=(2, 3), n_prompts=2, new_tokens=8)
    few = measured_profiles(trees, plan.witness, quietly)
    about = {name: getattr(few[0], name) for name in ("method", "domain", "temperature")}
    about |= {"measured_target": few[0].target, "measured_drafter": few[0].drafter}
    shapes = [(2, 6), (3, 10), (3, 8), (2, None)]
    rows = [
        about | {"target": "t", "drafter": "d", "roles": "", "speedup": 1.0, "draft_length": depth, "tree_nodes": nodes}
        for depth, nodes in shapes
    ]
    task = DeviceTask(
        config=replace(plan.choices, profiles=tuple(few), contexts=(plan.load.longest_tokens,)),
        drafts=tuple(rows),
        schedules=(),
        load=plan.load,
        slo=plan.slo,
        limits=plan.limits,
        seed=0,
    )
    found = {row["name"]: row for row in run_device(task)}
    beside_a_chain = replace(task.config, profiles=(few[0].model_copy(update={"tree": None}), *few))
    tree = next(row for row in run_device(replace(task, config=beside_a_chain)) if row["tree_nodes"] == 8)
    other = "tree: only the tree that was measured can be simulated"
    assert tree["reason"] == other
    reasons = {(row["draft_length"], row["tree_nodes"]): row["reason"] for row in found.values()}
    assert (reasons.pop((3, 8)), reasons.pop((2, None))) == (other, other)
    assert set(reasons) == {(0, None), (2, 6), (3, 10)}
    assert not any("tree" in reason for reason in reasons.values())


def test_files_of_more_than_ninety_nine_profiles_keep_their_order(tmp_path: Path):
    profiles = tuple(
        profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method="eagle", domain=f"domain {number}")
        for number in range(101)
    )
    run_plan(replace(_with(example_plan(), profiles=profiles), last_stage=1), tmp_path)
    assert [profile.domain for profile in read_profiles(tmp_path)] == [profile.domain for profile in profiles]


def test_nothing_left_runs_to_the_end(tmp_path: Path):
    run = run_plan(_with(example_plan(), hardware=(catalogue_device("l4"),)), tmp_path)
    assert [gate.left for gate in run.gates.values()] == [1, 0, 0, 0, 0]
    assert (run.document["best"], run.document["handed_on"], run.verdict) == ([], [], None)


def test_at_most_three_are_handed_on_of_many(tmp_path: Path):
    profiles = tuple(library_profile(f"spec-bench-sps-vicuna-7b-{domain}") for domain in ("qa", "math"))
    plan = _with(
        example_plan(),
        profiles=profiles,
        hardware=tuple(map(catalogue_device, ("h100-sxm5", "mi300x"))),
        target=model("Vicuna-7B-v1.3"),
        draft=model("Llama-68M"),
        assume="truncation",
        max_draft_length=3,
        batches=(1, 8, 32),
        contexts=(512,),
    )
    run = run_plan(replace(plan, last_stage=4), tmp_path)
    handed_on, comparison = read_handed_on(tmp_path), read_comparison(tmp_path)
    assert len(handed_on) == MOST_HANDED_ON == run.gates["4-serving"].left
    assert comparison["name"].n_unique() == comparison.height
    assert comparison.filter("handed_on").select(pl.col("viable").all()).item()
    drafts = comparison.filter(kind="draft")
    assert run.gates["4-serving"].entered == drafts.height
    assert comparison.filter(kind="no speculation")["hardware"].to_list() == ["h100-sxm5", "mi300x"]
    roles = [row["roles"] for row in handed_on]
    assert any("single-stream latency" in text for text in roles)


# The process kills itself at the n-th time that it opens, makes, moves or removes something in the folder.
KILLED = """
import os, signal, sys
from pathlib import Path
from specbook.stages.example import example_plan
from specbook.stages.run import run_plan
folder, n_calls = sys.argv[1], int(sys.argv[2])
seen = 0
def watch(event, arguments):
    global seen
    if event in ("open", "os.rename", "os.mkdir", "shutil.rmtree", "os.remove") and folder in str(arguments[0]):
        seen += 1
        if seen == n_calls:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
run_plan(example_plan(), Path(folder), page=lambda run: "page\\n" * len(run.gates))
print(seen)
"""


def _in_a_process(folder: Path, n_calls: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, str(folder), str(n_calls)]
    return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)


def test_a_funnel_that_was_killed_anywhere_goes_on_to_the_same_bytes(tmp_path: Path):
    done = _in_a_process(tmp_path / "whole", 0)
    assert done.returncode == 0, done.stderr
    n_calls, expected = int(done.stdout), contents(tmp_path / "whole")
    for share in (0.2, 0.7, 0.97):
        folder = tmp_path / f"killed-{share}"
        assert _in_a_process(folder, round(share * n_calls)).returncode == -signal.SIGKILL
        run_plan(example_plan(), folder, page=lambda run: "page\n" * len(run.gates))
        assert contents(folder) == expected


@pytest.mark.parametrize("name", [".summary.json.abc.part", ".report.html.abc.part"])
def test_what_a_kill_left_half_written_beside_the_stages_is_gone(whole: FunnelRun, name: str):
    before = contents(whole.folder)
    (whole.folder / name).write_text("half")
    run_plan(example_plan(), whole.folder)
    assert contents(whole.folder) == before


def test_an_edited_stage_is_refused_and_nothing_is_lost(tmp_path: Path):
    run_plan(replace(example_plan(), last_stage=2), tmp_path)
    (path,) = (tmp_path / "1-acceptance").glob("01-*.json")
    path.write_text(path.read_text().replace("24", "42"))
    before = contents(tmp_path)
    with pytest.raises(BadInput, match=r"was edited since its stage made it; delete .*1-acceptance"):
        run_plan(example_plan(), tmp_path)
    assert contents(tmp_path) == before


def test_a_stage_of_another_version_is_refused(tmp_path: Path):
    run_plan(replace(example_plan(), last_stage=2), tmp_path)
    path = tmp_path / "2-hardware" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"specbook_version": "0.0.1"}))
    with pytest.raises(BadInput, match=r"2-hardware: was made by specbook 0\.0\.1, and this is "):
        run_plan(example_plan(), tmp_path)


def test_two_funnels_in_one_folder_are_refused(tmp_path: Path):
    with alone_in(tmp_path), pytest.raises(BadInput, match="another funnel is at work in it"):
        run_plan(example_plan(), tmp_path)


def test_a_summary_of_something_else_is_refused(tmp_path: Path):
    (tmp_path / "summary.json").write_text('{"schema": "specbook-sweep/1"}')
    with pytest.raises(BadInput, match="is no summary of a funnel"):
        read_run(tmp_path)


def test_a_plan_is_given_or_measures_and_never_both():
    plan = example_plan()
    with pytest.raises(ValueError, match="either profiles or a plan to measure them"):
        replace(plan, measure=MeasurePlan())
    with pytest.raises(ValueError, match="either profiles"):
        _with(plan, profiles=())
    with pytest.raises(ValueError, match="either devices or a plan to probe one"):
        replace(plan, probe=ProbePlan())
    with pytest.raises(ValueError, match=r"last_stage must lie in \[1, 5\]"):
        replace(plan, last_stage=6)
    with pytest.raises(BadInput, match=r"target = 'Llama-3\.1-70B': is no model of the native engine"):
        replace(plan, choices=replace(plan.choices, profiles=()), measure=MeasurePlan())
