"""The traps that acceptance figures are known for, one test each, from a file to a profile.

Traps of other stages are tested where the stage is: 10, dense arithmetic, in ``test_hardware_profile``; 15, experts,
in ``test_roofline_by_hand``. 12, latency under bursts, 16, staircases in width, and 17, the cost of rolling back,
belong to stages that are not built yet.
"""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.candidates import draft_candidates
from specbook.acceptance.importing import ImportOptions, import_profile
from specbook.acceptance.library import library_profile
from specbook.acceptance.profile import profile_from_counts
from specbook.acceptance.yields import draft_acceptance_rate, tokens_for_draft_length
from specbook.checks import BadInput

BENCH = {
    "model_id": "m",
    "spec_decode_num_drafts": 100,
    "spec_decode_draft_tokens": 200,
    "spec_decode_accepted_tokens": 120,
    "spec_decode_acceptance_rate": 60.0,
    "spec_decode_acceptance_length": 2.2,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.4],
}
OPTIMIZER = {
    "Average_AL": 2.0,
    "Acceptance_Length_Histogram": {"1": 3, "2": 4, "3": 3},
    "Conditional_Acceptance_Rate": {"1": 1.0, "2": 0.7, "3": 0.4286},
    "Joint_Acceptance_Rate": {"1": 1.0, "2": 0.7, "3": 0.3},
}


def _vllm(**statistics: Any) -> dict[str, Any]:
    histogram = statistics.pop("histogram")
    return {"speculative_decoding": {"acceptance_histogram": histogram, "num_spec_steps": sum(histogram), **statistics}}


def test_trap_1_marginal_shares_are_not_multiplied(save):
    profile = import_profile([save("a.json", BENCH)])
    assert profile.marginal_acceptance == [0.8, 0.4]
    assert profile.conditional_acceptance == [0.8, 0.5]


def test_trap_1_conditional_rates_are_multiplied(save):
    rates = {"conditional_accept_rates": [0.7, 0.5], "marginal_accept_rates": [0.7, 0.35], "mean_accept_length": 2.05}
    profile = import_profile([save("a.json", {"num_speculative_tokens": 2, "method": "draft", **rates})])
    assert profile.marginal_acceptance == pytest.approx([0.7, 0.35])


def test_trap_2_lengths_without_the_bonus_token_are_not_taken_for_lengths_with_it(save):
    with pytest.raises(BadInput, match=r"spec_decode_acceptance_length = 1\.2"):
        import_profile([save("a.json", BENCH | {"spec_decode_acceptance_length": 1.2})])
    answer = {"choices": [{"accept_lengths": [2, 1, 3], "new_tokens": [9], "decoding_steps": [3]}]}
    with pytest.raises(BadInput, match=r"every entry counts the bonus token"):
        import_profile([save("b.jsonl", [answer])])


def test_trap_3_keys_of_model_optimizer_are_lengths(save):
    profile = import_profile([save("a.json", [OPTIMIZER])])
    assert profile.rounds_by_accepted == [3, 4, 3]
    assert profile.marginal_acceptance == pytest.approx([0.7, 0.3])


def test_trap_4_the_mean_over_requests_is_not_the_mean_over_rounds(save):
    profile = import_profile([save("a.json", [OPTIMIZER | {"Average_AL": 2.3}])])
    assert (profile.mean_acceptance_length, profile.mean_acceptance_length_per_request) == (2.0, 2.3)
    records = [_vllm(histogram=[8, 0, 0]), _vllm(histogram=[0, 0, 2])]
    profile = import_profile([save("b.jsonl", records)])
    assert (profile.mean_acceptance_length, profile.mean_acceptance_length_per_request) == (1.4, 2.0)


def test_trap_5_a_short_draft_is_no_rejection(save):
    table = {"1": [10, 40], "2": [10, 10, 30]}
    record = _vllm(histogram=[20, 50, 30], acceptance_histogram_by_draft_length=table)
    profile = import_profile([save("a.json", record)])
    assert profile.conditional_acceptance == pytest.approx([0.8, 0.75])
    assert profile.marginal_acceptance == pytest.approx([0.8, 0.6])


def test_trap_5_shares_of_all_rounds_are_called_lower_bounds_where_drafts_varied(save):
    profile = import_profile(
        [save("a.json", BENCH | {"spec_decode_draft_tokens": 150, "spec_decode_acceptance_rate": 80.0})]
    )
    assert profile.draft_length is None
    assert any("late positions are lower bounds" in text for text in profile.warnings)


