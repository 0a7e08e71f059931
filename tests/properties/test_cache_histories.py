"""Whatever was drafted, committed and rolled back: a cache holds the bytes of one that read the final text alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbook.engine.draft import TreeShape
from specbook.engine.layout import ancestry
from tests.tiny_models import chain_logits, tiny_transformer, tree_logits

MODELS = {name: tiny_transformer(name, n_layers=1, n_embedding=8, n_feed_forward=6) for name in ("exact", "ref64")}
CAPACITY = 64

tokens_of = st.lists(st.integers(0, 18), min_size=1, max_size=5)
appended = st.tuples(st.just("append"), tokens_of)
rolled_back = st.tuples(st.just("rollback"), st.integers(0, 9))
drafted = st.tuples(st.just("draft"), st.integers(0, 2**32 - 1))


def _random_tree(seed: int) -> tuple[list[int], list[int], list[int]]:
    """Tokens of a root and its nodes, their parents, and an accepted path as rows of the pass."""
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(-1, node)) if node else -1 for node in range(rng.integers(0, 7))]
    tokens = rng.integers(0, 19, len(parents) + 1).tolist()
    leaf = int(rng.integers(-1, len(parents)))
    path = [] if leaf < 0 else np.flatnonzero(ancestry(parents)[leaf]).tolist()
    return tokens, list(TreeShape(parents=tuple(parents)).parents), [0, *(node + 1 for node in path)]


@pytest.mark.parametrize("name", MODELS)
@given(history=st.lists(st.one_of(appended, rolled_back, drafted), min_size=1, max_size=7))
def test_any_history_leaves_the_bytes_of_the_final_text(name: str, history: list[tuple[str, object]]):
    model = MODELS[name]
    cache, text = model.new_cache(CAPACITY), [7]
    model.prefill(text, cache)
    for kind, what in history:
        if kind == "rollback":
            del text[max(1, len(text) - what) :]
            cache.rollback(len(text))
        elif kind == "append":
            text += what
            model.prefill(what, cache)
        else:
            tokens, parents, rows = _random_tree(what)
            tree_logits(model, tokens, parents, cache)
            cache.commit([rows])
            text += [tokens[row] for row in rows]
    alone = model.new_cache(CAPACITY)
    model.prefill(text, alone)
    assert [part.tobytes() for part in cache.committed()] == [part.tobytes() for part in alone.committed()]
    assert np.array_equal(chain_logits(model, [3], cache), chain_logits(model, [3], alone))
