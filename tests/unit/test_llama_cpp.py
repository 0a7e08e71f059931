"""llama.cpp timings, benchmarks made of them and sweeps over draft models: what is inferred, absent or impossible."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.llama_cpp import read, recognises
from specbook.acceptance.readers.observation import INFERRED, Observation
from specbook.checks import BadInput

TIMINGS: dict[str, Any] = {
    "prompt_n": 20,
    "prompt_ms": 80.0,
    "predicted_n": 64,
    "predicted_ms": 900.0,
    "draft_n": 90,
    "draft_n_accepted": 40,
}
MLX = TIMINGS | {"draft_kind": "mtp", "draft_rounds": 30}


def _one(record: Any) -> Observation:
    (seen,) = read(record, "a")
    return seen


def _prompt(name: str, predicted: int, drafted: int | None, accepted: int | None, **more: Any) -> dict[str, Any]:
    record = {"id": name, "category": "code", "predicted_n": predicted, "draft_n": drafted}
    return record | {"draft_n_accepted": accepted, **more}


def _run(method: str, *records: dict[str, Any], backend: str = "cuda") -> dict[str, Any]:
    return {"backend": backend, "method": method, "label": method, "status": "ok", "records": list(records)}


def _bench(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"meta": {"target": "t.gguf", "draft": "d.gguf"}, "runs": list(runs)}


DRAFT = _run("draft_0_5b", _prompt("p", 100, 150, 60), _prompt("q", 50, 60, 30))
BASELINE = _run("baseline", _prompt("p", 100, None, None))
SWEEP: dict[str, Any] = {
    "meta": {"target": "T", "target_file": "t.gguf", "spec_draft_n_max": 5},
    "baseline_records": [_prompt("p", 100, None, None)],
    "drafts": [{"label": "0.5B", "file": "d.gguf", "acceptance": 0.25}, {"label": "3B", "acceptance": 0.75}],
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (TIMINGS, True),
        ({"model": "m", "timings": TIMINGS}, True),
        ({"predicted_n": 3, "draft_n": 1}, True),
        ({"predicted_n": 3}, False),
        ({"timings": None}, False),
        ({"timings": {"prompt_n": 3}}, False),
        (_bench(DRAFT), True),
        ({"runs": {"gpu0": _bench(DRAFT)}}, True),
        ({"runs": [DRAFT]}, False),
        ({"meta": {}, "runs": []}, False),
        ({"meta": {}, "runs": [{"records": [{"tokens": 3}]}]}, False),
        (SWEEP, True),
        ({"drafts": [], "meta": {}}, False),
        ({}, False),
        ([TIMINGS], False),
        (None, False),
    ],
)
def test_recognises_timings_benchmarks_and_sweeps(record: Any, expected: bool):
    assert recognises(record) is expected


@pytest.mark.parametrize("record", [TIMINGS, {"timings": TIMINGS}])
def test_read_rounds_are_tokens_generated_less_accepted(record: dict[str, Any]):
    seen = _one(record)
    assert (seen.n_rounds, seen.n_drafted_tokens, seen.n_accepted_tokens) == (24, 90, 40)
    assert seen.notes[0].startswith(INFERRED)
    assert seen.is_request


def test_read_model_of_a_response_is_the_target():
    assert _one({"model": "m", "timings": TIMINGS}).labels == {"target": "m"}
    assert _one({"model": 7, "timings": TIMINGS}).labels == {}


@pytest.mark.parametrize(
    "timings", [{"predicted_n": 64, "predicted_ms": 1.0}, TIMINGS | {"draft_n": None, "draft_n_accepted": None}]
)
def test_read_response_without_draft_counts_is_empty(timings: dict[str, Any]):
    assert _one({"timings": timings}).is_empty


def test_read_stated_rounds_are_taken_and_not_inferred():
    seen = _one({"timings": MLX})
    assert (seen.n_rounds, seen.n_accepted_tokens, seen.labels["method"]) == (30, 40, "mtp")
    assert not any(note.startswith(INFERRED) for note in seen.notes)


def test_read_stated_rounds_may_accept_past_the_end_of_a_reply():
    seen = _one({"timings": MLX | {"predicted_n": 2, "draft_rounds": 1, "draft_n": 7, "draft_n_accepted": 6}})
    assert (seen.n_rounds, seen.n_accepted_tokens) == (1, 6)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"draft_n_accepted": 91}, "timings.draft_n_accepted = 91", "more tokens accepted than drafted (90)"),
        ({"draft_n_accepted": 64}, "timings.draft_n_accepted = 64", "64 tokens in 0 rounds"),
        ({"draft_n_accepted": 70}, "timings.draft_n_accepted = 70", "mlx-vlm counts past the end of a reply"),
        ({"draft_n_accepted": None}, "timings.draft_n_accepted = None", "must be a whole number"),
        ({"draft_n": None}, "timings.draft_n = None", "must be a whole number"),
        ({"draft_n": "90"}, "timings.draft_n = '90'", "must be a whole number"),
        ({"draft_n": True}, "timings.draft_n = True", "must be a whole number"),
        ({"draft_n": 10**400}, "timings.draft_n = 1000", "is beyond any server"),
        ({"predicted_n": 64.0}, "timings.predicted_n = 64.0", "must be a whole number"),
        ({"predicted_n": -64}, "timings.predicted_n = -64", "must be at least 0"),
        ({"draft_rounds": 0}, "timings.draft_n_accepted = 40", "64 tokens in 0 rounds"),
        ({"draft_rounds": 1.5}, "timings.draft_rounds = 1.5", "must be a whole number"),
    ],
)
def test_read_impossible_timings_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _one({"timings": TIMINGS | changes})
    assert str(caught.value).startswith(f"a: {field}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("piece", "counts"),
    [
        ({"object": "chat.completion.chunk", "choices": [{"finish_reason": None}]}, False),
        ({"object": "chat.completion.chunk", "choices": [{"finish_reason": "stop"}]}, True),
        ({"object": "chat.completion.chunk", "choices": []}, True),
        ({"object": "chat.completion", "choices": [{"finish_reason": "stop"}]}, True),
        ({"stop": False}, False),
        ({"stop": True}, True),
    ],
)
def test_read_pieces_of_a_stream_are_not_counted_again(piece: dict[str, Any], counts: bool):
    assert len(list(read(piece | {"timings": TIMINGS}, "a"))) == counts


def test_read_run_with_drafts_counts_prompts_that_drafted_nothing():
    first, second = read(_bench(_run("ngram", _prompt("p", 100, 8, 0), _prompt("q", 50, None, None))), "a")
    assert (first.n_rounds, first.n_drafted_tokens, first.n_accepted_tokens) == (100, 8, 0)
    assert (second.n_rounds, second.n_drafted_tokens, second.n_accepted_tokens) == (50, 0, 0)
    assert "drafted nothing" in second.notes[1]


def test_read_run_without_any_drafts_is_empty_and_not_zero():
    assert all(seen.is_empty for seen in read(_bench(BASELINE), "a"))


def test_read_failed_prompts_are_empty_whatever_the_status_says():
    run = _run("draft_0_5b", _prompt("p", 100, 150, 60), {"id": "q", "category": "code", "error": "refused"})
    first, second = read(_bench(run), "a")
    assert (first.is_empty, second.is_empty) == (False, True)


def test_read_labels_of_a_run():
    baseline, first, _ = read(_bench(BASELINE, DRAFT), "a")
    assert baseline.labels == {"target": "t.gguf", "method": "none", "domain": "code", "run": "cuda/baseline"}
    assert first.labels == {
        "target": "t.gguf",
        "drafter": "d.gguf",
        "method": "draft_model",
        "domain": "code",
        "run": "cuda/draft_0_5b",
    }
    assert first.prompt == "p"


def test_read_single_run_needs_no_name():
    assert all("run" not in seen.labels for seen in read(_bench(DRAFT), "a"))


def test_read_ngram_run_has_no_drafter():
    (seen,) = read(_bench(_run("ngram", _prompt("p", 100, 8, 0))), "a")
    assert (seen.labels["method"], seen.labels.get("drafter")) == ("ngram", None)


def test_read_hosts_name_their_runs_only_where_they_clash():
    hosts = {
        "gpu0": _bench(DRAFT),
        "gpu1": _bench(DRAFT),
        "cpu": _bench(_run("ngram", _prompt("p", 9, 3, 1), backend="cpu")),
    }
    runs = [seen.labels["run"] for seen in read({"name": "box", "runs": hosts}, "a")]
    assert runs == ["gpu0/cuda/draft_0_5b"] * 2 + ["gpu1/cuda/draft_0_5b"] * 2 + ["cpu/ngram"]


def test_read_repeated_run_is_not_pooled_with_the_first():
    runs = [seen.labels["run"] for seen in read(_bench(DRAFT, DRAFT), "a")]
    assert runs == ["cuda/draft_0_5b"] * 2 + ["cuda/draft_0_5b#2"] * 2


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (_bench(_run("draft", _prompt("p", 100, 50, 60))), "a: runs[0].records[0].draft_n_accepted = 60"),
        (_bench(_run("draft", _prompt("p", 100, 50, None))), "a: runs[0].records[0].draft_n_accepted = None"),
        (
            _bench(_run("draft", {"id": "p", "draft_n": 3, "draft_n_accepted": 1}, _prompt("q", 9, 3, 1))),
            "records[0].predicted_n",
        ),
        (_bench(DRAFT, {"records": 3}), "a: runs[1].records = 3: must be a list"),
        (_bench(DRAFT, 3), "a: runs[1] = 3: must be an object"),
        (_bench(_run("draft", _prompt("p", 9, 3, 1), 3)), "a: runs[0].records[1] = 3: must be an object"),
        (
            {"runs": {"gpu": _bench(_run("d", _prompt("p", 9, 3, 4)))}},
            "a: runs.gpu.runs[0].records[0].draft_n_accepted",
        ),
        (_bench(_run("draft", _prompt("\ud800", 9, 3, 1))), "records[0].id"),
    ],
)
def test_read_damaged_benchmark_is_refused_with_its_place(record: Any, message: str):
    with pytest.raises(BadInput) as caught:
        list(read(record, "a"))
    assert message in str(caught.value)


def test_read_sweep_has_shares_and_no_counts():
    small, large = read(SWEEP, "a")
    assert (small.draft_acceptance_rate, small.n_rounds, small.n_drafted_tokens) == (0.25, None, None)
    assert small.labels == {"target": "t.gguf", "drafter": "d.gguf", "method": "draft_model", "draft_length": 5}
    assert (large.labels["drafter"], large.is_request) == ("3B", False)


@pytest.mark.parametrize(
    ("share", "message"),
    [(25.7, "drafts[0].acceptance = 25.7: is no fraction"), (-0.1, "must lie in"), ("0.3", "must be a number")],
)
def test_read_sweep_takes_only_fractions(share: Any, message: str):
    with pytest.raises(BadInput) as caught:
        list(read(SWEEP | {"drafts": [{"file": "d", "acceptance": share}]}, "a"))
    assert message in str(caught.value)


def test_read_sweep_draft_without_a_share_is_empty():
    assert _one(SWEEP | {"drafts": [{"file": "d", "acceptance": None}]}).is_empty


def test_import_profile_pools_tokens_not_means_of_prompts(save):
    profile = import_profile([save("a.json", _bench(BASELINE, DRAFT))])
    assert (profile.evidence, profile.n_rounds, profile.n_drafted_tokens) == ("draft_rate", 60, 210)
    assert profile.mean_acceptance_length == pytest.approx(1 + 90 / 60)
    assert profile.draft_acceptance_rate == pytest.approx(90 / 210)
    assert profile.draft_length is None


def test_import_profile_stated_rounds_are_a_mean_length(save):
    assert import_profile([save("a.json", {"timings": MLX})]).evidence == "mean_length"


def test_import_profile_several_domains_of_one_run_are_mixed(save):
    run = _run("draft", _prompt("p", 100, 150, 60), _prompt("q", 50, 60, 30, category="math"))
    assert import_profile([save("a.json", _bench(run))]).domain == "mixed"


def test_import_profile_runs_are_not_pooled_in_silence(save):
    path = save("a.json", _bench(DRAFT, _run("draft_0_5b", _prompt("p", 100, 150, 60), backend="vulkan")))
    with pytest.raises(BadInput, match="requests disagree"):
        import_profile([path])
    assert import_profile([path], ImportOptions(only={"run": ("vulkan/draft_0_5b",)})).n_rounds == 40


def test_import_profiles_sweep_gives_one_for_each_draft_model(save):
    profiles = import_profiles([save("a.json", SWEEP)])
    assert {name: profile.draft_acceptance_rate for name, profile in profiles.items()} == {"d.gguf": 0.25, "3b": 0.75}
    assert {(profile.evidence, profile.mean_acceptance_length) for profile in profiles.values()} == {
        ("draft_rate", None)
    }


def test_import_profile_example_is_what_its_counts_give():
    profile = import_profile([example_file("llama-cpp.json")], ImportOptions(only={"method": ("draft_model",)}))
    assert (profile.n_rounds, profile.n_accepted_tokens, profile.n_drafted_tokens) == (230, 510, 1070)
