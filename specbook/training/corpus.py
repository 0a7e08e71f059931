"""The training corpus: code, chat and mathematics as documents, one in twenty held out, with a card that names sources.

Code is the standard library of the Python that runs this. Chat is cut from sources that the reader names by path; see
:mod:`specbook.training.chat`. Mathematics is made here; see :mod:`specbook.training.mathematics`.
"""

from __future__ import annotations

import json
import platform
import re
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from specbook.checks import BadInput
from specbook.files import parse_json, sha256_of, to_json, write_text
from specbook.training.chat import conversations, devils_dictionary, documentation_answers
from specbook.training.documents import HELD_OUT_ONE_IN, Document, split_documents
from specbook.training.mathematics import draw_problems

DOMAINS = ("code", "chat", "mathematics")
SPLITS = ("train", "held_out")

# Tests, tables of characters and vendored packages teach a small model little about code that people write.
_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "__pycache__", "ensurepip", "turtledemo"} | {
    "encodings",
    "lib2to3",
    "pydoc_data",
}
_TOP_LEVEL = re.compile(r"\n(?=(?:def|class|@|async def) )")
_MIN_FILE_CHARACTERS = 400
_PART_CHARACTERS = 1500
_MIN_PART_CHARACTERS = 200
_MAX_PART_CHARACTERS = 6000


def _standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


@dataclass(frozen=True, kw_only=True)
class CorpusSources:
    """Where the corpus comes from; a source that is None is left out.

    Parameters
    ----------
    python_library : Path, optional
        Folder of Python files; the running Python's standard library by default, whose licence is PSF-2.0.
    python_docs : Path, optional
        Folder of the Python documentation's reStructuredText. PSF-2.0.
    devils_dictionary : Path, optional
        ``devil.dict.dz`` of Debian's ``dict-devil``. Public domain.
    chatterbot : Path, optional
        ``data/english`` of chatterbot-corpus. BSD-3-Clause.
    n_mathematics_characters : int
        Characters of generated mathematics.
    """

    python_library: Path | None = field(default_factory=_standard_library)
    python_docs: Path | None = None
    devils_dictionary: Path | None = None
    chatterbot: Path | None = None
    n_mathematics_characters: int = 3_400_000


@dataclass(frozen=True, kw_only=True)
class Source:
    """One source of documents with what a card says of it."""

    name: str
    licence: str
    domain: str
    documents: list[Document]


def collect_sources(sources: CorpusSources, rng: np.random.Generator) -> list[Source]:
    """Read every source that is given.

    Parameters
    ----------
    sources : CorpusSources
    rng : numpy.random.Generator
        Draws the mathematics and the wording of questions.

    Returns
    -------
    list of Source

    Raises
    ------
    BadInput
        If a path holds nothing of its kind.
    """
    found = []

    def add(name: str, licence: str, domain: str, documents: Iterable[Document]) -> None:
        found.append(Source(name=name, licence=licence, domain=domain, documents=list(documents)))

    if sources.python_library is not None:
        own = sources.python_library == _standard_library()
        name = f"standard library of Python {platform.python_version()}" if own else "Python files from a folder"
        add(name, "PSF-2.0" if own else "that of its files", "code", code_documents(sources.python_library))
    if sources.python_docs is not None:
        add("Python documentation", "PSF-2.0", "chat", documentation_answers(sources.python_docs, rng))
    if sources.devils_dictionary is not None:
        add("The Devil's Dictionary", "public domain", "chat", devils_dictionary(sources.devils_dictionary))
    if sources.chatterbot is not None:
        add("chatterbot-corpus", "BSD-3-Clause", "chat", conversations(sources.chatterbot))
    problems = draw_problems(sources.n_mathematics_characters, rng)
    mathematics = (Document(key=problem.question, text=problem.text) for problem in problems)
    add("generated mathematics", "Apache-2.0, part of specbook", "mathematics", mathematics)
    return found


