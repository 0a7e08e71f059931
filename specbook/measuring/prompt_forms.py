"""What a record of each known kind of prompt file holds, and how it becomes a prompt.

A record is one of: ours (``id``, ``domain``, ``text``), HumanEval (``task_id``, ``prompt``), Spec-Bench and MT-Bench
(``question_id``, ``turns``; specbench), GSM8K (``question``, ``answer``), ShareGPT (``conversations``), or anything
with a ``prompt`` or ``text``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from specbook.checks import BadInput
from specbook.measuring.prompt_records import Record

_LONGEST_NAME = 512
_MEND = "correct the record or make the file again"
_DOMAIN_OF_CATEGORY = {
    "math": "mathematics",
    "math_reasoning": "mathematics",
    "coding": "code",
    "summarization": "summarisation",
}
_HUMAN = ("human", "user")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A text to be continued.

    Attributes
    ----------
    identifier : str
        Name of the prompt, which no other prompt of its file has.
    domain : str or None
        What it is about: code, mathematics, chat, summarisation, …; None if nobody says.
    text : str
        The prompt as it is given to a model; not blank.
    templated : bool or None
        Whether it follows a sentence pattern that the shipped models were trained on, with other values; None if
        nobody says.

    Raises
    ------
    ValueError
        If the text is blank.

    Examples
    --------
    >>> Prompt(identifier="a", domain="code", text="def f(x):").text
    'def f(x):'
    """

    identifier: str
    domain: str | None
    text: str
    templated: bool | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError(f"text must not be blank; got {self.text!r}")


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of record: the fields that tell it, and how it becomes a prompt; None is a record that holds none."""

    keys: tuple[str, ...]
    read: Callable[[Record], Prompt | None]
    states_domain: bool = False

    def tells(self, fields: dict[str, Any]) -> bool:
        """Whether a record of these fields is of this form."""
        return all(key in fields for key in self.keys)

    def prompt(self, record: Record) -> Prompt | None:
        """The record as a prompt.

        Raises
        ------
        BadInput
            If a field is missing, empty or of the wrong type.
        """
        for key in self.keys:
            if key not in record.fields:
                raise BadInput("is missing", file=record.where, field=key, remedy=_MEND)
        return self.read(record)


def _own(record: Record) -> Prompt:
    templated = record.fields.get("templated")
    if templated is not None and not isinstance(templated, bool):
        raise BadInput("must be true or false", file=record.where, field="templated", value=templated, remedy=_MEND)
    return Prompt(
        identifier=_name(record, "id"),
        domain=_text(record, "domain"),
        text=_text(record, "text"),
        templated=templated,
    )


def _human_eval(record: Record) -> Prompt:
    return Prompt(identifier=_name(record, "task_id"), domain="code", text=_text(record, "prompt"))


def _question(record: Record) -> Prompt:
    """A question of one or more turns, of which the first needs no answer before it."""
    turns = _a_list(record, "turns")
    text = _as_text(turns[0] if turns else None, record.where, "turns[0]")
    domain = None
    if record.fields.get("category") is not None:
        category = _text(record, "category")
        domain = _DOMAIN_OF_CATEGORY.get(category, category)
    return Prompt(identifier=_name(record, "question_id"), domain=domain, text=text)


def _question_and_answer(record: Record) -> Prompt:
    """GSM8K marks the result at the end of each answer; other questions with answers may be of any domain."""
    domain = "mathematics" if "####" in _text(record, "answer") else None
    return Prompt(identifier=_name(record, "id"), domain=domain, text=_text(record, "question"))


def _conversation(record: Record) -> Prompt | None:
    for index, turn in enumerate(_a_list(record, "conversations")):
        where = f"conversations[{index}]"
        if not isinstance(turn, dict):
            raise BadInput("must be an object", file=record.where, field=where, value=turn, remedy=_MEND)
        if turn.get("from") in _HUMAN:
            text = _as_text(turn.get("value"), record.where, f"{where}.value")
            return Prompt(identifier=_name(record, "id"), domain="chat", text=text)
    return None


def _bare_prompt(record: Record) -> Prompt:
    return Prompt(identifier=_name(record, "id"), domain=None, text=_text(record, "prompt"))


def _bare_text(record: Record) -> Prompt:
    return Prompt(identifier=_name(record, "id"), domain=None, text=_text(record, "text"))


# The first whose keys a record has is its form.
FORMS = (
    Form(("id", "domain", "text"), _own, states_domain=True),
    Form(("task_id", "prompt"), _human_eval),
    Form(("question_id", "turns"), _question, states_domain=True),
    Form(("question", "answer"), _question_and_answer),
    Form(("conversations",), _conversation),
    Form(("prompt",), _bare_prompt),
    Form(("text",), _bare_text),
)


def _text(record: Record, key: str) -> str:
    return _as_text(record.fields.get(key), record.where, key)


def _as_text(value: Any, where: str, field: str) -> str:
    """Return ``value`` if it is a string that is not blank and can be encoded."""
    if not isinstance(value, str):
        raise BadInput("must be text", file=where, field=field, value=value, remedy=_MEND)
    if not value.strip():
        raise BadInput("is empty", file=where, field=field, value=value, remedy="leave the record out or fill it in")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadInput("is not valid text", file=where, field=field, value=value, remedy=_MEND) from None
    return value


def _a_list(record: Record, key: str) -> list[Any]:
    value = record.fields[key]
    if not isinstance(value, list):
        raise BadInput("must be a list", file=record.where, field=key, value=value, remedy=_MEND)
    return value


def _name(record: Record, key: str) -> str:
    """The record's name, which may be a number; its place in the file if it has none."""
    value = record.fields.get(key)
    if value is None:
        return record.name
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    name = _as_text(value, record.where, key)
    if len(name) > _LONGEST_NAME:
        problem = f"is longer than {_LONGEST_NAME} characters"
        raise BadInput(problem, file=record.where, field=key, value=name, remedy="shorten the name")
    return name
