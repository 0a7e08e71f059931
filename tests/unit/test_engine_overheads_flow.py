"""``--engine-overheads`` from the option to every number and sentence: projections, sweeps, funnels and simulations."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.profile import profile_from_counts
from specbook.display.explorer import Explorer, example_explorer
from specbook.funnel import example_funnel, run_funnel, summary
from specbook.funnel_config import FunnelConfig
from specbook.funnel_notes import funnel_notes
from specbook.hardware.profile import catalogue_device
from specbook.roofline.engine_overheads import EngineOverheads, engine_names, engine_overheads
from specbook.roofline.hosted import EngineStep
from specbook.roofline.model_spec import model
from specbook.serving.draft_time import SteppedDraft
from specbook.serving.stepped_time import SteppedTime
from specbook.serving_setup import DraftEvidence, EngineLimits, drafts_from, setup_from_models
from specbook.stage_folder import read_manifest
from specbook.stages.example import example_plan
from specbook.stages.plan import FunnelPlan
from specbook.stages.run import run_plan
from tests.funnel_cases import contents

SGLANG, LLAMA_CPP = engine_overheads("sglang"), engine_overheads("llama.cpp")
EVIDENCE = ("--acceptance", "spec-bench-sps-vicuna-7b-math", "--assume", "truncation")
MODELS = ("--target", "Vicuna-7B-v1.3", "--draft", "Llama-68M", "--hardware", "h100-sxm5")
SMALL = (*EVIDENCE, *MODELS, "--batch", "1,8", "--context", "512")
ENGINE = ("--engine-overheads", "sglang")
KEYS = ["hardware", "domain", "draft_length", "batch", "context"]


def _project(cli: Any, out: Path, *arguments: str) -> pl.DataFrame:
    outcome = cli("project", *SMALL, *arguments, "--out", out)
    assert outcome.code == 0, outcome.err
    return pl.read_parquet(out).sort(KEYS)


def _added_s(lengths: Any, engine: EngineOverheads = SGLANG) -> Any:
    return np.where(lengths > 0, engine.round_s, 0.0) + lengths * engine.draft_pass_s


def test_project_is_longer_by_exactly_the_seconds_of_the_engine(cli, tmp_path: Path):
    bare, hosted = _project(cli, tmp_path / "a.parquet"), _project(cli, tmp_path / "b.parquet", *ENGINE)
    lengths = bare["draft_length"].to_numpy()
    assert set(lengths) >= {0, 1, 4}
    np.testing.assert_allclose((hosted["round_s"] - bare["round_s"]).to_numpy(), _added_s(lengths), atol=1e-15)
    assert hosted["baseline_tpot_s"].equals(bare["baseline_tpot_s"])
    assert hosted["verify_s"].equals(bare["verify_s"])
    assert (hosted["speedup"] < bare["speedup"]).to_list() == (lengths > 0).tolist()
    assert hosted["step_time_source"].unique().to_list() == [f"fitted to published tables; {SGLANG.label}"]


def test_project_prefers_shorter_drafts_inside_an_engine(cli, tmp_path: Path):
    best = [
        _project(cli, tmp_path / f"{len(arguments)}.parquet", *arguments)
        .filter(batch=1)
        .sort("speedup", descending=True)["draft_length"][0]
        for arguments in ((), ENGINE)
    ]
    assert best[1] < best[0]


def test_project_says_whose_seconds_they_are(cli, tmp_path: Path):
    document = json.loads(cli("project", *SMALL, *ENGINE, "--out", tmp_path / "a.parquet", "--json").out)
    assert document["config"]["engine_overheads"] == SGLANG.label
    assert SGLANG.label in document["notes"][0]
    bare = json.loads(cli("project", *SMALL, "--out", tmp_path / "a.parquet", "--json").out)
    assert bare["config"]["engine_overheads"] is None
    assert "--engine-overheads adds" in bare["notes"][0]


@pytest.mark.parametrize("command", ["project", "sweep", "funnel"])
@pytest.mark.parametrize("name", ["foo", "", "\x1b[31m"])
def test_an_unknown_engine_is_refused_in_one_line(cli, tmp_path: Path, command: str, name: str):
    outcome = cli(command, *SMALL, "--engine-overheads", name, "--out", tmp_path / "a")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert "nobody fitted" in outcome.err
    assert all(each in outcome.err for each in engine_names())
    assert "\x1b" not in outcome.err
    assert not (tmp_path / "a").exists()


def test_simulate_refuses_an_unknown_engine_and_one_beside_a_file(cli, tmp_path: Path, save: Any):
    drafted = ("--conditional-acceptance", 0.8, "--draft-length", 4, "--rate", 1, "--out", tmp_path / "a")
    models = ("--hardware", "h100-sxm5", "--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
    unknown = cli("simulate", *models, *drafted, "--engine-overheads", "foo")
    assert (unknown.code, len(unknown.err.splitlines())) == (2, 1)
    assert "nobody fitted" in unknown.err
    steps = save("S.json", {"kind": "constant", "ms": 10})
    beside = cli("simulate", "--step-time", steps, "--kv-blocks", 99, *drafted, *ENGINE)
    assert (beside.code, len(beside.err.splitlines())) == (2, 1)
    assert "--engine-overheads = 'sglang': means nothing beside a step-time file" in beside.err


def test_sweep_is_the_projection_inside_the_engine(cli, tmp_path: Path):
    table = _project(cli, tmp_path / "a.parquet", *ENGINE)
    outcome = cli("sweep", *SMALL, *ENGINE, "--out", tmp_path / "s")
    assert outcome.code == 0, outcome.err
    front = pl.read_parquet(tmp_path / "s" / "front.parquet")
    assert front.height > 0
    joined = front.join(table, on=KEYS, suffix="_projected")
    assert joined.height == front.height
    assert joined["round_s"].to_list() == pytest.approx(joined["round_s_projected"].to_list(), rel=1e-12)
    assert front["step_time_source"].unique().to_list() == [f"fitted to published tables; {SGLANG.label}"]
    document = json.loads((tmp_path / "s" / "summary.json").read_text())
    assert document["config"]["engine_overheads"] == SGLANG.label
    assert any(SGLANG.label in note for note in document["notes"])


def test_sweep_in_several_processes_gives_the_same_bytes(cli, tmp_path: Path):
    for jobs in (1, 2):
        outcome = cli(
            "sweep", *SMALL, "--precision", "bf16,fp8", *ENGINE, "--jobs", jobs, "--out", tmp_path / str(jobs)
        )
        assert outcome.code == 0, outcome.err
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def _plan(overheads: EngineOverheads | None) -> FunnelPlan:
    plan = example_plan()
    return replace(plan, choices=replace(plan.choices, overheads=overheads))


def test_funnel_inside_another_engine_does_the_projection_and_the_load_again(tmp_path: Path):
    run_plan(_plan(SGLANG), tmp_path)
    seen: list[tuple[str, bool]] = []
    run_plan(_plan(SGLANG), tmp_path, report=lambda *event: seen.append(event))
    assert all(kept for _, kept in seen)
    for other in (engine_overheads("vllm"), replace(SGLANG, round_s=2e-3), None):
        seen.clear()
        run = run_plan(_plan(other), tmp_path, report=lambda *event: seen.append(event))
        assert [kept for _, kept in seen][:4] == [True, True, False, False]
        assert run.document["config"]["engine_overheads"] == (None if other is None else other.label)


def test_funnel_manifests_and_notes_name_the_engine(tmp_path: Path):
    run = run_plan(_plan(SGLANG), tmp_path)
    stated = {"engine": SGLANG.label, "draft_pass_s": SGLANG.draft_pass_s, "round_s": SGLANG.round_s}
    for name in ("3-roofline", "4-serving"):
        assert read_manifest(tmp_path / name).inputs["engine_overheads"].items() >= stated.items()
    assert any(SGLANG.label in note for note in run.document["notes"])
    assert "engine_overheads" not in read_manifest(tmp_path / "2-hardware").inputs


def test_funnel_in_several_threads_gives_the_same_bytes(tmp_path: Path):
    run_plan(_plan(SGLANG), tmp_path / "a")
    with ThreadPoolExecutor(2) as executor:
        run_plan(_plan(SGLANG), tmp_path / "b", executor=executor)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("kind", ["doctrine", "calibrated"])
def test_notes_and_summaries_speak_of_the_engine_whatever_the_step_time(kind: Any):
    config = replace(example_funnel(), step_time=kind, overheads=SGLANG)
    notes = funnel_notes(config, [])
    assert sum(SGLANG.label in note for note in notes) == 1
    assert not any(SGLANG.label in note for note in funnel_notes(replace(config, overheads=None), []))
    assert summary(run_funnel(config))["config"]["engine_overheads"] == SGLANG.label


def test_notes_on_measured_passes_say_that_some_of_it_may_be_in_them():
    config = replace(example_funnel(), step_time="measured", overheads=SGLANG)
    (note,) = (each for each in funnel_notes(config, []) if SGLANG.label in each)
    assert "hold some of it already" in note


COUNTED = profile_from_counts({4: [24, 18, 14, 11, 33]}, draft_length=4, method="draft_model")
SERVED = FunnelConfig(
    profiles=(COUNTED,),
    hardware=(catalogue_device("h100-sxm5"),),
    target=model("Llama-3.1-8B"),
    draft=model("Llama-3.2-1B"),
    batches=(256,),
    contexts=(4096,),
)


def _served(overheads: EngineOverheads | None, **changes: Any) -> tuple[SteppedTime, SteppedDraft]:
    drafts = drafts_from(DraftEvidence(profiles=(COUNTED,)))
    setup = setup_from_models(replace(SERVED, overheads=overheads, **changes), drafts, EngineLimits())
    assert isinstance(setup.config.iteration_time, SteppedTime)
    assert isinstance(setup.config.draft_time, SteppedDraft)
    return setup.config.iteration_time, setup.config.draft_time


def test_simulated_rounds_are_longer_by_exactly_the_seconds_of_the_engine():
    contexts = np.array([8 * 1000, 8 * 4000])
    (bare_iteration, bare), (iteration, hosted) = _served(None), _served(SGLANG)
    for length in (1, 4):
        added = hosted.seconds(length, length, 8, contexts) - bare.seconds(length, length, 8, contexts)
        np.testing.assert_allclose(added, _added_s(np.array(length)), rtol=1e-9)
    np.testing.assert_array_equal(
        iteration.decode_seconds(8, 40, contexts), bare_iteration.decode_seconds(8, 40, contexts)
    )
    assert hosted.prefill_seconds([(512, 0)]) == bare.prefill_seconds([(512, 0)])


def test_simulated_drafts_that_are_cut_pay_for_their_passes_and_the_round_once():
    (_, bare), (_, hosted) = _served(None), _served(SGLANG)
    reached, contexts = np.array([[8, 8, 0], [5, 0, 0], [1, 0, 0]]), np.array([8000, 8000, 8000])
    added = hosted.cut_seconds(reached, contexts, 8) - bare.cut_seconds(reached, contexts, 8)
    np.testing.assert_allclose(added, _added_s(np.array([3, 1, 0])), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("method", "n_passes"), [("eagle3", 4), ("mtp", 4), ("medusa", 1), ("ngram", 0)])
def test_simulated_methods_pay_for_the_passes_they_make(method: Any, n_passes: int):
    (_, bare), (_, hosted) = (_served(each, method=method, draft=None) for each in (None, SGLANG))
    contexts = np.array([8000])
    added = hosted.seconds(4, 4, 8, contexts) - bare.seconds(4, 4, 8, contexts)
    np.testing.assert_allclose(added, n_passes * SGLANG.draft_pass_s + SGLANG.round_s, rtol=1e-9)
    assert (hosted.prefill_step is None) == (bare.prefill_step is None)


def test_simulated_prompts_do_not_pay_for_kernels_of_few_rows():
    (bare, _), (iteration, _) = _served(None), _served(LLAMA_CPP)
    assert isinstance(iteration.step, EngineStep)
    assert iteration.mixed_seconds(0, 0, 0, [(2048, 0)]) == bare.mixed_seconds(0, 0, 0, [(2048, 0)])
    contexts = np.array([4096])
    assert iteration.decode_seconds(1, 5, contexts)[0] > 1.5 * bare.decode_seconds(1, 5, contexts)[0]
    assert iteration.decode_seconds(1, 1, contexts)[0] == pytest.approx(bare.decode_seconds(1, 1, contexts)[0])


def test_simulate_is_slower_inside_an_engine_and_says_so(cli, tmp_path: Path):
    models = ("--hardware", "h100-sxm5", "--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
    drafted = ("--conditional-acceptance", 0.8, "--draft-length", 4, "--rate", 1, "--requests", 50, "--json")
    documents = []
    for name, engine in (("a", ()), ("b", ENGINE)):
        outcome = cli("simulate", *models, *drafted, *engine, "--out", tmp_path / name)
        assert outcome.code == 0, outcome.err
        documents.append(json.loads(outcome.out))
    bare, hosted = documents
    assert hosted["tpot_s"]["mean"] > bare["tpot_s"]["mean"]
    assert hosted["parameters"]["models"]["engine_overheads"] == "sglang"
    assert bare["parameters"]["models"]["engine_overheads"] is None
    assert any(SGLANG.label in note for note in hosted["notes"])


def test_explorer_offers_the_third_eagle_and_costs_it_by_its_smaller_head():
    config = replace(example_explorer().config, target=model("Llama-3.1-8B"), methods=("eagle", "eagle3"))
    explorer = Explorer(config)
    draft_s = []
    for method in ("eagle", "eagle3"):
        explorer.controls["method"].value = method
        explorer.controls["draft_length"].value = 4
        draft_s.append(float(explorer.result().draft_s))
    assert 0.4 < draft_s[1] / draft_s[0] < 0.6
    assert dict(explorer.controls["method"].options)["EAGLE-3"] == "eagle3"
    assert "EAGLE-3 head" in explorer.readout
