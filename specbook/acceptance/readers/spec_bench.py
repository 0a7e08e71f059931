"""Spec-Bench answer files: one question a line, with the tokens that each round kept.

``accept_lengths`` is one flat list over the rounds of all turns, and each entry counts the bonus token. How many
tokens a round drafted is not in the file, so the draft length stays unknown unless the reader of the file states it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import SHORTEST_ANSWER_NAME, text, whole_list
from specbook.checks import BadInput

NAME = "spec-bench"
WARNINGS = ("the source does not say how many tokens each round drafted",)
CUMULATIVE = False

_LONGEST_ROUND = 4097  # tokens, the bonus token included; a longer one is damage

# The model_id that Spec-Bench's scripts write: target-method[-drafter]-precision-temp[erature]-T.
_MODEL_ID = re.compile(
    r"^(?P<target>.+?)-(?P<method>vanilla|sps|eagle[23]?|medusa|hydra|pld|rest|lookahead|recycling|space|samd|kangaroo)"
    r"(?:-(?P<drafter>.+?))?-(?:b?float16|float32|fp16|bf16)(?:-temp(?:erature)?-(?P<temperature>\d{1,3}(?:\.\d{1,6})?))?$",
    re.IGNORECASE,
)
_METHODS = {"vanilla": "none", "sps": "draft_model", "pld": "prompt_lookup"}
TREE_METHODS = frozenset({"eagle", "eagle2", "eagle3", "medusa", "hydra", "rest", "recycling", "samd", "lookahead"})


def recognises(record: Any) -> bool:
    """Whether the record is a Spec-Bench answer."""
    return isinstance(record, dict) and any("accept_lengths" in choice for choice in _choices(record))


def _choices(record: dict[str, Any]) -> list[dict[str, Any]]:
    choices = record.get("choices")
    return [c for c in choices if isinstance(c, dict)] if isinstance(choices, list) else []


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield the question as one request; a choice without rounds, as a failed question has, yields none."""
    labels = labels_of(text(record.get("model_id"), where, "model_id"))
    domain = text(record.get("category"), where, "category")
    if domain is not None:
        labels["domain"] = domain
    prompt = _prompt(record.get("question_id"), domain)
    answer = text(record.get("answer_id"), where, "answer_id")
    for index, choice in enumerate(_choices(record)):
        name = f"choices[{index}].accept_lengths"
        lengths = whole_list(choice.get("accept_lengths"), where, name, minimum=1)
        if lengths and max(lengths) > _LONGEST_ROUND:
            raise BadInput(
                f"a round of more than {_LONGEST_ROUND} tokens",
                file=where,
                field=name,
                value=max(lengths),
                remedy="one entry is one round; export the file again",
            )
        _check_totals(choice, lengths, where, f"choices[{index}]")
        yield Observation(
            by_accepted=np.bincount(np.asarray(lengths, dtype=np.int64) - 1).tolist(),
            labels=labels,
            prompt=prompt,
            answer=f"{answer} {index}" if answer and len(answer) >= SHORTEST_ANSWER_NAME else None,
            is_tree=labels.get("method") in TREE_METHODS,
        )


def _prompt(question_id: Any, domain: str | None) -> str | None:
    """Name of the question; answers to it in several files are one cluster of the bootstrap."""
    return f"{domain} {question_id}" if isinstance(question_id, int | str) and question_id != "" else None


def _check_totals(choice: dict[str, Any], lengths: list[int], where: str, place: str) -> None:
    """Rounds and tokens of the turns, which the script counts apart from the list."""
    steps, tokens = (
        _sum_of_turns(choice.get(key), where, f"{place}.{key}") for key in ("decoding_steps", "new_tokens")
    )
    if steps is not None and lengths and steps != len(lengths):
        problem = f"does not match the {len(lengths)} rounds of accept_lengths"
        raise BadInput(
            problem, file=where, field=f"{place}.decoding_steps", value=steps, remedy="one of the two was cut"
        )
    if tokens is None or not lengths or tokens == sum(lengths):
        return
    # What the last round of a turn yields beyond the end may be cut, and some scripts count the prefill's token.
    slack = len(choice["new_tokens"]) * max(lengths)
    if tokens == sum(lengths) + len(lengths) or abs(tokens - sum(lengths)) > slack:
        problem = f"does not match accept_lengths, which sum to {sum(lengths)}"
        remedy = "every entry counts the bonus token; one of the two was cut or counts something else"
        raise BadInput(problem, file=where, field=f"{place}.new_tokens", value=tokens, remedy=remedy)


def _sum_of_turns(value: Any, where: str, name: str) -> int | None:
    return None if value is None else sum(whole_list(value, where, name))


def labels_of(model_id: Any) -> dict[str, Any]:
    """Target, method, drafter and temperature as Spec-Bench's scripts put them into ``model_id``.

    Examples
    --------
    >>> labels_of("vicuna-7b-v1.3-sps-68m-float16-temp-0.0")
    {'target': 'vicuna-7b-v1.3', 'method': 'draft_model', 'drafter': '68m', 'temperature': 0.0}
    >>> labels_of("my-model")
    {'target': 'my-model'}
    """
    if not isinstance(model_id, str):
        return {}
    match = _MODEL_ID.match(model_id)
    if match is None:
        return {"target": model_id}
    method = match["method"].lower()
    labels: dict[str, Any] = {"target": match["target"], "method": _METHODS.get(method, method)}
    if match["drafter"]:
        labels["drafter"] = match["drafter"]
    if match["temperature"]:
        labels["temperature"] = float(match["temperature"])
    return labels
