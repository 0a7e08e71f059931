"""fak-spec-acceptance/1: marginal whatever the name says, two meanings of `proposed`, trees, and a synthetic corpus."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.fak_acceptance import read, recognises
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput


def _positions(proposed: list[int], accepted: list[int]) -> list[dict[str, Any]]:
    return [
        {"position": i, "proposed": p, "accepted": a} | ({"rate": a / p} if p else {})
        for i, (p, a) in enumerate(zip(proposed, accepted, strict=True))
    ]


FILE: dict[str, Any] = {
    "schema": "fak-spec-acceptance/1",
    "target_model": "t",
    "draft_spec": {"method": "draft_model", "draft_model_id": "d", "draft_depth": 2},
    "domain": "code",
    "temperature": 0,
    "sample_count": 1,
    "total_rounds": 10,
    "mean_acceptance_length": 2.2,
    "positional_alpha": [0.8, 0.4],
    "positions": _positions([10, 10], [8, 4]),
}
NO_POSITIONS = {key: value for key, value in FILE.items() if key != "positions"}
TREE = NO_POSITIONS | {
    "draft_spec": {"method": "tree_spec", "draft_depth": 4, "tree_topology": "deep_narrow"},
    "tree_depth_yield": {"1": 0.8, "2": 0.4},
    "positional_alpha": [0.4, 0.1],
}


def _one(record: dict[str, Any] | None = None, **changes: Any) -> Observation:
    (seen,) = read((FILE if record is None else record) | changes, "a")
    return seen


def _counts(proposed: list[int], accepted: list[int], **changes: Any) -> Observation:
    alpha = [a / p if p else 0.0 for p, a in zip(proposed, accepted, strict=True)]
    length = 1 + sum(accepted) / changes.get("total_rounds", 10)
    fields = {"positions": _positions(proposed, accepted), "positional_alpha": alpha, "mean_acceptance_length": length}
    return _one(**(fields | {"draft_spec": {"method": "draft_model"}} | changes))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (FILE, True),
        ({"schema": "fak-spec-acceptance/2"}, True),
        ({"schema": "specbook-acceptance/1"}, False),
        ({}, False),
        ([], False),
    ],
)
def test_recognises_the_schema(record: Any, expected: bool):
    assert recognises(record) is expected


def test_read_other_version_is_refused():
    with pytest.raises(BadInput, match="unknown schema"):
        _one(schema="fak-spec-acceptance/2")


def test_read_drafts_of_one_length_give_the_whole_table():
    seen = _one()
    assert seen.by_drafted == {2: [2, 4, 4]}
    assert seen.labels == {
        "target": "t",
        "drafter": "d",
        "method": "draft_model",
        "domain": "code",
        "temperature": 0.0,
        "draft_length": 2,
    }
    assert not seen.is_request


@pytest.mark.parametrize(
    ("method", "expected"), [("linear_mtp", "mtp"), ("draft_model", "draft_model"), ("prompt_lookup", "prompt_lookup")]
)
def test_read_method_names(method: str, expected: str):
    assert _one(draft_spec={"method": method}).labels["method"] == expected


def test_read_rounds_without_a_draft_are_rounds_of_zero():
    assert _counts([10, 10], [8, 4], total_rounds=12, sample_count=0).by_drafted == {2: [2, 4, 4], 0: [2]}


def test_read_proposed_that_counts_drafts_has_its_own_denominators():
    seen = _counts([10, 9], [8, 4])
    assert (seen.drafted_by_position, seen.accepted_by_position) == ([10, 9], [8.0, 4.0])
    assert (seen.n_drafted_tokens, seen.by_drafted, seen.labels.get("draft_length")) == (19, None, None)


def test_read_proposed_that_counts_rounds_that_got_there_is_no_denominator_of_a_marginal():
    seen = _counts([10, 8], [8, 4])
    assert (seen.drafted_by_position, seen.accepted_by_position) == (None, [8.0, 4.0])
    assert "reached" in seen.notes[0]
    assert seen.n_drafted_tokens is None


def test_read_precursor_fixture_is_read_as_reached():
    seen = _counts([3, 2, 1, 1], [2, 1, 1, 0], total_rounds=3)
    assert (seen.accepted_by_position, seen.n_accepted_tokens, seen.n_rounds) == ([2.0, 1.0, 1.0, 0.0], 4, 3)


def test_read_proposed_that_may_mean_either_leaves_positions_out():
    seen = _counts([10, 7], [8, 4])
    assert (seen.accepted_by_position, seen.by_drafted) == (None, None)
    assert (seen.n_rounds, seen.n_accepted_tokens) == (10, 12)
    assert "left out" in seen.notes[0]


def test_read_proposed_that_rises_means_nothing():
    seen = _counts([0, 5], [0, 0])
    assert (seen.accepted_by_position, seen.n_rounds) == (None, 10)


def test_read_positions_that_nobody_proposed_are_left_off():
    assert _counts([10, 10, 0], [8, 4, 0]).by_drafted == {2: [2, 4, 4]}


@pytest.mark.parametrize("length", [2.2, 2.1, 2.15])
def test_read_last_round_of_a_sample_may_lack_its_bonus_token(length: float):
    assert _one(mean_acceptance_length=length).n_rounds == 10


def test_read_no_rounds_is_empty():
    assert _one(total_rounds=0, mean_acceptance_length=0.0, positions=[]).is_empty


@pytest.mark.parametrize(
    ("alpha", "length", "marginal", "conditional"),
    [
        ([0.8, 0.4], 2.2, [0.8, 0.4], None),
        ([0.8, 0.5], 2.2, None, [0.8, 0.5]),
        ([0.5, 0.8], 1.9, None, [0.5, 0.8]),
        ([0.8, 0.5], 1.6, None, None),
        ([], 1.6, None, None),
    ],
)
def test_read_vector_alone_is_typed_by_the_length(alpha: Any, length: float, marginal: Any, conditional: Any):
    seen = _one(NO_POSITIONS, positional_alpha=alpha, mean_acceptance_length=length)
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == (marginal, conditional)
    assert bool(seen.notes) == bool(alpha and marginal is None and conditional is None)
    assert (seen.mean_acceptance_length, seen.n_rounds) == (length, 10)


def test_read_tree_keeps_depths_and_not_nodes():
    seen = _one(TREE)
    assert (seen.is_tree, seen.by_accepted, seen.accepted_by_position) == (True, [2, 4, 4], None)
    assert "draft_length" not in seen.labels


def test_read_tree_depth_that_none_reached_is_zero():
    assert _one(TREE, tree_depth_yield={"1": 0.8, "2": 0.2, "3": 0.2}, mean_acceptance_length=2.2).by_accepted == [
        2,
        6,
        0,
        2,
    ]


def test_read_tree_whose_yields_are_rounded_keeps_only_the_length():
    seen = _one(TREE, tree_depth_yield={"1": 0.83, "2": 0.4}, mean_acceptance_length=2.23)
    assert (seen.by_accepted, seen.mean_acceptance_length) == (None, 2.23)
    assert "rounded" in seen.notes[0]


def test_import_profile_tree_is_told_from_a_chain(save):
    profile = import_profile([save("a.json", TREE)])
    assert profile.tree is not None
    assert profile.tree.depth_acceptance == pytest.approx([0.8, 0.4])
    assert profile.draft_length is None


@pytest.mark.parametrize(
    "changes", [{"corpus": "synthetic, 40 samples"}, {"domain": "synthetic code"}, {"synthetic": True}]
)
def test_read_synthetic_corpus_is_noted_if_the_file_says_so(changes: dict[str, Any]):
    assert any("synthetic" in note for note in _one(**changes).notes)


def test_read_file_that_says_nothing_of_its_corpus_has_no_such_note():
    assert not any("synthetic" in note for note in _one(synthetic=False).notes)


def test_read_temperature_above_zero_was_not_sampled():
    assert any("greedy" in note for note in _one(temperature=0.7).notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mean_acceptance_length": 1.2},
            "mean_acceptance_length = 1.2: does not match the positions, which gives 2.2",
        ),
        ({"mean_acceptance_length": 2.3}, "mean_acceptance_length = 2.3: does not match"),
        ({"positional_alpha": [0.8, 0.5]}, "positional_alpha[1] = 0.5: does not match the positions"),
        ({"positional_alpha": [80, 40]}, "positional_alpha[0] = 80: is no fraction"),
        ({"positional_alpha": [0.8]}, "has not the 2 positions"),
        ({"tree_depth_yield": {"1": 0.8, "2": 0.5}}, "tree_depth_yield.2 × total_rounds = 5.0"),
        ({"tree_depth_yield": {"0": 0.8}}, "begins at depth 0"),
        ({"tree_depth_yield": {"x": 0.8}}, "is no number of tokens"),
        ({"total_rounds": 9}, "positions[0].proposed = 10: more than the 9 rounds"),
        ({"total_rounds": 7}, "accepted rises from position to position, or is above the 7 rounds"),
        ({"total_rounds": None}, "total_rounds = None: must be a whole number"),
        ({"positions": _positions([10, 10], [8, 9])}, "accepted rises"),
        ({"positions": [{"position": 1, "proposed": 10, "accepted": 8}]}, "positions[0].position = 1: does not match"),
        ({"positions": [{"position": 0, "proposed": 10, "accepted": 11}]}, "more than the 10 proposed"),
        ({"positions": [{"position": 0, "proposed": 10, "accepted": 8, "rate": 0.4}]}, "positions[0].rate = 0.4"),
        ({"positions": [{"position": 0, "proposed": 10, "accepted": 8, "rate": 80}]}, "positions[0].rate = 80"),
        ({"positions": [3]}, "positions[0] = 3: must be an object"),
        ({"positions": {}, "positional_alpha": 3}, "positional_alpha = 3: must be a list"),
        (
            {"draft_spec": {"method": "draft_model", "draft_depth": 1}},
            "draft_spec.draft_depth = 1: 2 positions were proposed",
        ),
        ({"draft_spec": 3}, "draft_spec = 3: must be an object"),
        ({"temperature": -1}, "temperature = -1: must lie in"),
        ({"temperature": "hot"}, "temperature = 'hot': must be a number"),
        ({"sample_count": -1}, "sample_count = -1"),
    ],
)
def test_read_impossible_file_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(**changes)
    assert str(caught.value).startswith("a: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("yields", "message"),
    [
        ({"1": 0.4, "2": 0.8}, "rises with depth"),
        ({"1": 1.2}, "must lie in [0, 1]"),
        ({"1": 0.8, "2": 0.1}, "mean_acceptance_length"),
    ],
)
def test_read_impossible_tree_is_refused(yields: dict[str, float], message: str):
    with pytest.raises(BadInput) as caught:
        _one(TREE, tree_depth_yield=yields, sample_count=0)
    assert message in str(caught.value)


def test_import_profile_vector_is_not_discounted_twice(save):
    profile = import_profile([save("a.json", FILE)])
    assert (profile.evidence, profile.marginal_acceptance) == ("counts", [0.8, 0.4])
    assert profile.conditional_acceptance == [0.8, 0.5]
    assert profile.mean_acceptance_length == pytest.approx(2.2)


def test_import_profile_example():
    profile = import_profile([example_file("fak-acceptance.json")])
    assert (profile.n_rounds, profile.draft_length, profile.n_accepted_tokens) == (200, 4, 416)
