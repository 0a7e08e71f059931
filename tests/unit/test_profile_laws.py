"""Laws of rounds out of acceptance profiles, each with what had to be assumed."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.draft_models import FixedAcceptance
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import (
    AcceptanceProfile,
    Measurement,
    TreeYield,
    profile_from_accepted,
    profile_from_counts,
)
from specbook.checks import BadInput
from specbook.serving.profile_laws import constant_acceptance, model_laws, profile_laws


def measured(parents: list[int], cut: str | None) -> Measurement:
    return Measurement(
        engine="specbook", arithmetic="exact", blas={}, seed=0, n_prompts=1, max_new_tokens=8, n_new_tokens=8,
        parents=parents, cut=cut, weights_sha256={},
    )  # fmt: skip


def test_counts_of_one_length_are_their_own_law():
    laws = profile_laws([profile_from_counts({2: [2, 4, 4]}, draft_length=2)])
    assert sorted(laws) == [0, 2]
    assert laws[0].law.expected_tokens == 1.0
    assert laws[2].law.probability == pytest.approx((0.2, 0.4, 0.4))
    assert {known.assumption for known in laws.values()} == {"measured"}


def test_shorter_drafts_are_a_part_of_the_longer_one_if_that_is_assumed():
    laws = profile_laws([profile_from_accepted([4, 3, 2, 1])], assume="truncation", max_draft_length=2)
    assert sorted(laws) == [0, 1, 2]
    assert laws[1].law.probability == pytest.approx((0.4, 0.6))
    assert laws[2].law.probability == pytest.approx((0.4, 0.3, 0.3))
    assert "truncation" in laws[1].assumption


def test_two_measured_lengths_each_keep_their_own():
    laws = profile_laws([library_profile("vllm-48892-mtp-k1"), library_profile("vllm-48892-mtp-k8")])
    assert sorted(laws) == [0, 1, 8]
    assert laws[1].law.expected_tokens == pytest.approx(1.8339)
    assert laws[8].law.expected_tokens == pytest.approx(4.4964, rel=1e-4)


def test_lengths_between_are_a_part_of_the_longest_that_was_measured():
    short = profile_from_counts({1: [5, 5]}, draft_length=1)
    long = profile_from_counts({3: [1, 3, 2, 4]}, draft_length=3)
    laws = profile_laws([short, long], assume="truncation", max_draft_length=3)
    assert laws[2].law.probability == pytest.approx((0.1, 0.3, 0.6))
    assert laws[1].law.probability == pytest.approx((0.5, 0.5))


def test_a_mean_alone_is_spread_over_the_positions_and_says_so():
    profile = AcceptanceProfile(evidence="mean_length", mean_acceptance_length=2.44, draft_length=2)
    known = profile_laws([profile])[2]
    assert known.law.probability == pytest.approx((0.2, 0.16, 0.64))
    assert known.assumption == "measured, one acceptance throughout"


def test_tree_drafts_its_nodes_and_accepts_a_path():
    tree = TreeYield(depth_acceptance=[0.8, 0.5], rank_acceptance=[0.6, 0.2], n_nodes=3)
    profile = AcceptanceProfile(
        evidence="rank", tree=tree, mean_acceptance_length=2.3, measurement=measured([-1, -1, 0], None)
    )
    laws = profile_laws([profile])
    assert sorted(laws) == [0, 2]
    assert (laws[2].law.n_nodes, laws[2].law.probability) == (3, pytest.approx((0.2, 0.3, 0.5)))


def test_cut_drafts_keep_what_was_counted():
    laws = profile_laws([profile_from_counts({0: [3], 2: [1, 2, 4]}, measurement=measured([-1, 0], "entropy:1"))])
    assert (laws[2].law.is_fixed, laws[2].assumption) == (False, "measured, cut entropy:1")
    assert laws[2].law.expected_tokens == pytest.approx(2.0)


def test_profiles_of_different_things_are_refused():
    profiles = [profile_from_counts({2: [2, 4, 4]}, draft_length=2, drafter=name) for name in ("a", "b")]
    with pytest.raises(BadInput, match=r"^acceptance: profiles are of different things; simulate .* one drafter"):
        profile_laws(profiles)


def test_unknown_length_needs_an_assumption():
    with pytest.raises(BadInput, match=r"draft_length = None"):
        profile_laws([profile_from_accepted([1, 1, 2])])


def test_model_laws_hold_no_speculation_too():
    laws = model_laws(FixedAcceptance(acceptance=0.8), [0, 1, 4])
    assert {length: known.law.draft_length for length, known in laws.items()} == {0: 0, 1: 1, 4: 4}
    assert laws[4].law.expected_tokens == pytest.approx((1.0 - 0.8**5) / 0.2)
    assert laws[1].assumption == "fixed draft model"


@pytest.mark.parametrize(("tokens", "length", "acceptance"), [(1.0, 3, 0.0), (4.0, 3, 1.0), (2.44, 2, 0.8)])
def test_constant_acceptance_gives_the_mean(tokens: float, length: int, acceptance: float):
    assert constant_acceptance(tokens, length) == pytest.approx(acceptance, abs=1e-12)


@pytest.mark.parametrize("tokens", [0.9, 4.1, float("nan")])
def test_constant_acceptance_refuses_what_no_chain_yields(tokens: Any):
    with pytest.raises(ValueError, match=r"expected_tokens must lie in \[1, 4\]"):
        constant_acceptance(tokens, 3)
