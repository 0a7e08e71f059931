"""Trees and dynamic draft lengths: bounds, monotonicity, dominance."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from specbook.acceptance.dynamic import DynamicDraft, dynamic_from_probabilities, dynamic_from_replay
from specbook.acceptance.dynamic_cost import best_cut, dynamic_round_seconds, dynamic_speedup
from specbook.acceptance.tree_search import best_tree, search_trees, tree_speedups
from specbook.acceptance.trees import (
    accepted_depth_distribution,
    depth_acceptance,
    expected_tree_tokens,
    node_acceptance,
    sibling_acceptance,
)
from specbook.engine.draft import TreeShape

ROUNDING = 1e-12
PROBABILITY = st.floats(0.0, 1.0)
RANKS = hnp.arrays(np.float64, st.integers(1, 4), elements=PROBABILITY)
TABLES = hnp.arrays(np.float64, st.tuples(st.just(5), st.integers(1, 4)), elements=PROBABILITY)
SECONDS = st.floats(1e-3, 10.0)


@st.composite
def trees(draw: st.DrawFn, n_ranks: int, max_depth: int = 5, max_nodes: int = 12) -> tuple[int, ...]:
    """Any tree of a few nodes: each picks its parent among those that have room."""
    parents: list[int] = []
    depth, children = {-1: 0}, {-1: 0}
    for node in range(draw(st.integers(0, max_nodes))):
        free = [earlier for earlier in children if children[earlier] < n_ranks and depth[earlier] < max_depth]
        if not free:
            break
        parent = draw(st.sampled_from(free))
        parents.append(parent)
        children[parent] += 1
        depth[node], children[node] = depth[parent] + 1, 0
    return tuple(parents)


@st.composite
def trees_and_tables(draw: st.DrawFn) -> tuple[tuple[int, ...], np.ndarray]:
    table = draw(TABLES)
    return draw(trees(table.shape[1])), table


@given(RANKS)
def test_siblings_exclude_each_other(ranks: np.ndarray):
    accepted = sibling_acceptance(ranks)
    assert np.all(accepted >= 0.0)
    assert np.isclose(accepted.sum(), 1.0 - np.prod(1.0 - ranks), atol=ROUNDING)


@given(trees_and_tables())
def test_yield_of_a_tree_lies_between_one_and_its_depth(case: tuple[tuple[int, ...], np.ndarray]):
    parents, table = case
    tokens, reached = expected_tree_tokens(parents, table), depth_acceptance(parents, table)
    assert 1.0 <= tokens <= TreeShape(parents=parents).depth + 1.0 + ROUNDING
    assert np.all(np.diff(reached, prepend=1.0) <= ROUNDING)
    assert np.isclose(tokens, 1.0 + reached.sum(), atol=ROUNDING)


@given(trees_and_tables())
def test_accepted_depth_is_a_law_with_the_expected_mean(case: tuple[tuple[int, ...], np.ndarray]):
    parents, table = case
    law = accepted_depth_distribution(parents, table)
    assert np.all(law >= -ROUNDING)
    assert np.isclose(law.sum(), 1.0, atol=ROUNDING)
    assert np.isclose(1.0 + law @ np.arange(law.size), expected_tree_tokens(parents, table), atol=ROUNDING)


@given(trees_and_tables())
def test_children_are_accepted_no_more_often_than_their_parent(case: tuple[tuple[int, ...], np.ndarray]):
    parents, table = case
    accepted = node_acceptance(parents, table)
    below = np.zeros(len(parents) + 1)
    np.add.at(below, np.asarray(parents, dtype=int), accepted)
    assert np.all(below <= np.append(accepted, 1.0) + ROUNDING)


@given(trees_and_tables())
def test_a_leaf_more_never_yields_less(case: tuple[tuple[int, ...], np.ndarray]):
    parents, table = case
    before = [expected_tree_tokens(parents[:count], table) for count in range(len(parents) + 1)]
    assert np.all(np.diff(before) >= -ROUNDING)


@given(trees_and_tables())
def test_no_tree_beats_the_best_of_its_size(case: tuple[tuple[int, ...], np.ndarray]):
    parents, table = case
    best = search_trees(table, max_nodes=12, max_depth=5)
    depth = TreeShape(parents=parents).depth
    assert best.expected_tokens[len(parents), depth] >= expected_tree_tokens(parents, table) - ROUNDING


@given(TABLES)
def test_best_trees_gain_with_nodes_and_depth_and_keep_their_word(table: np.ndarray):
    best = search_trees(table, max_nodes=9, max_depth=5)
    for axis in (0, 1):
        gain = np.diff(best.expected_tokens, axis=axis)
        assert np.all(gain[~np.isnan(gain)] >= -ROUNDING)
    for n_nodes, depth in np.argwhere(~np.isnan(best.expected_tokens)):
        parents = best.parents(int(n_nodes), int(depth))
        assert len(parents) == n_nodes
        assert TreeShape(parents=parents).depth <= depth
        assert np.isclose(expected_tree_tokens(parents, table), best.expected_tokens[n_nodes, depth], atol=ROUNDING)


@given(RANKS, hnp.arrays(np.float64, 7, elements=SECONDS), st.floats(0.0, 1.0))
def test_best_tree_is_never_slower_than_no_draft_or_any_chain(ranks: np.ndarray, verify_s: np.ndarray, draft_s: float):
    best = search_trees(ranks, max_nodes=6, max_depth=6)
    found = best_tree(best, verify_s, draft_s)
    chains = search_trees(ranks[:1], max_nodes=6, max_depth=6)
    assert found.speedup >= 1.0
    assert found.speedup >= np.nanmax(tree_speedups(chains, verify_s, draft_s)) * (1.0 - ROUNDING)


@st.composite
def replays(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    length = draw(st.integers(1, 5))
    n_rounds = draw(st.integers(1, 12))
    confidence = draw(hnp.arrays(np.float64, (n_rounds, length), elements=PROBABILITY))
    accepted = draw(hnp.arrays(np.int64, n_rounds, elements=st.integers(0, length)))
    return confidence, accepted


@st.composite
def rising_seconds(draw: st.DrawFn, length: int) -> np.ndarray:
    return np.cumsum(draw(hnp.arrays(np.float64, length, elements=SECONDS)))


@given(replays(), st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=6))
def test_cutting_more_never_yields_or_spends_more(case: tuple[np.ndarray, np.ndarray], limits: list[float]):
    drafts = dynamic_from_replay(*case, sorted(limits))
    for name in ("expected_tokens", "expected_drafted_tokens", "expected_draft_passes"):
        assert np.all(np.diff([getattr(draft, name) for draft in drafts]) <= ROUNDING)
    assert drafts[0].expected_tokens <= 1.0 + case[1].mean() + ROUNDING


def _oracle(accepted: np.ndarray, length: int) -> DynamicDraft:
    """Drafts just what will be accepted, and at most ``length``: the confidence is 1 there and 0 behind."""
    kept = np.minimum(accepted, length)
    return dynamic_from_replay((np.arange(length) < kept[:, None]).astype(float), kept, 0.5)[0]


@given(replays(), st.data())
def test_oracle_is_never_slower_than_the_fixed_length_it_is_capped_at(
    case: tuple[np.ndarray, np.ndarray], data: st.DataObject
):
    confidence, accepted = case
    length = data.draw(st.integers(1, confidence.shape[1]))
    verify_s, draft_s = data.draw(rising_seconds(length + 1)), data.draw(st.floats(0.0, 10.0))
    (fixed,) = dynamic_from_replay(confidence[:, :length], np.minimum(accepted, length), -np.inf)
    oracle = _oracle(accepted, length)
    assert np.isclose(oracle.expected_tokens, fixed.expected_tokens, atol=ROUNDING)
    assert dynamic_speedup(oracle, verify_s, draft_s) >= dynamic_speedup(fixed, verify_s, draft_s) * (1.0 - ROUNDING)


@given(replays(), st.floats(0.0, 1.0), st.data())
def test_best_cut_is_never_slower_than_uncut_or_no_draft(
    case: tuple[np.ndarray, np.ndarray], draft_s: float, data: st.DataObject
):
    drafts = dynamic_from_replay(*case, [-np.inf, *np.unique(case[0])])
    verify_s = data.draw(rising_seconds(case[0].shape[1] + 1))
    found = best_cut(drafts, verify_s, draft_s)
    assert found.speedup >= 1.0
    assert found.speedup >= dynamic_speedup(drafts[0], verify_s, draft_s)


@given(replays(), PROBABILITY, st.integers(1, 16), st.data())
def test_a_batch_drafts_no_less_than_one_sequence_and_no_more_than_the_limit(
    case: tuple[np.ndarray, np.ndarray], limit: float, batch: int, data: st.DataObject
):
    (draft,) = dynamic_from_replay(*case, limit)
    flat, draft_s = np.ones(draft.max_draft_length + 1), data.draw(st.floats(0.0, 1.0))
    seconds = dynamic_round_seconds(draft, flat, draft_s, batch)
    assert seconds >= dynamic_round_seconds(draft, flat, draft_s) - ROUNDING
    assert seconds <= 1.0 + draft.max_draft_length * draft_s + ROUNDING


@given(hnp.arrays(np.float64, (2, 4), elements=PROBABILITY), st.integers(0, 3))
def test_going_on_more_often_never_yields_or_spends_less(probability: np.ndarray, position: int):
    going, accepted = probability
    assume(going[position] < 1.0)
    raised = going.copy()
    raised[position] = 1.0
    less, more = dynamic_from_probabilities(going, accepted), dynamic_from_probabilities(raised, accepted)
    assert more.expected_tokens >= less.expected_tokens - ROUNDING
    assert more.expected_draft_passes >= less.expected_draft_passes - ROUNDING
