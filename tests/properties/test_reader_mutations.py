"""Every reader survives damage: an example, mutated, gives a valid profile or one line, and nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbook.acceptance.importing import FORMATS, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.profile import AcceptanceProfile, read_profile, write_profile
from specbook.checks import BadInput

FOLDER = example_file("spec-bench.jsonl").parent
EXAMPLES = sorted(path.name for path in FOLDER.iterdir())

# A hang is a failure: hypothesis counts an example that takes longer as one.
DAMAGE = settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD_TEXT = [
    "",
    "nan",
    "inf",
    "-1",
    "0",
    "1e308",
    "9" * 400,
    "1.5",
    "true",
    "null",
    "\x00",
    "\x1b[31m",
    "\u202e",
    "é" * 50,
]
ODD_VALUES = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 7, 4096, 4097, 2**53 + 1, 10**30, 10**400, 0.0, -0.0, 0.5, 1.0, 1.0000001, 62.5,
        1e308, float("nan"), float("inf"), float("-inf"), "", "3", "0.5", "nan", "\ud800", "\x1b[2J", [], {}, [[]],
        [1, 2], [0.5, 0.4], ["1"], {"0": 1}, {"-1": 1}, {"1e3": 2}, {"9" * 30: 1}, [None], [10**400], {"a": {"b": []}},
    ]
)  # fmt: skip


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [prefix] if prefix else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _paths(inner, (*prefix, key))
    return found


def _parent(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


@st.composite
def damaged_records(draw: st.DrawFn, records: list[Any]) -> list[Any]:
    """Records with up to three fields dropped, replaced, repeated or buried."""
    records = json.loads(json.dumps(records))
    for _ in range(draw(st.integers(1, 3))):
        paths = [path for path in _paths(records) if len(path) > 1]
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        parent, key = _parent(records, path), path[-1]
        match draw(st.sampled_from(["drop", "replace", "repeat", "bury"])):
            case "drop":
                del parent[key]
            case "replace":
                parent[key] = deepcopy(draw(ODD_VALUES))
            case "repeat" if isinstance(parent, list):
                parent.insert(key, parent[key])
            case _:
                for _ in range(draw(st.sampled_from([1, 50]))):
                    parent[key] = [parent[key]]
    return records


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Content with up to three bytes flipped, stretches cut or repeated, or odd words put in."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.sampled_from([1, 2, 10, 100])))
        match draw(st.sampled_from(["flip", "cut", "repeat", "insert", "end"])):
            case "flip":
                content = content[:start] + draw(st.binary(min_size=1, max_size=2)) + content[start + 1 :]
            case "cut":
                content = content[:start] + content[stop:]
            case "repeat":
                content = content[:stop] + content[start:]
            case "insert":
                content = content[:start] + draw(st.sampled_from(ODD_TEXT)).encode() + content[start:]
            case _:
                content = content[:start]
    return content


@st.composite
def damaged_lines(draw: st.DrawFn, content: bytes) -> bytes:
    """Lines dropped, repeated or swapped, and one of their words replaced."""
    lines = content.decode().splitlines()
    for _ in range(draw(st.integers(1, 3))):
        if not lines:
            break
        index = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "repeat", "swap", "word"])):
            case "drop":
                del lines[index]
            case "repeat":
                lines.insert(index, lines[index])
            case "swap":
                lines[index], lines[0] = lines[0], lines[index]
            case _:
                separator = draw(st.sampled_from([" ", ",", ":"]))
                words = lines[index].split(separator)
                words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(ODD_TEXT))
                lines[index] = separator.join(words)
    return "\n".join(lines).encode()


def _check_survival(folder: Path, content: bytes, suffix: str) -> None:
    source, out = folder / f"source{suffix}", folder / "out.json"
    source.write_bytes(content)
    out.write_text("before")
    profiles = [
        *_read(lambda: list(import_profiles([source]).values())),
        *_read(lambda: [import_profile([source])]),
    ]
    for profile in profiles:
        _check_valid(profile, out)
    assert sorted(path.name for path in folder.iterdir()) == sorted(["out.json", source.name])


def _read(read: Callable[[], list[AcceptanceProfile]]) -> list[AcceptanceProfile]:
    """What was read, or nothing if it was refused in one line."""
    refusal = ""
    try:
        return read()
    except BadInput as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
    return []


def _check_valid(profile: AcceptanceProfile, out: Path) -> None:
    """What was read says nothing impossible: it reads back the same, and its figures agree with each other."""
    write_profile(profile, out)
    assert read_profile(out) == profile
    assert profile.mean_acceptance_length is None or profile.mean_acceptance_length >= 1.0
    if profile.n_rounds is not None and profile.n_accepted_tokens is not None:
        expected = 1.0 + profile.n_accepted_tokens / profile.n_rounds
        assert profile.mean_acceptance_length == pytest.approx(expected)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def _records(path: Path) -> list[Any] | None:
    """The records of a JSON example; None for a text format."""
    text = path.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except ValueError:
        try:
            return [json.loads(line) for line in text.splitlines()]
        except ValueError:
            return None
    return document if isinstance(document, list) else [document]


def test_every_format_has_an_example():
    read = {
        origin.format for name in EXAMPLES for p in import_profiles([FOLDER / name]).values() for origin in p.provenance
    }
    assert read == set(FORMATS)


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
@DAMAGE
def test_damaged_bytes_are_a_profile_or_one_line(folder: Path, name: str, data: st.DataObject):
    content = data.draw(damaged_bytes((FOLDER / name).read_bytes()))
    _check_survival(folder, content, Path(name).suffix)


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
@DAMAGE
def test_damaged_lines_are_a_profile_or_one_line(folder: Path, name: str, data: st.DataObject):
    content = data.draw(damaged_lines((FOLDER / name).read_bytes()))
    _check_survival(folder, content, Path(name).suffix)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if _records(FOLDER / name) is not None])
@given(data=st.data())
@DAMAGE
def test_damaged_records_are_a_profile_or_one_line(folder: Path, name: str, data: st.DataObject):
    records = data.draw(damaged_records(_records(FOLDER / name) or []))
    as_lines = "".join(f"{json.dumps(record)}\n" for record in records)
    content = data.draw(st.sampled_from([as_lines, json.dumps(records, indent=1)]))
    _check_survival(folder, content.encode(), Path(name).suffix)