def code_documents(folder: Path) -> Iterator[Document]:
    """Python files, cut between top-level definitions.

    Parameters
    ----------
    folder : Path
        Folder of a standard library. Files with other than ASCII characters, and short ones, are passed over.

    Yields
    ------
    Document
        Parts of 1,500 characters or somewhat more, at most 6,000; the key is the path of the file inside the folder.

    Raises
    ------
    BadInput
        If the folder holds no Python file.
    """
    paths = sorted(path for path in folder.rglob("*.py") if not _LEFT_OUT & set(path.relative_to(folder).parts))
    if not paths:
        raise BadInput("holds no Python file", file=str(folder), remedy="name the folder of a standard library")
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text) >= _MIN_FILE_CHARACTERS and text.isascii():
            for part in _parts_of_module(text):
                yield Document(key=str(path.relative_to(folder)), text=part)


def _parts_of_module(text: str) -> Iterator[str]:
    part = ""
    for definition in _TOP_LEVEL.split(text):
        part = f"{part}\n{definition}" if part else definition
        if len(part) > _PART_CHARACTERS:
            yield part[:_MAX_PART_CHARACTERS]
            part = ""
    if len(part) > _MIN_PART_CHARACTERS:
        yield part


def write_corpus(folder: Path, sources: list[Source], rng: np.random.Generator) -> dict[str, Any]:
    """Write the documents as JSON Lines, a file a domain and split, and the card beside them.

    Parameters
    ----------
    folder : Path
        Receives ``{domain}.{split}.jsonl`` and ``card.json``.
    sources : list of Source
    rng : numpy.random.Generator
        Shuffles the documents of each file.

    Returns
    -------
    dict
        The card: sources with licence, documents and characters; files with SHA-256; the rule of the split.
    """
    files = {}
    for domain in DOMAINS:
        documents = [document for source in sources if source.domain == domain for document in source.documents]
        for split, part in split_documents(documents).items():
            path = folder / f"{domain}.{split}.jsonl"
            shuffled = [part[index] for index in rng.permutation(len(part))]
            write_text(path, "".join(f"{json.dumps({'key': d.key, 'text': _ended(d.text)})}\n" for d in shuffled))
            files[path.name] = _counts(part) | {"sha256": sha256_of(path)}
    card = {
        "schema": "specbook-corpus/1",
        "held_out": f"documents whose key has a SHA-256 that is a multiple of {HELD_OUT_ONE_IN}",
        "sources": [
            {"name": source.name, "licence": source.licence, "domain": source.domain} | _counts(source.documents)
            for source in sources
        ],
        "files": files,
    }
    write_text(folder / "card.json", to_json(card))
    return card


def read_corpus(folder: Path) -> dict[tuple[str, str], list[str]]:
    """Texts by domain and split.

    Parameters
    ----------
    folder : Path
        A folder of :func:`write_corpus`.

    Returns
    -------
    dict of (str, str) to list of str

    Raises
    ------
    BadInput
        If a file is missing or holds other lines.
    """
    return {(domain, split): _texts(folder / f"{domain}.{split}.jsonl") for domain in DOMAINS for split in SPLITS}


def _texts(path: Path) -> list[str]:
    if not path.is_file():
        raise BadInput("is missing", file=str(path), remedy="make the corpus first: python -m specbook.training corpus")
    return [_text_of(parse_json(line, str(path)), path) for line in path.read_bytes().splitlines()]


def _text_of(record: Any, path: Path) -> str:
    text = record.get("text") if isinstance(record, Mapping) else None
    if not isinstance(text, str):
        raise BadInput("is no text", file=str(path), field="text", value=text, remedy="make the corpus again")
    return text


def _ended(text: str) -> str:
    return text.strip("\n") + "\n"


def _counts(documents: list[Document]) -> dict[str, int]:
    return {"documents": len(documents), "characters": sum(len(_ended(document.text)) for document in documents)}
