"""The command line's contract: exit codes, one line for bad input, nothing half-written, one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook import __version__
from specbook.acceptance.importing import FORMATS
from specbook.acceptance.library import example_file, library_names, library_series
from specbook.acceptance.profile import AcceptanceProfile, profile_from_counts, read_profile, write_profile
from specbook.hardware.profile import catalogue_device, catalogue_names
from specbook.roofline.model_spec import model_names

PROFILE: dict[str, Any] = {
    "schema": "specbook-acceptance/1",
    "evidence": "counts",
    "draft_length": 2,
    "rounds_by_drafted": {"2": [1, 1, 2]},
    "n_rounds": 4,
    "n_drafted_tokens": 8,
    "n_accepted_tokens": 5,
    "mean_acceptance_length": 2.25,
    "marginal_acceptance": [0.75, 0.5],
}
VLLM: dict[str, Any] = {"acceptance_histogram": [1, 1, 2], "num_spec_steps": 4, "num_draft_tokens": 8}
PAIR = ("--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B")
HOSTILE = "\x1b[31m[red]x[/red]\u202e:skull:\n"
SHOWN = "\\x1b[31m[red]x[/red]\\u202e:skull:\\n"


def _project(out: Path, *arguments: object, acceptance: object = "model-optimizer-2247") -> tuple[object, ...]:
    return ("project", "--acceptance", acceptance, "--hardware", "l4", *PAIR, "--out", out, *arguments)


def _one_line(outcome: Any, *parts: str) -> None:
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("specbook: ")
    for part in parts:
        assert part in outcome.err


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder of its own for what a command writes, with an older result in it."""
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old.json").write_text("old")
    return folder


def _unchanged(out: Path) -> None:
    assert _names(out) == ["old.json"]
    assert (out / "old.json").read_text() == "old"


BAD_SOURCES = {
    "truncated": (json.dumps(VLLM)[:40], "is not complete JSON"),
    "text": ("hello", "'hello': holds no record of a known format ("),
    "nul": (b"\x00" * 64, "holds bytes that are no text"),
    "latin-1": (b'{"model": "\xe9"}', "is not UTF-8 text"),
    "nested": ("[" * 200_000, "is nested too deeply"),
    "empty": (b"", "is empty"),
    "blank": ("\n \n", "holds only blanks"),
    "no known format": ({"loss": 0.1}, "['loss']: holds no record of a known format ("),
    "string count": (VLLM | {"acceptance_histogram": ["1", 1, 2]}, "acceptance_histogram[0] = '1': must be a whole"),
    "float count": (VLLM | {"acceptance_histogram": [1.5, 1, 2]}, "acceptance_histogram[0] = 1.5: must be a whole"),
    "boolean count": (VLLM | {"acceptance_histogram": [True, 1, 2]}, "acceptance_histogram[0] = True: must be"),
    "NaN count": (VLLM | {"acceptance_histogram": [float("nan")]}, "acceptance_histogram[0] = nan: must be a whole"),
    "negative count": (VLLM | {"acceptance_histogram": [1, -1, 2]}, "acceptance_histogram[1] = -1: must be at least 0"),
    "histogram of another type": (VLLM | {"acceptance_histogram": 4}, "acceptance_histogram = 4: must be a list"),
    "NaN length": (VLLM | {"mean_acceptance_length": float("nan")}, "mean_acceptance_length = nan: must be a number"),
    "accepted over drafted": (VLLM | {"num_draft_tokens": 4}, "num_draft_tokens = 4: more tokens accepted (5) than"),
    "round of no token": ({"choices": [{"accept_lengths": [0]}]}, "accept_lengths[0] = 0: must be at least 1"),
    "no rounds": ({"choices": [{"accept_lengths": []}]}, "no rounds: every request is empty"),
    "count beyond any server": (VLLM | {"acceptance_histogram": [10**30], "num_spec_steps": 10**30}, ""),
    "number of 5000 digits": ('{"acceptance_histogram": [' + "9" * 5000 + '], "num_spec_steps": 1}', ""),
    "lone surrogate in a name": ('{"model": "\\ud800", "speculative_decoding": ' + json.dumps(VLLM) + "}", ""),
}


