"""DeepSpec rows: marginal by definition, checked against the stated length, which lacks the bonus at the end."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.deepspec import read, recognises
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

ROW: dict[str, Any] = {
    "dataset": "math",
    "num_samples": 10,
    "draft_tokens_per_proposal": 2,
    "acceptance_length": 2.2,
    "verify_rate": 2.2 / 3,
    "accept_rates_by_position": [0.8, 0.4],
}


def _one(**changes: Any) -> Observation:
    (seen,) = read(ROW | changes, "a")
    return seen


def _length(length: float, drafted: float, rates: list[float | None]) -> Observation:
    rate = length / (drafted + 1)
    return _one(
        acceptance_length=length, draft_tokens_per_proposal=drafted, verify_rate=rate, accept_rates_by_position=rates
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (ROW, True),
        ({"config": {}, "spec": ROW}, True),
        ({key: value for key, value in ROW.items() if key != "verify_rate"}, False),
        ({"accept_rates_by_position": [0.8]}, False),
        ({"spec": [ROW]}, False),
        ([ROW], False),
        ({}, False),
    ],
)
def test_recognises_rows_and_artifacts(record: Any, expected: bool):
    assert recognises(record) is expected


def test_read_vector_is_marginal_and_the_length_counts_the_bonus():
    seen = _one()
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == ([0.8, 0.4], None)
    assert (seen.mean_acceptance_length, seen.n_rounds, seen.is_request) == (2.2, None, False)
    assert seen.labels == {"domain": "math", "draft_length": 2}
    assert seen.notes == ()


def test_read_row_inside_an_artifact():
    (seen,) = read({"config": {}, "spec": ROW}, "a")
    assert seen.mean_acceptance_length == 2.2


def test_read_rounds_without_a_bonus_token_may_shorten_the_length_a_little():
    assert _length(2.15, 2, [0.8, 0.4]).marginal_acceptance == [0.8, 0.4]


def test_read_vector_that_multiplies_to_the_length_is_conditional():
    seen = _length(2.36, 2, [0.8, 0.7])
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == (None, [0.8, 0.7])
    assert "conditional" in seen.notes[0]


def test_read_rising_vector_is_never_marginal():
    seen = _length(1 + 0.5 + 0.4, 2, [0.5, 0.8])
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == (None, [0.5, 0.8])


def test_read_rising_vector_is_dropped_even_where_its_sum_gives_the_length():
    seen = _length(2.0, 2, [0.4, 0.6])
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == (None, None)


def test_read_vector_that_fits_neither_way_is_dropped_with_a_note():
    seen = _length(1.5, 2, [0.8, 0.5])
    assert (seen.marginal_acceptance, seen.conditional_acceptance) == (None, None)
    assert "left out" in seen.notes[0]


def test_read_short_proposals_are_judged_with_the_rounds_that_made_them():
    seen = _length(2.5, 2.0, [0.9, 0.7, 0.5])
    assert seen.marginal_acceptance == [0.9, 0.7, 0.5]
    assert "draft_length" not in seen.labels


def test_read_proposals_cut_by_the_end_of_a_sequence_keep_the_length():
    assert _length(2.2, 1.97, [0.8, 0.4]).labels["draft_length"] == 2


@pytest.mark.parametrize("rates", [None, [], [None, None]])
def test_read_row_without_positions_keeps_its_length(rates: Any):
    seen = _one(accept_rates_by_position=rates)
    assert (seen.marginal_acceptance, seen.mean_acceptance_length, seen.notes) == (None, 2.2, ())


def test_read_positions_that_no_proposal_reached_are_left_off():
    assert _one(accept_rates_by_position=[0.8, 0.4, None]).marginal_acceptance == [0.8, 0.4]


def test_read_row_without_proposals_is_empty_and_no_length_of_zero():
    zeros = {"acceptance_length": 0.0, "draft_tokens_per_proposal": 0.0, "verify_rate": 0.0}
    assert _one(**zeros, accept_rates_by_position=[None, None]).is_empty


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"acceptance_length": 0.9}, "acceptance_length = 0.9: a round gives at least one token"),
        ({"acceptance_length": 0}, "acceptance_length = 0.0: a round gives at least one token"),
        ({"acceptance_length": 3.1}, "acceptance_length = 3.1: must lie in"),
        ({"acceptance_length": None}, "acceptance_length = None: must be a number"),
        ({"acceptance_length": "2.2"}, "must be a number"),
        ({"acceptance_length": float("nan")}, "must be a number"),
        ({"verify_rate": -0.1}, "verify_rate = -0.1: must lie in"),
        ({"verify_rate": "0.7"}, "verify_rate = '0.7': must be a number"),
        ({"draft_tokens_per_proposal": -1}, "draft_tokens_per_proposal = -1: must lie in"),
        ({"draft_tokens_per_proposal": 1e308}, "must lie in [0, 4096]"),
        ({"accept_rates_by_position": [80, 40]}, "accept_rates_by_position[0] = 80: is no fraction"),
        ({"accept_rates_by_position": [0.8, None, 0.3]}, "a position after one that no proposal reached"),
        ({"accept_rates_by_position": [0.5] * 5000}, "accept_rates_by_position"),
        ({"accept_rates_by_position": "0.8"}, "must be a list"),
        ({"accept_rates_by_position": [True, False]}, "must be a number"),
        ({"dataset": "\ud800"}, "dataset"),
    ],
)
def test_read_impossible_row_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(**changes)
    assert str(caught.value).startswith("a: ")
    assert message in str(caught.value)


def test_import_profile_single_row(save):
    profile = import_profile([save("a.json", ROW)])
    assert (profile.evidence, profile.marginal_acceptance, profile.draft_length) == ("marginal", [0.8, 0.4], 2)
    assert profile.conditional_acceptance == [0.8, 0.5]
    assert any("end-of-sequence" in warning for warning in profile.warnings)


def test_import_profile_rows_without_rounds_are_not_averaged(save):
    path = save("a.json", [ROW, ROW | {"dataset": "code"}])
    with pytest.raises(BadInput, match="nobody knows their weights"):
        import_profile([path])
    assert sorted(import_profiles([path])) == ["code", "math"]


def test_import_profile_rows_with_a_rate_of_verify_steps_are_weighted(save):
    timed = {"elapsed_seconds": 10.0, "verifications_per_second": 30.0}
    other = {"acceptance_length": 1.2, "verify_rate": 0.4, "accept_rates_by_position": [0.1, 0.1], "dataset": "code"}
    path = save("a.json", [ROW | timed, ROW | other | timed | {"verifications_per_second": 10.0}])
    assert import_profile([path]).mean_acceptance_length == pytest.approx((3 * 2.2 + 1.2) / 4)


def test_import_profiles_example():
    profiles = import_profiles([example_file("deepspec.json")])
    assert sorted(profiles) == ["gsm8k", "humaneval", "mt-bench"]
    assert all(profile.evidence == "marginal" for profile in profiles.values())


@pytest.mark.parametrize("rate", [0.45, 1.1, 73.3])
def test_read_verify_rate_of_another_meaning_is_noted_and_not_used(rate: float):
    """A share of accepted drafts, a rate with another denominator, a percentage."""
    (seen,) = read(ROW | {"verify_rate": rate}, "a.json")
    assert any("verify_rate is not" in note for note in seen.notes)
    assert not any("verify_rate" in note for note in next(read(ROW, "a.json")).notes)
