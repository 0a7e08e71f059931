"""What the stages leave in one folder for each other, and how the models are written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import BadInput
from specbook.engine.tokenizer import SCHEMA, read_tokenizer
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import StoredWeights, check_shapes, read_weights, stored_spec, write_weights
from specbook.files import read_json, write_text
from specbook.training.bpe import Pair
from specbook.training.sizes import ModelSizes

Arrays = Mapping[str, NDArray[np.float32]]

MERGES = "bpe.json"
TOKENS = "tokens.safetensors"
MODELS = ("target", "draft", "eagle", "medusa")


def write_merges(path: Path, merges: Sequence[Pair]) -> None:
    """Write merges as the engine's tokenizer reads them."""
    write_text(path, json.dumps({"schema": SCHEMA, "merges": [list(pair) for pair in merges]}) + "\n")


def read_merges(path: Path) -> list[Pair]:
    """Read merges.

    Raises
    ------
    BadInput
        If the file is damaged or another schema.
    """
    read_tokenizer(path)  # checks every merge
    return [(left, right) for left, right in read_json(path)["merges"]]


def model_path(folder: Path, name: str) -> Path:
    """File of ``target``, ``draft``, ``eagle`` or ``medusa``."""
    return folder / f"{name}.safetensors"


def write_transformer(path: Path, spec: TransformerSpec, tensors: Arrays, training: Mapping[str, Any]) -> None:
    """Write a target or draft model, with what is to be said of its training."""
    write_weights(path, kind="transformer", config=asdict(spec) | {"training": dict(training)}, tensors=tensors)


def write_eagle(
    path: Path, sizes: ModelSizes, embedding_scale: float, tensors: Arrays, training: Mapping[str, Any]
) -> None:
    """Write an EAGLE-like head."""
    config = asdict(sizes.eagle) | {"embedding_scale": embedding_scale, "training": dict(training)}
    write_weights(path, kind="eagle", config=config, tensors=tensors)


def write_medusa(path: Path, sizes: ModelSizes, tensors: Arrays, training: Mapping[str, Any]) -> None:
    """Write Medusa-like heads and early exits."""
    shape = {"n_embedding": sizes.target.n_embedding, "n_heads": sizes.n_medusa_heads, "n_exits": sizes.n_exits}
    write_weights(path, kind="medusa", config=shape | {"training": dict(training)}, tensors=tensors)


def read_transformer(path: Path) -> tuple[TransformerSpec, StoredWeights]:
    """Read a target or draft model as it is stored: int8 rows, dequantised.

    Raises
    ------
    BadInput
        If the file is missing, damaged, no transformer, or lacks a tensor.
    """
    stored = read_weights(path)
    if stored.kind != "transformer":
        remedy = "name a folder that python -m specbook.training has filled"
        raise BadInput("is no transformer", file=str(path), field="kind", value=stored.kind, remedy=remedy)
    spec = stored_spec(stored, str(path))
    check_shapes(stored.tensors, spec.shapes(), str(path))
    return spec, stored
