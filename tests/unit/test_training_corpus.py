"""The training corpus: what is cut from each source, what is passed over, and what is held out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.files import sha256_of
from specbook.training.chat import conversations, devils_dictionary, documentation_answers
from specbook.training.corpus import (
    CorpusSources,
    code_documents,
    collect_sources,
    read_corpus,
    write_corpus,
)
from specbook.training.documents import is_held_out, split_documents

RST = """:mod:`lantern` --- Light
========================

.. function:: ignite(fuel, *, wick=None)
              kindle(fuel)

   Light the lantern with *fuel*, and return a :class:`~lantern.Flame` that burns until ``extinguish()`` is called.

   .. versionchanged:: 3.2
      Added *wick*, which is as long a paragraph as any other but belongs to a directive.

   The optional *wick* is taken for :term:`granted <default>` when nothing is given, whatever the fuel may be.

   A third paragraph of prose which is long enough to be taken, but two are all that an answer has.

.. function:: extinguish()

   Short.

.. data:: WICKS

   Names of every wick that is known here, in the order in which they were first burnt by somebody.
"""

DICTIONARY = """A PREFACE that is no entry.

LANTERN, n.  A device that shows the way
   to those who know it.

Dusk, which is no entry, since its word is not in capitals.

TO WANDER, v.i.  To walk in company of
one's shoes.

"""

YAML = """categories:
- light
conversations:
- - Is it dark?
  - It is.
  - Then light it.
- - Où est la lampe?
  - Ici.
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder like a standard library."""
    folder = tmp_path / "library"
    (folder / "tests").mkdir(parents=True)
    (folder / "deep").mkdir()
    definition = "def light(level):\n    return level * 2  # a line of code that says little\n\n\n"
    (folder / "lamp.py").write_text("import math\n\n\n" + definition * 40)
    (folder / "deep" / "wick.py").write_text(definition * 8)
    (folder / "long.py").write_text("VALUES = [\n" + "    0,\n" * 2000 + "]\n")
    (folder / "short.py").write_text("x = 1\n")
    (folder / "accents.py").write_text("# é\n" + definition * 8, encoding="utf-8")
    (folder / "tests" / "test_lamp.py").write_text(definition * 8)
    return folder


def test_code_documents_are_cut_at_definitions_and_keep_their_file(library: Path):
    documents = list(code_documents(library))
    assert {document.key for document in documents} == {"lamp.py", "deep/wick.py", "long.py"}
    lamp = [document.text for document in documents if document.key == "lamp.py"]
    assert "\n".join(lamp) == (library / "lamp.py").read_text()
    assert all(text.startswith(("import", "def")) and len(text) < 1700 for text in lamp)


def test_code_documents_are_cut_short_where_nothing_can_be_split(library: Path):
    assert [len(document.text) for document in code_documents(library) if document.key == "long.py"] == [6000]


def test_code_documents_without_python_files_are_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"holds no Python file; name the folder of a standard library$"):
        list(code_documents(tmp_path))


def test_documentation_answers_are_two_paragraphs_without_markup(tmp_path: Path):
    (tmp_path / "lantern.rst.txt").write_text(RST)
    found = {document.key: document.text for document in documentation_answers(tmp_path, np.random.default_rng(0))}
    assert found.keys() == {"ignite", "WICKS"}
    question, answer = found["ignite"].split("\n")
    assert question.startswith("User: ")
    assert "`ignite`" in question
    assert answer == (
        "Assistant: Light the lantern with *fuel*, and return a lantern.Flame that burns until `extinguish()` is "
        "called. The optional *wick* is taken for granted when nothing is given, whatever the fuel may be."
    )


def test_documentation_answers_pass_over_what_is_new(tmp_path: Path):
    (tmp_path / "whatsnew").mkdir()
    (tmp_path / "whatsnew" / "lantern.rst").write_text(RST)
    assert list(documentation_answers(tmp_path, np.random.default_rng(0))) == []


def test_documentation_answers_without_files_are_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"holds no \*\.rst or \*\.rst\.txt file; check the folder$"):
        list(documentation_answers(tmp_path / "none", np.random.default_rng(0)))


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["dictzip", "plain"])
def test_devils_dictionary_entries(tmp_path: Path, pack: Callable[[bytes], bytes]):
    path = tmp_path / "devil.dict.dz"
    path.write_bytes(pack(DICTIONARY.encode()))
    first, second = devils_dictionary(path)
    assert (first.key, second.key) == ("dLantern", "dTo Wander")
    assert first.text == (
        "User: How does the Devil's Dictionary define lantern?\n"
        "Assistant: n. A device that shows the way to those who know it."
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"nothing here", "holds no entry"),
        (gzip.compress(DICTIONARY.encode())[:-9], "is no compressed text"),
        (b"\x1f\x8b\x08\x00damaged bytes", "is no compressed text"),
    ],
)
def test_devils_dictionary_damaged_is_refused(tmp_path: Path, content: bytes, problem: str):
    path = tmp_path / "devil.dict.dz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=rf"{path.name}: {problem}") as refused:
        list(devils_dictionary(path))
    assert "\n" not in str(refused.value)


def test_devils_dictionary_missing_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"cannot be read \(no such file or directory\); check the path$"):
        list(devils_dictionary(tmp_path / "none"))


def test_conversations_take_turns_and_stay_ascii(tmp_path: Path):
    (tmp_path / "light.yml").write_text(YAML, encoding="utf-8")
    (document,) = conversations(tmp_path)
    assert document.key == "cIs it dark?"
    assert document.text == "User: Is it dark?\nAssistant: It is.\nUser: Then light it."


@pytest.mark.parametrize("content", ["- 1\n", "conversations: 3\n", "a: [\n", "conversations:\n- 5\n", "\xff"])
def test_conversations_of_another_kind_are_refused(tmp_path: Path, content: str):
    (tmp_path / "light.yml").write_text(content, encoding="latin-1")
    with pytest.raises(BadInput, match=r"light\.yml: is no list of conversations \(\w+\); name data/english"):
        list(conversations(tmp_path))


@pytest.fixture
def sources(tmp_path: Path, library: Path) -> CorpusSources:
    """A source of every kind, tiny."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lantern.rst").write_text(RST)
    (tmp_path / "devil").write_text(DICTIONARY)
    (tmp_path / "bot").mkdir()
    (tmp_path / "bot" / "light.yml").write_text(YAML, encoding="utf-8")
    return CorpusSources(
        python_library=library,
        python_docs=tmp_path / "docs",
        devils_dictionary=tmp_path / "devil",
        chatterbot=tmp_path / "bot",
        n_mathematics_characters=20_000,
    )


