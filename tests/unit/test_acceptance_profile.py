"""The acceptance profile: what its counts give, and every impossible number that is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from specbook.acceptance.profile import (
    acceptance_from_counts,
    profile_from_accepted,
    profile_from_counts,
    read_profile,
    write_profile,
)
from specbook.checks import BadInput

COUNTS: dict[str, Any] = {
    "schema": "specbook-acceptance/1",
    "target": "t",
    "draft_length": 2,
    "evidence": "counts",
    "rounds_by_drafted": {"2": [1, 1, 2]},
    "rounds_by_accepted": [1, 1, 2],
    "n_rounds": 4,
    "n_drafted_tokens": 8,
    "n_accepted_tokens": 5,
    "mean_acceptance_length": 2.25,
    "draft_acceptance_rate": 0.625,
    "marginal_acceptance": [0.75, 0.5],
    "conditional_acceptance": [0.75, 0.6666666666666666],
}
WEAK: dict[str, Any] = {"schema": "specbook-acceptance/1", "evidence": "mean_length", "mean_acceptance_length": 2.5}


def test_read_profile_full_document_is_what_its_counts_give(save):
    assert read_profile(save("p.json", COUNTS)) == profile_from_counts({2: [1, 1, 2]}, draft_length=2, target="t")


def test_read_profile_weak_document_leaves_the_rest_null(save):
    profile = read_profile(save("p.json", WEAK))
    assert profile.mean_acceptance_length == 2.5
    unknown = ("n_rounds", "n_drafted_tokens", "n_accepted_tokens", "marginal_acceptance", "draft_length", "tree")
    assert [getattr(profile, name) for name in unknown] == [None] * len(unknown)


def _refused(save, document: dict[str, Any], field: str, problem: str) -> None:
    path = save("p.json", document)
    with pytest.raises(BadInput, match=problem) as caught:
        read_profile(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: {field} = ")
    assert "; " in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"n_accepted_tokens": 9}, "n_accepted_tokens", r"= 9: more tokens accepted than drafted \(8\)"),
        ({"rounds_by_drafted": {"2": [1, 1]}}, "rounds_by_drafted.2", r"needs 3 counts, for 0 to 2 accepted tokens"),
        ({"rounds_by_drafted": {"2": [1, 1, 1, 1]}}, "rounds_by_drafted.2", r"cannot accept more than it drafted"),
        ({"rounds_by_drafted": {"2": [1, -1, 2]}}, "rounds_by_drafted.2.1", r"= -1: .*greater than or equal to 0"),
        ({"rounds_by_drafted": {"2": [1.0, 1, 2]}}, "rounds_by_drafted.2.0", r"valid integer"),
        ({"rounds_by_drafted": {"2": [True, 1, 2]}}, "rounds_by_drafted.2.0", r"valid integer"),
        ({"rounds_by_drafted": {"2": ["1", 1, 2]}}, "rounds_by_drafted.2.0", r"valid integer"),
        ({"rounds_by_drafted": {"02": [1, 1, 2]}}, "rounds_by_drafted.02.[key]", r"match pattern"),
        ({"rounds_by_drafted": {"-1": []}}, "rounds_by_drafted.-1.[key]", r"match pattern"),
        ({"n_rounds": 5}, "n_rounds", r"= 5: does not match the round counts, which give 4"),
        ({"n_rounds": None}, "n_rounds", r"does not match the round counts, which give 4"),
        ({"n_drafted_tokens": 9}, "n_drafted_tokens", r"does not match the round counts, which give 8"),
        ({"n_accepted_tokens": 4}, "n_accepted_tokens", r"does not match the round counts, which give 5"),
        ({"n_rounds": -4}, "n_rounds", r"greater than or equal to 0"),
        ({"mean_acceptance_length": 1.25}, "mean_acceptance_length", r"is not 1 \+ accepted / rounds = 2\.250000"),
        ({"mean_acceptance_length": 0.5}, "mean_acceptance_length", r"greater than or equal to 1"),
        ({"mean_acceptance_length": "2.25"}, "mean_acceptance_length", r"valid number"),
        ({"mean_acceptance_length": float("nan")}, "mean_acceptance_length", r"= nan: .*finite"),
        ({"draft_acceptance_rate": 62.5}, "draft_acceptance_rate", r"less than or equal to 1"),
        ({"marginal_acceptance": [0.5, 0.75]}, "marginal_acceptance", r"rises at position 2, from 0\.5 to 0\.75"),
        ({"marginal_acceptance": [0.75, float("nan")]}, "marginal_acceptance.1", r"= nan: "),
        ({"marginal_acceptance": [0.75, -0.5]}, "marginal_acceptance.1", r"greater than or equal to 0"),
        ({"marginal_acceptance": [0.75, None]}, "marginal_acceptance.1", r"valid number"),
        ({"marginal_acceptance": 0.75}, "marginal_acceptance", r"valid (array|list)"),
        ({"conditional_acceptance": [1.5]}, "conditional_acceptance.0", r"less than or equal to 1"),
        ({"temperature": -1.0}, "temperature", r"greater than or equal to 0"),
        ({"temperature": float("inf")}, "temperature", r"finite"),
        ({"draft_length": 2.0}, "draft_length", r"valid integer"),
        ({"draft_length": True}, "draft_length", r"valid integer"),
        ({"target": 7}, "target", r"valid string"),
        ({"evidence": "alpha"}, "evidence", r"'counts'"),
        ({"acceptance_rate": 0.6}, "acceptance_rate", r"Extra inputs are not permitted"),
        ({"schema": "specbook-acceptance/2"}, "schema", r"unknown schema; expected specbook-acceptance/1"),
        ({"schema": "fak-spec-acceptance/1"}, "schema", r"unknown schema"),
        ({"provenance": [{"format": "x", "sha256": "ABC"}]}, "provenance.0.sha256", r"match pattern"),
        ({"tree": {"depth_acceptance": [2.0]}}, "tree.depth_acceptance.0", r"less than or equal to 1"),
    ],
)
def test_read_profile_impossible_number_is_refused(save, changes: dict[str, Any], field: str, problem: str):
    _refused(save, COUNTS | changes, field, problem)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"rounds_by_accepted": [4, 0, 0]}, id="rounds_by_accepted against rounds_by_drafted"),
        pytest.param({"marginal_acceptance": [0.9, 0.9]}, id="marginal against counts"),
        pytest.param({"conditional_acceptance": [0.1, 0.1]}, id="conditional against counts"),
        pytest.param({"draft_acceptance_rate": 0.99}, id="rate against counts"),
        pytest.param({"draft_length": 7}, id="draft length against counts"),
    ],
)
def test_read_profile_field_that_contradicts_its_counts_is_refused(save, changes: dict[str, Any]):
    with pytest.raises(BadInput):
        read_profile(save("p.json", COUNTS | changes))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"draft_length": 1}, id="mean above K + 1"),
        pytest.param({"draft_length": 1, "marginal_acceptance": [0.9, 0.6]}, id="more positions than K"),
        pytest.param({"draft_length": 1, "n_rounds": 10, "n_accepted_tokens": 15}, id="accepted above K times rounds"),
        pytest.param(
            {"marginal_acceptance": [0.9, 0.6], "conditional_acceptance": [0.9, 0.6]}, id="marginal given as both"
        ),
        pytest.param({"intervals": {"mean_acceptance_length": [float("nan"), 3.0]}}, id="NaN in an interval"),
    ],
)
def test_read_profile_contradiction_without_counts_is_refused(save, fields: dict[str, Any]):
    with pytest.raises(BadInput):
        read_profile(save("p.json", WEAK | fields))


@pytest.mark.parametrize("digits", [400, 5000])
def test_read_profile_count_beyond_any_server_is_bad_input(save, digits: int):
    document = json.dumps(WEAK | {"n_rounds": 1, "n_accepted_tokens": 7}).replace("7", "9" * digits)
    with pytest.raises(BadInput):
        read_profile(save("p.json", document))


@pytest.mark.parametrize(
    ("evidence", "needed"),
    [
        ("counts", "rounds_by_drafted"),
        ("marginal", "marginal_acceptance"),
        ("conditional", "conditional_acceptance"),
        ("rank", "tree"),
        ("draft_rate", "draft_acceptance_rate"),
    ],
)
def test_read_profile_evidence_that_is_not_there_is_refused(save, evidence: str, needed: str):
    _refused(save, WEAK | {"evidence": evidence}, "evidence", f"needs the field {needed}")


def test_read_profile_rounds_by_accepted_alone_are_checked(save):
    document = WEAK | {"rounds_by_accepted": [1, 1], "n_rounds": 3, "n_accepted_tokens": 1}
    _refused(save, document, "n_rounds", r"which give 2")


def test_write_profile_is_read_back_equal(tmp_path):
    profile = profile_from_counts({1: [3, 5], 3: [1, 0, 1, 2]}, target="é\x1b", temperature=0.0, warnings=["w"])
    write_profile(profile, tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == profile


def test_write_profile_has_the_fields_that_others_read(tmp_path):
    write_profile(profile_from_counts({2: [1, 1, 2]}), tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["schema"] == "specbook-acceptance/1"
    assert document.keys() >= {
        "target", "drafter", "method", "domain", "temperature", "draft_length", "evidence", "rounds_by_drafted",
        "n_rounds", "n_drafted_tokens", "n_accepted_tokens", "mean_acceptance_length",
        "mean_acceptance_length_per_request", "marginal_acceptance", "conditional_acceptance", "tree", "intervals",
        "warnings", "provenance",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "marginal", "conditional"),
    [
        ({2: [1, 1, 2]}, [0.75, 0.5], [0.75, 2 / 3]),
        ({3: [1, 0, 1, 2]}, [0.75, 0.75, 0.5], [0.75, 1.0, 2 / 3]),
        ({2: [4, 0, 0]}, [0.0, 0.0], [0.0, np.nan]),
        ({1: [0, 5], 2: [2, 1, 2]}, [0.8, 0.8 * 2 / 3], [0.8, 2 / 3]),
        ({0: [9], 2: [1, 1, 2]}, [0.75, 0.5], [0.75, 2 / 3]),
        ({1: [0, 5], 3: [2, 0, 0, 0]}, [5 / 7], [5 / 7]),
        ({0: [5]}, [], []),
        ({}, [], []),
        ({2: [0, 0, 0]}, [], []),
    ],
)
def test_acceptance_from_counts_by_hand(table: dict[int, list[int]], marginal: list, conditional: list):
    got_marginal, got_conditional = acceptance_from_counts(table)
    np.testing.assert_allclose(got_marginal, marginal, rtol=1e-14)
    np.testing.assert_allclose(got_conditional, conditional, rtol=1e-14)


@pytest.mark.parametrize("table", [{2: [1, 1, 2], 4: [0] * 5}, {4: [0] * 5, 2: [1, 1, 2]}])
def test_acceptance_from_counts_unused_longer_draft_changes_nothing(table: dict[int, list[int]]):
    marginal, conditional = acceptance_from_counts(table)
    assert marginal.tolist() == [0.75, 0.5]
    assert conditional.tolist() == [0.75, 2 / 3]


def test_profile_from_counts_alike_drafts_one_plus_marginal_sum_is_the_mean():
    profile = profile_from_counts({5: [11, 14, 11, 4, 0, 3]})
    assert 1 + sum(profile.marginal_acceptance or []) == pytest.approx(profile.mean_acceptance_length, rel=1e-14)
    assert profile.warnings == []


def test_profile_from_counts_varied_drafts_warns_and_keeps_the_pooled_mean():
    profile = profile_from_counts({1: [0, 5], 2: [2, 1, 2]}, warnings=["first"])
    assert profile.mean_acceptance_length == 1 + (5 + 1 + 4) / 10
    assert profile.rounds_by_accepted == [2, 6, 2]
    assert (profile.n_rounds, profile.n_drafted_tokens, profile.n_accepted_tokens) == (10, 15, 10)
    assert profile.warnings[0] == "first"
    assert "draft length varied" in profile.warnings[1]


def test_profile_from_counts_no_rounds_knows_nothing():
    profile = profile_from_counts({3: [0, 0, 0, 0]})
    assert profile.n_rounds == 0
    assert profile.mean_acceptance_length is None
    assert profile.draft_acceptance_rate is None


def test_profile_from_counts_never_reached_position_is_null():
    assert profile_from_counts({2: [4, 0, 0]}).conditional_acceptance == [0.0, None]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({2: [5, -1, 3]}, "greater than or equal to 0"),
        ({2: [5, 1]}, "needs 3 counts"),
        ({2: [5, 1, 2, 3]}, "needs 3 counts"),
    ],
)
def test_profile_from_counts_impossible_counts_are_refused(table: dict[int, list[int]], message: str):
    with pytest.raises(ValueError, match=message):
        profile_from_counts(table)


def test_profile_from_accepted_trailing_zeros_are_no_positions():
    profile = profile_from_accepted([1, 1, 2, 0, 0])
    assert profile.marginal_acceptance == [0.75, 0.5]
    assert profile.conditional_acceptance == [0.75, pytest.approx(2 / 3)]
    assert (profile.n_rounds, profile.n_accepted_tokens, profile.n_drafted_tokens) == (4, 5, None)
    assert profile.evidence == "marginal"


def test_profile_from_accepted_nothing_accepted_has_length_one():
    profile = profile_from_accepted([7])
    assert profile.mean_acceptance_length == 1.0
    assert profile.marginal_acceptance == []


def test_profile_from_accepted_gap_keeps_conditional_in_bounds():
    assert profile_from_accepted([1, 0, 1]).conditional_acceptance == [0.5, 1.0]


def test_read_profile_length_that_is_not_the_sum_of_its_positions_is_refused(save):
    fields = {"draft_length": 2, "marginal_acceptance": [0.8, 0.4], "mean_acceptance_length": 2.9}
    with pytest.raises(BadInput, match=r"is not 1 \+ the sum of marginal_acceptance = 2\.200"):
        read_profile(save("p.json", WEAK | fields))
