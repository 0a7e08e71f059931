"""llama-spec-bench rows, compact and detailed: counts by position with their own denominators, chains of stages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specbook.acceptance.importing import import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.ik_llama import read, read_lines, recognises, recognises_line
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

STAGE: dict[str, Any] = {
    "type": "mtp",
    "drafts": 28,
    "draft_tokens": 50,
    "accepted": 34,
    "accept_percent": 68.0,
    "accept_length": 2.2143,
    "drafted_by_position": [28, 22],
    "accepted_by_position": [21, 13],
}
ROW: dict[str, Any] = {"row_type": "attempt", "task": "code", "run": 1, "ok": True, "generated": 64, "stages": [STAGE]}
DETAILED: dict[str, Any] = {
    "row_type": "attempt",
    "task_id": "builtin-code",
    "task_name": "code",
    "task_category": "coding",
    "runtime": {"model": "m.gguf"},
    "variant": {"is_baseline": False, "spec_types": ["mtp"], "stage_chain": "mtp"},
    "sampler": {"temp": 0.0},
    "quality": {"ok": True, "error": None},
    "speculative": {
        "num_drafts": 28,
        "draft_tokens": 50,
        "accepted_tokens": 34,
        "stages": [
            {
                "type": "mtp",
                "num_drafts": 28,
                "accepted_drafts": 21,
                "draft_tokens": 50,
                "accepted_tokens": 34,
                "acceptance_rate": 0.68,
                "acceptance_length": 2.2143,
                "drafted_by_position": [28, 22],
                "accepted_by_position": [21, 13],
                "acceptance_rate_by_position": [0.75, 0.5909],
                "conditional_acceptance_rate": [None, 0.619],
            }
        ],
    },
}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a")
    return seen


def _with(**changes: Any) -> dict[str, Any]:
    return ROW | {"stages": [STAGE | changes]}


def _detailed(**changes: Any) -> dict[str, Any]:
    stage = DETAILED["speculative"]["stages"][0] | changes
    return DETAILED | {"speculative": DETAILED["speculative"] | {"stages": [stage]}}


@pytest.mark.parametrize(
    ("record", "expected"),
    [(ROW, True), (DETAILED, True), ({"row_type": "new"}, True), ({"row_type": 3}, False), ({}, False), ([ROW], False)],
)
def test_recognises_rows_of_any_type(record: Any, expected: bool):
    assert recognises(record) is expected


@pytest.mark.parametrize("record", [ROW, DETAILED])
def test_read_compact_and_detailed_rows_give_the_same_counts(record: dict[str, Any]):
    seen = _one(record)
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (28, 50, 34)
    assert (seen.accepted_by_position, seen.drafted_by_position) == ([21.0, 13.0], [28, 22])
    assert seen.by_drafted is None


def test_read_labels():
    assert _one(ROW).labels == {"domain": "code", "method": "mtp"}
    detailed = _one(DETAILED)
    assert detailed.labels == {"target": "m.gguf", "domain": "coding", "temperature": 0.0, "method": "mtp"}
    assert detailed.prompt == "builtin-code"


def test_read_drafts_of_one_length_give_the_whole_table():
    seen = _one(
        _with(draft_tokens=56, accept_percent=60.714, drafted_by_position=[28, 28, 0], accepted_by_position=[21, 13])
    )
    assert seen.by_drafted == {2: [7, 8, 13]}


def test_read_rounds_that_drafted_nothing_are_no_rejections():
    seen = _one(_with(drafts=30, accept_length=2.1333))
    assert (seen.n_rounds, seen.drafted_by_position, seen.by_drafted) == (30, [28, 22], None)


@pytest.mark.parametrize("row", [{"ok": False, "stages": []}, {"ok": False}, {"stages": []}, {"stages": None}])
def test_read_failed_attempt_and_baseline_are_empty(row: dict[str, Any]):
    assert _one(ROW | row).is_empty


def test_read_failed_detailed_attempt_is_empty():
    assert _one(DETAILED | {"quality": {"ok": False, "error": "decode failed"}}).is_empty


def test_read_stage_that_never_drafted_is_empty():
    none = {"type": "ngram_simple", "drafts": 0, "draft_tokens": 0, "accepted": 0}
    assert _one(ROW | {"stages": [none | {"drafted_by_position": [], "accepted_by_position": []}]}).is_empty


@pytest.mark.parametrize("row_type", ["summary", "configuration", ""])
def test_read_other_rows_are_passed_over_and_no_requests(row_type: str):
    assert list(read(DETAILED | {"row_type": row_type}, "a")) == []


def test_read_stages_of_a_chain_are_methods_of_their_own():
    first, second = read(ROW | {"stages": [STAGE | {"type": "draft"}, STAGE]}, "a")
    assert (first.labels["method"], first.labels["run"]) == ("draft_model", "draft+mtp")
    assert (second.labels["method"], second.labels["run"]) == ("mtp", "draft+mtp")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draft_tokens": 51}, "stages[0].draft_tokens = 51: does not match the counts by position, which gives 50"),
        ({"accepted": 35}, "stages[0].accepted = 35: does not match the counts by position, which gives 34"),
        ({"accept_percent": 0.68}, "stages[0].accept_percent = 0.68: does not match"),
        ({"accept_length": 1.2143}, "stages[0].accept_length = 1.2143: does not match"),
        ({"drafts": 27}, "stages[0].drafted_by_position = [28, 22]: rises, or begins above the 27 drafts"),
        ({"drafted_by_position": [22, 28]}, "stages[0].drafted_by_position = [22, 28]: rises"),
        ({"accepted_by_position": [13, 21]}, "stages[0].accepted_by_position = [13, 21]: rises"),
        ({"accepted_by_position": [21, 12, 1]}, "accepts positions that were not drafted"),
        ({"accepted_by_position": [24, 10], "drafted_by_position": [23, 27]}, "rises"),
        ({"drafted_by_position": [20, 20], "draft_tokens": 40}, "more accepted than drafted [20, 20]"),
        ({"drafted_by_position": [28.0, 22]}, "stages[0].drafted_by_position[0] = 28.0: must be a whole number"),
        ({"drafted_by_position": "28"}, "stages[0].drafted_by_position = '28': must be a list"),
        ({"accepted_by_position": None}, "stages[0].accepted_by_position = None: must be a list"),
        ({"drafted_by_position": [1] * 5000}, "more positions than any drafter drafts"),
        ({"drafts": True}, "stages[0].drafts = True: must be a whole number"),
        ({"drafts": 10**400}, "is beyond any server"),
        ({"type": "\ud800"}, "stages[0].type"),
    ],
)
def test_read_impossible_stage_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(_with(**changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acceptance_rate": 68.0}, "speculative.stages[0].acceptance_rate = 68.0: does not match"),
        ({"acceptance_length": 1.2143}, "speculative.stages[0].acceptance_length = 1.2143"),
        ({"accepted_drafts": 20}, "speculative.stages[0].accepted_drafts = 20: does not match the counts by position"),
        ({"acceptance_rate_by_position": [0.75, 0.619]}, "acceptance_rate_by_position[1] = 0.619"),
        ({"conditional_acceptance_rate": [None, 0.5909]}, "conditional_acceptance_rate[1] = 0.5909"),
        ({"num_drafts": 29}, "speculative.num_drafts = 28: does not match the sum of the stages, which gives 29"),
    ],
)
def test_read_impossible_detailed_stage_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(_detailed(**changes))
    assert message in str(caught.value)


@pytest.mark.parametrize("stages", [3, "x", {"type": "mtp"}, [3]])
def test_read_stages_that_are_no_list_of_objects_are_refused(stages: Any):
    with pytest.raises(BadInput, match="a: stages"):
        _one(ROW | {"stages": stages})


def test_read_negative_temperature_is_greedy():
    assert _one(DETAILED | {"sampler": {"temp": -1.0}}).labels["temperature"] == 0.0


def test_import_profile_divides_each_position_by_the_rounds_that_drafted_it(save):
    profile = import_profile([save("a.jsonl", [ROW, {"row_type": "summary", "attempts": 1}])])
    assert profile.marginal_acceptance == pytest.approx([21 / 28, 13 / 22])
    assert profile.mean_acceptance_length == pytest.approx(1 + 34 / 28)
    assert (profile.evidence, profile.provenance[0].n_requests) == ("marginal", 1)


def test_import_profile_rows_among_messages_of_the_backend(save):
    text = f"ggml_cuda_init: found 1 device\n{json.dumps(ROW)}\nload time = 3 ms\n{json.dumps(ROW)}\n"
    assert import_profile([save("out.log", text)]).n_rounds == 56


def test_read_lines_names_the_line_of_a_broken_row():
    line = json.dumps(ROW)[:-5]
    assert recognises_line(line)
    with pytest.raises(BadInput, match="a line 2: is not complete JSON"):
        list(read_lines(["ggml_init", line], "a"))


@pytest.mark.parametrize("line", ["", '"row_type": "attempt"', '{"row_type": "summary"}', '[{"row_type": "attempt"}]'])
def test_recognises_line_only_attempts(line: str):
    assert not recognises_line(line)


def test_import_profile_example_leaves_the_failed_attempt_out():
    profile = import_profile([example_file("ik-llama.jsonl")])
    assert (profile.n_rounds, profile.n_drafted_tokens, profile.n_accepted_tokens) == (220, 657, 371)
    assert "1 of 4 requests had no rounds (failed, or without speculation), left out" in profile.warnings
