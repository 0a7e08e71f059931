"""Positions and masks of chains, trees and ragged batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.engine.layout import ancestry, causal_mask, chain_positions, depths, ragged_rows, rooted, tree_rows
from tests.tiny_models import tiny_transformer

CACHE_OF_TWO = tiny_transformer().new_cache(capacity=16, n_sequences=2)


@st.composite
def parent_lists(draw: st.DrawFn, most: int = 12) -> list[int]:
    """Any tree, as a parent for each node."""
    return [draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, most)))]


def _path(parents: list[int], node: int) -> list[int]:
    return [] if node < 0 else [*_path(parents, parents[node]), node]


@given(parent_lists())
def test_ancestry_any_tree_is_each_nodes_path(parents: list[int]):
    assert [np.flatnonzero(row).tolist() for row in ancestry(parents)] == [
        _path(parents, n) for n in range(len(parents))
    ]


@given(parent_lists())
def test_depths_any_tree_are_the_lengths_of_paths(parents: list[int]):
    assert depths(parents).tolist() == [len(_path(parents, node)) for node in range(len(parents))]


@given(parent_lists(), st.integers(0, 50))
def test_tree_rows_any_tree_stand_behind_the_root_by_depth(parents: list[int], length: int):
    positions, mask = tree_rows(length, parents)
    assert positions.tolist() == [[length, *(length + depths(parents)).tolist()]]
    assert mask[0, :, 0].all()
    assert np.array_equal(mask[0, 1:, 1:], ancestry(parents))


def test_tree_rows_chain_is_the_causal_mask():
    positions, mask = tree_rows(7, [-1, 0, 1])
    assert positions.tolist() == [[7, 8, 9, 10]]
    assert np.array_equal(mask[0], causal_mask(0, 4))


@pytest.mark.parametrize("parents", [[0], [-2], [-1, 2], [-1, 1]])
def test_ancestry_parent_that_is_no_earlier_node_is_refused(parents: list[int]):
    with pytest.raises(ValueError, match=r"^parents must be -1 or an earlier node; node \d has -?\d$"):
        ancestry(parents)


def test_rooted_empty_tree_is_the_root():
    assert rooted([]) == [-1]


def test_causal_mask_without_pending_rows_is_a_triangle():
    assert np.array_equal(causal_mask(0, 4), np.tri(4, dtype=bool))


def test_chain_positions_sequences_of_different_length_begin_where_each_ends():
    cache = tiny_transformer().new_cache(capacity=16, n_sequences=2)
    cache.lengths[:], cache.n_pending[:] = [3, 0], [1, 2]
    assert chain_positions(cache, 2).tolist() == [[4, 5], [2, 3]]


def test_ragged_rows_padding_does_not_see_itself():
    _, mask = ragged_rows(CACHE_OF_TWO, [3, 1])
    assert mask.diagonal(axis1=1, axis2=2).tolist() == [[True, True, True], [True, False, False]]
    assert np.array_equal(mask[0], causal_mask(0, 3))
