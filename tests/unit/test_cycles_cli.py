"""``specbook cycles`` and ``specbook cycles-sweep``: flags, files, one line for bad input."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import simulate_cycles
from specbook.acceptance.draft_models import EntropyAware, FixedAcceptance, PositionDecay
from specbook.acceptance.profile import profile_from_counts, write_profile

SMALL = ("--n-sequences", 20, "--tokens-per-seq", 16)


def _one_line(outcome: Any, *parts: str) -> None:
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith("specbook: ")
    for part in parts:
        assert part in outcome.err


def _json(outcome: Any) -> dict[str, Any]:
    assert (outcome.code, outcome.err) == (0, "")
    document: dict[str, Any] = json.loads(outcome.out)
    return document


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    write_profile(profile_from_counts({3: [10, 20, 30, 40]}, draft_length=3), tmp_path / "p.json")
    return tmp_path / "p.json"


def test_cycles_defaults_are_those_of_the_configuration(cli):
    document = _json(cli("cycles", "--json"))
    assert document == simulate_cycles(CycleConfig(draft_model=FixedAcceptance())).row()
    assert (document["draft_length"], document["acceptance"], document["draft_s"]) == (5, 0.8, 2e-5)
    assert (document["verify_s"], document["n_sequences"]) == (2e-4, 500)
    assert (document["tokens_per_sequence"], document["seed"]) == (128, 42)


FLAGS = {
    "fixed": (("--acceptance-rate", 0.6), FixedAcceptance(acceptance=0.6)),
    "position_decay": (("--decay-base", 0.7, "--decay-factor", 0.8), PositionDecay(base=0.7, factor=0.8)),
    "entropy_aware": (
        ("--entropy-high", 0.9, "--entropy-low", 0.4, "--entropy-frac", 0.2),
        EntropyAware(easy_acceptance=0.9, hard_acceptance=0.4, hard_fraction=0.2),
    ),
}


@pytest.mark.parametrize("name", FLAGS)
def test_cycles_every_flag_reaches_the_simulation(cli, name: str):
    flags, model = FLAGS[name]
    costs = ("--draft-cost-us", 30, "--verify-cost-us", 300, "--k", 3, "--seed", 7)
    document = _json(cli("cycles", "--draft-model", name, *flags, *costs, *SMALL, "--json"))
    config = CycleConfig(
        draft_model=model, draft_length=3, draft_s=3e-5, verify_s=3e-4, n_sequences=20, tokens_per_sequence=16, seed=7
    )
    assert document == simulate_cycles(config).row()


@pytest.mark.parametrize("name", ["position_decay", "entropy_aware"])
def test_cycles_defaults_of_the_other_models(cli, name: str):
    document = _json(cli("cycles", "--draft-model", name, *SMALL, "--json"))
    names = ("base", "factor", "easy_acceptance", "hard_acceptance", "hard_fraction")
    expected = {"position_decay": (0.9, 0.95, None, None, None), "entropy_aware": (None, None, 0.95, 0.5, 0.3)}
    assert tuple(document[key] for key in names) == expected[name]


def test_cycles_without_drafts_is_the_baseline(cli):
    document = _json(cli("cycles", "--k", 0, *SMALL, "--json"))
    assert document["speedup"] == document["expected_speedup"] == 1.0
    assert document["waste"] is None


def test_cycles_table_shows_simulated_and_exact_side_by_side(cli):
    outcome = cli("cycles")
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("simulated", "95 % interval", "exact", "2.4241", "2.4595", "acceptance 0.8", "draft 20 µs"):
        assert word in outcome.out


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_cycles_tables_keep_numbers_whole(cli, monkeypatch, tmp_path: Path, columns: str):
    monkeypatch.setenv("COLUMNS", columns)
    assert "2.4241" in cli("cycles").out
    assert "100 µs" in cli("cycles-sweep", "--out", tmp_path / "f.csv", *SMALL).out


def test_cycles_one_sequence_has_a_table_without_intervals(cli):
    outcome = cli("cycles", "--n-sequences", 1)
    assert outcome.code == 0
    assert "nan" not in outcome.out


def test_cycles_of_a_profile_at_its_length(cli, profile: Path):
    document = _json(cli("cycles", "--draft-model", "empirical", "--profile", profile, "--k", 3, *SMALL, "--json"))
    assert (document["draft_model"], document["source"], document["assume"]) == ("empirical", str(profile), "none")
    assert document["expected_tokens"] == pytest.approx(1 + 0.9 + 0.7 + 0.4)


def test_cycles_of_a_library_profile(cli):
    flags = ("--draft-model", "empirical", "--profile", "vllm-48892-mtp-k8", "--k", 8)
    assert _json(cli("cycles", *flags, *SMALL, "--json"))["expected_tokens"] == pytest.approx(4.4964)


def test_cycles_profile_at_another_length_needs_the_assumption(cli, profile: Path):
    flags = ("cycles", "--draft-model", "empirical", "--profile", profile, "--k", 2, *SMALL)
    _one_line(cli(*flags), "draft_length = 2: ", "measured at K = 3", "--assume truncation")
    document = _json(cli(*flags, "--assume", "truncation", "--json"))
    assert (document["assume"], document["expected_tokens"]) == ("truncation", pytest.approx(2.6))
    _one_line(cli(*flags[:-6], "--k", 4, "--assume", "truncation"), "the profile holds 3 positions")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--draft-model", "empirical"), ("--profile = None", "together")),
        (("--profile", "vllm-48892-mtp-k8"), ("--profile = 'vllm-48892-mtp-k8'", "together")),
        (("--draft-model", "empirical", "--profile", "nope"), ("'nope': no such profile in the library",)),
        (("--draft-model", "empirical", "--profile", "./none.json"), ("none.json: no such file",)),
        (("--draft-model", "empirical", "--profile", "spec-bench-eagle-vicuna-7b"), ("tree drafter",)),
        (("--draft-model", "empirical", "--profile", "\x1b[31m"), ("\\x1b[31m",)),
    ],
)
def test_cycles_bad_profile_is_one_line(cli, flags: tuple[str, ...], parts: tuple[str, ...]):
    _one_line(cli("cycles", *flags), *parts)


RATES = ("--acceptance-rate", "--decay-base", "--decay-factor", "--entropy-high", "--entropy-low", "--entropy-frac")
BAD_VALUES = [
    *((option, value, option) for option in RATES for value in ("-0.1", "1.1", "nan", "inf")),
    *(("--draft-cost-us", value, "--draft-cost-us") for value in ("-1", "nan", "inf", "1e300")),
    *(("--verify-cost-us", value, "--verify-cost-us") for value in ("0", "-1", "nan", "inf", "1e-300")),
    *(("--k", value, "--k") for value in ("-1", "4097", "1.5", "x", "9" * 400)),
    *(("--n-sequences", value, "--n-sequences") for value in ("0", "-1", str(10**12), "9" * 400)),
    *(("--tokens-per-seq", value, "--tokens-per-seq") for value in ("0", "1000000", str(10**12))),
    *(("--seed", value, "--seed") for value in ("-1", str(2**64), "x")),
    ("--n-sequences", str(2**24), "must be at most 16,777,216"),
    ("--draft-model", "oracle", "--draft-model"),
]


@pytest.mark.parametrize(("option", "value", "part"), BAD_VALUES)
def test_cycles_bad_value_is_one_line(cli, option: str, value: str, part: str):
    _one_line(cli("cycles", option, value), part)


def test_cycles_too_much_work_is_one_line(cli):
    _one_line(cli("cycles", "--n-sequences", 10**6, "--tokens-per-seq", 10**4), "at most 1,000,000,000", "fewer")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--verify-cost-us", "0"), ("--verify-cost-us", "nan"), ("--n-sequences", "0"), ("--tokens-per-seq", "0"),
     ("--seed", "-1"), ("--n-sequences", str(2**24)), ("--varies", "none")],
)  # fmt: skip
def test_cycles_sweep_bad_value_is_one_line_and_writes_nothing(cli, tmp_path: Path, option: str, value: str):
    _one_line(cli("cycles-sweep", "--out", tmp_path / "f.csv", option, value))
    assert list(tmp_path.iterdir()) == []


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_summary_appends_rows_under_one_header(cli, tmp_path: Path, profile: Path):
    path = tmp_path / "s.csv"
    empirical = ("--draft-model", "empirical", "--profile", profile, "--k", 3)
    for flags in ((), ("--k", 0), ("--draft-model", "entropy_aware"), empirical):
        outcome = cli("cycles", *flags, *SMALL, "--summary-out", path)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"appended to {path}" in outcome.out
    rows = _rows(path)
    assert [row["draft_model"] for row in rows] == ["fixed", "fixed", "entropy_aware", "empirical"]
    assert (rows[0]["draft_length"], rows[1]["draft_length"], rows[1]["waste"]) == ("5", "0", "")
    assert path.read_text().count("\n") == 5
    assert pl.read_csv(path).height == 4


def test_summary_says_in_json_where_it_went(cli, tmp_path: Path):
    path = tmp_path / "new" / "s.csv"
    document = _json(cli("cycles", *SMALL, "--summary-out", path, "--json"))
    assert document["summary_out"] == str(path)
    assert float(_rows(path)[0]["speedup"]) == document["speedup"]


def test_summary_begins_an_empty_file_and_ends_an_open_line(cli, tmp_path: Path):
    path = tmp_path / "s.csv"
    path.touch()
    assert cli("cycles", *SMALL, "--summary-out", path).code == 0
    path.write_text(path.read_text().rstrip("\n"))
    assert cli("cycles", *SMALL, "--summary-out", path).code == 0
    assert len(_rows(path)) == 2


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00", b"\n", b"draft_model\n"])
def test_summary_another_table_is_left_alone(cli, tmp_path: Path, content: bytes):
    path = tmp_path / "s.csv"
    path.write_bytes(content)
    _one_line(cli("cycles", *SMALL, "--summary-out", path), "s.csv", "columns are not those", "--summary-out")
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["s.csv"]


def test_summary_that_cannot_be_written_is_one_line(cli, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    _one_line(cli("cycles", *SMALL, "--summary-out", tmp_path), "is a directory")
    _one_line(cli("cycles", *SMALL, "--summary-out", tmp_path / "file" / "s.csv"), "s.csv")
    with (tmp_path / "huge.csv").open("wb") as stream:
        stream.truncate(10**9)
    _one_line(cli("cycles", *SMALL, "--summary-out", tmp_path / "huge.csv"), "over the limit of 67 MB")


def test_summary_survives_a_failure_while_writing(cli, tmp_path: Path, monkeypatch):
    path = tmp_path / "s.csv"
    assert cli("cycles", *SMALL, "--summary-out", path).code == 0
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    _one_line(cli("cycles", *SMALL, "--summary-out", path), "no space left on device")
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["s.csv"]


def test_sweep_writes_576_rows_and_says_what_they_hold(cli, tmp_path: Path):
    outcome = cli("cycles-sweep", "--out", tmp_path / "f.csv", "--n-sequences", 50)
    assert (outcome.code, outcome.err) == (0, "")
    frame = pl.read_csv(tmp_path / "f.csv")
    assert frame.height == 576
    for word in ("fastest: ", "of 576", "exact 80", "fastest K of the fixed model", f"wrote {tmp_path / 'f.csv'}"):
        assert word in outcome.out


def test_sweep_csv_and_parquet_hold_the_same_table(cli, tmp_path: Path):
    for name in ("f.csv", "f.parquet"):
        assert cli("cycles-sweep", "--out", tmp_path / name, *SMALL).code == 0
    parquet = pl.read_parquet(tmp_path / "f.parquet")
    assert pl.read_csv(tmp_path / "f.csv", schema=parquet.schema).equals(parquet)


def test_sweep_json_is_one_object(cli, tmp_path: Path):
    flags = ("--seed", 3, "--verify-cost-us", 100, "--varies", "every", *SMALL)
    document = _json(cli("cycles-sweep", "--out", tmp_path / "f.csv", *flags, "--json"))
    frame = pl.read_csv(tmp_path / "f.csv", infer_schema_length=None)
    assert document["n_configurations"] == frame.height == 576
    assert document["config"]["seed"] == 3
    assert document["config"]["varies"] == "every"
    assert document["config"]["verify_s"] == pytest.approx(1e-4)
    assert document["best"]["speedup"] == frame["speedup"].max()
    assert document["n_losing"] == (frame["speedup"] < 1 - 1e-9).sum()
    assert frame["cost_ratio"].max() == 1.0


def test_sweep_unwritable_out_is_one_line(cli, tmp_path: Path):
    _one_line(cli("cycles-sweep", "--out", tmp_path, *SMALL), "cannot be written (is a directory)")


def test_help_names_the_commands(cli):
    outcome = cli("--help")
    assert all(name in outcome.out for name in ("cycles", "cycles-sweep"))
    assert "--entropy-frac" in cli("cycles", "--help").out


def test_summary_whose_last_line_breaks_off_is_left_alone(cli, tmp_path: Path):
    path = tmp_path / "s.csv"
    assert cli("cycles", *SMALL, "--summary-out", path).code == 0
    broken = path.read_bytes()[:-60]
    path.write_bytes(broken)
    _one_line(cli("cycles", *SMALL, "--summary-out", path), "s.csv", "its last line breaks off; complete or delete")
    assert path.read_bytes() == broken


def test_summary_into_parquet_is_refused(cli, tmp_path: Path):
    path = tmp_path / "s.PARQUET"
    _one_line(cli("cycles", *SMALL, "--summary-out", path), "rows are appended to CSV; name a .csv file")
    assert not path.exists()


def test_summary_of_many_processes_at_once_has_every_row(tmp_path: Path):
    path = tmp_path / "s.csv"
    program = "from specbook.cli import main; main()"
    command = [sys.executable, "-c", program, "cycles", *map(str, SMALL), "--summary-out", str(path)]
    running = [subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.DEVNULL) for seed in range(8)]
    assert [process.wait() for process in running] == [0] * 8
    assert sorted(int(row["seed"]) for row in _rows(path)) == list(range(8))
    assert [item.name for item in tmp_path.iterdir()] == ["s.csv"]


def test_cycles_sweep_of_too_many_steps_is_one_line(cli, tmp_path: Path):
    outcome = cli("cycles-sweep", "--out", tmp_path / "s.csv", "--n-sequences", 2, "--tokens-per-seq", 100_000)
    _one_line(outcome, "configurations × tokens_per_sequence must lie in [1, 10,000,000]")


def test_cycles_sweep_json_has_means_of_each_draft_model(cli, tmp_path: Path):
    outcome = cli("cycles-sweep", "--out", tmp_path / "s.csv", "--n-sequences", 20, "--json")
    means = json.loads(outcome.out)["mean_speedup_by_cost_ratio"]
    assert list(means) == ["fixed", "position_decay", "entropy_aware"]
    fixed = [row["mean_speedup"] for row in means["fixed"]]
    assert fixed == pytest.approx([2.549, 2.099, 1.426, 0.960], rel=0.02)
