"""Attention by row and as a block, against the formula, and blind to what a mask hides."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine.attention import attend_as_block, attend_by_row, softmax_in_place
from specbook.engine.layout import ancestry, causal_mask
from tests.tiny_models import Array

N_HEADS, N_KV_HEADS, HEAD_SIZE = 6, 2, 8
LENGTH, CAPACITY = 9, 32
TREE = ancestry([-1, 0, 0, 2, 1])
MASKS = {
    "chain": causal_mask(0, 5),
    "tree": TREE,
    "behind pending rows": causal_mask(3, 2),
    "one row": causal_mask(0, 1),
}
WAYS = [attend_by_row, attend_as_block]


def _operands(n_rows: int, dtype: type = np.float64) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(n_rows, N_HEADS, HEAD_SIZE))
    keys = rng.normal(size=(N_KV_HEADS, HEAD_SIZE, CAPACITY))
    values = rng.normal(size=(N_KV_HEADS, CAPACITY, HEAD_SIZE))
    return queries.astype(dtype), keys.astype(dtype), values.astype(dtype)


def _formula(queries: Array, keys: Array, values: Array, length: int, mask: Array) -> Array:
    """Row by row and head by head, over the tokens that a row sees."""
    mixed = np.empty((len(queries), N_HEADS, HEAD_SIZE))
    for row in range(len(queries)):
        seen = [*range(length), *(length + np.flatnonzero(mask[row]))]
        for head in range(N_HEADS):
            group = head // (N_HEADS // N_KV_HEADS)
            weights = np.exp([queries[row, head] @ keys[group, :, slot] for slot in seen])
            mixed[row, head] = weights @ values[group, seen] / weights.sum()
    return mixed.reshape(len(queries), -1)


@pytest.mark.parametrize("attend", WAYS)
@pytest.mark.parametrize("length", [0, LENGTH])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_attention_equals_the_formula(attend, length: int, mask: Array):
    operands = _operands(len(mask))
    assert attend(*operands, length, mask) == pytest.approx(_formula(*operands, length, mask), abs=1e-13)


@pytest.mark.parametrize("attend", WAYS)
def test_attention_large_scores_do_not_overflow(attend):
    queries, keys, values = _operands(5, np.float32)
    assert np.isfinite(attend(queries * 1e4, keys, values, LENGTH, TREE)).all()


@pytest.mark.parametrize("length", [0, 1, LENGTH])
@pytest.mark.parametrize("node", range(5))
def test_attention_by_row_of_a_node_is_bit_equal_to_its_path_as_a_chain(node: int, length: int):
    queries, keys, values = _operands(5, np.float32)
    path = np.flatnonzero(TREE[node])
    slots = [*range(length), *(length + path)]
    chain_keys, chain_values = np.zeros_like(keys), np.zeros_like(values)
    chain_keys[..., : len(slots)], chain_values[:, : len(slots)] = keys[..., slots], values[:, slots]
    as_chain = attend_by_row(queries[path], chain_keys, chain_values, length, causal_mask(0, len(path)))
    assert np.array_equal(attend_by_row(queries, keys, values, length, TREE)[node], as_chain[-1])


def test_attention_by_row_does_not_touch_hidden_rows():
    queries, keys, values = _operands(5)
    keys[..., LENGTH + 1], values[:, LENGTH + 1] = np.nan, np.nan
    blind = ~TREE[:, 1]
    found = attend_by_row(queries, keys, values, LENGTH, TREE)
    assert np.isfinite(found[blind]).all()
    assert np.isnan(found[~blind]).all()


@pytest.mark.parametrize("attend", WAYS)
def test_attention_does_not_touch_what_lies_behind_the_new_rows(attend):
    queries, keys, values = _operands(5)
    keys[..., LENGTH + 5 :], values[:, LENGTH + 5 :] = np.nan, np.nan
    assert np.isfinite(attend(queries, keys, values, LENGTH, TREE)).all()


def test_softmax_sums_to_one_and_works_in_place():
    scores = np.array([[1.0, 2.0], [-1e30, 0.0]])
    assert softmax_in_place(scores) is scores
    assert scores.sum(axis=1).tolist() == [1.0, 1.0]
    assert scores[1].tolist() == [0.0, 1.0]
