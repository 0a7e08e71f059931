"""``specbook validate``: tables on a terminal, one object with ``--json``, files, and one line for bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from specbook.validation.series import example_series
from tests.validation_cases import HEADER, SERIES

PNG = b"\x89PNG"


def test_a_file_is_predicted_and_compared(cli, save):
    outcome = cli("validate", save("mine.csv", SERIES))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("mine.csv: 8 rows; 6 predicted and compared")
    assert lines[0].endswith("1 lack something; 1 cannot be true or read")
    for start, words in (
        ("win or lose: ", "of 6 rows"),
        ("best draft length: ", "of 2 choices"),
        ("speedup: ", "6 rows"),
    ):
        assert any(line.startswith(start) and words in line for line in lines), start
    assert "not used: line 9, column acc_len_incl_bonus: 7.5" in outcome.out
    assert "--device" in outcome.out
    assert "furthest off" in outcome.out


def test_json_is_one_object_and_nothing_else(cli, save):
    outcome = cli("validate", save("mine.csv", SERIES), "--json", "--worst", 2)
    document = json.loads(outcome.out)
    assert outcome.err == ""
    assert document["schema"] == "specbook-validation/1"
    assert document["series"]["name"] == "mine.csv"
    assert len(document["series"]["sha256"]) == 64
    assert [row["line"] for row in document["rows"]] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert [row["status"] for row in document["rows"]][-2:] == ["incomplete", "impossible"]
    assert document["scores"][0]["n_rows"] == 6
    assert {"line": 9, "column": "acc_len_incl_bonus", "is_fatal": True}.items() <= document["problems"][0].items()
    assert len(document["worst"]) == 2
    assert document["worst"][0]["explanation"]
    assert document["conditions"]


def test_rows_are_written_with_where_they_came_from(cli, save, tmp_path: Path):
    out = tmp_path / "rows.parquet"
    outcome = cli("validate", save("mine.csv", SERIES), "--out", out, "--json")
    document = json.loads(outcome.out)
    assert document["out"] == [str(out)]
    metadata = pl.read_parquet_metadata(out)
    assert metadata["specbook.schema"] == "specbook-validation/1"
    assert json.loads(metadata["specbook.series"]) == document["series"]
    assert json.loads(metadata["specbook.conditions"]) == document["conditions"]
    assert pl.read_parquet(out).to_dicts() == document["rows"]


@pytest.mark.parametrize(("name", "start"), [("a.html", b"<!DOCTYPE html>"), ("a.svg", b"<svg"), ("a.PNG", PNG)])
def test_charts_are_of_the_kind_that_the_name_says(cli, save, tmp_path: Path, name: str, start: bytes):
    outcome = cli("validate", save("mine.csv", SERIES), "--chart", tmp_path / name)
    assert outcome.code == 0
    assert outcome.out.endswith(f"wrote {tmp_path / name}\n")
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("H100", "fits several devices; one of h100-sxm5, h100-pcie"),
        ("8xH200", "--devices 8 is how many"),
        ("frob", "no such device in the catalogue"),
        ("h200.json", "no such file"),
    ],
)
def test_a_device_that_is_unclear_is_refused(cli, save, device: str, said: str):
    outcome = cli("validate", save("mine.csv", SERIES), "--device", device)
    assert outcome.code == 2
    assert said in outcome.err


def test_a_device_goes_by_the_names_that_rows_may_have(cli, save):
    path = save("mine.csv", SERIES.replace("H200", ""))
    found = [cli("validate", path, "--json", "--device", name).out for name in ("NVIDIA H200", "h200-sxm")]
    assert found[0] == found[1]
    assert '"h200-sxm"' in found[0]


def test_standard_input_is_refused_in_one_line(cli):
    outcome = cli("validate", "-")
    assert outcome.code == 2
    assert "standard input: is not read; save the rows to a file" in outcome.err


def test_options_answer_where_rows_do_not_tell_and_only_there(cli, save):
    speeds = "mine,,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,3,1,512,2.9,404,190,tok/s\n"
    told = "mine,H200,SGLang,Llama-3.1-8B-Instruct,EAGLE-3,5,1,512,3.5,447,190,tok/s\n"
    path = save("mine.csv", f"{HEADER}\n{speeds}{told}")
    without = json.loads(cli("validate", path, "--json").out)["rows"]
    stated = json.loads(cli("validate", path, "--json", "--device", "l4").out)["rows"]
    assert [row["device"] for row in without] == [None, "h200-sxm"]
    assert [row["device"] for row in stated] == ["l4", "h200-sxm"]
    assert stated[1]["predicted_speedup"] == without[1]["predicted_speedup"]


def test_the_shipped_series_go_by_a_word(cli):
    document = json.loads(cli("validate", "published", "--json", "--worst", 0).out)
    assert document["scores"][0]["n_rows"] > 150
    assert document["worst"] == []


def test_a_file_of_that_name_goes_by_its_path(cli, save, monkeypatch: pytest.MonkeyPatch):
    path = save("published", SERIES)
    monkeypatch.chdir(path.parent)
    assert cli("validate", "./published").out.startswith("published: 8 rows")


@pytest.mark.parametrize(
    ("cells", "parts"),
    [
        (("H100", "Llama-3.1-8B", 2.9, 404), ("the hardware, such as 'H100'", "--device NAME")),
        (("H200", "", 2.9, 404), ("the target, such as '(empty)'", "--target NAME")),
        (("H200", "Llama-3.1-8B", "", 404), ("the acceptance", "column acc_len_incl_bonus")),
        (("H200", "Llama-3.1-8B", 2.9, 0), ("no row can be used", "line 2, column tok_s")),
    ],
)
def test_without_a_row_to_compare_it_says_what_is_missing(cli, save, tmp_path: Path, cells, parts):
    out, (hardware, target, length, speed) = tmp_path / "o.parquet", cells
    row = f"a,{hardware},SGLang,{target},EAGLE-3,3,1,512,{length},{speed},190,tok/s"
    outcome = cli("validate", save("mine.csv", f"{HEADER}\n{row}\n"), "--out", out, "--json")
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert all(part in outcome.err for part in ("mine.csv: ", *parts)), outcome.err
    assert not out.exists()


def test_what_most_rows_lack_is_named_even_if_their_words_differ(cli, save):
    row = "a,{},SGLang,{},EAGLE-3,3,1,512,2.9,404,190,tok/s"
    lines = [row.format(*names) for names in (("H100", "Foo"), ("A100", "Llama-3.1-8B"), ("CPU", "Foo"))]
    outcome = cli("validate", save("mine.csv", "\n".join([HEADER, *lines])))
    assert "3 of 3 do not tell the hardware" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("none.csv",), "none.csv: no such file or directory"),
        (("FILE", "--device", "abacus"), "--device = 'abacus': no such device in the catalogue"),
        (("FILE", "--precision", "fp3"), "--precision = 'fp3': no such weight format"),
        (("FILE", "--draft-precision", "fp3"), "--draft-precision = 'fp3': no such weight format"),
        (("FILE", "--devices", "0"), "--devices"),
        (("FILE", "--context", "0"), "--context"),
        (("FILE", "--chart", "a.pdf"), "--chart = 'a.pdf': is no kind of chart; name a file that ends in .html"),
        (("FILE", "--out", "FILE"), "is a file to read; choose another --out"),
        (("FILE", "--out", "a.svg", "--chart", "a.svg"), "--chart = 'a.svg': is a file to read"),
    ],
)
def test_bad_input_is_one_line(cli, save, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], problem: str):
    path = save("mine.csv", SERIES)
    monkeypatch.chdir(path.parent)
    outcome = cli("validate", *(str(path) if word == "FILE" else word for word in arguments))
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1)
    assert problem in outcome.err
    assert path.read_text() == SERIES


def test_charts_without_their_packages_are_refused_before_anything_is_read(cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    outcome = cli("validate", "none.csv", "--chart", "a.html")
    assert (outcome.code, outcome.out) == (2, "")
    assert "needs vl_convert; install specbook[book]" in outcome.err


def test_columns_that_are_not_read_and_another_encoding_are_noted(cli, save):
    text = SERIES.replace(HEADER, f"{HEADER},colour").replace("tok/s\n", "tok/s,grün\n")
    outcome = cli("validate", save("mine.csv", text.encode("cp1252")))
    assert outcome.code == 0
    assert "specbook: note: columns that are not read: colour" in outcome.err
    assert "specbook: note: mine.csv was read as cp1252" in outcome.err


def test_hostile_names_are_shown_and_never_acted_on(cli, save):
    hostile = "\x1b[31m[red]x[/red]\u202e"
    outcome = cli("validate", save("mine.csv", SERIES.replace("mine", hostile).replace("yours,,", f"yours,{hostile},")))
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err
    assert "\\x1b[31m[red]x[/red]\\u202e" in outcome.out


def test_the_example_of_the_package_is_one(cli):
    outcome = cli("validate", example_series(), "--worst", 1)
    assert outcome.code == 0
    assert "not used: line 4, column acc_rate: 54.7 is above 1: percent?" in outcome.out
