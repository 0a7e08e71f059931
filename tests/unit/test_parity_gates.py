"""What the gates compare: on the shipped pair all is equal; shares, bits, cells and reports are as they say."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from specbook.engine.library import load_target
from specbook.engine.sampling import SamplingConfig
from specbook.parity import gates
from specbook.parity.cases import shipped_cases
from specbook.parity.distribution import check_distribution, compare_laws
from specbook.parity.gates import ParityConfig, guarded, run_parity
from specbook.parity.greedy import check_greedy
from specbook.parity.observation import largest_difference, peek, read_by_steps, same_bits
from specbook.parity.random_trees import random_tree
from specbook.parity.report import GATE_NAMES, GateResult, failure
from specbook.parity.rollback import check_rollback
from specbook.parity.sampled_law import LEAST_EXPECTED, Pool, compare_pool, exact_cells, samples_for_bound
from specbook.parity.tree_mask import check_tree_mask
from tests.tiny_models import tiny_transformer

PROMPTS = [[1023, *b"def area(width):\n"], [1023, *b"Question: A rope"]]
SAMPLED = SamplingConfig(temperature=1.0)


def test_run_parity_on_the_shipped_pair_in_exact(monkeypatch):
    monkeypatch.setattr(gates, "_LEAST_SAMPLES", 42)
    monkeypatch.setattr(gates, "_LEAST_ROLLBACKS", 20)
    monkeypatch.setattr(gates, "_LEAST_TREES", 5)
    config, steps = ParityConfig(n_tokens=112), []
    report = run_parity(config, PROMPTS, steps.append)
    assert report.passed, [result.first_failure for result in report.results]
    assert [result.gate for result in report.results] == list(GATE_NAMES)
    assert sum(steps) == config.n_steps == 112 + 42 + 20 + 5
    greedy, sampled, rollback, trees = (result.counts for result in report.results)
    assert (greedy["tokens"], greedy["logit_rows"], greedy["unequal_logit_rows"]) == (112, 112, 0)
    assert 0 < greedy["accepted"] == greedy["tokens"] - greedy["rounds"]
    assert (sampled["samples"], sampled["pools"], sampled["unequal_laws"]) == (42, 14, 0)
    assert sampled["exact_laws"] > 20
    assert report.results[1].findings["largest_law_difference"] < 1e-15
    assert 0 < sampled["accepted"] < sampled["drafted"]
    assert rollback["rollbacks"] == rollback["rejected_trees"] + rollback["accepted_paths"] == 20
    assert rollback["rounds_of_drafters"] > 14
    assert rollback["bytes"] > 1e6
    assert (trees["trees"], trees["unequal"]) == (5, 0)
    assert report.blas["threads"] == 1
    assert report.weights["target.safetensors"].startswith("4cf6")
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("arithmetic", ["fast", "naive"])
def test_without_bit_equality_tokens_are_equal_and_logits_close(arithmetic):
    config = ParityConfig(gates=("greedy",), arithmetics=(arithmetic,), drafters=("small", "eagle"), n_tokens=48)
    (result,) = run_parity(config, PROMPTS).results
    assert result.passed
    assert (result.counts["tokens"], result.counts["divergences"]) == (48, 0)
    assert result.counts["unequal_logit_rows"] > 24
    assert 0.0 < result.findings["largest_logit_difference"] < 1e-4


def test_a_gate_draws_alike_whichever_others_run(monkeypatch):
    monkeypatch.setattr(gates, "_LEAST_TREES", 5)
    alone = run_parity(ParityConfig(gates=("tree-mask",), n_tokens=4), PROMPTS)
    both = run_parity(ParityConfig(gates=("greedy", "tree-mask"), drafters=("ngram",), n_tokens=4), PROMPTS)
    other = run_parity(ParityConfig(gates=("tree-mask",), n_tokens=4, seed=1), PROMPTS)
    assert alone.results[0].counts == both.results[1].counts != other.results[0].counts


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gates": ()}, "gates must not be empty"),
        ({"gates": ("beauty",)}, "gates must be of greedy, distribution, rollback, tree-mask; got 'beauty'"),
        ({"arithmetics": ("quick",)}, "arithmetic must be exact"),
        ({"drafters": ("big",)}, "drafter must be one of small"),
        ({"drafters": ()}, "drafters must not be empty"),
        ({"n_tokens": 0}, "n_tokens must be whole and at least 1"),
        ({"seed": -1}, "seed must be whole"),
    ],
)
def test_config_refuses(fields, message):
    with pytest.raises(ValueError, match=message):
        ParityConfig(**fields)


def test_gates_refuse_what_they_cannot_compare():
    target, rng = tiny_transformer(), np.random.default_rng(0)
    cases = shipped_cases(load_target(), ["ngram"])
    with pytest.raises(ValueError, match="must not be empty"):
        check_greedy(target, [], [[1]], 4)
    with pytest.raises(ValueError, match="must not be empty"):
        check_distribution(target, cases, [], 4, rng)
    with pytest.raises(ValueError, match="n_samples must be whole and at least 2"):
        check_distribution(target, cases, [[1]], 1, rng)
    with pytest.raises(ValueError, match=r"n_tokens must be at most 126 .* got 127"):
        check_greedy(target, cases, [[1]], 127)
    with pytest.raises(ValueError, match="at least 15 tokens; got 2"):
        check_rollback(target, [], [[1, 2]], 1, rng)
    with pytest.raises(ValueError, match="at least one token"):
        check_tree_mask(target, [], 1, rng)
    with pytest.raises(ValueError, match="prompts must not be empty"):
        run_parity(ParityConfig(), [])


def test_an_engine_that_raises_has_failed():
    def broken() -> GateResult:
        raise IndexError("row 5")

    result = guarded("greedy", tiny_transformer(), broken)
    assert not result.passed
    assert result.first_failure == {"what": "the engine raised IndexError: row 5"}


def test_results_are_consistent_and_plain():
    with pytest.raises(ValueError, match="if and only if"):
        GateResult(gate="greedy", arithmetic="exact", passed=False, counts={})
    problem = failure("x", logits=[float("nan"), 1.0], nested={"y": float("inf")})
    result = GateResult(gate="greedy", arithmetic="exact", passed=False, counts={}, first_failure=problem)
    assert result.to_json()["first_failure"] == {"what": "x", "logits": [None, 1.0], "nested": {"y": None}}


def test_bits_and_differences():
    row = np.array([1.0, np.nan], np.float32)
    assert same_bits(row, row.copy())
    assert not same_bits(row, row.astype(np.float64))
    assert not same_bits(row, row[:1])
    assert largest_difference(row, row) == largest_difference(row, row[:1]) == np.inf


def test_peek_leaves_the_cache_alone():
    target = tiny_transformer()
    steps = read_by_steps(target, [1, 2, 3])
    again = read_by_steps(target, [1, 2, 3, 4])
    assert same_bits(peek(target, steps.cache, 4), again.logits[3])
    assert (steps.cache.lengths.tolist(), steps.cache.n_pending.tolist()) == ([3], [0])


def test_random_trees_know_their_family():
    tree = random_tree(np.random.default_rng(3), 12, 19)
    for node in range(12):
        below = {other for other in range(12) if node in tree.path(other)}
        assert tree.descendants(node) == below
        assert tree.path(node)[-1] == node
        assert (below == {node}) == (node in tree.leaves())
    changed = tree.with_tokens({2: 18})
    assert (changed.parents, changed.tokens[2], changed.tokens[3:]) == (tree.parents, 18, tree.tokens[3:])


def test_compare_laws_sees_a_missing_and_a_foreign_sequence():
    assert compare_laws("x", {(0,): 1.0}, {(0,): 0.5, (1,): 0.5}).difference == 0.5
    foreign = compare_laws("x", {(0,): 0.5, (1,): 0.5}, {(0,): 1.0})
    assert (foreign.difference, foreign.divergence, foreign.passed) == (0.5, np.inf, False)


@pytest.mark.parametrize("n_samples", [9, 50, 400, 3000])
def test_exact_cells_expect_enough_and_lose_nothing(n_samples):
    target = tiny_transformer()
    cells = exact_cells(target, [3, 1], SamplingConfig(temperature=2.0), n_samples)
    assert sum(cells.values()) == pytest.approx(1.0, abs=1e-12)
    assert len(cells) == 1 or min(cells.values()) * n_samples >= LEAST_EXPECTED
    pairs = Counter({(first, second): 1 for first in range(19) for second in range(19)})
    result = compare_pool(Pool(pairs=pairs), cells, 1e-3)
    assert (result.n_samples, result.n_cells) == (361, len(cells))


def test_a_pool_of_the_law_diverges_by_the_bias_and_seldom_beyond_the_bound():
    target, rng = tiny_transformer(), np.random.default_rng(11)
    sampling, n_samples, n_pools = SamplingConfig(temperature=2.0), 800, 300
    cells = exact_cells(target, [3, 1], sampling, n_samples)
    first = {cell: cell if len(cell) == 2 else (cell[0], -1) if cell else (-1, -1) for cell in cells}
    draws = rng.multinomial(n_samples, list(cells.values()), size=n_pools)
    results = [
        compare_pool(Pool(pairs=Counter(dict(zip(first.values(), row.tolist(), strict=True)))), cells, 0.05)
        for row in draws
    ]
    degrees = len(cells) - 1
    mean = np.mean([result.divergence for result in results])
    assert results[0].bias == degrees / (2 * n_samples)
    error = np.sqrt(2 * degrees) / (2 * n_samples) / np.sqrt(n_pools)
    assert mean == pytest.approx(results[0].bias, abs=5 * error)
    beyond = np.mean([result.divergence > result.bound for result in results])
    refused = np.mean([result.p_value < 0.05 for result in results])
    assert beyond == pytest.approx(0.05, abs=0.05)
    assert refused == pytest.approx(0.05, abs=0.05)
    assert samples_for_bound(len(cells), results[0].bound, 0.05) == pytest.approx(n_samples, abs=1)
