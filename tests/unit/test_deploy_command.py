"""``specbook deploy``: files, JSON, one line for bad input."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from specbook import __version__
from specbook.acceptance.profile import profile_from_counts, write_profile
from specbook.deploy.deployment_file import DeploymentFile
from specbook.deploy.engines import ENGINES
from specbook.files import read_model, sha256_of
from tests.deploy_cases import DIGEST, EVIDENCE, FALLING, RISING, projected, write_projection

FIELDS = {"command", "payload", "_specbook", "out"}


@pytest.fixture
def falling(tmp_path: Path) -> Path:
    return write_projection(tmp_path / "T.parquet", projected(FALLING))


def _deploy(path: Path, engine: str, *more: object) -> tuple[object, ...]:
    return ("deploy", "--projection", path, "--engine", engine, *more)


def _document(outcome: Any) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    document: dict[str, Any] = json.loads(outcome.out)
    return document


def _refused(outcome: Any, *parts: str) -> None:
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1, outcome.err
    for part in parts:
        assert part in outcome.err


def test_json_is_one_object_that_names_what_it_was_made_from(cli, falling: Path):
    document = _document(cli(*_deploy(falling, "vllm", "--json")))
    assert set(document) == FIELDS
    about = document["_specbook"]
    digest = hashlib.sha256(falling.read_bytes()).hexdigest()
    assert about["projection"] == {"file": "T.parquet", "sha256": digest, "specbook_version": __version__}
    assert [source["sha256"] for each in about["evidence"] for source in each["provenance"]] == [DIGEST]
    assert json.loads(shlex.split(document["command"])[-1]) == document["payload"]
    assert about["draft_lengths"] == [0, 2, 4]
    assert (about["min_gain"], about["min_batches"], about["is_rehearsal"]) == (0.03, 2, False)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_told_something(cli, tmp_path: Path, engine: str):
    one = write_projection(tmp_path / "T.parquet", projected({1: {0: 9.0, 4: 5.0}}))
    document = _document(cli(*_deploy(one, engine, "--json")))
    assert "4" in " ".join([document["command"], json.dumps(document["payload"])])
    assert document["_specbook"]["schema_sources"]


def test_a_json_configuration_holds_nothing_else_and_the_record_lies_beside_it(cli, tmp_path: Path, falling: Path):
    out = tmp_path / "spec.json"
    outcome = cli(*_deploy(falling, "vllm", "--out", out))
    assert outcome.code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["num_speculative_tokens"] == 4
    record = read_model(tmp_path / "spec.json.provenance.json", DeploymentFile)
    assert record.projection.sha256 == sha256_of(falling)
    assert record.command in outcome.out
    assert outcome.out.count("wrote ") == 2


def test_yaml_carries_its_sources_as_comments(cli, tmp_path: Path, falling: Path):
    out = tmp_path / "spec.yaml"
    assert cli(*_deploy(falling, "tensorrt-llm", "--out", out)).code == 0
    text = out.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["speculative_config"]["draft_len_schedule"] == {7: 4, 15: 2, 16: 0}
    for words in (
        f"# evidence responses.jsonl: SHA-256 {DIGEST}",
        f"SHA-256 {sha256_of(falling)}",
        "# warning: ",
        "# note: ",
    ):
        assert words in text


def test_a_shell_file_is_comments_and_one_command(cli, tmp_path: Path):
    one = write_projection(tmp_path / "T.parquet", projected({1: {0: 9.0, 4: 5.0}}, method="mtp"))
    out = tmp_path / "serve.sh"
    assert cli(*_deploy(one, "llama.cpp", "--out", out)).code == 0
    lines = out.read_text(encoding="utf-8").splitlines()
    assert [line[0] for line in lines[:-1]] == ["#"] * (len(lines) - 1)
    assert shlex.split(lines[-1])[0] == "llama-server"


def test_a_file_that_the_command_names_is_shown_where_it_is_not_written(cli, falling: Path, tmp_path: Path):
    shown = cli(*_deploy(falling, "sglang")).out
    start = shown.index("where adaptive_steps.json holds\n")
    held = shown[start:].split("\n", 1)[1].split("projection ", 1)[0]
    assert json.loads(held) == _document(cli(*_deploy(falling, "sglang", "--json")))["payload"]
    out = tmp_path / "steps.json"
    assert f"--speculative-adaptive-config {out}" in cli(*_deploy(falling, "sglang", "--out", out)).out


def test_the_same_projection_gives_the_same_bytes(cli, tmp_path: Path, falling: Path):
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for out in files:
        assert cli(*_deploy(falling, "vllm", "--out", out)).code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_warnings_go_to_standard_error_and_into_the_record(cli, tmp_path: Path):
    scalar = json.dumps([EVIDENCE | {"evidence": "mean_length"}])
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), evidence=scalar)
    outcome = cli(*_deploy(path, "vllm", "--json"))
    assert "specbook: warning: the evidence is a scalar, a mean acceptance length" in outcome.err
    assert any("is a scalar" in each for each in _document(outcome)["_specbook"]["warnings"])


def test_a_rehearsal_says_that_its_text_is_noise(cli, falling: Path):
    outcome = cli(*_deploy(falling, "vllm", "--rehearsal", "--json"))
    document = _document(outcome)
    assert document["payload"]["synthetic_acceptance_rates"] == [0.8, 0.6, 0.45, 0.35]
    assert document["_specbook"]["is_rehearsal"]
    assert "never serve it" in document["_specbook"]["engine_notes"][0]


def test_contexts_become_rows_of_five(cli, tmp_path: Path):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), projected(RISING, context=8192))
    rows = _document(cli(*_deploy(path, "vllm", "--by-context", "--json")))["payload"][
        "num_speculative_tokens_per_batch_size"
    ]
    assert {len(row) for row in rows} == {5}
    one = _document(cli(*_deploy(path, "vllm", "--context", 512, "--json")))["payload"]
    assert one["num_speculative_tokens_per_batch_size"] == [[1, 7, 4], [8, 15, 2], [16, 16, 0]]


def test_names_for_the_engine_can_be_given(cli, falling: Path):
    document = _document(cli(*_deploy(falling, "vllm", "--target", "org/big", "--draft", "org/small", "--json")))
    assert document["payload"]["model"] == "org/small"
    assert shlex.split(document["command"])[2] == "org/big"


def test_hysteresis_can_be_asked_for(cli, tmp_path: Path):
    times = {1: {0: 9.0, 2: 5.0, 4: 4.6}, 8: {0: 9.0, 2: 5.0, 4: 5.5}, 16: {0: 9.0, 2: 9.5, 4: 12.0}}
    path = write_projection(tmp_path / "T.parquet", projected(times))
    spans = [
        [(each["first_batch"], each["draft_length"]) for each in schedule["ranges"]]
        for more in ((), ("--min-gain", 0.2), ("--min-batches", 8))
        for schedule in _document(cli(*_deploy(path, "vllm", *more, "--json")))["_specbook"]["schedules"]
    ]
    assert spans == [[(1, 4), (8, 2), (16, 0)], [(1, 4), (16, 0)], [(1, 2), (16, 0)]]


# From a profile to a server


def test_a_real_projection_is_deployed_with_the_hash_of_its_evidence(cli, tmp_path: Path):
    profile = profile_from_counts({4: [240, 180, 140, 110, 330]}, draft_length=4, method="draft_model", target="org/T")
    write_profile(profile, tmp_path / "p.json")
    models = ("--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
    out = tmp_path / "T.parquet"
    batches = ("--batch", "1,4,16,64,256", "--context", 512)
    assert (
        cli("project", "--acceptance", tmp_path / "p.json", "--hardware", "l4", *models, *batches, "--out", out).code
        == 0
    )
    document = _document(cli(*_deploy(out, "vllm", "--rehearsal", "--json")))
    assert document["payload"]["model"] == "Llama-3.2-1B"
    assert document["payload"]["synthetic_acceptance_rates"] == [0.76, 0.58, 0.44, 0.33]
    assert document["_specbook"]["place"]["hardware"] == "l4"
    best = pl.read_parquet(out).filter((pl.col("rank") == 1) & (pl.col("batch") == 1))["draft_length"][0]
    assert document["_specbook"]["schedules"][0]["ranges"][0]["draft_length"] == best


def test_a_simulation_is_named_and_its_objections_are_repeated(
    cli, falling: Path, tmp_path: Path, save: Callable[..., Path]
):
    steps = save("S.json", {"kind": "constant", "ms": 10})
    load = ("--rate", 5, "--requests", 50, "--conditional-acceptance", 0.8, "--draft-length", 3)
    out = tmp_path / "sim"
    run = cli("simulate", "--step-time", steps, "--kv-blocks", 5000, *load, "--out", out)
    assert run.code == 0, run.err
    document = _document(cli(*_deploy(falling, "vllm", "--simulation", out / "summary.json", "--json")))
    simulation = document["_specbook"]["simulation"]
    assert simulation["sha256"] == sha256_of(out / "summary.json")
    assert simulation["draft_lengths"] == [3]
    assert "the simulation drafted 3, and the deployment 0, 2, 4" in document["_specbook"]["warnings"]


# One line


def test_an_unknown_engine(cli, falling: Path):
    _refused(cli(*_deploy(falling, "tgi")), "--engine = 'tgi'", "one of vllm, sglang")


def test_a_projection_that_is_not_there(cli, tmp_path: Path):
    _refused(cli(*_deploy(tmp_path / "none.parquet", "vllm")), "none.parquet", "no such file")


def test_two_devices_ask_for_one(cli, tmp_path: Path):
    path = write_projection(tmp_path / "T.parquet", projected(FALLING), projected(FALLING, hardware="l4"))
    _refused(cli(*_deploy(path, "vllm")), "hardware: holds several: h100-sxm5, l4", "name one with --hardware")
    assert cli(*_deploy(path, "vllm", "--hardware", "l4")).code == 0


def test_out_is_not_the_projection(cli, falling: Path):
    before = falling.read_bytes()
    _refused(cli(*_deploy(falling, "vllm", "--out", falling)), "--out", "is a file to read")
    assert falling.read_bytes() == before


@pytest.mark.parametrize(
    ("folder", "out"),
    [("folder", "folder"), ("folder", "."), ("folder", ".."), ("spec.json.provenance.json", "spec.json")],
)
def test_out_that_cannot_be_written_leaves_nothing(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, falling: Path, folder: str, out: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir()
    _refused(cli(*_deploy(falling, "vllm", "--out", out)), "is a directory", "name the file inside it")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["T.parquet", folder]


def test_the_record_goes_over_nothing_that_is_read(cli, tmp_path: Path):
    path = write_projection(tmp_path / "spec.json.provenance.json", projected(FALLING))
    _refused(cli(*_deploy(path, "vllm", "--out", tmp_path / "spec.json")), "--out", "is a file to read")
    assert not (tmp_path / "spec.json").exists()


def test_an_edited_projection_writes_nothing(cli, tmp_path: Path):
    edited = projected(FALLING).with_columns(pl.col("tpot_s") * 0.5)
    path, out = write_projection(tmp_path / "T.parquet", edited), tmp_path / "spec.json"
    _refused(cli(*_deploy(path, "vllm", "--out", out)), "tpot_s", "somebody edited")
    assert not out.exists()


@pytest.mark.parametrize(
    ("engine", "more", "words"),
    [
        ("llama.cpp", (), "takes one draft length"),
        ("sglang", ("--by-context",), "has no table by context"),
        ("dynamo", ("--rehearsal", "--batch", 1), "leave --rehearsal out"),
        ("vllm", ("--batch", 5), "was not projected"),
        ("vllm", ("--min-gain", 2), "--min-gain"),
        ("vllm", ("--target", ""), "--target = '': is empty"),
        ("vllm", ("--draft", " "), "--draft = ' ': is empty"),
        ("vllm", ("--method", "mtp"), "is not in the projection; it holds eagle3"),
        ("vllm", ("--simulation", "none.json"), "none.json"),
    ],
)
def test_wishes_that_cannot_be_met(cli, tmp_path: Path, engine: str, more: tuple[object, ...], words: str):
    path = write_projection(
        tmp_path / "T.parquet", projected(FALLING), projected(FALLING, context=8192), evidence=json.dumps([EVIDENCE])
    )
    if "--by-context" not in more:
        more = (*more, "--context", 512)
    _refused(cli(*_deploy(path, engine, *more)), words)
