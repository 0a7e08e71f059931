"""Laws of rounds: their means, their edges, and what is no law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.acceptance.yields import expected_tokens_per_round
from specbook.serving.chances import Chances
from specbook.serving.round_law import RoundLaw, chain_law, counted_law, no_draft, tree_law


def draws(law: RoundLaw, n: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    return law.outcomes(np.random.default_rng(0).random(n))


@pytest.mark.parametrize("conditional", [[0.5], [0.9, 0.8, 0.7], [0.3, 1.0, 0.0, 0.5]])
def test_chain_yields_what_the_formula_says(conditional: list[float]):
    law = chain_law(conditional)
    assert law.expected_tokens == pytest.approx(float(expected_tokens_per_round(conditional)), rel=1e-15)
    drafted, accepted = draws(law)
    error = accepted.std(ddof=1) / accepted.size**0.5
    assert abs(1.0 + accepted.mean() - law.expected_tokens) < 4.0 * error
    assert set(drafted) == {len(conditional)}
    assert (law.positions, law.is_fixed) == (len(conditional) + 1, True)


def test_certain_chains_leave_nothing_to_luck():
    edges = np.array([0.0, 0.5, np.nextafter(1.0, 0.0)])
    assert chain_law([1.0, 1.0]).outcomes(edges)[1].tolist() == [2, 2, 2]
    assert chain_law([0.0, 1.0]).outcomes(edges)[1].tolist() == [0, 0, 0]


def test_chain_of_nothing_is_no_draft():
    for law in (chain_law([]), no_draft()):
        assert (law.draft_length, law.n_nodes, law.positions, law.expected_tokens) == (0, 0, 1, 1.0)
        assert [each.tolist() for each in law.outcomes(np.array([0.0, 0.9]))] == [[0, 0], [0, 0]]


def test_tree_drafts_more_than_it_may_accept():
    law = tree_law([0.2, 0.3, 0.5], 5)
    assert (law.draft_length, law.n_nodes, law.positions) == (2, 5, 6)
    drafted, accepted = draws(law)
    assert set(drafted) == {5}
    counts = np.bincount(accepted, minlength=3) / accepted.size
    assert np.all(np.abs(counts - [0.2, 0.3, 0.5]) < 4.0 * 0.5 / accepted.size**0.5)


def test_counted_law_keeps_drafted_and_accepted_together():
    table = {0: [3], 1: [2, 4], 3: [1, 2, 3, 4]}
    law = counted_law(table)
    assert (law.draft_length, law.n_nodes, law.is_fixed) == (3, 3, False)
    drafted, accepted = draws(law)
    for length, row in table.items():
        for count, n in enumerate(row):
            share = np.mean((drafted == length) & (accepted == count))
            assert abs(share - n / 19) < 4.0 * 0.5 / drafted.size**0.5
    assert counted_law({2: [1, 1, 2], 4: [0, 0, 0, 0, 0]}).draft_length == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"probability": (0.5, 0.4)}, "probability must sum to 1; got 0.9"),
        ({"probability": (1.5, -0.5)}, "probability must"),
        ({"accepted": (0, 3)}, "accepted must rise, with accepted ≤ drafted ≤ n_nodes"),
        ({"accepted": (1, 0)}, "accepted must rise"),
        ({"drafted": (2, 3)}, "accepted must rise, with accepted ≤ drafted ≤ n_nodes"),
        ({"drafted": (2,)}, "outcomes differ in number: 1, 2 and 2"),
        ({"draft_length": 1}, "draft_length must lie between what is accepted and n_nodes; got 1"),
    ],
)
def test_what_is_no_law_is_refused(changes: dict[str, Any], error: str):
    good: dict[str, Any] = {"draft_length": 2, "n_nodes": 2, "drafted": (2, 2), "accepted": (0, 2)}
    assert RoundLaw(probability=(0.5, 0.5), **good).expected_tokens == 2.0
    with pytest.raises(ValueError, match=error):
        RoundLaw(**({"probability": (0.5, 0.5)} | good | changes))


def test_counted_law_needs_a_round():
    with pytest.raises(ValueError, match="must hold at least one round"):
        counted_law({2: [0, 0, 0]})


def test_chances_are_a_stream_for_each_request():
    chances = Chances(np.random.default_rng(0))
    whole = chances.of(3, 0, 50)
    assert [float(chances.of(3, number, 1)[0]) for number in range(50)] == whole.tolist()
    assert chances.of(3, 13, 20).tolist() == whole[13:33].tolist()
    others = np.array([chances.of(number, 0, 50) for number in range(200)])
    assert len(np.unique(others)) == others.size
    assert abs(np.corrcoef(others[:-1].ravel(), others[1:].ravel())[0, 1]) < 4.0 / others.size**0.5
    assert Chances(np.random.default_rng(0)).of(3, 0, 50).tolist() == whole.tolist()
    assert Chances(np.random.default_rng(1)).of(3, 0, 50).tolist() != whole.tolist()
