"""``specbook funnel``: what it writes and prints, and what it refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from specbook.commands import funnel as funnel_module
from specbook.hardware.profile import catalogue_names
from specbook.stage_folder import alone_in
from specbook.stages import witness as witness_module
from specbook.stages.plan import STAGE_NAMES, FunnelPlan
from tests.funnel_cases import contents, native_plan
from tests.unit.test_funnel_witness import fake_run

PAIR = ("--acceptance", "model-optimizer-2247", "--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
SMALL = (*PAIR, "--hardware", "h100-sxm5", "--batch", "1,8", "--context", "512", "--requests", "60")


def _one_line(outcome: Any, *parts: str) -> None:
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert all(part in outcome.err for part in parts), outcome.err


def test_funnel_writes_its_folders_and_repeats_itself(cli, tmp_path: Path):
    for name in ("a", "b"):
        outcome = cli("funnel", *SMALL, "--out", tmp_path / name, "--json")
        assert (outcome.code, outcome.err) == (0, "")
        document = json.loads(outcome.out)
        assert document.pop("out") == str(tmp_path / name)
        assert document == json.loads((tmp_path / name / "summary.json").read_text())
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    names = {path.name for path in (tmp_path / "a").iterdir()} - {".lock"}
    assert names == {*STAGE_NAMES, "summary.json", "report.html"}


def test_funnel_without_hardware_takes_the_catalogue_and_prints_its_gates(cli, tmp_path: Path):
    choices = ("--batch", "1,8", "--context", "512", "--stages", "3")
    outcome = cli("funnel", *PAIR, *choices, "--out", tmp_path / "a")
    assert outcome.code == 0
    assert all(line.startswith("specbook: note: ") for line in outcome.err.splitlines())
    assert "3 roofline, configurations" in outcome.out
    assert f"wrote {tmp_path / 'a'}" in outcome.out
    config = json.loads((tmp_path / "a" / "summary.json").read_text())["config"]
    assert config["hardware"] == catalogue_names()


@pytest.mark.parametrize("columns", ["80", "200"])
def test_funnel_prints_what_was_handed_on_and_why_it_is_not_witnessed(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setenv("COLUMNS", columns)
    outcome = cli("funnel", *SMALL, "--out", tmp_path / "a")
    assert outcome.code == 0
    assert "1 configuration is left after the load" in outcome.out
    assert (
        "not witnessed: not of the native engine, so it stays a projection; run it with its own engine" in outcome.out
    )
    assert "h100-sxm5: no speculation" in outcome.out
    if columns == "80":
        assert max(len(line) for line in outcome.out.splitlines() if "│" in line or "──" in line) <= 80


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((), ("--acceptance: no evidence of acceptance", "--measure")),
        (("--acceptance", "model-optimizer-2247"), ("--target: no target is named",)),
        ((*PAIR, "--measure"), ("--acceptance", "means nothing beside --measure")),
        ((*PAIR, "--hardware", "h9"), ("--hardware = 'h9'", "no such device")),
        ((*PAIR, "--hardware", "l4", "--hardware", "l4"), ("named twice",)),
        ((*PAIR, "--hardware", "l4", "--probe-seconds", "20"), ("--hardware", "means nothing beside --probe-seconds")),
        ((*PAIR, "--probe-seconds", "1"), ("--probe-seconds = 1.0", "give 5 to 3600")),
        (("--measure", "--target", "Llama-3.1-8B"), ("is no model of the native engine",)),
        (("--measure", "--domains", "code,law"), ("--domains = 'law'", "no such domain")),
        (("--measure", "--drafter", "big"), ("drafter must be one of",)),
        (("--measure", "--draft-lengths", "0"), ("--draft-lengths = '0'",)),
        (("--measure", "--witness-tokens", "5"), ("--witness-tokens = 5", "take more than 9")),
        ((*PAIR, "--mean-batch", "0"), ("--mean-batch = 0.0",)),
        ((*PAIR, "--mean-batch", "4", "--rate", "2"), ("--rate = 2.0", "as --mean-batch does")),
        ((*PAIR, "--arrivals", "closed"), ("--arrivals = 'closed'", "is no load for a funnel")),
        ((*PAIR, "--trace", "none.csv"), ("none.csv",)),
        ((*PAIR, "--slo-tpot", "0"), ("--slo-tpot = 0.0",)),
        ((*PAIR, "--quick"), ("--acceptance", "means nothing beside --quick")),
        (("--quick", "--seed", "1"), ("--seed = 1", "means nothing beside --quick")),
        ((*PAIR, "--jobs", "2", "--cluster", "tcp://127.0.0.1:1"), ("means nothing beside --cluster",)),
        (("--acceptance", "nobody", "--target", "Llama-3.1-8B"), ("'nobody': no such profile in the library",)),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    cli, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]
):
    _one_line(cli("funnel", *arguments, "--out", tmp_path / "a"), *parts)
    assert not (tmp_path / "a").exists()


def test_evidence_that_speaks_for_no_draft_is_refused_before_anything_runs(cli, tmp_path: Path):
    arguments = ("--acceptance", "spec-bench-sps-vicuna-7b-qa", "--target", "Vicuna-7B-v1.3", "--draft", "Llama-68M")
    _one_line(cli("funnel", *arguments, "--out", tmp_path / "a"), "--assume truncation")
    assert not (tmp_path / "a").exists()


def test_a_folder_in_use_edited_or_of_another_version_is_one_line(cli, tmp_path: Path):
    out = tmp_path / "a"
    arguments = ("funnel", *SMALL, "--stages", "2", "--out", out)
    assert cli(*arguments, "--json").code == 0
    with alone_in(out):
        _one_line(cli(*arguments), f"{out}: another funnel is at work in it")
    path = out / "2-hardware" / "manifest.json"
    manifest = path.read_text()
    path.write_text(manifest.replace('"specbook_version": "', '"specbook_version": "9'))
    _one_line(cli(*arguments), "2-hardware: was made by specbook 9", "choose another --out")
    path.write_text(manifest)
    (device,) = (out / "2-hardware").glob("01-*.json")
    device.write_text(device.read_text() + " ")
    _one_line(cli(*arguments), "was edited since its stage made it")


@pytest.mark.parametrize(
    ("options", "weight_format", "arithmetic"),
    [
        (("--measure", "--probe-seconds", "5"), "fp32", "fast"),
        (("--measure", "--probe-seconds", "5", "--backend", "exact"), "fp32", "exact"),
        (
            (*PAIR[:2], "--target", "Specbook-Target-R8", "--draft", "specbook-draft", "--hardware", "l4"),
            "fp32",
            "fast",
        ),
        (SMALL, "bf16", "fast"),
    ],
)
def test_the_witness_runs_the_arithmetic_and_format_that_are_projected(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], weight_format: str, arithmetic: str
):
    plans: list[FunnelPlan] = []

    def taken(plan: FunnelPlan, *_: Any) -> None:
        plans.append(plan)
        raise typer.Exit(0)

    monkeypatch.setattr(funnel_module, "_run", taken)
    assert cli("funnel", *options, "--out", tmp_path / "a").code == 0
    (plan,) = plans
    assert (plan.choices.precision, plan.choices.draft_precision) == (weight_format, weight_format)
    assert plan.witness.arithmetic == arithmetic


def test_out_that_is_a_file_is_one_line(cli, tmp_path: Path):
    (tmp_path / "file").write_text("")
    _one_line(cli("funnel", *SMALL, "--out", tmp_path / "file"), "is a file")


def test_measured_passes_that_do_not_reach_the_load_are_a_reason_and_no_error(cli, tmp_path: Path):
    arguments = ("--acceptance", "vllm-48892-mtp-k8", "--assume", "truncation", "--max-draft-length", "8")
    place = ("--hardware", "epyc-zen4-2core", "--target", "specbook-target-r8", "--step-time", "measured")
    more = ("--method", "ngram", "--backend", "specbook exact", "--batch", "1,4,16", "--context", "512,4096")
    outcome = cli("funnel", *arguments, *place, *more, "--requests", "40", "--out", tmp_path / "a", "--json")
    assert outcome.code == 0
    gate = json.loads(outcome.out)["gates"][3]
    assert gate["left"] == 0
    assert all(reason.startswith("cannot be simulated: ") for reason in gate["dropped"])


@pytest.mark.parametrize(("slow", "code"), [(1.0, 0), (2.0, 1)])
def test_the_exit_code_says_whether_the_witness_failed(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float, code: int
):
    monkeypatch.setattr(witness_module, "run_witness", fake_run(slow))
    monkeypatch.setattr(funnel_module, "quick_plan", native_plan)
    outcome = cli("funnel", "--quick", "--out", tmp_path / "a")
    assert outcome.code == code
    assert ("failed the witness" in outcome.out) == bool(code)
    assert "witness, P90 TPOT" in outcome.out
    report = (tmp_path / "a" / "report.html").read_text()
    assert "What the clock said" in report


def test_without_charts_the_report_is_left_out_and_said_so(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "specbook.display.funnel_report", None)
    outcome = cli("funnel", *SMALL, "--stages", "1", "--out", tmp_path / "a", "--json")
    assert outcome.code == 0
    assert "no report.html is written" in outcome.err
    assert not (tmp_path / "a" / "report.html").exists()
