"""The probe's kernels on the processor: what the engine computes, over weights and caches of the right shapes."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine.arithmetic import ARITHMETICS, arithmetic
from specbook.engine.library import load_draft, load_target
from specbook.engine.transformer_spec import TransformerSpec
from specbook.hardware.probe import numpy_backend
from specbook.hardware.probe.backend import Calls, seconds_of
from specbook.hardware.probe.models import (
    LONGEST_CONTEXT_TOKENS,
    ROOM_TOKENS,
    SCRATCH_MODELS,
    Weights,
    engine_weights,
    head_weights,
    layer_weights,
)
from specbook.hardware.probe.numpy_backend import NumpyBackend
from specbook.hardware.probe.numpy_model import ScratchCache, pass_work, random_model, random_values
from tests.tiny_models import tiny_spec

CONTEXT = 20


@pytest.fixture
def backend() -> NumpyBackend:
    return NumpyBackend()


def _sizes(spec: TransformerSpec) -> dict[str, object]:
    return {name: getattr(spec, name) for name in TransformerSpec.field_names() if name != "max_context"}


def test_scratch_models_have_the_shapes_of_those_that_ship():
    shipped = [load_target(replication=8), load_target(), load_draft()]
    assert list(map(_sizes, SCRATCH_MODELS.values())) == [_sizes(model.spec) for model in shipped]
    assert all(spec.max_context >= LONGEST_CONTEXT_TOKENS + ROOM_TOKENS for spec in SCRATCH_MODELS.values())


def test_engine_weights_hold_every_matrix_of_a_pass_once():
    weights = engine_weights()
    assert len(set(weights)) == len(weights)
    for spec in SCRATCH_MODELS.values():
        assert {*layer_weights(spec), head_weights(spec)} <= set(weights)
    n_values = sum(w.n_values for w in layer_weights(spec)) * spec.n_layers + head_weights(spec).n_values
    assert n_values == pytest.approx(spec.n_parameters, rel=0.01)


def test_random_values_repeat_without_zeros():
    values = random_values(2**20 + 5)
    assert np.array_equal(values[:5], values[2**20 :])
    assert (values != 0.0).all()
    assert abs(float(values.mean())) < 0.01


@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("rows", [1, 5])
def test_product_is_the_engines(backend: NumpyBackend, monkeypatch: pytest.MonkeyPatch, name: str, rows: int):
    seen = []

    def prepared(self, weights):
        linear = type(self).linear.__get__(self)(weights, self.dtype)
        seen.append(weights)
        return lambda inputs: (seen.append(inputs), linear(inputs))[1]

    monkeypatch.setattr(type(arithmetic(name)), "prepare", prepared)
    calls = backend.product(name, Weights(n_out=70, n_in=33))(rows)
    result = calls.work()
    weights, inputs = seen
    assert (weights.shape, inputs.shape, inputs.dtype) == ((70, 33), (rows, 33), arithmetic(name).dtype)
    assert np.allclose(result, inputs @ weights.T, atol=1e-4)
    assert calls.n_calls == 1


def test_square_and_tiny_products_are_products(backend: NumpyBackend):
    assert backend.square_product(33).work().shape == (33, 33)
    tiny = backend.tiny_product()
    assert tiny.n_calls == 1000
    assert 0.0 < seconds_of(backend, tiny) < 0.01


@pytest.mark.parametrize(("name", "by_row"), [("exact", True), ("fast", False)])
def test_attention_is_the_engines_over_every_sequence(
    backend: NumpyBackend, monkeypatch: pytest.MonkeyPatch, name: str, by_row: bool
):
    calls = []

    def spy(which):
        return lambda queries, keys, values, length, mask: calls.append((which, queries, keys, values, length, mask))

    monkeypatch.setattr(numpy_backend, "attend_by_row", spy(True))
    monkeypatch.setattr(numpy_backend, "attend_as_block", spy(False))
    backend.fill_cache(3 * 2 * 64 * (CONTEXT + ROOM_TOKENS))
    backend.attention(name, batch=3, context=CONTEXT, rows=5).work()
    assert [call[0] for call in calls] == [by_row] * 3
    for _, queries, keys, values, length, mask in calls:
        assert (queries.shape, length) == ((5, 6, 64), CONTEXT)
        assert keys.shape == (2, 64, CONTEXT + ROOM_TOKENS)
        assert values.shape == (2, CONTEXT + ROOM_TOKENS, 64)
        assert np.array_equal(mask, np.tri(5, dtype=bool))
        assert (keys != 0.0).all()


def test_attention_goes_round_the_cache(backend: NumpyBackend, monkeypatch: pytest.MonkeyPatch):
    starts = []

    def spy(_queries, keys, *_):
        starts.append(keys.__array_interface__["data"][0])

    monkeypatch.setattr(numpy_backend, "attend_as_block", spy)
    n_values = 2 * 64 * (CONTEXT + ROOM_TOKENS)
    backend.fill_cache(3 * n_values + 5)
    for _ in range(4):
        backend.attention("fast", batch=1, context=CONTEXT, rows=1).work()
    assert [start - starts[0] for start in starts] == [0, 4 * n_values, 8 * n_values, 0]


@pytest.mark.parametrize("name", ["exact", "fast", "naive"])
def test_pass_leaves_the_cache_as_it_was(name: str):
    spec = tiny_spec()
    model = random_model(spec, name)
    flat = random_values(2**15), random_values(2**15)
    cache = ScratchCache(spec, *flat, batch=3, context=CONTEXT)
    work = pass_work(model, cache, 2)
    logits = []
    model.logits = lambda hidden: logits.append(type(model).logits(model, hidden))  # type: ignore[method-assign]
    work()
    work()
    assert cache.lengths.tolist() == [CONTEXT] * 3
    assert cache.n_pending.tolist() == [0] * 3
    assert logits[0].shape == (3, 2, spec.n_vocab)
    assert np.array_equal(*logits)
    assert np.isfinite(logits[0]).all()


def test_pass_sees_the_whole_context():
    spec = tiny_spec()
    model = random_model(spec, "exact")
    flat = random_values(2**15), random_values(2**15)
    logits = []
    model.logits = lambda hidden: logits.append(hidden.copy())  # type: ignore[method-assign]
    for change in (0.0, 5.0):
        cache = ScratchCache(spec, *flat, batch=1, context=CONTEXT)
        cache.values[..., 0, :] += change
        pass_work(model, cache, 1)()
    assert not np.array_equal(*logits)


def test_scratch_cache_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="scratch of 10 values must hold"):
        ScratchCache(tiny_spec(), np.zeros(10, np.float32), np.zeros(10, np.float32), batch=1, context=1)


def test_model_runs_over_the_shared_cache(backend: NumpyBackend):
    backend.fill_cache(2 * 2 * 32 * 2 * (CONTEXT + ROOM_TOKENS))
    work = backend.model("specbook-draft", "fast")(2, CONTEXT, 3)
    assert work() is None
    assert seconds_of(backend, Calls(work=work)) > 0.0


def test_weight_bytes_count_both_layouts_where_fast_keeps_two(backend: NumpyBackend, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numpy_backend, "has_small_product_kernel", lambda: False)
    found = {name: backend.weight_bytes(name) for name in ARITHMETICS}
    assert found == {"exact": 4, "fast": 8, "ref64": 8, "naive": 4}
    assert backend.product_bytes("ref64", Weights(n_out=3, n_in=5)) == 120


def test_facts_are_this_machines(backend: NumpyBackend):
    facts = backend.facts
    assert (facts.kind, backend.name) == ("cpu", "numpy")
    assert facts.memory_bytes > 0
    assert set(facts.blas) == {"library", "version", "kernel", "threads"}
    assert backend.engine_name("exact") == "specbook exact"
