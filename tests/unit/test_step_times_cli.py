"""``specbook steps``: tables on a terminal, one object with ``--json``, one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbook.hardware.step_times import read_step_times
from tests import step_time_files as files


def test_steps_import_writes_shows_and_notes(cli, save, tmp_path: Path):
    out = tmp_path / "s.json"
    outcome = cli(
        "steps", "import", save("a.txt", files.BATCHED), "--model", "7B", "--only", "context=192", "--out", out
    )
    assert outcome.code == 0
    assert read_step_times(out).model == "7B"
    assert "context 192" in outcome.out
    assert "24.05" in outcome.out
    assert "68.76" in outcome.out
    assert outcome.out.endswith(f"wrote {out}\n")
    assert "specbook: note: a pass stands at PP + TG ÷ 2" in outcome.err


def test_steps_import_json_is_the_file(cli, save, tmp_path: Path):
    out = tmp_path / "s.json"
    outcome = cli("steps", "import", save("a.json", files.COSTS), "--context", 512, "--out", out, "--json")
    document = json.loads(outcome.out)
    assert document == json.loads(out.read_text())
    assert document["schema"] == "specbook-step-times/1"
    assert [round(point["seconds"], 3) for point in document["points"][:3]] == [1.0, 1.21, 1.419]


def test_steps_show_is_width_by_batch_at_each_context(cli, save, tmp_path: Path):
    cli("steps", "import", save("a.csv", files.TABLE), "--out", tmp_path / "s.json")
    lines = [line.split() for line in cli("steps", "show", tmp_path / "s.json").out.splitlines()]
    assert ["width", "batch", "1", "batch", "8"] in lines
    assert ["4", "13", "19"] in lines
    assert ["4", "14", "23"] in lines
    shown = json.loads(cli("steps", "show", tmp_path / "s.json", "--json").out)
    assert len(shown["points"]) == 8


def test_steps_show_names_settings_of_rounds_and_holes(cli, save, tmp_path: Path):
    outcome = cli("steps", "import", save("a.jsonl", files.SGLANG), "--out", tmp_path / "s.json")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["width", "steps", "top-k", "batch", "1", "batch", "8"] in lines
    assert ["4", "3", "1", "11", "18"] in lines
    assert ["16", "5", "4", "20", "–"] in lines


def test_steps_show_breaks_many_batches_into_tables(cli, save, tmp_path: Path):
    rows = "".join(f"{batch},512,1,{9 + batch}\n" for batch in range(1, 33))
    cli("steps", "import", save("a.csv", "batch,context,width,ms\n" + rows), "--out", tmp_path / "s.json")
    outcome = cli("steps", "show", tmp_path / "s.json")
    assert outcome.out.count("width") == 4
    assert all(f"batch {batch}" in outcome.out for batch in (1, 10, 11, 32))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("none.csv",), "none.csv: no such file or directory"),
        (("FILE", "--format", "xml"), "--format = 'xml': no such format; one of auto, sglang-bench-speculative"),
        (("FILE", "--only", "context"), "--only = 'context': is no AXIS=NUMBER; such as --only context=4096"),
        (("FILE", "--only", "context=x"), "--only = 'context=x': is no AXIS=NUMBER"),
        (("FILE", "--only", "depth=3"), "--only = 'depth': no such axis"),
        (("FILE", "--context", "512"), "--context = 512: the file says it: 4,096, 512"),
        (("FILE", "--context", "-1"), "--context"),
        (("FILE", "--series", "x"), "--series = 'x': no such series"),
        (("FILE", "--model", ""), "--model = '': must be a name"),
    ],
)
def test_steps_import_bad_input_is_one_line_and_writes_nothing(
    cli, save, tmp_path: Path, arguments: tuple[str, ...], problem: str
):
    path = save("a.csv", files.TABLE)
    words = [str(path) if word == "FILE" else word for word in arguments]
    outcome = cli("steps", "import", *words, "--out", tmp_path / "s.json")
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert problem in outcome.err
    assert not (tmp_path / "s.json").exists()


def test_steps_import_does_not_write_over_its_source(cli, save):
    path = save("a.csv", files.TABLE)
    outcome = cli("steps", "import", path, "--out", path)
    assert outcome.code == 2
    assert "--out = " in outcome.err
    assert path.read_text() == files.TABLE


def test_steps_show_of_another_file_is_one_line(cli, save):
    outcome = cli("steps", "show", save("a.json", {"schema": "specbook-acceptance/1"}))
    assert (outcome.code, outcome.out) == (2, "")
    assert "expected specbook-step-times/1" in outcome.err


def test_steps_alone_prints_its_help(cli):
    outcome = cli("steps")
    assert outcome.code == 0
    assert "import" in outcome.out
    assert "show" in outcome.out


def test_hostile_names_are_shown_and_never_acted_on(cli, save, tmp_path: Path):
    records = [files.BENCH_RECORD | {"model_type": "\x1b[31m[red]x[/red]\u202e"}]
    outcome = cli("steps", "import", save("a.json", records), "--out", tmp_path / "s.json")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    assert "\\x1b[31m[red]x[/red]\\u202e" in outcome.out
