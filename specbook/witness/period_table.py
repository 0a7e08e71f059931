"""How long a round takes by the positions that it verifies: means of probe rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbook.checks import Floats, check_counts, check_finite


@dataclass(frozen=True, kw_only=True)
class PeriodTable:
    """Mean seconds of a round by its positions; an :class:`~specbook.serving.iteration_time.IterationTime`.

    Attributes
    ----------
    positions : (n,) ndarray of int64
        Of a verify pass, drafts and the bonus token; rising.
    seconds : (n,) ndarray of float64
        Of the whole round: drafting, verifying, and what lies between.
    slope_s : float
        Seconds of a further position, of the straight line through all rounds, and at least 0; 0 where all rounds are
        alike. It is followed beyond the ends of the table.

    Raises
    ------
    ValueError
        If there is none, positions do not rise, or a number is not finite.

    See Also
    --------
    period_table : From rounds.
    """

    positions: NDArray[np.int64]
    seconds: Floats
    slope_s: float
    kind: str = field(default="measured, probe rounds", init=False)

    def __post_init__(self) -> None:
        positions, seconds = check_counts("positions", self.positions, 1), check_finite("seconds", self.seconds)
        if positions.ndim != 1 or positions.shape != seconds.shape or not positions.size:
            raise ValueError(f"positions and seconds must be lists of one length; got {positions.shape}")
        if np.any(np.diff(positions) <= 0):
            raise ValueError(f"positions must rise; got {positions}")
        check_finite("slope_s", self.slope_s)

    def at(self, positions: ArrayLike) -> Floats:
        """Seconds of rounds of so many positions: those of the table, linear between them, and along the slope beyond.

        Examples
        --------
        >>> table = period_table([5, 5, 9], [0.01, 0.03, 0.04])
        >>> print(table.at([5, 7, 9, 11]).round(4))
        [0.02 0.03 0.04 0.05]
        """
        asked = np.asarray(positions, dtype=np.float64)
        inside = np.clip(asked, self.positions[0], self.positions[-1])
        found: Floats = np.interp(inside, self.positions, self.seconds) + self.slope_s * (asked - inside)
        return np.maximum(found, 0.0)

    def decode_seconds(self, n_decodes: int, decode_tokens: Any, context_tokens: NDArray[np.int64]) -> Floats:
        """Seconds of n rounds of one request, as in ``IterationTime``; the context is that of the probe."""
        del n_decodes
        return np.array(np.broadcast_to(self.at(decode_tokens), np.shape(context_tokens)))

    def mixed_seconds(
        self, n_decodes: int, decode_tokens: int, context_tokens: int, prefills: Sequence[tuple[int, int]]
    ) -> float:
        """Seconds of a round, as in ``IterationTime``; a prompt takes the shortest, since TPOT begins after it."""
        del n_decodes, context_tokens, prefills
        return float(self.at(max(decode_tokens, int(self.positions[0]))))


def period_table(positions: ArrayLike, seconds: ArrayLike) -> PeriodTable:
    r"""Means of rounds by their positions.

    The mean and not the median: a request waits for its slow rounds as well.

    Parameters
    ----------
    positions : (n_rounds,) array_like of int
    seconds : (n_rounds,) array_like of float

    Raises
    ------
    ValueError
        If there is no round, or a number is out of range.

    Notes
    -----
    With :math:`m_i` positions and :math:`t_i` seconds of round i, the slope is
    :math:`\sum (m_i - \bar m)(t_i - \bar t) / \sum (m_i - \bar m)^2`.
    """
    width, period_s = check_counts("positions", positions, 1), check_finite("seconds", seconds)
    distinct, place = np.unique(width, return_inverse=True)
    means = np.bincount(place, weights=period_s) / np.bincount(place)
    off = width - width.mean()
    spread = float(off @ off)
    slope_s = float(off @ (period_s - period_s.mean())) / spread if spread else 0.0
    return PeriodTable(positions=distinct, seconds=means, slope_s=max(0.0, slope_s))
