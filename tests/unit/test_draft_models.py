"""Draft models: acceptance by position, and what a profile may be asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.acceptance.draft_models import (
    DraftModel,
    Empirical,
    EntropyAware,
    FixedAcceptance,
    PositionDecay,
    draft_model_parameters,
)
from specbook.acceptance.profile import AcceptanceProfile, TreeYield, profile_from_accepted, profile_from_counts
from specbook.acceptance.yields import expected_rounds, tokens_distribution
from specbook.checks import BadInput


def _profile(**labels: Any) -> AcceptanceProfile:
    return profile_from_counts({2: [2, 4, 4]}, **({"draft_length": 2} | labels))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (FixedAcceptance(), [0.8, 0.8, 0.8]),
        (FixedAcceptance(acceptance=0.0), [0.0, 0.0, 0.0]),
        (PositionDecay(), [0.9, 0.855, 0.81225]),
        (PositionDecay(base=1.0, factor=0.0), [1.0, 0.0, 0.0]),
        (PositionDecay(base=0.6, factor=1.0), [0.6, 0.6, 0.6]),
        (EntropyAware(), [0.815, 0.815, 0.815]),
        (EntropyAware(hard_fraction=1.0), [0.5, 0.5, 0.5]),
        (EntropyAware(hard_fraction=0.0), [0.95, 0.95, 0.95]),
    ],
)
def test_conditional_acceptance_by_hand(model: DraftModel, expected: list[float]):
    assert model.conditional_acceptance(3) == pytest.approx(expected)
    assert model.conditional_acceptance(3).dtype == np.float64
    assert model.conditional_acceptance(0).shape == (0,)


def test_entropy_aware_has_the_law_of_its_mean():
    mixed, constant = (m.conditional_acceptance(6) for m in (EntropyAware(), FixedAcceptance(acceptance=0.815)))
    assert tokens_distribution(mixed) == pytest.approx(tokens_distribution(constant), abs=1e-15)
    assert expected_rounds(mixed, 128) == pytest.approx(expected_rounds(constant, 128), rel=1e-13)


def test_entropy_aware_other_reading_of_the_wording_is_the_two_swapped():
    assert EntropyAware(easy_acceptance=0.5, hard_acceptance=0.95).conditional_acceptance(1) == pytest.approx([0.635])


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (FixedAcceptance, "acceptance"),
        (PositionDecay, "base"),
        (PositionDecay, "factor"),
        (EntropyAware, "easy_acceptance"),
        (EntropyAware, "hard_acceptance"),
        (EntropyAware, "hard_fraction"),
    ],
)
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_parameters_outside_the_unit_interval_are_refused(model: Any, field: str, value: float):
    with pytest.raises(ValueError, match=rf"^{field} must lie in \[0, 1\]; got"):
        model(**{field: value})


@pytest.mark.parametrize("draft_length", [-1, 1.5, float("nan")])
@pytest.mark.parametrize("model", [FixedAcceptance(), PositionDecay(), EntropyAware()])
def test_impossible_draft_lengths_are_refused(model: DraftModel, draft_length: Any):
    with pytest.raises(ValueError, match="draft_length"):
        model.conditional_acceptance(draft_length)


def test_empirical_speaks_for_the_measured_length_and_for_none():
    model = Empirical.from_profile(_profile(target="t", domain="code"))
    assert model.conditional_acceptance(2) == pytest.approx([0.8, 0.5])
    assert model.conditional_acceptance(0).size == 0
    assert model.source == "t, code"


def test_empirical_other_length_needs_the_assumption():
    with pytest.raises(
        BadInput, match=r"draft_length = 1: the profile was measured at K = 2.*; draft 2 tokens, or pass"
    ):
        Empirical.from_profile(_profile()).conditional_acceptance(1)
    assert Empirical.from_profile(_profile(), assume="truncation").conditional_acceptance(1) == pytest.approx([0.8])


def test_empirical_of_unknown_length_needs_the_assumption():
    profile = profile_from_accepted([1, 1, 2])
    with pytest.raises(BadInput, match=r"draft_length = 2: the source does not say how many tokens .*; pass --assume"):
        Empirical.from_profile(profile).conditional_acceptance(2)
    model = Empirical.from_profile(profile, assume="truncation", source="mine")
    assert model.conditional_acceptance(2) == pytest.approx([0.75, 2 / 3])
    assert model.source == "mine"


def test_empirical_beyond_its_positions_is_refused():
    with pytest.raises(BadInput, match=r"draft_length = 3: the profile holds 2 positions; draft at most 2 tokens"):
        Empirical.from_profile(_profile(), assume="truncation").conditional_acceptance(3)
    with pytest.raises(BadInput, match="the profile holds 2 positions"):
        Empirical.from_profile(profile_from_accepted([1, 1, 2], draft_length=4)).conditional_acceptance(4)


def test_empirical_position_that_no_round_reached_changes_nothing():
    model = Empirical.from_profile(profile_from_counts({3: [2, 2, 0, 0]}, draft_length=3))
    assert model.conditional_acceptance(3) == pytest.approx([0.5, 0.0, 0.0])


@pytest.mark.parametrize("assume", ["none", "truncation"])
def test_empirical_tree_is_refused(assume: Any):
    with pytest.raises(BadInput, match="this profile is of a tree drafter"):
        Empirical.from_profile(_profile(tree=TreeYield(depth_acceptance=[0.8])), assume=assume)


def test_empirical_without_positions_is_refused():
    profile = AcceptanceProfile(evidence="mean_length", draft_length=3, mean_acceptance_length=2.5)
    with pytest.raises(BadInput, match=r"evidence = 'mean_length': a cycle needs acceptance by position"):
        Empirical.from_profile(profile)


def test_empirical_without_any_acceptance_is_refused():
    with pytest.raises(BadInput, match="no draft token was ever accepted"):
        Empirical.from_profile(profile_from_counts({2: [5, 0, 0]}, draft_length=2))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"marginal_acceptance": (0.5, 0.6)}, "marginal_acceptance must not rise"),
        ({"marginal_acceptance": (1.5,)}, r"marginal_acceptance must lie in \[0, 1\]"),
        ({"draft_length": -1}, "draft_length must be whole and at least 0"),
        ({"assume": "hope"}, "assume must be none or truncation; got hope"),
    ],
)
def test_empirical_construction_impossible_values_are_refused(fields: Any, message: str):
    with pytest.raises(ValueError, match=message):
        Empirical(**({"marginal_acceptance": (0.5,), "draft_length": 1} | fields))


def test_parameters_have_the_same_names_for_every_model():
    models = (FixedAcceptance(), PositionDecay(), EntropyAware(), Empirical.from_profile(_profile()))
    names = {tuple(draft_model_parameters(model)) for model in models}
    assert len(names) == 1
    assert [draft_model_parameters(model)["draft_model"] for model in models] == [
        "fixed", "position_decay", "entropy_aware", "empirical",
    ]  # fmt: skip
