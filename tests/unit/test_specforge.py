"""SpecForge: totals of a run, the JSON of bench_eagle3.py, and the published table; lengths, and rarely rounds."""

from __future__ import annotations

from typing import Any

import pytest

from specbook.acceptance.importing import ImportOptions, import_profile, import_profiles
from specbook.acceptance.library import example_file
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.specforge import read, recognises
from specbook.checks import BadInput

SUMMARY: dict[str, Any] = {
    "backend": "sglang",
    "dataset": "qa",
    "samples": 8,
    "output_tokens": 800,
    "latency_seconds": 4.0,
    "throughput_tokens_per_second": 200.0,
    "average_acceptance_length": 2.6,
    "spec_verify_count": 320,
}


def _entry(steps: int | None, topk: int | None, nodes: int | None, *rows: Any, batch: Any = 1) -> dict[str, Any]:
    setting = {"batch_size": batch, "steps": steps, "topk": topk, "num_draft_tokens": nodes}
    return {**setting, "metrics": [*rows], "num_samples": 5}


def _metrics(tokens: float, rounds: float, latency: float = 8.0) -> dict[str, Any]:
    return {"latency": latency, "output_throughput": tokens / latency, "accept_length": tokens / rounds}


def _table(*entries: dict[str, Any], target: str = "T", benchmark: str = "gsm8k") -> dict[str, Any]:
    return {target: {benchmark: {"benchmark_name": benchmark, "results": [*entries]}}}


def _row(name: str, length: Any) -> dict[str, Any]:
    return {"Name": name, "output_throughput": 100.0, "accept_length": length}


BASELINE = _row("Wihtout EAGLE3", 1.0)


def _all(record: Any) -> list[Observation]:
    return list(read(record, "a.json"))


@pytest.mark.parametrize(
    "record", [SUMMARY, {"mtbench": [_entry(3, 1, 4, _metrics(10, 5))], "model": "d"}, _table(_entry(3, 1, 4))]
)
def test_recognises_each_form(record: dict[str, Any]):
    assert recognises(record)


@pytest.mark.parametrize(
    "record",
    [{}, [SUMMARY], None, {"mtbench": []}, {"mtbench": [{"steps": 3}]}, {"T": {"gsm8k": {"results": []}}}, {"a": 1}],
)
def test_recognises_nothing_else(record: Any):
    assert not recognises(record)


def test_import_profile_summary_is_tokens_per_round(save):
    """The stated average gives every request the same weight, and is only compared."""
    profile = import_profile([save("a.json", SUMMARY)])
    assert (profile.evidence, profile.n_rounds, profile.domain) == ("mean_length", 320, "qa")
    assert profile.mean_acceptance_length == pytest.approx(2.5, abs=1e-12)
    assert profile.n_accepted_tokens is None


def test_import_profile_summaries_are_pooled_by_rounds(save):
    other = SUMMARY | {"output_tokens": 80, "spec_verify_count": 80, "average_acceptance_length": 1.0}
    del other["throughput_tokens_per_second"]
    labels = {"target": "m", "domain": "qa", "temperature": 0.0}
    profile = import_profile([save("a.json", SUMMARY), save("b.json", other)], ImportOptions(labels=labels))
    assert profile.mean_acceptance_length == pytest.approx(880 / 400, abs=1e-12)


@pytest.mark.parametrize(
    "changes", [{"spec_verify_count": None, "average_acceptance_length": None}, {"spec_verify_count": 0}]
)
def test_import_profile_summary_without_speculation_has_no_rounds(save, changes: dict[str, Any]):
    with pytest.raises(BadInput, match="no rounds"):
        import_profile([save("a.json", SUMMARY | changes)])


def test_read_benchmarks_are_domains_with_rounds_that_follow():
    record = {
        "model": "org/d",
        "mtbench": [_entry(3, 1, 4, _metrics(900, 400))],
        "gsm8k": [_entry(3, 1, 4, _metrics(300, 120))],
    }
    chat, maths = _all(record)
    assert chat.labels == {"domain": "mtbench", "drafter": "org/d", "draft_length": 3, "method": "eagle3"}
    assert (chat.n_rounds, maths.n_rounds) == (400, 120)
    assert chat.mean_acceptance_length == pytest.approx(2.25, abs=1e-12)
    assert chat.notes[0].startswith("rounds are not in the source")


