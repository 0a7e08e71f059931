"""Which draft lengths evidence speaks for, and what it must not be used for."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.candidates import MEASURED, DraftCandidates, draft_candidates, group_profiles
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import AcceptanceProfile, TreeYield, profile_from_accepted, profile_from_counts
from specbook.checks import BadInput


def _counts(**labels: Any) -> AcceptanceProfile:
    return profile_from_counts({2: [2, 4, 4]}, **({"draft_length": 2} | labels))


def _k1_and_k8() -> list[AcceptanceProfile]:
    return [library_profile("vllm-48892-mtp-k1"), library_profile("vllm-48892-mtp-k8")]


def test_draft_candidates_one_profile_offers_its_length_and_none():
    candidates = draft_candidates([_counts(drafter="d", method="mtp", domain="code")])
    assert candidates.draft_lengths == (0, 2)
    assert candidates.expected_tokens == (1.0, pytest.approx(2.2))
    assert candidates.assumptions == (MEASURED, MEASURED)
    assert (candidates.drafter, candidates.method, candidates.domain) == ("d", "mtp", "code")


def test_draft_candidates_truncation_keeps_the_measured_length_measured():
    candidates = draft_candidates([_counts()], assume="truncation")
    assert candidates.draft_lengths == (0, 1, 2)
    assert candidates.expected_tokens == pytest.approx((1.0, 1.8, 2.2))
    assert candidates.assumptions == (MEASURED, "truncation of a profile at K = 2", MEASURED)


def test_draft_candidates_two_measured_lengths_are_both_measured():
    candidates = draft_candidates(_k1_and_k8())
    assert candidates.draft_lengths == (0, 1, 8)
    assert candidates.expected_tokens == pytest.approx((1.0, 1.8339, 4.4964))


def test_draft_candidates_truncation_never_replaces_a_measured_length():
    candidates = draft_candidates(_k1_and_k8(), assume="truncation")
    assert candidates.draft_lengths == tuple(range(9))
    assert candidates.expected_tokens[1] == pytest.approx(1.8339)
    assert candidates.assumptions[1] == MEASURED
    assert candidates.assumptions[2:8] == ("truncation of a profile at K = 8",) * 6


def test_draft_candidates_truncation_stops_at_the_longest_asked_for():
    profile = profile_from_accepted([5, 4, 3, 2, 1])
    assert draft_candidates([profile], assume="truncation", max_draft_length=2).draft_lengths == (0, 1, 2)
    assert "varying length" in draft_candidates([profile], assume="truncation").assumptions[1]


def test_draft_candidates_unknown_length_needs_an_assumption():
    with pytest.raises(BadInput, match=r"draft_length = None: the source does not say .*; pass --assume truncation"):
        draft_candidates([profile_from_accepted([1, 1, 2])])


def test_draft_candidates_mean_length_alone_is_enough_at_its_length():
    profile = AcceptanceProfile(evidence="mean_length", draft_length=3, mean_acceptance_length=2.5)
    assert draft_candidates([profile]).expected_tokens == (1.0, 2.5)


def test_draft_candidates_conditional_vector_is_enough_at_its_length():
    profile = AcceptanceProfile(evidence="conditional", draft_length=2, conditional_acceptance=[0.9, 0.5])
    assert draft_candidates([profile]).expected_tokens == pytest.approx((1.0, 2.35))


def test_draft_candidates_truncation_without_positions_is_refused():
    profile = AcceptanceProfile(evidence="mean_length", draft_length=3, mean_acceptance_length=2.5)
    with pytest.raises(BadInput, match=r"evidence = 'mean_length': truncation needs acceptance by position"):
        draft_candidates([profile], assume="truncation")


@pytest.mark.parametrize("assume", ["none", "truncation"])
def test_draft_candidates_tree_is_refused(assume: Any):
    tree = _counts(method="eagle", tree=TreeYield(depth_acceptance=[0.8, 0.4]))
    with pytest.raises(BadInput, match=r"tree = 'eagle': this profile is of a tree drafter; .*; project a profile"):
        draft_candidates([tree], assume=assume)


@pytest.mark.parametrize("profile", [profile_from_accepted([7]), profile_from_counts({2: [5, 0, 0]}, draft_length=2)])
def test_draft_candidates_nothing_ever_accepted_is_refused(profile: AcceptanceProfile):
    with pytest.raises(BadInput, match=r"n_accepted_tokens = 0: no draft token was ever accepted; "):
        draft_candidates([profile], assume="truncation")


def test_draft_candidates_same_length_twice_is_refused():
    with pytest.raises(BadInput, match=r"draft_length = 2: two profiles of one draft length; drop one"):
        draft_candidates([_counts(), _counts()])


@pytest.mark.parametrize(
    ("label", "value"),
    [("target", "t"), ("drafter", "d"), ("method", "mtp"), ("domain", "code"), ("temperature", 1.0)],
)
def test_draft_candidates_disagreeing_profiles_are_refused(label: str, value: Any):
    with pytest.raises(BadInput, match=rf"^{label}: profiles disagree: .*None.*; project each by itself"):
        draft_candidates([_counts(), _counts(**{label: value})])


def test_draft_candidates_no_profiles_is_an_error():
    with pytest.raises(ValueError, match="profiles must not be empty"):
        draft_candidates([])


def test_group_profiles_keeps_order_and_parts_temperatures():
    cold, code, hot = _counts(temperature=0.0), _counts(domain="code"), _counts(temperature=1.0)
    assert group_profiles([cold, code, cold, hot]) == [[cold, cold], [code], [hot]]


@pytest.mark.parametrize(
    ("lengths", "tokens", "assumptions", "message"),
    [
        ((), (), (), "draft_lengths must rise from 0"),
        ((1, 2), (1.5, 2.0), ("m", "m"), "draft_lengths must rise from 0"),
        ((0, 2, 2), (1.0, 2.0, 2.0), ("m",) * 3, "draft_lengths must rise from 0"),
        ((0, 3, 2), (1.0, 2.0, 2.0), ("m",) * 3, "draft_lengths must rise from 0"),
        ((0, 1.5), (1.0, 2.0), ("m", "m"), "draft_lengths must be whole and at least 0; got 1.5"),
        ((0, 1), (1.0,), ("m", "m"), "must be equally long"),
        ((0, 1), (1.0, 1.5), ("m",), "must be equally long"),
        ((0, 1), (1.0, 2.1), ("m", "m"), "expected_tokens must lie in"),
        ((0, 1), (1.0, 0.9), ("m", "m"), "expected_tokens must lie in"),
        ((0, 1), (1.1, 1.5), ("m", "m"), "expected_tokens must lie in"),
        ((0, 1), (1.0, float("nan")), ("m", "m"), "expected_tokens must be finite; got nan"),
    ],
)
def test_draft_candidates_construction_impossible_values_are_refused(
    lengths: Any, tokens: Any, assumptions: Any, message: str
):
    with pytest.raises(ValueError, match=message):
        DraftCandidates(draft_lengths=lengths, expected_tokens=tokens, assumptions=assumptions)


def test_draft_candidates_rate_alone_is_one_and_k_times_it():
    profile = AcceptanceProfile(evidence="draft_rate", draft_length=4, draft_acceptance_rate=0.4)
    candidates = draft_candidates([profile])
    assert candidates.expected_tokens == (1.0, pytest.approx(2.6))
    assert candidates.assumptions == (MEASURED, MEASURED)


def test_draft_candidates_positions_short_of_the_length_yield_to_the_mean():
    profile = AcceptanceProfile(
        evidence="marginal", draft_length=4, marginal_acceptance=[0.8, 0.5], mean_acceptance_length=2.6
    )
    assert draft_candidates([profile]).expected_tokens == (1.0, 2.6)


def test_draft_candidates_mean_length_is_no_more_than_a_round_can_give():
    profile = AcceptanceProfile(evidence="mean_length", draft_length=3, mean_acceptance_length=4.0 + 5e-7)
    assert draft_candidates([profile]).expected_tokens == (1.0, 4.0)


def test_draft_candidates_say_what_was_added_to_the_measurement():
    values: dict[str, Any] = {"draft_length": 4, "draft_acceptance_rate": 0.4, "n_drafted_tokens": 40}
    counts = {"n_rounds": 10, "n_accepted_tokens": 16, "mean_acceptance_length": 2.6}
    inferred = AcceptanceProfile(evidence="draft_rate", **values, **counts)
    assert draft_candidates([inferred]).assumptions[1] == "measured, rounds inferred"
    stated = inferred.model_copy(update={"stated_labels": ["draft_length", "domain"]})
    expected = "measured, rounds inferred, draft length stated at import"
    assert draft_candidates([stated]).assumptions[1] == expected
