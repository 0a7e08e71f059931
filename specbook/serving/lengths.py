"""How long prompts and outputs are: laws to draw tokens from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.checks import check_counts, check_non_negative, check_positive

# No context holds more. Sums over any trace stay exact, in float64 as in int64.
MAX_TOKENS = 2**24

Integers = NDArray[np.int64]


def check_tokens(name: str, value: ArrayLike) -> Integers:
    """Return ``value`` as int64, or raise if an entry is no whole number in [1, 2**24].

    Examples
    --------
    >>> check_tokens("prompt_tokens", [1, 4096])
    array([   1, 4096])
    """
    tokens = check_counts(name, value, minimum=1)
    if tokens.size and tokens.max() > MAX_TOKENS:
        raise ValueError(f"{name} must be at most {MAX_TOKENS}; got {tokens.max()}")
    return tokens


class Lengths(Protocol):
    """What every law of lengths offers: a name, and tokens."""

    name: ClassVar[str]

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:
        """Lengths of ``n`` requests, (n,) ndarray of int64, tokens, in [1, 2**24]."""
        ...


@dataclass(frozen=True, kw_only=True)
class FixedLength:
    """Every request has one length.

    Attributes
    ----------
    value : int
        Tokens, at least 1.

    Raises
    ------
    ValueError
        If it is out of range.

    Examples
    --------
    >>> print(FixedLength(value=512).tokens(2, np.random.default_rng(0)))
    [512 512]
    """

    name: ClassVar[str] = "fixed"
    value: int

    def __post_init__(self) -> None:
        check_tokens("value", self.value)

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:  # noqa: ARG002 - the protocol's
        """Lengths, (n,) ndarray of int64, tokens."""
        return np.full(_whole(n), self.value, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class UniformLength:
    """Every length between two is as likely.

    Attributes
    ----------
    low, high : int
        Fewest and most tokens, both included.

    Raises
    ------
    ValueError
        If one is out of range, or they are exchanged.

    Examples
    --------
    >>> lengths = UniformLength(low=1, high=3).tokens(100, np.random.default_rng(0))
    >>> print(np.unique(lengths))
    [1 2 3]
    """

    name: ClassVar[str] = "uniform"
    low: int
    high: int

    def __post_init__(self) -> None:
        check_tokens("low", self.low)
        check_tokens("high", self.high)
        if self.low > self.high:
            raise ValueError(f"low must be at most high, {self.high}; got {self.low}")

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:
        """Lengths, (n,) ndarray of int64, tokens."""
        return rng.integers(self.low, self.high, size=_whole(n), endpoint=True)


@dataclass(frozen=True, kw_only=True)
class LogNormalLength:
    r"""Lengths whose logarithm is normal: a long tail, up to a maximum.

    Attributes
    ----------
    median : float
        Tokens; in [1, ``maximum``].
    sigma : float
        Standard deviation of the natural logarithm, at least 0.
    maximum : int
        Tokens; what the context has room for.

    Raises
    ------
    ValueError
        If one is out of range.

    Notes
    -----
    .. math:: L = \min(\max(\lfloor m e^{\sigma Z} \rceil, 1), L_{\max}), \qquad Z \sim N(0, 1)

    Longer requests are cut to the maximum, as a server cuts them, so that it has a probability of its own. The mean
    before that is m exp(σ²/2), which is more than the median.

    Examples
    --------
    >>> lengths = LogNormalLength(median=200, sigma=1.0, maximum=4096).tokens(1000, np.random.default_rng(0))
    >>> bool(lengths.min() >= 1), bool(lengths.max() <= 4096)
    (True, True)
    """

    name: ClassVar[str] = "log-normal"
    median: float
    sigma: float
    maximum: int

    def __post_init__(self) -> None:
        check_positive("median", self.median)
        check_non_negative("sigma", self.sigma)
        check_tokens("maximum", self.maximum)
        if not 1.0 <= self.median <= self.maximum:
            raise ValueError(f"median must lie in [1, {self.maximum}], the maximum; got {self.median}")

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:
        """Lengths, (n,) ndarray of int64, tokens."""
        logarithms = math.log(self.median) + self.sigma * rng.standard_normal(_whole(n))
        # Clipped before it is raised, so that no sigma overflows.
        drawn = np.exp(np.clip(logarithms, 0.0, math.log(self.maximum)))
        return np.rint(drawn).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class GeometricLength:
    r"""A request ends after each token with one probability, as if it had no memory.

    Attributes
    ----------
    mean : float
        Tokens, in [1, 2**16].

    Raises
    ------
    ValueError
        If it is out of range.

    Notes
    -----
    .. math:: P(L = l) = \frac{1}{m} \left(1 - \frac{1}{m}\right)^{l - 1}, \qquad l = 1, 2, \dots

    Examples
    --------
    >>> print(GeometricLength(mean=1.0).tokens(3, np.random.default_rng(0)))
    [1 1 1]
    """

    name: ClassVar[str] = "geometric"
    mean: float

    def __post_init__(self) -> None:
        check_positive("mean", self.mean)
        # The chance of a length beyond MAX_TOKENS is exp(-256) at that mean.
        if not 1.0 <= self.mean <= 2**16:
            raise ValueError(f"mean must lie in [1, {2**16}]; got {self.mean}")

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:
        """Lengths, (n,) ndarray of int64, tokens."""
        return rng.geometric(1.0 / self.mean, _whole(n))


@dataclass(frozen=True, kw_only=True, eq=False)
class EmpiricalLength:
    """Lengths that were seen, drawn again with replacement.

    Prompts and outputs drawn so are independent, though long prompts may have had other outputs than short ones.

    Attributes
    ----------
    values : (m,) ndarray of int64
        Tokens of each request that was seen; copied.

    Raises
    ------
    ValueError
        If there is none, or one is out of range.

    Examples
    --------
    >>> lengths = EmpiricalLength(values=[5, 9]).tokens(100, np.random.default_rng(0))
    >>> print(np.unique(lengths))
    [5 9]
    """

    name: ClassVar[str] = "empirical"
    values: Integers

    def __post_init__(self) -> None:
        values = check_tokens("values", self.values)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"values must be a list of at least 1 length; got the shape {values.shape}")
        values = values.copy()
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def tokens(self, n: int, rng: np.random.Generator) -> Integers:
        """Lengths, (n,) ndarray of int64, tokens."""
        return self.values[rng.integers(self.values.size, size=_whole(n))]


def _whole(n: int) -> int:
    return int(check_counts("n", n))