@pytest.mark.parametrize("case", BAD_SOURCES)
def test_profile_import_bad_file_is_one_line_and_writes_nothing(cli, save, out: Path, case: str):
    content, problem = BAD_SOURCES[case]
    source = save("source", content)
    _one_line(cli("profile", "import", source, "--out", out / "new.json"), str(source), problem, "; ")
    _one_line(cli("profile", "import", source, "--out", out / "old.json"), str(source), problem)
    _unchanged(out)


def test_profile_import_broken_middle_line_names_the_line(cli, save, out: Path):
    good = json.dumps(VLLM)
    source = save("source.jsonl", f"{good}\n{good[:30]}\n{good}\n")
    _one_line(cli("profile", "import", source, "--out", out / "old.json"), f"{source} line 2: ")
    _unchanged(out)


@pytest.mark.parametrize("start", [b"", b'{"model": "'])
def test_profile_import_of_500_mb_without_lines_is_refused(cli, tmp_path: Path, out: Path, start: bytes):
    source = tmp_path / "huge.jsonl"
    with source.open("wb") as stream:
        stream.write(start)
        stream.truncate(500 * 10**6)
    outcome = cli("profile", "import", source, "--out", out / "old.json")
    _unchanged(out)
    _one_line(outcome, f"{source}: line 1 is longer than 67 MB; ")


def test_profile_show_of_500_mb_is_refused(cli, tmp_path: Path):
    source = tmp_path / "huge.json"
    with source.open("wb") as stream:
        stream.truncate(500 * 10**6)
    _one_line(cli("profile", "show", source), f"{source}: one JSON document of 500 MB, over the limit of 67 MB; ")


def test_profile_import_folder_without_a_file_is_one_line(cli, tmp_path: Path, out: Path):
    empty = tmp_path / "empty"
    empty.mkdir()
    _one_line(cli("profile", "import", empty, "--out", out / "old.json"), f"{empty}: the folder holds no file; ")
    _unchanged(out)


def test_profile_import_folder_that_holds_the_output_reads_the_rest(cli, save, tmp_path: Path, out: Path):
    save("a.json", VLLM)
    assert cli("profile", "import", tmp_path, "--out", out / "new.json").code == 0
    assert cli("profile", "import", tmp_path, "--out", out / "new.json").code == 0


def test_profile_import_missing_file_is_one_line(cli, tmp_path: Path, out: Path):
    _one_line(cli("profile", "import", tmp_path / "none", "--out", out / "old.json"), "none: no such file or directory")
    _unchanged(out)


def test_profile_import_second_file_bad_writes_nothing(cli, save, out: Path):
    good, bad = save("good.json", VLLM), save("bad.json", VLLM | {"num_spec_steps": 9})
    _one_line(cli("profile", "import", good, bad, "--out", out / "old.json"), f"{bad} line 1: num_spec_steps = 9: ")
    _unchanged(out)


def test_profile_import_disagreeing_targets_are_one_line(cli, save, out: Path):
    source = save("a.jsonl", [VLLM | {"model": "m1"}, VLLM | {"model": "m2"}])
    assert cli("profile", "import", source, "--target", "m", "--out", out / "new.json").code == 0
    source = save("b.jsonl", [{"model": name, "speculative_decoding": VLLM} for name in ("m1", "m2")])
    _one_line(cli("profile", "import", source, "--out", out / "old.json"), "target: requests disagree: m1, m2; ")


def test_profile_import_stated_draft_length_shorter_than_a_round_is_one_line(cli, out: Path):
    source = example_file("spec-bench.jsonl")
    outcome = cli("profile", "import", source, "--draft-length", 2, "--out", out / "old.json")
    _one_line(outcome, "draft_length = 2: a round accepted 4 tokens; ")
    _unchanged(out)


def test_profile_import_infinite_temperature_is_refused_without_a_traceback(cli, out: Path):
    source = example_file("spec-bench.jsonl")
    assert cli("profile", "import", source, "--temperature", "inf", "--out", out / "old.json").code == 2
    _unchanged(out)


@pytest.mark.parametrize("where", ["below a file", "a directory", "a name too long"])
def test_profile_import_unwritable_out_is_one_line(cli, out: Path, where: str):
    target = {"below a file": out / "old.json" / "p.json", "a directory": out, "a name too long": out / ("x" * 5000)}
    outcome = cli("profile", "import", example_file("spec-bench.jsonl"), "--out", target[where])
    _one_line(outcome, "cannot be written (", "; choose another --out")
    _unchanged(out)
    assert _names(out.parent) == ["out"]


