"""Trees and dynamic draft lengths against simulation, and trees against the rounds that the engine recorded.

Sources: Miao et al. 2024 (SpecInfer) and Chen et al. 2024 (Sequoia) for siblings tried in turn; renewal theory for
rates over many rounds. Simulations agree inside intervals of four and a half standard errors.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from specbook.acceptance.dynamic import (
    DynamicDraft,
    dynamic_from_counts,
    dynamic_from_probabilities,
    dynamic_from_replay,
)
from specbook.acceptance.dynamic_cost import batch_pass_probability, dynamic_speedup
from specbook.acceptance.intervals import percentile_interval, resampled_sums
from specbook.acceptance.tree_search import search_trees
from specbook.acceptance.trees import (
    accepted_depth_distribution,
    assumed_rank_acceptance,
    depth_acceptance,
    expected_tree_tokens,
    node_acceptance,
    sibling_ranks,
)
from specbook.engine.chance import Dice
from specbook.engine.draft import Draft, TreeShape, tree_shape
from specbook.engine.layout import depths
from specbook.engine.sampling import draw_distinct
from specbook.engine.verification import verify
from specbook.measuring.profiles import without_tokens_behind_a_stop
from specbook.measuring.traces import KEYS, book_profile, book_traces

N_ROUNDS = 100_000
STANDARD_ERRORS = 4.5


def _inside(sample: np.ndarray, expected: float | np.ndarray) -> bool:
    """Whether means over the first axis agree; one that hardly varies must be met to rounding."""
    error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
    return bool(np.all(np.abs(sample.mean(axis=0) - expected) <= STANDARD_ERRORS * error + 1e-7))


def _accepted(parents: tuple[int, ...], table: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which nodes were accepted, (N_ROUNDS, n_nodes): a sibling is tried once those before it were rejected."""
    accepted = np.zeros((N_ROUNDS, len(parents)), bool)
    open_at = {-1: np.ones(N_ROUNDS, bool)}  # rounds that stand at a node and accepted none of its children so far
    for node, (parent, depth, rank) in enumerate(zip(parents, depths(parents), sibling_ranks(parents), strict=True)):
        accepted[:, node] = open_at[parent] & (rng.random(N_ROUNDS) < table[depth - 1, rank])
        open_at[parent] = open_at[parent] & ~accepted[:, node]
        open_at[node] = accepted[:, node]
    return accepted


@pytest.mark.parametrize(
    ("parents", "seed"),
    [
        (tree_shape((3, 2, 1, 1)).parents, 1),
        ((-1, 0, -1, 0, 2, 1, -1, 4), 2),  # siblings far apart
        (search_trees([0.2, 0.5, 0.6], max_nodes=20, max_depth=4).parents(20), 3),
    ],
)
def test_simulated_trees_yield_as_computed(parents: tuple[int, ...], seed: int):
    rng = np.random.default_rng(seed)
    table = rng.uniform(0.1, 0.9, (4, 3))
    accepted = _accepted(parents, table, rng)
    assert _inside(accepted.astype(float), node_acceptance(parents, table))
    assert _inside(1.0 + accepted.sum(axis=1), expected_tree_tokens(parents, table))
    reached = np.arange(1, TreeShape(parents=parents).depth + 1) <= accepted.sum(axis=1)[:, None]
    assert _inside(reached.astype(float), depth_acceptance(parents, table))
    law = accepted.sum(axis=1)[:, None] == np.arange(TreeShape(parents=parents).depth + 1)
    assert _inside(law.astype(float), accepted_depth_distribution(parents, table))


