"""Which configurations no other one beats in latency, throughput and memory at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats

Mask = NDArray[np.bool_]


def pareto_mask(tpot_s: Floats, throughput_tokens_per_s: Floats, kv_bytes: Floats, candidates: Mask) -> Mask:
    """Points of each group that no other candidate of the group dominates.

    A point dominates another if it is no worse in all three and better in one; of equal points the first stays.

    Parameters
    ----------
    tpot_s, throughput_tokens_per_s, kv_bytes : (n_groups, n_points) ndarray of float64
        Less, more and less is better.
    candidates : (n_groups, n_points) ndarray of bool
        Points that take part; the others are never on a front.

    Returns
    -------
    (n_groups, n_points) ndarray of bool

    Raises
    ------
    ValueError
        If the shapes differ.

    References
    ----------
    kung1975

    Examples
    --------
    >>> tpot, throughput = np.array([[1.0, 2.0, 2.0]]), np.array([[1.0, 3.0, 2.0]])
    >>> pareto_mask(tpot, throughput, np.ones((1, 3)), np.ones((1, 3), dtype=bool))
    array([[ True,  True, False]])
    """
    shapes = {np.shape(each) for each in (tpot_s, throughput_tokens_per_s, kv_bytes, candidates)}
    if len(shapes) != 1:
        raise ValueError(f"all four arguments must have one shape; got {sorted(shapes)}")
    order = np.argsort(~candidates, axis=1, kind="stable")  # candidates first, each group's packed to the left
    order = order[:, : int(candidates.sum(axis=1).max(initial=0))]
    kept = np.take_along_axis(candidates, order, axis=1)
    costs = [_packed(values, order, kept) for values in (tpot_s, -throughput_tokens_per_s, kv_bytes)]
    front = kept & ~_dominated(costs)
    mask = np.zeros_like(candidates)
    np.put_along_axis(mask, order, front, axis=1)
    return mask


def _packed(values: Floats, order: Any, kept: Mask) -> Floats:
    return np.where(kept, np.take_along_axis(values, order, axis=1), np.inf)


def _dominated(costs: list[Floats]) -> Mask:
    """Which points another one is no worse than in every cost, and better in one or earlier."""
    dominated = np.zeros(costs[0].shape, dtype=bool)
    earlier = np.arange(costs[0].shape[1])
    for point in range(costs[0].shape[1]):
        against = [(cost, cost[:, point : point + 1]) for cost in costs]
        no_worse = np.ones_like(dominated)
        better = np.broadcast_to(earlier > point, dominated.shape).copy()
        for cost, own in against:
            no_worse &= own <= cost
            better |= own < cost
        dominated |= no_worse & better & np.isfinite(costs[0][:, point : point + 1])
    return dominated
