"""A series as a table of text: separators, encodings, quotes, ragged rows, and files that are none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.validation.series import read_series

Save = Callable[[str, Any], Path]

HEADER = "series,target,batch,tok_s,note\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_read_series_separators_and_line_ends(save: Save, separator: str, end: str):
    text = "series,target,batch,tok_s\na,b,2,3.5\n\n,,,\nc,d,4,5\n".replace(",", separator).replace("\n", end)
    table = read_series(save("a.csv", text))
    assert table.separator == separator
    assert [(row.line, row.series, row.batch, row.tokens_per_s) for row in table.rows] == [
        (2, "a", 2, 3.5),
        (5, "c", 4, 5.0),
    ]


def test_read_series_separator_is_told_by_the_header_and_not_by_the_rows(save: Save):
    table = read_series(save("a.csv", "target;tok_s;note\na;54,7;b,c,d,e,f\n"))
    assert (table.separator, table.rows[0].tokens_per_s, table.rows[0].note) == (";", 54.7, "b,c,d,e,f")


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", "utf-8"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16"), ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32"), ("cp1252", "cp1252"), ("latin-1", "cp1252"),
    ],
)  # fmt: skip
def test_read_series_encodings(save: Save, encoding: str, named: str):
    raw = "target,tok_s,note\nÉtude,3,4×H200 für Öl\n".encode(encoding)
    table = read_series(save("a.csv", raw))
    assert (table.encoding, table.name, table.sha256) == (named, "a.csv", hashlib.sha256(raw).hexdigest())
    assert (table.rows[0].target, table.rows[0].note) == ("Étude", "4×H200 für Öl")


def test_read_series_damaged_utf_8_keeps_the_other_characters(save: Save):
    table = read_series(save("a.csv", "target,tok_s,note\nÉtude,3,×÷é\n".encode() + b"b,4,\xff\xfe\n"))
    assert table.encoding == "utf-8"
    assert [row.note for row in table.rows] == ["×÷é", "\\xff\\xfe"]
    assert [str(problem) for problem in table.problems] == [
        "line 1: 2 bytes of the file are not UTF-8; they are shown escaped; save it as UTF-8"
    ]


def test_read_series_header_behind_comments_and_a_hint_to_a_spreadsheet(save: Save):
    table = read_series(save("a.csv", "sep=;\n# made by hand\n\ntarget;tok_s\na;3\n"))
    assert [(row.line, row.tokens_per_s) for row in table.rows] == [(5, 3.0)]


def test_read_series_quoted_cells(save: Save):
    text = HEADER + '"a, b","say ""c""",2,"3.5","two\nlines"\nd,5" disk,2,4,\n'
    table = read_series(save("a.csv", text))
    assert table.problems == ()
    assert [(row.line, row.series, row.target, row.note) for row in table.rows] == [
        (2, "a, b", 'say "c"', "two\nlines"),
        (4, "d", '5" disk', ""),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a,b,2", "3 cells under 5 names"),
        ("a,b,2,3", "4 cells under 5 names"),
        ("a,b,2,3,c,d", "6 cells under 5 names"),
        ("a,b,2,1,488,c", "6 cells under 5 names"),
        ("\0\0\0\0", "1 cells under 5 names"),
        ('a,"b,2,3,c', "a quote that is not closed"),
        ('a,"b"c,2,3,d', "characters behind one"),
        ("a" * 200_000, "1 cells under 5 names"),
    ],
)
def test_read_series_ragged_row_is_named_and_the_rest_is_read(save: Save, line: str, problem: str):
    table = read_series(save("a.csv", f'{HEADER}good,b,2,3,\n{line}\ngood,b,2,3,"c, d"\ngood,b,2,3,\n'))
    assert [row.line for row in table.rows if row.series == "good"] == [2, 4, 5]
    assert table.problems[0].line == 3
    assert table.problems[0].is_fatal
    assert problem in table.problems[0].problem


def test_read_series_two_quotes_that_are_not_closed_do_not_swallow_the_row_between(save: Save):
    table = read_series(save("a.csv", f'{HEADER}a,"b,2,3,c\ngood,b,2,3,\nd"\ngood,b,2,3,\n'))
    assert [row.line for row in table.rows] == [3, 5]
    assert [problem.line for problem in table.problems] == [2, 4]


def test_read_series_blank_before_a_quote_does_not_matter(save: Save):
    table = read_series(save("a.csv", HEADER + 'a, "b, c", 2, 3, \n'))
    assert (table.rows[0].target, table.rows[0].batch) == ("b, c", 2)


def test_read_series_separators_behind_the_last_cell_do_not_matter(save: Save):
    table = read_series(save("a.csv", "target,tok_s,,\na,3,,\nb,4,,,,\nc,5\n"))
    assert [row.target for row in table.rows] == ["a", "b", "c"]
    assert table.problems == ()


def test_read_series_nul_bytes_in_cells_are_text_or_refused(save: Save):
    table = read_series(save("a.csv", "tar\0get,tok_s\na\0,3\nb,3\0\n"))
    assert [row.target for row in table.rows] == ["a\0"]
    assert str(table.problems[0]) == (
        "line 3, column tok_s: 3\\x00 is not a number; leave the cell empty if nothing was recorded"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n \n", "holds no header"),
        (b"target,tok_s\n", "holds a header and no row"),
        (b"target,tok_s\n,\n\n", "holds a header and no row"),
        (b"target,batch\na,1\n", r"header = \['target', 'batch'\]: is no header of a series"),
        (b"tok_s,K\n3,1\n", "is no header of a series, which has a target or hardware, and tok_s or speedup"),
        (b"1,2,3\n", r"the columns are series,source,hardware,engine,target,drafter,K,batch"),
        (b"hello\x1b[31m\n", r"header = 'hello\\x1b\[31m'"),
        (b"PAR1\x15\x00", "is a Parquet file, not a table of text; save it as CSV"),
        (b"PK\x03\x04", "is a workbook or an archive"),
        (b"\x1f\x8b\x08", "packed with gzip"),
        (json.dumps([{"target": "a", "tok_s": 1}]).encode(), "is JSON"),
        (b'\xef\xbb\xbf {"a": 1}', "is JSON"),
        (b"<html><table>", "markup"),
        (bytes(range(256)) * 9, "is binary, not a table of text"),
        (b"\0" * 500, "is binary"),
        (b"Results of May,,\ntarget,batch,K,tok_s\na,1,2,3\n", "line 1 = .*line 2 seems to name the columns"),
    ],
)
def test_read_series_file_that_is_no_series_is_one_line(save: Save, content: bytes, problem: str):
    with pytest.raises(BadInput, match=problem) as caught:
        read_series(save("a.csv", content))
    assert "a.csv: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_read_series_folder_or_missing_file_is_one_line(tmp_path: Path):
    with pytest.raises(BadInput, match="is a directory"):
        read_series(tmp_path)
    with pytest.raises(BadInput, match="no such file"):
        read_series(tmp_path / "none.csv")