def _verified(parents: tuple[int, ...], n_rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Accepted tokens, and tries and acceptances by rank, of rounds of the engine's own rule with fixed p and q."""
    rng = np.random.default_rng(seed)
    target, draft_law = np.array([0.35, 0.3, 0.2, 0.1, 0.05]), np.array([0.5, 0.15, 0.05, 0.2, 0.1])
    chance, shape = Dice(rng), TreeShape(parents=parents)
    accepted, tried, kept = np.zeros(n_rounds), np.zeros((n_rounds, 3)), np.zeros((n_rounds, 3))
    for index in range(n_rounds):
        draft, place = Draft(), {-1: -1}
        for node in range(-1, shape.n_nodes):
            children = shape.children(node)
            drawn = draw_distinct(draft_law, len(children), chance) if children else []
            for child, (token, drawn_from) in zip(children, drawn, strict=True):
                place[child] = draft.add(token, place[node], drawn_from)
        verdict = verify(draft, [target] * (1 + draft.n_nodes), chance)
        accepted[index] = len(verdict.path)
        tried[index, : len(verdict.tried)], kept[index, : len(verdict.kept)] = verdict.tried, verdict.kept
    return accepted, tried, kept


def test_engine_rule_on_one_law_yields_as_its_ranks_say():
    """Ranks counted on a star of three siblings predict a tree, where every node has the same p and q."""
    _, tried, kept = _verified((-1, -1, -1), 6_000, 4)
    parents = tree_shape((3, 2)).parents
    accepted, _, _ = _verified(parents, 6_000, 5)
    rng = np.random.default_rng(6)
    sums = resampled_sums(np.hstack([tried, kept]), 200, rng)
    predicted = np.array([expected_tree_tokens(parents, row[3:] / row[:3]) for row in sums])
    expected = expected_tree_tokens(parents, kept.sum(axis=0) / tried.sum(axis=0))
    error = np.hypot(predicted.std(ddof=1), accepted.std(ddof=1) / np.sqrt(accepted.size))
    assert abs(1.0 + accepted.mean() - expected) <= STANDARD_ERRORS * error


TREE = tree_shape((3, 2, 1, 1)).parents
CELLS = book_traces().filter(pl.col("shape") == "tree 3,2,1,1").select(KEYS).unique(maintain_order=True).rows()


def _sums(cell: tuple[object, ...]) -> np.ndarray:
    """Rounds, accepted tokens, tries and acceptances by rank of each prompt, (n_prompts, 8)."""
    labels = zip(KEYS, cell, strict=True)
    frame = without_tokens_behind_a_stop(book_traces().filter(*(pl.col(name) == value for name, value in labels)))
    by_rank = [
        pl.col(name).list.get(rank, null_on_oob=True).fill_null(0).sum().alias(f"{name} {rank}")
        for name in ("tried", "kept")
        for rank in range(3)
    ]
    grouped = frame.group_by("prompt", maintain_order=True).agg(
        pl.len().alias("rounds"), pl.col("accepted").sum(), *by_rank
    )
    return grouped.drop("prompt").to_numpy().astype(float)


def _predicted(sums: np.ndarray) -> np.ndarray:
    rows = np.atleast_2d(sums)
    return np.array([expected_tree_tokens(TREE, row[5:] / row[2:5]) for row in rows])


def _measured(sums: np.ndarray) -> np.ndarray:
    rows = np.atleast_2d(sums)
    return 1.0 + rows[:, 1] / rows[:, 0]


def test_recorded_trees_yield_what_their_ranks_predict_to_two_percent():
    """One acceptance for each rank, pooled over depths, loses little: what the page on trees says of these rounds."""
    errors = [
        float((_predicted(total) / _measured(total))[0] - 1.0) for total in (_sums(cell).sum(0) for cell in CELLS)
    ]
    assert len(errors) == 16
    assert np.abs(errors).max() < 0.02
    assert np.abs(errors).mean() < 0.01


def test_recorded_trees_show_that_paths_are_not_alike():
    """Drawn again by prompt, the difference is not chance in every cell: pooling ranks is an assumption."""
    apart = 0
    for cell in CELLS:
        sums = resampled_sums(_sums(cell), 500, np.random.default_rng(7))
        low, high = percentile_interval(_predicted(sums) / _measured(sums) - 1.0, n_prompts=40)
        apart += not low <= 0.0 <= high
    assert 1 <= apart <= 6


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_recorded_trees_of_other_prompts_are_predicted(cell: tuple[object, ...]):
    """Ranks of every second prompt predict the tokens of the others, inside an interval of both halves."""
    sums, rng = _sums(cell), np.random.default_rng(8)
    seen, others = sums[::2], sums[1::2]
    difference = float((_predicted(seen.sum(0)) - _measured(others.sum(0)))[0])
    replicates = _predicted(resampled_sums(seen, 500, rng)) - _measured(resampled_sums(others, 500, rng))
    assert abs(difference) <= STANDARD_ERRORS * replicates.std(ddof=1)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: "-".join(map(str, cell)))
def test_recorded_trees_lie_between_what_a_chain_allows(cell: tuple[str, str, str, float]):
    drafter, shape, domain, temperature = cell
    chain = book_profile(drafter, "chain 4", domain, temperature).conditional_acceptance
    tokens = book_profile(drafter, shape, domain, temperature).mean_acceptance_length
    lowest, highest = (
        expected_tree_tokens(TREE, assumed_rank_acceptance(chain, 3, assumption))  # type: ignore[arg-type]
        for assumption in ("first_rank_only", "every_rank_alike")
    )
    assert tokens is not None
    assert lowest + 0.3 < tokens < highest - 0.4


VERIFY_S, DRAFT_S, LENGTH = np.array([1.0, 1.02, 1.05, 1.1, 1.3, 1.6]), 0.08, 5