@pytest.mark.parametrize("name", ["spec-bench.jsonl", "vllm-per-request.jsonl"])
def test_profile_import_good_file_writes_the_profile_that_json_prints(cli, out: Path, name: str):
    outcome = cli("profile", "import", example_file(name), "--out", out / "p.json", "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert document == json.loads((out / "p.json").read_text())
    assert document["schema"] == "specbook-acceptance/1"
    assert all(line.startswith("specbook: note: ") for line in outcome.err.splitlines())
    assert _names(out) == ["old.json", "p.json"]


def test_profile_import_replaces_an_older_profile(cli, out: Path):
    assert cli("profile", "import", example_file("spec-bench.jsonl"), "--out", out / "old.json").code == 0
    assert read_profile(out / "old.json").n_rounds == 19


def test_profile_import_options_reach_the_profile(cli, out: Path):
    labels = ("--target", "T", "--drafter", "D", "--method", "mtp", "--domain", "code", "--temperature", "0.5")
    arguments = ("--format", "spec-bench", "--category", "coding", "--draft-length", 5)
    source = example_file("spec-bench.jsonl")
    assert cli("profile", "import", source, *labels, *arguments, "--out", out / "p.json").code == 0
    profile = read_profile(out / "p.json")
    assert (profile.target, profile.drafter, profile.method, profile.domain) == ("T", "D", "mtp", "code")
    assert (profile.temperature, profile.draft_length, profile.n_rounds) == (0.5, 5, 10)


BAD_PROFILES = {
    "truncated": (json.dumps(PROFILE)[:100], "is not complete JSON"),
    "empty": (b"", "is empty"),
    "list": ("[]", "is not a JSON object; expected a specbook-acceptance/1 file"),
    "other version": (PROFILE | {"schema": "specbook-acceptance/9"}, "schema = 'specbook-acceptance/9': unknown"),
    "wrong type": (PROFILE | {"n_rounds": "4"}, "n_rounds = '4': "),
    "NaN": (PROFILE | {"mean_acceptance_length": float("nan")}, "mean_acceptance_length = nan: "),
    "negative count": (PROFILE | {"rounds_by_drafted": {"2": [1, -1, 2]}}, "rounds_by_drafted.2.1 = -1: "),
    "rising marginal": (PROFILE | {"marginal_acceptance": [0.5, 0.75]}, "marginal_acceptance = [0.5, 0.75]: rises at"),
    "accepted over drafted": (PROFILE | {"n_accepted_tokens": 9}, "n_accepted_tokens = 9: more tokens accepted than"),
    "short row": (PROFILE | {"rounds_by_drafted": {"2": [1, 1]}}, "rounds_by_drafted.2 = [1, 1]: needs 3 counts"),
    "unknown field": (PROFILE | {"acceptance_rate": 0.8}, "acceptance_rate = 0.8: Extra inputs are not permitted"),
    "NaN in an interval": (PROFILE | {"intervals": {"mean": [float("nan"), 1.0]}}, ""),
    "count of 400 digits": (PROFILE | {"n_rounds": int("9" * 400)}, ""),
}


@pytest.mark.parametrize("case", BAD_PROFILES)
def test_profile_show_bad_file_is_one_line(cli, save, case: str):
    content, problem = BAD_PROFILES[case]
    source = save("p.json", content)
    _one_line(cli("profile", "show", source), f"{source}: ", problem, "; ")
    _one_line(cli("profile", "show", source, "--json"), f"{source}: ", problem)


@pytest.mark.parametrize("case", BAD_PROFILES)
def test_project_bad_profile_is_one_line_and_writes_nothing(cli, save, out: Path, case: str):
    content, problem = BAD_PROFILES[case]
    source = save("p.json", content)
    _one_line(cli(*_project(out / "old.json", acceptance=source)), f"{source}: ", problem)
    _unchanged(out)


@pytest.mark.parametrize("name", ["none.json", "x" * 5000 + ".json"])
def test_profile_show_no_such_file_is_one_line(cli, name: str):
    _one_line(cli("profile", "show", name), name)


@pytest.mark.parametrize("name", library_names())
def test_profile_show_every_shipped_profile(cli, name: str):
    table = cli("profile", "show", name)
    assert (table.code, table.err) == (0, "")
    assert "mean_acceptance_length" in table.out
    document = json.loads(cli("profile", "show", name, "--json").out)
    assert document["schema"] == "specbook-acceptance/1"
    assert cli("profile", "library", name).out == table.out


def test_profile_show_json_is_the_file(cli, save):
    source = save("p.json", PROFILE)
    shown = json.loads(cli("profile", "show", source, "--json").out)
    assert {key: shown[key] for key in PROFILE} == PROFILE


def test_profile_library_lists_every_profile(cli):
    outcome = cli("profile", "library")
    assert outcome.code == 0
    assert all(name in outcome.out for name in library_series(library_names()))
    assert list(json.loads(cli("profile", "library", "--json").out)) == library_names()


def test_profile_library_unknown_name_lists_the_known(cli):
    _one_line(cli("profile", "library", "nope"), "'nope'", "vllm-48892-mtp-k8")


@pytest.mark.parametrize(("command", "names"), [("hardware", catalogue_names()), ("models", model_names())])
def test_listing_names_everything(cli, command: str, names: list[str]):
    table = cli(command)
    assert (table.code, table.err) == (0, "")
    assert all(name in table.out for name in names)
    assert list(json.loads(cli(command, "--json").out)) == names


def test_hostile_names_of_a_profile_are_shown_escaped(cli, save):
    labels = dict.fromkeys(("target", "drafter", "method", "domain"), HOSTILE)
    outcome = cli("profile", "show", save("p.json", PROFILE | labels | {"warnings": [HOSTILE]}))
    assert outcome.code == 0
    assert outcome.out.count(SHOWN) == 5
    assert "\x1b" not in outcome.out
    assert "\u202e" not in outcome.out


def test_hostile_name_of_a_profile_is_safe_json(cli, save):
    outcome = cli("profile", "show", save("p.json", PROFILE | {"target": HOSTILE}), "--json")
    assert json.loads(outcome.out)["target"] == HOSTILE
    assert "\x1b" not in outcome.out


def test_hostile_name_while_importing_is_shown_escaped(cli, save, out: Path):
    source = save("a.jsonl", [{"model": HOSTILE, "speculative_decoding": VLLM}])
    outcome = cli("profile", "import", source, "--out", out / "p.json")
    assert SHOWN in outcome.out
    assert "\x1b" not in outcome.out + outcome.err
    assert read_profile(out / "p.json").target == HOSTILE


def test_hostile_names_disagreeing_are_one_escaped_line(cli, save, out: Path):
    names = (HOSTILE, "other")
    source = save("a.jsonl", [{"model": name, "speculative_decoding": VLLM} for name in names])
    outcome = cli("profile", "import", source, "--out", out / "p.json")
    _one_line(outcome, SHOWN)
    assert "\x1b" not in outcome.err


def test_hostile_names_in_a_projection_are_shown_escaped(cli, save, out: Path):
    profile = save("p.json", PROFILE | {"target": HOSTILE, "domain": HOSTILE})
    document = json.loads(catalogue_device("l4").model_dump_json(by_alias=True)) | {"device": HOSTILE, "name": HOSTILE}
    device = save("hw.json", document | {"step_overhead_s": None})
    arguments = ("--acceptance", profile, "--hardware", device, *PAIR, "--out", out / "t.parquet")
    outcome = cli("project", *arguments)
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err
    assert "\u202e" not in outcome.out
    assert f"{SHOWN}: Llama-3.1-8B" in outcome.out
    assert f"{SHOWN}, context 512: drafting " in outcome.out
    assert f"measured on {SHOWN}" in outcome.out


def test_hostile_file_name_is_shown_escaped(cli, save, out: Path):
    source = save("a\x1b[31m\u202eb", b"")
    outcome = cli("profile", "import", source, "--out", out / "p.json")
    _one_line(outcome, "a\\x1b[31m\\u202eb: is empty")


def test_project_writes_what_json_prints(cli, out: Path):
    outcome = cli(*_project(out / "t.parquet", "--json"))
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    table = pl.read_parquet(out / "t.parquet")
    assert document["rows"] == table.to_dicts()
    assert document["out"] == str(out / "t.parquet")
    assert document.keys() >= {"config", "gates", "notes", "best", "break_even", "specbook_version"}
    assert _names(out) == ["old.json", "t.parquet"]


def test_project_prints_ranking_break_even_and_notes(cli, out: Path):
    outcome = cli(*_project(out / "t.parquet", "--batch", "1,64", "--context", "512"))
    assert (outcome.code, outcome.err) == (0, "")
    assert "context 512: drafting " in outcome.out
    assert "note: " in outcome.out
    assert f"wrote {out / 't.parquet'}" in outcome.out


def test_project_top_limits_the_ranks_printed(cli, out: Path):
    arguments = ("--assume", "truncation", "--batch", "1", "--context", "512")
    lines = {top: cli(*_project(out / "t.parquet", *arguments, "--top", top)).out.splitlines() for top in (1, 4)}
    assert len(lines[4]) - len(lines[1]) == 3


def test_project_several_profiles_give_several_draft_lengths(cli, out: Path):
    more = ("--acceptance", "vllm-48892-mtp-k1")
    assert cli(*_project(out / "t.parquet", *more, acceptance="vllm-48892-mtp-k8")).code == 0
    assert pl.read_parquet(out / "t.parquet")["draft_length"].unique().sort().to_list() == [0, 1, 8]


def test_project_precisions_reach_the_table(cli, out: Path):
    assert cli(*_project(out / "t.parquet", "--precision", "INT4", "--draft-precision", "q8_0")).code == 0
    assert pl.read_parquet(out / "t.parquet")["precision"].unique().to_list() == ["int4"]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (("--hardware", "h9"), ("hardware = 'h9'", "mi300x", "graviton4")),
        (("--target", "gpt-9"), ("model = 'gpt-9'", "Llama-3.1-70B", "Mixtral-8x7B")),
        (("--draft", "gpt-9"), ("model = 'gpt-9'", "Qwen3-0.6B")),
        (("--precision", "fp3"), ("precision = 'fp3'", "bf16, fp16, fp8, int4, q4_k, q8_0")),
        (("--draft-precision", "fp3"), ("precision = 'fp3'", "bf16, fp16, fp8, int4, q4_k, q8_0")),
        (("--hardware", "\x1b[31m"), ("hardware = '\\x1b[31m'",)),
    ],
)
def test_project_unknown_name_lists_the_known(cli, out: Path, changes: tuple[str, ...], parts: tuple[str, ...]):
    named = {"--hardware": "l4"} | dict([changes])
    options = [word for pair in named.items() for word in pair]
    known = ("project", "--acceptance", "model-optimizer-2247", *PAIR, "--out", out / "old.json")
    _one_line(cli(*known, *options), *parts)
    _unchanged(out)


