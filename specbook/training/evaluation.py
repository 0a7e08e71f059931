"""Bits per byte on text that a model was not trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from specbook.engine.transformer_spec import TransformerSpec
from specbook.training.tokens import Tokens, TokenStreams, windows
from specbook.training.torch_model import Tensors, logits

CONTEXT = 512


def bits_per_byte_by_domain(
    spec: TransformerSpec, tensors: Tensors, streams: TokenStreams, max_windows: int | None = None
) -> dict[str, float]:
    """Bits per byte on the held-out stream of every domain.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : dict of str to tensor
    streams : TokenStreams
    max_windows : int, optional
        Windows of 512 tokens to read from the start of each stream; all by default.

    Returns
    -------
    dict of str to float
        By domain; a domain without held-out text is left out.
    """
    held_out = {domain: stream for (domain, split), stream in streams.streams.items() if split == "held_out"}
    return {
        domain: bits_per_byte(spec, tensors, list(windows(stream, CONTEXT))[:max_windows], streams.token_bytes)
        for domain, stream in held_out.items()
        if len(stream) > 1
    }


def bits_per_byte(
    spec: TransformerSpec, tensors: Tensors, sequences: Sequence[NDArray[np.int64]], token_bytes: Tokens
) -> float:
    r"""Information that the model needs a byte of text, the break between two documents counted as one.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : dict of str to tensor
    sequences : sequence of (n,) ndarray of int64
        At least two tokens each; the first of each is given, the others are predicted.
    token_bytes : (n_vocab,) ndarray of int32

    Returns
    -------
    float
        Bits, at least 0.

    Notes
    -----
    .. math:: \frac{-\sum_t \log_2 P(x_t \mid x_{<t})}{\sum_t \mathrm{bytes}(x_t)}
    """
    nats, n_bytes = 0.0, 0
    with torch.no_grad():
        for sequence in sequences:
            tokens = torch.from_numpy(sequence)
            found = logits(spec, tensors, tokens[None, :-1])[0]
            nats += float(functional.cross_entropy(found.double(), tokens[1:], reduction="sum"))
            n_bytes += int(token_bytes[sequence[1:]].sum())
    return nats / math.log(2.0) / n_bytes
