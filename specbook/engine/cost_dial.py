"""The cost dial: the same function, with more bytes really read.

A model of seven million parameters fits in a cache, so that a step is not memory-bound as it is on an accelerator.
Repeating the feed-forward weights R times makes it so: gate and up rows stand R times, down columns R times divided by
R. The function stays the same up to rounding; bytes read and arithmetic done are real. It is no larger model: say so
wherever it is used.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specbook.checks import check_counts
from specbook.engine.transformer_spec import TransformerSpec
from specbook.engine.weights import Float32s, Tensors


def replicate_feed_forward(
    spec: TransformerSpec, tensors: Tensors, replication: int
) -> tuple[TransformerSpec, dict[str, Float32s]]:
    """Spec and tensors with the feed-forward weights repeated.

    Parameters
    ----------
    spec : TransformerSpec
    tensors : mapping of str to ndarray
    replication : int
        R, at least 1; 1 changes nothing.

    Raises
    ------
    ValueError
        If ``replication`` is not a whole number of at least 1.

    Examples
    --------
    >>> from specbook.engine.library import load_target
    >>> load_target(replication=8).spec.n_feed_forward
    8192
    """
    times = int(check_counts("replication", replication, minimum=1))
    if times == 1:
        return spec, dict(tensors)
    changed = dict(tensors)
    for layer in range(spec.n_layers):
        prefix = f"layers.{layer}."
        gate, up = np.split(tensors[prefix + "gate_up"], 2)
        changed[prefix + "gate_up"] = np.concatenate([np.tile(gate, (times, 1)), np.tile(up, (times, 1))])
        changed[prefix + "down"] = np.tile(tensors[prefix + "down"] / np.float32(times), (1, times))
    return replace(spec, n_feed_forward=times * spec.n_feed_forward), changed
