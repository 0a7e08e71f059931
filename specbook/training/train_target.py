"""Training of the target: the next token of code, chat and mathematics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from specbook.checks import check_counts
from specbook.engine.transformer_spec import TransformerSpec
from specbook.training.optimizers import MuonAndAdamW, OptimizerConfig
from specbook.training.schedule import rate_factor
from specbook.training.tokens import TokenStreams, draw_batch
from specbook.training.torch_model import Tensors, for_training, initial_transformer, logits

# What a run tells after a step: steps done, mean losses by name over the steps since the last time.
Report = Callable[[int, Mapping[str, float]], object]

DOMAIN_SHARES = {"code": 0.40, "chat": 0.27, "mathematics": 0.33}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long and on what a model trains.

    Parameters
    ----------
    n_steps, n_sequences, n_tokens : int
        Steps, sequences a step, and tokens of each that are predicted.
    n_warmup : int
        Steps in which the rate rises.
    decay_share : float
        Share of the steps, at the end, in which it falls to nothing.
    optimizer : OptimizerConfig
    domain_shares : mapping of str to float
        Probability of each domain for a sequence.
    bfloat16 : bool
        Multiply matrices in bfloat16: faster where the processor has instructions for it, much slower elsewhere.
    report_every : int
        Steps between two reports.

    Raises
    ------
    ValueError
        If a count is below 1.
    """

    n_steps: int
    n_sequences: int = 12
    n_tokens: int = 512
    n_warmup: int = 40
    decay_share: float = 0.45
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    domain_shares: Mapping[str, float] = field(default_factory=lambda: dict(DOMAIN_SHARES))
    bfloat16: bool = False
    report_every: int = 50

    def __post_init__(self) -> None:
        for name in ("n_steps", "n_sequences", "n_tokens", "n_warmup", "report_every"):
            check_counts(name, getattr(self, name), minimum=1)


def train_target(
    spec: TransformerSpec,
    streams: TokenStreams,
    config: TrainingConfig,
    rng: np.random.Generator,
    report: Callable[[int, Mapping[str, float], Tensors], object],
) -> Tensors:
    """Train a model from nothing.

    Parameters
    ----------
    spec : TransformerSpec
    streams : TokenStreams
    config : TrainingConfig
    rng : numpy.random.Generator
        Draws the first weights and the batches.
    report : callable
        Receives the steps done, the mean loss since the last time, and the weights.

    Returns
    -------
    dict of str to tensor of float32
    """
    tensors = for_training(initial_transformer(spec, rng))

    def losses(tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        found = logits(spec, tensors, tokens[:, :-1])
        return {"next token": functional.cross_entropy(found.float().flatten(0, 1), tokens[:, 1:].flatten())}

    run(tensors, losses, streams, config, rng, lambda step, means: report(step, means, tensors))
    return tensors


def run(
    tensors: Tensors,
    losses: Callable[[torch.Tensor], dict[str, torch.Tensor]],
    streams: TokenStreams,
    config: TrainingConfig,
    rng: np.random.Generator,
    report: Report,
) -> None:
    """Draw a batch, add up its losses, follow their gradient; so many times.

    Parameters
    ----------
    tensors : dict of str to tensor
        What is trained, in place.
    losses : callable
        Losses by name, of tokens (n_sequences, n_tokens + 1).
    streams, config, rng, report
        As for :func:`train_target`.
    """
    optimizer = MuonAndAdamW(tensors, config.optimizer)
    since: list[dict[str, float]] = []
    for step in range(config.n_steps):
        batch = draw_batch(streams, config.domain_shares, config.n_sequences, config.n_tokens + 1, rng)
        since.append(_backward(losses, torch.from_numpy(batch), config.bfloat16))
        optimizer.step(rate_factor(step, config.n_steps, n_warmup=config.n_warmup, decay_share=config.decay_share))
        if (step + 1) % config.report_every == 0 or step + 1 == config.n_steps:
            report(step + 1, {name: float(np.mean([found[name] for found in since])) for name in since[0]})
            since = []


def _backward(losses: Callable[[Any], dict[str, Any]], tokens: torch.Tensor, bfloat16: bool) -> dict[str, float]:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        found = losses(tokens)
    torch.stack(list(found.values())).sum().backward()
    return {name: float(loss.detach()) for name, loss in found.items()}