def test_import_profile_benchmarks_are_weighed_by_rounds(save):
    record = {"mtbench": [_entry(3, 1, 4, _metrics(900, 400))], "gsm8k": [_entry(3, 1, 4, _metrics(300, 120))]}
    profile = import_profile([save("a.json", record)])
    assert (profile.evidence, profile.domain, profile.n_rounds) == ("mean_length", "mixed", 520)
    assert profile.mean_acceptance_length == pytest.approx(1200 / 520, abs=1e-12)


def test_read_rounds_that_are_not_whole_only_weigh():
    (seen,) = _all({"qa": [_entry(3, 1, 4, _metrics(900.4, 400))]})
    assert seen.n_rounds == 400
    (seen,) = _all({"qa": [_entry(3, 1, 4, _metrics(900, 400) | {"accept_length": 2.26})]})
    assert seen.n_rounds is None
    assert seen.weight == pytest.approx(900 / 2.26, abs=1e-9)


def test_read_null_setting_is_neither_chain_nor_tree():
    (seen,) = _all({"qa": [_entry(None, None, None, _metrics(900, 400))]})
    assert seen.labels == {"domain": "qa"}
    assert (seen.is_tree, seen.mean_acceptance_length) == (False, 2.25)
    assert any("does not say whether drafts were chains" in note for note in seen.notes)


@pytest.mark.parametrize(
    "entry",
    [
        _entry(0, 0, 0, _metrics(10, 10)),
        _entry(None, None, None, _metrics(10, 10)),
        _entry(3, 1, 4, {"accept_length": None}),
        _entry(3, 1, 4, {}),
    ],
)
def test_read_rows_without_verification_are_empty(entry: dict[str, Any]):
    """bench_eagle3.py writes 1 where the server verified nothing."""
    (seen,) = _all({"qa": [entry]})
    assert seen.is_empty


def test_read_table_labels_target_drafter_and_domain():
    empty, seen = _all(_table(_entry(3, 1, 4, BASELINE, _row("org/d", 2.6))))
    assert empty.is_empty
    labels = {"target": "T", "drafter": "org/d", "domain": "gsm8k", "draft_length": 3, "method": "eagle3"}
    assert seen.labels == labels
    assert (seen.mean_acceptance_length, seen.weight, seen.n_rounds) == (2.6, None, None)


@pytest.mark.parametrize("name", ["Wihtout EAGLE3", "Without EAGLE3", "without speculation"])
def test_read_baseline_of_the_table_is_no_evidence_whatever_its_length(name: str):
    assert all(seen.is_empty for seen in _all(_table(_entry(3, 1, 4, _row(name, 1.2)))))


def test_import_profiles_table_splits_everything(save):
    entries = [_entry(k, 1, k + 1, BASELINE, _row("d1", 2.0 + k / 10), _row("d2", 1.5)) for k in (3, 5)]
    tree = _entry(5, 3, 6, BASELINE, _row("d1", 2.2))
    record = _table(*entries, tree) | _table(entries[0], target="U", benchmark="qa")
    profiles = import_profiles([save("data.json", record)])
    assert len(profiles) == 7
    found = {(p.target, p.drafter, p.domain, p.draft_length, p.tree is not None) for p in profiles.values()}
    assert found == {
        ("T", "d1", "gsm8k", 3, False),
        ("T", "d2", "gsm8k", 3, False),
        ("T", "d1", "gsm8k", 5, False),
        ("T", "d2", "gsm8k", 5, False),
        ("T", "d1", "gsm8k", None, True),
        ("U", "d1", "qa", 3, False),
        ("U", "d2", "qa", 3, False),
    }
    assert all(profile.evidence == "mean_length" and profile.n_rounds is None for profile in profiles.values())


def test_import_profiles_batch_sizes_without_weights_are_runs(save):
    """Nobody knows how to weigh them, so they stay apart."""
    entries = [_entry(3, 1, 4, _row("d", 2.0), batch=1), _entry(3, 1, 4, _row("d", 2.4), batch=8)]
    path = save("data.json", _table(*entries))
    profiles = import_profiles([path])
    assert {name: profile.mean_acceptance_length for name, profile in profiles.items()} == {
        "batch1": 2.0,
        "batch8": 2.4,
    }
    assert import_profile([path], ImportOptions(only={"run": ("batch8",)})).mean_acceptance_length == 2.4


