"""From files to one profile: formats, pooling, labels, filters, and what must be refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.importing import FORMATS, ImportOptions, import_profile, import_profiles
from specbook.acceptance.importing.names import profile_names
from specbook.acceptance.library import example_file
from specbook.checks import BadInput

KNOWN = ", ".join(FORMATS)
LEFT_OUT = " left out, no acceptance file or a copy of one: "
MODEL_ID = "m-sps-68m-float16-temp-0.0"


def _answer(lengths: Any, category: str = "qa", model_id: str | None = MODEL_ID) -> dict[str, Any]:
    return {"model_id": model_id, "category": category, "choices": [{"accept_lengths": lengths}]}


def _vllm(histogram: list[int], **fields: Any) -> dict[str, Any]:
    statistics = {"acceptance_histogram": histogram, "num_spec_steps": sum(histogram), **fields}
    return {"model": "m", "metrics": {"speculative_decoding": statistics}}


def test_import_profile_example_vllm_file_is_counts():
    profile = import_profile([example_file("vllm-per-request.jsonl")])
    assert (profile.evidence, profile.draft_length, profile.target) == ("counts", 4, "Llama-3.1-70B-Instruct")
    assert profile.n_drafted_tokens == 4 * (profile.n_rounds or 0)


def test_import_profile_example_spec_bench_file_is_marginal():
    profile = import_profile([example_file("spec-bench.jsonl")])
    assert (profile.evidence, profile.draft_length, profile.domain) == ("marginal", None, "mixed")
    assert (profile.method, profile.drafter, profile.temperature) == ("draft_model", "68m", 0.0)
    assert profile.n_rounds == 19
    assert profile.n_accepted_tokens == 30
    assert "the source does not say how many tokens each round drafted" in profile.warnings


def test_import_profile_pools_rounds_and_averages_requests(save):
    profile = import_profile([save("a.jsonl", [_answer([3, 3, 3]), _answer([1])])])
    assert profile.mean_acceptance_length == 2.5
    assert profile.mean_acceptance_length_per_request == 2.0
    assert profile.marginal_acceptance == [0.75, 0.75]


def test_import_profile_several_files_equal_one(save):
    apart = import_profile([save("a.jsonl", [_answer([3, 1])]), save("b.json", [_answer([2])])])
    together = import_profile([save("c.jsonl", [_answer([3, 1]), _answer([2])])])
    assert apart.rounds_by_accepted == together.rounds_by_accepted == [1, 1, 1]
    assert [(item.file, item.n_requests) for item in apart.provenance] == [("a.jsonl", 1), ("b.json", 1)]


def test_import_profile_provenance_holds_name_hash_and_format(save):
    path = save("a.jsonl", [_answer([3, 1])])
    (origin,) = import_profile([path]).provenance
    assert origin.file == "a.jsonl"
    assert origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert origin.format == "spec-bench"


@pytest.mark.parametrize("shape", ["lines", "list", "object"])
def test_import_profile_shape_of_the_file_does_not_matter(save, shape: str):
    record = _answer([3, 1, 2])
    content = {"lines": [record], "list": [record], "object": record}[shape]
    path = save("a.jsonl" if shape == "lines" else "a.json", content)
    assert import_profile([path]).rounds_by_accepted == [1, 1, 1]


def test_import_profile_format_is_told_by_content_not_by_name(save):
    assert import_profile([save("notes.txt", _vllm([1, 2]))]).n_rounds == 3


def test_import_profile_nul_tail_keeps_the_good_rows_and_says_so(save):
    path = save("a.jsonl", [_answer([3, 1]), _answer([2])])
    path.write_bytes(path.read_bytes() + b"\x00" * 3190)
    profile = import_profile([path])
    assert profile.n_rounds == 3
    assert "a.jsonl: line 3, the last, is unreadable and was left out; the 2 before it are used" in profile.warnings


def test_import_profile_all_questions_failed_is_no_rounds(save):
    text = '{"choices": [{"turns": ["ERROR"], "wall_time": [NaN], "accept_lengths": []}]}\n' * 4
    with pytest.raises(BadInput, match=r"a\.jsonl: no rounds: every request is empty, failed or ran without"):
        import_profile([save("a.jsonl", text)])


def test_import_profile_nan_in_a_field_that_is_not_read_is_no_matter(save):
    text = '{"choices": [{"wall_time": [NaN], "accept_lengths": [2, 1]}]}\n'
    assert import_profile([save("a.jsonl", text)]).n_rounds == 2


def test_import_profile_null_statistics_only_is_no_rounds(save):
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("a.jsonl", [{"metrics": {"speculative_decoding": None}}] * 2)])


def test_import_profile_null_statistics_among_others_are_left_out(save):
    records = [_vllm([1, 1]), {"model": "other", "metrics": {"speculative_decoding": None}}]
    profile = import_profile([save("a.jsonl", records)])
    assert (profile.n_rounds, profile.target) == (2, "m")


def test_import_profile_request_without_rounds_is_left_out(save):
    profile = import_profile([save("a.jsonl", [_vllm([1, 1]), _vllm([0]), _vllm([])])])
    assert profile.provenance[0].n_requests == 1
    assert profile.mean_acceptance_length_per_request == 1.5


def test_import_profile_empty_list_is_no_acceptance_file(save):
    with pytest.raises(BadInput, match=r"a\.json: no acceptance file among them"):
        import_profile([save("a.json", "[]")])


@pytest.mark.parametrize("content", ['{"a": 1}', "[1, 2]", '"text"', "3", '{"choices": []}', '{"metrics": {}}'])
def test_import_profile_unknown_format_is_refused_with_the_known_ones(save, content: str):
    with pytest.raises(BadInput, match=rf"holds no record of a known format \({KNOWN}\); see the"):
        import_profile([save("a.json", content)])


def test_import_profile_later_record_of_no_format_is_refused_with_its_line(save):
    with pytest.raises(BadInput, match=r"a\.jsonl line 2: keys = \['error'\]: holds no record of a known format"):
        import_profile([save("a.jsonl", [_answer([1, 2]), {"error": "timeout"}])])


def test_import_profile_stated_format_refuses_the_other(save):
    path = save("a.jsonl", [_answer([1, 2])])
    assert import_profile([path], ImportOptions(format="spec-bench")).n_rounds == 2
    with pytest.raises(BadInput, match=r"known format \(vllm-per-request\)"):
        import_profile([path], ImportOptions(format="vllm-per-request"))


def test_formats_have_names_of_their_own():
    assert list(FORMATS) == [reader.NAME for reader in FORMATS.values()]
    assert len(FORMATS) > 1


def test_import_profile_categories_keep_only_theirs(save):
    path = save("a.jsonl", [_answer([3], "math"), _answer([1], "qa"), _answer([2], "rag")])
    profile = import_profile([path], ImportOptions(only={"domain": ("math", "rag")}))
    assert profile.rounds_by_accepted == [0, 1, 1]
    assert profile.domain == "mixed"
    assert import_profile([path], ImportOptions(only={"domain": ("math",)})).domain == "math"


def test_import_profile_category_that_is_not_there_is_named(save):
    with pytest.raises(BadInput, match="no rounds of domain code; there is domain qa"):
        import_profile([save("a.jsonl", [_answer([3])])], ImportOptions(only={"domain": ("code",)}))


def test_import_profile_disagreeing_targets_are_refused(save):
    path = save("a.jsonl", [_answer([3], model_id="m1"), _answer([3], model_id="m2")])
    with pytest.raises(
        BadInput, match=r"target: requests disagree: m1, m2; keep one with --only target=…, .*, or pass --target"
    ):
        import_profile([path])
    assert import_profile([path], ImportOptions(labels={"target": "m"})).target == "m"


def test_import_profile_disagreeing_files_name_both(save):
    paths = [save("a.jsonl", [_answer([3], model_id="m1")]), save("b.jsonl", [_answer([3], model_id="m2")])]
    with pytest.raises(BadInput, match=r"a\.jsonl, .*b\.jsonl: target: requests disagree"):
        import_profile(paths)


def test_import_profile_labels_override_the_file(save):
    labels = {"target": "T", "drafter": "D", "method": "mtp", "domain": "code", "temperature": 0.7}
    profile = import_profile([save("a.jsonl", [_answer([3, 1])])], ImportOptions(labels=labels))
    assert {name: getattr(profile, name) for name in labels} == labels


def test_import_profile_stated_draft_length_makes_counts(save):
    profile = import_profile([save("a.jsonl", [_answer([3, 1])])], ImportOptions(labels={"draft_length": 4}))
    assert (profile.evidence, profile.draft_length) == ("counts", 4)
    assert profile.rounds_by_drafted == {"4": [1, 0, 1, 0, 0]}
    assert profile.n_drafted_tokens == 8
    assert "stated at import: draft_length = 4, which the source does not say" in profile.warnings


def test_import_profile_stated_draft_length_shorter_than_a_round_is_refused(save):
    with pytest.raises(BadInput, match=r"draft_length = 2: a round accepted 3 tokens; a round cannot accept more"):
        import_profile([save("a.jsonl", [_answer([4, 1])])], ImportOptions(labels={"draft_length": 2}))


def test_import_profile_stated_draft_length_against_the_counts_is_refused(save):
    path = save("a.json", _vllm([1, 1, 2], acceptance_histogram_by_draft_length={"2": [1, 1, 2]}))
    with pytest.raises(BadInput):
        import_profile([path], ImportOptions(labels={"draft_length": 7}))


@pytest.mark.parametrize("method", ["eagle", "medusa", "hydra"])
def test_import_profile_tree_method_is_a_tree_and_no_chain(save, method: str):
    profile = import_profile([save("a.jsonl", [_answer([3, 1], model_id=f"m-{method}-float16")])])
    assert profile.tree is not None
    assert profile.tree.depth_acceptance == [0.5, 0.5]
    assert any("a tree drafter" in warning for warning in profile.warnings)


def test_import_profile_stated_draft_length_of_a_tree_makes_no_counts(save):
    path = save("a.jsonl", [_answer([3, 1], model_id="m-eagle-float16")])
    profile = import_profile([path], ImportOptions(labels={"draft_length": 5}))
    assert profile.evidence == "marginal"
    assert profile.tree is not None


def test_import_profile_alike_drafts_tell_the_draft_length(save):
    profile = import_profile([save("a.json", _vllm([1, 3], acceptance_histogram_by_draft_length={"3": [1, 3]}))])
    assert profile.draft_length == 3
    assert profile.rounds_by_drafted == {"3": [1, 3, 0, 0]}


def test_import_profile_varied_drafts_have_no_draft_length(save):
    statistics = {"acceptance_histogram_by_draft_length": {"1": [1, 1], "2": [1, 1, 1]}, "num_spec_tokens": 2}
    profile = import_profile([save("a.json", _vllm([2, 2, 1], **statistics))])
    assert profile.rounds_by_drafted == {"1": [1, 1], "2": [1, 1, 1]}
    assert profile.draft_length is None


def test_import_profile_unused_draft_length_changes_nothing(save):
    statistics = {"acceptance_histogram_by_draft_length": {"2": [1, 1, 2], "4": [0] * 5}}
    assert import_profile([save("a.json", _vllm([1, 1, 2], **statistics))]).marginal_acceptance == [0.75, 0.5]


def test_import_profile_one_request_without_a_table_weakens_the_evidence(save):
    records = [_vllm([1, 1], num_spec_tokens=1, num_draft_tokens=2), _vllm([1, 1], num_draft_tokens=3)]
    profile = import_profile([save("a.jsonl", records)])
    assert profile.evidence == "marginal"
    assert profile.n_drafted_tokens == 5
    assert profile.draft_acceptance_rate == 2 / 5


def test_import_profile_drafted_total_of_some_requests_only_is_unknown(save):
    profile = import_profile([save("a.jsonl", [_vllm([1, 1], num_draft_tokens=3), _vllm([1, 1])])])
    assert profile.n_drafted_tokens is None
    assert profile.draft_acceptance_rate is None


def test_import_profile_counts_beyond_any_server_are_bad_input(save):
    with pytest.raises(BadInput):
        import_profile([save("a.json", _vllm([10**19, 1]))])


def test_import_profile_infinite_temperature_in_a_model_id_is_bad_input_or_unknown(save):
    path = save("a.jsonl", [_answer([1, 2], model_id="m-sps-d-fp16-temp-" + "9" * 400)])
    temperature = None
    with suppress(BadInput):
        temperature = import_profile([path]).temperature
    assert temperature is None


@pytest.mark.parametrize("name", ["directory", "missing", "empty"])
def test_import_profile_no_readable_file_is_refused(save, tmp_path: Path, name: str):
    paths = {"directory": tmp_path, "missing": tmp_path / "none.jsonl", "empty": save("empty.jsonl", b"")}
    with pytest.raises(BadInput, match=r"no acceptance file among them|no such file|is empty"):
        import_profile([paths[name]])


def test_import_profile_progress_reaches_the_size_of_the_file(save):
    path, seen = save("a.jsonl", [_answer([3, 1])] * 5), []
    import_profile([path], progress=seen.append)
    assert sum(seen) == path.stat().st_size


def test_import_profile_same_content_twice_is_refused(save):
    paths = [save(name, [_answer([3, 1])]) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(BadInput, match=r"b\.jsonl: the same content as a\.jsonl; name each file once"):
        import_profile(paths)


def test_import_profile_counts_the_requests_without_rounds(save):
    profile = import_profile([save("a.jsonl", [_answer([3, 1]), _answer([]), _answer([])])])
    assert "2 of 3 requests had no rounds (failed, or without speculation), left out" in profile.warnings


def test_import_profile_stated_draft_length_that_varied_is_refused(save):
    statistics = {"acceptance_histogram_by_draft_length": {"1": [1, 1], "2": [1, 1, 1]}}
    with pytest.raises(BadInput, match="the files say what was drafted: 2 rounds of 1, 3 rounds of 2"):
        import_profile([save("a.json", _vllm([2, 2, 1], **statistics))], ImportOptions(labels={"draft_length": 2}))


def test_import_profile_chain_of_a_serving_engine_is_no_tree(save):
    """EAGLE is a chain in vLLM; only Spec-Bench's scripts run it as a tree."""
    path = save("a.json", _vllm([1, 1, 2], num_draft_tokens=7))
    profile = import_profile([path], ImportOptions(labels={"method": "eagle"}))
    assert profile.tree is None
    assert any("late positions are lower bounds" in warning for warning in profile.warnings)


