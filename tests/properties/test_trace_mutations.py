"""Every trace survives damage: an example, mutated, gives a valid workload or one line, and never anything else."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbook.checks import BadInput
from specbook.serving.traces import FORMATS, example_trace, read_trace, stream_trace
from specbook.serving.workload import Workload

EXAMPLES = sorted(path.name for path in example_trace("").iterdir())
OBJECTS = [name for name in EXAMPLES if name.endswith((".json", ".jsonl"))]

# A hang is a failure: hypothesis counts an example that takes longer as one.
DAMAGE = settings(deadline=timedelta(seconds=5), suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD_TEXT = st.sampled_from(
    [
        "", "nan", "inf", "-inf", "-1", "0", "-0.0", "1e308", "1e999", "9" * 400, "9" * 5000, "1.5", "1_0", "0x10",
        "true", "null", "\x00", "\x1b[31m", "\u202e", "٣", "é" * 50, '"', '""', '"a', "a\rb", "{", "[", "{}", "[]",
        "2023-02-30 00:00:00", "9999-12-31 23:59:59+23:59", "0001-01-01 00:00:00.9999999",
        "arrived_at,num_prefill_tokens,num_decode_tokens",
    ]
)  # fmt: skip
ODD_VALUES = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2**24, 2**24 + 1, 2**53 + 1, 10**19, 10**30, 10**400, 0.0, -0.0, 0.5, 1e308,
        float("nan"), float("inf"), float("-inf"), "", "3", "failed", "\ud800", [], {}, [[]], [1, 2], [None],
        [10**400, 0.5], [float("nan")] * 3, [9.0, 8.0, 7.0], ["", "", ""], {"start_times": 1},
    ]
)  # fmt: skip


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Content with up to three bytes flipped, stretches cut or repeated, odd words put in, or its end lost."""
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
                content = content[:start] + draw(ODD_TEXT).encode() + content[start:]
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
        match draw(st.sampled_from(["drop", "repeat", "swap", "word", "word"])):
            case "drop":
                del lines[index]
            case "repeat":
                lines.insert(index, lines[index])
            case "swap":
                lines[index], lines[0] = lines[0], lines[index]
            case _:
                separator = draw(st.sampled_from([",", ":"]))
                words = lines[index].split(separator)
                words[draw(st.integers(0, len(words) - 1))] = draw(ODD_TEXT)
                lines[index] = separator.join(words)
    return "\n".join(lines).encode()


@st.composite
def damaged_records(draw: st.DrawFn, records: list[dict[str, Any]]) -> list[Any]:
    """Records with up to three values dropped, replaced, lengthened or buried."""
    records = json.loads(json.dumps(records))
    for _ in range(draw(st.integers(1, 3))):
        record = draw(st.sampled_from(records))
        key = draw(st.sampled_from(sorted(record) or ["timestamp"]))
        match draw(st.sampled_from(["drop", "replace", "inside", "bury"])):
            case "drop":
                record.pop(key, None)
            case "inside" if isinstance(record.get(key), list) and record[key]:
                record[key][draw(st.integers(0, len(record[key]) - 1))] = deepcopy(draw(ODD_VALUES))
            case "bury":
                for _ in range(draw(st.sampled_from([1, 50]))):
                    record[key] = [record.get(key)]
            case _:
                record[key] = deepcopy(draw(ODD_VALUES))
    return records


def _check_survival(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    strict = _read(path, lenient=False)
    lenient = _read(path, lenient=True)
    if strict is None:
        return
    # What a strict reading takes, a lenient one takes whole.
    assert lenient is not None
    assert np.array_equal(strict.arrival_s, lenient.arrival_s)
    assert np.array_equal(strict.output_tokens, lenient.output_tokens)
    pieces = list(stream_trace(path, rows=2))
    assert np.array_equal(np.concatenate([piece.prompt_tokens for piece in pieces]), strict.prompt_tokens)


def _read(path: Path, *, lenient: bool) -> Workload | None:
    """What was read, or nothing if it was refused in one line."""
    trace, refusal = None, ""
    try:
        trace = read_trace(path, lenient=lenient)
    except BadInput as error:
        refusal = str(error)
    if trace is None:
        assert str(path) in refusal
        assert len(refusal.splitlines()) == 1
        return None
    load = trace.workload
    assert trace.format in FORMATS
    assert lenient or not trace.skipped
    assert load.arrival_s[0] == 0.0
    assert np.all(np.diff(load.arrival_s) >= 0.0)
    assert min(load.prompt_tokens.min(), load.output_tokens.min()) >= 1
    return load


def _records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in example_trace(name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
@DAMAGE
def test_damaged_bytes_are_a_workload_or_one_line(tmp_path: Path, name: str, data: st.DataObject):
    _check_survival(tmp_path / "trace", data.draw(damaged_bytes(example_trace(name).read_bytes())))


@pytest.mark.parametrize("name", EXAMPLES)
@given(data=st.data())
@DAMAGE
def test_damaged_lines_are_a_workload_or_one_line(tmp_path: Path, name: str, data: st.DataObject):
    _check_survival(tmp_path / "trace", data.draw(damaged_lines(example_trace(name).read_bytes())))


@pytest.mark.parametrize("name", OBJECTS)
@given(data=st.data())
@DAMAGE
def test_damaged_records_are_a_workload_or_one_line(tmp_path: Path, name: str, data: st.DataObject):
    records = data.draw(damaged_records(_records(name)))
    as_lines = "".join(f"{json.dumps(record)}\n" for record in records)
    content = data.draw(st.sampled_from([as_lines, json.dumps(records, indent=1), json.dumps(records[0], indent=1)]))
    _check_survival(tmp_path / "trace", content.encode())


@given(data=st.data())
@DAMAGE
def test_damaged_packing_is_a_workload_or_one_line(tmp_path: Path, data: st.DataObject):
    packed = gzip.compress(example_trace("azure-llm.csv").read_bytes())
    _check_survival(tmp_path / "trace", data.draw(damaged_bytes(packed)))