@pytest.mark.parametrize(
    "batches",
    ["", " ", "x", "0", "-1", "1,,2", "1,2,", "1.5", "1e3", "nan", "65537", "1;2", "٣", "²", "9" * 12, "9" * 5000,
     "1,\x1b[31m"],
)  # fmt: skip
@pytest.mark.parametrize("option", ["--batch", "--context"])
def test_project_bad_list_of_numbers_is_one_line(cli, out: Path, option: str, batches: str):
    if option == "--context" and batches == "65537":
        batches = "16777217"
    _one_line(cli(*_project(out / "old.json", option, batches)), f"{option} = '", "whole numbers from 1 to ")
    _unchanged(out)


def test_project_repeated_batches_are_one(cli, out: Path):
    assert cli(*_project(out / "t.parquet", "--batch", " 4, 1,4", "--context", "512")).code == 0
    table = pl.read_parquet(out / "t.parquet")
    assert table.select("batch", "draft_length").n_unique() == table.height == 4


def test_project_tree_profile_without_ranks_is_refused(cli, out: Path):
    outcome = cli(*_project(out / "old.json", "--assume", "truncation", acceptance="spec-bench-eagle-vicuna-7b"))
    _one_line(outcome, "tree.rank_acceptance", "specbook profile measure --tree")
    _unchanged(out)


