"""AIPerf's record of acceptance: alone, in a line of records, with and without a histogram; all integer identities."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import FORMATS, import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.aiperf import read, recognises
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

RECORD: dict[str, Any] = {
    "engine": "x",
    "acceptance_histogram": {"0": 1, "1": 1, "2": 2},
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 5,
    "num_draft_tokens": 8,
    "mean_acceptance_length": 2.25,
    "draft_acceptance_rate": 0.625,
}
METADATA = {"x_request_id": "r", "conversation_id": "c", "turn_index": 0, "benchmark_phase": "profiling"}
LINE = {"metadata": METADATA, "metrics": {"request_latency": {"value": 1.0, "unit": "ms"}}}
TOTALS = {name: value for name, value in RECORD.items() if name != "acceptance_histogram"}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a")
    return seen


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (RECORD, True),
        (TOTALS, True),
        (LINE | {"spec_decode_acceptance": RECORD}, True),
        (LINE | {"spec_decode_acceptance": None}, True),
        (LINE, True),
        ({"metadata": METADATA, "error": {"code": 503}}, True),
        ({name: value for name, value in RECORD.items() if name != "engine"}, False),
        ({"engine": "x"}, False),
        ({"metadata": {"user": "me"}, "metrics": {}}, False),
        ({"metadata": None, "metrics": {}}, False),
        ([RECORD], False),
        (None, False),
    ],
)
def test_recognises_records_of_aiperf_only(record: Any, expected: bool):
    assert recognises(record) is expected


def test_formats_try_the_narrower_record_first():
    names = list(FORMATS)
    assert names.index("aiperf") < names.index("vllm-per-request")
    assert FORMATS["vllm-per-request"].recognises(RECORD)  # type: ignore[attr-defined]


@pytest.mark.parametrize("record", [RECORD, LINE | {"spec_decode_acceptance": RECORD}])
def test_read_sparse_histogram(record: dict[str, Any]):
    seen = _one(record)
    assert seen.by_accepted == [1, 1, 2]
    assert seen.n_drafted_tokens == 8
    assert seen.is_request
    assert seen.notes == ("the engine was x",)


def test_read_sparse_histogram_fills_its_gaps():
    counts = {"acceptance_histogram": {"0": 1, "3": 2}, "num_spec_steps": 3, "num_accepted_draft_tokens": 6}
    assert _one({"engine": "x"} | counts).by_accepted == [1, 0, 0, 2]


def test_read_dense_histogram_says_the_same():
    assert _one(RECORD | {"acceptance_histogram": [1, 1, 2]}) == _one(RECORD)


def test_read_turns_of_a_conversation_are_one_cluster():
    assert _one(LINE | {"spec_decode_acceptance": RECORD}).prompt == "c"
    assert _one(RECORD).prompt == "a"
    assert _one({"metadata": {}, "spec_decode_acceptance": RECORD}).prompt == "a"


def test_read_bound_and_totals_prove_the_table():
    seen = _one(RECORD | {"num_spec_tokens": 2})
    assert seen.by_drafted == {2: [1, 1, 2]}
    assert seen.labels == {"draft_length": 2}


def test_read_no_bound_is_no_draft_length():
    """Trap: null where the length varies, and never 0."""
    seen = _one(RECORD | {"num_spec_tokens": None})
    assert seen.labels == {}
    assert seen.by_drafted is None


def test_read_steps_give_the_table():
    steps = {"per_step_accepted": [0, 2, 1, 2], "per_step_drafted": [1, 2, 3, 2]}
    assert _one(RECORD | steps).by_drafted == {1: [1, 0], 2: [0, 0, 2], 3: [0, 1, 0, 0]}


@pytest.mark.parametrize("record", [LINE, LINE | {"spec_decode_acceptance": None}, LINE | {"error": {"code": 503}}])
def test_read_request_without_acceptance_is_empty(record: dict[str, Any]):
    assert _one(record).is_empty


def test_read_request_without_steps_is_empty():
    record = {"engine": "x", "acceptance_histogram": {}, "num_spec_steps": 0, "num_accepted_draft_tokens": 0}
    assert _one(record | {"num_draft_tokens": 0, "mean_acceptance_length": 1.0}).is_empty


def test_read_engine_without_a_histogram_has_totals(save):
    seen = _one(TOTALS | {"acceptance_histogram": None})
    assert (seen.n_rounds, seen.n_accepted_tokens, seen.n_drafted_tokens, seen.by_accepted) == (4, 5, 8, None)
    profile = import_profile([save("a.json", TOTALS)])
    assert (profile.evidence, profile.mean_acceptance_length) == ("mean_length", 2.25)


def test_import_profile_example_file():
    profile = import_profile([example_file("aiperf.jsonl")])
    assert (profile.evidence, profile.draft_length, profile.n_rounds) == ("counts", 3, 113)
    assert profile.provenance[0].n_requests == 4
    assert "1 of 5 requests had no rounds (failed, or without speculation), left out" in profile.warnings
    assert "the engine was vllm" in profile.warnings
    assert any("end-of-sequence" in warning for warning in profile.warnings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_spec_steps": 5}, "num_spec_steps = 5: does not match the histogram, which gives 4"),
        ({"num_accepted_draft_tokens": 6}, "num_accepted_draft_tokens = 6: does not match the histogram"),
        ({"num_draft_tokens": 4}, "more tokens accepted (5) than drafted"),
        ({"num_spec_tokens": 10**15}, "num_spec_tokens = 1000000000000000: is beyond 4096"),
        ({"num_spec_tokens": 1}, "a round drafted or accepted 2 tokens"),
        ({"mean_acceptance_length": 1.25}, "which gives 2.2500"),
        ({"draft_acceptance_rate": 62.5}, "which gives 0.6250"),
        ({"per_step_accepted": [0, 1, 1, 2]}, "per_step_accepted: does not sum to acceptance_histogram [1, 1, 2]"),
        ({"per_step_accepted": [0, 1, 2]}, "does not sum to acceptance_histogram"),
        (
            {"per_step_accepted": [0, 1, 2, 2], "per_step_drafted": [2, 2, 2]},
            "has 4 steps where per_step_",
        ),
        ({"per_step_accepted": "0122"}, "must be a list"),
        ({"acceptance_histogram": {"1000000000": 1}}, "is no number of tokens"),
        ({"acceptance_histogram": {"0": 1.0}}, "must be a whole number"),
        ({"acceptance_histogram": {"0": True}}, "must be a whole number"),
        ({"engine": "\ud800"}, "is not valid text"),
    ],
)
def test_read_broken_identities_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(LINE | {"spec_decode_acceptance": RECORD | changes})
    assert str(caught.value).startswith("a: spec_decode_acceptance.")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_draft_tokens": 4}, "num_draft_tokens = 4: more tokens accepted (5) than 4"),
        ({"num_spec_tokens": 1}, "num_spec_steps = 4: more tokens accepted (5) than 4"),
        ({"mean_acceptance_length": 1.25}, "does not match the counts, which gives 2.2500"),
        ({"draft_acceptance_rate": 0.5}, "does not match the counts, which gives 0.6250"),
        ({"num_spec_tokens": 10**15}, "num_spec_tokens = 1000000000000000: is beyond 4096"),
        ({"num_spec_steps": 4.0}, "must be a whole number"),
        ({"num_spec_steps": 0}, "num_spec_steps = 0: more tokens accepted (5) than 0"),
        ({"num_draft_tokens": "8"}, "must be a whole number"),
        ({"num_accepted_draft_tokens": -5}, "must be at least 0"),
    ],
)
def test_read_broken_totals_without_a_histogram_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(TOTALS | changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [[], 3, "x", True])
def test_read_record_that_is_no_object_is_refused(value: Any):
    with pytest.raises(BadInput, match=r"a: spec_decode_acceptance = .*: must be an object"):
        _one(LINE | {"spec_decode_acceptance": value})


def test_read_conversation_that_is_no_text_is_refused():
    with pytest.raises(BadInput, match="conversation_id"):
        _one(LINE | {"metadata": {"conversation_id": "\ud800"}, "spec_decode_acceptance": RECORD})
