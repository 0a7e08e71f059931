"""Reference logits: the stored models run straight from the formulas in float64, for the engine to be held against.

``python -m specbook.training reference --out tests/regression`` writes ``engine_logits.safetensors`` for the models
that ship.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from specbook.engine.tokenizer import Tokenizer
from specbook.engine.weights import read_weights, stored_spec
from specbook.files import sha256_of, write_atomically
from specbook.training.artefacts import MODELS, model_path, read_transformer
from specbook.training.torch_model import (
    eagle_features,
    embedded,
    exit_features,
    features,
    logits,
    logits_of_features,
    medusa_features,
    residual_streams,
    to_torch,
)

SCHEMA = "specbook-reference/1"
FILE = "engine_logits.safetensors"

PROMPTS = {
    "code": (
        'def mean(values):\n    """Return the arithmetic mean of a sequence of numbers."""\n'
        "    total = 0\n    for value in"
    ),
    "chat": "User: What does `shuffle` do?\nAssistant: Shuffle the list",
    "mathematics": "Question: Solve 7x - 4 = 45 for x.\nAnswer:",
}
# All prompts in a row, this often: a context far longer than one prompt.
_REPEATS = 4


def reference_tokens(tokenizer: Tokenizer, end_token: int) -> dict[str, list[int]]:
    """Token ids of the prompts, each after the end token, which begins a sequence; ``long`` repeats them all."""
    prompts = {name: [end_token, *tokenizer.encode(text)] for name, text in PROMPTS.items()}
    return prompts | {"long": _REPEATS * [token for tokens in prompts.values() for token in tokens]}


def reference_arrays(folder: Path, prompts: Mapping[str, list[int]]) -> dict[str, NDArray[Any]]:
    """Logits of all stored models after prompts, computed in float64.

    Parameters
    ----------
    folder : Path
        Holds ``target``, ``draft``, ``eagle`` and ``medusa`` as safetensors.
    prompts : mapping of str to list of int
        Token ids, at least two each.

    Returns
    -------
    dict of str to ndarray
        For each prompt: ``tokens`` (n,) and ``positions`` (p,) of int32, and of float32 ``target`` and ``draft``
        (p, n_vocab), logits at those positions; ``eagle`` (n_vocab,), which from the last token and the features
        before it predicts the token after the prompt; ``heads`` (n_heads, n_vocab) and ``exits`` (n_exits, n_vocab)
        at the last position. Rounded to float32, they are within 1e-6 of the float64 logits where these are below 32.

    Raises
    ------
    BadInput
        If a file is missing or damaged.
    """
    found: dict[str, NDArray[Any]] = {}
    with torch.no_grad():
        for name, tokens in prompts.items():
            positions = [0, len(tokens) // 2, len(tokens) - 1]
            rows = torch.tensor(tokens)[None]
            found[f"{name}.tokens"] = np.array(tokens, np.int32)
            found[f"{name}.positions"] = np.array(positions, np.int32)
            for model in ("target", "draft"):
                found[f"{name}.{model}"] = _float32(_transformer_logits(folder, model, rows)[positions])
            found[f"{name}.eagle"] = _float32(_eagle_logits(folder, rows))
            for part, values in _medusa_logits(folder, rows).items():
                found[f"{name}.{part}"] = _float32(values)
    return found


def write_reference(path: Path, weights: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write reference logits as safetensors, with the hash of each file of weights that they belong to."""
    hashes = {name: sha256_of(model_path(weights, name)) for name in MODELS}
    metadata = {"schema": SCHEMA, "weights": json.dumps(hashes), "torch": torch.__version__}
    write_atomically(path, lambda part: save_file(dict(arrays), str(part), metadata=metadata))


def _transformer_logits(folder: Path, name: str, tokens: torch.Tensor) -> torch.Tensor:
    spec, stored = read_transformer(model_path(folder, name))
    return logits(spec, to_torch(stored.tensors, torch.float64), tokens)[0]


def _eagle_logits(folder: Path, tokens: torch.Tensor) -> torch.Tensor:
    spec, stored = read_transformer(model_path(folder, "target"))
    target = to_torch(stored.tensors, torch.float64)
    path = model_path(folder, "eagle")
    head = read_weights(path)
    known = embedded(target, tokens)
    given = features(spec, target, residual_streams(spec, target, known)[-1])
    after = eagle_features(
        stored_spec(head, str(path)),
        to_torch(head.tensors, torch.float64),
        known[:, 1:],
        given[:, :-1],
        float(head.config["embedding_scale"]),
    )
    return logits_of_features(target, after)[0, -1]


def _medusa_logits(folder: Path, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    spec, stored = read_transformer(model_path(folder, "target"))
    target = to_torch(stored.tensors, torch.float64)
    medusa = read_weights(model_path(folder, "medusa"))
    tensors = to_torch(medusa.tensors, torch.float64)
    streams = [stream[0, -1] for stream in residual_streams(spec, target, embedded(target, tokens))]
    given = features(spec, target, streams[-1])
    heads = [medusa_features(tensors, head, given) for head in range(int(medusa.config["n_heads"]))]
    exits = [
        exit_features(spec, target, tensors, index, streams[index + 1])
        for index in range(int(medusa.config["n_exits"]))
    ]
    return {
        "heads": logits_of_features(target, torch.stack(heads)),
        "exits": logits_of_features(target, torch.stack(exits)),
    }


def _float32(values: torch.Tensor) -> NDArray[np.float32]:
    return np.asarray(values.numpy(), dtype=np.float32)
