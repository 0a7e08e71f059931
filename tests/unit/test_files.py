"""Reading and writing the files between the stages."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from specbook.checks import BadInput
from specbook.files import (
    DOCUMENT_LIMIT_BYTES,
    check_readable,
    dump_model,
    parse_json,
    read_json,
    read_model,
    schema_name,
    sha256_of,
    to_json,
    write_atomically,
    write_text,
)


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")

    schema_: Literal["specbook-note/1"] = Field("specbook-note/1", alias="schema")
    lines: list[Annotated[int, Field(ge=0)]]


def test_check_readable_file_returns_its_size(save):
    assert check_readable(save("a.json", b"12345")) == 5


def test_check_readable_directory_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"is a directory; name the file inside it$") as caught:
        check_readable(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: ")


def test_check_readable_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"none\.json: no such file or directory; check the path and its permissions$"):
        check_readable(tmp_path / "none.json")


def test_check_readable_file_used_as_folder_is_refused(save):
    with pytest.raises(BadInput, match=r"not a directory; check the path"):
        check_readable(save("a.json", b"1") / "b.json")


def test_check_readable_empty_file_is_refused(save):
    with pytest.raises(BadInput, match=r"a\.json: is empty; export it again$"):
        check_readable(save("a.json", b""))


def test_check_readable_name_too_long_for_the_system_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"name too long"):
        check_readable(tmp_path / ("x" * 5000))


def test_read_json_document_is_parsed(save):
    assert read_json(save("a.json", {"é": [1, 2.5, None]})) == {"é": [1, 2.5, None]}


def test_read_json_over_the_limit_is_refused_unread(tmp_path: Path):
    path = tmp_path / "huge.json"
    with path.open("wb") as stream:
        stream.truncate(500 * 10**6)
    with pytest.raises(BadInput, match=r"one JSON document of 500 MB, over the limit of 67 MB; export JSON Lines"):
        read_json(path)


def test_document_limit_is_sixty_four_mebibytes():
    assert DOCUMENT_LIMIT_BYTES == 64 * 2**20


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": [1,\n 2', r"is not complete JSON: .* at line 2, column \d+"),
        (b"hello", r"is not complete JSON: Expecting value at line 1, column 1"),
        (b"{} {}", r"is not complete JSON: Extra data at line 1, column 4"),
        (b"", r"is not complete JSON: .*"),
        pytest.param(b"\x00" * 40, r"is not complete JSON: .*", id="nul"),
        (b'{"a": "\xff"}', r"is not UTF-8 text \(byte 7\)"),
        pytest.param(b"[" * 200_000, r"is nested too deeply", id="lists"),
        pytest.param(b'{"a":' * 100_000, r"is nested too deeply", id="objects"),
    ],
)
def test_parse_json_broken_bytes_are_refused(raw: bytes, problem: str):
    with pytest.raises(BadInput, match=rf"^a\.json: {problem}; export the file again as JSON or JSON Lines$"):
        parse_json(raw, "a.json")


def test_parse_json_integer_of_five_thousand_digits_is_refused():
    with pytest.raises(BadInput, match=r"^a\.json: "):
        parse_json(b"[" + b"9" * 5000 + b"]", "a.json")


def test_read_model_good_file_gives_the_model(save):
    assert read_model(save("a.json", {"schema": "specbook-note/1", "lines": [1]}), Note).lines == [1]


@pytest.mark.parametrize("document", [[], [1], '"text"', 3, None])
def test_read_model_document_that_is_no_object_is_refused(save, document: object):
    with pytest.raises(BadInput, match=r"is not a JSON object; expected a specbook-note/1 file$"):
        read_model(save("a.json", document), Note)


@pytest.mark.parametrize("schema", ["specbook-note/2", "specbook-note/1 ", "", None, 1, ["specbook-note/1"]])
def test_read_model_other_schema_is_refused_before_anything_else(save, schema: object):
    with pytest.raises(BadInput, match=r"schema = .*: unknown schema; expected specbook-note/1") as caught:
        read_model(save("a.json", {"schema": schema, "lines": "nonsense"}), Note)
    assert caught.value.field == "schema"


def test_read_model_without_schema_is_refused(save):
    with pytest.raises(BadInput, match=r"schema = None: unknown schema"):
        read_model(save("a.json", {"lines": [1]}), Note)


@pytest.mark.parametrize(
    ("lines", "field", "value", "problem"),
    [
        ([0, -1], "lines.1", "-1", "greater than or equal to 0"),
        ([0, "1"], "lines.1", "'1'", "valid integer"),
        ([True], "lines.0", "True", "valid integer"),
        ([1.0], "lines.0", "1.0", "valid integer"),
        (None, "lines", "None", "valid (array|list)"),
    ],
)
def test_read_model_bad_field_is_named_with_its_value(save, lines: object, field: str, value: str, problem: str):
    path = save("a.json", {"schema": "specbook-note/1", "lines": lines})
    with pytest.raises(BadInput, match=problem) as caught:
        read_model(path, Note)
    assert str(caught.value).startswith(f"{path}: {field} = {value}: ")
    assert "; correct the field" in str(caught.value)


def test_read_model_missing_field_is_named(save):
    with pytest.raises(BadInput, match=r"lines: Field required"):
        read_model(save("a.json", {"schema": "specbook-note/1"}), Note)


def test_read_model_unknown_field_is_named(save):
    with pytest.raises(BadInput, match=r"rate = 0\.5: Extra inputs are not permitted"):
        read_model(save("a.json", {"schema": "specbook-note/1", "lines": [], "rate": 0.5}), Note)


def test_schema_name_is_the_default_of_the_schema_field():
    assert schema_name(Note) == "specbook-note/1"


def test_sha256_of_file_longer_than_a_block_equals_hashlib(save):
    content = b"specbook" * (2**17 + 3)
    assert sha256_of(save("a.bin", content)) == hashlib.sha256(content).hexdigest()


def test_write_atomically_new_file_is_readable_by_all_and_alone(tmp_path: Path):
    write_text(tmp_path / "deep" / "er" / "a.txt", "é\n")
    assert (tmp_path / "deep" / "er" / "a.txt").read_bytes() == "é\n".encode()
    assert (tmp_path / "deep" / "er" / "a.txt").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in (tmp_path / "deep" / "er").iterdir()] == ["a.txt"]


def test_write_atomically_existing_file_is_replaced(save):
    path = save("a.txt", "old")
    write_text(path, "new")
    assert path.read_text() == "new"


def _fail(error: Exception):
    def write(part: Path) -> None:
        part.write_text("half")
        raise error

    return write


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no such column"), KeyError("x")])
def test_write_atomically_failing_writer_leaves_old_file_and_no_part(save, tmp_path: Path, error: Exception):
    path = save("a.txt", "old")
    with pytest.raises((BadInput, type(error))):
        write_atomically(path, _fail(error))
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_write_atomically_full_disk_is_one_line(save):
    with pytest.raises(BadInput, match=r"a\.txt: cannot be written \(no space left on device\); choose another --out$"):
        write_atomically(save("a.txt", "old"), _fail(OSError(28, "No space left on device")))


def test_write_atomically_onto_a_directory_is_refused(tmp_path: Path):
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match=r"out: cannot be written \(is a directory\); choose another --out$"):
        write_text(tmp_path / "out", "x")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_write_atomically_below_a_file_is_refused(save):
    with pytest.raises(BadInput, match=r"cannot be written \(.*\); choose another --out$"):
        write_text(save("file", "x") / "out.json", "y")


def test_write_text_lone_surrogate_is_no_half_file(save):
    path = save("a.txt", "old")
    with pytest.raises(ValueError, match=r"surrogate|cannot be written"):
        write_text(path, "name \ud800")
    assert path.read_text() == "old"


def test_to_json_ends_with_newline_and_keeps_letters():
    assert to_json({"é": 1}) == '{\n "é": 1\n}\n'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_to_json_not_finite_is_refused(value: float):
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json([value])


def test_dump_model_writes_the_schema_under_its_name():
    assert json.loads(dump_model(Note(lines=[1]))) == {"schema": "specbook-note/1", "lines": [1]}


def test_write_text_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_write_text_onto_a_device_is_refused():
    with pytest.raises(BadInput, match=r"/dev/null: cannot be written \(is no regular file\)"):
        write_text(Path("/dev/null"), "text")
    assert not Path("/dev/null").is_file()
