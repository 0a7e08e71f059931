"""The cache: what commit keeps and where, rollback, and refusals that change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine.kv_cache import KVCache
from tests.tiny_models import filled_cache, tiny_spec, tiny_transformer

MODEL = tiny_transformer()


def _state(cache: KVCache) -> tuple[bytes, bytes, list[int], list[int]]:
    return cache.keys.tobytes(), cache.values.tobytes(), cache.lengths.tolist(), cache.n_pending.tolist()


def _pending(length: int, n_rows: int, n_sequences: int = 1) -> KVCache:
    cache = filled_cache(MODEL, length, 16, n_sequences)
    cache.reserve(np.full(n_sequences, n_rows))
    return cache


@pytest.mark.parametrize("kept", [[], [0], [0, 1, 2], [0, 2], [1, 3], [3], [0, 1, 3]])
def test_commit_path_moves_its_rows_behind_the_committed_ones(kept: list[int]):
    cache = _pending(5, 4)
    slots = [*range(5), *(5 + row for row in kept)]
    keys, values = cache.keys[:, 0][..., slots].copy(), cache.values[:, 0][:, :, slots].copy()
    cache.commit([kept])
    found = cache.committed()
    assert np.array_equal(found[0], keys)
    assert np.array_equal(found[1], values)
    assert (cache.lengths.tolist(), cache.n_pending.tolist()) == ([5 + len(kept)], [0])


def test_commit_each_sequence_keeps_its_own_rows():
    cache = _pending(5, 3, n_sequences=2)
    second = cache.values[:, 1, :, [5, 7]].copy()
    cache.commit([[0, 1, 2], [0, 2]])
    assert cache.lengths.tolist() == [8, 7]
    assert np.array_equal(cache.values[:, 1, :, [5, 6]], second)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ([[0], [4]], r"kept rows must rise within the 4 pending ones; got \[4\]"),
        ([[0], [-1]], r"kept rows must rise within the 4 pending ones; got \[-1\]"),
        ([[0], [1, 1]], r"kept rows must rise within the 4 pending ones; got \[1, 1\]"),
        ([[0, 2], [2, 1]], r"kept rows must rise within the 4 pending ones; got \[2, 1\]"),
        ([[0]], r"kept must hold 2 lists of rows; got 1"),
    ],
)
def test_commit_rows_that_are_not_pending_is_refused_and_changes_nothing(kept: list[list[int]], message: str):
    cache = _pending(5, 4, n_sequences=2)
    before = _state(cache)
    with pytest.raises(ValueError, match=rf"^{message}$"):
        cache.commit(kept)
    assert _state(cache) == before


def test_reserve_beyond_the_capacity_is_refused_and_changes_nothing():
    cache = _pending(5, 4, n_sequences=2)
    before = _state(cache)
    with pytest.raises(ValueError, match=r"^cache of 16 tokens holds 9 and has no room for 8 more$"):
        cache.reserve(np.array([1, 8]))
    assert _state(cache) == before


def test_reserve_last_slot_is_given():
    assert _pending(5, 4).reserve(np.array([7])).tolist() == [9]


def test_commit_all_and_drop_pending_keep_all_and_none():
    kept, dropped = _pending(5, 4), _pending(5, 4)
    kept.commit_all()
    dropped.drop_pending()
    assert (kept.lengths.tolist(), dropped.lengths.tolist()) == ([9], [5])
    assert kept.n_pending.tolist() == dropped.n_pending.tolist() == [0]


def test_rollback_one_length_for_all_forgets_what_is_pending():
    cache = _pending(5, 4, n_sequences=2)
    cache.rollback(2)
    assert (cache.lengths.tolist(), cache.n_pending.tolist()) == ([2, 2], [0, 0])


@pytest.mark.parametrize("lengths", [6, -1, [5, 6], 1.5, np.nan])
def test_rollback_to_more_than_is_committed_is_refused_and_changes_nothing(lengths: object):
    cache = _pending(5, 4, n_sequences=2)
    before = _state(cache)
    with pytest.raises(ValueError, match=r"^lengths must "):
        cache.rollback(lengths)
    assert _state(cache) == before


def test_rollback_does_not_follow_the_array_it_was_given():
    cache, lengths = _pending(5, 0), np.array([3])
    cache.rollback(lengths)
    lengths[0] = 1
    assert cache.lengths.tolist() == [3]


def test_committed_is_a_copy():
    cache = _pending(5, 0)
    keys, values = cache.committed()
    keys[:], values[:] = 0.0, 0.0
    assert cache.committed()[0].all()


def test_cache_bytes_follow_from_its_shape():
    spec = tiny_spec()
    n_values = 2 * spec.n_layers * 3 * spec.n_kv_heads * 16 * spec.head_size
    assert KVCache(spec, 16, 3).n_bytes == 4 * n_values
    assert KVCache(spec, 16, 3, np.float64).n_bytes == 8 * n_values


@pytest.mark.parametrize("sizes", [(0, 1), (4, 0), (1.5, 1)])
def test_cache_of_impossible_size_is_refused(sizes: tuple[int, int]):
    with pytest.raises(ValueError, match=r"must be whole and at least 1"):
        KVCache(tiny_spec(), *sizes)