def _labelled(lengths: list[int], target: str = "m", temperature: str = "0.0", category: str = "qa") -> dict[str, Any]:
    return _answer(lengths, category, f"{target}-sps-d-float16-temp-{temperature}")


def test_import_profiles_one_for_each_thing_that_was_measured(save):
    path = save("a.jsonl", [_labelled([3]), _labelled([2]), _labelled([2], "n"), _labelled([1, 1], temperature="1.0")])
    profiles = import_profiles([path])
    assert {name: profile.n_rounds for name, profile in profiles.items()} == {"m-t0.0": 2, "n-t0.0": 1, "m-t1.0": 2}
    assert profiles["m-t1.0"].temperature == 1.0


def test_import_profiles_of_one_thing_is_one_profile(save):
    path = save("a.jsonl", [_labelled([3]), _labelled([2])])
    assert import_profiles([path]) == {"acceptance": import_profile([path])}


def test_import_profiles_names_are_fit_for_files_and_differ(save):
    path = save("a.jsonl", [_labelled([3], "A/b c"), _labelled([3], "a b/c"), _labelled([3], "..")])
    assert list(import_profiles([path])) == ["b-c", "c", "unnamed"]


def test_import_profiles_stated_label_puts_records_together(save):
    path = save("a.jsonl", [_labelled([3], "m"), _labelled([2], "n")])
    assert list(import_profiles([path], ImportOptions(labels={"target": "m"}))) == ["acceptance"]


