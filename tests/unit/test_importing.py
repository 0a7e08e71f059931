"""From files to one profile: formats, pooling, labels, filters, and what must be refused."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.library import example_file
from specbook.acceptance.readers import FORMATS, ImportOptions, import_profile, import_profiles
from specbook.checks import BadInput

KNOWN = ", ".join(FORMATS)
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


def test_import_profile_empty_list_is_no_rounds(save):
    with pytest.raises(BadInput, match="no rounds"):
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
    with pytest.raises(BadInput, match="no rounds of domain code: "):
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
    assert "stated at import, not by the source: draft_length = 4" in profile.warnings


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
    with pytest.raises(BadInput, match=r"is a directory|no such file|is empty"):
        import_profile([paths[name]])


def test_import_profile_progress_reaches_the_size_of_the_file(save):
    path, seen = save("a.jsonl", [_answer([3, 1])] * 5), []
    import_profile([path], progress=seen.append)
    assert sum(seen) == path.stat().st_size


def test_import_profile_same_content_twice_is_refused(save):
    paths = [save(name, [_answer([3, 1])]) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(BadInput, match=r"b\.jsonl: the same content was given before; name each file once"):
        import_profile(paths)


def test_import_profile_counts_the_requests_without_rounds(save):
    profile = import_profile([save("a.jsonl", [_answer([3, 1]), _answer([]), _answer([])])])
    assert "2 of 3 requests had no rounds and were left out" in profile.warnings


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
    assert list(import_profiles([path])) == ["a-b-c", "a-b-c-2", "unnamed"]


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
    note = "3 files are no acceptance files and were left out: config.json, notes.md, picture.png"
    assert note in profile.warnings


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
