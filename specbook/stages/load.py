"""The load that stage 4 puts on every device: recorded requests as they came, or drawn ones at a rate that suits it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from specbook.checks import check_positive
from specbook.serving.iteration_time import IterationTime
from specbook.serving.workload import Workload


@dataclass(frozen=True, kw_only=True, eq=False)
class FunnelLoad:
    """Requests, and how fast they come.

    Attributes
    ----------
    workload : Workload
        As it is simulated; or, of a drawn load without a rate, at one request a second.
    mean_batch : float or None
        Requests that shall run at once, in the mean, on the device without speculation: each device then gets a rate
        of its own. None: the workload as it is.
    about : mapping
        Where the requests come from, as JSON can say it: a trace by its SHA-256, or the laws of a drawn load.
    notes : tuple of str

    Raises
    ------
    ValueError
        If ``mean_batch`` is not above 0.
    """

    workload: Workload
    mean_batch: float | None
    about: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mean_batch is not None:
            check_positive("mean_batch", self.mean_batch)

    @property
    def inputs(self) -> dict[str, Any]:
        """What identifies the load in a manifest."""
        return {**self.about, "mean_batch": self.mean_batch, "requests_sha256": _digest(self.workload)}

    @property
    def mean_prompt_tokens(self) -> float:
        """Tokens of a prompt, in the mean."""
        return float(self.workload.prompt_tokens.mean())

    @property
    def mean_output_tokens(self) -> float:
        """Tokens of an output, in the mean."""
        return float(self.workload.output_tokens.mean())

    @property
    def typical_context_tokens(self) -> float:
        """Context of a sequence half-way through its output, in the mean."""
        return self.mean_prompt_tokens + self.mean_output_tokens / 2

    @property
    def longest_tokens(self) -> int:
        """Prompt and output of the longest request."""
        return int((self.workload.prompt_tokens + self.workload.output_tokens).max())

    def on(self, iteration_time: IterationTime) -> Workload:
        """The requests that a device meets, whose iterations without speculation take so long."""
        if self.mean_batch is None:
            return self.workload
        return self.workload.scaled(1.0 / rate_for_batch(iteration_time, self, self.mean_batch))


def rate_for_batch(iteration_time: IterationTime, load: FunnelLoad, mean_batch: float) -> float:
    r"""Requests a second that keep so many requests running, in the mean.

    Parameters
    ----------
    iteration_time : IterationTime
        Of the engine without speculation.
    load : FunnelLoad
        Its mean lengths count.
    mean_batch : float
        Requests in an iteration.

    Notes
    -----
    .. math:: \lambda = \frac{B}{n\,t_B + B\,t_p}

    Little's law, :math:`B = \lambda W`, with n output tokens of one iteration each, :math:`t_B` an iteration of B
    decodes at the mean context, and :math:`t_p` what a prompt adds to one. While a request stays, :math:`\lambda W = B`
    others bring their prompts, which lengthen its stay: :math:`W = n\,t_B + B\,t_p`. Means stand for the
    distributions of lengths and batches, so that the simulated batch is near B and not B.

    References
    ----------
    little1961

    Examples
    --------
    >>> from specbook.serving.iteration_time import AffineIterationTime
    >>> load = example_load()
    >>> affine = AffineIterationTime(c0_ms=10.0, c1_ms=0.0, c2_ms=0.0, c3_ms=0.0)
    >>> round(rate_for_batch(affine, load, 8.0), 6) == round(8.0 / (load.mean_output_tokens * 0.010), 6)
    True
    """
    n_decodes = max(1, round(mean_batch))
    context_tokens = round(n_decodes * load.typical_context_tokens)
    prompt = (max(1, round(load.mean_prompt_tokens)), 0)
    decode_s = float(iteration_time.decode_seconds(n_decodes, n_decodes, np.array([context_tokens]))[0])
    with_prompt_s = iteration_time.mixed_seconds(n_decodes, n_decodes, context_tokens, [prompt])
    prompt_s = max(0.0, with_prompt_s - decode_s)
    return mean_batch / (load.mean_output_tokens * decode_s + mean_batch * prompt_s)


def _digest(workload: Workload) -> str:
    """SHA-256 of all requests, the same on every machine."""
    digest = hashlib.sha256()
    digest.update(workload.arrival_s.astype("<f8").tobytes())
    digest.update(workload.prompt_tokens.astype("<i8").tobytes())
    digest.update(workload.output_tokens.astype("<i8").tobytes())
    return digest.hexdigest()


def example_load() -> FunnelLoad:
    """Two hundred drawn requests of mixed lengths, for examples.

    Examples
    --------
    >>> example_load().workload.n_requests
    200
    """
    from specbook.serving.arrivals import PoissonArrivals
    from specbook.serving.lengths import LogNormalLength
    from specbook.serving.workload import make_workload

    workload = make_workload(
        arrivals=PoissonArrivals(requests_per_s=1.0),
        prompts=LogNormalLength(median=256, sigma=0.6, maximum=2048),
        outputs=LogNormalLength(median=96, sigma=0.6, maximum=512),
        n_requests=200,
        rng=np.random.default_rng(1),
        name="poisson",
    )
    return FunnelLoad(workload=workload, mean_batch=8.0, about={"arrivals": "poisson"})