def test_import_profiles_split_by_configured_draft_length(save):
    records = [_vllm([1, 1], num_spec_tokens=1, num_draft_tokens=2), _vllm([1, 1, 2], num_spec_tokens=2)]
    assert list(import_profiles([save("a.jsonl", records)])) == ["k1", "k2"]


def test_import_profiles_each_names_only_its_own_files(save):
    paths = [save("a.jsonl", [_labelled([3], "m")]), save("b.jsonl", [_labelled([3], "n")])]
    profiles = import_profiles(paths)
    assert [[origin.file for origin in profile.provenance] for profile in profiles.values()] == [
        ["a.jsonl"],
        ["b.jsonl"],
    ]


def test_import_profiles_too_many_are_refused(save):
    path = save("a.jsonl", [_answer([2], f"c{index}") for index in range(5000)])
    with pytest.raises(BadInput, match=r"more than 4096 profiles; .*--domain"):
        import_profiles([path])


def test_import_profile_folder_is_searched_and_strangers_are_named(save, tmp_path: Path):
    save("a.jsonl", [_labelled([3])])
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.jsonl").write_text(json.dumps(_labelled([1])) + "\n")
    (tmp_path / ".hidden.jsonl").write_text(json.dumps(_labelled([1], "other")) + "\n")
    save("notes.md", "# Notes\n")
    save("picture.png", b"\x89PNG\r\n\x1a\n\x00\x00")
    save("config.json", {"num_layers": 3})
    profile = import_profile([tmp_path])
    assert profile.n_rounds == 2
    (note,) = [text for text in profile.warnings if "left out" in text]
    assert note.startswith(f"3 files{LEFT_OUT}config.json, notes.md, picture.png (")


def test_import_profile_broken_file_of_a_folder_is_refused(save, tmp_path: Path):
    save("a.jsonl", [_labelled([3])])
    save("b.jsonl", [_vllm([1, 1], num_draft_tokens=0)])
    with pytest.raises(BadInput, match=r"b\.jsonl"):
        import_profile([tmp_path])


def test_import_profile_pattern_is_expanded(save, tmp_path: Path):
    save("a1.jsonl", [_labelled([3])])
    save("a2.jsonl", [_labelled([2])])
    save("b.jsonl", [_labelled([1], "other")])
    assert import_profile([tmp_path / "a*.jsonl"]).n_rounds == 2
    with pytest.raises(BadInput, match="no file matches the pattern"):
        import_profile([tmp_path / "c*.jsonl"])


def test_import_profile_file_whose_name_looks_like_a_pattern_is_a_file(save):
    assert import_profile([save("a[1].jsonl", [_labelled([3])])]).n_rounds == 1


def test_import_profile_named_stranger_is_refused(save):
    with pytest.raises(BadInput, match="known format"):
        import_profile([save("a.jsonl", [_labelled([3])]), save("notes.md", "# Notes\n")])


def test_import_profile_two_formats_of_one_run_are_refused(save):
    paths = [save("a.json", _vllm([1, 1])), save("b.jsonl", [_answer([2], model_id="m")])]
    labels = {"target": "m", "domain": "qa"}
    with pytest.raises(BadInput, match="spec-bench and vllm-per-request may hold the same rounds twice; keep one kind"):
        import_profile(paths, ImportOptions(labels=labels))


def test_import_profile_only_unknown_label_is_refused():
    with pytest.raises(BadInput, match=r"--only = 'batch': no such label; one of target, .*, run"):
        ImportOptions(only={"batch": ("1",)})


def test_import_profile_intervals_come_from_ten_prompts_on(save):
    records = [_labelled([3, 1, 2][: 1 + index % 3]) for index in range(12)]
    assert import_profile([save("few.jsonl", records[:9])]).intervals is None
    profile = import_profile([save("a.jsonl", records)])
    intervals = profile.intervals
    assert intervals is not None
    assert (intervals.n_prompts, intervals.n_replicates, intervals.seed) == (12, 2000, 0)
    lower, upper = intervals.mean_acceptance_length
    assert lower < (profile.mean_acceptance_length or 0) < upper
    assert len(intervals.marginal_acceptance) == len(profile.marginal_acceptance or [])