def test_import_profile_batch_sizes_with_rounds_are_pooled(save):
    record = {"qa": [_entry(3, 1, 4, _metrics(900, 400), batch=1), _entry(3, 1, 4, _metrics(300, 120), batch=8)]}
    assert import_profile([save("a.json", record)]).mean_acceptance_length == pytest.approx(1200 / 520, abs=1e-12)


def test_read_batch_size_of_a_tree_joins_its_setting():
    entries = [_entry(5, 4, 8, _row("d", 2.0), batch=1), _entry(5, 4, 8, _row("d", 2.4), batch=8)]
    runs = [seen.labels["run"] for seen in _all(_table(*entries))]
    assert runs == ["steps5-topk4-nodes8-batch1", "steps5-topk4-nodes8-batch8"]


def test_import_profile_example_pools_two_benchmarks():
    profile = import_profile([example_file("specforge.json")])
    assert (profile.n_rounds, profile.draft_length, profile.drafter) == (3829 + 1512, 3, "example/my-target-eagle3")
    assert profile.mean_acceptance_length == pytest.approx((9087 + 4196) / 5341, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        pytest.param(
            {"average_acceptance_length": 1.5},
            "average_acceptance_length = 1.5",
            "does not match output_tokens / spec_verify_count, which gives 2.5000; a length counts the bonus",
            id="no bonus",
        ),
        ({"average_acceptance_length": 2.6, "samples": 1}, "average_acceptance_length = 2.6", "which gives 2.5000"),
        ({"average_acceptance_length": "2.5"}, "average_acceptance_length = '2.5'", "must be a number"),
        ({"throughput_tokens_per_second": 20.0}, "throughput_tokens_per_second = 20.0", "which gives 200.0000"),
        ({"spec_verify_count": 900}, "output_tokens = 800", "a round emits at least one token, and there were 900"),
        ({"spec_verify_count": 320.0}, "spec_verify_count = 320.0", "must be a whole number"),
        ({"spec_verify_count": True}, "spec_verify_count = True", "must be a whole number"),
        ({"output_tokens": -1}, "output_tokens = -1", "must be at least 0"),
        ({"latency_seconds": "4"}, "latency_seconds = '4'", "must be a number"),
    ],
)
def test_read_summary_contradictions_are_refused(changes: dict[str, Any], field: str, problem: str):
    with pytest.raises(BadInput) as caught:
        _all(SUMMARY | changes)
    assert str(caught.value).startswith(f"a.json: {field}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (_table(_entry(3, 1, 4, _row("d", 4.2))), "T.gsm8k.results[0].metrics[0].accept_length = 4.2: a round of this"),
        (_table(_entry(3, 1, 4, _row("d", 0.4))), "metrics[0].accept_length = 0.4: must lie in [1, "),
        (_table(_entry(3, 1, 4, _row("d", True))), "metrics[0].accept_length = True: must be a number"),
        (_table(_entry(7, 4, 3, _row("d", 3.2))), "a round of this setting yields at most 3 tokens"),
        (_table(_entry("3", 1, 4, _row("d", 2.0))), "T.gsm8k.results[0].steps = '3': must be a whole number"),
        (_table(_entry(3, 1, 4, "row")), "results[0].metrics[0] = 'row': must be an object"),
        ({"T": {"a": {"benchmark_name": "b", "results": []}}}, "T.a.benchmark_name = 'b': stands under the name a"),
        ({"T": {"a": {"benchmark_name": "a", "results": 3}}}, "T.a.results = 3: must be a list"),
        ({"qa": [_entry(3, 1, 4, _metrics(9, 4)), 3]}, "qa[1] = 3: must be an object"),
        ({"qa": [{"topk": 1, "metrics": 3, "steps": 3, "num_draft_tokens": 4}]}, "qa[0].metrics = 3: must be a list"),
        (
            {"qa": [_entry(3, 1, 4, _metrics(9, 4) | {"latency": "8"})]},
            "qa[0].metrics[0].latency = '8': must be a number",
        ),
        (_table(_entry(3, 1, 4, _row("\ud800", 2.0))), "metrics[0].Name = "),
        (_table(_entry(3, 1, 4, _row("d", 2.0)), target="\ud800"), "is not valid text"),
    ],
)
def test_read_impossible_tables_are_refused(record: dict[str, Any], problem: str):
    with pytest.raises(BadInput) as caught:
        _all(record)
    assert problem in str(caught.value)
