"""NeMo Automodel: totals against vLLM, an average against SGLang, and sweeps over datasets."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.automodel import read, recognises
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

TOTALS: dict[str, Any] = {
    "model": "T",
    "num_prompts": 4,
    "num_drafts": 100,
    "num_draft_tokens": 300,
    "num_accepted_tokens": 150,
    "accept_length": 2.5,
    "acceptance_rate": 0.5,
    "output_throughput_tok_s": 180.0,
    "baseline_throughput_tok_s": 100.0,
    "speedup": 1.8,
}
AVERAGE: dict[str, Any] = {
    "model": "T",
    "output_throughput_tok_s": 180.0,
    "accept_length": 2.5,
    "speculative_num_steps": 3,
    "acceptance_rate": 0.5,
}


def _sweep(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"results": [*rows], "aggregate": {"num_datasets": len(rows), "accept_length": 9.0}}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a.json")
    return seen


@pytest.mark.parametrize(
    "record", [TOTALS, AVERAGE, _sweep(TOTALS | {"dataset": "qa"}), _sweep({"dataset": "qa", "error": "x"})]
)
def test_recognises_each_form(record: dict[str, Any]):
    assert recognises(record)


@pytest.mark.parametrize(
    "record",
    [{}, [TOTALS], None, {"results": [], "aggregate": {}}, {"results": 3, "aggregate": {}}, {"accept_length": 2}],
)
def test_recognises_nothing_else(record: Any):
    assert not recognises(record)


def test_read_totals_are_those_of_the_run():
    seen = _one(TOTALS)
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (100, 300, 150)
    assert (seen.labels, seen.is_request) == ({"target": "T"}, False)


def test_import_profile_totals_are_a_mean_length(save):
    profile = import_profile([save("a.json", TOTALS)])
    assert (profile.evidence, profile.target, profile.draft_length) == ("mean_length", "T", None)
    assert profile.mean_acceptance_length == pytest.approx(2.5, abs=1e-12)
    assert profile.draft_acceptance_rate == pytest.approx(0.5, abs=1e-12)
    assert (profile.n_rounds, profile.marginal_acceptance) == (100, None)


def test_import_profile_two_runs_are_pooled_by_rounds(save):
    other = {"num_drafts": 300, "num_draft_tokens": 900, "num_accepted_tokens": 90, "accept_length": 1.3}
    runs = [TOTALS, TOTALS | other | {"acceptance_rate": 0.1}]
    profile = import_profile([save("a.jsonl", runs)])
    assert profile.mean_acceptance_length == pytest.approx(1 + 240 / 400, abs=1e-12)


def test_read_average_of_sglang_is_no_rate_and_no_chain():
    seen = _one(AVERAGE)
    assert (seen.mean_acceptance_length, seen.n_rounds, seen.draft_acceptance_rate) == (2.5, None, None)
    assert "draft_length" not in seen.labels
    assert "since the server started" in seen.notes[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"num_drafts": 0, "num_draft_tokens": 0, "num_accepted_tokens": 0, "accept_length": None},
        {"num_drafts": None, "num_draft_tokens": None, "num_accepted_tokens": None, "accept_length": None},
    ],
)
def test_read_server_without_speculation_is_empty(changes: dict[str, Any]):
    assert _one(TOTALS | changes).is_empty


def test_import_profiles_sweep_is_one_for_each_dataset(save):
    other = {"num_drafts": 10, "num_draft_tokens": 30, "num_accepted_tokens": 3, "accept_length": 1.3}
    rows = [TOTALS | {"dataset": "chat"}, TOTALS | other | {"dataset": "math", "acceptance_rate": 0.1}]
    profiles = import_profiles([save("a.json", _sweep(*rows, {"dataset": "code", "error": "unreachable"}))])
    assert {name: p.mean_acceptance_length for name, p in profiles.items()} == pytest.approx({"chat": 2.5, "math": 1.3})


def test_import_profile_sweep_leaves_the_aggregate_out(save):
    """It weighs datasets by requests, and the rounds are there."""
    rows = [TOTALS | {"dataset": "chat"}, TOTALS | {"dataset": "math"}]
    profile = import_profile([save("a.json", _sweep(*rows))])
    assert (profile.n_rounds, profile.mean_acceptance_length, profile.domain) == (200, 2.5, "mixed")


def test_import_profile_averages_of_sglang_are_not_pooled(save):
    rows = [AVERAGE | {"dataset": "chat"}, AVERAGE | {"dataset": "math"}]
    with pytest.raises(BadInput, match="nobody knows their weights"):
        import_profile([save("a.json", _sweep(*rows))])


def test_import_profile_example_is_consistent():
    profile = import_profile([example_file("automodel.json")])
    assert (profile.n_rounds, profile.n_drafted_tokens, profile.n_accepted_tokens) == (4180, 12540, 6771)
    assert profile.mean_acceptance_length == pytest.approx(1 + 6771 / 4180, abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        pytest.param(
            {"accept_length": 1.5},
            "accept_length = 1.5",
            "1 + num_accepted_tokens / num_drafts, which gives 2.5000; a length counts the bonus token",
            id="no bonus",
        ),
        pytest.param(
            {"acceptance_rate": 50.0},
            "acceptance_rate = 50.0",
            "num_accepted_tokens / num_draft_tokens, which gives 0.5000",
            id="percent",
        ),
        ({"accept_length": "2.5"}, "accept_length = '2.5'", "must be a number"),
        ({"num_accepted_tokens": 301}, "num_accepted_tokens = 301", "more than the 300 drafted in 100 rounds"),
        ({"num_accepted_tokens": None}, "num_accepted_tokens = None", "must be a whole number"),
        ({"num_accepted_tokens": 150.0}, "num_accepted_tokens = 150.0", "must be a whole number"),
        ({"num_drafts": 0}, "num_drafts = 0", "needs rounds"),
        ({"num_drafts": True}, "num_drafts = True", "must be a whole number"),
        ({"num_drafts": -1}, "num_drafts = -1", "must be at least 0"),
        ({"num_draft_tokens": 10**400}, "num_draft_tokens = 1", "is beyond any server"),
        ({"model": "\ud800"}, "model = ", "is not valid text"),
    ],
)
def test_read_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one(TOTALS | changes)
    assert str(caught.value).startswith(f"a.json: {field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"acceptance_rate": 0.8}, "acceptance_rate = 0.8", "(accept_length - 1) / speculative_num_steps"),
        ({"accept_length": 0.5}, "accept_length = 0.5", "must lie in [1, "),
        ({"accept_length": 4.5, "acceptance_rate": None}, "accept_length = 4.5", "yields at most 4 tokens"),
        ({"speculative_num_steps": 0}, "speculative_num_steps = 0", "must be at least 1"),
    ],
)
def test_read_average_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one(AVERAGE | changes)
    assert str(caught.value).startswith(f"a.json: {field}: ")
    assert problem in str(caught.value)


def test_read_row_that_failed_is_empty_whatever_else_it_holds():
    assert _one(_sweep(TOTALS | {"dataset": "qa", "error": "lost the server"})).is_empty


def test_read_sweep_names_the_row_in_errors():
    with pytest.raises(BadInput, match=r"a\.json: results\[1\]\.num_drafts = -1: must be at least 0"):
        list(read(_sweep(TOTALS | {"dataset": "a"}, TOTALS | {"dataset": "b", "num_drafts": -1}), "a.json"))
