"""Uniform numbers for acceptance: a stream for each request, whatever else runs beside it.

Two policies or schedulers then see the same luck, request by request and round by round, so that a difference between
them is theirs.
"""

from __future__ import annotations

import numpy as np

from specbook.checks import Floats


class Chances:
    """Uniform numbers in [0, 1) by request and round.

    Parameters
    ----------
    rng : Generator
        Gives the key; two draws from it, whatever is asked later.

    Notes
    -----
    Counters of a Philox generator: the request's number in the upper word, its rounds from 0 in the lower ones.

    Examples
    --------
    >>> chances = Chances(np.random.default_rng(0))
    >>> first = chances.of(7, 0, 5)
    >>> bool(np.array_equal(chances.of(7, 2, 3), first[2:])), bool(np.array_equal(chances.of(8, 0, 5), first))
    (True, False)
    """

    _PER_BLOCK = 4  # numbers that one value of the counter yields

    def __init__(self, rng: np.random.Generator) -> None:
        self._philox = np.random.Philox(key=rng.integers(2**64, size=2, dtype=np.uint64))
        self._generator = np.random.Generator(self._philox)
        self._state = self._philox.state

    def of(self, request_id: int, first_round: int, n_rounds: int) -> Floats:
        """Numbers of ``n_rounds`` rounds of a request, from ``first_round`` on, (n_rounds,) ndarray of float64."""
        block, skipped = divmod(first_round, self._PER_BLOCK)
        counter = self._state["state"]["counter"]
        counter[0], counter[3] = block, request_id
        self._state["buffer_pos"] = self._PER_BLOCK
        self._philox.state = self._state
        return np.asarray(self._generator.random(skipped + n_rounds)[skipped:])
