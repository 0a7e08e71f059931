"""The whole recipe on a tiny model, from the corpus to weights that the engine runs: ``make train-check``, with torch.

Every stage runs as the reader runs it. Where torch is missing, the check fails and says so. It is no part of ``make
test``, whose environment has no torch; the stages that need none are tested there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from specbook.engine.drafters.eagle import EagleHead
from specbook.engine.drafters.medusa import MedusaHeads
from specbook.engine.layout import chain_positions
from specbook.engine.tokenizer import read_tokenizer
from specbook.engine.transformer import Transformer
from specbook.engine.weights import read_weights
from specbook.training.artefacts import MERGES, MODELS, model_path, read_transformer

ROOT = Path(__file__).parents[2]
BRIEF = [
    "--size",
    "tiny",
    "--steps",
    "60",
    "--sequences",
    "4",
    "--tokens",
    "96",
    "--threads",
    "1",
    "--report-every",
    "20",
]


def _run(stage: str, folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "specbook.training", stage, "--out", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    return done.stdout


def _losses(out: str, name: str) -> list[float]:
    return [float(loss) for loss in re.findall(rf"{name} (\d+\.\d+)[,;]", out)]


def _bits(out: str, path: Path) -> dict[str, float]:
    """Bits per byte that a stage printed for a stored model, by domain."""
    (line,) = re.findall(rf"^{re.escape(str(path))}: bits per byte: (.*)$", out, re.MULTILINE)
    return {domain: float(bits) for domain, bits in (part.split() for part in line.split(", "))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the stages leave behind, and what they said in ``target.log`` and ``distil.log``."""
    path = tmp_path_factory.mktemp("recipe")
    # A package of a few files stands in for the standard library, and the chat corpus for its three sources.
    library = ROOT / "specbook" / "acceptance"
    (path / "chat").mkdir()
    turns = "\n".join(f"- - What is {n} and {n}?\n  - It is {n + n}, no doubt." for n in range(400))
    (path / "chat" / "sums.yml").write_text(f"conversations:\n{turns}\n")
    options = (
        "--python-library",
        str(library),
        "--chatterbot",
        str(path / "chat"),
        "--mathematics-characters",
        "200000",
    )
    _run("corpus", path, *options)
    _run("tokenizer", path, "--vocabulary", "400")
    (path / "target.log").write_text(_run("target", path, *BRIEF))
    (path / "distil.log").write_text(_run("distil", path, *BRIEF))
    _run("reference", path)
    return path


def test_target_learns(folder: Path):
    out = (folder / "target.log").read_text()
    losses = _losses(out, "next token")
    assert losses[-1] < losses[0] - 0.5
    assert all(bits < 8.0 for bits in _bits(out, model_path(folder, "target")).values())


def test_every_drafter_learns(folder: Path):
    out = (folder / "distil.log").read_text()
    for name in ("draft", "eagle", "eagle second step", "head 0", "head 1", "exit 0"):
        losses = _losses(out, name)
        assert losses[-1] < losses[0], name


def test_bits_per_byte_are_those_of_the_engine(folder: Path):
    """The stored target, run by the engine over the same windows, needs the same bits."""
    spec, stored = read_transformer(model_path(folder, "target"))
    model = Transformer(spec, stored.tensors, "ref64")
    tokens = load_file(str(folder / "tokens.safetensors"))
    stream, bits, n_bytes = tokens["mathematics.held_out"], 0.0, 0
    for start in range(0, len(stream) - 1, 512):
        window = stream[start : start + 513]
        logits = model.logits(model.prefill(window[:-1], model.new_cache(capacity=512))).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        log_probability = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        bits -= log_probability[np.arange(len(window) - 1), window[1:]].sum() / np.log(2.0)
        n_bytes += tokens["token_bytes"][window[1:]].sum()
    printed = _bits((folder / "target.log").read_text(), model_path(folder, "target"))["mathematics"]
    assert bits / n_bytes == pytest.approx(printed, abs=6e-4)


def test_engine_runs_all_that_was_trained(folder: Path):
    models = {name: Transformer(spec, s.tensors) for name in MODELS[:2] for spec, s in [_read(folder, name)]}
    tokens = read_tokenizer(folder / MERGES).encode("def area(width, height):")
    target = models["target"]
    features = target.features(target.prefill(tokens, target.new_cache(capacity=64)))
    assert np.isfinite(models["draft"].logits(models["draft"].prefill(tokens, models["draft"].new_cache(64)))).all()
    head = EagleHead(read_weights(model_path(folder, "eagle")), target)
    inputs, cache = head.inputs(tokens[1:], features[:-1]), head.decoder.new_cache(64)
    hidden = head.decoder.forward(inputs, chain_positions(cache, inputs.shape[1]), None, cache)
    assert np.isfinite(target.logits_of_features(head.features(hidden[0]))).all()
    assert np.isfinite(MedusaHeads(read_weights(model_path(folder, "medusa")), target).logits(features[-1], 2)).all()


def test_weights_say_how_they_were_made(folder: Path):
    target, draft = (read_weights(model_path(folder, name)) for name in ("target", "draft"))
    assert target.config["training"]["n_steps"] == 60
    assert draft.config["training"]["target_sha256"] == target.sha256


def test_reference_of_the_shipped_models_is_the_stored_one(folder: Path):
    made = load_file(str(folder / "engine_logits.safetensors"))
    kept = load_file(str(ROOT / "tests" / "regression" / "engine_logits.safetensors"))
    assert made.keys() == kept.keys()
    assert all(np.allclose(made[name], kept[name], rtol=0, atol=2e-6) for name in kept)


def _read(folder: Path, name: str):
    return read_transformer(model_path(folder, name))
