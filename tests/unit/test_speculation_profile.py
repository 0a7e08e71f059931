"""``speculation_profile.json``: two named vectors, a mean and a histogram that must say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specbook.acceptance.importing import import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.speculation_profile import read, recognises
from specbook.checks import BadInput

PROFILE: dict[str, Any] = {
    "schema_version": "1.0",
    "method": "draft",
    "num_speculative_tokens": 2,
    "conditional_accept_rates": [0.7, 0.428571],
    "marginal_accept_rates": [0.7, 0.3],
    "mean_accept_length": 2.0,
    "mean_accept_length_per_request": 2.2,
    "acceptance_length_histogram": {"1": 3, "2": 4, "3": 3},
    "measurement_conditions": {"dataset": "mt_bench", "osl": 64, "num_samples": 2, "temperature": 0},
}
# The figures that Model-Optimizer#2247 publishes, with three digits.
PUBLISHED: dict[str, Any] = {
    "num_speculative_tokens": 3,
    "method": "dflash",
    "conditional_accept_rates": [0.816, 0.777, 0.750],
    "marginal_accept_rates": [0.816, 0.634, 0.475],
    "mean_accept_length": 2.925,
}


def _without(*names: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (PROFILE | changes).items() if key not in names}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a.json")
    return seen


def test_recognises_both_vectors_together():
    assert recognises(PROFILE)
    assert recognises(PROFILE | {"conditional_accept_rates": None, "marginal_accept_rates": None})


@pytest.mark.parametrize(
    "record", [{}, [PROFILE], None, {"marginal_accept_rates": [0.7]}, {"num_speculative_tokens": 2}]
)
def test_recognises_nothing_else(record: Any):
    assert not recognises(record)


def test_read_histogram_gives_rounds_and_labels():
    seen = _one(PROFILE)
    assert seen.by_accepted == [3, 4, 3]
    assert seen.labels == {"method": "draft_model", "domain": "mt_bench", "temperature": 0.0, "draft_length": 2}


def test_import_profile_length_is_that_over_rounds(save):
    profile = import_profile([save("a.json", PROFILE)])
    assert (profile.evidence, profile.n_rounds, profile.draft_length) == ("marginal", 10, 2)
    assert profile.mean_acceptance_length == pytest.approx(2.0, abs=1e-12)
    assert profile.marginal_acceptance == pytest.approx([0.7, 0.3], abs=1e-12)
    assert profile.conditional_acceptance == pytest.approx([0.7, 3 / 7], abs=1e-12)


def test_import_profile_vectors_without_rounds_stay_as_stated(save):
    profile = import_profile([save("a.json", PUBLISHED)])
    assert (profile.evidence, profile.n_rounds, profile.method) == ("marginal", None, "dflash")
    assert profile.marginal_acceptance == [0.816, 0.634, 0.475]
    assert profile.conditional_acceptance == [0.816, 0.777, 0.75]
    assert profile.mean_acceptance_length == 2.925


def test_import_profile_one_vector_is_enough(save):
    record = _without("acceptance_length_histogram", "mean_accept_length", marginal_accept_rates=None)
    profile = import_profile([save("a.json", record)])
    assert profile.evidence == "conditional"
    assert profile.marginal_acceptance == pytest.approx([0.7, 0.3], abs=1e-6)


def test_read_conditional_after_a_position_never_accepted_says_nothing():
    """Model-Optimizer writes 0 there, which no round has shown."""
    seen = _one(
        _without(
            "acceptance_length_histogram",
            num_speculative_tokens=4,
            marginal_accept_rates=[0.6, 0.0, 0.0, 0.0],
            conditional_accept_rates=[0.6, 0.0, 0.0, 0.0],
            mean_accept_length=1.6,
        )
    )
    assert seen.conditional_acceptance == [0.6, 0.0, None, None]


def test_read_gap_in_the_histogram_keeps_what_lies_behind_it():
    seen = _one(
        PROFILE
        | {
            "num_speculative_tokens": 3,
            "acceptance_length_histogram": {"1": 50, "3": 50},
            "marginal_accept_rates": [0.5, 0.5, 0.0],
            "conditional_accept_rates": [0.5, 1.0, 0.0],
        }
    )
    assert seen.by_accepted == [50, 0, 50]


def test_import_profile_stub_that_was_not_measured_has_no_rounds(save):
    stub = PROFILE | {"measured": False, "mean_accept_length": None, "marginal_accept_rates": [0.0, 0.0]}
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("a.json", stub)])


def test_read_block_verification_keeps_rounds_and_says_so():
    seen = _one(
        PROFILE | {"verification_method": "block", "conditional_accept_rates": None, "marginal_accept_rates": None}
    )
    assert seen.by_accepted == [3, 4, 3]
    assert "verified as blocks" in seen.notes[0]


def test_read_profile_measured_beside_training_says_so():
    seen = _one(_without("method", producer="ar_validate"))
    assert "without a serving engine" in seen.notes[0]
    assert "method" not in seen.labels


@pytest.mark.parametrize(
    ("stated", "label"),
    [
        ("EAGLE3", "eagle3"),
        ("draft_target", "draft_model"),
        ("MTP", "mtp"),
        ("my own", "my own"),
        ("", None),
        (3, None),
    ],
)
def test_read_method_is_named_as_profiles_name_it(stated: Any, label: str | None):
    assert _one(PROFILE | {"method": stated}).labels.get("method") == label


@pytest.mark.parametrize(
    ("model", "label"), [("org/target", "org/target"), ({"name": "org/target"}, "org/target"), ({}, None), (None, None)]
)
def test_read_models_are_labels(model: Any, label: str | None):
    labels = _one(PROFILE | {"target_model": model, "draft_checkpoint": model}).labels
    assert (labels.get("target"), labels.get("drafter")) == (label, label)


@pytest.mark.parametrize("version", ["1.0", "1.2", 1, 1.0])
def test_read_version_1_is_read_however_it_is_written(version: Any):
    assert _one(PROFILE | {"schema_version": version}).by_accepted == [3, 4, 3]


def test_import_profile_example_is_consistent():
    profile = import_profile([example_file("speculation-profile.json")])
    assert (profile.n_rounds, profile.draft_length, profile.method) == (8000, 3, "eagle3")
    assert profile.mean_acceptance_length == pytest.approx(2.58775, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        pytest.param(
            {"marginal_accept_rates": [0.7, 0.428571], "conditional_accept_rates": [0.7, 0.3]},
            "marginal_accept_rates[1] = 0.428571",
            "is not marginal_accept_rates[0] × conditional_accept_rates[1]",
            id="exchanged",
        ),
        pytest.param(
            {"marginal_accept_rates": [0.7, 0.428571]},
            "marginal_accept_rates[1] = 0.428571",
            "one vector may stand under both names",
            id="conditional twice",
        ),
        pytest.param(
            {"mean_accept_length": 2.2},
            "mean_accept_length = 2.2",
            "does not match acceptance_length_histogram, which gives 2.0000",
            id="mean over requests",
        ),
        pytest.param(
            {"mean_accept_length": 1.0},
            "mean_accept_length = 1.0",
            "which gives 2.0000; a length counts",
            id="no bonus",
        ),
        pytest.param(
            {"acceptance_length_histogram": {"0": 3, "1": 4, "2": 3}},
            "marginal_accept_rates[0] = 0.7",
            "which gives 0.3000; position i is length i + 1",
            id="keys without the bonus",
        ),
        pytest.param(
            {"acceptance_length_histogram": {"1": 3, "2": 4, "3": 2, "4": 1}},
            "num_speculative_tokens = 2",
            "a round accepted 3 tokens; the draft length of the run is understated",
            id="truncated",
        ),
        ({"marginal_accept_rates": [70.0, 30.0]}, "marginal_accept_rates[0] = 70.0", "is no fraction"),
        ({"marginal_accept_rates": [0.7]}, "marginal_accept_rates", "has 1 positions for num_speculative_tokens = 2"),
        ({"marginal_accept_rates": 0.7}, "marginal_accept_rates = 0.7", "must be a list"),
        ({"marginal_accept_rates": [0.7, float("nan")]}, "marginal_accept_rates[1] = nan", "must be a number"),
        ({"marginal_accept_rates": [0.7, True]}, "marginal_accept_rates[1] = True", "must be a number"),
        ({"num_speculative_tokens": 10**9}, "num_speculative_tokens = 1000000000", "is beyond any engine"),
        ({"num_speculative_tokens": "2"}, "num_speculative_tokens = '2'", "must be a whole number"),
        ({"schema_version": "2.0"}, "schema_version = '2.0'", "unknown version"),
        ({"measurement_conditions": "mt_bench"}, "measurement_conditions = 'mt_bench'", "must be an object"),
        ({"acceptance_length_histogram": {"1": 3.5}}, "acceptance_length_histogram.1 = 3.5", "must be a whole number"),
        ({"method": "\ud800"}, "method = ", "is not valid text"),
    ],
)
def test_read_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one(PROFILE | changes)
    assert str(caught.value).startswith(f"a.json: {field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize("mean", [2.8, 1.925, 3.05])
def test_read_profile_that_fails_its_own_identity_is_refused(mean: float):
    with pytest.raises(BadInput, match=r"which gives 2\.9250"):
        _one(PUBLISHED | {"mean_accept_length": mean})


def test_read_vectors_of_other_lengths_are_refused():
    record = _without("num_speculative_tokens", "acceptance_length_histogram", conditional_accept_rates=[0.7])
    with pytest.raises(BadInput, match="has 1 positions where marginal_accept_rates has 2"):
        _one(record)


def test_import_profile_keeps_the_mean_over_requests_beside_the_pooled_one(save):
    record = json.loads(example_file("speculation-profile.json").read_text())
    profile = import_profile([save("a.json", record | {"mean_accept_length_per_request": 1.75})])
    assert profile.mean_acceptance_length_per_request == 1.75
    with pytest.raises(BadInput, match="mean_accept_length_per_request = 0"):
        import_profile([save("b.json", record | {"mean_accept_length_per_request": 0})])