def test_collect_sources_name_their_licences(sources: CorpusSources):
    found = collect_sources(sources, np.random.default_rng(0))
    assert [(source.licence, source.domain) for source in found] == [
        ("that of its files", "code"),
        ("PSF-2.0", "chat"),
        ("public domain", "chat"),
        ("BSD-3-Clause", "chat"),
        ("Apache-2.0, part of specbook", "mathematics"),
    ]


def test_collect_sources_by_default_are_the_standard_library_and_mathematics():
    defaults = CorpusSources()
    assert (defaults.python_docs, defaults.devils_dictionary, defaults.chatterbot) == (None, None, None)
    assert defaults.python_library is not None
    assert (defaults.python_library / "functools.py").is_file()


def test_corpus_is_written_with_a_card_and_read_back(tmp_path: Path, sources: CorpusSources):
    rng = np.random.default_rng(0)
    card = write_corpus(tmp_path / "corpus", collect_sources(sources, rng), rng)
    assert json.loads((tmp_path / "corpus" / "card.json").read_text()) == card
    corpus = read_corpus(tmp_path / "corpus")
    assert len(corpus) == len(card["files"]) == 6
    for (domain, split), texts in corpus.items():
        counts = card["files"][f"{domain}.{split}.jsonl"]
        assert counts["documents"] == len(texts)
        assert counts["characters"] == sum(map(len, texts))
        assert counts["sha256"] == sha256_of(tmp_path / "corpus" / f"{domain}.{split}.jsonl")
        assert all(text.endswith("\n") and not text.startswith("\n") for text in texts)
    assert corpus["mathematics", "train"]
    assert corpus["mathematics", "held_out"]


def test_corpus_same_seed_same_files(tmp_path: Path, sources: CorpusSources):
    cards = []
    for name in ("first", "second"):
        rng = np.random.default_rng(7)
        cards.append(write_corpus(tmp_path / name, collect_sources(sources, rng), rng))
    assert cards[0] == cards[1]


def test_corpus_holds_out_whole_files_and_no_training_document(tmp_path: Path, sources: CorpusSources):
    rng = np.random.default_rng(0)
    write_corpus(tmp_path / "corpus", collect_sources(sources, rng), rng)
    for path in (tmp_path / "corpus").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            assert is_held_out(json.loads(line)["key"]) == ("held_out" in path.name)


@pytest.mark.parametrize("line", ["[]", '{"text": 3}', '{"text": "cut of', "{}"])
def test_read_corpus_other_lines_are_refused(tmp_path: Path, sources: CorpusSources, line: str):
    rng = np.random.default_rng(0)
    write_corpus(tmp_path / "corpus", collect_sources(sources, rng), rng)
    (tmp_path / "corpus" / "chat.train.jsonl").write_text(f"{line}\n")
    with pytest.raises(BadInput, match=r"chat\.train\.jsonl: ") as refused:
        read_corpus(tmp_path / "corpus")
    assert "\n" not in str(refused.value)


def test_read_corpus_before_it_is_made_is_refused(tmp_path: Path):
    with pytest.raises(BadInput, match=r"code\.train\.jsonl: is missing; make the corpus first"):
        read_corpus(tmp_path)


def test_held_out_is_one_in_twenty_and_depends_on_the_key_alone():
    share = np.mean([is_held_out(str(number)) for number in range(20_000)])
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert is_held_out("functools.py")


def test_split_documents_keeps_keys_together(library: Path):
    parts = split_documents(code_documents(library))
    keys = [{document.key for document in part} for part in parts.values()]
    assert not keys[0] & keys[1]
