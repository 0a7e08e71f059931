"""The cost dial: more bytes, the same function."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine.cost_dial import replicate_feed_forward
from specbook.engine.library import stored
from specbook.engine.transformer import Transformer
from specbook.engine.weights import stored_spec
from tests.tiny_models import chain_logits, random_tensors, tiny_spec

TOKENS = [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("times", [2, 3, 8])
@pytest.mark.parametrize(("name", "bound"), [("ref64", 1e-5), ("exact", 1e-4), ("fast", 1e-4)])
def test_replicated_model_is_the_same_function(name: str, bound: float, times: int):
    spec, tensors = tiny_spec(), random_tensors(tiny_spec())
    plain, dialled = Transformer(spec, tensors, name), Transformer(*replicate_feed_forward(spec, tensors, times), name)
    found = chain_logits(dialled, TOKENS, dialled.new_cache(8))
    assert np.abs(found - chain_logits(plain, TOKENS, plain.new_cache(8))).max() < bound


@pytest.mark.parametrize("times", [1, 2, 8])
def test_replicated_model_holds_so_many_feed_forwards(times: int):
    spec, tensors = replicate_feed_forward(tiny_spec(), random_tensors(tiny_spec()), times)
    assert spec.n_feed_forward == 20 * times
    assert spec.n_parameters - tiny_spec().n_parameters == (times - 1) * 2 * 3 * 24 * 20
    assert {name: values.shape for name, values in tensors.items()} == spec.shapes()


def test_replication_leaves_its_arguments_alone():
    tensors = random_tensors(tiny_spec())
    before = {name: values.copy() for name, values in tensors.items()}
    replicate_feed_forward(tiny_spec(), tensors, 4)
    assert all(np.array_equal(values, before[name]) for name, values in tensors.items())


@pytest.mark.parametrize("times", [0, -1, 1.5])
def test_replication_that_is_no_count_is_refused(times: float):
    with pytest.raises(ValueError, match=r"^replication must be whole and at least 1; got "):
        replicate_feed_forward(tiny_spec(), random_tensors(tiny_spec()), times)


def test_shipped_target_at_eight_reads_six_times_the_weights():
    spec = stored_spec(stored("target"), "target")
    dialled, _ = replicate_feed_forward(spec, stored("target").tensors, 8)
    assert (spec.n_parameters, dialled.n_parameters) == (6_688_128, 39_718_272)
