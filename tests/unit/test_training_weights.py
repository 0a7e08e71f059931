"""What training writes: int8 rows lose about half a step at most, the engine runs them; schedules and shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.engine.library import FOLDER
from specbook.engine.transformer import Transformer
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import read_weights, stored_spec
from specbook.training.artefacts import (
    MODELS,
    model_path,
    read_transformer,
    write_eagle,
    write_medusa,
    write_transformer,
)
from specbook.training.schedule import rate_factor
from specbook.training.sizes import SIZES, shipped_sizes, tiny_sizes


def _tensors(spec: TransformerSpec) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: (0.05 * rng.standard_normal(shape)).astype(np.float32) for name, shape in spec.shapes().items()}


def test_transformer_is_written_to_half_a_step_a_row(tmp_path: Path):
    spec = tiny_sizes(300).target
    tensors = _tensors(spec)
    path = model_path(tmp_path, "target")
    write_transformer(path, spec, tensors, {"n_steps": 3})
    found, stored = read_transformer(path)
    assert found == spec
    assert stored.config["training"] == {"n_steps": 3}
    for name, values in tensors.items():
        if values.ndim == 1:
            assert np.array_equal(stored.tensors[name], values)
        else:
            # The scale is rounded to float16, so the largest entry may lie 0.06 steps above 127 and is cut there.
            step = np.abs(values).max(axis=1, keepdims=True) / 127
            assert (np.abs(stored.tensors[name] - values) <= 0.56 * step).all()


def test_transformer_written_again_from_what_was_read_is_the_same_model(tmp_path: Path):
    spec = tiny_sizes(300).draft
    first, second = tmp_path / "first", tmp_path / "second"
    write_transformer(first, spec, _tensors(spec), {})
    write_transformer(second, spec, read_weights(first).tensors, {})
    for name, values in read_weights(first).tensors.items():
        assert np.allclose(read_weights(second).tensors[name], values, rtol=1e-3, atol=1e-6)


def test_transformer_that_was_written_runs_in_the_engine(tmp_path: Path):
    spec = tiny_sizes(300).draft
    write_transformer(tmp_path / "draft", spec, _tensors(spec), {})
    found, stored = read_transformer(tmp_path / "draft")
    model = Transformer(found, stored.tensors)
    hidden = model.prefill([299, 1, 2], model.new_cache(capacity=3))
    assert np.isfinite(model.logits(hidden)).all()


def test_other_heads_are_no_transformer(tmp_path: Path):
    sizes = tiny_sizes(300)
    write_eagle(tmp_path / "eagle", sizes, 8.0, {"combine": np.ones((32, 128), np.float32)}, {})
    write_medusa(tmp_path / "medusa", sizes, {"heads.0.gain": np.ones(64, np.float32)}, {})
    for name in ("eagle", "medusa"):
        with pytest.raises(BadInput, match=rf"{name}: kind = '{name}': is no transformer; name a folder that"):
            read_transformer(tmp_path / name)
    assert stored_spec(read_weights(tmp_path / "eagle"), "eagle") == sizes.eagle
    assert read_weights(tmp_path / "eagle").config["embedding_scale"] == 8.0
    assert read_weights(tmp_path / "medusa").config["n_exits"] == 1


def test_shapes_are_those_of_the_shipped_models():
    sizes = shipped_sizes(1024)
    found = {name: read_weights(model_path(FOLDER, name)) for name in MODELS}
    assert stored_spec(found["target"], "target") == sizes.target
    assert stored_spec(found["draft"], "draft") == sizes.draft
    assert stored_spec(found["eagle"], "eagle") == sizes.eagle
    assert (found["medusa"].config["n_heads"], found["medusa"].config["n_exits"]) == (
        sizes.n_medusa_heads,
        sizes.n_exits,
    )


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes_agree_with_each_other(name: str):
    sizes = SIZES[name](500)
    assert sizes.target.n_vocab == sizes.draft.n_vocab == sizes.eagle.n_vocab == 500
    assert sizes.eagle.n_layers == 1
    assert replace(sizes, target=replace(sizes.target, n_layers=9)).n_exits == 8


def test_rate_factor_rises_stays_and_falls_without_reaching_zero():
    factors = [rate_factor(step, 100, n_warmup=10, decay_share=0.4) for step in range(100)]
    assert factors[:10] == pytest.approx(np.arange(1, 11) / 10)
    assert set(factors[10:61]) == {1.0}
    assert factors[60:] == pytest.approx(np.arange(40, 0, -1) / 40)


@pytest.mark.parametrize(
    ("step", "n_steps", "n_warmup", "decay_share"), [(-1, 5, 1, 0.5), (0, 0, 1, 0.5), (0, 5, 0, 0.5), (0, 5, 1, 0.0)]
)
def test_rate_factor_impossible_arguments_are_refused(step: int, n_steps: int, n_warmup: int, decay_share: float):
    with pytest.raises(ValueError, match=r"must be"):
        rate_factor(step, n_steps, n_warmup=n_warmup, decay_share=decay_share)
