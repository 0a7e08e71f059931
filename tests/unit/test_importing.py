"""From files to one profile: formats, pooling, labels, filters, and what must be refused."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.importing import FORMATS, ImportOptions, import_profile, import_profiles
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


@pytest.mark.parametrize("text", ["–", "unknown", "None"])
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