def test_project_unknown_draft_length_needs_the_assumption(cli, out: Path):
    acceptance = "spec-bench-sps-vicuna-7b"
    outcome = cli(*_project(out / "old.json", acceptance=acceptance))
    _one_line(outcome, "draft_length = None: ", "pass --assume truncation")
    _unchanged(out)
    assert cli(*_project(out / "t.parquet", "--assume", "truncation", acceptance=acceptance)).code == 0
    assumed = pl.read_parquet(out / "t.parquet").filter(pl.col("draft_length") > 0)["acceptance_assumption"].unique()
    assert assumed.to_list() == ["truncation of drafts of unknown or varying length"]


def test_project_run_without_speculation_says_so(cli, save, out: Path):
    source = save("vanilla.jsonl", [{"model_id": "m-vanilla-float16", "choices": [{"accept_lengths": [1, 1]}]}])
    assert cli("profile", "import", source, "--out", out / "p.json").code == 0
    outcome = cli(*_project(out / "old.json", "--assume", "truncation", acceptance=out / "p.json"))
    _one_line(outcome, "no draft token was ever accepted")


def test_project_same_evidence_twice_is_one_line(cli, out: Path):
    outcome = cli(*_project(out / "old.json", "--acceptance", "model-optimizer-2247"))
    _one_line(outcome, "draft_length = 3: two profiles of one draft length")
    _unchanged(out)


