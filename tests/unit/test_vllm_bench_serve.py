"""Results of ``vllm bench serve``: percent beside fractions, counts that come back, drafts that varied."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.vllm_bench_serve import read, recognises
from specbook.checks import BadInput

RESULT: dict[str, Any] = {
    "backend": "openai-chat",
    "model_id": "m",
    "num_prompts": 10,
    "duration": 4.0,
    "completed": 10,
    "mean_tpot_ms": 8.1,
    "spec_decode_acceptance_rate": 60.0,
    "spec_decode_acceptance_length": 2.2,
    "spec_decode_num_drafts": 100,
    "spec_decode_draft_tokens": 200,
    "spec_decode_accepted_tokens": 120,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.4],
}
SPEC = [name for name in RESULT if name.startswith("spec_decode_")]


def _one(**changes: Any) -> Observation:
    (seen,) = read(RESULT | changes, "a")
    return seen


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (RESULT, True),
        (RESULT | dict.fromkeys(SPEC), True),
        ({name: value for name, value in RESULT.items() if name not in SPEC}, False),
        ({"spec_decode_acceptance": {"engine": "vllm"}}, False),
        ([RESULT], False),
        ("spec_decode_num_drafts", False),
        (None, False),
    ],
)
def test_recognises_results_with_speculation_only(record: Any, expected: bool):
    assert recognises(record) is expected


def test_read_gives_the_counts_back():
    seen = _one()
    assert seen.accepted_by_position == [80.0, 40.0]
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (100, 200, 120)
    assert seen.labels == {"target": "m", "draft_length": 2}
    assert not seen.is_request
    assert seen.notes == ()


def test_import_profile_vectors_are_marginal_and_the_length_has_the_bonus(save):
    profile = import_profile([save("a.json", RESULT)])
    assert profile.evidence == "marginal"
    assert profile.marginal_acceptance == [0.8, 0.4]
    assert profile.conditional_acceptance == [0.8, 0.5]
    assert profile.mean_acceptance_length == pytest.approx(2.2)
    assert profile.draft_acceptance_rate == 0.6
    assert profile.intervals is None
    assert any("end-of-sequence" in warning for warning in profile.warnings)


def test_import_profile_example_file():
    profile = import_profile([example_file("vllm-bench-serve.json")])
    assert (profile.draft_length, profile.n_rounds, profile.marginal_acceptance) == (3, 1200, [0.78, 0.59, 0.41])


def test_import_profile_two_runs_are_summed(save):
    other = RESULT | {"spec_decode_num_drafts": 300, "spec_decode_draft_tokens": 600}
    other |= {"spec_decode_accepted_tokens": 180, "spec_decode_per_position_acceptance_rates": [0.4, 0.2]}
    other |= {"spec_decode_acceptance_rate": 30.0, "spec_decode_acceptance_length": 1.6}
    labels = {"domain": "code", "temperature": 0.0}
    profile = import_profile([save("a.json", RESULT), save("b.json", other)], ImportOptions(labels=labels))
    assert profile.marginal_acceptance == [0.5, 0.25]
    assert profile.mean_acceptance_length == 1.75


def test_read_shares_of_many_rounds_are_whole_to_rounding():
    rounds, counts = 6752, [5630, 4516, 3591]
    seen = _one(
        spec_decode_num_drafts=rounds,
        spec_decode_draft_tokens=3 * rounds,
        spec_decode_accepted_tokens=sum(counts),
        spec_decode_per_position_acceptance_rates=[count / rounds for count in counts],
        spec_decode_acceptance_rate=100.0 * sum(counts) / rounds / 3,
        spec_decode_acceptance_length=1.0 + sum(counts) / rounds,
    )
    assert seen.accepted_by_position == counts


def test_read_shares_of_ten_digits_are_whole_again():
    changes = {"spec_decode_num_drafts": 30, "spec_decode_draft_tokens": 60, "spec_decode_accepted_tokens": 31}
    changes |= {"spec_decode_acceptance_rate": 51.667, "spec_decode_acceptance_length": 2.033}
    seen = _one(**changes, spec_decode_per_position_acceptance_rates=[0.6333333333, 0.4])
    assert seen.accepted_by_position == [19.0, 12.0]


def test_read_rounded_shares_stay_fractional():
    seen = _one(spec_decode_per_position_acceptance_rates=[0.7996, 0.4001])
    assert seen.accepted_by_position == pytest.approx([79.96, 40.01])


def test_read_varied_drafts_are_lower_bounds_without_a_length():
    """Trap: shares are of all rounds, also of those that never drafted the position."""
    seen = _one(spec_decode_draft_tokens=170, spec_decode_acceptance_rate=100 * 120 / 170)
    assert "draft_length" not in seen.labels
    assert seen.accepted_by_position == [80.0, 40.0]
    assert any("late positions are lower bounds" in note for note in seen.notes)


def test_import_profile_draft_lengths_apart(save):
    one = RESULT | {"spec_decode_draft_tokens": 100, "spec_decode_per_position_acceptance_rates": [0.8]}
    one |= {"spec_decode_accepted_tokens": 80, "spec_decode_acceptance_rate": 80.0}
    one |= {"spec_decode_acceptance_length": 1.8}
    paths = [save("a.json", RESULT), save("b.json", one)]
    options = ImportOptions(labels={"domain": "code", "temperature": 0.0})
    with pytest.raises(BadInput, match="draft_length: requests disagree: 1, 2"):
        import_profile(paths, options)
    assert {name: p.draft_length for name, p in import_profiles(paths, options).items()} == {"k1": 1, "k2": 2}


@pytest.mark.parametrize(
    "changes",
    [
        dict.fromkeys(SPEC),
        {"spec_decode_num_drafts": 0, "spec_decode_draft_tokens": 0, "spec_decode_accepted_tokens": 0}
        | {"spec_decode_acceptance_rate": 0.0, "spec_decode_acceptance_length": 0.0}
        | {"spec_decode_per_position_acceptance_rates": []},
    ],
)
def test_read_run_without_drafts_is_empty(changes: dict[str, Any]):
    assert _one(**changes).is_empty


def test_read_shares_without_rounds_are_a_typed_vector():
    (seen,) = read({"spec_decode_per_position_acceptance_rates": [0.8, 0.4], "spec_decode_acceptance_rate": 60.0}, "a")
    assert seen.marginal_acceptance == [0.8, 0.4]
    assert seen.draft_acceptance_rate == 0.6
    assert seen.n_rounds is None
    assert not seen.is_request


def test_read_missing_positions_leave_totals():
    seen = _one(spec_decode_per_position_acceptance_rates=None)
    assert seen.accepted_by_position is None
    assert (seen.n_rounds, seen.n_accepted_tokens) == (100, 120)
    assert "draft_length" not in seen.labels


def test_read_missing_total_follows_from_the_positions():
    assert _one(spec_decode_accepted_tokens=None).n_accepted_tokens == 120


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"spec_decode_acceptance_rate": 0.6},
            "spec_decode_acceptance_rate = 0.6: does not match the counts, which give 60",
        ),
        ({"spec_decode_acceptance_rate": 600.0}, "must lie in [0, 100]"),
        ({"spec_decode_acceptance_rate": "60"}, "must be a number"),
        ({"spec_decode_acceptance_length": 1.2}, "spec_decode_acceptance_length = 1.2: does not match the counts"),
        ({"spec_decode_acceptance_length": float("nan")}, "must be a number"),
        ({"spec_decode_num_drafts": 100.0}, "must be a whole number"),
        ({"spec_decode_num_drafts": True}, "must be a whole number"),
        ({"spec_decode_num_drafts": -1}, "must be at least 0"),
        ({"spec_decode_num_drafts": 10**400}, "is beyond any server"),
        ({"spec_decode_num_drafts": 99}, "rounds of at most 2 tokens cannot draft that many"),
        ({"spec_decode_num_drafts": 0}, "tokens without a round"),
        (
            {"spec_decode_draft_tokens": 110},
            "spec_decode_accepted_tokens = 120: more tokens accepted than the 110 drafted",
        ),
        ({"spec_decode_accepted_tokens": 121}, "does not match the sum over positions, which gives 120"),
        ({"spec_decode_per_position_acceptance_rates": [80.0, 40.0]}, "is no fraction"),
        ({"spec_decode_per_position_acceptance_rates": [0.8, 0.5]}, "does not match the sum over positions"),
        ({"spec_decode_per_position_acceptance_rates": [0.4, 0.8]}, "rises at position 2"),
        ({"spec_decode_per_position_acceptance_rates": [0.8, None]}, "must be a number"),
        ({"spec_decode_per_position_acceptance_rates": [[0.8], 0.4]}, "must be a number"),
        ({"spec_decode_per_position_acceptance_rates": 0.8}, "must be a list"),
        ({"spec_decode_per_position_acceptance_rates": [0.1] * 5000}, "has more than 4096 positions"),
        ({"model_id": "\ud800"}, "is not valid text"),
    ],
)
def test_read_impossible_results_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput) as caught:
        _one(**changes)
    assert str(caught.value).startswith("a: ")
    assert message in str(caught.value)


def test_read_conditional_values_are_refused_by_the_total():
    """Trap: 0.8 and 0.5 are conditional here; as marginals they would give 130 tokens."""
    with pytest.raises(BadInput, match="which gives 130"):
        _one(spec_decode_per_position_acceptance_rates=[0.8, 0.5])


def test_read_shares_and_length_without_rounds_must_agree():
    with pytest.raises(BadInput, match=r"which gives 2\.2"):
        list(read({"spec_decode_per_position_acceptance_rates": [0.8, 0.4], "spec_decode_acceptance_length": 1.2}, "a"))
