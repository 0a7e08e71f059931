"""Passes and drafting inside an engine: the roofline's, and what the engine adds to them.

The engine's host prepares every draft pass and closes every round, and its kernels for few rows lengthen small passes.
How much is in :class:`~specbook.roofline.engine_overheads.EngineOverheads`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from specbook.checks import check_non_negative
from specbook.roofline.drafting import Drafter, ParallelHeads, SequentialDrafter
from specbook.roofline.engine_overheads import EngineOverheads
from specbook.roofline.step_time import StepTime

# llama.cpp multiplies up to so many rows as vectors, weight by weight (MMVQ_MAX_BATCH_SIZE, ggml-cuda/mmvq.cuh), and
# more as a matrix.
SMALL_ROWS = 8.0


def small_rows(tokens: Any, batch: Any) -> Any:
    """Rows that a pass has beyond a step's, as far as kernels for few rows take them.

    Parameters
    ----------
    tokens, batch : (...) array_like
        Positions of each sequence, and sequences.

    Returns
    -------
    (...) ndarray of float64

    References
    ----------
    llamacpp17034

    Examples
    --------
    >>> print(small_rows(np.array([1.0, 5.0, 17.0]), 1), small_rows(5.0, 4), small_rows(5.0, 8))
    [0. 4. 7.] 4.0 0.0
    """
    return np.minimum(np.multiply(tokens, 1.0) * batch, SMALL_ROWS) - np.minimum(np.multiply(batch, 1.0), SMALL_ROWS)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineStep:
    """A step time whose further rows take a share of the step more, as kernels of an engine for few rows do.

    Attributes
    ----------
    step : StepTime
    row_share : float
        Of a step, for each of :func:`small_rows`.

    Raises
    ------
    ValueError
        If the share is negative.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), rates=example_rates())
    >>> wide = EngineStep(step=step, row_share=0.2)
    >>> print(f"{wide(5, 1, 512) / wide(1, 1, 512):.2f}")
    1.80
    """

    step: StepTime
    row_share: float

    def __post_init__(self) -> None:
        check_non_negative("row_share", self.row_share)

    @property
    def kind(self) -> str:
        """That of the step."""
        return self.step.kind

    @property
    def overhead_s(self) -> Any:
        """That of the step."""
        return self.step.overhead_s

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one forward pass."""
        further = self.row_share * small_rows(tokens, batch)
        return self.step(tokens, batch, context, xp) + further * self.step(1.0, batch, context, xp)


def engine_step(overheads: EngineOverheads | None, step: StepTime) -> StepTime:
    """The step time inside an engine; the same where its kernels lose nothing.

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.1-8B"), "bf16"), rates=example_rates())
    >>> engine_step(None, step) is step
    True
    """
    if overheads is None or not overheads.row_share:
        return step
    return EngineStep(step=step, row_share=overheads.row_share)


def draft_passes(drafter: Drafter, depth: Any, xp: Any = np) -> Any:
    """Passes of a round that an engine prepares: one a level, one in all for heads that draft at once, else none.

    Parameters
    ----------
    drafter : Drafter
        Not inside an engine.
    depth : (...) array_like
    xp : namespace of arrays

    Examples
    --------
    >>> from specbook.roofline.calibrated import CalibratedRoofline, example_rates
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.pass_cost import step_cost
    >>> step = CalibratedRoofline(cost=step_cost(model("Llama-3.2-1B"), "bf16"), rates=example_rates())
    >>> [float(draft_passes(drafter(step=step), 4.0)) for drafter in (SequentialDrafter, ParallelHeads)]
    [4.0, 1.0]
    """
    if isinstance(drafter, SequentialDrafter):
        return depth
    return xp.where(depth > 0.0, 1.0, 0.0) if isinstance(drafter, ParallelHeads) else 0.0 * depth


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedDrafter:
    """A drafter inside an engine, whose host prepares every pass and closes every round.

    Attributes
    ----------
    drafter : Drafter
    pass_s : float
        Of each of :func:`draft_passes`, beyond its products.
    round_s : float
        Of each round: scheduling, preparing the verify pass, comparing, and taking back what was rejected.

    Raises
    ------
    ValueError
        If a time is negative.

    References
    ----------
    specbundle

    Examples
    --------
    >>> from specbook.roofline.drafting import HostLookup
    >>> print(f"{1e6 * HostedDrafter(drafter=HostLookup(), pass_s=1e-4, round_s=5e-4).seconds(8, 8, 1, 0):.0f} µs")
    700 µs
    """

    drafter: Drafter
    pass_s: float
    round_s: float

    def __post_init__(self) -> None:
        check_non_negative("pass_s", self.pass_s)
        check_non_negative("round_s", self.round_s)

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of drafting, and of what the engine does beside it."""
        drafting_s = self.drafter.seconds(depth, n_nodes, batch, context, xp)
        passes_s = draft_passes(self.drafter, depth, xp) * self.pass_s
        return drafting_s + passes_s + xp.where(depth > 0.0, self.round_s, 0.0)

    def verify_width(self, n_nodes: Any) -> Any:
        """As without an engine."""
        return self.drafter.verify_width(n_nodes)


def sequential_part(drafter: Drafter) -> SequentialDrafter | None:
    """The drafter whose passes follow one another, inside an engine or not; None for one that drafts otherwise.

    Examples
    --------
    >>> from specbook.roofline.drafting import HostLookup
    >>> sequential_part(HostedDrafter(drafter=HostLookup(), pass_s=1e-4, round_s=5e-4)) is None
    True
    """
    bare = drafter.drafter if isinstance(drafter, HostedDrafter) else drafter
    return bare if isinstance(bare, SequentialDrafter) else None


def engine_drafter(overheads: EngineOverheads | None, drafter: Drafter) -> Drafter:
    """The drafter inside an engine; the same where the engine spends nothing beside its passes.

    Examples
    --------
    >>> from specbook.roofline.drafting import Lookahead
    >>> engine_drafter(None, Lookahead())
    Lookahead(window=15, n_candidates=15)
    """
    if overheads is None or not (overheads.draft_pass_s or overheads.round_s):
        return drafter
    return HostedDrafter(drafter=drafter, pass_s=overheads.draft_pass_s, round_s=overheads.round_s)
