"""A file as a stream of records: documents, lists, JSON Lines, and what a killed run leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbook.acceptance.importing.records import Record, read_records
from specbook.checks import BadInput
from specbook.files import DOCUMENT_LIMIT_BYTES


def _read(path: Path) -> tuple[list[Record], list[str]]:
    warnings: list[str] = []
    return list(read_records(path, warnings.append)), warnings


def test_read_records_json_lines_name_their_line(save):
    path = save("a.jsonl", '{"a": 1}\n\n  \n{"a": 2}\r\n')
    records, warnings = _read(path)
    assert [(record.value, record.where) for record in records] == [
        ({"a": 1}, f"{path} line 1"),
        ({"a": 2}, f"{path} line 4"),
    ]
    assert warnings == []


def test_read_records_json_lines_after_blank_lines_are_recognised(save):
    assert [record.value for record in _read(save("a", '\n\n{"a": 1}\n{"a": 2}\n'))[0]] == [{"a": 1}, {"a": 2}]


def test_read_records_json_lines_without_last_newline_keep_the_last_line(save):
    records, warnings = _read(save("a", '{"a": 1}\n{"a": 2}'))
    assert [record.value for record in records] == [{"a": 1}, {"a": 2}]
    assert warnings == []


def test_read_records_list_names_its_elements(save):
    path = save("a.json", [{"a": 1}, {"a": 2}])
    assert [(record.value, record.where) for record in _read(path)[0]] == [
        ({"a": 1}, f"{path}[0]"),
        ({"a": 2}, f"{path}[1]"),
    ]


@pytest.mark.parametrize("text", ['{"a": 1}', '{\n "a": 1\n}\n', '  {"a":\n1}'])
def test_read_records_one_object_is_one_record(save, text: str):
    assert [record.value for record in _read(save("a.json", text))[0]] == [{"a": 1}]


@pytest.mark.parametrize("tail", [b"\x00" * 3190, b'{"a": 3, "b', b"\xff\xfe", b'{"a":' * 50_000])
def test_read_records_broken_last_line_is_dropped_with_a_warning(save, tail: bytes):
    records, warnings = _read(save("a", b'{"a": 1}\n{"a": 2}\n' + tail))
    assert [record.value for record in records] == [{"a": 1}, {"a": 2}]
    assert warnings == ["line 3, the last, is unreadable and was left out; the 2 before it are used"]


def test_read_records_broken_last_line_before_blank_lines_is_still_the_last(save):
    records, warnings = _read(save("a", '{"a": 1}\n{"a"\n\n \n'))
    assert len(records) == 1
    assert len(warnings) == 1


@pytest.mark.parametrize("middle", [b'{"a": 2', b"\x00\x00", b"hello", b'{"a": "\xff"}'])
def test_read_records_broken_middle_line_is_refused_with_its_number(save, middle: bytes):
    path = save("a", b'{"a": 1}\n' + middle + b'\n{"a": 3}\n')
    with pytest.raises(BadInput, match=r" line 2: is not (complete JSON|UTF-8 text)"):
        _read(path)


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1',
        b"hello\nworld\n",
        b"\x00" * 100,
        b"  \n \n",
        b"\xff\xfe{}",
        b'[{"a": 1},',
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_read_records_nothing_readable_is_refused(save, content: bytes):
    with pytest.raises(BadInput, match=r"is not (complete JSON|UTF-8 text).*; export the file again"):
        _read(save("a", content))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_read_records_deeply_nested_first_line_is_refused(save, opening: str):
    with pytest.raises(BadInput, match="nested too deeply"):
        _read(save("a", opening * 200_000))


def test_read_records_first_line_over_the_limit_is_refused(tmp_path: Path):
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.write(b'{"a": "')
        stream.truncate(500 * 10**6)
    with pytest.raises(BadInput, match=r"huge: line 1 is longer than 67 MB; "):
        _read(path)


def test_read_records_later_line_over_the_limit_is_refused(tmp_path: Path):
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.write(b'{"a": 1}\n')
        stream.truncate(DOCUMENT_LIMIT_BYTES + 100)
    with pytest.raises(BadInput, match=r"line 2 is longer than 67 MB"):
        _read(path)


@pytest.mark.parametrize("content", ['{"a": 1}\n\n{"a": 2}\n', '[{"a": 1}]', '{"a": 1}'])
def test_read_records_progress_adds_up_to_the_file(save, content: str):
    path, seen = save("a", content), []
    list(read_records(path, lambda _: None, seen.append))
    assert sum(seen) == path.stat().st_size


def test_read_records_byte_order_mark_alone_on_the_first_line_is_no_matter(save):
    path = save("a.jsonl", b'\xef\xbb\xbf\n{"a": 1}\n{"a": 2}\n')
    assert [record.value for record in read_records(path, print)] == [{"a": 1}, {"a": 2}]
