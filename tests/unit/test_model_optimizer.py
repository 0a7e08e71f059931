"""Model-Optimizer ``acceptance_rate.json``: lengths for keys, gaps, lists of runs, and means that are no length."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.model_optimizer import by_accepted, lengths_of, read, recognises, survival
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput

# Requests of lengths [1, 2, 3, 3] and [2, 2]: 1 × 1, 3 × 2, 2 × 3.
RUN: dict[str, Any] = {
    "Request_AL": {"0": {"0": 2.25}, "1": {"0": 2.0}},
    "Average_AL": 2.125,
    "Acceptance_Length_Histogram": {"1": 1, "2": 3, "3": 2},
    "Conditional_Acceptance_Rate": {"1": 1.0, "2": 5 / 6, "3": 0.4},
    "Joint_Acceptance_Rate": {"1": 1.0, "2": 5 / 6, "3": 1 / 3},
}
GAP: dict[str, Any] = {
    "Acceptance_Length_Histogram": {"1": 4, "4": 6},
    "Conditional_Acceptance_Rate": {"1": 1.0, "4": 0.6},
    "Joint_Acceptance_Rate": {"1": 1.0, "4": 0.6},
}


def _without(*names: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (RUN | changes).items() if key not in names}


def _one(record: Any, where: str = "a.json") -> Observation:
    (run,) = read(record, where)
    return run


@pytest.mark.parametrize("name", list(RUN))
def test_recognises_a_run_by_each_of_its_tables(name: str):
    assert recognises({name: RUN[name]})


@pytest.mark.parametrize("record", [{}, [RUN], 3, None, {"Output TPS": {"mean": "3.1"}}, {"acceptance_length": 2.0}])
def test_recognises_nothing_else(record: Any):
    assert not recognises(record)


def test_read_histogram_counts_the_bonus_token():
    run = _one(RUN)
    assert run.by_accepted == [1, 3, 2]
    assert not run.is_request


def test_import_profile_length_is_pooled_over_rounds(save):
    profile = import_profile([save("acceptance_rate.json", [RUN])])
    assert profile.mean_acceptance_length == pytest.approx(13 / 6, abs=1e-12)
    assert profile.marginal_acceptance == pytest.approx([5 / 6, 1 / 3], abs=1e-12)
    assert profile.conditional_acceptance == pytest.approx([5 / 6, 0.4], abs=1e-12)
    assert (profile.n_rounds, profile.n_accepted_tokens, profile.draft_length) == (6, 7, None)


def test_import_profile_average_of_requests_is_no_length(save):
    """Equal weight for a short request and a long one gives another number."""
    assert RUN["Average_AL"] != pytest.approx(13 / 6, abs=0.01)
    profile = import_profile([save("acceptance_rate.json", [RUN])])
    assert profile.mean_acceptance_length != pytest.approx(RUN["Average_AL"], abs=0.01)


def test_import_profile_stated_draft_length_makes_counts(save):
    path = save("acceptance_rate.json", [RUN])
    profile = import_profile([path], ImportOptions(labels={"draft_length": 4}))
    assert profile.rounds_by_drafted == {"4": [1, 3, 2, 0, 0]}


def test_read_gap_spans_several_positions():
    run = _one(GAP)
    assert run.by_accepted == [4, 0, 0, 6]


def test_import_profile_gap_keeps_the_marginals(save):
    profile = import_profile([save("a.json", [GAP])])
    assert profile.marginal_acceptance == pytest.approx([0.6, 0.6, 0.6], abs=1e-12)
    assert profile.conditional_acceptance == pytest.approx([0.6, 1.0, 1.0], abs=1e-12)


def test_read_dense_tables_beside_a_gap_are_taken():
    dense = {
        "Acceptance_Length_Histogram": {"1": 4, "2": 0, "3": 0, "4": 6},
        "Conditional_Acceptance_Rate": {"1": 1.0, "2": 0.6, "3": 1.0, "4": 1.0, "5": 0.0},
        "Joint_Acceptance_Rate": {"1": 1.0, "2": 0.6, "3": 0.6, "4": 0.6, "5": 0.0},
    }
    assert _one(GAP | dense).by_accepted == [4, 0, 0, 6]


def test_read_smallest_length_reads_one_though_it_is_not_1():
    record = {"Acceptance_Length_Histogram": {"2": 1, "3": 1}, "Joint_Acceptance_Rate": {"2": 1.0, "3": 0.5}}
    assert _one(record).by_accepted == [0, 1, 1]


def test_read_chunk_without_a_token_is_no_round():
    run = _one({"Acceptance_Length_Histogram": {"0": 2, "1": 1, "2": 1}, "Joint_Acceptance_Rate": {"1": 0.5}})
    assert run.by_accepted == [1, 1]
    assert run.notes == ("chunks without a token were left out",)


@pytest.mark.parametrize("names", [("Request_AR", "Average_AR"), ("Request_AL", "Average_AL")])
def test_read_names_of_both_builds_are_checked(names: tuple[str, str]):
    record = {"Acceptance_Length_Histogram": {"1": 1, "2": 3, "3": 2}, names[0]: RUN["Request_AL"], names[1]: 2.9}
    with pytest.raises(BadInput, match=rf"a\.json: {names[1]} = 2\.9: does not match the mean over requests"):
        _one(record)


def test_read_flat_means_of_requests_are_taken():
    assert _one(RUN | {"Request_AL": {"q1": 2.25, "q2": 2.0}}).by_accepted == [1, 3, 2]


def test_read_only_an_average_says_what_it_is():
    run = _one({"Average_AL": 2.125})
    assert (run.mean_acceptance_length, run.by_accepted, run.n_rounds) == (2.125, None, None)
    assert "mean over requests" in run.notes[0]


def test_read_only_means_of_requests_are_averaged():
    assert _one({"Request_AL": RUN["Request_AL"]}).mean_acceptance_length == 2.125


def test_import_profile_only_an_average_is_a_mean_length(save):
    profile = import_profile([save("a.json", [{"Average_AL": 2.125}])])
    assert (profile.evidence, profile.mean_acceptance_length, profile.n_rounds) == ("mean_length", 2.125, None)
    assert any("mean over requests" in warning for warning in profile.warnings)


@pytest.mark.parametrize(
    "tables",
    [
        {"Joint_Acceptance_Rate": {"1": 1.0, "4": 0.6}},
        {"Conditional_Acceptance_Rate": {"1": 1.0, "4": 0.6}},
        {"Joint_Acceptance_Rate": {"1": 1.0, "2": 0.6, "3": 0.6, "4": 0.6}},
        {"Conditional_Acceptance_Rate": {"1": 1.0, "2": 0.6, "3": 1.0, "4": 1.0}},
        {"Conditional_Acceptance_Rate": {"1": 1.0, "4": 0.6}, "Joint_Acceptance_Rate": {"1": 1.0, "4": 0.6}},
    ],
)
def test_read_rates_alone_give_the_marginals_with_gaps_filled(tables: dict[str, Any]):
    run = _one(tables | {"Average_AL": 2.5})
    assert run.marginal_acceptance == pytest.approx([0.6, 0.6, 0.6], abs=1e-12)
    assert run.mean_acceptance_length == pytest.approx(2.8, abs=1e-12)


def test_import_profile_rates_alone_are_a_typed_vector(save):
    profile = import_profile([save("a.json", [_without("Acceptance_Length_Histogram")])])
    assert (profile.evidence, profile.n_rounds) == ("marginal", None)
    assert profile.marginal_acceptance == pytest.approx([5 / 6, 1 / 3], abs=1e-12)
    assert profile.mean_acceptance_length == pytest.approx(13 / 6, abs=1e-12)


@pytest.mark.parametrize("record", [{"Request_AL": {}}, {"Average_AL": 0.0}, {"Acceptance_Length_Histogram": {}}])
def test_import_profile_run_without_requests_has_no_rounds(save, record: dict[str, Any]):
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("a.json", [record])])


def test_import_profile_list_of_one_and_one_object_are_the_same(save):
    single, listed = import_profile([save("a.json", RUN)]), import_profile([save("b.json", [RUN])])
    assert single.rounds_by_accepted == listed.rounds_by_accepted == [1, 3, 2]


def test_import_profile_several_runs_are_not_pooled_in_silence(save):
    path = save("acceptance_rate.json", [RUN, GAP])
    with pytest.raises(BadInput, match=r"run: .*disagree: 1, 2"):
        import_profile([path])
    assert import_profile([path], ImportOptions(only={"run": ("2",)})).rounds_by_accepted == [4, 0, 0, 6]


@pytest.mark.parametrize("name", ["acceptance_rate.json", "acceptance_rate.jsonl"])
def test_import_profiles_gives_one_for_each_run(save, name: str):
    profiles = import_profiles([save(name, [RUN, GAP])])
    assert {run: profile.rounds_by_accepted for run, profile in profiles.items()} == {
        "1": [1, 3, 2],
        "2": [4, 0, 0, 6],
    }


@pytest.mark.parametrize(
    ("categories", "domain"), [({"coding": 2.1}, "coding"), ({"coding": 2.1, "qa": 2.0}, "mixed"), ({}, None)]
)
def test_read_domain_is_the_category_if_there_is_one(categories: dict[str, float], domain: str | None):
    assert _one(RUN | {"Category_AL": categories}).labels.get("domain") == domain


def test_import_profile_example_agrees_with_its_own_tables():
    profile = import_profile([example_file("model-optimizer.json")])
    assert (profile.evidence, profile.n_rounds) == ("marginal", 422)
    assert (profile.marginal_acceptance or [])[2:] == pytest.approx([0.251184834, 0.251184834], abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        pytest.param(
            {"Joint_Acceptance_Rate": {"1": 5 / 6, "2": 1 / 3}},
            "Joint_Acceptance_Rate.1 = 0.83",
            "which gives 1.0000",
            id="keys are positions",
        ),
        pytest.param(
            {"Joint_Acceptance_Rate": {"1": 1.0, "2": 5 / 6, "3": 0.4}},
            "Joint_Acceptance_Rate.3 = 0.4",
            "does not match Acceptance_Length_Histogram, which gives 0.3333",
            id="conditional for joint",
        ),
        pytest.param(
            {"Conditional_Acceptance_Rate": {"1": 1.0, "2": 5 / 6, "3": 1 / 3}},
            "Conditional_Acceptance_Rate.3",
            "which gives 0.4000",
            id="joint for conditional",
        ),
        pytest.param(
            {"Joint_Acceptance_Rate": {"1": 100.0, "2": 83.3, "3": 33.3}},
            "Joint_Acceptance_Rate.1 = 100.0",
            "is no fraction",
            id="percent",
        ),
        ({"Joint_Acceptance_Rate": {"1": 1.0, "4": 0.2}}, "Joint_Acceptance_Rate.4 = 0.2", "which gives 0.0000"),
        ({"Joint_Acceptance_Rate": [1.0, 0.8]}, "Joint_Acceptance_Rate = [1.0, 0.8]", "must be an object"),
        ({"Average_AL": 3.2}, "Average_AL = 3.2", "does not match the mean over requests"),
        ({"Average_AL": "2.125"}, "Average_AL = '2.125'", "must be a number"),
        ({"Request_AL": {"0": {"0": 3.5}}, "Average_AL": None}, "Request_AL.0.0 = 3.5", "is no mean of lengths"),
        ({"Category_AL": {"qa": 0.4}}, "Category_AL.qa = 0.4", "is no mean of lengths from 1 to 3"),
        ({"Acceptance_Length_Histogram": [1, 3, 2]}, "Acceptance_Length_Histogram = [1, 3, 2]", "must be an object"),
        ({"Acceptance_Length_Histogram": {"1.0": 1}}, "Acceptance_Length_Histogram = '1.0'", "is no number of tokens"),
        ({"Acceptance_Length_Histogram": {"1000000000": 1}}, "Acceptance_Length_Histogram = '1000", "is no number"),
        ({"Acceptance_Length_Histogram": {"1": "3"}}, "Acceptance_Length_Histogram.1 = '3'", "must be a whole number"),
        ({"Acceptance_Length_Histogram": {"1": -3}}, "Acceptance_Length_Histogram.1 = -3", "must be at least 0"),
        (
            {"Acceptance_Length_Histogram": {"1": True}},
            "Acceptance_Length_Histogram.1 = True",
            "must be a whole number",
        ),
    ],
)
def test_read_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one(RUN | changes)
    text = str(caught.value)
    assert text.startswith(f"a.json: {field}")
    assert problem in text


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param({"Joint_Acceptance_Rate": {"1": 0.8, "2": 0.4}}, id="keys are positions"),
        pytest.param({"Conditional_Acceptance_Rate": {"1": 0.8, "2": 0.5}}, id="conditional by position"),
        pytest.param({"Joint_Acceptance_Rate": {"0": 1.0, "1": 0.8, "2": 0.4}}, id="chunks without a token"),
        pytest.param({"Joint_Acceptance_Rate": {"1": 1.0, "2": 0.4, "3": 0.6}}, id="rises"),
        pytest.param(
            {"Conditional_Acceptance_Rate": {"1": 1.0, "2": 0.5}, "Joint_Acceptance_Rate": {"1": 1.0, "2": 0.8}},
            id="product",
        ),
    ],
)
def test_read_rates_alone_that_contradict_themselves_are_refused(tables: dict[str, Any]):
    with pytest.raises(BadInput, match=r"Acceptance_Rate"):
        _one(tables)


def test_lengths_of_numbers_for_keys_of_zero_rounds_are_left_out():
    assert lengths_of({"2": 0, "10": 4}, "a", "h") == {10: 4}
    assert lengths_of(None, "a", "h") == {}


def test_by_accepted_and_survival_belong_together():
    lengths = {1: 2, 3: 2}
    assert by_accepted(lengths) == [2, 0, 2]
    assert survival(lengths) == [1.0, 1.0, 0.5, 0.5]


def test_import_profile_keeps_the_average_over_requests_beside_the_pooled_length(save):
    record = {"Average_AL": 2.125, "Acceptance_Length_Histogram": {"1": 1, "2": 3, "3": 2}}
    profile = import_profile([save("a.json", [record])])
    assert profile.mean_acceptance_length == pytest.approx(13 / 6)
    assert profile.mean_acceptance_length_per_request == 2.125