def test_project_unwritable_out_is_one_line(cli, out: Path):
    _one_line(cli(*_project(out / "old.json" / "t.parquet")), "cannot be written (")
    _one_line(cli(*_project(out)), f"{out}: cannot be written (is a directory)")
    _unchanged(out)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("project",),
        ("profile", "import", "a.json"),
        ("profile", "import", "a.json", "--out", "b.json", "--format", "csv"),
        ("profile", "import", "a.json", "--out", "b.json", "--temperature", "-1"),
        ("profile", "import", "a.json", "--out", "b.json", "--draft-length", "0"),
        (*_project(Path("t.parquet")), "--max-draft-length", "0"),
        (*_project(Path("t.parquet")), "--assume", "hope"),
    ],
)
def test_misspelt_command_exits_with_two_and_writes_nothing(cli, monkeypatch, tmp_path: Path, arguments: tuple):
    monkeypatch.chdir(tmp_path)
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert _names(tmp_path) == []


def test_version_is_the_package_version(cli):
    outcome = cli("--version")
    assert (outcome.code, outcome.out) == (0, f"specbook {__version__}\n")


def test_help_names_every_command(cli):
    outcome = cli("--help")
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("profile", "hardware", "models", "project", "funnel"))


def _process(*arguments: object, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from specbook.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding=encoding, timeout=120, check=False,
                          env=os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "200"})  # fmt: skip


def test_process_bad_input_exits_with_two_and_one_line(save, out: Path):
    source = save("bad.json", VLLM | {"acceptance_histogram": [1, -1, 2]})
    done = _process("profile", "import", source, "--out", out / "old.json")
    expected = f"specbook: {source} line 1: acceptance_histogram[1] = -1: must be at least 0; export the file again\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)
    _unchanged(out)


def test_process_json_is_the_only_thing_on_standard_output(out: Path):
    done = _process("profile", "import", example_file("spec-bench.jsonl"), "--out", out / "p.json", "--json")
    assert done.returncode == 0
    assert AcceptanceProfile.model_validate_json(done.stdout) == read_profile(out / "p.json")


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_process_terminal_without_unicode_still_shows_the_profile(save, arguments: tuple[str, ...]):
    source = save("p.json", PROFILE | {"target": "模型"})
    done = _process("profile", "show", source, *arguments, encoding="ascii")
    assert done.returncode == 0
    assert "2.25" in done.stdout


def test_process_closed_pipe_leaves_no_traceback():
    command = [sys.executable, "-c", "from specbook.cli import main; main()", "models", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_profile_written_by_the_package_is_shown(cli, tmp_path: Path):
    write_profile(profile_from_counts({3: [1, 2, 3, 4]}, target="t", draft_length=3), tmp_path / "p.json")
    outcome = cli("profile", "show", tmp_path / "p.json")
    assert outcome.code == 0
    for word in ("counts", "3.0000", "0.9000", "0.7000", "0.4000"):
        assert word in outcome.out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nope",), "No such command 'nope'"),
        (("project",), "Missing option '--acceptance'"),
        (("project", "--top", "0"), "--top"),
    ],
)
def test_usage_error_is_one_line(cli, arguments: tuple[str, ...], part: str):
    _one_line(cli(*arguments), part, "--help")


@pytest.mark.parametrize("arguments", [(), ("profile",), ("--help",)])
def test_no_command_shows_the_help(cli, arguments: tuple[str, ...]):
    outcome = cli(*arguments)
    assert outcome.code == 0
    assert outcome.out.startswith("Usage: ")


