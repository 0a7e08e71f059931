"""Every value of every example replaced by what a broken exporter writes: a valid profile or one line, no traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.importing import FORMATS, ImportOptions, import_profiles
from specbook.acceptance.library import example_file
from specbook.checks import BadInput

EXAMPLES = sorted(example_file("spec-bench.jsonl").parent.iterdir())
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, -0.0, 0.5, 1.5, 80.0, 1e308, -1e308, 10**9, 2**53, 10**400),
    *(float("nan"), float("inf"), "", "x", "1", "3", "\ud800", "x" * 500, [], [[]], [[[]]], [None], [1, 2], [10**9]),
    *([0.5, 0.9], [[[[1]]]], {}, {"0": 1}, {"1": 1}, {"1": "1"}, {"1": 1.0, "2": 0.5}, {"4096": 1}),
    *({"1000000000": 1}, {"\ud800": 1}, {"x": {"y": {}}}, {"metrics": [{}], "topk": 1}),
)
WORDS = (
    *("", "x", "-1", "0", "1e308", "9" * 400, "nan", "inf", "1_0", "0x10", "５", "true", "{", "[1]", '"', "&a", "*a"),
    *("\x00", "\ud800"),
)


def _document(path: Path) -> Any:
    """An example as JSON: the document, or the list of its first lines; None for a text format."""
    text = path.read_text(encoding="utf-8")
    try:
        return [json.loads(line) for line in text.splitlines()][-2:] if path.suffix == ".jsonl" else json.loads(text)
    except ValueError:
        return None


IN_JSON = [path for path in EXAMPLES if _document(path) is not None]
IN_TEXT = [path for path in EXAMPLES if _document(path) is None]


def _name(path: Path) -> str:
    return path.name


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _holder(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document


def _import(path: Path) -> None:
    """Import; what is refused is refused in one line."""
    message = ""
    try:
        import_profiles([path], ImportOptions(n_replicates=10))
    except BadInput as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize("path", IN_JSON, ids=_name)
def test_any_value_replaced(save, path: Path):
    document = _document(path)
    for place in _places(document):
        for value in JUNK:
            changed = deepcopy(document)
            _holder(changed, place)[place[-1]] = value
            _import(save("a.json", json.dumps(changed)))


@pytest.mark.parametrize("path", IN_JSON, ids=_name)
def test_any_key_left_out(save, path: Path):
    document = _document(path)
    for place in _places(document):
        changed = deepcopy(document)
        del _holder(changed, place)[place[-1]]
        _import(save("a.json", json.dumps(changed)))


@pytest.mark.parametrize("format_name", FORMATS)
def test_deep_nesting_is_one_line(save, format_name: str):
    for content in ('{"T": ' * 100_000, "[" * 100_000 + "]" * 100_000, "(" * 100_000, "a:\n " * 20_000):
        with pytest.raises(BadInput):
            import_profiles([save("a.json", content)], ImportOptions(format=format_name))


@pytest.mark.parametrize("path", IN_TEXT, ids=_name)
def test_any_word_replaced(save, path: Path):
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"[\d.]+|[a-z_]{4,}", text):
        for word in WORDS:
            damaged = text[: match.start()] + word + text[match.end() :]
            _import(save("a.txt", damaged.encode("utf-8", errors="surrogatepass")))


@pytest.mark.parametrize("path", IN_TEXT, ids=_name)
def test_any_line_lost_or_doubled(save, path: Path):
    lines = path.read_text(encoding="utf-8").splitlines()
    for index, line in enumerate(lines):
        for damaged in (lines[:index], lines[:index] + lines[index + 1 :], [*lines[:index], line, *lines[index:]]):
            _import(save("a.txt", "\n".join(damaged)))


@pytest.mark.parametrize("path", EXAMPLES, ids=_name)
def test_an_example_is_claimed_by_its_format_alone(path: Path):
    text = path.read_text(encoding="utf-8")
    lines, records = text.splitlines(), list(_records(text))
    claims = {
        name
        for name, reader in FORMATS.items()
        if any(getattr(reader, "recognises", bool)(record) for record in records if hasattr(reader, "recognises"))
        or any(getattr(reader, "recognises_line", bool)(line) for line in lines if hasattr(reader, "recognises_line"))
    }
    # The same object stands in both: whoever names the engine is tried first.
    assert claims - {"vllm-per-request"} == {path.stem} - {"vllm-per-request"}


def _records(text: str) -> Iterator[Any]:
    try:
        document = json.loads(text)
    except ValueError:
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return
        return
    yield from document if isinstance(document, list) else [document]
