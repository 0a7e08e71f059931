"""The book's parts refer to each other and to nothing that is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
PROSE = [*BOOK.rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]
SOURCES = [*PROSE, *(ROOT / "specbook").rglob("*.py")]


def _toc() -> set[str]:
    document = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter["file"] for part in document["parts"] for chapter in part["chapters"]]
    return {document["root"], *chapters}


def _read(path: Path) -> str:
    """Text of a page or module; of a notebook, its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def _text(paths: list[Path]) -> str:
    return "\n".join(map(_read, paths))


def _bib_keys() -> set[str]:
    return set(re.findall(r"^@\w+\{(\S+),", (BOOK / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))


def test_toc_and_files_agree_both_ways() -> None:
    files = {str(path.relative_to(ROOT).with_suffix("")) for path in PROSE}
    assert _toc() == files


def test_every_citation_has_an_entry_and_every_entry_is_used() -> None:
    cited = {key.strip() for keys in re.findall(r"\{cite\}`([^`]+)`", _text(PROSE)) for key in keys.split(",")}
    named = {key for key in _bib_keys() if re.search(rf"\b{re.escape(key)}\b", _text(SOURCES))}
    assert cited <= _bib_keys()
    assert named == _bib_keys()


def test_docstring_references_are_bibliography_keys() -> None:
    for path in (ROOT / "specbook").rglob("*.py"):
        for block in re.findall(
            r"References\n\s+-+\n(.*?)(?:\n\s*\n|\"\"\")", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            keys = set(
                re.findall(r"\b[a-z]+\d{4,}[a-z]*\b|\b(?:scalingbook|aiconfigurator|specbundle|specforge)\b", block)
            )
            assert keys, f"{path.name}: {block}"
            assert keys <= _bib_keys(), f"{path.name}: {keys - _bib_keys()}"


def test_every_term_is_in_the_glossary() -> None:
    glossary = (BOOK / "glossary.md").read_text(encoding="utf-8")
    entries = {line.strip() for line in re.findall(r"^(?!  )(\S.*)$", glossary, re.MULTILINE)}
    for use in re.findall(r"\{term\}`([^`]+)`", _text(PROSE)):
        name = re.sub(r"\s+", " ", re.sub(r".*<(.+)>", r"\1", use, flags=re.DOTALL))
        assert name in entries, name


def test_notation_gives_each_symbol_once() -> None:
    rows = re.findall(r"^\| (\$[^|]+?) \|", (BOOK / "notation.md").read_text(encoding="utf-8"), re.MULTILINE)
    symbols = [symbol for row in rows for symbol in row.split(", ")]
    assert len(symbols) == len(set(symbols)) > 10


def test_schemas_are_published_and_describe_what_is_written() -> None:
    static = ROOT / "_build" / "html" / "_static"
    for name in (
        "acceptance",
        "hardware",
        "step-times",
        "serving",
        "serving-runs",
        "stage",
        "witness-config",
        "receipt",
        "deployment",
    ):
        schema = json.loads((static / f"specbook-{name}-1.schema.json").read_text(encoding="utf-8"))
        assert schema["properties"]["schema"]["const"] == f"specbook-{name}/1"


@pytest.mark.parametrize("path", [ROOT / "README.md", *PROSE], ids=lambda path: path.name)
def test_prose_names_no_machine_path(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(?:home|root|work|tmp|Users)/", text)
