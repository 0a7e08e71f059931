"""The three configurations of a front that are worth a run on real hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats

ROLES = ("single-stream latency", "balanced", "high-load fallback")


def role_choices(
    tpot_s: Floats, throughput_tokens_per_s: Floats, candidates: NDArray[np.bool_], batch: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    r"""Points of each group for each of :data:`ROLES`.

    Single-stream latency is the least time per token at the smallest batch. Balanced is the point of the greatest
    power, throughput over time per token, over all batches: beyond it, latency rises faster than throughput. The
    fallback is the greatest throughput of all that fit, whatever the latency; not to speculate may win it.

    Parameters
    ----------
    tpot_s, throughput_tokens_per_s : (n_groups, n_points) ndarray of float64
    candidates : (n_groups, n_points) ndarray of bool
        Points that fit in memory.
    batch : (n_groups, n_points) ndarray of int

    Returns
    -------
    three (n_groups,) ndarrays of int64
        Index of a point; −1 where nothing fits.

    Notes
    -----
    .. math:: P = \frac{B / \mathrm{TPOT}}{\mathrm{TPOT}}

    References
    ----------
    kleinrock1979

    Examples
    --------
    >>> tpot, batch = np.array([[1.0, 1.1, 8.0]]), np.array([[1, 4, 64]])
    >>> [int(index[0]) for index in role_choices(tpot, batch / tpot, tpot > 0, batch)]
    [0, 1, 2]
    """
    smallest = candidates & (batch == np.where(candidates, batch, batch.max(initial=0)).min(axis=1, keepdims=True))
    power = _greatest(throughput_tokens_per_s / tpot_s, candidates)
    choices = (_greatest(-tpot_s, smallest), power, _greatest(throughput_tokens_per_s, candidates))
    nothing = ~candidates.any(axis=1)
    single, balanced, fallback = (np.where(nothing, -1, choice) for choice in choices)
    return single, balanced, fallback


def _greatest(values: Floats, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.asarray(np.where(allowed, values, -np.inf).argmax(axis=1))