def test_trap_6_tokens_behind_the_end_of_a_sequence_are_warned_of(save):
    assert any("end-of-sequence" in text for text in import_profile([save("a.json", BENCH)]).warnings)


@pytest.mark.parametrize("rate", [0.6, 6000.0])
def test_trap_7_percent_fraction_and_tokens_are_told_apart(save, rate: float):
    with pytest.raises(BadInput, match="spec_decode_acceptance_rate"):
        import_profile([save("a.json", BENCH | {"spec_decode_acceptance_rate": rate})])
    with pytest.raises(BadInput):
        import_profile([save("b.json", _vllm(histogram=[1, 1, 2], num_draft_tokens=8, draft_acceptance_rate=62.5))])


def test_trap_8_one_object_and_a_list_of_one_are_the_same(save):
    one, listed = (import_profile([save(name, content)]) for name, content in (("a", OPTIMIZER), ("b", [OPTIMIZER])))
    assert one.rounds_by_accepted == listed.rounds_by_accepted


def test_trap_8_numbers_written_as_text_are_refused(save):
    with pytest.raises(BadInput, match="must be a whole number"):
        import_profile([save("a.json", BENCH | {"spec_decode_num_drafts": "100"})])
    timing = [{"Output TPS": 100.0, "TTFT Time": {"min": "0.1", "max": "0.2", "mean": "0.15", "std": "0.01"}}]
    with pytest.raises(BadInput, match="holds no record of a known format"):
        import_profile([save("timing.json", timing)])


def test_trap_9_sparse_and_dense_histograms_are_the_same(save):
    dense = import_profile([save("a.json", _vllm(histogram=[1, 0, 3], num_spec_tokens=2, num_draft_tokens=8))])
    record = {"engine": "x", "acceptance_histogram": {"0": 1, "2": 3}, "num_spec_steps": 4}
    totals = {"num_accepted_draft_tokens": 6, "num_draft_tokens": 8, "num_spec_tokens": 2}
    assert import_profile([save("b.json", record | totals)]).rounds_by_drafted == dense.rounds_by_drafted


def test_trap_9_a_schedule_leaves_the_draft_length_open(save):
    record = _vllm(histogram=[1, 1, 2], num_spec_tokens=None, num_draft_tokens=7)
    assert import_profile([save("a.json", record)]).draft_length is None


def test_trap_11_the_chain_formula_is_not_applied_to_trees(save):
    answer = {"model_id": "m-medusa-float16", "choices": [{"accept_lengths": [3, 1, 2]}]}
    tree = import_profile(
        [save("a.jsonl", [answer])], ImportOptions(labels={"method": "draft_model", "draft_length": 4})
    )
    with pytest.raises(BadInput):
        draft_candidates([tree], assume="truncation")
    nodes = {"completion_tokens": 5, "spec_verify_ct": 2, "spec_accept_token_num": 3, "spec_draft_token_num": 32}
    counts = {"spec_accept_histogram": [0, 1, 1]}
    profile = import_profile([save("b.json", {"meta_info": nodes | counts})])
    assert (profile.evidence, profile.draft_length) == ("marginal", None)


def test_trap_13_random_prompts_are_said_to_overstate(save):
    profile = import_profile([save("a.json", BENCH)], ImportOptions(labels={"domain": "random"}))
    assert any("overstate" in text for text in profile.warnings)


def test_trap_14_the_rate_falls_while_the_length_grows():
    marginal = library_profile("vllm-48892-mtp-k8").marginal_acceptance or []
    lengths = [float(tokens_for_draft_length(k, marginal)) for k in range(1, 9)]
    rates = [float(draft_acceptance_rate(k, marginal)) for k in range(1, 9)]
    assert lengths == sorted(lengths)
    assert rates == sorted(rates, reverse=True)


def test_trap_14_a_profile_of_one_draft_length_does_not_speak_for_another():
    assert draft_candidates([profile_from_counts({4: [1, 1, 1, 1, 1]}, draft_length=4)]).draft_lengths == (0, 4)


def test_trap_18_acceptance_measured_in_training_is_called_so(save):
    vectors = {"conditional_accept_rates": [0.7, 0.5], "marginal_accept_rates": [0.7, 0.35], "mean_accept_length": 2.05}
    record = {"num_speculative_tokens": 2, "producer": "ar_validate", **vectors}
    profile = import_profile([save("a.json", record)])
    assert any("without a serving engine" in text for text in profile.warnings)
