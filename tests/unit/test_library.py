"""The shipped weights: what they are, that they are what was trained, and how much they weigh."""

from __future__ import annotations

import numpy as np
import pytest

from specbook.engine.library import FOLDER, SHA256, load_draft, load_target, stored
from specbook.files import sha256_of


@pytest.mark.parametrize(("file", "sha256"), SHA256.items())
def test_shipped_file_has_its_hash(file: str, sha256: str):
    assert sha256_of(FOLDER / file) == sha256


def test_shipped_weights_are_all_listed_and_weigh_less_than_twelve_megabytes():
    files = [path for path in FOLDER.iterdir() if path.suffix in {".safetensors", ".json"}]
    assert {path.name for path in files} == set(SHA256)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 12e6


@pytest.mark.parametrize(
    ("name", "kind"), [("target", "transformer"), ("draft", "transformer"), ("eagle", "eagle"), ("medusa", "medusa")]
)
def test_shipped_weights_are_of_their_kind(name: str, kind: str):
    assert stored(name).kind == kind
    assert all(values.dtype == np.float32 for values in stored(name).tensors.values())


def test_shipped_pair_has_one_vocabulary_and_the_stated_sizes():
    target, draft = load_target(), load_draft()
    assert target.n_vocab == draft.n_vocab == 1024
    assert (target.spec.n_parameters, draft.spec.n_parameters) == (6_688_128, 500_352)


@pytest.mark.parametrize("name", ["exact", "fast", "ref64", "naive"])
def test_shipped_pair_loads_in_each_arithmetic(name: str):
    assert load_target(name).arithmetic.name == load_draft(name).arithmetic.name == name


def test_shared_weights_cannot_be_written():
    for values in (load_target().embedding, *stored("eagle").tensors.values()):
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 0.0
