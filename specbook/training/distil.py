"""Distillation: everything that drafts learns the whole distribution of the target, as it is stored, not the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from specbook.training.sizes import ModelSizes
from specbook.training.tokens import TokenStreams
from specbook.training.torch_model import (
    EMBEDDING_SCALE,
    Tensors,
    eagle_features,
    embedded,
    exit_features,
    features,
    for_training,
    initial_eagle,
    initial_medusa,
    initial_transformer,
    logits,
    logits_of_features,
    medusa_features,
    residual_streams,
)
from specbook.training.train_target import Report, TrainingConfig, run

# Weights of the losses: the EAGLE-like head also copies features, and is run once on its own output.
_FEATURE_WEIGHT = 0.1
_SECOND_STEP_WEIGHT = 0.6


@dataclass(frozen=True, kw_only=True)
class Drafters:
    """Weights of all that drafts for one target, by the names under which they are stored."""

    draft: Tensors
    eagle: Tensors
    medusa: Tensors


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What the target says of a batch: its streams, its features, and its distribution of the next token."""

    streams: list[torch.Tensor]
    given: torch.Tensor
    probability: torch.Tensor


def distil(
    sizes: ModelSizes,
    target: Tensors,
    streams: TokenStreams,
    config: TrainingConfig,
    rng: np.random.Generator,
    report: Report,
) -> Drafters:
    r"""Train the small draft model, the EAGLE-like head, the Medusa-like heads and the early exits together.

    Parameters
    ----------
    sizes : ModelSizes
    target : dict of str to tensor
        The target's weights as they are read back from their file, int8 rows dequantised. They stay as they are.
    streams : TokenStreams
    config : TrainingConfig
    rng : numpy.random.Generator
        Draws the first weights and the batches.
    report : callable
        Receives the steps done and the mean losses since the last time.

    Returns
    -------
    Drafters

    Notes
    -----
    Each loss is the cross-entropy of the target's distribution P and the drafter's Q, whose least value is P's entropy:

    .. math:: -\sum_x P(x) \log Q(x)

    References
    ----------
    hinton2015; eagle2024 for the features and the step on the head's own output.
    """
    drafters = Drafters(
        draft=for_training(initial_transformer(sizes.draft, rng)),
        eagle=for_training(initial_eagle(sizes, rng)),
        medusa=for_training(initial_medusa(sizes)),
    )

    def losses(tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        tokens = tokens[:, :-1]
        lesson = _lesson(sizes, target, tokens)
        return {
            "draft": soft_cross_entropy(logits(sizes.draft, drafters.draft, tokens), lesson.probability),
            **_eagle_losses(sizes, target, drafters.eagle, lesson, tokens),
            **_medusa_losses(sizes, target, drafters.medusa, lesson),
        }

    run(_named(drafters), losses, streams, config, rng, report)
    return drafters


def soft_cross_entropy(found: torch.Tensor, probability: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats of logits (…, n_vocab) against distributions of the same shape."""
    return -(probability * functional.log_softmax(found.float(), dim=-1)).sum(dim=-1).mean()


def _lesson(sizes: ModelSizes, target: Tensors, tokens: torch.Tensor) -> Lesson:
    with torch.no_grad():
        streams = residual_streams(sizes.target, target, embedded(target, tokens))
        given = features(sizes.target, target, streams[-1])
        probability = functional.softmax(logits_of_features(target, given).float(), dim=-1)
    return Lesson(streams=streams, given=given, probability=probability)


def _eagle_losses(
    sizes: ModelSizes, target: Tensors, eagle: Tensors, lesson: Lesson, tokens: torch.Tensor
) -> dict[str, torch.Tensor]:
    """From features and the next token, the distribution of the token after it; then once more from its own output."""
    known = embedded(target, tokens)
    first = eagle_features(sizes.eagle, eagle, known[:, 1:], lesson.given[:, :-1], EMBEDDING_SCALE)
    second = eagle_features(sizes.eagle, eagle, known[:, 2:], first[:, :-1], EMBEDDING_SCALE)
    distance = functional.smooth_l1_loss(first.float(), lesson.given[:, 1:].float())
    second_loss = soft_cross_entropy(logits_of_features(target, second), lesson.probability[:, 2:])
    return {
        "eagle": soft_cross_entropy(logits_of_features(target, first), lesson.probability[:, 1:]),
        "eagle features": _FEATURE_WEIGHT * distance,
        "eagle second step": _SECOND_STEP_WEIGHT * second_loss,
    }


def _medusa_losses(sizes: ModelSizes, target: Tensors, medusa: Tensors, lesson: Lesson) -> dict[str, torch.Tensor]:
    """Each head against the distribution so many places on, each exit against the one at its own place."""
    losses = {}
    for head in range(sizes.n_medusa_heads):
        ahead = head + 1
        after = medusa_features(medusa, head, lesson.given[:, :-ahead])
        losses[f"head {head}"] = soft_cross_entropy(logits_of_features(target, after), lesson.probability[:, ahead:])
    for index in range(sizes.n_exits):
        after = exit_features(sizes.target, target, medusa, index, lesson.streams[index + 1])
        losses[f"exit {index}"] = soft_cross_entropy(logits_of_features(target, after), lesson.probability)
    return losses


def _named(drafters: Drafters) -> Tensors:
    """All tensors under one set of names, whose ends tell the optimizer what they are."""
    parts: Mapping[str, Tensors] = {"draft": drafters.draft, "eagle": drafters.eagle, "medusa": drafters.medusa}
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}
