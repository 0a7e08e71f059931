"""``specbook parity``: exit codes, tables, JSON, bad options."""

from __future__ import annotations

import json

import pytest

from specbook.display.parity_terminal import in_words
from specbook.measuring.subjects import own_prompt_tokens
from specbook.parity import distribution, gates

SHORT = ("--tokens", 12, "--drafter", "small", "--drafter", "lookup")


@pytest.fixture(autouse=True)
def small_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_LEAST_SAMPLES", 20)
    monkeypatch.setattr(gates, "_LEAST_ROLLBACKS", 12)
    monkeypatch.setattr(gates, "_LEAST_TREES", 2)
    monkeypatch.setattr(distribution, "EXACT_CASES", distribution.EXACT_CASES[:1])
    monkeypatch.setattr(distribution, "DECODED_SHAPES", {})


def test_parity_prints_a_row_a_gate(cli):
    outcome = cli("parity", *SHORT)
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split() for line in outcome.out.splitlines()]
    rows = [line for line in lines if line[:1] and line[0] in {"greedy", "distribution", "rollback", "tree-mask"}]
    assert [row[0] for row in rows] == ["greedy", "distribution", "rollback", "tree-mask"]
    assert all("passed" in row and row[1] == "exact" for row in rows)
    assert "drafters, as chains and trees: small, prompt_lookup; seed 0" in outcome.out
    assert "kernels, 1 thread" in outcome.out
    assert "12 tokens, 0 divergences; all 12 rows of logits bit-equal" in outcome.out


def test_parity_as_json_is_one_object(cli):
    outcome = cli("parity", *SHORT, "--gate", "greedy", "--arithmetic", "all", "--seed", 3, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert (document["passed"], document["tokens"], document["seed"]) == (True, 12, 3)
    assert document["drafters"] == ["small", "prompt_lookup"]
    assert [result["arithmetic"] for result in document["gates"]] == ["exact", "fast", "ref64", "naive"]
    for result in document["gates"]:
        assert (result["gate"], result["passed"], result["first_failure"]) == ("greedy", True, None)
        assert result["counts"]["tokens"] == 12
    assert (document["blas"]["threads"], document["fault"]) == (1, None)
    assert set(document["weights"]) >= {"target.safetensors", "draft.safetensors"}


def test_parity_without_bit_equality_says_how_far_logits_are(cli):
    outcome = cli("parity", *SHORT, "--gate", "greedy", "--arithmetic", "naive")
    assert outcome.code == 0
    assert "near-ties; logits differ by" in outcome.out


@pytest.mark.parametrize("json_flag", [(), ("--json",)])
def test_a_failed_gate_is_exit_code_1_and_says_where(cli, json_flag):
    outcome = cli("parity", *SHORT, "--gate", "rollback", "--fault", "leave a stale row", *json_flag)
    assert (outcome.code, outcome.err) == (1, "")
    if json_flag:
        document = json.loads(outcome.out)
        assert (document["passed"], document["fault"]) == (False, "leave a stale row")
        assert "not those that were written" in document["gates"][0]["first_failure"]["what"]
    else:
        assert outcome.out.startswith("planted on purpose: leave a stale row\n")
        assert "FAILED" in outcome.out
        assert "rollback, exact: committed bytes are not those that were written: rollback " in outcome.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--gate", "beauty"), ("--gate", "beauty")),
        (("--arithmetic", "quick"), ("--arithmetic", "quick")),
        (("--tokens", 0), ("--tokens",)),
        (("--tokens", "many"), ("--tokens",)),
        (("--tokens", 10**9), ("--tokens", "n_tokens must be at most", "compare fewer tokens")),
        (("--drafter", "big"), ("--drafter", "'big'", "small, eagle")),
        (("--drafter", "x\x1b[31m"), ("--drafter", "x\\x1b[31m")),
        (("--seed", -1), ("--seed",)),
        (("--fault", "gremlins"), ("--fault", "'gremlins'", "forget the residual")),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(cli, arguments, parts):
    outcome = cli("parity", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    for part in parts:
        assert part in outcome.err


def test_prompts_are_ours_with_the_domains_in_turn():
    prompts = own_prompt_tokens()
    assert len(prompts) >= 160
    assert all(prompt[0] == 1023 and len(prompt) > 4 for prompt in prompts)


def test_in_words_shows_every_kind_of_fact():
    facts = {"what": "x", "near_tie": False, "gap": 1.25, "tokens": [3, 4], "parents": [-1, 0, 1], "pool": "all"}
    assert in_words(facts) == "x: near tie no, gap 1.25, tokens 3 and 4, parents [-1, 0, 1], pool all"
    assert in_words({"what": "the engine raised"}) == "the engine raised"
