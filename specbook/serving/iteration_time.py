"""Seconds of one iteration of a serving engine: one forward pass over decodes and chunks of prompts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats, check_non_negative, check_positive


class IterationTime(Protocol):
    """Seconds of an iteration, for many iterations of decodes at once or for one with chunks of prompts in it."""

    @property
    def kind(self) -> str:
        """Where the seconds come from; the output repeats it."""

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n iterations without prefills.

        Parameters
        ----------
        n_decodes : int
            Sequences in each iteration, at least 1.
        decode_tokens : int, or (n,) ndarray of int64
            Positions of all sequences together; ``n_decodes`` where nothing is drafted.
        context_tokens : (n,) ndarray of int64
            Sum over the sequences of the tokens already processed, of prompt and answer.

        Returns
        -------
        (n,) ndarray of float64
            Seconds.
        """

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of one iteration.

        Parameters
        ----------
        n_decodes, decode_tokens, context_tokens : int
            As above; all 0 in an iteration of prefills alone.
        prefills : sequence of (int, int)
            For each chunk its tokens, and the tokens of the same request that were processed before.
        """


def prefill_pairs(prefills: Sequence[tuple[int, int]]) -> int:
    """Twice the pairs of tokens that chunks attend over, as the affine time counts them.

    A chunk of k tokens behind ``done`` others has ``k · done`` pairs with those and about ``k² / 2`` within itself.

    Parameters
    ----------
    prefills : sequence of (int, int)
        Tokens of each chunk, and tokens of the same request processed before.

    Examples
    --------
    >>> prefill_pairs([(100, 0), (50, 100)])
    22500
    """
    return sum(tokens * (2 * done + tokens) for tokens, done in prefills)


@dataclass(frozen=True, kw_only=True, slots=True)
class AffineIterationTime:
    r"""A straight line in tokens, context and pairs of tokens; an :class:`IterationTime`.

    Attributes
    ----------
    c0_ms, c1_ms, c2_ms, c3_ms : float
        Milliseconds of an iteration, of each token in it, of each token of context that its decodes read, and of each
        pair of tokens that its chunks attend over.

    Raises
    ------
    ValueError
        If one of them is negative, or all are 0.

    Notes
    -----
    .. math:: T = 10^{-3}\,(c_0 + c_1 N + c_2 C + c_3 Q / 2), \quad Q = \sum k\,(2 d + k)

    with the N tokens of decodes and chunks, the C of context, and chunks of k tokens behind d others. The operations
    run in the order of the formula, so that two simulators with the same coefficients agree to the last bit. A verify
    pass is a decode of several positions, which read the context of their sequence once.

    References
    ----------
    vidur2024

    Examples
    --------
    >>> affine = AffineIterationTime(c0_ms=9.0, c1_ms=0.06, c2_ms=0.0004, c3_ms=0.00002)
    >>> print(f"{1e3 * affine.mixed_seconds(1, 1, 153, [(255, 0)]):.4f} ms")
    25.0714 ms
    >>> print(1e3 * affine.decode_seconds(4, 4, np.array([1000, 2000])))
    [ 9.64 10.04]
    """

    c0_ms: float
    c1_ms: float
    c2_ms: float
    c3_ms: float
    kind: str = field(default="affine", init=False)

    def __post_init__(self) -> None:
        coefficients = [self.c0_ms, self.c1_ms, self.c2_ms, self.c3_ms]
        for number, coefficient in enumerate(coefficients):
            check_non_negative(f"c{number}_ms", coefficient)
        if not any(coefficients):
            raise ValueError("c0_ms, c1_ms, c2_ms and c3_ms must not all be 0, since an iteration takes time")

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n iterations without prefills, as in :class:`IterationTime`."""
        del n_decodes
        seconds: Floats = (self.c0_ms + self.c1_ms * decode_tokens + self.c2_ms * context_tokens) * 1e-3
        return seconds

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of one iteration, as in :class:`IterationTime`."""
        del n_decodes
        n_tokens = decode_tokens + sum(tokens for tokens, _ in prefills)
        pairs = prefill_pairs(prefills)
        return (self.c0_ms + self.c1_ms * n_tokens + self.c2_ms * context_tokens + self.c3_ms * pairs / 2) * 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class ConstantIterationTime:
    """The same seconds whatever is in the batch, as closed forms of queues assume; an :class:`IterationTime`.

    Attributes
    ----------
    seconds : float
        Of every iteration.

    Raises
    ------
    ValueError
        If it is not above 0.

    Examples
    --------
    >>> ConstantIterationTime(seconds=0.01).mixed_seconds(3, 3, 900, [(512, 0)])
    0.01
    """

    seconds: float
    kind: str = field(default="constant", init=False)

    def __post_init__(self) -> None:
        check_positive("seconds", self.seconds)

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n iterations without prefills, as in :class:`IterationTime`."""
        del n_decodes, decode_tokens
        return np.full(np.shape(context_tokens), self.seconds)

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of one iteration, as in :class:`IterationTime`."""
        del n_decodes, decode_tokens, context_tokens, prefills
        return self.seconds
