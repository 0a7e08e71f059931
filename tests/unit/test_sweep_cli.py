"""``specbook sweep``, and the choices of step time and method that it shares with ``project``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from specbook.acceptance.profile import write_profile
from specbook.measuring.traces import book_profile
from specbook.roofline.grid import COLUMNS
from specbook.roofline.roles import ROLES

EVIDENCE = ("--acceptance", "spec-bench-sps-vicuna-7b-math")
MODELS = ("--target", "Vicuna-7B-v1.3", "--draft", "Llama-68M")
SMALL = ("--batch", "1,4,16", "--context", "512,2048", "--assume", "truncation")


def _sweep(out: Path, *arguments: object) -> tuple[object, ...]:
    return ("sweep", *EVIDENCE, *MODELS, *SMALL, "--out", out, *arguments)


def test_sweep_writes_its_folder(cli, tmp_path: Path):
    outcome = cli(*_sweep(tmp_path / "s", "--hardware", "h100-sxm5", "--hardware", "l4"))
    assert outcome.code == 0
    names = sorted(path.name for path in (tmp_path / "s").iterdir())
    assert names == ["break_even.parquet", "front.parquet", "paying_context.parquet", "summary.json", "top.parquet"]
    assert pl.read_parquet(tmp_path / "s" / "front.parquet").columns == list(COLUMNS)
    assert all(role in outcome.out for role in ROLES)
    assert "step times are calibrated" in outcome.err


def test_sweep_json_is_the_summary(cli, tmp_path: Path):
    outcome = cli(*_sweep(tmp_path / "s", "--hardware", "l4", "--precision", "bf16,int4", "--json"))
    document = json.loads(outcome.out)
    written = json.loads((tmp_path / "s" / "summary.json").read_text(encoding="utf-8"))
    assert document == {**written, "out": str(tmp_path / "s")}
    assert document["n_configurations"] == 2 * 11 * 3 * 2
    assert {row["precision"] for row in document["top"]} == {"bf16", "int4"}
    assert all(row["speedup_low"] <= row["speedup"] <= row["speedup_high"] for row in document["top"])


def test_sweep_of_the_whole_catalogue_prints_one_context_of_roles(cli, tmp_path: Path):
    outcome = cli(*_sweep(tmp_path / "s"))
    assert outcome.code == 0
    roles = outcome.out[: outcome.out.index("where some draft pays")]
    assert "2,048" not in roles.replace("512", "")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--target", "Vicuna-7B-v1.3"), ("Vicuna-7B-v1.3 bf16", "swept twice")),
        (("--precision", "bf16,fp3"), ("precision = 'fp3'",)),
        (("--batch", "0"), ("--batch", "whole numbers")),
        (("--step-time", "measured"), ("no measured passes", "l4")),
        (("--backend", "fast"), ("backend = 'fast'", "no such calibration", "none")),
    ],
)
def test_sweep_bad_input_is_one_line(cli, tmp_path: Path, arguments: tuple[str, ...], parts: tuple[str, ...]):
    outcome = cli(*_sweep(tmp_path / "s", "--hardware", "l4", *arguments))
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert all(part in outcome.err for part in parts)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("name", "kind"), [("doctrine", "doctrine"), ("calibrated", "calibrated")])
def test_project_step_time_is_repeated_by_every_row(cli, tmp_path: Path, name: str, kind: str):
    out = tmp_path / "t.parquet"
    arguments = ("project", *EVIDENCE, *MODELS, *SMALL, "--hardware", "l4", "--step-time", name, "--out", out)
    assert cli(*arguments).code == 0
    table = pl.read_parquet(out)
    assert table["step_time_kind"].unique().to_list() == [kind]
    source = {"doctrine": "ideal bound", "calibrated": "assumed: overheads of five data-centre GPUs"}[kind]
    assert table["step_time_source"].unique().to_list() == [source]


def test_project_calibrated_gains_less_than_the_ideal(cli, tmp_path: Path):
    gains = {}
    for name in ("doctrine", "calibrated"):
        out = tmp_path / f"{name}.parquet"
        arguments = ("project", "--acceptance", "spec-bench-sps-vicuna-7b-math", "--target", "Llama-3.1-8B")
        models = ("--draft", "Llama-3.2-1B", "--hardware", "h100-sxm5", "--batch", "1", "--context", "512")
        outcome = cli(*arguments, *models, "--step-time", name, "--out", out, "--assume", "truncation")
        if outcome.code:
            pytest.fail(outcome.err)
        gains[name] = pl.read_parquet(out)["speedup"].max()
    assert gains["calibrated"] < gains["doctrine"]


def test_project_without_a_draft_model_costs_what_the_evidence_measured(cli, tmp_path: Path):
    out = tmp_path / "t.parquet"
    arguments = ("project", "--acceptance", "vllm-48892-mtp-k8", "--target", "Llama-3.1-8B", "--hardware", "h100-sxm5")
    assert cli(*arguments, "--out", out).code == 0
    table = pl.read_parquet(out)
    assert table["drafter"].unique().to_list() == ["mtp"]
    assert cli(*arguments, "--method", "draft_model", "--out", out).code == 2


def test_project_shared_by_devices_is_faster(cli, tmp_path: Path):
    out, times = tmp_path / "t.parquet", []
    for devices in ("1", "4"):
        arguments = ("project", *EVIDENCE, *MODELS, *SMALL, "--hardware", "h100-sxm5", "--tensor-parallel", devices)
        assert cli(*arguments, "--out", out).code == 0
        table = pl.read_parquet(out)
        assert table["n_devices"].unique().to_list() == [int(devices)]
        times.append(table["baseline_tpot_s"].min())
    assert times[1] < times[0]


def test_sweep_says_where_nothing_fits(cli, tmp_path: Path):
    devices = ("--hardware", "l4", "--hardware", "h100-sxm5")
    large = ("sweep", *EVIDENCE, *SMALL, *devices, "--target", "Llama-3.1-70B", "--draft", "Llama-68M")
    outcome = cli(*large, "--precision", "bf16,fp8", "--out", tmp_path / "s")
    assert outcome.code == 0
    assert "Llama-3.1-70B bf16: nothing of this grid fits in the memory of l4, h100-sxm5" in outcome.out
    assert "Llama-3.1-70B fp8: nothing of this grid fits in the memory of l4\n" in outcome.out
    assert "nothing of this grid" not in cli(*_sweep(tmp_path / "t", *devices)).out


MEASURED = (
    "--max-draft-length",
    "8",
    "--hardware",
    "epyc-zen4-2core",
    "--target",
    "specbook-target-r8",
    "--step-time",
    "measured",
)


@pytest.mark.parametrize("command", ["project", "funnel", "sweep"])
def test_measured_passes_are_projected_where_they_were_measured(cli, tmp_path: Path, command: str):
    out = tmp_path / "t"
    places = ("--method", "ngram", "--backend", "specbook exact", "--batch", "1,4,16", "--context", "512,4096")
    outcome = cli(command, *EVIDENCE, "--assume", "truncation", *MEASURED, *places, "--out", out)
    assert outcome.code == 0
    table = pl.read_parquet(
        {"project": out, "sweep": out / "front.parquet", "funnel": out / "3-roofline" / "ranking.parquet"}[command]
    )
    assert table["step_time_source"].unique().to_list() == ["measured passes"]
    assert table.height > 1
    assert table["regime"].null_count() == table.height


@pytest.mark.parametrize("command", ["project", "sweep"])
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--backend", "specbook exact", "--batch", "1,64"), "batch must lie in [1, 16]"),
        (("--backend", "specbook exact", "--context", "100"), "context must lie in [512, 16384]"),
        (("--backend", "specbook exact", "--method", "lookahead"), "width must lie in [1, 9]"),
        ((), "name one with --backend"),
    ],
)
def test_measured_passes_refuse_the_rest_in_one_line(
    cli, tmp_path: Path, command: str, arguments: tuple[str, ...], part: str
):
    out, place = tmp_path / "t", ("--method", "ngram", "--batch", "1", "--context", "512")
    outcome = cli(command, *EVIDENCE, "--assume", "truncation", *MEASURED, *place, *arguments, "--out", out)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert part in outcome.err
    assert not out.exists()


@pytest.fixture(scope="module")
def measured_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of the shipped pair with trees, as ``specbook profile measure --tree`` writes it."""
    path = tmp_path_factory.mktemp("tree") / "tree.json"
    write_profile(book_profile("small", "tree 3,2,1,1", "code", 0.0), path)
    return path


