"""The stages that train and measure, file to file; they need torch."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specbook.checks import BadInput
from specbook.engine.library import END_OF_TEXT, FOLDER, tokenizer
from specbook.training.artefacts import (
    TOKENS,
    model_path,
    read_transformer,
    write_eagle,
    write_medusa,
    write_transformer,
)
from specbook.training.distil import distil
from specbook.training.evaluation import bits_per_byte_by_domain
from specbook.training.optimizers import OptimizerConfig
from specbook.training.reference import FILE, reference_arrays, reference_tokens, write_reference
from specbook.training.sizes import SIZES
from specbook.training.tokens import TokenStreams, read_tokens
from specbook.training.torch_model import EMBEDDING_SCALE, Tensors, to_arrays, to_torch
from specbook.training.train_target import DOMAIN_SHARES, TrainingConfig, train_target

# Held-out windows read at each report; all of them once the model is written.
_WINDOWS_WHILE_TRAINING = 6


def target_stage(options: Any) -> None:
    """Train the target on the tokens in ``--out`` and write it there."""
    streams, started = read_tokens(options.out / TOKENS), time.perf_counter()
    sizes = SIZES[options.size](len(streams.token_bytes))
    config = _config(options, streams, OptimizerConfig(), n_warmup=40, decay_share=0.45)

    def report(step: int, losses: Mapping[str, float], tensors: Tensors) -> None:
        measured = bits_per_byte_by_domain(sizes.target, tensors, streams, _WINDOWS_WHILE_TRAINING)
        _tell(step, losses, started, config)
        _tell_bits("  held out so far", measured)

    trained = train_target(sizes.target, streams, config, np.random.default_rng(options.seed), report)
    path = model_path(options.out, "target")
    write_transformer(path, sizes.target, to_arrays(trained), _training(options, streams))
    _tell_model(path, streams)


def distil_stage(options: Any) -> None:
    """Distil all drafters from the target in ``--out`` and write them there."""
    streams, started = read_tokens(options.out / TOKENS), time.perf_counter()
    sizes = SIZES[options.size](len(streams.token_bytes))
    spec, stored = read_transformer(model_path(options.out, "target"))
    if spec != sizes.target:
        path = str(model_path(options.out, "target"))
        raise BadInput(f"is not the {options.size} target", file=path, field="config", remedy="give the same --size")
    config = _config(options, streams, OptimizerConfig(muon_rate=0.03), n_warmup=30, decay_share=0.5)
    drafters = distil(
        sizes,
        to_torch(stored.tensors),
        streams,
        config,
        np.random.default_rng(options.seed),
        lambda step, losses: _tell(step, losses, started, config),
    )
    training = _training(options, streams) | {"target_sha256": stored.sha256}
    draft = model_path(options.out, "draft")
    write_transformer(draft, sizes.draft, to_arrays(drafters.draft), training)
    write_eagle(model_path(options.out, "eagle"), sizes, EMBEDDING_SCALE, to_arrays(drafters.eagle), training)
    write_medusa(model_path(options.out, "medusa"), sizes, to_arrays(drafters.medusa), training)
    _tell_model(draft, streams)


def evaluate_stage(options: Any) -> None:
    """Print bits per byte of target and draft in ``--weights`` on the held-out tokens in ``--out``."""
    streams = read_tokens(options.out / TOKENS)
    for name in ("target", "draft"):
        _tell_model(model_path(options.weights or options.out, name), streams)


def reference_stage(options: Any) -> None:
    """Write float64 logits of the models in ``--weights``, the shipped ones by default, into ``--out``."""
    prompts = reference_tokens(tokenizer(), END_OF_TEXT)
    weights = options.weights or FOLDER
    write_reference(options.out / FILE, weights, reference_arrays(weights, prompts))
    _say(f"wrote {options.out / FILE}")


def _config(options: Any, streams: TokenStreams, optimizer: OptimizerConfig, **schedule: Any) -> TrainingConfig:
    torch.set_num_threads(options.threads)
    return TrainingConfig(
        n_steps=options.steps,
        n_sequences=options.sequences,
        n_tokens=options.tokens,
        optimizer=optimizer,
        domain_shares=_shares(streams, options.tokens, options.out),
        bfloat16=options.bfloat16,
        report_every=options.report_every,
        **schedule,
    )


def _shares(streams: TokenStreams, n_tokens: int, folder: Path) -> dict[str, float]:
    """The usual share of every domain that has text enough for one sequence, scaled to sum to 1."""
    lengths = {domain: len(streams.streams.get((domain, "train"), ())) for domain in DOMAIN_SHARES}
    long_enough = {domain: DOMAIN_SHARES[domain] for domain, length in lengths.items() if length > n_tokens}
    if not long_enough:
        remedy = "make a larger corpus, or give --tokens"
        raise BadInput(f"has no stream of {n_tokens} tokens", file=str(folder / TOKENS), remedy=remedy)
    for domain in DOMAIN_SHARES.keys() - long_enough.keys():
        _say(f"no training text for {domain}: trained without it")
    return {domain: share / sum(long_enough.values()) for domain, share in long_enough.items()}


def _training(options: Any, streams: TokenStreams) -> dict[str, Any]:
    """What a file of weights says of how it was made."""
    return {"n_steps": options.steps, "seed": options.seed, "tokens_sha256": streams.sha256}


def _tell(step: int, losses: Mapping[str, float], started: float, config: TrainingConfig) -> None:
    speed = step * config.n_sequences * config.n_tokens / (time.perf_counter() - started)
    listed = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    _say(f"step {step}: loss in nats: {listed}; {speed:,.0f} tokens/s")


def _tell_model(path: Path, streams: TokenStreams) -> None:
    spec, stored = read_transformer(path)
    _tell_bits(str(path), bits_per_byte_by_domain(spec, to_torch(stored.tensors), streams))


def _tell_bits(what: str, measured: Mapping[str, float]) -> None:
    listed = (f"{domain} {measured[domain]:.3f}" for domain in DOMAIN_SHARES if domain in measured)
    _say(f"{what}: bits per byte: {', '.join(listed)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
