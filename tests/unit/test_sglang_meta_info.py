"""SGLang ``meta_info`` under every name, the identities of a real response, and the faults of earlier builds."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import import_profile
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.sglang_meta_info import read, recognises
from specbook.checks import BadInput

# Rounds of 3 drafts that accepted 0, 1, 1, 3 tokens; the prefill gave one token: 1 + 4 + 5.
NEW: dict[str, Any] = {
    "completion_tokens": 10,
    "spec_verify_ct": 4,
    "spec_num_correct_drafts": 5,
    "spec_num_proposed_drafts": 12,
    "spec_correct_drafts_histogram": [1, 2, 0, 1],
    "spec_accept_rate": 5 / 12,
    "spec_accept_length": 2.5,
}
OLD: dict[str, Any] = {
    "completion_tokens": 10,
    "spec_verify_ct": 4,
    "spec_accept_token_num": 5,
    "spec_draft_token_num": 12,
    "spec_accept_histogram": [1, 2, 0, 1],
    "spec_accept_rate": 5 / 12,
    "spec_accept_length": 2.5,
}
# One response of sgl-project/sglang#33518, whose five identities hold exactly.
PUBLISHED: dict[str, Any] = {
    "spec_accept_rate": 0.2930232558139535,
    "spec_accept_length": 2.4651162790697674,
    "spec_num_correct_drafts": 63,
    "spec_num_proposed_drafts": 215,
    "spec_verify_ct": 43,
    "spec_correct_drafts_histogram": [11, 14, 11, 4, 0, 3],
}


def _without(*names: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (NEW | changes).items() if key not in names}


def _one(record: Any) -> Observation:
    (request,) = read(record, "a")
    return request


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (NEW, True),
        (OLD, True),
        ({"text": "hi", "meta_info": NEW}, True),
        ({"text": "hi", "meta_info": {"finish_reason": {"type": "abort"}}}, True),
        ({"choices": [{"meta_info": NEW}]}, True),
        ({"choices": [{}], "sglext": {"spec_tokens_details": PUBLISHED}}, True),
        ({"text": "hi", "meta_info": {"id": "1"}}, False),
        ({"choices": [{"accept_lengths": [1]}]}, False),
        ({"choices": {"meta_info": NEW}}, False),
        ({"completion_tokens": 3, "finish_reason": "stop"}, False),
        ({"meta_info": None}, False),
        ([NEW], False),
        (None, False),
    ],
)
def test_recognises_only_responses_of_sglang(record: Any, expected: bool):
    assert recognises(record) is expected


@pytest.mark.parametrize(
    "record",
    [
        NEW,
        OLD,
        {"text": "hi", "meta_info": NEW},
        {"meta_info": OLD},
        {"choices": [{"meta_info": NEW}]},
        {
            "choices": [{}],
            "usage": {"completion_tokens": 10},
            "sglext": {"spec_tokens_details": _without("completion_tokens")},
        },
        _without(
            *[name for name in NEW if name.startswith("spec_num")], spec_accepted_drafts=5, spec_proposed_drafts=12
        ),
        NEW | OLD,
        _without("spec_verify_ct"),
        NEW | {"spec_correct_drafts_histogram": {"0": 1, "1": 2, "3": 1}},
    ],
)
def test_read_every_name_and_place_gives_the_same_request(record: dict[str, Any]):
    request = _one(record)
    assert request.by_drafted == {3: [1, 2, 0, 1]}
    assert request.labels == {"draft_length": 3}
    assert (request.n_rounds, request.n_accepted_tokens, request.n_drafted_tokens) == (4, 5, 12)
    assert request.prompt == "a"


def test_read_published_response_keeps_all_identities():
    record = {"choices": [{}], "usage": {"completion_tokens": 106}, "sglext": {"spec_tokens_details": PUBLISHED}}
    request = _one(record)
    assert request.by_drafted == {5: [11, 14, 11, 4, 0, 3]}
    assert (request.n_rounds, request.n_accepted_tokens, request.n_drafted_tokens) == (43, 63, 215)


def test_import_profile_published_response_is_counts(save):
    profile = import_profile([save("a.json", PUBLISHED | {"completion_tokens": 106})])
    assert (profile.evidence, profile.draft_length) == ("counts", 5)
    assert profile.mean_acceptance_length == pytest.approx(106 / 43, abs=1e-12)
    assert profile.draft_acceptance_rate == pytest.approx(63 / 215, abs=1e-12)


def test_read_every_choice_and_model_of_a_response():
    requests = list(read({"model": "m", "choices": [{"meta_info": NEW}, {"meta_info": NEW}]}, "a"))
    assert len(requests) == 2
    assert requests[0].labels["target"] == "m"


def test_read_tokens_of_several_choices_belong_to_none_of_them():
    """``usage`` sums over choices, so it is no completion of this request."""
    details = {"spec_tokens_details": _without("completion_tokens")}
    request = _one({"choices": [{}, {}], "usage": {"completion_tokens": 99}, "sglext": details})
    assert request.n_rounds == 4


def test_import_profile_pools_a_list_of_responses(save):
    profile = import_profile([save("a.json", [{"meta_info": NEW}, {"meta_info": OLD}])])
    assert profile.rounds_by_drafted == {"3": [2, 4, 0, 2]}


@pytest.mark.parametrize(
    "meta",
    [
        {"completion_tokens": 4, "finish_reason": {"type": "stop"}},
        {"spec_verify_ct": 0, "spec_accept_length": 0, "spec_accept_rate": 0.0, "completion_tokens": 4},
        {"spec_verify_ct": 4, "spec_num_proposed_drafts": 0, "completion_tokens": 4},
        {"spec_correct_drafts_histogram": [], "spec_verify_ct": 0},
        {"finish_reason": {"type": "abort"}},
    ],
)
def test_read_request_without_drafts_is_empty(meta: dict[str, Any]):
    assert _one({"meta_info": meta}).is_empty


def test_import_profile_counts_requests_without_speculation(save):
    plain = {"meta_info": {"completion_tokens": 4, "finish_reason": {"type": "stop"}}}
    profile = import_profile([save("a.jsonl", [{"meta_info": NEW}, plain])])
    assert "1 of 2 requests had no rounds (failed, or without speculation), left out" in profile.warnings


@pytest.mark.parametrize(
    "completion",
    [
        pytest.param(10, id="the prefill gave a token"),
        pytest.param(9, id="exactly rounds and accepted"),
        pytest.param(6, id="the last round of four was cut to one"),
    ],
)
def test_read_completion_cut_at_the_end_is_taken(completion: int):
    assert _one(_without("spec_accept_length", completion_tokens=completion)).n_accepted_tokens == 5


def test_read_each_retraction_may_give_one_more_prefill_token():
    meta = {name: value for name, value in PUBLISHED.items() if name != "spec_accept_length"} | {
        "completion_tokens": 109
    }
    assert _one(meta | {"num_retractions": 2}).n_accepted_tokens == 63
    with pytest.raises(BadInput, match=r"a: completion_tokens = 109: does not match 43 rounds that accepted 63"):
        _one(meta | {"num_retractions": 1})


@pytest.mark.parametrize("completion", [100, 108, 142, 151])
def test_read_completion_that_fits_no_count_is_refused(completion: int):
    with pytest.raises(BadInput, match="does not match 43 rounds that accepted 63 tokens"):
        _one(PUBLISHED | {"completion_tokens": completion})


@pytest.mark.parametrize("rate", [(5 + 4) / (12 + 4), (5 + 1) / (12 + 1)])
def test_read_rate_that_counts_bonus_tokens_is_noted(rate: float):
    request = _one(NEW | {"spec_accept_rate": rate})
    assert request.n_accepted_tokens == 5
    assert "#23530" in request.notes[0]
    assert _one(NEW).notes == ()


def test_read_ngram_counts_one_short_give_only_the_mean():
    """Rounds accepted 1, 2, 2, 4 tokens and each was counted one short: 1 + 4 + 9 = 14 tokens in all."""
    meta = NEW | {"completion_tokens": 14, "spec_accept_length": 3.5, "spec_accept_histogram": None}
    request = _one(meta)
    assert (request.by_accepted, request.by_drafted, request.n_accepted_tokens) == (None, None, None)
    assert (request.n_rounds, request.mean_acceptance_length) == (4, 3.5)
    assert any("#24965" in note for note in request.notes)


def test_read_ngram_counts_below_zero_give_only_the_mean():
    meta = {"completion_tokens": 7, "spec_verify_ct": 5, "spec_num_correct_drafts": -4, "spec_num_proposed_drafts": 35}
    assert _one(meta).mean_acceptance_length == 1.4
    with pytest.raises(BadInput, match=r"spec_num_correct_drafts = -4: must be at least 0"):
        _one({key: value for key, value in meta.items() if key != "completion_tokens"})


def test_import_profile_completion_and_rounds_are_a_mean_length(save):
    """The first builds had no more than these two."""
    metas = [{"completion_tokens": 10, "spec_verify_ct": 4}, {"completion_tokens": 30, "spec_verify_ct": 16}]
    profile = import_profile([save("a.jsonl", [{"meta_info": meta} for meta in metas])])
    assert (profile.evidence, profile.n_rounds, profile.n_accepted_tokens) == ("mean_length", 20, None)
    assert profile.mean_acceptance_length == pytest.approx(2.0, abs=1e-12)
    assert any("counts the token of the prefill" in warning for warning in profile.warnings)


def test_read_length_without_completion_is_taken_as_it_stands():
    request = _one({"spec_verify_ct": 4, "spec_accept_length": 2.5})
    assert (request.n_rounds, request.mean_acceptance_length) == (4, 2.5)


def test_import_profile_length_without_rounds_is_weighed_by_tokens(save):
    metas = [
        {"completion_tokens": 10, "spec_accept_length": 2.5},
        {"completion_tokens": 30, "spec_accept_length": 1.875},
    ]
    profile = import_profile([save("a.jsonl", [{"meta_info": meta} for meta in metas])])
    assert (profile.evidence, profile.n_rounds) == ("mean_length", None)
    assert profile.mean_acceptance_length == pytest.approx(2.0, abs=1e-12)


def test_import_profile_totals_without_a_histogram_are_a_mean_length(save):
    profile = import_profile([save("a.json", _without("spec_correct_drafts_histogram"))])
    assert (profile.evidence, profile.draft_length, profile.n_rounds) == ("mean_length", 3, 4)
    assert profile.mean_acceptance_length == 2.25
    assert profile.draft_acceptance_rate == pytest.approx(5 / 12, abs=1e-12)


def test_read_proposed_tokens_that_are_no_multiple_prove_nothing():
    request = _one(_without("spec_accept_rate", spec_num_proposed_drafts=11))
    assert (request.by_drafted, request.by_accepted, request.labels) == (None, [1, 2, 0, 1], {})


def test_read_without_proposed_tokens_has_no_draft_length():
    request = _one(_without("spec_num_proposed_drafts"))
    assert (request.by_drafted, request.by_accepted, request.n_drafted_tokens) == (None, [1, 2, 0, 1], None)


def test_import_profile_warns_that_proposed_tokens_are_not_counted(save):
    profile = import_profile([save("a.json", NEW)])
    assert any("nodes of a tree" in warning for warning in profile.warnings)


def test_import_profile_example_has_intervals():
    profile = import_profile([example_file("sglang-meta-info.jsonl")])
    assert (profile.evidence, profile.draft_length) == ("counts", 3)
    assert profile.intervals is not None


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"spec_verify_ct": 5, "completion_tokens": None}, "spec_verify_ct = 5", "does not match the histogram"),
        ({"spec_num_correct_drafts": 6}, "spec_num_correct_drafts = 6", "the histogram, which gives 5"),
        ({"spec_num_correct_drafts": 1.0}, "spec_num_correct_drafts = 1.0", "must be a whole number"),
        ({"completion_tokens": 16}, "completion_tokens = 16", "does not match 4 rounds that accepted 5 tokens"),
        ({"completion_tokens": 5}, "completion_tokens = 5", "does not match 4 rounds that accepted 5 tokens"),
        ({"completion_tokens": "10"}, "completion_tokens = '10'", "must be a whole number"),
        ({"spec_num_proposed_drafts": 8}, "spec_num_proposed_drafts = 8", "does not match 4 rounds that accepted 5"),
        ({"spec_num_proposed_drafts": 4}, "spec_num_proposed_drafts = 4", "does not match 4 rounds that accepted 5"),
        ({"spec_num_proposed_drafts": 3, "spec_accept_rate": None}, "spec_num_proposed_drafts = 3", "does not match 4"),
        ({"spec_accept_length": 4.0, "completion_tokens": None}, "spec_accept_length = 4.0", "does not match 4 rounds"),
        ({"spec_num_proposed_drafts": 10**9}, "spec_num_proposed_drafts = 1000000000", "does not match 4 rounds"),
        ({"spec_num_proposed_drafts": True}, "spec_num_proposed_drafts = True", "must be a whole number"),
        ({"spec_accept_rate": 41.7}, "spec_accept_rate = 41.7", "which gives 0.4167; a length counts"),
        ({"spec_accept_rate": 0.9}, "spec_accept_rate = 0.9", "accepted / proposed tokens"),
        ({"spec_accept_rate": float("nan")}, "spec_accept_rate = nan", "must be a number"),
        ({"spec_accept_length": 1.5}, "spec_accept_length = 1.5", "which gives 2.5000; a length counts the bonus"),
        (
            {"spec_accept_length": 1.25, "completion_tokens": None},
            "spec_accept_length = 1.25",
            "does not match 4 rounds that accepted 5 tokens",
        ),
        ({"spec_correct_drafts_histogram": [0] * 5000}, "spec_correct_drafts_histogram = 5000", "is longer than any"),
        ({"spec_correct_drafts_histogram": [1, -2]}, "spec_correct_drafts_histogram[1] = -2", "must be at least 0"),
        ({"spec_correct_drafts_histogram": "1201"}, "spec_correct_drafts_histogram = '1201'", "must be a list"),
        ({"spec_accept_token_num": 4}, "spec_accept_token_num = 4", "is another name of spec_num_correct_drafts = 5"),
        ({"spec_verify_ct": 0}, "spec_verify_ct = 0", "must be at least 1 where"),
        ({"spec_verify_ct": 10**400}, "spec_verify_ct = 1", "is beyond any server"),
    ],
)
def test_read_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one({"meta_info": NEW | changes})
    assert str(caught.value).startswith(f"a: meta_info.{field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        ({"spec_verify_ct": 4}, "spec_verify_ct = 4: needs spec_num_correct_drafts or completion_tokens"),
        ({"spec_verify_ct": 4, "completion_tokens": 3}, "completion_tokens = 3: a round emits at least one token"),
        ({"spec_verify_ct": 4, "completion_tokens": 8, "spec_accept_length": 3.0}, "which gives 2.0000"),
        ({"spec_verify_ct": 4, "spec_accept_length": 0.5}, "spec_accept_length = 0.5: must lie in"),
    ],
)
def test_read_rounds_that_say_nothing_of_tokens_are_refused(meta: dict[str, Any], problem: str):
    with pytest.raises(BadInput) as caught:
        _one(meta)
    assert problem in str(caught.value)
