"""``specbook witness`` and ``specbook receipt``: files, tables, JSON, exit codes, bad options, Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook.acceptance.profile import profile_from_counts, write_profile
from specbook.display.witness_terminal import show_receipt
from specbook.engine import threads
from specbook.files import dump_model, sha256_of
from specbook.hardware.probe.stored import stored_probe
from specbook.witness import run
from specbook.witness.jobs import n_steps
from specbook.witness.receipt import read_receipt, receipt_of, write_receipt
from tests.receipt_cases import witness_result
from tests.unit.test_receipt_external import SGLANG, VLLM

CONFIG: dict[str, Any] = {
    "schema": "specbook-witness-config/1",
    "configurations": [{"drafter": "small", "draft_length": 4}],
}
QUICK = ("witness", "--drafter", "small")


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What was asked to run; it takes no time, and passes."""
    asked: list[tuple[Any, Any]] = []

    def quick(config: Any, *, hardware: Any = None, progress: Any) -> Any:
        asked.append((config, hardware))
        for _ in range(n_steps(config, forecast=hardware is not None)):
            progress(1)
        return witness_result()

    monkeypatch.setattr(run, "run_witness", quick)
    monkeypatch.setattr(threads, "kernel_advice", lambda: None)
    return asked


def _giving(monkeypatch: pytest.MonkeyPatch, *errors: float, **choices: Any) -> None:
    monkeypatch.setattr(run, "run_witness", lambda *_, **__: witness_result(*errors, **choices))


def test_quick_start_runs_what_its_options_say(cli: Callable[..., Any], calls: list[Any], tmp_path: Path) -> None:
    outcome = cli(
        *QUICK, "--draft-length", 3, "--domain", "chat", "--domain", "code", "--temperature", 0.5, "--cut",
        "entropy:1.5", "--arithmetic", "exact", "--replication", 2, "--new-tokens", 32, "--prompts", 6, "--seed", 9,
        "--out", tmp_path / "R.json",
    )  # fmt: skip
    assert outcome.code == 0
    ((config, hardware),) = calls
    (only,) = config.configurations
    assert hardware is None
    assert (only.drafter, only.draft_length, only.domains, only.temperature, only.cut) == (
        "small", 3, ("chat", "code"), 0.5, "entropy:1.5",
    )  # fmt: skip
    assert (config.arithmetic, config.replication, config.new_tokens, config.n_prompts, config.seed) == (
        "exact", 2, 32, 6, 9,
    )  # fmt: skip


def test_quick_start_has_defaults_and_trees(cli: Callable[..., Any], calls: list[Any], tmp_path: Path) -> None:
    cli(*QUICK, "--out", tmp_path / "R.json")
    cli(*QUICK, "--tree", "2,1", "--out", tmp_path / "R.json")
    (chain,), (tree,) = (config.configurations for config, _ in calls)
    assert (chain.draft_length, chain.domains) == (4, ("code",))
    assert (tree.draft_length, tree.parents) == (None, (-1, -1, 0, 1))


def test_a_config_file_brings_its_own_hardware_and_profile(
    cli: Callable[..., Any], save: Callable[..., Path], calls: list[Any], tmp_path: Path
) -> None:
    profile = profile_from_counts(
        {4: [3, 2, 2, 1, 4]}, draft_length=4, target="specbook-target", drafter="specbook-small"
    ).model_copy(update={"temperature": 0.0})
    write_profile(profile, tmp_path / "P.json")
    (tmp_path / "HW.json").write_text(dump_model(stored_probe("epyc-zen4-2core")), encoding="utf-8")
    entry = CONFIG["configurations"][0] | {"acceptance": "P.json"}
    config = save("C.json", CONFIG | {"configurations": [entry], "hardware": "HW.json"})
    outcome = cli("witness", "--config", config, "--out", tmp_path / "R.json")
    assert outcome.code == 0
    ((run_config, hardware),) = calls
    assert run_config.configurations[0].acceptance == profile
    assert hardware.name == "epyc-zen4-2core"
    inputs = read_receipt(tmp_path / "R.json").attestation.inputs
    assert [(each.role, each.name) for each in inputs] == [
        ("config", "C.json"), ("acceptance", "P.json"), ("hardware", "HW.json"), ("prompts", "code.jsonl"),
    ]  # fmt: skip
    for each in inputs[:3]:
        assert each.sha256 == sha256_of(tmp_path / each.name)


