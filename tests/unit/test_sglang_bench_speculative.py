"""Lines of SGLang's bench_speculative.py: chains, trees, the baseline, and weights that only average."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.sglang_bench_speculative import read, recognises, setting_of
from specbook.checks import BadInput

LINE: dict[str, Any] = {
    "batch_size": 1,
    "steps": 3,
    "topk": 1,
    "num_draft_tokens": 4,
    "acc_length": 2.6,
    "step_time": 0.011,
    "speed": 236.364,
    "completion_tokens": 520.0,
}
BASELINE = LINE | {"steps": 0, "topk": 0, "num_draft_tokens": 0, "acc_length": 1.0, "speed": 90.909}


def _line(steps: int, topk: int, nodes: int, length: float, **changes: Any) -> dict[str, Any]:
    setting = {"steps": steps, "topk": topk, "num_draft_tokens": nodes, "acc_length": length, "speed": None}
    return LINE | setting | changes


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a")
    return seen


@pytest.mark.parametrize("record", [LINE, BASELINE, {name: LINE[name] for name in list(LINE)[1:5]}])
def test_recognises_a_line(record: dict[str, Any]):
    assert recognises(record)


@pytest.mark.parametrize("record", [{}, [LINE], None, {"steps": 3, "topk": 1, "num_draft_tokens": 4, "metrics": []}])
def test_recognises_nothing_else(record: Any):
    assert not recognises(record)


def test_read_chain_has_its_steps_for_draft_length():
    seen = _one(LINE)
    assert seen.labels == {"draft_length": 3}
    assert (seen.mean_acceptance_length, seen.is_tree, seen.is_request) == (2.6, False, False)
    assert seen.weight == pytest.approx(200.0, abs=1e-9)
    assert (seen.n_rounds, seen.n_accepted_tokens) == (None, None)


def test_import_profile_weights_are_no_rounds(save):
    profile = import_profile([save("a.jsonl", [LINE])])
    assert (profile.evidence, profile.draft_length, profile.n_rounds) == ("mean_length", 3, None)
    assert profile.mean_acceptance_length == pytest.approx(2.6, abs=1e-12)
    assert any(warning.startswith("rounds are not in the source") for warning in profile.warnings)
    assert any("server's average since its start" in warning for warning in profile.warnings)


def test_import_profile_batch_sizes_are_weighed_by_tokens(save):
    lines = [LINE, _line(3, 1, 4, 2.0, batch_size=8, completion_tokens=100.0)]
    profile = import_profile([save("a.jsonl", lines)])
    assert profile.mean_acceptance_length == pytest.approx(620 / 250, abs=1e-12)


def test_import_profile_baseline_is_no_evidence(save):
    profile = import_profile([save("a.jsonl", [BASELINE, LINE])])
    assert profile.mean_acceptance_length == pytest.approx(2.6, abs=1e-12)
    assert "1 of 2 requests had no rounds (failed, or without speculation), left out" in profile.warnings
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("b.jsonl", [BASELINE])])


def test_read_tree_is_no_chain_and_has_no_draft_length():
    seen = _one(_line(5, 4, 16, 3.5))
    assert (seen.is_tree, seen.n_tree_nodes) == (True, 16)
    assert seen.labels == {"run": "steps5-topk4-nodes16"}


def test_import_profile_settings_are_not_pooled(save):
    lines = [_line(3, 1, 4, 2.6), _line(5, 1, 6, 3.1), _line(5, 4, 16, 3.5), _line(5, 4, 8, 3.2), _line(5, 2, 8, 3.0)]
    path = save("a.jsonl", lines)
    with pytest.raises(BadInput, match="requests disagree"):
        import_profile([path])
    profiles = import_profiles([path])
    lengths = sorted(profile.mean_acceptance_length or 0.0 for profile in profiles.values())
    assert lengths == pytest.approx([2.6, 3.0, 3.1, 3.2, 3.5], abs=1e-12)
    assert [profile.draft_length for profile in profiles.values()] == [3, 5, None, None, None]
    trees = [profile.tree for profile in profiles.values() if profile.tree is not None]
    assert [tree.n_nodes for tree in trees] == [16, 8, 8]
    only = ImportOptions(only={"draft_length": ("5",)})
    assert import_profile([path], only).mean_acceptance_length == pytest.approx(3.1, abs=1e-12)


def test_read_chain_with_fewer_draft_tokens_than_steps_has_no_draft_length():
    seen = _one(_line(5, 1, 4, 3.1))
    assert seen.labels == {"run": "steps5-topk1-nodes4"}
    assert "builds differ" in seen.notes[0]


@pytest.mark.parametrize("tokens", [None, ...])
def test_read_without_tokens_has_no_weight(tokens: Any):
    line = {name: value for name, value in LINE.items() if name != "completion_tokens"}
    seen = _one(line if tokens is ... else line | {"completion_tokens": tokens})
    assert (seen.weight, seen.notes) == (None, ())


def test_setting_of_three_nulls_says_nothing():
    setting = setting_of({"steps": None, "topk": None, "num_draft_tokens": None}, "a")
    assert setting is not None
    assert (setting.labels, setting.is_tree, setting.longest) == ({}, False, None)


def test_import_profile_example_is_one_chain():
    profile = import_profile([example_file("sglang-bench-speculative.jsonl")])
    assert (profile.evidence, profile.draft_length) == ("mean_length", 3)
    assert profile.mean_acceptance_length == pytest.approx(3 / (1 / 2.612 + 1 / 2.597 + 1 / 2.604), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"acc_length": 4.1}, "acc_length = 4.1", "a round of this setting yields at most 4 tokens"),
        ({"acc_length": 0.9}, "acc_length = 0.9", "must lie in [1, "),
        ({"acc_length": "2.6"}, "acc_length = '2.6'", "must be a number"),
        ({"acc_length": float("nan")}, "acc_length = nan", "must be a number"),
        ({"acc_length": None}, "acc_length = None", "must be a number"),
        ({"acc_length": 1.6}, "speed = 236.364", "does not match acc_length / step_time, which gives 145.4545"),
        ({"step_time": "0.011"}, "step_time = '0.011'", "must be a number"),
        ({"completion_tokens": -1}, "completion_tokens = -1", "must lie in"),
        ({"completion_tokens": True}, "completion_tokens = True", "must be a number"),
        ({"steps": "3"}, "steps = '3'", "must be a whole number"),
        ({"steps": False}, "steps = False", "must be a whole number"),
        ({"steps": 10**9}, "steps = 1000000000", "is beyond any engine"),
        ({"topk": 0}, "topk = 0", "must be at least 1"),
        ({"topk": None}, "topk = None", "must be a whole number"),
        ({"num_draft_tokens": -4}, "num_draft_tokens = -4", "must be at least 1"),
        ({"steps": 1, "topk": 4, "num_draft_tokens": 16}, "acc_length = 2.6", "yields at most 2 tokens"),
        ({"topk": 4, "num_draft_tokens": 2}, "acc_length = 2.6", "a round of this setting yields at most 2 tokens"),
    ],
)
def test_read_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one(LINE | changes)
    assert str(caught.value).startswith(f"a: {field}: ")
    assert problem in str(caught.value)
