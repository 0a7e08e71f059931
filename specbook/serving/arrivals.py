"""When requests arrive: the gaps between them, or clients that wait for their answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from specbook.checks import Floats, check_counts, check_non_negative, check_positive


class Arrivals(Protocol):
    """What every law of arrivals offers: a name, and gaps.

    The first gap is the time before the first request: drawn like the others where gaps are random, so that time 0 is
    any instant, and 0 where they are not.
    """

    name: ClassVar[str]

    def gaps_s(self, n: int, rng: np.random.Generator) -> Floats:
        """Time before each of ``n`` requests since the one before, (n,) ndarray of float64, seconds, at least 0."""
        ...


@dataclass(frozen=True, kw_only=True)
class PoissonArrivals:
    r"""Independent requests: exponential gaps, however long.

    Attributes
    ----------
    requests_per_s : float
        Mean rate, greater than 0.

    Raises
    ------
    ValueError
        If the rate is not positive and finite.

    Notes
    -----
    .. math:: P(G > t) = e^{-\lambda t}

    Gaps are never cut. A generator that cuts them at c means has the mean gap (1 - exp(-c)) / λ and so offers more than
    it says: 5.24 % more at the 3 means of Vidur's.

    References
    ----------
    vidur2024

    Examples
    --------
    >>> PoissonArrivals(requests_per_s=4.0).gaps_s(3, np.random.default_rng(0)).shape
    (3,)
    """

    name: ClassVar[str] = "poisson"
    requests_per_s: float

    def __post_init__(self) -> None:
        check_positive("requests_per_s", self.requests_per_s)

    def gaps_s(self, n: int, rng: np.random.Generator) -> Floats:
        """Gaps, (n,) ndarray of float64, seconds."""
        return rng.exponential(1.0 / self.requests_per_s, _whole(n))


@dataclass(frozen=True, kw_only=True)
class GammaArrivals:
    r"""Requests in bursts, or more even than independent ones: gamma gaps.

    Attributes
    ----------
    requests_per_s : float
        Mean rate, greater than 0.
    burstiness : float
        Shape of the gamma law, greater than 0, as ``vllm bench serve --burstiness`` takes it: 1 is a Poisson process,
        less is burstier, more is more even.

    Raises
    ------
    ValueError
        If either is not positive and finite.

    Notes
    -----
    .. math:: E[G] = \frac{1}{\lambda}, \qquad \mathrm{CV}^2[G] = \frac{1}{b}

    vLLM stretches the gaps it drew until the last request is sent at n / λ; here they stay as drawn.

    Examples
    --------
    >>> GammaArrivals(requests_per_s=4.0, burstiness=0.25).gaps_s(3, np.random.default_rng(0)).shape
    (3,)
    """

    name: ClassVar[str] = "gamma"
    requests_per_s: float
    burstiness: float

    def __post_init__(self) -> None:
        check_positive("requests_per_s", self.requests_per_s)
        check_positive("burstiness", self.burstiness)

    def gaps_s(self, n: int, rng: np.random.Generator) -> Floats:
        """Gaps, (n,) ndarray of float64, seconds."""
        scale_s = 1.0 / self.requests_per_s / self.burstiness
        return rng.gamma(self.burstiness, scale_s, _whole(n))


@dataclass(frozen=True, kw_only=True)
class ConstantArrivals:
    """One request every 1 / rate seconds, the first at 0.

    Attributes
    ----------
    requests_per_s : float
        Greater than 0.

    Raises
    ------
    ValueError
        If the rate is not positive and finite.

    Examples
    --------
    >>> print(ConstantArrivals(requests_per_s=4.0).gaps_s(3, np.random.default_rng(0)))
    [0.   0.25 0.25]
    """

    name: ClassVar[str] = "constant"
    requests_per_s: float

    def __post_init__(self) -> None:
        check_positive("requests_per_s", self.requests_per_s)

    def gaps_s(self, n: int, rng: np.random.Generator) -> Floats:  # noqa: ARG002 - the protocol's
        """Gaps, (n,) ndarray of float64, seconds."""
        gaps_s = np.full(_whole(n), 1.0 / self.requests_per_s)
        gaps_s[:1] = 0.0
        return gaps_s


@dataclass(frozen=True, kw_only=True)
class TogetherArrivals:
    """All requests at 0: a backlog, as an offline run has it.

    Examples
    --------
    >>> print(TogetherArrivals().gaps_s(3, np.random.default_rng(0)))
    [0. 0. 0.]
    """

    name: ClassVar[str] = "together"

    def gaps_s(self, n: int, rng: np.random.Generator) -> Floats:  # noqa: ARG002 - the protocol's
        """Gaps, (n,) ndarray of float64, seconds."""
        return np.zeros(_whole(n))


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """Clients that each send their next request some time after the last one ended; the simulator drives them.

    A closed loop offers no more than the server takes, and so hides a queue that an open one would show.

    Attributes
    ----------
    n_clients : int
        At least 1; so many requests are in flight at most.
    think_s : float
        From the end of a client's request to its next one, seconds, at least 0.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> ClosedLoop(n_clients=8)
    ClosedLoop(n_clients=8, think_s=0.0)
    """

    name: ClassVar[str] = "closed-loop"
    n_clients: int
    think_s: float = 0.0

    def __post_init__(self) -> None:
        check_counts("n_clients", self.n_clients, minimum=1)
        check_non_negative("think_s", self.think_s)


def _whole(n: int) -> int:
    return int(check_counts("n", n))
