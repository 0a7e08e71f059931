"""The committed traces: what they are, and that the engine makes them again."""

from __future__ import annotations

import polars as pl
import pytest

from specbook.measuring.traces import KEYS, N_PROMPTS, Cell, book_profile, book_traces, cells, trace

AGAIN = [
    Cell(drafter="small", branching=(1, 1, 1, 1), domain="code", temperature=1.0),
    Cell(drafter="eagle", branching=(3, 2, 1, 1), domain="chat", temperature=0.0),
    Cell(drafter="early_exit", branching=(1, 1, 1, 1), domain="mathematics", temperature=0.0),
    Cell(drafter="medusa", branching=(1, 1, 1, 1), domain="summarisation", temperature=1.0),
    Cell(drafter="lookahead", branching=(1, 1, 1), domain="chat", temperature=0.0),
]


def _stored(cell: Cell) -> pl.DataFrame:
    values = (cell.drafter, cell.shape_name, cell.domain, cell.temperature)
    return book_traces().filter(*(pl.col(name) == value for name, value in zip(KEYS, values, strict=True)))


def test_traces_hold_every_cell_and_nothing_else() -> None:
    found = set(book_traces().select(KEYS).unique().rows())
    assert found == {(cell.drafter, cell.shape_name, cell.domain, cell.temperature) for cell in cells()}
    for cell in cells():
        assert _stored(cell)["prompt"].n_unique() == N_PROMPTS


@pytest.mark.parametrize("cell", AGAIN, ids=lambda cell: f"{cell.drafter}-{cell.shape_name}-{cell.domain}")
def test_traces_are_made_again_token_by_token(cell: Cell) -> None:
    again, stored = trace(cell, n_prompts=2), _stored(cell)
    same = ["prompt", "round", "drafted", "depth", "accepted", "emitted", "tried", "kept", "tokens", "finish"]
    prompts = again["prompt"].unique(maintain_order=True)
    assert again.select(same).rows() == stored.filter(pl.col("prompt").is_in(prompts.implode())).select(same).rows()


def test_greedy_text_is_the_same_whatever_drafts() -> None:
    greedy = book_traces().filter(temperature=0.0)
    texts = greedy.group_by([*KEYS, "prompt"], maintain_order=True).agg(pl.col("tokens").explode())
    assert texts.group_by("domain", "prompt").agg(pl.col("tokens").n_unique())["tokens"].to_list() == [1] * 160


def test_first_position_is_the_lowest_of_the_small_model_on_mathematics() -> None:
    profile = book_profile("small", "chain 8", "mathematics", 0.0)
    assert profile.conditional_acceptance is not None
    assert profile.conditional_acceptance[0] == min(value for value in profile.conditional_acceptance if value)


def test_unknown_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="no cell of the traces"):
        book_profile("small", "chain 3", "code", 0.0)
