"""Spec-Bench answer files: one flat list of round lengths a choice, the bonus token counted."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.readers.spec_bench import TREE_METHODS, labels_of, read, recognises
from specbook.checks import BadInput


def _answer(lengths: Any, **fields: Any) -> dict[str, Any]:
    return {"question_id": 1, "choices": [{"index": 0, "accept_lengths": lengths}], **fields}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (_answer([1]), True),
        (_answer(None), True),
        ({"choices": [{"text": "a"}, {"accept_lengths": []}]}, True),
        ({"choices": [{"text": "a"}]}, False),
        ({"choices": {"accept_lengths": [1]}}, False),
        ({"choices": ["accept_lengths"]}, False),
        ({"accept_lengths": [1]}, False),
        ([_answer([1])], False),
        ("accept_lengths", False),
        (None, False),
    ],
)
def test_recognises_only_choices_with_accept_lengths(record: Any, expected: bool):
    assert recognises(record) is expected


def test_read_lengths_count_the_bonus_token():
    (request,) = read(_answer([4, 1, 2, 1]), "a")
    assert request.by_accepted == [2, 1, 0, 1]
    assert request.by_drafted is None
    assert request.n_drafted_tokens is None


def test_read_each_choice_is_a_request():
    record = {"choices": [{"accept_lengths": [1, 2]}, {"accept_lengths": [3]}]}
    assert [request.by_accepted for request in read(record, "a")] == [[1, 1], [0, 0, 1]]


def test_read_failed_question_with_nan_time_has_no_rounds():
    record = _answer([])
    record["choices"][0] |= {"turns": ["ERROR"], "wall_time": [float("nan")]}
    (request,) = read(record, "a")
    assert request.by_accepted == []


def test_read_category_is_the_domain():
    (request,) = read(_answer([1, 2], category="qa", model_id="m"), "a")
    assert request.labels == {"target": "m", "domain": "qa"}


@pytest.mark.parametrize("category", [None, 7, ["qa"], {}])
def test_read_category_that_is_no_text_is_no_domain(category: Any):
    (request,) = read(_answer([1], category=category), "a")
    assert "domain" not in request.labels


@pytest.mark.parametrize(
    ("lengths", "field", "problem"),
    [
        ([1, 0], r"choices\[0\]\.accept_lengths\[1\] = 0", "must be at least 1; export the file again"),
        ([-3], r"choices\[0\]\.accept_lengths\[0\] = -3", "must be at least 1"),
        ([1, 2.0], r"choices\[0\]\.accept_lengths\[1\] = 2\.0", "must be a whole number"),
        ([True], r"choices\[0\]\.accept_lengths\[0\] = True", "must be a whole number"),
        (["2"], r"choices\[0\]\.accept_lengths\[0\] = '2'", "must be a whole number"),
        ([None], r"choices\[0\]\.accept_lengths\[0\] = None", "must be a whole number"),
        ([float("nan")], r"choices\[0\]\.accept_lengths\[0\] = nan", "must be a whole number"),
        (None, r"choices\[0\]\.accept_lengths = None", "must be a list"),
        ({"0": 1}, r"choices\[0\]\.accept_lengths = {'0': 1}", "must be a list"),
        (3, r"choices\[0\]\.accept_lengths = 3", "must be a list"),
        ([2, 4098], r"choices\[0\]\.accept_lengths = 4098", "a round of more than 4097 tokens"),
    ],
)
def test_read_bad_lengths_are_refused(lengths: Any, field: str, problem: str):
    with pytest.raises(BadInput, match=rf"^a line 3: {field}: {problem}"):
        list(read(_answer(lengths), "a line 3"))


@pytest.mark.parametrize(
    ("model_id", "labels"),
    [
        (
            "vicuna-7b-v1.3-sps-68m-float16-temp-0.0",
            {"target": "vicuna-7b-v1.3", "method": "draft_model", "drafter": "68m", "temperature": 0.0},
        ),
        (
            "vicuna-7b-v1.3-vanilla-float16-temp-0.7",
            {"target": "vicuna-7b-v1.3", "method": "none", "temperature": 0.7},
        ),
        ("vicuna-7b-v1.3-pld-float16", {"target": "vicuna-7b-v1.3", "method": "prompt_lookup"}),
        ("Vicuna-7B-EAGLE2-bfloat16-temperature-1", {"target": "Vicuna-7B", "method": "eagle2", "temperature": 1.0}),
        ("m-medusa-fp16", {"target": "m", "method": "medusa"}),
        ("eagle-model", {"target": "eagle-model"}),
        ("", {"target": ""}),
        (None, {}),
        (7, {}),
    ],
)
def test_labels_of_model_id(model_id: Any, labels: dict[str, Any]):
    assert labels_of(model_id) == labels


def test_tree_methods_hold_no_chain():
    assert not TREE_METHODS & {"draft_model", "prompt_lookup", "none", "mtp", "ngram"}
