"""Optimal trees: against every tree there is, against the greedy choice, against chains; and the fastest one."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import pytest

from specbook.acceptance.profile import AcceptanceProfile, Measurement, TreeYield
from specbook.acceptance.tree_candidates import (
    TreeCandidate,
    measured_tree,
    profile_rank_acceptance,
    tree_candidates,
)
from specbook.acceptance.tree_search import BestTree, best_tree, search_trees, tree_speedups
from specbook.acceptance.trees import (
    expected_tree_tokens,
    power_law_rank_acceptance,
    sibling_acceptance,
    sibling_ranks,
)
from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import BadInput
from specbook.engine.draft import TreeShape, chain_shape, tree_shape

Nested = tuple["Nested", ...]


@lru_cache
def _forests(n_nodes: int, n_ranks: int, n_trees: int) -> tuple[Nested, ...]:
    """All lists of at most ``n_trees`` ordered trees with ``n_nodes`` nodes in all."""
    if n_nodes == 0:
        return ((),)
    if n_trees == 0:
        return ()
    return tuple(
        (first, *others)
        for size in range(1, n_nodes + 1)
        for first in _forests(size - 1, n_ranks, n_ranks)
        for others in _forests(n_nodes - size, n_ranks, n_trees - 1)
    )


def _parents(forest: Nested, parent: int = -1, first: int = 0) -> list[int]:
    """Parent list in preorder."""
    found: list[int] = []
    for children in forest:
        node = first + len(found)
        found += [parent, *_parents(children, node, node + 1)]
    return found


def _all_trees(n_nodes: int, n_ranks: int, max_depth: int) -> Iterator[list[int]]:
    for forest in _forests(n_nodes, n_ranks, n_ranks):
        parents = _parents(forest)
        if TreeShape(parents=tuple(parents)).depth <= max_depth:
            yield parents


TABLES = {
    "falling": [0.7, 0.4, 0.2],
    "rising": [0.1, 0.5, 0.9],
    "useless first": [0.0, 0.0, 0.8],
    "certain second": [0.3, 1.0, 0.5],
    "by depth": [[0.2, 0.6, 0.1], [0.9, 0.1, 0.1], [0.3, 0.3, 0.9], [0.5, 0.1, 0.7]],
    "one rank": [0.6],
    "two ranks": [0.5, 0.5],
}


@pytest.mark.parametrize("name", TABLES)
def test_search_finds_the_best_of_all_trees(name: str):
    table, n_ranks = TABLES[name], np.asarray(TABLES[name]).shape[-1]
    trees = search_trees(table, max_nodes=6, max_depth=4)
    for n_nodes in range(7):
        for depth in range(5):
            tokens = [expected_tree_tokens(parents, table) for parents in _all_trees(n_nodes, n_ranks, depth)]
            if not tokens:
                assert np.isnan(trees.expected_tokens[n_nodes, depth])
                continue
            assert trees.expected_tokens[n_nodes, depth] == pytest.approx(max(tokens), rel=1e-14)


def test_enumeration_is_complete():
    assert [len(_forests(n, 99, 99)) for n in range(7)] == [1, 1, 2, 5, 14, 42, 132]  # Catalan numbers
    assert len(_forests(6, 1, 1)) == 1


@pytest.mark.parametrize("name", TABLES)
def test_parents_yield_what_the_table_says(name: str):
    trees = search_trees(TABLES[name], max_nodes=20, max_depth=4)
    for n_nodes, depth in np.argwhere(~np.isnan(trees.expected_tokens)):
        shape = TreeShape(parents=trees.parents(int(n_nodes), int(depth)))  # raises unless parents come first
        assert shape.n_nodes == n_nodes
        assert shape.depth <= depth
        assert sibling_ranks(shape.parents).max(initial=-1) < trees.rank_acceptance.shape[1]
        tokens = expected_tree_tokens(shape.parents, TABLES[name])
        assert tokens == pytest.approx(trees.expected_tokens[n_nodes, depth], rel=1e-13)


def test_parents_come_level_by_level():
    shape = TreeShape(parents=search_trees([0.7, 0.5, 0.4], max_nodes=24, max_depth=6).parents(24))
    assert list(shape.parents) == sorted(shape.parents)


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_search_knows_which_sizes_fit(n_ranks: int):
    trees = search_trees([0.5] * n_ranks, max_nodes=45, max_depth=3)
    for depth in range(4):
        fits = np.flatnonzero(~np.isnan(trees.expected_tokens[:, depth]))
        assert fits.tolist() == list(range(tree_shape((n_ranks,) * depth).n_nodes + 1))


def _greedy(q: np.ndarray, n_nodes: int, max_depth: int) -> float:
    """Add the likeliest node that may be added next, over and over."""
    tokens, waiting = 1.0, [(-float(q[0]), 1.0, 1, 0)]  # −probability, that of its parent, depth, rank
    for _ in range(n_nodes):
        negative, before, depth, rank = heapq.heappop(waiting)
        tokens -= negative
        if rank + 1 < q.size:
            heapq.heappush(waiting, (-before * float(q[rank + 1]), before, depth, rank + 1))
        if depth < max_depth:
            heapq.heappush(waiting, (negative * float(q[0]), -negative, depth + 1, 0))
    return tokens


@pytest.mark.parametrize("seed", range(5))
def test_search_equals_the_greedy_choice_where_siblings_get_less_likely(seed: int):
    q = np.sort(np.random.default_rng(seed).dirichlet(np.ones(9))[:8])[::-1]
    ranks = q / (1.0 - np.concatenate([[0.0], np.cumsum(q)[:-1]]))
    assert sibling_acceptance(ranks) == pytest.approx(q, rel=1e-12)
    trees = search_trees(ranks, max_nodes=64, max_depth=10)
    greedy = [_greedy(q, n_nodes, 10) for n_nodes in range(65)]
    assert trees.expected_tokens[:, 10] == pytest.approx(greedy, rel=1e-12)


def test_greedy_choice_misses_a_likely_late_sibling():
    ranks = np.array([0.5, 0.02, 0.95])
    trees = search_trees(ranks, max_nodes=3, max_depth=3)
    assert trees.parents(3) == (-1, -1, -1)
    assert trees.expected_tokens[3, 3] > _greedy(sibling_acceptance(ranks), 3, 3) + 0.1


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8, 1.0])
def test_search_with_one_rank_is_a_chain(alpha: float):
    trees = search_trees([alpha], max_nodes=10, max_depth=10)
    for length in range(11):
        assert trees.expected_tokens[length, length] == pytest.approx(
            float(expected_tokens_per_round([alpha] * length)), rel=1e-14
        )
        assert trees.parents(length) == chain_shape(length).parents


def test_trees_go_on_gaining_where_chains_stop():
    """Sequoia's scaling: doubling the nodes keeps adding tokens, while a chain stays below 1 / (1 − α)."""
    ranks = power_law_rank_acceptance(0.6, 1.0, 32)
    tokens = search_trees(ranks, max_nodes=128, max_depth=24).expected_tokens[[8, 16, 32, 64, 128], 24]
    assert np.all(np.diff(tokens) > 0.4)
    assert expected_tokens_per_round([0.6] * 128) <= 2.5 + 1e-12 < tokens[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: search_trees([0.5], max_nodes=-1, max_depth=1), "max_nodes must be whole and at least 0"),
        (lambda: search_trees([0.5], max_nodes=1, max_depth=1.5), "max_depth must be whole"),
        (lambda: search_trees([[0.5]], max_nodes=1, max_depth=2), "ends at depth 1; got a tree of depth 2"),
        (lambda: search_trees([2.0], max_nodes=1, max_depth=1), r"must lie in \[0, 1\]"),
        (lambda: search_trees([0.5], max_nodes=3, max_depth=2).parents(3), "must fit into depth 2 with 1 ranks; got 3"),
        (lambda: search_trees([0.5], max_nodes=3, max_depth=2).parents(1, 0), "must fit into depth 0"),
        (lambda: search_trees([0.5], max_nodes=3, max_depth=2).parents(4), "searched up to 3 and 2; got 4 and 2"),
    ],
)
def test_search_refuses(call: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_search_of_nothing_is_no_tree():
    trees = search_trees([0.5], max_nodes=0, max_depth=0)
    assert trees.expected_tokens.tolist() == [[1.0]]
    assert best_tree(trees, [2.0], []) == BestTree(parents=(), expected_tokens=1.0, round_s=2.0, speedup=1.0)


def test_search_repeats_the_last_depth_if_said():
    known = search_trees([[0.5], [0.2], [0.2]], max_nodes=3, max_depth=3)
    repeated = search_trees([[0.5], [0.2]], max_nodes=3, max_depth=3, repeat_last_depth=True)
    assert repeated.expected_tokens[3, 3] == known.expected_tokens[3, 3]


VERIFY_S = 0.03 * np.maximum(1.0, np.arange(1, 18) / 6.0)


def test_best_tree_is_the_best_of_all_trees():
    table, draft_s = [0.6, 0.4, 0.3], 0.004
    best = best_tree(search_trees(table, max_nodes=6, max_depth=6), VERIFY_S[:7], draft_s)
    found = []
    for n_nodes in range(7):
        for parents in _all_trees(n_nodes, 3, 6):
            round_s = TreeShape(parents=tuple(parents)).depth * draft_s + VERIFY_S[n_nodes]
            found.append(expected_tree_tokens(parents, table) * VERIFY_S[0] / round_s)
    assert best.speedup == pytest.approx(max(found), rel=1e-14)
    assert best.round_s == pytest.approx(best.depth * draft_s + VERIFY_S[best.n_nodes], rel=1e-14)
    assert best.expected_tokens == pytest.approx(expected_tree_tokens(best.parents, table), rel=1e-14)


def test_best_tree_drafts_nothing_where_nothing_pays():
    trees = search_trees([0.6, 0.4], max_nodes=16, max_depth=5)
    assert best_tree(trees, np.arange(1.0, 18.0), 0.1).parents == ()
    assert best_tree(trees, VERIFY_S, 1.0) == BestTree(
        parents=(), expected_tokens=1.0, round_s=VERIFY_S[0], speedup=1.0
    )


def test_best_tree_sees_a_stair_in_the_verify_time():
    trees = search_trees([0.6, 0.4], max_nodes=8, max_depth=5)
    stairs = np.array([1.0, 1.0, 1.0, 1.0, 1.6, 1.6, 1.6, 1.6, 1.6])
    assert best_tree(trees, stairs, 0.01).n_nodes == 3


def test_tree_speedups_seconds_by_level():
    """A drafter that proposes all levels at once pays once."""
    trees = search_trees([0.6, 0.4], max_nodes=4, max_depth=3)
    once = tree_speedups(trees, np.ones(5), [0.1, 0.0, 0.0])
    assert once[3, 2] == pytest.approx(trees.expected_tokens[3, 2] / 1.1, rel=1e-15)
    each = tree_speedups(trees, np.ones(5), 0.1)
    assert each[3, 2] == pytest.approx(trees.expected_tokens[3, 2] / 1.2, rel=1e-15)
    assert np.isnan(each[4, 1])


def test_tree_speedups_cells_are_those_of_each_cell():
    trees = search_trees([0.6, 0.4], max_nodes=4, max_depth=3)
    verify = np.random.default_rng(0).uniform(1.0, 2.0, (5, 2, 5))
    draft = np.random.default_rng(1).uniform(0.0, 0.3, (2, 3))
    whole = tree_speedups(trees, verify, draft)
    assert whole.shape == (5, 2, 5, 4)
    np.testing.assert_array_equal(whole[3, 1], tree_speedups(trees, verify[3, 1], draft[1]))
    assert np.all(whole[..., 0, 0] == 1.0)


@pytest.mark.parametrize(
    ("verify_s", "draft_pass_s", "message"),
    [
        ([1.0], 0.1, r"verify_s needs 3 entries, one a number of nodes; got \(1,\)"),
        (1.0, 0.1, r"verify_s needs 3 entries"),
        ([1.0, 0.0, 1.0], 0.1, "verify_s must be greater than 0"),
        ([1.0] * 3, -0.1, "draft_pass_s must not be negative"),
        ([1.0] * 3, [0.1] * 3, r"draft_pass_s needs 1 or 2 entries, one a level; got \(3,\)"),
        (np.ones((2, 3)), 0.1, r"must be of one cell; got shape \(2,\)"),
    ],
)
def test_best_tree_refuses(verify_s: object, draft_pass_s: object, message: str):
    with pytest.raises(ValueError, match=message):
        best_tree(search_trees([0.5], max_nodes=2, max_depth=2), verify_s, draft_pass_s)  # type: ignore[arg-type]


def _profile(ranks: list[float | None] | None, **fields: object) -> AcceptanceProfile:
    tree = TreeYield(depth_acceptance=[0.8, 0.5, 0.3], rank_acceptance=ranks, n_nodes=4)
    return AcceptanceProfile(evidence="rank", tree=tree, **fields)  # type: ignore[arg-type]


def _measurement(parents: list[int], cut: str | None = None) -> Measurement:
    return Measurement(
        engine="specbook", arithmetic="exact", blas={}, seed=0, n_prompts=1, max_new_tokens=8, n_new_tokens=8,
        parents=parents, cut=cut, weights_sha256={},
    )  # fmt: skip


def test_profile_rank_acceptance_ends_at_the_first_unknown():
    assert profile_rank_acceptance(_profile([0.6, None, 0.3])).tolist() == [0.6]


@pytest.mark.parametrize("ranks", [None, [], [None, 0.5]])
def test_profile_without_ranks_is_refused(ranks: list[float | None] | None):
    with pytest.raises(BadInput, match=r"^tree\.rank_acceptance = .*; measure one with a tree.*$"):
        profile_rank_acceptance(_profile(ranks))


def test_profile_of_a_chain_is_refused():
    with pytest.raises(BadInput, match=r"tree\.rank_acceptance = None"):
        tree_candidates(AcceptanceProfile(evidence="mean_length", mean_acceptance_length=2.0))


def test_tree_candidates_are_the_best_trees_and_name_what_they_assume():
    found = tree_candidates(_profile([0.6, 0.4]), n_nodes=(8, 2))
    trees = search_trees([0.6, 0.4], max_nodes=8, max_depth=3)
    assert [tree.n_nodes for tree in found] == [2, 8]
    assert [tree.expected_tokens for tree in found] == [trees.expected_tokens[n, 3] for n in (2, 8)]
    assert found[1].assumption == "rank acceptance of a tree of 4 nodes, alike at every depth"
    assert (found[1].verify_width, found[1].token_interval) == (9, None)


def test_tree_candidates_deeper_than_seen_say_so():
    deep = tree_candidates(_profile([0.6, 0.4]), n_nodes=[8], max_depth=8)[0]
    assert deep.assumption.endswith("beyond the depth of 3 that was seen")
    assert deep.depth > 3


def test_tree_candidates_that_do_not_fit_are_the_largest_once():
    found = tree_candidates(_profile([0.6, None]))
    assert [(tree.n_nodes, tree.parents) for tree in found] == [(3, (-1, 0, 1))]


def test_tree_candidates_carry_an_interval_of_ranks():
    interval = [[0.55, 0.65], [0.3, 0.5]]
    tree = tree_candidates(_profile([0.6, 0.4]), n_nodes=[6], rank_interval=interval)[0]
    ends = [expected_tree_tokens(tree.parents, end) for end in np.transpose(interval)]
    assert tree.token_interval == tuple(ends)
    assert ends[0] < tree.expected_tokens < ends[1]


@pytest.mark.parametrize("interval", [[[0.5, 0.7]], [[0.61, 0.7], [0.3, 0.5]], [[0.5, 1.7], [0.3, 0.5]]])
def test_tree_candidates_bad_interval_is_refused(interval: list[list[float]]):
    with pytest.raises(ValueError, match="rank_interval"):
        tree_candidates(_profile([0.6, 0.4]), rank_interval=interval)


def test_tree_candidates_without_depth_need_one():
    profile = AcceptanceProfile(evidence="rank", tree=TreeYield(depth_acceptance=[], rank_acceptance=[0.6, 0.5]))
    with pytest.raises(BadInput, match=r"tree\.depth_acceptance = \[\]: .*; pass max_depth"):
        tree_candidates(profile)
    assert "another tree" in tree_candidates(profile, n_nodes=[2], max_depth=2)[0].assumption


def test_trees_that_were_not_filled_are_refused():
    profile = _profile([0.6, 0.4], n_rounds=10, n_drafted_tokens=20)
    with pytest.raises(BadInput, match=r"n_drafted_tokens = 20: rounds drafted 2\.0 of 4 nodes on average; use a dr"):
        tree_candidates(profile)
    assert tree_candidates(_profile([0.6, 0.4], n_rounds=10, n_drafted_tokens=39))


def test_measured_tree_is_measured():
    profile = _profile([0.6, 0.4], mean_acceptance_length=2.5, measurement=_measurement([-1, -1, 0, 2]))
    tree = measured_tree(profile)
    assert (tree.parents, tree.depth, tree.assumption) == ((-1, -1, 0, 2), 3, "measured")
    assert tree.expected_tokens == 2.5


@pytest.mark.parametrize("cut", [None, "entropy:1"])
def test_measured_tree_needs_its_shape(cut: str | None):
    measurement = None if cut is None else _measurement([-1, -1], cut)
    with pytest.raises(BadInput, match=r"measurement\.parents: this profile does not say which tree was drafted"):
        measured_tree(_profile([0.6], mean_acceptance_length=1.5, measurement=measurement))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expected_tokens": 2.1}, r"expected_tokens must lie in \[1, 2\]; got 2\.1"),
        ({"token_interval": (1.6, 1.4)}, "token_interval must rise"),
        ({"parents": (0,)}, "parents must be -1 or an earlier node"),
    ],
)
def test_tree_candidate_refuses(fields: dict[str, object], message: str):
    values = {"parents": (-1,), "expected_tokens": 1.5, "assumption": "measured"} | fields
    with pytest.raises(ValueError, match=message):
        TreeCandidate(**values)  # type: ignore[arg-type]
