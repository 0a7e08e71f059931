"""vLLM per-request metrics in every shape they were written, and every identity they must obey."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.vllm_per_request import WARNINGS, dense, read, recognises
from specbook.checks import BadInput

SUMMARY: dict[str, Any] = {
    "acceptance_histogram": [1, 1, 2],
    "acceptance_histogram_by_draft_length": {"2": [1, 1, 2]},
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 5,
    "num_draft_tokens": 8,
    "num_spec_tokens": 2,
    "mean_acceptance_length": 2.25,
    "draft_acceptance_rate": 0.625,
}


def _without(*names: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (SUMMARY | changes).items() if key not in names}


def _one(record: Any) -> Observation:
    (request,) = read(record, "a")
    return request


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (SUMMARY, True),
        ({"metrics": {"speculative_decoding": SUMMARY}}, True),
        ({"metrics": {"speculative_decoding": None}}, True),
        ({"speculative_decoding": SUMMARY}, True),
        ({"choices": [{}, {"speculative_decoding_stats": SUMMARY}]}, True),
        ({"choices": [{"text": "a"}]}, False),
        ({"choices": {"speculative_decoding_stats": SUMMARY}}, False),
        ({"metrics": {"ttft": 1}}, False),
        ({"metrics": None}, False),
        ({"acceptance_histogram": [1]}, False),
        ({"speculative_decoding": None}, True),
        ({"speculative_decoding": {"method": "eagle", "num_speculative_tokens": 3}}, False),
        ({"speculative_decoding": "eagle"}, False),
        ({}, False),
        ([SUMMARY], False),
        (3, False),
    ],
)
def test_recognises_only_per_request_statistics(record: Any, expected: bool):
    assert recognises(record) is expected


@pytest.mark.parametrize(
    "record",
    [
        SUMMARY,
        {"speculative_decoding": SUMMARY},
        {"metrics": {"speculative_decoding": SUMMARY}},
        {"choices": [{"text": "a"}, {"speculative_decoding_stats": SUMMARY}]},
    ],
)
def test_read_each_place_gives_the_same_request(record: dict[str, Any]):
    request = _one(record)
    assert request.by_accepted == [1, 1, 2]
    assert request.by_drafted == {2: [1, 1, 2]}
    assert request.n_drafted_tokens == 8
    assert request.labels == {"draft_length": 2}


def test_read_model_is_the_target():
    assert _one({"model": "m", "metrics": {"speculative_decoding": SUMMARY}}).labels["target"] == "m"
    assert "target" not in _one({"model": 7, "metrics": {"speculative_decoding": SUMMARY}}).labels


def test_read_earlier_shape_with_string_keys_fills_the_gaps():
    statistics = {
        "acceptance_histogram": {"0": 1, "2": 2},
        "acceptance_histogram_by_draft_length": {"3": {"0": 1, "2": 2}},
        "num_spec_steps": 3,
    }
    request = _one({"choices": [{"speculative_decoding_stats": statistics}]})
    assert request.by_accepted == [1, 0, 2]
    assert request.by_drafted == {3: [1, 0, 2, 0]}


def test_read_every_choice_of_the_earlier_shape_is_a_request():
    record = {"choices": [{"speculative_decoding_stats": SUMMARY}, {"speculative_decoding_stats": SUMMARY}]}
    assert len(list(read(record, "a"))) == 2


def test_read_request_without_speculation_has_no_rounds():
    (request,) = read({"metrics": {"speculative_decoding": None}}, "a")
    assert request.by_accepted == []


def test_read_detailed_steps_give_the_table():
    statistics = {
        "acceptance_histogram": [2, 1, 1],
        "num_spec_steps": 4,
        "per_step_drafted": [2, 1, 3, 2],
        "per_step_accepted": [0, 1, 2, 0],
    }
    assert _one(statistics).by_drafted == {1: [0, 1], 2: [2, 0, 0], 3: [0, 0, 1, 0]}


def test_read_varied_drafts_keep_their_table():
    statistics = _without(
        "num_spec_tokens",
        acceptance_histogram=[1, 3, 1],
        acceptance_histogram_by_draft_length={"1": [0, 2], "2": [1, 1, 1]},
        num_spec_steps=5,
        num_draft_tokens=8,
        mean_acceptance_length=2.0,
    )
    assert _one(statistics).by_drafted == {1: [0, 2], 2: [1, 1, 1]}


def test_read_totals_that_prove_alike_drafts_give_the_table():
    derived = ("mean_acceptance_length", "draft_acceptance_rate", "num_accepted_draft_tokens")
    statistics = _without("acceptance_histogram_by_draft_length", *derived, acceptance_histogram=[2, 2])
    assert _one(statistics).by_drafted == {2: [2, 2, 0]}


@pytest.mark.parametrize(
    "statistics",
    [
        _without("acceptance_histogram_by_draft_length", "draft_acceptance_rate", num_draft_tokens=7),
        _without("acceptance_histogram_by_draft_length", "draft_acceptance_rate", "num_draft_tokens"),
        _without("acceptance_histogram_by_draft_length", "num_spec_tokens"),
    ],
)
def test_read_totals_that_prove_nothing_give_no_table(statistics: dict[str, Any]):
    assert _one(statistics).by_drafted is None


def test_read_null_bound_under_a_schedule_keeps_the_table():
    """Trap: K varied by batch size, down to 0; null is no draft length, and never 0."""
    table = {"0": [3], "1": [0, 2], "2": [1, 1, 2]}
    statistics = _without("draft_acceptance_rate", num_spec_tokens=None, acceptance_histogram=[4, 3, 2])
    statistics |= {"acceptance_histogram_by_draft_length": table, "num_spec_steps": 9, "num_draft_tokens": 10}
    statistics |= {"num_accepted_draft_tokens": 7, "mean_acceptance_length": 1.778}
    request = _one(statistics)
    assert request.by_drafted == {0: [3], 1: [0, 2], 2: [1, 1, 2]}
    assert request.labels == {}


def test_read_tokens_that_a_grammar_struck_out_leave_no_table():
    """Trap: vLLM subtracts them from the drafted tokens, so the totals no longer prove what rounds drafted."""
    request = _one(_without("acceptance_histogram_by_draft_length", "draft_acceptance_rate", num_draft_tokens=7))
    assert (request.by_drafted, request.n_drafted_tokens) == (None, 7)


def test_warnings_say_that_the_end_of_a_sequence_may_be_over_counted():
    assert any("may count accepted tokens behind an end-of-sequence token" in warning for warning in WARNINGS)


@pytest.mark.parametrize("stated", [2.25, 2.24, 2.26, None])
def test_read_rounded_length_within_one_percent_is_taken(stated: float | None):
    assert _one(SUMMARY | {"mean_acceptance_length": stated}).by_accepted == [1, 1, 2]


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"acceptance_histogram": None}, "acceptance_histogram = None", "must be a list"),
        ({"acceptance_histogram": "112"}, "acceptance_histogram = '112'", "must be a list"),
        ({"acceptance_histogram": [1, -1, 2]}, "acceptance_histogram[1] = -1", "must be at least 0"),
        ({"acceptance_histogram": [1, 1.0, 2]}, "acceptance_histogram[1] = 1.0", "must be a whole number"),
        ({"acceptance_histogram": [1, True, 2]}, "acceptance_histogram[1] = True", "must be a whole number"),
        ({"acceptance_histogram": ["1", 1, 2]}, "acceptance_histogram[0] = '1'", "must be a whole number"),
        ({"acceptance_histogram": [1, float("nan")]}, "acceptance_histogram[1] = nan", "must be a whole number"),
        ({"acceptance_histogram": {"x": 1}}, "acceptance_histogram = 'x'", "is no number of tokens"),
        ({"acceptance_histogram": {"-1": 1}}, "acceptance_histogram = '-1'", "is no number of tokens"),
        ({"acceptance_histogram": {"²": 1}}, "acceptance_histogram = '²'", "is no number of tokens"),
        ({"acceptance_histogram": {"99999": 1}}, "acceptance_histogram = '99999'", "is no number of tokens"),
        ({"acceptance_histogram": {"0": -1}}, "acceptance_histogram.0 = -1", "must be at least 0"),
        ({"num_spec_steps": 5}, "num_spec_steps = 5", "does not match the histogram, which gives 4"),
        ({"num_spec_steps": "4"}, "num_spec_steps = '4'", "must be a whole number"),
        ({"num_accepted_draft_tokens": 6}, "num_accepted_draft_tokens = 6", "does not match the histogram"),
        ({"num_accepted_draft_tokens": 5.0}, "num_accepted_draft_tokens = 5.0", "must be a whole number"),
        ({"num_draft_tokens": 4}, "num_draft_tokens = 4", "more tokens accepted (5) than drafted"),
        ({"num_draft_tokens": 9}, "num_draft_tokens = 9", "does not match the histogram, which gives 8"),
        ({"num_draft_tokens": -8}, "num_draft_tokens = -8", "must be at least 0"),
        ({"num_draft_tokens": True}, "num_draft_tokens = True", "must be a whole number"),
        ({"num_spec_tokens": 2.0}, "num_spec_tokens = 2.0", "must be a whole number"),
        ({"num_spec_tokens": 10**15}, "num_spec_tokens = 1000000000000000", "is beyond 4096, more than any engine"),
        ({"num_spec_tokens": -2}, "num_spec_tokens = -2", "must be at least 0"),
        ({"mean_acceptance_length": 1.25}, "mean_acceptance_length = 1.25", "which gives 2.2500; a length counts"),
        ({"mean_acceptance_length": "2.25"}, "mean_acceptance_length = '2.25'", "must be a number"),
        ({"mean_acceptance_length": True}, "mean_acceptance_length = True", "must be a number"),
        ({"mean_acceptance_length": float("nan")}, "mean_acceptance_length = nan", "must be a number"),
        ({"draft_acceptance_rate": 62.5}, "draft_acceptance_rate = 62.5", "which gives 0.6250; "),
        (
            {"acceptance_histogram_by_draft_length": {"1": [1, 1, 2]}},
            "acceptance_histogram_by_draft_length.1 = [1, 1, 2]",
            "more tokens accepted than the 1 drafted",
        ),
        (
            {"acceptance_histogram_by_draft_length": {"2": [1, 2, 1]}},
            "acceptance_histogram_by_draft_length = {'2': [1, 2, 1]}",
            "does not sum to acceptance_histogram [1, 1, 2]",
        ),
        (
            {"acceptance_histogram_by_draft_length": [[1, 1, 2]]},
            "acceptance_histogram_by_draft_length = [[1, 1, 2]]",
            "must be an object",
        ),
        (
            {"acceptance_histogram_by_draft_length": {"two": [1, 1, 2]}},
            "acceptance_histogram_by_draft_length = 'two'",
            "is no number of tokens",
        ),
        (
            {"acceptance_histogram_by_draft_length": {"2": 4}},
            "acceptance_histogram_by_draft_length.2 = 4",
            "must be a list",
        ),
    ],
)
def test_read_impossible_statistics_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one({"metrics": {"speculative_decoding": SUMMARY | changes}})
    text = str(caught.value)
    assert text.startswith(f"a: metrics.speculative_decoding.{field}: ")
    assert problem in text


@pytest.mark.parametrize(
    ("steps", "field", "problem"),
    [
        ({"per_step_accepted": [0, 1]}, "per_step_accepted", "has 2 steps where per_step_drafted has 4"),
        ({"per_step_accepted": [0, 3, 2, 0]}, "per_step_accepted[1] = 3", "more tokens accepted than drafted (2)"),
        ({"per_step_accepted": None}, "per_step_accepted = None", "must be a list"),
        ({"per_step_drafted": [2, 2, 2, -2]}, "per_step_drafted[3] = -2", "must be at least 0"),
        ({"per_step_drafted": 2}, "per_step_drafted = 2", "must be a list"),
        ({"per_step_drafted": [2, 2, 2, 10**9]}, "per_step_accepted[3] = 2", ""),
        ({"per_step_accepted": [1, 1, 1, 1]}, "acceptance_histogram_by_draft_length", "does not sum to"),
    ],
)
def test_read_impossible_steps_are_refused(steps: dict[str, Any], field: str, problem: str):
    base = {"per_step_drafted": [2] * 4, "per_step_accepted": [0, 1, 2, 2]}
    with pytest.raises(BadInput) as caught:
        _one(_without("acceptance_histogram_by_draft_length") | base | steps)
    assert str(caught.value).startswith(f"a: {field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "statistics",
    [
        pytest.param(_without("num_draft_tokens", num_spec_tokens=1), id="table wider than num_spec_tokens"),
        pytest.param(
            _without("acceptance_histogram_by_draft_length", "num_draft_tokens", num_spec_tokens=1),
            id="histogram wider than num_spec_tokens",
        ),
        pytest.param(
            {"acceptance_histogram": [2, 0, 0, 1], "num_spec_steps": 3, "num_draft_tokens": 6, "num_spec_tokens": 2},
            id="histogram wider than num_spec_tokens though the totals fit",
        ),
    ],
)
def test_read_more_accepted_than_num_spec_tokens_is_refused(statistics: dict[str, Any]):
    with pytest.raises(BadInput):
        _one(statistics)


def test_read_stated_length_beyond_floats_is_refused():
    with pytest.raises(BadInput):
        _one(SUMMARY | {"mean_acceptance_length": 10**400})


@pytest.mark.parametrize("statistics", [[], 3, "x", True])
def test_read_statistics_that_are_no_object_are_refused(statistics: Any):
    with pytest.raises(BadInput, match=r"a: metrics\.speculative_decoding = .*: must be an object"):
        list(read({"metrics": {"speculative_decoding": statistics}}, "a"))


def test_dense_empty_object_is_empty():
    assert dense({}, "a", "acceptance_histogram") == []
