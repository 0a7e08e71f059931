"""Yields of trees: values by hand, chains as the special case, and every refusal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from specbook.acceptance.trees import (
    accepted_depth_distribution,
    assumed_rank_acceptance,
    depth_acceptance,
    expected_tree_tokens,
    node_acceptance,
    power_law_rank_acceptance,
    rank_table,
    sibling_acceptance,
    sibling_ranks,
)
from specbook.acceptance.yields import expected_tokens_per_round, marginal_from_conditional, tokens_distribution
from specbook.engine.draft import chain_shape, ranked_shape, tree_shape

OF_TREES = [node_acceptance, expected_tree_tokens, depth_acceptance, accepted_depth_distribution]
# Two children; the first has two, the second one.
PARENTS = (-1, -1, 0, 0, 1)


def test_sibling_ranks_count_children_of_one_parent():
    assert sibling_ranks(PARENTS).tolist() == [0, 1, 0, 1, 0]
    assert sibling_ranks([]).size == 0


def test_sibling_acceptance_is_first_success_in_turn():
    assert sibling_acceptance([0.5, 0.2, 0.1]) == pytest.approx([0.5, 0.1, 0.04], rel=1e-15)
    assert sibling_acceptance([1.0, 0.9]).tolist() == [1.0, 0.0]
    assert sibling_acceptance(np.full((2, 3, 4), 0.5)).shape == (2, 3, 4)


def test_node_acceptance_by_hand():
    first, second = 0.6, 0.4 * 0.3
    expected = [first, second, first * first, first * second, second * first]
    assert node_acceptance(PARENTS, [0.6, 0.3]) == pytest.approx(expected, rel=1e-15)


def test_node_acceptance_by_depth_by_hand():
    table = [[0.6, 0.3], [0.5, 0.2]]
    expected = [0.6, 0.12, 0.6 * 0.5, 0.6 * 0.5 * 0.2, 0.12 * 0.5]
    assert node_acceptance(PARENTS, table) == pytest.approx(expected, rel=1e-15)
    assert expected_tree_tokens(PARENTS, table) == pytest.approx(1.0 + sum(expected), rel=1e-15)
    assert depth_acceptance(PARENTS, table) == pytest.approx([0.72, 0.42], rel=1e-15)
    assert accepted_depth_distribution(PARENTS, table) == pytest.approx([0.28, 0.30, 0.42], rel=1e-14)


def test_node_acceptance_does_not_need_siblings_side_by_side():
    """The second child of the last token stands behind the first one's own child."""
    assert node_acceptance([-1, 0, -1], [0.6, 0.3]) == pytest.approx([0.6, 0.36, 0.12], rel=1e-15)


@pytest.mark.parametrize("conditional", [[0.8], [0.8, 0.6, 0.4], [1.0, 0.0, 1.0], [0.7] * 10])
def test_chain_is_the_chain_formula(conditional: list[float]):
    parents, table = chain_shape(len(conditional)).parents, np.asarray(conditional)[:, None]
    tokens = float(expected_tokens_per_round(conditional))
    assert expected_tree_tokens(parents, table) == pytest.approx(tokens, rel=1e-15)
    assert depth_acceptance(parents, table) == pytest.approx(marginal_from_conditional(conditional), rel=1e-15)
    assert accepted_depth_distribution(parents, table) == pytest.approx(tokens_distribution(conditional), abs=1e-15)


def test_no_tree_yields_the_bonus_token():
    assert expected_tree_tokens([], [0.5]) == expected_tokens_per_round([]) == 1.0
    assert depth_acceptance([], [0.5]).shape == (0,)
    assert accepted_depth_distribution([], [0.5]).tolist() == [1.0]


def test_all_accepted_follows_the_first_children():
    parents = tree_shape((3, 2, 1)).parents
    assert expected_tree_tokens(parents, [1.0, 1.0, 1.0]) == 4.0
    assert expected_tree_tokens(parents, [0.0, 0.0, 0.0]) == 1.0


def test_medusa_paths_and_parents_agree():
    shape = ranked_shape([(0,), (1,), (0, 0), (0, 1), (1, 0)])
    assert shape.parents == PARENTS


@pytest.mark.parametrize("function", OF_TREES)
@pytest.mark.parametrize(
    ("parents", "ranks", "message"),
    [
        ([0], [0.5], r"parents must be -1 or an earlier node; node 0 has 0"),
        ([-1, -2], [0.5], r"node 1 has -2"),
        ([-1], 0.5, r"rank_acceptance must be \(n_ranks,\) or \(n_depths, n_ranks\); got shape \(\)"),
        ([-1], [1.5], r"rank_acceptance must lie in \[0, 1\]; got 1\.5"),
        ([-1], [np.nan], r"rank_acceptance must lie in \[0, 1\]; got nan"),
        ([-1], [], r"rank_acceptance must be \(n_ranks,\) or \(n_depths, n_ranks\); got shape \(0,\)"),
        ([-1], np.ones((1, 1, 1)), r"got shape \(1, 1, 1\)"),
        ([-1, -1], [0.5], r"rank_acceptance knows 1 ranks; got a tree with 2"),
        ([-1, 0], [[0.5]], r"rank_acceptance ends at depth 1; got a tree of depth 2"),
    ],
)
def test_trees_bad_argument_is_refused(
    function: Callable[..., object], parents: list[int], ranks: object, message: str
):
    with pytest.raises(ValueError, match=message):
        function(parents, ranks)


def test_last_depth_is_repeated_only_if_said():
    repeated = node_acceptance([-1, 0, 1], [[0.5], [0.2]], repeat_last_depth=True)
    assert repeated == pytest.approx([0.5, 0.1, 0.02], rel=1e-15)
    assert rank_table([[0.5], [0.2]], 1).tolist() == [[0.5]]


def test_assumed_rank_acceptance_bounds_the_tree():
    parents, conditional = tree_shape((2, 2)).parents, [0.8, 0.6]
    lowest = expected_tree_tokens(parents, assumed_rank_acceptance(conditional, 2, "first_rank_only"))
    highest = expected_tree_tokens(parents, assumed_rank_acceptance(conditional, 2, "every_rank_alike"))
    assert lowest == pytest.approx(float(expected_tokens_per_round(conditional)), rel=1e-15)
    assert highest == pytest.approx(1.0 + 0.96 * (1.0 + 0.84), rel=1e-15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.8, 2, "first_rank_only"), "needs a draft axis"),
        (([[0.8]], 2, "first_rank_only"), "must be a vector"),
        (([0.8], 0, "first_rank_only"), "n_ranks must be whole and at least 1"),
        (([0.8], 2, "alike"), "assumption must be first_rank_only or every_rank_alike; got 'alike'"),
    ],
)
def test_assumed_rank_acceptance_refuses(arguments: tuple[object, ...], message: str):
    with pytest.raises(ValueError, match=message):
        assumed_rank_acceptance(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 3.0])
def test_power_law_rejections_fall_as_said(exponent: float):
    ranks = power_law_rank_acceptance(0.6, exponent, 6)
    assert np.cumprod(1.0 - ranks) == pytest.approx(0.4 * np.arange(1, 7) ** -exponent, rel=1e-12)


@pytest.mark.parametrize(("first", "exponent"), [(1.2, 1.0), (0.5, -1.0), (0.5, np.nan)])
def test_power_law_refuses(first: float, exponent: float):
    with pytest.raises(ValueError, match=r"(first_acceptance|exponent) must"):
        power_law_rank_acceptance(first, exponent, 3)
