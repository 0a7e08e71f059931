"""A workload: when requests arrive, how long their prompts are, and how many tokens they ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats, check_counts, check_non_negative, check_positive
from specbook.serving.arrivals import Arrivals
from specbook.serving.lengths import Lengths, check_tokens

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Requests in order of their arrival. The arrays are copied and cannot be written to.

    Attributes
    ----------
    arrival_s : (n,) ndarray of float64
        Instant of each arrival, seconds; at least 0 and never falling.
    prompt_tokens : (n,) ndarray of int64
        Tokens of each prompt, at least 1.
    output_tokens : (n,) ndarray of int64
        Tokens that each request generates, the first included; at least 1.
    name : str
        What it is called in results.

    Raises
    ------
    ValueError
        If there is no request, the lengths of the arrays differ, an arrival is negative, not finite or before its
        predecessor, or a count of tokens is not a whole number of at least 1.

    Examples
    --------
    >>> load = Workload(arrival_s=[0.0, 1.0, 4.0], prompt_tokens=[9, 5, 7], output_tokens=[3, 4, 2])
    >>> load.n_requests, load.duration_s, load.rate_per_s
    (3, 4.0, 0.5)
    """

    arrival_s: Floats
    prompt_tokens: Integers
    output_tokens: Integers
    name: str = "workload"

    def __post_init__(self) -> None:
        arrival_s = check_non_negative("arrival_s", self.arrival_s)
        prompt_tokens = check_tokens("prompt_tokens", self.prompt_tokens)
        output_tokens = check_tokens("output_tokens", self.output_tokens)
        shapes = (arrival_s.shape, prompt_tokens.shape, output_tokens.shape)
        if arrival_s.ndim != 1 or len(set(shapes)) > 1:
            raise ValueError(f"arrivals, prompts and outputs must be lists of one length; got the shapes {shapes}")
        if arrival_s.size == 0:
            raise ValueError("a workload must hold at least 1 request; got 0")
        _check_order(arrival_s)
        self._keep("arrival_s", arrival_s)
        self._keep("prompt_tokens", prompt_tokens)
        self._keep("output_tokens", output_tokens)

    def _keep(self, name: str, array: NDArray[Any]) -> None:
        own = array.copy()
        own.setflags(write=False)
        object.__setattr__(self, name, own)

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return int(self.arrival_s.size)

    @property
    def duration_s(self) -> float:
        """Time from the first arrival to the last, seconds."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_per_s(self) -> float:
        """Gaps between arrivals ÷ the time they span, requests per second; infinite if all arrive at one instant."""
        return (self.n_requests - 1) / self.duration_s if self.duration_s > 0.0 else math.inf

    def scaled(self, time_factor: float) -> Workload:
        """The same requests with every arrival multiplied, so that 0.5 is twice the load.

        Parameters
        ----------
        time_factor : float
            Greater than 0.

        Raises
        ------
        ValueError
            If the factor is not positive and finite, or takes an arrival beyond what a float holds.

        Examples
        --------
        >>> load = Workload(arrival_s=[0.0, 2.0], prompt_tokens=[9, 5], output_tokens=[3, 4])
        >>> print(load.scaled(0.5).arrival_s)
        [0. 1.]
        """
        factor = float(check_positive("time_factor", time_factor))
        with np.errstate(over="ignore"):  # an infinite arrival is refused below
            arrival_s = self.arrival_s * factor
        return self._with(arrival_s, slice(None))

    def at_rate(self, requests_per_s: float) -> Workload:
        """The same requests, with time scaled so that :attr:`rate_per_s` is this.

        Raises
        ------
        ValueError
            If the rate is not positive, or all requests arrive at one instant: no factor gives those a rate.

        Examples
        --------
        >>> load = Workload(arrival_s=[0.0, 2.0, 10.0], prompt_tokens=[9, 5, 7], output_tokens=[3, 4, 2])
        >>> print(load.at_rate(2.0).arrival_s)
        [0.  0.2 1. ]
        """
        rate = float(check_positive("requests_per_s", requests_per_s))
        if self.duration_s == 0.0:
            raise ValueError("requests_per_s needs arrivals at two instants or more; all requests arrive at one")
        return self.scaled(self.rate_per_s / rate)

    def first(self, n: int) -> Workload:
        """The first ``n`` requests.

        Raises
        ------
        ValueError
            If ``n`` is below 1, or there are fewer.

        Examples
        --------
        >>> load = Workload(arrival_s=[0.0, 2.0], prompt_tokens=[9, 5], output_tokens=[3, 4])
        >>> load.first(1).n_requests
        1
        """
        count = int(check_counts("n", n, minimum=1))
        if count > self.n_requests:
            raise ValueError(f"n must be at most the {self.n_requests} requests there are; got {count}")
        return self._with(self.arrival_s[:count], slice(count))

    def _with(self, arrival_s: Floats, kept: slice) -> Workload:
        return Workload(
            arrival_s=arrival_s,
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            name=self.name,
        )


def _check_order(arrival_s: Floats) -> None:
    falls = np.flatnonzero(np.diff(arrival_s) < 0.0)
    if falls.size:
        place = int(falls[0]) + 1
        raise ValueError(f"arrival_s must not fall; got {arrival_s[place]!s} after {arrival_s[place - 1]!s}")


def make_workload(
    *,
    arrivals: Arrivals,
    prompts: Lengths,
    outputs: Lengths,
    n_requests: int,
    rng: np.random.Generator,
    name: str = "workload",
) -> Workload:
    """Draw a workload.

    Arrivals, prompts and outputs each draw from a stream of their own, spawned from ``rng``: what one of them is leaves
    the draws of the others as they were, and the first requests are the same however many follow.

    Parameters
    ----------
    arrivals : Arrivals
        The law of the gaps between requests.
    prompts, outputs : Lengths
        The laws of their lengths, tokens.
    n_requests : int
        At least 1.
    rng : numpy.random.Generator
    name : str

    Raises
    ------
    ValueError
        If the number of requests is below 1, or the law of the arrivals reaches beyond what a float holds.

    Examples
    --------
    >>> from specbook.serving.arrivals import ConstantArrivals
    >>> from specbook.serving.lengths import FixedLength
    >>> load = make_workload(
    ...     arrivals=ConstantArrivals(requests_per_s=2.0),
    ...     prompts=FixedLength(value=100),
    ...     outputs=FixedLength(value=10),
    ...     n_requests=3,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> print(load.arrival_s, load.prompt_tokens)
    [0.  0.5 1. ] [100 100 100]
    """
    n = int(check_counts("n_requests", n_requests, minimum=1))
    for_arrivals, for_prompts, for_outputs = rng.spawn(3)
    return Workload(
        arrival_s=np.cumsum(arrivals.gaps_s(n, for_arrivals)),
        prompt_tokens=prompts.tokens(n, for_prompts),
        output_tokens=outputs.tokens(n, for_outputs),
        name=name,
    )
