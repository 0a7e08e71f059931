"""What a round's drafting takes, by method; each is evaluated by the same step times as the target.

Every method is a cost paid once a round and a cost paid once a draft pass. A chain of K tokens takes K passes; a tree
takes as many as it is deep, each over the nodes of its level. Running what the last round accepted through the drafter
is carried along by its first pass. What an engine spends beside the passes, such as sampling, is in
:mod:`specbook.roofline.hosted`, and left out where no engine is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from specbook.checks import check_counts, check_non_negative
from specbook.roofline.draft_methods import METHODS, MethodName, costs_like
from specbook.roofline.drafter_cost import EAGLE3_VOCAB_SIZE, drafter_cost, drafter_weight_bytes
from specbook.roofline.step_time import StepTime

__all__ = [
    "EAGLE3_VOCAB_SIZE",
    "METHODS",
    "Drafter",
    "HostLookup",
    "Lookahead",
    "MethodName",
    "ParallelHeads",
    "SequentialDrafter",
    "costs_like",
    "drafter_cost",
    "drafter_of",
    "drafter_weight_bytes",
]


class Drafter(Protocol):
    """Seconds of drafting in a round, and the width of the verify pass."""

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of drafting ``n_nodes`` tokens, ``depth`` deep, in each of ``batch`` sequences; 0 for depth 0."""

    def verify_width(self, n_nodes: Any) -> Any:
        """Positions of each sequence in the verify pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SequentialDrafter:
    """One pass after the other: a small model, an EAGLE head, a layer that predicts further tokens.

    Attributes
    ----------
    step : StepTime
        One pass of it, output head included.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=example_rates())
    >>> drafter = SequentialDrafter(step=step)
    >>> print(f"{1e3 * drafter.seconds(4, 4, 1, 512):.2f} ms", drafter.verify_width(4))
    5.48 ms 5.0
    """

    step: StepTime

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of ``depth`` passes over a level of the tree each; a chain has one node a level."""
        width = xp.maximum(n_nodes / xp.maximum(depth, 1.0), 1.0)
        if isinstance(width, np.ndarray) and np.all(width == 1.0):
            width = 1.0  # chains share one pass, whatever their length: evaluated once
        return depth * self.step(width, batch, context, xp)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelHeads:
    """Medusa's heads: all at once from one hidden vector, so that a head costs its products and no pass of its own.

    Attributes
    ----------
    step : StepTime
        The products of one head.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> head = drafter_cost("medusa", model("Vicuna-7B-v1.3"), None, "bf16")
    >>> heads = ParallelHeads(step=CalibratedRoofline(cost=head, rates=example_rates()))
    >>> print(f"{1e3 * heads.seconds(4, 64, 1, 512):.2f} ms")
    0.43 ms
    """

    step: StepTime

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of ``depth`` heads, whatever tree their candidates form; the overhead of a pass counts once."""
        del n_nodes, context
        each = self.step(1.0, batch, 0.0, xp) - self.step.overhead_s
        return depth * each + xp.where(depth > 0.0, self.step.overhead_s, 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostLookup:
    """Prompt look-up or n-grams on the host processor, which the device waits for.

    Attributes
    ----------
    seconds_per_round : float
        Whatever is drafted: the call, and copying tokens to and from the device.
    seconds_per_context_token : float
        Searching one token of one sequence.

    Raises
    ------
    ValueError
        If a time is negative.

    Examples
    --------
    >>> print(f"{1e6 * HostLookup().seconds(8, 8, 4, 4096):.0f} µs")
    266 µs
    """

    seconds_per_round: float = 2e-4
    seconds_per_context_token: float = 4e-9

    def __post_init__(self) -> None:
        check_non_negative("seconds_per_round", self.seconds_per_round)
        check_non_negative("seconds_per_context_token", self.seconds_per_context_token)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one search in each sequence, whatever is found."""
        del n_nodes
        searched = self.seconds_per_round + self.seconds_per_context_token * batch * context
        return xp.where(depth > 0.0, searched, 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """One position for each node and one for the bonus token."""
        return n_nodes + 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookahead:
    """No drafter: guesses are refined in the target's own pass, which is wider for it.

    Attributes
    ----------
    window : int
        Columns of guesses.
    n_candidates : int
        Runs that a pass verifies.

    Raises
    ------
    ValueError
        If either is not a whole number of at least 1.

    Examples
    --------
    >>> Lookahead().verify_width(4), Lookahead().verify_width(0)
    (121.0, 1.0)
    """

    window: int = 15
    n_candidates: int = 15

    def __post_init__(self) -> None:
        check_counts("window", self.window, minimum=1)
        check_counts("n_candidates", self.n_candidates, minimum=1)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Nothing beside the verify pass."""
        del n_nodes, batch, context, xp
        return 0.0 * depth

    def verify_width(self, n_nodes: Any) -> Any:
        """The last token, a window of guesses and the runs to verify, each ``n_nodes`` long."""
        return n_nodes * (self.window + self.n_candidates) + 1.0


def drafter_of(method: MethodName, step: StepTime | None) -> Drafter:
    """The drafter of a method, from the step time of its cost.

    Raises
    ------
    ValueError
        If the method has weights and no step time is given.

    Examples
    --------
    >>> drafter_of("lookahead", None)
    Lookahead(window=15, n_candidates=15)
    """
    if method == "ngram":
        return HostLookup()
    if method == "lookahead":
        return Lookahead()
    if step is None:
        raise ValueError(f"a drafter by {method} needs a step time")
    return ParallelHeads(step=step) if method == "medusa" else SequentialDrafter(step=step)