def test_hardware_by_name_is_hashed_as_its_json(cli: Callable[..., Any], calls: list[Any], tmp_path: Path) -> None:
    cli(*QUICK, "--hardware", "epyc-zen4-2core", "--out", tmp_path / "R.json")
    assert calls[0][1].name == "epyc-zen4-2core"
    names = {each.role: each for each in read_receipt(tmp_path / "R.json").attestation.inputs}
    assert names["hardware"].name == "epyc-zen4-2core"
    assert names["config"].name == "options"


def test_a_person_reads_predictions_machine_and_verdict(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path
) -> None:
    baseline = save("v.json", VLLM)
    outcome = cli(*QUICK, "--baseline", baseline, "--baseline", save("s.jsonl", [SGLANG] * 5), "--out", tmp_path / "R")
    lines = outcome.out.splitlines()
    text = "\n".join(lines)
    assert lines[0].startswith("native run of specbook 0.1.0")
    assert "Haswell kernels, 1 thread, cost dial R = 8" in lines[0]
    rows = {line.split()[2] if "chain" in line else line.split()[0]: line for line in lines if " [" in line}
    assert "11.40" in rows["measured"]
    assert "pass" in rows["measured"]
    assert "1.35 [1.25, 1.45]" in rows["measured"]
    assert "+1.0 % [+0.0, +2.0]" in rows["replay"]
    assert "-6.0 % [-11.0, -1.0]" in rows["forecast"]
    assert "13.41" in rows["no"]
    assert "256 of 256 greedy tokens equal to those without drafts" in text
    assert "machine quiet: steps without drafts 13.00, 13.00, 13.00 ms, drift 0%, spread 12%, 1.0 processes ran" in text
    named = "vllm Q/Q3-8B, v.json, run 1: request_rate inf, max_concurrency 4"
    assert f"external, not run here: {named}: p90_tpot_ms 19.6" in text
    assert "external, not run here: 2 more runs of s.jsonl" in text
    assert lines[-1] == f"wrote {tmp_path / 'R'}"
    assert outcome.err == ""