@pytest.fixture(scope="module")
def measured_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.json"
    write_profile(book_profile("small", "chain 4", "code", 0.0), path)
    return path


PROBED = ("--hardware", "epyc-zen4-2core", "--target", "specbook-target-r8", "--draft", "specbook-draft")
FLOATS = ("--precision", "fp32", "--draft-precision", "fp32")


def test_sweep_takes_chain_and_tree_of_one_drafter(cli, tmp_path: Path, measured_tree: Path, measured_chain: Path):
    evidence = ("--acceptance", measured_tree, "--acceptance", measured_chain)
    outcome = cli("sweep", *evidence, *PROBED, *FLOATS, "--batch", "1,4", "--context", "512", "--out", tmp_path / "s")
    assert outcome.code == 0, outcome.err
    front = pl.read_parquet(tmp_path / "s" / "front.parquet")
    assert front["step_time_source"].unique().to_list() == ["fitted to a probe"]


def test_project_trees_by_measured_passes_as_far_as_the_table_reaches(cli, tmp_path: Path, measured_tree: Path):
    out = tmp_path / "t.parquet"
    measured = ("--step-time", "measured", "--backend", "specbook fast", "--batch", "1,4", "--context", "512")
    arguments = ("project", "--acceptance", measured_tree, *PROBED, *FLOATS, *measured, "--out", out)
    refused = cli(*arguments)
    assert refused.code == 2
    assert "--tree-nodes" in refused.err
    outcome = cli(*arguments, "--tree-nodes", "1,2,4,8")
    assert outcome.code == 0, outcome.err
    assert pl.read_parquet(out)["step_time_kind"].unique().to_list() == ["measured"]


