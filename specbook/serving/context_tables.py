"""Step times tabulated over the context, with more nodes where they bend.

A simulation asks for a hundred thousand iterations, and a step time takes as long for one context as for a hundred.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import BadInput, Floats, check_counts
from specbook.roofline.measured_steps import MeasuredSteps
from specbook.serving.per_token_prefill import PerTokenPrefill

NODE_TOKENS = 64
# Relative, and far above rounding: what is off a straight line by more is a bend, and is closed in on to 1/64 token.
_STRAIGHT = 1e-9
_CLOSEST_TOKENS = 1 / 64
# Each takes a few kilobytes; a run that meets more different batches than that forgets them all and goes on.
_MOST_TABLES = 4096


def context_nodes(low_tokens: int, high_tokens: int, step: Any = None) -> Floats:
    """Contexts at which to evaluate a step time, so that it is straight between most of them.

    Parameters
    ----------
    low_tokens, high_tokens : int
        First and last node.
    step : StepTime, optional
        Measured times bend at the contexts that were measured and nowhere else, and a time that does not depend on
        the context needs the ends alone; for others the nodes are 64 apart.

    Returns
    -------
    (n,) ndarray of float64
        Rising.

    Raises
    ------
    ValueError
        If ``high_tokens`` is below ``low_tokens``, or one of them is negative.

    Examples
    --------
    >>> print(context_nodes(0, 200))
    [  0.  64. 128. 192. 200.]
    """
    check_context_range(low_tokens, high_tokens)
    ends = np.array([low_tokens, high_tokens], dtype=np.float64)
    if isinstance(step, PerTokenPrefill):
        return np.unique(ends)
    if isinstance(step, MeasuredSteps):
        return np.union1d(ends, step.context[(step.context > low_tokens) & (step.context < high_tokens)])
    apart_tokens = min(NODE_TOKENS, max(1, (high_tokens - low_tokens) // 2))
    return np.union1d(ends, np.arange(low_tokens, high_tokens, apart_tokens, dtype=np.float64))


def check_context_range(low_tokens: int, high_tokens: int) -> None:
    """Raise if contexts from ``low_tokens`` to ``high_tokens`` are none.

    Examples
    --------
    >>> check_context_range(64, 0)
    Traceback (most recent call last):
        ...
    ValueError: max_context_tokens must be at least min_context_tokens, which is 64; got 0
    """
    check_counts("min_context_tokens", low_tokens)
    check_counts("max_context_tokens", high_tokens)
    if high_tokens < low_tokens:
        raise ValueError(
            f"max_context_tokens must be at least min_context_tokens, which is {low_tokens}; got {high_tokens}"
        )


def table_over_context(seconds: Callable[[Floats], Any], nodes: Floats) -> tuple[Floats, Floats]:
    """The nodes and more where ``seconds`` bends between them, with its values.

    Parameters
    ----------
    seconds : callable
        Takes an array of contexts in tokens.
    nodes : (n,) ndarray of float64
        Rising.

    Returns
    -------
    contexts : (m,) ndarray of float64
        Rising; m is n where all is straight.
    values : (m,) ndarray of float64
        Seconds.

    Notes
    -----
    A roofline bends where memory and arithmetic take turns, and steps where a cache no longer fits. Intervals beside a
    node that is off the line between its neighbours are halved, until their middle is on the line or 1/64 token is
    left. A straight time costs one call.

    Examples
    --------
    >>> contexts, values = table_over_context(lambda context: np.maximum(1.0, context / 100.0), context_nodes(0, 256))
    >>> print(f"{np.interp(100.1, contexts, values):.5f}")
    1.00100
    """
    values = evaluated(seconds, nodes)
    found = [(nodes, values)]
    beside = _beside_bends(nodes, values)
    ends, heights = (np.stack([each[:-1][beside], each[1:][beside]]) for each in (nodes, values))
    while ends.size:
        middle, line = ends.mean(axis=0), heights.mean(axis=0)
        height = evaluated(seconds, middle)
        found.append((middle, height))
        bent = (np.abs(height - line) > _STRAIGHT * height) & (ends[1] - ends[0] > _CLOSEST_TOKENS)
        ends, heights = _halves(ends, middle, bent), _halves(heights, height, bent)
    contexts, all_values = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(contexts)
    return contexts[order], all_values[order]


def _beside_bends(nodes: Floats, values: Floats) -> NDArray[np.bool_]:
    """Which intervals end in a node that is off the line between its neighbours."""
    bent = np.zeros(nodes.size, dtype=np.bool_)
    if nodes.size > 2:
        share = (nodes[1:-1] - nodes[:-2]) / (nodes[2:] - nodes[:-2])
        line = values[:-2] + share * (values[2:] - values[:-2])
        bent[1:-1] = np.abs(values[1:-1] - line) > _STRAIGHT * values[1:-1]
    return bent[:-1] | bent[1:]


def _halves(ends: Floats, middle: Floats, chosen: NDArray[np.bool_]) -> Floats:
    left, right, between = ends[0, chosen], ends[1, chosen], middle[chosen]
    return np.stack([np.concatenate([left, between]), np.concatenate([between, right])])


def evaluated(seconds: Callable[[Floats], Any], contexts: Floats) -> Floats:
    """Seconds at some contexts, and one line where the step time does not reach so far.

    Parameters
    ----------
    seconds : callable
        Takes an array of contexts in tokens.
    contexts : (n,) ndarray of float64

    Returns
    -------
    (n,) ndarray of float64
        Seconds.

    Raises
    ------
    BadInput
        If ``seconds`` refuses what it is asked.

    Examples
    --------
    >>> evaluated(lambda context: 1.0, np.zeros(2))
    array([1., 1.])
    """
    try:
        return np.array(np.broadcast_to(seconds(contexts), contexts.shape), dtype=np.float64)
    except ValueError as error:
        remedy = "bring a step time that reaches so far, or keep the simulation within it"
        raise BadInput(str(error), field="step time", remedy=remedy) from None


@dataclass(frozen=True, kw_only=True)
class ContextTables:
    """A time over context, tabulated for each setting that somebody asks for.

    Attributes
    ----------
    seconds : callable
        Takes the numbers of a setting, such as width and batch, and an array of contexts in tokens.
    nodes : (n,) ndarray of float64
        As :func:`context_nodes` gives them.

    Examples
    --------
    >>> tables = ContextTables(seconds=lambda width, context: width + context / 100.0, nodes=context_nodes(0, 256))
    >>> print(tables.at((2,), np.array([0.0, 50.0])))
    [2.  2.5]
    """

    seconds: Callable[..., Any]
    nodes: Floats
    _tables: dict[tuple[float, ...], tuple[Floats, Floats]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def at(self, setting: tuple[float, ...], context_tokens: Any) -> Any:
        """Seconds in one setting.

        Parameters
        ----------
        setting : tuple of float
        context_tokens : float, or (n,) ndarray of float64

        Returns
        -------
        float64, or (n,) ndarray of float64
            As many as contexts.

        Raises
        ------
        BadInput
            If a context lies outside the nodes, or the step time refuses the setting.
        """
        table = self._tables.get(setting)
        if table is None:
            table = self._tabulated(setting)
        seconds = np.interp(context_tokens, *table, left=np.nan, right=np.nan)
        if math.isnan(seconds.max(initial=0.0)):
            raise self._outside(context_tokens)
        return seconds

    def _tabulated(self, setting: tuple[float, ...]) -> tuple[Floats, Floats]:
        if len(self._tables) >= _MOST_TABLES:
            self._tables.clear()
        table = table_over_context(lambda context: self.seconds(*setting, context), self.nodes)
        self._tables[setting] = table
        return table

    def _outside(self, context_tokens: Any) -> BadInput:
        values = np.ravel(context_tokens)
        value = values[~((values >= self.nodes[0]) & (values <= self.nodes[-1]))][0]
        problem = f"must lie in [{self.nodes[0]:g}, {self.nodes[-1]:g}], which is tabulated"
        return BadInput(problem, field="context_tokens", value=float(value), remedy="raise max_context_tokens")


def by_distinct(settings: NDArray[Any], context_tokens: Floats, seconds: Callable[[float, Floats], Floats]) -> Floats:
    """Seconds of several settings, each asked for once with all its contexts.

    Parameters
    ----------
    settings : (...) ndarray
    context_tokens : (...) ndarray of float64
        Of the same shape.
    seconds : callable
        Takes one setting and an array of its contexts, of one axis.

    Returns
    -------
    (...) ndarray of float64
        Seconds, in the order of the arguments.

    Examples
    --------
    >>> by_distinct(np.array([2, 1, 2]), np.array([10.0, 20.0, 30.0]), lambda width, context: width * context)
    array([20., 20., 60.])
    """
    result = np.empty(context_tokens.shape)
    for setting in np.unique(settings):
        chosen = settings == setting
        result[chosen] = seconds(setting.item(), context_tokens[chosen])
    return result
