"""Chains, trees and cuts as the drafts of one grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbook.acceptance.candidates import DraftCandidates
from specbook.acceptance.choices import drafts_of
from specbook.acceptance.dynamic import DynamicDraft
from specbook.acceptance.profile import AcceptanceProfile, Measurement, TreeYield, profile_from_counts
from specbook.checks import BadInput
from specbook.roofline.frontier import break_even, bypass_region
from specbook.roofline.grid import drafting_pair, example_grid, project
from specbook.roofline.speedup import round_times

MEASUREMENT = Measurement(
    engine="specbook 0.1.0",
    arithmetic="exact",
    blas={"library": "openblas"},
    seed=0,
    n_prompts=4,
    max_new_tokens=64,
    n_new_tokens=256,
    parents=[-1, 0, 1],
    weights_sha256={},
)
TREE = AcceptanceProfile(
    evidence="rank",
    method="eagle",
    tree=TreeYield(depth_acceptance=[0.85, 0.7, 0.55], rank_acceptance=[0.6, 0.4, 0.3]),
)
CUT = profile_from_counts({0: [10], 1: [4, 6], 2: [2, 3, 5], 3: [3, 7, 10, 50]}).model_copy(
    update={"measurement": MEASUREMENT.model_copy(update={"cut": "entropy:1.5"})}
)


def test_chains_are_as_they_were():
    chain = profile_from_counts({2: [2, 4, 4]}, draft_length=2)
    drafts = drafts_of([chain])
    assert (drafts.draft_lengths, drafts.n_nodes, drafts.dynamic) == ((0, 2), None, None)


def test_tree_gives_the_best_tree_of_each_size():
    drafts = drafts_of([TREE], tree_nodes=(1, 3, 8, 32))
    assert drafts.drafted_tokens == (0, 1, 3, 8, 32)
    assert max(drafts.draft_lengths) == 3
    assert list(drafts.expected_tokens) == sorted(drafts.expected_tokens)
    assert drafts.expected_tokens[1] == pytest.approx(1.6)


def test_tree_verifies_its_nodes_and_drafts_its_depth():
    drafts = drafts_of([TREE], tree_nodes=(8, 64))
    grid = replace(example_grid(), candidates=drafts, method="eagle", draft=None)
    pair = drafting_pair(grid)
    for row in project(grid).filter(tree_nodes=8).iter_rows(named=True):
        at = (float(row["draft_length"]), 8.0, float(row["batch"]), float(row["context"]), row["expected_tokens"])
        each = round_times(*at, pair)
        assert row["verify_s"] == pytest.approx(pair.target(9.0, at[2], at[3]).item(), rel=1e-12)
        assert row["speedup"] == pytest.approx(each.speedup.item(), rel=1e-12)


def test_trees_have_break_even_and_bypass():
    drafts = drafts_of([TREE], tree_nodes=(8, 64))
    grid = replace(example_grid(), candidates=drafts, method="eagle", draft=None)
    assert break_even(grid, max_batch=16)["best_draft_length_at_batch_1"].to_list() == [3, 3]
    assert set(bypass_region(grid)["best_draft_length"]) <= {0, 2, 3}


def test_cut_counts_its_own_passes_and_width():
    drafts = drafts_of([CUT])
    assert drafts.draft_lengths == (0, 3)
    drafted = (10 * 1 + 10 * 2 + 70 * 3) / 100
    assert drafts.verified_drafts[1] == pytest.approx(drafted)
    passes = drafts.draft_passes([1, 4, 10**6])
    assert passes[0].tolist() == [0.0, 0.0, 0.0]
    assert passes[1, 0] == pytest.approx((10 * 1 + 10 * 2 + 80 * 3) / 100)
    assert passes[1, 0] < passes[1, 1] < passes[1, 2] <= 3.0
    assert drafts.assumptions[1] == "measured, cut entropy:1.5"


def test_cut_that_never_cuts_is_a_chain():
    whole = DynamicDraft(expected_tokens=2.5, drafted_probability=(0.0, 0.0, 0.0, 1.0))
    common = {"draft_lengths": (0, 3), "expected_tokens": (1.0, 2.5), "assumptions": ("measured",) * 2}
    chain, cut = DraftCandidates(**common), DraftCandidates(**common, dynamic=(None, whole))
    tables = [project(replace(example_grid(), candidates=each)) for each in (chain, cut)]
    for name in ("draft_s", "verify_s", "speedup"):
        np.testing.assert_allclose(tables[0][name].to_numpy(), tables[1][name].to_numpy(), rtol=1e-12)


def test_chain_tree_and_cut_of_one_drafter_are_drafts_of_one_grid():
    chain = profile_from_counts({2: [2, 4, 4]}, draft_length=2, method="eagle")
    drafts = drafts_of([TREE, CUT, chain], tree_nodes=(2, 8))
    shapes = list(zip(drafts.draft_lengths, drafts.drafted_tokens, drafts.assumptions, strict=True))
    assert shapes[0] == (0, 0, "measured")
    assert (2, 2, "measured") in shapes  # the chain's, where the tree of two nodes has the same shape
    assert (3, 3, "measured, cut entropy:1.5") in shapes
    assert any(n_nodes == 8 for _, n_nodes, _ in shapes)
    assert drafts.dynamic is not None
    grid = replace(example_grid(), candidates=drafts, method="eagle", draft=None)
    assert project(grid).height == len(shapes) * 4


def test_tree_of_which_nothing_was_accepted_is_refused():
    never = TREE.model_copy(update={"tree": TREE.tree.model_copy(update={"rank_acceptance": [0.0, 0.0]})})
    with pytest.raises(BadInput, match="no draft token was ever accepted"):
        drafts_of([never])


def test_lookahead_costs_no_trees():
    drafts = drafts_of([TREE], tree_nodes=(8,))
    with pytest.raises(BadInput, match="drafts runs, no trees"):
        replace(example_grid(), candidates=drafts, method="lookahead", draft=None)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"n_nodes": (0, 1, 1)}, "at least the depth"),
        ({"n_nodes": (0, 4)}, "at least the depth"),
        ({"draft_lengths": (0, 2, 2), "n_nodes": (0, 4, 4)}, "each shape once"),
        ({"draft_lengths": (0, 2, 2)}, "must rise from 0"),
        ({"token_intervals": (None,)}, "as long as"),
        ({"dynamic": (None,)}, "as long as"),
    ],
)
def test_impossible_drafts_are_refused(changes: dict[str, object], problem: str):
    base = DraftCandidates(draft_lengths=(0, 1, 2), expected_tokens=(1.0, 1.5, 1.9), assumptions=("measured",) * 3)
    with pytest.raises(ValueError, match=problem):
        replace(base, **changes)
