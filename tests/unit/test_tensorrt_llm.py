"""TensorRT-LLM's totals of a request: where they stand, zeros that are a fault, averages, and the fields to come."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import FORMATS, import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.tensorrt_llm import read, recognises
from specbook.checks import BadInput

TOTALS: dict[str, Any] = {"acceptance_rate": 0.5, "total_accepted_draft_tokens": 30, "total_draft_tokens": 60}
FULL = TOTALS | {"num_spec_steps": 20, "acceptance_histogram": [8, 0, 6, 6], "num_spec_tokens": 3}
ZEROS = dict.fromkeys(TOTALS, 0)
PERF = {"request_id": 7, "perf_metrics": {"timing_metrics": {}, "speculative_decoding": TOTALS}, "status": "complete"}


def _choice(statistics: Any, average: float | None = 2.5) -> dict[str, Any]:
    beside = {} if average is None else {"avg_decoded_tokens_per_iter": average}
    return {"model": "m", "choices": [{"index": 0, "speculative_decoding": statistics} | beside]}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a")
    return seen


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"speculative_decoding": TOTALS}, True),
        (_choice(TOTALS), True),
        (_choice(FULL), True),
        (_choice(None), True),
        (PERF, True),
        ({"perf_metrics": {"timing_metrics": {}}}, True),
        ({"gen_server": "b", "gen_perf_metrics": PERF}, True),
        ({"phases": {"server": {"timing_metrics": {}, "speculative_decoding": TOTALS}}}, True),
        ({"outputs": [{"request_perf_metrics": {"speculative_decoding": TOTALS}}]}, True),
        ({"speculative_decoding": None}, False),
        ({"speculative_decoding": {"acceptance_histogram": [1], "num_spec_steps": 1}}, False),
        ({"speculative_decoding": {"method": "eagle"}}, False),
        ({"metrics": {"speculative_decoding": TOTALS}}, False),
        ({"choices": [{"text": "a"}]}, False),
        ({"choices": {"speculative_decoding": [TOTALS]}}, False),
        (TOTALS, False),
        ([PERF], False),
        (None, False),
    ],
)
def test_recognises_totals_only(record: Any, expected: bool):
    assert recognises(record) is expected


def test_formats_try_it_before_vllm():
    names = list(FORMATS)
    assert names.index("tensorrt-llm") < names.index("vllm-per-request")
    assert not FORMATS["vllm-per-request"].recognises({"speculative_decoding": TOTALS})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "record",
    [
        {"speculative_decoding": TOTALS},
        _choice(TOTALS, None),
        PERF,
        {"gen_server": "b", "ctx_perf_metrics": PERF, "gen_perf_metrics": PERF},
        {"phases": {"server": {"speculative_decoding": TOTALS}}},
        {"outputs": [{"request_perf_metrics": {"speculative_decoding": TOTALS}}]},
    ],
)
def test_read_totals_alone_are_a_rate(save, record: dict[str, Any]):
    seen = _one(record)
    assert (seen.n_accepted_tokens, seen.n_drafted_tokens, seen.n_rounds) == (30, 60, None)
    assert seen.mean_acceptance_length is None
    profile = import_profile([save("a.json", record)])
    assert (profile.evidence, profile.draft_acceptance_rate, profile.n_rounds) == ("draft_rate", 0.5, None)


def test_read_average_gives_the_length_with_the_bonus(save):
    seen = _one(_choice(TOTALS))
    assert (seen.mean_acceptance_length, seen.weight, seen.n_rounds) == (2.5, 20.0, None)
    profile = import_profile([save("a.json", _choice(TOTALS))])
    assert (profile.evidence, profile.mean_acceptance_length, profile.target) == ("mean_length", 2.5, "m")


def test_read_average_beside_the_outputs_holds_for_what_is_inside():
    record = {
        "outputs": [{"avg_decoded_tokens_per_iter": 2.5, "request_perf_metrics": {"speculative_decoding": TOTALS}}]
    }
    assert _one(record).mean_acceptance_length == 2.5


def test_import_profile_requests_are_weighted_by_steps(save):
    """20 steps of 2.5 tokens and 60 of 1.5: 140 tokens in 80 steps."""
    path = save("a.jsonl", [_choice(TOTALS), _choice(TOTALS, 1.5)])
    profile = import_profile([path])
    assert profile.mean_acceptance_length == pytest.approx(140 / 80)
    assert profile.mean_acceptance_length_per_request == pytest.approx(2.0)
    assert profile.n_rounds is None
    assert any("weighted by accepted tokens" in warning for warning in profile.warnings)


@pytest.mark.parametrize("average", [0, 0.0, None])
def test_read_average_of_0_is_unknown(average: float | None):
    seen = _one(_choice(TOTALS, average))
    assert (seen.mean_acceptance_length, seen.weight) == (None, None)


def test_read_zeros_beside_an_average_are_a_fault_and_unknown(save):
    """Trap: builds before trtllm17082 wrote zeros; that is no rate of 0."""
    seen = _one(_choice(ZEROS))
    assert (seen.n_accepted_tokens, seen.n_drafted_tokens, seen.mean_acceptance_length) == (None, None, 2.5)
    profile = import_profile([save("a.json", _choice(ZEROS))])
    assert (profile.evidence, profile.draft_acceptance_rate) == ("mean_length", None)
    assert any("a known fault of the server" in warning for warning in profile.warnings)


@pytest.mark.parametrize(
    "record",
    [
        _choice(ZEROS, 1.0),
        _choice(ZEROS, None),
        _choice(None),
        {"speculative_decoding": ZEROS | {"acceptance_rate": float("nan")}},
        {"perf_metrics": {"timing_metrics": {}}},
        _choice(ZEROS | {"num_spec_steps": 0, "acceptance_histogram": []}, None),
    ],
)
def test_read_request_that_drafted_nothing_is_empty(record: dict[str, Any]):
    assert _one(record).is_empty


def test_read_every_choice_is_a_request_of_one_prompt():
    record = {"choices": [{"speculative_decoding": TOTALS}, {"speculative_decoding": TOTALS}]}
    assert [seen.prompt for seen in read(record, "a")] == ["a", "a"]


def test_read_histogram_gives_counts(save):
    seen = _one(_choice(FULL))
    assert seen.by_accepted == [8, 0, 6, 6]
    assert seen.by_drafted == {3: [8, 0, 6, 6]}
    profile = import_profile([save("a.json", _choice(FULL))])
    assert (profile.evidence, profile.draft_length, profile.mean_acceptance_length) == ("counts", 3, 2.5)


def test_read_null_bound_under_a_schedule_is_no_draft_length():
    seen = _one(_choice(FULL | {"num_spec_tokens": None}))
    assert (seen.by_drafted, seen.labels) == (None, {"target": "m"})
    assert seen.by_accepted == [8, 0, 6, 6]


def test_read_steps_without_a_histogram_give_totals(save):
    statistics = TOTALS | {"num_spec_steps": 20, "num_spec_tokens": 3}
    seen = _one(_choice(statistics))
    assert (seen.n_rounds, seen.labels["draft_length"]) == (20, 3)
    assert import_profile([save("a.json", _choice(statistics))]).mean_acceptance_length == 2.5


@pytest.mark.parametrize("average", [2.43, 2.5, 2.6])
def test_read_average_may_count_the_first_token_and_the_stop(average: float):
    assert _one(_choice(FULL, average)).n_rounds is None  # a histogram, which is enough


def test_import_profile_example_file():
    profile = import_profile([example_file("tensorrt-llm.jsonl")])
    assert (profile.evidence, profile.draft_length) == ("mean_length", None)
    assert profile.mean_acceptance_length == pytest.approx(1 + 147 / 85)
    assert profile.draft_acceptance_rate == pytest.approx(147 / 255)


@pytest.mark.parametrize(
    ("statistics", "average", "message"),
    [
        (TOTALS | {"total_draft_tokens": 20}, None, "total_draft_tokens = 20: more tokens accepted (30) than drafted"),
        (TOTALS | {"total_draft_tokens": 60.0}, None, "total_draft_tokens = 60.0: must be a whole number"),
        (TOTALS | {"total_draft_tokens": "60"}, None, "must be a whole number"),
        (TOTALS | {"total_draft_tokens": True}, None, "must be a whole number"),
        (TOTALS | {"total_accepted_draft_tokens": -1}, None, "must be at least 0"),
        (
            TOTALS | {"acceptance_rate": 50.0},
            None,
            "acceptance_rate = 50.0: does not match the totals, which gives 0.5",
        ),
        (TOTALS | {"acceptance_rate": float("nan")}, None, "acceptance_rate = nan: must be a number"),
        (TOTALS, 0.5, "avg_decoded_tokens_per_iter = 0.5: must be at least 1: it counts the bonus token"),
        (TOTALS, 1.0, "avg_decoded_tokens_per_iter = 1.0: cannot be with 30 accepted tokens"),
        (TOTALS, 33.0, "avg_decoded_tokens_per_iter = 33.0: cannot be with 30 accepted tokens"),
        (TOTALS, float("nan"), "avg_decoded_tokens_per_iter = nan: must be a number"),
        (TOTALS, 1e308, "must lie in [0, 4097]"),
        (TOTALS | {"num_spec_steps": 20}, 1.0, "does not match the counts, which give 2.5000"),
        (
            TOTALS | {"num_spec_steps": 5, "num_spec_tokens": 3},
            None,
            "5 steps of at most 3 tokens give no more than 15",
        ),
        (TOTALS | {"num_spec_steps": 0}, None, "0 steps of at most 4096 tokens give no more than 0"),
        (TOTALS | {"num_spec_steps": 15, "num_spec_tokens": 3}, None, "total_draft_tokens = 60: 15 steps"),
        (FULL | {"num_spec_steps": 21}, None, "num_spec_steps = 21: does not match the histogram"),
        (
            FULL | {"acceptance_histogram": [7, 1, 6, 6]},
            None,
            "total_accepted_draft_tokens = 30: does not match the hist",
        ),
        (FULL | {"acceptance_histogram": [8, -1]}, None, "must be at least 0"),
        (FULL | {"acceptance_histogram": {"9999999": 1}}, None, "is no number of tokens"),
        (FULL | {"num_spec_tokens": 10**15}, None, "num_spec_tokens = 1000000000000000: is beyond 4096"),
        (TOTALS | {"num_spec_tokens": 10**15}, None, "num_spec_tokens = 1000000000000000: is beyond 4096"),
        (FULL | {"num_spec_tokens": 2}, None, "a round drafted or accepted 3 tokens"),
        (FULL, 1.5, "avg_decoded_tokens_per_iter = 1.5: does not match the counts, which give 2.5000"),
    ],
)
def test_read_impossible_statistics_are_refused(statistics: dict[str, Any], average: float | None, message: str):
    with pytest.raises(BadInput) as caught:
        _one(_choice(statistics, average))
    assert str(caught.value).startswith("a: ")
    assert message in str(caught.value)


def test_recognises_deep_nesting_without_end():
    record: dict[str, Any] = {"speculative_decoding": TOTALS}
    for _ in range(500):
        record = {"choices": [record]}
    assert not recognises(record)