def test_import_profile_too_few_prompts_say_so(save):
    profile = import_profile([save("a.jsonl", [_labelled([3])] * 3)])
    assert "3 prompts, fewer than 10: no intervals" in profile.warnings


def test_import_profile_answers_to_one_question_are_one_prompt(save):
    records = [_labelled([3, 1]) | {"question_id": index % 11} for index in range(33)]
    intervals = import_profile([save("a.jsonl", records)]).intervals
    assert intervals is not None
    assert intervals.n_prompts == 11


def _totals(target: str | None = "m", **fields: Any) -> dict[str, Any]:
    """Totals of a run, as vLLM's benchmark writes them."""
    totals = {"spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 200, "spec_decode_accepted_tokens": 120}
    shares = {"spec_decode_per_position_acceptance_rates": [0.8, 0.4], "spec_decode_acceptance_length": 2.2}
    return {"model_id": target, **totals, "spec_decode_acceptance_rate": 60.0, **shares, **fields}


OTHER = {"spec_decode_num_drafts": 300, "spec_decode_draft_tokens": 600, "spec_decode_accepted_tokens": 360}
SAID = {"domain": "code", "temperature": 0.0}


def test_import_profile_totals_that_leave_open_what_they_measured_are_not_pooled(save):
    paths = [save("a.json", _totals()), save("b.json", _totals(**OTHER))]
    with pytest.raises(BadInput, match=r"a\.json, .*b\.json: totals of several runs, .*state what they share"):
        import_profile(paths)
    assert list(import_profiles(paths)) == ["a.json", "b.json"]


def test_import_profile_totals_of_one_thing_are_pooled_once_it_is_stated(save):
    paths = [save("a.json", _totals()), save("b.json", _totals(**OTHER))]
    options = ImportOptions(labels=SAID)
    assert import_profile(paths, options).n_rounds == 400
    assert [profile.n_rounds for profile in import_profiles(paths, options).values()] == [400]


def test_import_profile_runs_of_one_name_in_two_files_are_not_pooled(save):
    def timings(rounds: int) -> dict[str, Any]:
        record = {"id": "a", "predicted_n": 2 * rounds, "draft_n": 3 * rounds, "draft_n_accepted": rounds}
        runs = [{"backend": name, "method": "draft", "records": [record]} for name in ("cuda", "vulkan")]
        return {"meta": {"target": "m"}, "runs": runs}

    paths = [save("a.json", timings(50)), save("b.json", timings(70))]
    with pytest.raises(BadInput, match="totals of several runs"):
        import_profile(paths, ImportOptions(only={"run": ("cuda/draft",)}))


def test_import_profile_copy_with_other_blanks_is_refused(save):
    paths = [save("a.json", _totals()), save("b.json", json.dumps(_totals(), indent=1))]
    with pytest.raises(BadInput, match=r"b\.json: holds the same 100 rounds as a\.json in every sum"):
        import_profile(paths, ImportOptions(labels=SAID))


def test_import_profile_answer_that_stands_twice_is_refused(save):
    answer = _labelled([3, 1]) | {"answer_id": "UQj8iyLi5ieGPw3avEArj7"}
    with pytest.raises(BadInput, match=r"the answer 'UQj8iyLi5ieGPw3avEArj7 0' stands twice; drop the copy"):
        import_profile([save("a.jsonl", [answer, _labelled([2]), answer])])
    again = _labelled([3, 2]) | {"answer_id": "UQj8iyLi5ieGPw3avEArj7"}
    assert import_profile([save("b.jsonl", [answer, again])]).n_rounds == 4


def test_import_profile_response_that_stands_twice_is_refused(save):
    response = _vllm([1, 1]) | {"id": "chatcmpl-0123456789abcdef"}
    with pytest.raises(BadInput, match="stands twice"):
        import_profile([save("a.jsonl", [response, response])])


def test_import_profile_stated_draft_length_against_the_source_is_refused(save):
    path = save("a.json", _totals())
    with pytest.raises(BadInput, match=r"draft_length = 8: the source says 2; leave --draft-length out"):
        import_profile([path], ImportOptions(labels={"draft_length": 8}))
    assert import_profile([path], ImportOptions(labels={"draft_length": 2})).draft_length == 2


@pytest.mark.parametrize(("length", "refused"), [(4, True), (5, False), (6, True), (16, True)])
def test_import_profile_stated_draft_length_must_fit_what_was_drafted(save, length: int, refused: bool):
    """490 tokens drafted in about 100 rounds: five a round, as inferred rounds are up to one too many a prompt."""
    timings = {"predicted_n": 300, "draft_n": 490, "draft_n_accepted": 200}
    path, options = save("a.json", {"timings": timings}), ImportOptions(labels={"draft_length": length})
    if refused:
        with pytest.raises(BadInput, match=r"rounds drafted 4\.90 tokens on average"):
            import_profile([path], options)
    else:
        assert import_profile([path], options).draft_length == 5


def test_import_profile_configured_draft_length_that_was_not_drafted_is_dropped(save):
    statistics = {"num_spec_tokens": 4, "num_draft_tokens": 8}
    profile = import_profile([save("a.json", _vllm([1, 1, 2], **statistics))])
    assert profile.draft_length is None
    note = "configured for K = 4, but rounds drafted 2.00 tokens on average: the draft length varied"
    assert note in profile.warnings


def test_import_profile_configured_draft_lengths_that_differ_are_refused(save):
    records = [
        _vllm([1, 1, 2], num_spec_tokens=k, acceptance_histogram_by_draft_length={str(k): [1, 1, 2, *[0] * (k - 2)]})
        for k in (2, 4)
    ]
    with pytest.raises(BadInput, match="draft_length: requests disagree: 2, 4; keep one with --only draft_length=…"):
        import_profile([save("a.jsonl", records)])


def test_import_profile_run_without_drafts_takes_no_draft_length(save):
    path = save("a.jsonl", [_answer([1, 1, 1], model_id="m-vanilla-float16-temp-0.0")])
    with pytest.raises(BadInput, match="draft_length = 5: the run drafted nothing"):
        import_profile([path], ImportOptions(labels={"draft_length": 5}))


def test_import_profile_tree_stays_a_tree_whatever_method_is_stated(save):
    path = save("a.jsonl", [_answer([3, 1], model_id="m-medusa-float16")])
    profile = import_profile([path], ImportOptions(labels={"method": "draft_model", "draft_length": 5}))
    assert profile.tree is not None
    assert "stated at import: method = draft_model, where the source says medusa" in profile.warnings


def test_import_profile_stated_labels_are_kept(save):
    options = ImportOptions(labels={"target": "m", "domain": "code", "draft_length": 4})
    profile = import_profile([save("a.jsonl", [_labelled([3, 1])])], options)
    assert profile.stated_labels == ["domain", "draft_length"]


def test_import_profile_file_read_in_part_is_not_passed_over(save, tmp_path: Path):
    save("a.jsonl", [_labelled([3])])
    save("b.jsonl", [_labelled([2]), {"event": "end"}])
    with pytest.raises(BadInput, match=r"b\.jsonl line 2: keys = \['event'\]: holds no record"):
        import_profile([tmp_path])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stderr.log", b""),
        ("latencies.txt", b"12.5\n13.1\n"),
        ("comments.json", b'{\n // comment\n "a": 1\n}'),
        ("utf16.txt", "text".encode("utf-16")),
    ],
)
def test_import_profile_folder_passes_over_whatever_is_no_acceptance_file(save, tmp_path: Path, name, content):
    save("a.jsonl", [_labelled([3])])
    save(name, content)
    profile = import_profile([tmp_path])
    assert profile.n_rounds == 1
    assert any(text.startswith(f"1 file{LEFT_OUT}{name}") for text in profile.warnings)