def test_project_measured_looks_at_no_batch_that_was_not_asked_for(cli, tmp_path: Path, measured_chain: Path):
    out = tmp_path / "t.parquet"
    measured = ("--step-time", "measured", "--backend", "specbook exact", "--batch", "4,16", "--context", "4096")
    models = ("--hardware", "epyc-zen4-2core", "--target", "specbook-target-r8", "--method", "ngram")
    outcome = cli("project", "--acceptance", measured_chain, *models, *FLOATS, *measured, "--out", out)
    assert outcome.code == 0, outcome.err
    shared = cli("project", "--acceptance", measured_chain, *models, *measured, "--tensor-parallel", "2", "--out", out)
    assert shared.code == 2
    assert "measured passes are of one device" in shared.err


def test_project_takes_step_times_that_others_measured(cli, tmp_path: Path):
    table = tmp_path / "steps.csv"
    cells = [(batch, 512, width, 0.01 + 0.001 * width) for batch in (1, 4) for width in (1, 5, 17)]
    table.write_text("batch,context,width,seconds\n" + "".join(f"{b},{c},{w},{s}\n" for b, c, w, s in cells))
    imported = ("steps", "import", table, "--model", "Vicuna-7B-v1.3", "--out", tmp_path / "steps.json")
    assert cli(*imported).code == 0
    asked = ("project", *EVIDENCE, "--target", "Vicuna-7B-v1.3", "--method", "ngram", "--assume", "truncation")
    where = ("--hardware", "l4", "--batch", "1,4", "--context", "512", "--step-time", "measured")
    outcome = cli(*asked, *where, "--steps", tmp_path / "steps.json", "--out", tmp_path / "t.parquet")
    assert outcome.code == 0, outcome.err
    rows = pl.read_parquet(tmp_path / "t.parquet")
    assert rows.filter(draft_length=4)["verify_s"].to_list() == pytest.approx([0.015, 0.015])
    two = cli("sweep", *EVIDENCE, *MODELS, *SMALL, "--steps", tmp_path / "steps.json", "--out", tmp_path / "s")
    assert two.code == 2
    assert "are of one device" in two.err
