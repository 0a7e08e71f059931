"""The model against formulas written out here, and its rows against each other: bit-equal whatever they came with."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from specbook.engine.layout import causal_mask, chain_positions, ragged_rows, tree_rows
from specbook.engine.library import load_target
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec
from tests.tiny_models import (
    Array,
    chain_logits,
    copied,
    filled_cache,
    random_tensors,
    step_logits,
    tiny_spec,
    tiny_transformer,
    tree_logits,
)

TARGET = cache(load_target)
BIT_EXACT = ["exact", "ref64"]
CONTEXTS = [1, 2, 63, 64, 500, 2000]
PARENTS = [-1, -1, 0, 0, 1, 3]
TREE_TOKENS = [5, 1, 2, 3, 4, 6, 7]


def _norm(rows: Array, weight: Array, epsilon: float) -> Array:
    return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon) * weight


def _turned(heads: Array, theta: float) -> Array:
    """Rotary positions as a product of complex numbers, (n_tokens, n_heads, head_size)."""
    n_tokens, _, size = heads.shape
    half = size // 2
    angles = np.arange(n_tokens)[:, None] * theta ** (-2.0 * np.arange(half) / size)
    turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * angles)[:, None]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _attended(spec: TransformerSpec, product: Array) -> Array:
    """All heads of all rows, with the whole matrix of weights, (n_tokens, n_heads * head_size)."""
    n_tokens, size = len(product), spec.head_size
    heads = product.reshape(n_tokens, -1, size)
    queries, keys, values = np.split(heads, [spec.n_heads, spec.n_heads + spec.n_kv_heads], axis=1)
    queries, keys = _turned(queries, spec.rope_theta), _turned(keys, spec.rope_theta)
    mixed = []
    for head in range(spec.n_heads):
        shared = head * spec.n_kv_heads // spec.n_heads
        scores = queries[:, head] @ keys[:, shared].T / np.sqrt(size)
        weights = np.exp(np.where(np.tri(n_tokens, dtype=bool), scores, -np.inf))
        mixed.append(weights / weights.sum(axis=1, keepdims=True) @ values[:, shared])
    return np.concatenate(mixed, axis=1)


def reference_logits(spec: TransformerSpec, tensors: dict[str, Array], tokens: list[int]) -> Array:
    """Logits of a whole text in float64, no cache, (n_tokens, n_vocab)."""
    t = {name: values.astype(np.float64) for name, values in tensors.items()}
    rows = t["embedding"][tokens]
    for layer in (f"layers.{index}." for index in range(spec.n_layers)):
        normed = _norm(rows, t[layer + "attention_norm"], spec.norm_epsilon)
        rows = rows + _attended(spec, normed @ t[layer + "query_key_value"].T) @ t[layer + "attention_output"].T
        normed = _norm(rows, t[layer + "feed_forward_norm"], spec.norm_epsilon)
        gate, up = np.split(normed @ t[layer + "gate_up"].T, 2, axis=1)
        rows = rows + (gate / (1.0 + np.exp(-gate)) * up) @ t[layer + "down"].T
    return _norm(rows, t["final_norm"], spec.norm_epsilon) @ t.get("head", t["embedding"]).T


@pytest.mark.parametrize(("name", "bound"), [("ref64", 1e-6), ("exact", 1e-4), ("fast", 1e-4), ("naive", 1e-4)])
@pytest.mark.parametrize("untied", [False, True], ids=["tied", "untied"])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_logits_equal_the_formulas(name: str, bound: float, untied: bool, n_kv_heads: int):
    spec = tiny_spec(n_kv_heads=n_kv_heads)
    tensors = random_tensors(spec, seed=3, untied=untied)
    tokens = np.random.default_rng(4).integers(0, spec.n_vocab, 40).tolist()
    model = Transformer(spec, tensors, name)
    found = chain_logits(model, tokens, model.new_cache(40))
    wanted = reference_logits(spec, tensors, tokens)
    assert found.dtype == np.float32
    assert np.abs(wanted).max() > 3.0
    assert np.abs(found - wanted).max() < bound


@pytest.mark.parametrize("name", BIT_EXACT)
@pytest.mark.parametrize("context", CONTEXTS)
def test_verify_of_one_to_twelve_tokens_is_bit_equal_to_single_steps(name: str, context: int):
    target = TARGET(name)
    tokens = np.random.default_rng(context).integers(0, target.n_vocab, 12).tolist()
    cache = filled_cache(target, context, context + 12)
    stepped = copied(target, cache)
    alone = step_logits(target, tokens, stepped)
    for width in range(1, 13):
        assert np.array_equal(chain_logits(target, tokens[:width], cache), alone[:width])
        cache.drop_pending()
    chain_logits(target, tokens, cache)
    cache.commit_all()
    assert [part.tobytes() for part in cache.committed()] == [part.tobytes() for part in stepped.committed()]


@pytest.mark.parametrize("name", BIT_EXACT)
@pytest.mark.parametrize(
    "changes",
    [
        {"n_kv_heads": 1},
        {"n_kv_heads": 6},
        {"n_embedding": 7, "n_feed_forward": 2050, "n_vocab": 5},
        {"head_size": 2, "n_heads": 1, "n_kv_heads": 1},
    ],
    ids=["one key head", "a key head each", "odd sizes", "one head"],
)
def test_verify_of_other_shapes_is_bit_equal_to_single_steps(name: str, changes: dict[str, int]):
    model = tiny_transformer(name, **changes)
    tokens = np.random.default_rng(0).integers(0, model.n_vocab, 12).tolist()
    for context in (0, 1, 17):
        cache = filled_cache(model, context, context + 12)
        alone = step_logits(model, tokens, copied(model, cache))
        for width in (1, 2, 5, 12):
            assert np.array_equal(chain_logits(model, tokens[:width], cache), alone[:width])
            cache.drop_pending()


@pytest.mark.parametrize("name", BIT_EXACT)
def test_prompt_in_pieces_is_bit_equal_to_the_whole(name: str):
    model = tiny_transformer(name)
    tokens = np.random.default_rng(0).integers(0, model.n_vocab, 30)
    whole, pieces = model.new_cache(30), model.new_cache(30)
    hidden = model.prefill(tokens, whole)
    parts = [model.prefill(part, pieces) for part in np.split(tokens, [1, 8, 21])]
    assert np.array_equal(np.concatenate(parts), hidden)
    assert [part.tobytes() for part in pieces.committed()] == [part.tobytes() for part in whole.committed()]


@pytest.mark.parametrize("name", BIT_EXACT)
def test_rows_behind_pending_rows_are_bit_equal_to_one_pass(name: str):
    model = tiny_transformer(name)
    cache, pending = filled_cache(model, 9, 20), filled_cache(model, 9, 20)
    whole = chain_logits(model, [1, 2, 3, 4], cache)
    parts = [chain_logits(model, part, pending) for part in ([1], [2, 3], [4])]
    assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("name", BIT_EXACT)
@pytest.mark.parametrize("context", [0, 1, 33])
def test_node_of_a_tree_is_bit_equal_to_its_path_as_a_chain(name: str, context: int):
    model = tiny_transformer(name)
    cache = filled_cache(model, context, 50)
    found = tree_logits(model, TREE_TOKENS, PARENTS, cache)
    cache.drop_pending()
    for node, path in enumerate([[1], [2], [1, 3], [1, 4], [2, 5], [1, 4, 6]]):
        as_chain = chain_logits(model, [TREE_TOKENS[row] for row in [0, *path]], cache)
        assert np.array_equal(found[node + 1], as_chain[-1])
        cache.drop_pending()


@pytest.mark.parametrize("name", ["fast", "naive"])
def test_node_of_a_tree_is_close_to_its_path_as_a_chain(name: str):
    model = tiny_transformer(name)
    cache = filled_cache(model, 33, 50)
    found = tree_logits(model, TREE_TOKENS, PARENTS, cache)
    cache.drop_pending()
    as_chain = chain_logits(model, [TREE_TOKENS[row] for row in [0, 1, 4, 6]], cache)
    assert np.abs(found[-1] - as_chain[-1]).max() < 1e-4


def test_committed_path_of_a_tree_is_bit_equal_to_a_cache_that_saw_it_alone():
    model = tiny_transformer()
    cache = filled_cache(model, 9, 30)
    alone = copied(model, cache)
    tree_logits(model, TREE_TOKENS, PARENTS, cache)
    cache.commit([[0, 1, 4, 6]])
    chain_logits(model, [5, 1, 4, 7], alone)
    alone.commit_all()
    assert [part.tobytes() for part in cache.committed()] == [part.tobytes() for part in alone.committed()]
    assert np.array_equal(chain_logits(model, [8], cache), chain_logits(model, [8], alone))


@pytest.mark.parametrize("node", range(6))
def test_other_token_at_a_node_changes_its_descendants_alone(node: int):
    model = tiny_transformer()
    cache = filled_cache(model, 9, 30)
    before = tree_logits(model, TREE_TOKENS, PARENTS, cache)
    cache.drop_pending()
    tokens = [(token + 9) if row == node + 1 else token for row, token in enumerate(TREE_TOKENS)]
    after = tree_logits(model, tokens, PARENTS, cache)
    changed = (before != after).any(axis=1)
    assert np.array_equal(changed, tree_rows(0, PARENTS)[1][0][:, node + 1])


@pytest.mark.parametrize("name", BIT_EXACT)
@pytest.mark.parametrize("widths", [[3, 1, 5], [0, 2, 4], [1, 1, 1]])
def test_sequences_side_by_side_are_bit_equal_to_each_alone(name: str, widths: list[int]):
    model = tiny_transformer(name)
    for row, alone, together in _side_by_side(model, widths):
        assert np.array_equal(together, alone), row


def test_sequences_side_by_side_in_fast_are_close_to_each_alone():
    for _, alone, together in _side_by_side(tiny_transformer("fast"), [3, 1, 5]):
        assert np.abs(together - alone).max() < 1e-4


def _side_by_side(model: Transformer, widths: list[int]) -> list[tuple[int, Array, Array]]:
    """Logits of each sequence by itself and beside the others, which have other lengths."""
    rng, lengths = np.random.default_rng(0), [7, 0, 19]
    cache = filled_cache(model, 0, 32, 3)
    cache.lengths[:] = lengths
    tokens = rng.integers(0, model.n_vocab, (3, max(widths)))
    positions, mask = ragged_rows(cache, widths)
    logits = model.logits(model.forward(tokens, positions, mask, cache))
    assert cache.n_pending.tolist() == widths
    pairs = []
    for row, width in enumerate(widths):
        own = model.new_cache(32)
        own.keys[:, 0], own.values[:, 0] = cache.keys[:, row], cache.values[:, row]
        own.lengths[:] = lengths[row]
        if width:
            pairs.append((row, chain_logits(model, tokens[row, :width].tolist(), own), logits[row, :width]))
    return pairs


def test_first_layers_alone_are_bit_equal_to_a_model_of_so_many():
    tensors = random_tensors(tiny_spec())
    deep, shallow = Transformer(tiny_spec(), tensors), Transformer(tiny_spec(n_layers=1), tensors)
    cache = deep.new_cache(4)
    hidden = deep.forward([[1, 2, 3]], chain_positions(cache, 3), None, cache, 1)
    assert np.array_equal(hidden[0], shallow.prefill([1, 2, 3], shallow.new_cache(4)))


def test_rollback_and_other_tokens_is_a_cache_that_never_saw_the_first():
    model = tiny_transformer()
    cache, fresh = model.new_cache(20), model.new_cache(20)
    model.prefill([1, 2, 3, 4, 5, 6], cache)
    cache.rollback(2)
    found = model.prefill([9, 8, 7], cache)
    wanted = model.prefill([1, 2, 9, 8, 7], fresh)
    assert np.array_equal(found, wanted[2:])
    assert [part.tobytes() for part in cache.committed()] == [part.tobytes() for part in fresh.committed()]


@pytest.mark.parametrize(
    ("tokens", "positions", "mask", "message"),
    [
        (
            [[]],
            np.empty((1, 0), int),
            None,
            r"tokens must have shape \(n_sequences, n_rows\) and not be empty; got \(1, 0\)",
        ),
        ([1, 2], np.array([0, 1]), None, r"tokens must have shape .*; got \(2,\)"),
        ([[19]], np.array([[0]]), None, r"tokens must lie in 0 to 18; got 19 to 19"),
        ([[-1]], np.array([[0]]), None, r"tokens must lie in 0 to 18; got -1 to -1"),
        ([[1, 2]], np.array([[0]]), None, r"rows, positions and cache must agree; .*"),
        ([[1], [2]], np.array([[0], [0]]), None, r"rows, positions and cache must agree; .*"),
        ([[1]], np.array([[64]]), None, r"positions must lie in 0 to 63; got 64 to 64"),
        ([[1]], np.array([[-1]]), None, r"positions must lie in 0 to 63; got -1 to -1"),
        (
            [[1, 2]],
            np.array([[0, 1]]),
            np.ones((1, 2, 3), bool),
            r"mask must have shape \(1, 2, 2\), .*; got \(1, 2, 3\)",
        ),
        (
            [[1, 2]],
            np.array([[0, 1]]),
            np.ones((1, 1, 2), bool),
            r"mask must have shape \(1, 2, 2\), .*; got \(1, 1, 2\)",
        ),
        ([[1, 2]], np.array([[0, 1]]), causal_mask(0, 2), r"mask must have shape \(1, 2, 2\), .*; got \(2, 2\)"),
        ([[1, 2]], np.array([[0, 1]]), np.ones((1, 2, 2)), r"mask must be boolean; got float64"),
        ([[1] * 9], np.arange(9)[None], None, r"cache of 8 tokens holds 0 and has no room for 9 more"),
    ],
)
def test_forward_impossible_rows_are_refused_and_change_nothing(tokens, positions, mask, message: str):
    model = tiny_transformer()
    cache = model.new_cache(8)
    with pytest.raises(ValueError, match=rf"^{message}$"):
        model.forward(tokens, positions, mask, cache)
    assert cache.n_pending.tolist() == [0]
    assert not cache.keys.any()


@pytest.mark.parametrize("name", ["embedding", "final_norm", "layers.1.down", "layers.0.query_key_value", "head"])
def test_transformer_tensor_of_another_shape_is_refused(name: str):
    tensors = random_tensors(tiny_spec(), untied=True)
    tensors[name] = tensors[name][:-1]
    with pytest.raises(ValueError, match=rf"^tensor {name} must have shape \(.*\); got \(.*\)$"):
        Transformer(tiny_spec(), tensors)


def test_transformer_missing_tensor_is_refused():
    tensors = random_tensors(tiny_spec())
    del tensors["layers.1.gate_up"]
    with pytest.raises(ValueError, match=r"^tensor layers\.1\.gate_up must have shape \(40, 24\); got None$"):
        Transformer(tiny_spec(), tensors)


def test_swiglu_gate_far_below_zero_closes_without_a_warning():
    tensors = random_tensors(tiny_spec())
    tensors["layers.0.gate_up"] = tensors["layers.0.gate_up"] * np.float32(1e4)
    model = Transformer(tiny_spec(), tensors)
    assert np.isfinite(chain_logits(model, [1, 2, 3], model.new_cache(4))).all()