def test_import_profile_copy_in_a_folder_is_left_out(save, tmp_path: Path):
    for name in ("a.jsonl", "b.jsonl"):
        save(name, [_labelled([3])])
    assert import_profile([tmp_path]).n_rounds == 1


def test_import_profile_of_a_profile_says_what_it_is(save):
    with pytest.raises(BadInput, match="is an acceptance profile already; specbook profile show prints it"):
        import_profile([save("p.json", {"schema": "specbook-acceptance/1", "evidence": "counts"})])


@pytest.mark.parametrize("text", ["0", "0.0", "0e0"])
def test_import_profile_only_compares_numbers_as_numbers(save, text: str):
    path = save("a.jsonl", [_labelled([3]), _labelled([2], temperature="1.0")])
    assert import_profile([path], ImportOptions(only={"temperature": (text,)})).n_rounds == 1


@pytest.mark.parametrize("text", ["–", "unknown", "-"])
def test_import_profile_only_finds_what_the_source_does_not_say(save, text: str):
    path = save("a.jsonl", [_labelled([3]), _answer([2, 1], model_id="other")])
    assert import_profile([path], ImportOptions(only={"drafter": (text,)})).n_rounds == 2


def test_import_profiles_never_lose_one_to_its_name(save):
    path = save("a.jsonl", [_labelled([3], category=name) for name in ("a", "A", "a-2", "ä", "x" * 400, "x" * 401)])
    profiles = import_profiles([path])
    assert len(profiles) == 6
    assert all(len(f"{name}.json".encode()) < 255 for name in profiles)


def test_import_profiles_note_of_one_file_stands_in_its_profile_alone(save, tmp_path: Path):
    broken = save("a.jsonl", [_labelled([3])])
    broken.write_bytes(broken.read_bytes() + b"\0\0\0")
    save("b.jsonl", [_labelled([2], "other")])
    profiles = import_profiles([tmp_path]).values()
    told = [any("unreadable" in text for text in profile.warnings) for profile in profiles]
    assert sorted(told) == [False, True]


def test_import_profile_questions_of_two_domains_are_two_prompts(save):
    records = [_labelled([3, 1], category=name) | {"question_id": index} for name in ("a", "b") for index in range(10)]
    intervals = import_profile([save("a.jsonl", records)]).intervals
    assert intervals is not None
    assert intervals.n_prompts == 20


def test_import_profile_few_prompts_with_most_rounds_weaken_the_interval(save):
    records = [_labelled([3, 1] * (500 if index == 0 else 3)) for index in range(20)]
    profile = import_profile([save("a.jsonl", records)])
    assert any("most rounds come from few prompts" in text for text in profile.warnings)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"decoding_steps": [7]}, "decoding_steps = 7: does not match the 3 rounds"),
        ({"new_tokens": [60]}, "new_tokens = 60: does not match accept_lengths, which sum to 6"),
        ({"new_tokens": [9]}, "new_tokens = 9: does not match accept_lengths"),  # the bonus tokens are left out
    ],
)
def test_import_profile_spec_bench_totals_that_contradict_the_rounds_are_refused(save, changes, part: str):
    record = _answer([3, 1, 2])
    record["choices"][0] |= changes
    with pytest.raises(BadInput, match=re.escape(part)):
        import_profile([save("a.jsonl", [record])])


def test_import_profile_spec_bench_totals_may_lack_what_the_end_cut_off(save):
    record = _answer([3, 1, 3])
    record["choices"][0] |= {"decoding_steps": [3], "new_tokens": [5]}
    assert import_profile([save("a.jsonl", [record])]).n_rounds == 3


def test_import_profile_long_names_are_refused_at_once(save):
    with pytest.raises(BadInput, match=r"model_id = .* is longer than 512 characters"):
        import_profile([save("a.jsonl", [_answer([2], model_id="a-sps-" * 40_000)])])


def test_import_profile_random_prompts_are_said_to_overstate(save):
    profile = import_profile([save("a.json", _totals())], ImportOptions(labels={"domain": "random"}))
    assert any("random tokens overstate" in text for text in profile.warnings)


def test_import_profile_several_runs_are_named_before_what_else_differs(save):
    record = {"id": "a", "predicted_n": 100, "draft_n": 150, "draft_n_accepted": 50}
    runs = [{"backend": name, "method": name, "records": [record]} for name in ("draft_1b", "ngram")]
    with pytest.raises(
        BadInput, match="run: requests disagree: draft_1b/draft_1b, ngram/ngram; keep one with --only run=…"
    ):
        import_profile([save("a.json", {"meta": {"target": "m", "draft": "d"}, "runs": runs})])


@pytest.mark.parametrize("open_label", ["target", "domain", "temperature"])
def test_import_profile_totals_stay_apart_while_one_label_is_open(save, open_label: str):
    paths = [save("a.json", _totals(None)), save("b.json", _totals(None, **OTHER))]
    labels = {name: value for name, value in (SAID | {"target": "m"}).items() if name != open_label}
    with pytest.raises(BadInput, match="totals of several runs"):
        import_profile(paths, ImportOptions(labels=labels))
    assert len(import_profiles(paths, ImportOptions(labels=labels))) == 2


