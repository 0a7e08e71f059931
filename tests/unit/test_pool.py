"""Sums over observations, and the profile that they give: each as weak as its weakest part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from specbook.acceptance.importing.pool import LABELS, Pool
from specbook.acceptance.importing.profiles import pooled_profile
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput


def _profile(*seen: Observation, **labels: Any) -> AcceptanceProfile:
    pool = Pool()
    for one in seen:
        pool.add(one, "spec-bench")
    known = {name: None for name in LABELS if name != "run"} | {"warnings": []} | labels
    return pooled_profile(pool, known, {}, 200, 0)


def _shares(accepted: list[float], drafted: list[int] | None = None, rounds: int = 10, **fields: Any) -> Observation:
    values = {"n_rounds": rounds, "n_accepted_tokens": round(sum(accepted))} | fields
    return Observation(accepted_by_position=accepted, drafted_by_position=drafted, **values)


TOTALS = Observation(n_rounds=10, n_accepted_tokens=8)


def _warned(profile: AcceptanceProfile, part: str) -> bool:
    return any(part in text for text in profile.warnings)


@pytest.mark.parametrize(
    "strong", [Observation(by_accepted=[6, 3, 1]), _shares([4.0, 1.0]), Observation(by_drafted={2: [6, 3, 1]})]
)
def test_pooled_profile_one_request_of_totals_leaves_totals(strong: Observation):
    profile = _profile(strong, TOTALS)
    assert (profile.evidence, profile.n_rounds, profile.n_accepted_tokens) == ("mean_length", 20, 13)
    assert profile.marginal_acceptance is None
    assert _warned(profile, "records differ in what they hold")


def test_pooled_profile_histogram_is_read_as_far_as_its_draft_reached():
    """One token accepted of three says that positions 2 and 3 were not; of an unknown draft it says nothing."""
    labels = {"draft_length": 3}
    histogram = Observation(by_accepted=[3, 1], labels=labels)
    positions = _shares([2.0, 1.0, 1.0], rounds=4, labels=labels)
    assert _profile(histogram, positions, **labels).marginal_acceptance == [3 / 8, 1 / 8, 1 / 8]
    assert _profile(Observation(by_accepted=[3, 1]), positions).evidence == "mean_length"


@pytest.mark.parametrize(
    ("seen", "length"),
    [
        ([_shares([6.0, 2.0], n_drafted_tokens=20)], 2),
        ([_shares([6.0, 2.0], n_drafted_tokens=19)], 2),
        ([_shares([6.0, 2.0], n_drafted_tokens=18)], None),
        ([_shares([6.0, 2.0], n_drafted_tokens=30)], None),
        ([_shares([6.0, 2.0], [10, 10])], 2),
        ([_shares([6.0, 2.0], [10, 5])], None),
        ([_shares([6.0, 2.0], [10, 10]), _shares([6.0, 2.0])], None),
    ],
)
def test_pooled_profile_positions_tell_the_draft_length_only_if_all_were_drafted(seen: list[Observation], length: Any):
    assert _profile(*seen).draft_length == length


def test_pooled_profile_position_that_was_never_drafted_is_left_out():
    assert _profile(_shares([6.0, 0.0], [10, 0])).marginal_acceptance == [0.6]


@pytest.mark.parametrize(("second", "marginal"), [(500.9, [0.5, 0.5]), (510.0, None), (490.0, [0.5, 0.49])])
def test_pooled_profile_acceptance_that_rises_by_more_than_print_is_no_marginal(second: float, marginal: Any):
    profile = _profile(_shares([500.0, second], rounds=1000))
    assert profile.marginal_acceptance == marginal
    assert _warned(profile, "acceptance by position rises") is (marginal is None)


def test_pooled_profile_share_above_one_by_print_is_one():
    assert _profile(_shares([10.004])).marginal_acceptance == [1.0]


@pytest.mark.parametrize(("last", "varied"), [(50, True), (98, False), (100, False)])
def test_pooled_profile_drafts_that_varied_are_said_to(last: int, varied: bool):
    assert _warned(_profile(_shares([60.0, 20.0], [100, last], rounds=100)), "draft length varied") is varied


def test_pooled_profile_lengths_that_no_round_drafted_do_not_hide_the_one_they_did():
    assert _profile(Observation(by_drafted={2: [1, 1, 2], 4: [0] * 5})).draft_length == 2


@pytest.mark.parametrize(("nodes", "expected"), [((32, 32), 32), ((32, 64), None), ((32, None), None)])
def test_pooled_profile_nodes_of_a_tree_are_those_of_all(nodes: tuple[Any, Any], expected: Any):
    trees = [Observation(by_accepted=[1, 1], is_tree=True, n_tree_nodes=count) for count in nodes]
    assert _profile(*trees).tree.n_nodes == expected  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "seen",
    [
        _shares([6.0, 2.0], is_tree=True),
        Observation(is_tree=True, is_request=False, marginal_acceptance=[0.6, 0.2], mean_acceptance_length=1.8),
        Observation(is_tree=True, is_request=False, draft_acceptance_rate=0.1),
        Observation(is_tree=True, by_accepted=[4, 6], labels={"draft_length": 3}, n_drafted_tokens=320),
    ],
)
def test_pooled_profile_tree_is_a_tree_whatever_is_known_of_it(seen: Observation):
    profile = _profile(seen, draft_length=seen.labels.get("draft_length"))
    assert profile.tree is not None
    assert profile.evidence in ("mean_length", "draft_rate", "marginal")
    assert profile.evidence != "marginal" or profile.rounds_by_accepted is not None


def test_pooled_profile_shares_are_marginal_in_intervals_too():
    intervals = _profile(*[_shares([6.0, 2.0], [8, 4], rounds=8)] * 12).intervals
    assert intervals is not None
    assert_allclose(intervals.marginal_acceptance, [[0.75, 0.75], [0.5, 0.5]])
    assert intervals.conditional_acceptance == [None, None]


def test_pooled_profile_histograms_have_intervals_of_conditional_acceptance():
    seen = Observation(by_accepted=[2, 4, 2], labels={"draft_length": 2})
    intervals = _profile(*[seen] * 12, draft_length=2).intervals
    assert intervals is not None
    assert_allclose(np.array(intervals.conditional_acceptance, dtype=float), [[0.75, 0.75], [1 / 3, 1 / 3]])


def test_pooled_profile_a_run_among_requests_takes_the_intervals_and_the_mean_over_requests():
    requests = [Observation(by_accepted=[2, 1, 1 + index % 2]) for index in range(12)]
    assert _profile(*requests).intervals is not None
    profile = _profile(*requests, Observation(by_accepted=[5, 5], is_request=False))
    assert (profile.intervals, profile.mean_acceptance_length_per_request) == (None, None)


def test_pooled_profile_long_drafts_have_intervals_of_the_first_positions():
    rows = [[1] * 41] * 12
    intervals = _profile(*[Observation(by_drafted={40: row}) for row in rows]).intervals
    assert intervals is not None
    assert len(intervals.marginal_acceptance) == len(intervals.conditional_acceptance) == 32


@pytest.mark.parametrize(
    ("seen", "empty"),
    [
        (Observation(), True),
        (Observation(n_drafted_tokens=0), True),
        (Observation(by_accepted=[]), True),
        (Observation(by_drafted={2: [0, 0, 0]}), True),
        (Observation(n_drafted_tokens=3), False),
        (Observation(draft_acceptance_rate=0.0), False),
    ],
)
def test_pool_leaves_out_what_says_nothing(seen: Observation, empty: bool):
    pool = Pool()
    assert (pool.add(seen, "spec-bench") is None) is empty
    assert (pool.n_empty, pool.n_observations) == (int(empty), int(not empty))


def test_pooled_profile_configured_length_that_was_exceeded_is_refused():
    seen = Observation(by_accepted=[5, 5], n_drafted_tokens=30, labels={"draft_length": 2})
    with pytest.raises(BadInput, match=r"draft_length = 2: rounds drafted 3\.00 tokens on average"):
        _profile(seen, draft_length=2)