def test_a_narrow_terminal_keeps_both_errors(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    receipt = receipt_of(witness_result(0.2))
    shown = {}
    for columns in ("120", "72"):
        monkeypatch.setenv("COLUMNS", columns)
        show_receipt(receipt)
        shown[columns] = capsys.readouterr().out
    assert "[10.83, 11.97]" in shown["120"]
    assert "[10.83, 11.97]" not in shown["72"]
    for text in shown.values():
        assert "+20.0 % [+19.0, +21.0]" in text
        assert "-6.0 % [-11.0, -1.0]" in text


@pytest.mark.parametrize(
    ("errors", "choices", "code", "told"),
    [
        ((0.01,), {}, 0, "verdict pass"),
        ((0.2,), {}, 1, "most of it in verify"),
        ((0.2,), {}, 1, "with a fresh probe the error would be +1.0%, it is +20.0%; the verdict stays"),
        ((0.01,), {"reason": "busy"}, 1, "machine not quiet: busy; steps without drafts"),
        ((0.01,), {"equal": False}, 1, "200 of 256 greedy tokens equal"),
        ((0.01,), {"temperature": 1.0}, 0, "tokens not compared: tokens are drawn"),
    ],
)
def test_only_a_pass_is_exit_code_0(
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    errors: tuple[float, ...],
    choices: dict[str, Any],
    code: int,
    told: str,
) -> None:
    _giving(monkeypatch, *errors, **choices)
    outcome = cli(*QUICK, "--out", tmp_path / "R.json")
    assert outcome.code == code
    assert told in outcome.out
    assert (read_receipt(tmp_path / "R.json").verdict == "pass") == (code == 0)


def test_slow_kernels_are_told_beside_the_receipt(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(threads, "kernel_advice", lambda: "older kernels than the processor has")
    outcome = cli(*QUICK, "--out", tmp_path / "R.json", "--json")
    assert outcome.err == "specbook: note: older kernels than the processor has\n"
    assert json.loads(outcome.out)["verdict"] == "pass"


def test_json_is_the_receipt_and_nothing_else(cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = cli(*QUICK, "--out", tmp_path / "R.json", "--json")
    assert json.loads(outcome.out) == json.loads((tmp_path / "R.json").read_text(encoding="utf-8"))
    shown = cli("receipt", "show", tmp_path / "R.json", "--json")
    assert shown.out == outcome.out


def test_tables_of_requests_and_rounds_are_written_beside(cli: Callable[..., Any], tmp_path: Path) -> None:
    q, r = tmp_path / "q.parquet", tmp_path / "r.parquet"
    outcome = cli(*QUICK, "--requests", q, "--rounds", r, "--out", tmp_path / "R.json")
    assert pl.read_parquet(q).equals(witness_result().requests)
    assert pl.read_parquet(r).columns == witness_result().rounds.columns
    assert [line for line in outcome.out.splitlines() if line.startswith("wrote")] == [
        f"wrote {tmp_path / 'R.json'}", f"wrote {r}", f"wrote {q}",
    ]  # fmt: skip


BAD: dict[str, tuple[tuple[Any, ...], str]] = {
    "nothing to run": (("witness",), "--config: is missing; name a file, or a --drafter for a quick start"),
    "an unknown drafter": (("witness", "--drafter", "oracle"), "--drafter: drafter must be one of small"),
    "no drafter": (("witness", "--drafter", ""), "--drafter = '':"),
    "an unknown domain": ((*QUICK, "--domain", "poems"), "--domain = 'poems': no such domain; some of code"),
    "a domain twice": ((*QUICK, "--domain", "code", "--domain", "code"), "--domain = ['code', 'code']: must name each"),
    "no drafts": ((*QUICK, "--draft-length", 0), "--draft-length"),
    "a tree with a length": ((*QUICK, "--tree", "2", "--draft-length", 4), "--tree = '2': has a depth of its own"),
    "no tree": ((*QUICK, "--tree", "wide"), "--tree = 'wide': is no list of children"),
    "a cut tree": ((*QUICK, "--tree", "2,2", "--cut", "entropy:1"), "--cut = 'entropy:1': is for chains"),
    "no cut": ((*QUICK, "--cut", "soon"), "--cut"),
    "no temperature": ((*QUICK, "--temperature", "nan"), "--temperature"),
    "no arithmetic": ((*QUICK, "--arithmetic", "fp4"), "--arithmetic = 'fp4': no such arithmetic; one of"),
    "too few tokens": ((*QUICK, "--new-tokens", 5), "--new-tokens = 5: must be whole and at least 6"),
    "too many tokens": ((*QUICK, "--new-tokens", 5000), "--new-tokens = 5000: are more than a witness decodes"),
    "one prompt": ((*QUICK, "--prompts", 1), "--prompts = 1: must be whole and at least 2; a P90 needs several"),
    "too many prompts": ((*QUICK, "--prompts", 500), "--prompts = 500: are more than 38, which leave 8 of code"),
    "unknown hardware": ((*QUICK, "--hardware", "abacus"), "--hardware = 'abacus': no such device in the catalogue"),
    "no such profile": ((*QUICK, "--acceptance", "none.json"), "none.json: no such file"),
    "no such config": (("witness", "--config", "none.json"), "none.json: no such file or directory"),
    "options beside a file": ((*QUICK, "--config", "C.json"), "--drafter = 'small': means nothing beside --config"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_choices_are_one_line_before_anything_runs(
    cli: Callable[..., Any], calls: list[Any], tmp_path: Path, case: str
) -> None:
    words, problem = BAD[case]
    outcome = cli(*words, "--out", tmp_path / "R.json")
    assert (outcome.code, outcome.out) == (2, "")
    assert problem in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert calls == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"configurations": []}, "configurations = 0: must be one to 3"),
        ({"configurations": CONFIG["configurations"] * 2}, "two of one name; give each its own"),
        ({"configurations": [{"drafter": "oracle", "draft_length": 2}]}, "configurations.0.drafter: drafter must be"),
        ({"hardware": "abacus"}, "hardware = 'abacus': no such device in the catalogue"),
        ({"hardware": "missing.json"}, "missing.json: no such file or directory"),
        ({"n_prompts": 1}, "n_prompts = 1: must be whole"),
        ({"n_prompts": 500}, "C.json: n_prompts = 500: are more than"),
        ({"schema": "specbook-witness-config/2"}, "unknown schema"),
        ({"colour": "red"}, "colour = 'red'"),
    ],
)
def test_bad_config_files_are_one_line_with_their_name(
    cli: Callable[..., Any], save: Callable[..., Path], calls: list[Any], tmp_path: Path, change: Any, problem: str
) -> None:
    path = save("C.json", CONFIG | change)
    outcome = cli("witness", "--config", path, "--out", tmp_path / "R.json")
    assert outcome.code == 2
    assert problem in outcome.err
    assert str(tmp_path) in outcome.err
    assert calls == []


def test_hardware_is_named_once(cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path) -> None:
    path = save("C.json", CONFIG | {"hardware": "epyc-zen4-2core"})
    outcome = cli("witness", "--config", path, "--hardware", "h200", "--out", tmp_path / "R.json")
    assert "--hardware = 'h200': is named by --config too; leave one of them out" in outcome.err


def test_nothing_that_is_read_is_written_over(
    cli: Callable[..., Any], save: Callable[..., Path], calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(save("C.json", CONFIG).parent)  # long paths are cut in messages
    config, baseline, out = Path("C.json"), Path(save("v.json", VLLM).name), Path("R.json")
    for option in ("--out", "--rounds", "--requests"):
        for path in (config, baseline):
            words: dict[str, Any] = {"--out": out} | {option: path}
            flat = [word for pair in words.items() for word in pair]
            outcome = cli("witness", "--config", config, "--baseline", baseline, *flat)
            assert f"{option} = '{path}': is a file to read; choose another {option}" in outcome.err
    outcome = cli("witness", "--config", config, "--out", out, "--rounds", out)
    assert f"--rounds = '{out}': is the file of --out" in outcome.err
    assert calls == []
    assert json.loads(config.read_text(encoding="utf-8")) == CONFIG


@pytest.mark.parametrize("option", ["--out", "--rounds", "--requests"])
@pytest.mark.parametrize("name", ["", "file/R.json"])
def test_what_cannot_be_written_is_refused_before_the_run(
    cli: Callable[..., Any], calls: list[Any], tmp_path: Path, option: str, name: str
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    words: dict[str, Any] = {"--out": tmp_path / "R.json"} | {option: tmp_path / name}
    outcome = cli(*QUICK, *[word for pair in words.items() for word in pair])
    assert outcome.code == 2
    assert option in outcome.err
    assert calls == []


def test_interrupted_run_is_one_line_and_leaves_no_file(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_witness", interrupted)
    outcome = cli(*QUICK, "--out", tmp_path / "R.json", "--rounds", tmp_path / "r.parquet")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "specbook: interrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_check_tells_the_files_of_a_run(cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path) -> None:
    config, baseline, out = save("C.json", CONFIG), save("v.json", VLLM), tmp_path / "R.json"
    cli("witness", "--config", config, "--baseline", baseline, "--out", out)
    good = cli("receipt", "check", out, "--against", config, "--against", baseline)
    assert good.code == 0
    assert "the config of the run" in good.out
    assert "the external baseline of the run" in good.out
    assert "pass, as its figures give it" in good.out
    assert "others than this installation has" in good.out  # the weights of the invented run
    config.write_text(json.dumps(CONFIG | {"seed": 1}), encoding="utf-8")
    changed = cli("receipt", "check", out, "--against", config, "--against", baseline, "--json")
    assert changed.code == 1
    document = json.loads(changed.out)
    assert [each["role"] for each in document["files"]] == [None, "external baseline"]
    assert document["weights"] == {"target": False, "draft": False}


def test_check_refuses_an_edited_receipt_and_a_missing_file(cli: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "R.json"
    write_receipt(receipt_of(witness_result()), out)
    missing = cli("receipt", "check", out, "--against", tmp_path / "none")
    assert (missing.code, missing.out) == (2, "")
    out.write_text(out.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 1'), encoding="utf-8")
    edited = cli("receipt", "check", out)
    assert edited.code == 2
    assert "was edited after it was written; take the original, or run the witness again" in edited.err


def test_what_a_file_says_of_itself_is_shown_and_never_acted_on(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path
) -> None:
    hostile = "\x1b[31m[red]x[/red]\u202e"
    outcome = cli(*QUICK, "--baseline", save("v.json", VLLM | {"model_id": hostile}), "--out", tmp_path / "R.json")
    assert "\x1b" not in outcome.out
    assert "\u202e" not in outcome.out
    assert "\\x1b[31m[red]x[/red]\\u202e" in outcome.out


def test_without_a_verb_the_group_prints_its_help(cli: Callable[..., Any]) -> None:
    outcome = cli("receipt")
    assert outcome.code == 0
    assert "check" in outcome.out
