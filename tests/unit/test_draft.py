"""Shapes of drafts: chains, trees level by level, trees from ranks, and what is left of them below a depth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.engine.draft import Draft, TreeShape, chain_shape, ranked_shape, tree_shape

branchings = st.lists(st.integers(1, 3), max_size=4)


@st.composite
def shapes(draw: st.DrawFn) -> TreeShape:
    """Any tree of up to ten nodes."""
    return TreeShape(parents=tuple(draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, 10)))))


@pytest.mark.parametrize("draft_length", [0, 1, 2, 8])
def test_chain_shape_is_a_chain_of_that_depth(draft_length: int):
    shape = chain_shape(draft_length)
    assert (shape.n_nodes, shape.depth, shape.is_chain) == (draft_length, draft_length, True)


@given(branchings)
def test_tree_shape_any_branching_gives_each_level_its_children(branching: list[int]):
    shape = tree_shape(branching)
    level = [-1]
    for width in branching:
        assert {len(shape.children(node)) for node in level} == {width}
        level = [child for node in level for child in shape.children(node)]
    assert shape.depth == len(branching)
    assert not any(shape.children(node) for node in level if node >= 0)
    assert shape.is_chain == all(width == 1 for width in branching)


@given(shapes(), st.integers(-1, 6))
def test_cut_any_tree_keeps_exactly_the_nodes_above(shape: TreeShape, depth: int):
    levels = [1 + _depth_of(shape, node) for node in range(shape.n_nodes)]
    kept = shape.cut(depth)
    assert kept.n_nodes == sum(level <= depth for level in levels)
    assert kept.depth == max([level for level in levels if level <= depth], default=0)


def _depth_of(shape: TreeShape, node: int) -> int:
    parent = shape.parents[node]
    return 0 if parent < 0 else 1 + _depth_of(shape, parent)


def test_cut_renumbers_parents_that_stay():
    assert TreeShape(parents=(-1, 0, 1, -1, 3, 4)).cut(2).parents == (-1, 0, -1, 2)


@pytest.mark.parametrize("parents", [(0,), (-1, 1), (-2,), (-1, 5)])
def test_shape_parent_that_is_no_earlier_node_is_refused(parents: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"^parents must be -1 or an earlier node; "):
        TreeShape(parents=parents)


@pytest.mark.parametrize("draft_length", [-1, 1.5, float("nan")])
def test_chain_shape_impossible_length_is_refused(draft_length: float):
    with pytest.raises(ValueError, match=r"^draft_length must be "):
        chain_shape(draft_length)


@pytest.mark.parametrize("branching", [[0], [2, -1], [1.5]])
def test_tree_shape_impossible_branching_is_refused(branching: list[float]):
    with pytest.raises(ValueError, match=r"^branching must be whole and at least 1; got "):
        tree_shape(branching)


def test_ranked_shape_paths_by_rank_are_their_tree():
    assert ranked_shape([(0,), (0, 0), (1,), (0, 1), (1, 0), (0, 0, 0)]).parents == (-1, 0, -1, 0, 2, 1)


@pytest.mark.parametrize("ranks", [[(1,)], [(0, 0)], [(0,), (0,)], [(0,), (0, 1)], [()], [(0,), (2,)]])
def test_ranked_shape_path_before_its_parent_or_sibling_is_refused(ranks: list[tuple[int, ...]]):
    with pytest.raises(ValueError, match=r"^paths must come once, after their parent and the sibling before; got \("):
        ranked_shape(ranks)


@given(shapes())
def test_draft_of_any_shape_agrees_with_the_shape(shape: TreeShape):
    draft = Draft()
    for node, parent in enumerate(shape.parents):
        assert draft.add(node, parent, None) == node
    assert (draft.n_nodes, draft.depth, draft.is_chain) == (shape.n_nodes, shape.depth, shape.is_chain)
    assert draft.children() == {node: shape.children(node) for node in range(-1, shape.n_nodes) if shape.children(node)}