def test_profile_import_of_a_pipe_is_refused_at_once(cli, out: Path, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    _one_line(cli("profile", "import", tmp_path / "pipe.json", "--out", out / "old.json"), "is no regular file")
    _unchanged(out)


def test_project_of_another_pair_says_so(cli, out: Path):
    outcome = cli(*_project(out / "new.parquet", "--json"))
    notes = json.loads(outcome.out)["notes"]
    assert any(note.startswith("acceptance was measured on MiniMax-M2.7, not on Llama-3.1-8B") for note in notes)
    assert any("nvidia/MiniMax-M2.7-DFlash (dflash); the time of a draft is that of Llama-3.2-1B" in n for n in notes)


def test_profile_import_onto_its_own_input_is_refused(cli, save):
    source = save("a.json", VLLM)
    before = source.read_bytes()
    _one_line(cli("profile", "import", source, "--out", source), "is one of the files to read")
    assert source.read_bytes() == before


def test_project_two_devices_is_refused(cli, out: Path):
    _one_line(cli(*_project(out / "old.json", "--hardware", "l40s")), "takes one device")
    _unchanged(out)


def test_project_unknown_profile_points_to_the_library(cli, out: Path):
    _one_line(cli(*_project(out / "old.json", acceptance="nope")), "'nope'", "specbook profile library")
    _unchanged(out)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_tables_keep_names_and_numbers_whole(cli, out: Path, monkeypatch, columns: str):
    monkeypatch.setenv("COLUMNS", columns)
    ranking = cli(*_project(out / "t.parquet", "--context", "4096", "--batch", "1,64"))
    assert "speculate" in ranking.out
    assert "4,096" in ranking.out
    assert "a100-sxm4-80gb" in cli("hardware").out
    assert "spec-bench-sps-vicuna-7b-conversation" in cli("profile", "library").out


def test_process_output_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-c", "from specbook.cli import main; main()", "profile", "show", "vllm-48892-mtp-k1"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "specbook: cannot write the output: no space left on device\n"


def test_path_that_the_system_refuses_is_one_line_about_the_path(cli, out: Path):
    outcome = cli("profile", "import", "x" * 5000, "--out", out / "old.json")
    _one_line(outcome, "xxx", "file name too long")
    assert "cannot write the output" not in outcome.err
    _unchanged(out)


def test_profile_import_unknown_format_lists_the_known_ones(cli, out: Path):
    outcome = cli("profile", "import", example_file("spec-bench.jsonl"), "--format", "csv", "--out", out / "p.json")
    _one_line(outcome, "--format = 'csv': no such format; one of auto, ", *FORMATS)
    _unchanged(out)


def test_profile_import_into_a_folder_writes_one_profile_each(cli, out: Path):
    folder = out / "profiles"
    outcome = cli("profile", "import", example_file("spec-bench.jsonl"), "--out", f"{folder}/")
    assert outcome.code == 0
    assert _names(folder) == ["coding.json", "writing.json"]
    assert "wrote 2 profiles into" in outcome.out
    assert {read_profile(folder / name).domain for name in _names(folder)} == {"coding", "writing"}


def test_profile_import_into_a_folder_prints_an_object_of_profiles(cli, out: Path):
    outcome = cli("profile", "import", example_file("spec-bench.jsonl"), "--out", f"{out / 'profiles'}/", "--json")
    document = json.loads(outcome.out)
    assert {name: profile["domain"] for name, profile in document.items()} == {"coding": "coding", "writing": "writing"}


def test_profile_import_only_keeps_what_it_names(cli, out: Path):
    source = example_file("spec-bench.jsonl")
    assert cli("profile", "import", source, "--only", "domain=coding", "--out", out / "p.json").code == 0
    assert read_profile(out / "p.json").domain == "coding"
    _one_line(cli("profile", "import", source, "--only", "coding", "--out", out / "old.json"), "is no NAME=VALUE; ")
    assert (out / "old.json").read_text() == "old"


def test_project_says_that_a_draft_length_was_stated(cli, out: Path):
    source = example_file("spec-bench.jsonl")
    assert cli("profile", "import", source, "--draft-length", 5, "--out", out / "p.json").code == 0
    outcome = cli(*_project(out / "t.parquet", acceptance=out / "p.json"))
    assert "note: acceptance at its own draft length: measured, draft length stated at import" in outcome.out
    assert "measured, draft length stated at import" in pl.read_parquet(out / "t.parquet")["acceptance_assumption"]


@pytest.mark.parametrize("out", ["", "deep/../", "link/"])
def test_profile_import_into_a_folder_above_the_sources(cli, tmp_path: Path, out: str):
    (tmp_path / "deep" / "raw").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    record = {"model_id": "m", "choices": [{"accept_lengths": [3, 1]}]}
    (tmp_path / "deep" / "raw" / "a.jsonl").write_text(json.dumps(record))
    for _ in range(2):
        assert cli("profile", "import", tmp_path / "deep" / "raw", "--out", f"{tmp_path}/{out}").code == 0


def test_profile_import_file_name_that_is_no_text_is_no_traceback(cli, tmp_path: Path):
    source = tmp_path / os.fsdecode(b"\xff.jsonl")
    source.write_text(json.dumps({"choices": [{"accept_lengths": [3, 1]}]}))
    assert cli("profile", "import", tmp_path, "--out", f"{tmp_path}/out.json").code in (0, 2)
    assert cli("profile", "import", source, "--target", "\udcff", "--out", f"{tmp_path}/out.json").code in (0, 2)


def _answers(*categories: str) -> list[dict[str, Any]]:
    return [{"model_id": "m", "category": name, "choices": [{"accept_lengths": [3, 1]}]} for name in categories]


def test_profile_import_notes_are_on_standard_error(cli, save, out: Path):
    outcome = cli("profile", "import", save("a.jsonl", _answers("x", "y")), "--out", out / "p.json")
    notes = read_profile(out / "p.json").warnings
    assert notes
    assert outcome.err.splitlines() == [f"specbook: note: {text}" for text in notes]
    outcome = cli("profile", "import", save("a.jsonl", _answers("x", "y")), "--out", f"{out}/f/")
    assert outcome.err.splitlines()[0].startswith("specbook: note (2 of 2 profiles): the source does not say")


def test_profile_import_folder_twice_gives_the_same(cli, save, tmp_path: Path):
    """What the first time wrote is not read the second time."""
    save("a.jsonl", _answers("x", "y"))
    first = cli("profile", "import", tmp_path, "--out", f"{tmp_path}/out/", "--json")
    second = cli("profile", "import", tmp_path, "--out", f"{tmp_path}/out/", "--json")
    assert first.code == second.code == 0
    assert (first.out, first.err) == (second.out, second.err)
    assert list(json.loads(first.out)) == ["x", "y"]


def test_profile_import_file_named_in_the_output_folder_is_read_and_kept(cli, out: Path):
    source = out / "x.json"
    source.write_text(json.dumps(_answers("x")[0]))
    assert cli("profile", "import", source, "--out", f"{out}/").code == 0
    source.rename(out / "acceptance.json")
    outcome = cli("profile", "import", out / "acceptance.json", "--out", f"{out}/")
    _one_line(outcome, "is one of the files to read; choose another --out")


def test_profile_import_output_is_no_input_by_another_name(cli, save, out: Path):
    source = save("a.jsonl", _answers("x"))
    (out / "link.json").symlink_to(source)
    _one_line(cli("profile", "import", source, "--out", out / "link.json"), "is one of the files to read")
    assert len(source.read_text().splitlines()) == 1


def test_profile_import_filters_add_up(cli, save, out: Path):
    source = save("a.jsonl", _answers("x", "y", "z", "a=b"))
    for wanted, rounds in (
        (("--category", "x", "--category", "y"), 4),
        (("--category", "x", "--only", "domain=y", "--only", "domain=z"), 6),
        (("--only", "domain=a=b"), 2),
    ):
        assert cli("profile", "import", source, *wanted, "--out", out / "p.json").code == 0
        assert read_profile(out / "p.json").n_rounds == rounds


def test_profile_import_infinite_temperature_says_so(cli, out: Path):
    source = example_file("spec-bench.jsonl")
    outcome = cli("profile", "import", source, "--temperature", "inf", "--out", out / "old.json")
    _one_line(outcome, "--temperature = inf: must be finite; 0 is greedy")


def test_profile_import_into_a_folder_that_cannot_take_all_writes_none(cli, out: Path):
    (out / "writing.json").mkdir()
    _one_line(cli("profile", "import", example_file("spec-bench.jsonl"), "--out", f"{out}/"), "is no regular file")
    assert _names(out) == ["old.json", "writing.json"]