def test_import_profiles_runs_in_files_of_one_name_stay_apart(tmp_path: Path):
    for run, totals in (("run1", _totals()), ("run2", _totals(**OTHER))):
        (tmp_path / run).mkdir()
        (tmp_path / run / "result.json").write_text(json.dumps(totals))
    profiles = import_profiles([tmp_path])
    assert sorted(profile.n_rounds or 0 for profile in profiles.values()) == [100, 300]
    assert all("run1" in name or "run2" in name for name in profiles)


def _lengths(first: int) -> dict[str, Any]:
    return {"Acceptance_Length_Histogram": {"1": first, "2": 20}}


def _runs_named(profile: Any) -> list[str]:
    return [text for text in profile.warnings if text.startswith("run of the source")]


def test_import_profile_run_is_named_where_there_are_several(save):
    several, one = save("a.json", [_lengths(10), _lengths(30)]), save("b.json", [_lengths(50)])
    options = ImportOptions(only={"run": ("2",)})
    assert _runs_named(import_profile([several], options)) == ["run of the source: 2"]
    assert _runs_named(import_profile([one])) == []
    profiles = import_profiles([several, save("c.json", _totals())])
    assert [_runs_named(profile) for profile in profiles.values()] == [
        ["run of the source: 1"],
        ["run of the source: 2"],
        [],
    ]


def test_import_profile_wanted_requests_without_rounds_are_no_mistyped_filter(save):
    path = save("a.jsonl", [_answer([]), _answer([3], "rag")])
    with pytest.raises(BadInput, match="every request is empty"):
        import_profile([path], ImportOptions(only={"domain": ("qa",)}))


def test_import_profile_category_that_is_not_there_is_answered_with_all_that_are(save):
    path = save("a.jsonl", [_answer([3], "qa"), _answer([3], "rag")])
    with pytest.raises(BadInput, match=r"there is domain qa, rag$"):
        import_profile([path], ImportOptions(only={"domain": ("code",)}))


def test_import_profile_many_names_are_cut_short(save, tmp_path: Path):
    for index in range(7):
        save(f"notes{index}.md", f"# {index}\n")
    with pytest.raises(BadInput, match=r"notes4\.md, …: no acceptance file among them"):
        import_profile([tmp_path])
    save("a.jsonl", [_labelled([3])])
    (note,) = [text for text in import_profile([tmp_path]).warnings if "left out" in text]
    assert note == f"7 files{LEFT_OUT}" + ", ".join(f"notes{index}.md" for index in range(5)) + ", …"
    paths = [save(f"m{index}.jsonl", [_labelled([3], f"m{index}")]) for index in range(7)]
    with pytest.raises(BadInput, match=r"m4\.jsonl, …: target: requests disagree"):
        import_profile(paths)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            [_answer([3, 1] * 60)],
            [_answer([2, 2] * 30), _answer([2, 2] * 30)],
        ),  # as many rounds and tokens, two answers
        ([_answer([3, 1] * 60)], [_answer([3, 2] * 60)]),
        (_totals(), _totals(spec_decode_draft_tokens=190, spec_decode_acceptance_rate=100 * 120 / 190)),
    ],
)
def test_import_profile_files_that_agree_in_some_sums_are_no_copies(save, first, second):
    paths = [save(f"{name}.json", content) for name, content in (("a", first), ("b", second))]
    assert import_profile(paths, ImportOptions(labels=SAID)).n_rounds in (200, 240)


def test_import_profile_totals_of_a_run_are_of_no_requests(save):
    profile = import_profile([save("a.json", _totals())])
    assert profile.provenance[0].n_requests is None
    assert profile.mean_acceptance_length_per_request is None


def test_import_profile_file_that_gave_no_rounds_is_no_provenance(save):
    paths = [save("a.jsonl", [_answer([3])]), save("b.jsonl", [_answer([])])]
    assert [origin.file for origin in import_profile(paths).provenance] == ["a.jsonl"]


def _page(rounds: int) -> str:
    """Counters of a server, as Prometheus prints them."""
    counts = {"num_drafts": rounds, "num_draft_tokens": 2 * rounds, "num_accepted_tokens": rounds}
    return "".join(f'vllm:spec_decode_{name}_total{{model_name="m"}} {n}.0\n' for name, n in counts.items())


def test_import_profile_two_pages_of_counters_count_the_same_rounds(save):
    paths = [save("1.txt", _page(100)), save("2.txt", _page(300))]
    for options in (ImportOptions(), ImportOptions(labels=SAID)):
        with pytest.raises(BadInput, match=r"counts since the server started, .*; import only the last one"):
            import_profile(paths, options)


def test_import_profile_two_draft_lengths_and_an_open_one_are_refused(save):
    records = [_vllm([1, 1, 2], num_spec_tokens=length) for length in (2, 4)]
    with pytest.raises(BadInput, match="draft_length: requests disagree: 2, 4, –") as refused:
        import_profile([save("a.jsonl", [*records, _vllm([1, 1])])])
    assert "or pass --" not in str(refused.value)


def test_import_profile_files_that_leave_labels_open_are_said_to(save):
    paths = [save("a.jsonl", [_answer([3], model_id="m")]), save("b.jsonl", [_answer([2], model_id="m")])]
    note = "2 files pooled; they do not all say temperature"
    assert note in import_profile(paths).warnings
    assert not any("pooled" in text for text in import_profile(paths[:1]).warnings)
    stated = import_profile(paths, ImportOptions(labels={"temperature": 0.0}))
    assert not any("pooled" in text for text in stated.warnings)


@pytest.mark.parametrize("category", ["random", "Random", "synthetic"])
def test_import_profile_random_prompts_of_the_source_are_said_to_overstate(save, category: str):
    profile = import_profile([save("a.jsonl", [_answer([3], category)])])
    assert any("random tokens overstate" in text for text in profile.warnings)


def test_import_profile_lengths_without_rounds_are_not_averaged_and_the_error_names_the_file(save):
    record = {"model_id": "m", "spec_decode_acceptance_length": 2.2}
    with pytest.raises(BadInput, match=r"a\.json: 2 records without the rounds behind them"):
        import_profile([save("a.json", [record, record | {"spec_decode_acceptance_length": 3.0}])])


def _timings(rounds: int, drafted: int, accepted: int, **fields: Any) -> dict[str, Any]:
    return {"timings": {"predicted_n": rounds + accepted, "draft_n": drafted, "draft_n_accepted": accepted} | fields}


def test_import_profile_one_request_with_inferred_rounds_makes_the_evidence_a_rate(save):
    profile = import_profile([save("a.jsonl", [_timings(10, 30, 20), _timings(10, 30, 15, draft_rounds=10)])])
    assert (profile.evidence, profile.n_rounds) == ("draft_rate", 20)
    assert any(text.startswith("rounds are not in the source") for text in profile.warnings)
    assert any("what the target verified" in text for text in profile.warnings)