def _rounds(n_rounds: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidence by position and accepted tokens of uncut rounds: each position is accepted as often as it is sure."""
    ease = rng.beta(3.0, 1.0, (n_rounds, 1))  # a round is easy or hard as a whole
    confidence = np.clip(ease + rng.normal(0.0, 0.15, (n_rounds, LENGTH)), 0.0, 1.0)
    accepted = np.cumprod(rng.random((n_rounds, LENGTH)) < confidence, axis=1).sum(axis=1)
    return confidence, accepted


@pytest.mark.parametrize("threshold", [-np.inf, 0.5, 0.8, np.inf])
def test_replayed_cut_is_what_rounds_with_the_cut_do(threshold: float):
    """Where rounds do not depend on one another, a replay of an uncut run predicts tokens, widths, passes and speed."""
    (predicted,) = dynamic_from_replay(*_rounds(N_ROUNDS, np.random.default_rng(9)), threshold)
    confidence, uncut = _rounds(N_ROUNDS, np.random.default_rng(10))
    drafted = np.cumprod(confidence >= threshold, axis=1).sum(axis=1)
    accepted, passes = np.minimum(uncut, drafted), np.minimum(drafted + 1, LENGTH)
    seconds = VERIFY_S[drafted] + DRAFT_S * passes
    both = np.sqrt(2.0) * STANDARD_ERRORS  # two samples of one size
    for sample, expected in (
        (1.0 + accepted, predicted.expected_tokens),
        (drafted, predicted.expected_drafted_tokens),
        (passes, predicted.expected_draft_passes),
    ):
        error = sample.std(ddof=1) / np.sqrt(N_ROUNDS)
        assert abs(sample.mean() - expected) <= both * error + 1e-12
    speedup = (1.0 + accepted).sum() * VERIFY_S[0] / seconds.sum()
    error = np.std((1.0 + accepted) * VERIFY_S[0] - speedup * seconds, ddof=1) / seconds.mean() / np.sqrt(N_ROUNDS)
    assert abs(dynamic_speedup(predicted, VERIFY_S, DRAFT_S) - speedup) <= both * error + 1e-12


def _simulated_stops(
    going: np.ndarray, accepted: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    drafted = np.cumprod(rng.random((N_ROUNDS, going.size)) < going, axis=1).sum(axis=1)
    kept = np.cumprod(rng.random((N_ROUNDS, going.size)) < accepted, axis=1).sum(axis=1)
    return drafted, np.minimum(kept, drafted)


def test_simulated_stops_that_do_not_depend_on_acceptance_follow_the_probabilities():
    going, accepted = np.array([0.9, 0.7, 0.8, 0.6]), np.array([0.8, 0.9, 0.5, 0.7])
    drafted, kept = _simulated_stops(going, accepted, np.random.default_rng(11))
    expected = dynamic_from_probabilities(going, accepted)
    assert _inside(1.0 + kept, expected.expected_tokens)
    assert _inside((drafted[:, None] == np.arange(5)).astype(float), np.asarray(expected.drafted_probability))
    assert _inside(np.minimum(drafted + 1, 4).astype(float), expected.expected_draft_passes)


def _counts(drafted: np.ndarray, accepted: np.ndarray) -> dict[int, list[int]]:
    table = {length: [0] * (length + 1) for length in range(LENGTH + 1)}
    for length, kept in zip(drafted.tolist(), accepted.tolist(), strict=True):
        table[length][kept] += 1
    return table


@pytest.mark.parametrize("seed", range(5))
def test_drafters_that_are_sure_where_they_are_right_yield_more_than_independent_stops(seed: int):
    """What the probabilities alone miss: going on tells that earlier tokens will be accepted."""
    confidence, uncut = _rounds(N_ROUNDS, np.random.default_rng(seed))
    drafted = np.cumprod(confidence >= 0.6, axis=1).sum(axis=1)
    table = _counts(drafted, np.minimum(uncut, drafted))
    at_least = np.array([sum(sum(row) for d, row in table.items() if d >= i) for i in range(LENGTH + 1)])
    reached = [sum(sum(row[i - 1 :]) for d, row in table.items() if d >= i) for i in range(1, LENGTH + 1)]
    kept = [sum(sum(row[i:]) for row in table.values()) for i in range(1, LENGTH + 1)]
    alone = dynamic_from_probabilities(at_least[1:] / at_least[:-1], np.array(kept) / reached)
    assert dynamic_from_counts(table, LENGTH).expected_tokens > alone.expected_tokens


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_simulated_batches_draft_until_the_last_sequence_is_cut(batch: int):
    law = (0.3, 0.3, 0.25, 0.1, 0.05)
    draft = DynamicDraft(expected_tokens=1.5, drafted_probability=law)
    drafted = np.random.default_rng(13).choice(5, size=(20_000, batch), p=law)
    passes = np.minimum(drafted + 1, 4).max(axis=1)
    spent = (passes[:, None] >= np.arange(1, 5)).astype(float)
    assert _inside(spent, batch_pass_probability(draft, batch))
