"""Questions and answers for the training corpus, cut from texts that are free to use.

Each source is a path that the reader names: the reStructuredText of Python's documentation, the Devil's Dictionary as
its dict file, and the conversations of chatterbot-corpus. A document is a short exchange of ``User`` and ``Assistant``.
"""

from __future__ import annotations

import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from specbook.checks import BadInput
from specbook.training.documents import Document

_MAX_ANSWER_CHARACTERS = 900
_MAX_CONVERSATION_CHARACTERS = 2500
_MIN_PARAGRAPH_CHARACTERS = 60
_QUESTIONS = (
    "What does `{}` do?",
    "How is `{}` used?",
    "Explain `{}`.",
    "What is `{}` good for?",
    "Tell me about `{}`.",
)
_OBJECT = re.compile(
    r"^\.\. (?:function|method|class|attribute|data|exception|module):: *([^\n(]+)[^\n]*\n", re.MULTILINE
)
_ROLE = re.compile(r":\w+(?::\w+)?:`[~!]?([^`<]*?)(?:\s*<[^>]*>)?`")
_MARKUP = ("..", ">>>", "::", "*", "|", "+", ":")
_ENTRY = re.compile(r"\n\n([A-Z][A-Z\-' ]+), ((?:n|adj|adv|v|v\.t|v\.i|pp)\.[^\n]*\n(?:[^\n]+\n)*)")


def documentation_answers(folder: Path, rng: np.random.Generator) -> Iterator[Document]:
    """What the Python documentation says of each function, class, constant and module.

    Parameters
    ----------
    folder : Path
        Folder of ``.rst`` or ``.rst.txt`` files, such as ``_sources`` in Debian's ``python3.11-doc``.
    rng : numpy.random.Generator
        Draws the wording of the question.

    Yields
    ------
    Document
        The first two paragraphs as the answer; the key is the name of the object.

    Raises
    ------
    BadInput
        If the folder holds no such file.
    """
    for path in _files(folder, "*.rst", "*.rst.txt"):
        if "whatsnew" in path.parts or "changelog" in path.name:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for found in _OBJECT.finditer(text):
            name, answer = found[1].strip(), _first_paragraphs(text[found.end() :])
            if answer and name.isascii() and answer.isascii():
                question = _QUESTIONS[int(rng.integers(len(_QUESTIONS)))].format(name)
                yield Document(key=name, text=_exchange(question, answer))


def devils_dictionary(path: Path) -> Iterator[Document]:
    """Definitions of the Devil's Dictionary.

    Parameters
    ----------
    path : Path
        The text, compressed as a dict file (``devil.dict.dz``) or plain.

    Yields
    ------
    Document
        One a headword; the key is ``d`` and the headword.

    Raises
    ------
    BadInput
        If the file cannot be read or holds no entry.
    """
    raw = _bytes(path)
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"is no compressed text ({error})", file=str(path), remedy="name devil.dict.dz") from None
    entries = _ENTRY.findall(text)
    if not entries:
        raise BadInput("holds no entry", file=str(path), remedy="name devil.dict.dz of Debian's dict-devil")
    for headword, definition in entries:
        answer = _joined(definition)[:_MAX_ANSWER_CHARACTERS]
        if answer.isascii():
            question = f"How does the Devil's Dictionary define {headword.lower()}?"
            yield Document(key=f"d{headword.title()}", text=_exchange(question, answer))


def conversations(folder: Path) -> Iterator[Document]:
    """Short conversations of chatterbot-corpus.

    Parameters
    ----------
    folder : Path
        ``data/english`` of that package, or any folder of its YAML files.

    Yields
    ------
    Document
        One a conversation; the key is ``c`` and its first line.

    Raises
    ------
    BadInput
        If the folder holds no such file, or one of them is another kind of YAML.
    """
    for path in _files(folder, "*.yml"):
        for turns in _conversations_of(path):
            speakers = itertools.cycle(("User", "Assistant"))
            text = "\n".join(f"{speaker}: {turn}" for speaker, turn in zip(speakers, turns, strict=False))
            if turns and text.isascii() and len(text) < _MAX_CONVERSATION_CHARACTERS:
                yield Document(key=f"c{turns[0]}", text=text)


def _conversations_of(path: Path) -> Iterator[list[str]]:
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        for turns in content["conversations"]:
            yield [str(turn).strip() for turn in turns]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        problem = f"is no list of conversations ({type(error).__name__})"
        raise BadInput(problem, file=str(path), remedy="name data/english of chatterbot-corpus") from None


def _exchange(question: str, answer: str) -> str:
    return f"User: {question}\nAssistant: {answer}"


def _first_paragraphs(after: str, n: int = 2) -> str:
    """The first paragraphs of prose in the indented block of a directive; empty if it has none."""
    block = itertools.takewhile(lambda line: not line.strip() or line.startswith("   "), after.split("\n"))
    body = "\n".join(itertools.dropwhile(str.strip, block))  # other signatures and options end at a blank line
    paragraphs = (_joined(_without_markup(paragraph)) for paragraph in re.split(r"\n\s*\n", body))
    prose = (text for text in paragraphs if len(text) > _MIN_PARAGRAPH_CHARACTERS and not text.startswith(_MARKUP))
    return " ".join(itertools.islice(prose, n))[:_MAX_ANSWER_CHARACTERS]


def _without_markup(text: str) -> str:
    return _ROLE.sub(r"\1", text).replace("``", "`").replace("\\", "")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _files(folder: Path, *patterns: str) -> list[Path]:
    found = sorted(path for pattern in patterns for path in folder.rglob(pattern))
    if not found:
        raise BadInput(f"holds no {' or '.join(patterns)} file", file=str(folder), remedy="check the folder")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be read ({reason})", file=str(path), remedy="check the path") from None