def test_import_profile_one_tree_among_chains_makes_a_tree(save):
    records = [_answer([3, 1], model_id="m-eagle-float16"), _answer([3, 1], model_id="m-sps-d-float16")]
    labels = {"method": "eagle", "drafter": "d"}
    for name, content in (("a.jsonl", records), ("b.jsonl", records[::-1])):
        assert import_profile([save(name, content)], ImportOptions(labels=labels)).tree is not None


def test_import_profile_drafted_total_is_unknown_whichever_request_lacks_it(save):
    profile = import_profile([save("a.jsonl", [_vllm([1, 1]), _vllm([1, 1], num_draft_tokens=3)])])
    assert profile.n_drafted_tokens is None


def test_import_profile_lengths_are_weighed_by_rounds(save):
    records = [{"meta_info": {"spec_verify_ct": n, "completion_tokens": m}} for n, m in ((10, 30), (30, 60))]
    assert import_profile([save("a.jsonl", records)]).mean_acceptance_length == pytest.approx(90 / 40)


def test_import_profile_inferred_rounds_may_be_one_too_many_a_request(save):
    """Ten requests with 110 inferred rounds have 100 true ones at the least, which drafted five each."""
    records = [_timings(11, 50, 20 + index) for index in range(10)]
    assert import_profile([save("a.jsonl", records)], ImportOptions(labels={"draft_length": 5})).draft_length == 5


def test_import_profile_one_inferred_round_is_no_division_by_nothing(save):
    with pytest.raises(BadInput, match=r"rounds drafted 1\.00 tokens on average"):
        import_profile([save("a.json", _timings(1, 1, 1))], ImportOptions(labels={"draft_length": 5}))


def test_import_profile_inferred_rounds_two_too_many_a_request_are_refused(save):
    records = [_timings(12, 50, 20 + index) for index in range(10)]
    with pytest.raises(BadInput, match=r"rounds drafted 4\.17 tokens on average"):
        import_profile([save("a.jsonl", records)], ImportOptions(labels={"draft_length": 5}))


def test_import_profile_counted_rounds_are_not_too_many(save):
    """mlx-vlm gives rounds: 110 rounds of five cannot have drafted 500."""
    records = [_timings(11, 50, 20 + index, draft_rounds=11) for index in range(10)]
    with pytest.raises(BadInput, match=r"rounds drafted 4\.55 tokens on average"):
        import_profile([save("a.jsonl", records)], ImportOptions(labels={"draft_length": 5}))


@pytest.mark.parametrize("length", [3, 8])
def test_import_profile_stated_draft_length_against_some_requests_is_refused(save, length: int):
    path = save("a.jsonl", [_vllm([1, 1, 2], num_spec_tokens=5), _vllm([2, 1, 2])])
    with pytest.raises(BadInput, match=rf"draft_length = {length}: the source says 5"):
        import_profile([path], ImportOptions(labels={"draft_length": length}))
    assert import_profile([path], ImportOptions(labels={"draft_length": 5})).draft_length == 5


def test_import_profiles_files_that_differ_far_up_stay_apart(tmp_path: Path):
    for top, totals in (("exp1", _totals()), ("exp2", _totals(**OTHER))):
        folder = tmp_path / top / "model" / "run"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(totals))
    assert sorted(profile.n_rounds or 0 for profile in import_profiles([tmp_path]).values()) == [100, 300]


def test_import_profile_random_among_other_domains_is_told_alike_every_time(save):
    path = save("a.jsonl", [_answer([2 + index], name) for index, name in enumerate(("random", "code", "qa", "rag"))])
    program = (
        "import sys; from pathlib import Path; from specbook.acceptance.importing import import_profile; "
        "print(import_profile([Path(sys.argv[1])]).warnings)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in range(8)
    }
    assert len(told) == 1


def test_import_profile_log_line_that_stands_twice_is_not_two_windows(save):
    line = (
        "INFO 05-01 19:15:26 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: "
        "12.00 tokens/s, Drafted throughput: 20.00 tokens/s, Accepted: 120 tokens, Drafted: 200 tokens, "
        "Per-position acceptance rate: 0.800, 0.400, Avg Draft acceptance rate: 60.0%\n"
    )
    profile = import_profile([save("a.log", line * 2)])
    assert profile.n_rounds == 100
    assert "lines of metrics that stand twice were counted once: 1" in profile.warnings


def test_import_profile_no_method_is_not_an_unknown_one(save):
    path = save("a.jsonl", [_answer([1, 1], model_id="m-vanilla-float16"), _answer([2, 1], model_id="m")])
    assert import_profile([path], ImportOptions(only={"method": ("none",)})).n_rounds == 2


@pytest.mark.parametrize("labels", [{"tagret": "m"}, {"draft_length": 10**7}, {"draft_length": "4"}])
def test_import_options_label_that_is_none_is_bad_input(save, labels: dict[str, Any]):
    with pytest.raises(BadInput):
        import_profile([save("a.jsonl", [_answer([2, 1])])], ImportOptions(labels=labels))


def test_import_profile_progress_of_text_and_of_a_document_reaches_the_size(save):
    for path in (save("a.txt", _page(10)), save("b.json", json.dumps(_totals(), indent=1))):
        seen: list[int] = []
        import_profile([path], progress=seen.append)
        assert sum(seen) == path.stat().st_size


def test_import_profile_byte_order_mark_is_no_matter(save):
    record = _answer([2, 1])
    for text in (json.dumps(record), json.dumps(record, indent=1), _page(2)):
        assert import_profile([save("a", b"\xef\xbb\xbf" + text.encode())]).n_rounds == 2


def test_import_profile_lines_that_are_all_broken_are_refused(save):
    with pytest.raises(BadInput, match="is not complete JSON"):
        import_profile([save("a.jsonl", '{"choices": [{"accept_lengths": [2, 1]')])


def test_import_profile_broken_text_file_of_a_folder_is_refused(save, tmp_path: Path):
    """A log in which a line was recognised is a log, and its contradiction is not passed over."""
    save("a.jsonl", [_labelled([3])])
    save("b.txt", 2 * _page(10))
    with pytest.raises(BadInput, match=r"b\.txt line 4: num_drafts = .*: stands twice"):
        import_profile([tmp_path])


def test_import_profile_hidden_folders_are_left_out_and_a_folder_below_one_is_searched(tmp_path: Path):
    for place in (tmp_path / "seen" / ".cache", tmp_path / "seen", tmp_path / ".home" / "runs"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "a.jsonl").write_text(json.dumps(_labelled([len(place.name)])) + "\n")
    assert import_profile([tmp_path / "seen"]).mean_acceptance_length == 4.0
    assert import_profile([tmp_path / ".home" / "runs"]).mean_acceptance_length == 4.0


def test_import_profile_files_are_read_in_order_of_their_names(save, tmp_path: Path):
    for name in ("c", "a", "b"):
        save(f"{name}.jsonl", [_labelled([3] * (1 + ord(name) - ord("a")))])
    for paths in ([tmp_path], [tmp_path / "*.jsonl"]):
        assert [origin.file for origin in import_profile(paths).provenance] == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_import_profile_pattern_reaches_into_folders_and_passes_over_strangers(save, tmp_path: Path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.jsonl").write_text(json.dumps(_labelled([3])) + "\n")
    save("notes.md", "# Notes\n")
    profile = import_profile([tmp_path / "**" / "*"])
    assert profile.n_rounds == 1
    assert any("notes.md" in text for text in profile.warnings)


def test_import_profile_file_that_was_named_and_found_must_be_acceptance(save, tmp_path: Path):
    save("a.jsonl", [_labelled([3])])
    stranger = save("notes.md", "# Notes\n")
    with pytest.raises(BadInput, match="known format"):
        import_profile([stranger, tmp_path])


def test_import_profile_files_of_one_name_are_told_by_their_folders(tmp_path: Path):
    for folder, lengths in (("x/run", [3]), ("y/run", [2])):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.jsonl").write_text(json.dumps(_labelled(lengths)) + "\n")
    assert [origin.file for origin in import_profile([tmp_path]).provenance] == ["x/run/a.jsonl", "y/run/a.jsonl"]


def test_import_profile_too_many_files_are_refused(save, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("specbook.acceptance.importing.sources._MOST_FILES", 3)
    for index in range(4):
        save(f"{index}.jsonl", [_labelled([1 + index])])
    with pytest.raises(BadInput, match="more than 3 files; name a smaller folder"):
        import_profile([tmp_path])


def test_import_profile_intervals_follow_the_seed(save):
    path = save("a.jsonl", [_labelled([3, 1, 2][: 1 + index % 3]) for index in range(12)])
    first, second, again = (import_profile([path], ImportOptions(seed=seed)).intervals for seed in (1, 2, 1))
    assert first is not None
    assert second is not None
    assert (first.seed, second.seed) == (1, 2)
    assert first == again
    assert first.mean_acceptance_length != second.mean_acceptance_length


def test_import_profile_only_compares_text_with_numbers_as_different(save):
    with pytest.raises(BadInput, match=r"no rounds of temperature cold; there is temperature 0\.0"):
        import_profile([save("a.jsonl", [_labelled([3])])], ImportOptions(only={"temperature": ("cold",)}))


@pytest.mark.parametrize(
    ("target", "drafter", "name"),
    [
        ("Org/Big/", "D", "big"),
        ("C:\\models\\Big", "D", "big"),
        ("x" * 300, "D", "x" * 60),
        ("BIG", "D", "big"),
    ],
)
def test_profile_names_are_short_and_tell_models_apart(target: str, drafter: str, name: str):
    assert profile_names(["target", "drafter"], [(target, drafter), ("other", drafter)])[0] == name
    assert profile_names(["target", "drafter"], [("t", target), ("t", "other")])[0] == name


def test_profile_names_of_many_long_labels_fit_into_a_file_name():
    keys = [tuple(f"{letter * 58}{index}" for letter in "abcd") for index in (1, 2)]
    names = profile_names(["method", "domain", "run", "file"], keys)
    assert len(set(names)) == 2
    assert all(len(name) < 170 for name in names)


def test_import_profile_note_of_records_that_differ(save):
    table = {"2": [1, 1, 2]}
    records = [_vllm([1, 1, 2], acceptance_histogram_by_draft_length=table), _vllm([1, 1, 2])]
    profile = import_profile([save("a.jsonl", records)])
    assert "records differ in what they hold; the profile says what all of them say" in profile.warnings
    assert profile.evidence == "marginal"


def test_import_profile_run_without_drafts_has_no_lower_bounds(save):
    profile = import_profile([save("a.jsonl", [_answer([1, 1], model_id="m-vanilla-float16-temp-0.0")])])
    assert not any("lower bounds" in text for text in profile.warnings)


def test_import_profile_requests_that_differ_have_no_intervals_by_position(save):
    """Half of the requests say what they drafted: their positions and those of the others are not one statistic."""
    table = {"2": [1, 1, 2]}
    drafted = [{"acceptance_histogram_by_draft_length": table}, {}]
    records = [_vllm([1, 1, 2], **drafted[index % 2]) for index in range(20)]
    intervals = import_profile([save("a.jsonl", records)]).intervals
    assert intervals is not None
    assert intervals.marginal_acceptance == []


def test_import_profile_totals_and_one_request_without_rounds_say_why_there_are_no_intervals(save):
    assert (
        "the source holds totals of a run, not of each prompt: no intervals"
        in import_profile([save("a.json", _totals())]).warnings
    )
    lengths = [{"meta_info": {"spec_verify_ct": 10, "completion_tokens": 20 + index}} for index in range(12)]
    note = "not every request has rounds and accepted tokens: no intervals"
    assert note in import_profile([save("b.jsonl", lengths)]).warnings


def test_import_profile_prompts_that_weigh_enough_are_not_warned_of(save):
    records = [_labelled([3, 1] * (3 + index % 4)) for index in range(15)]
    assert not any("most rounds" in text for text in import_profile([save("a.jsonl", records)]).warnings)


def test_import_profile_keys_of_an_unknown_record_are_cut_short(save):
    with pytest.raises(BadInput, match=r"keys = \['k0', 'k1', 'k2', 'k3', 'k4', 'k5'\]: holds no record"):
        import_profile([save("a.json", {f"k{index}": 0 for index in range(9)})])


def test_import_profile_one_name_for_answers_that_drafted_differently_is_no_copy(save):
    tables = ({"2": [1, 1, 2]}, {"3": [1, 1, 2, 0]})
    records = [
        _vllm([1, 1, 2], acceptance_histogram_by_draft_length=table) | {"id": "chatcmpl-0123456789abcdef"}
        for table in tables
    ]
    assert import_profile([save("a.jsonl", records)]).n_rounds == 8


def test_import_profiles_two_formats_of_one_thing_have_a_profile_each(save, tmp_path: Path):
    save("a.json", _vllm([1, 1]))
    save("b.jsonl", [_answer([2, 1, 1], model_id="m", category=None)])
    profiles = import_profiles([tmp_path])
    assert {name: profile.n_rounds for name, profile in profiles.items()} == {"vllm-per-request": 2, "spec-bench": 3}
