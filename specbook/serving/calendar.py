"""What the decode iterations to come will need, added up over all paths, by tick.

One slice is added when a request starts to decode, and one is taken away when it is preempted; a stretch of iterations
then reads its tokens and blocks from here, whatever the number of requests.
"""

from __future__ import annotations

import numpy as np

from specbook.serving.decode_path import BLOCKS, EMITTED, REACHED, DecodePath, Integers

_FEWEST_TICKS = 4096


class Calendar:
    """Tokens emitted, blocks taken and requests that draft so far, in each decode iteration to come.

    Parameters
    ----------
    n_rows : int
        As of the paths that are added.

    Examples
    --------
    >>> from specbook.serving.round_law import no_draft
    >>> steps = np.array([[1, 1], [0, 1]])
    >>> path = DecodePath(law=no_draft(), start_tick=2, steps=steps, tokens_before=9, blocks_before=1)
    >>> calendar = Calendar(2)
    >>> calendar.add(path, 2)
    >>> print(calendar.emitted(0, 5), calendar.blocks(0, 5))
    [0 0 1 1 0] [0 0 0 1 0]
    >>> calendar.remove(path, 3)
    >>> print(calendar.emitted(0, 5), calendar.blocks(0, 5))
    [0 0 1 0 0] [0 0 0 0 0]
    """

    def __init__(self, n_rows: int) -> None:
        self._rows = np.zeros((n_rows, _FEWEST_TICKS), dtype=np.int64)
        self._first_tick = 0

    def add(self, path: DecodePath, tick: int) -> None:
        """Add a path from the present tick on."""
        end = path.last_tick + 1 - self._first_tick
        if end > self._rows.shape[1]:
            self._make_room(tick, path.last_tick)
            end = path.last_tick + 1 - self._first_tick
        self._rows[:, tick - self._first_tick : end] += path.steps[:, tick - path.start_tick :]

    def remove(self, path: DecodePath, tick: int) -> None:
        """Take away what a path added from the present tick on."""
        first = tick - self._first_tick
        self._rows[:, first : path.last_tick + 1 - self._first_tick] -= path.steps[:, tick - path.start_tick :]

    def emitted(self, tick: int, n_ticks: int) -> Integers:
        """Tokens emitted in each of ``n_ticks`` iterations; a view, as the others."""
        first = tick - self._first_tick
        return self._rows[EMITTED, first : first + n_ticks]

    def blocks(self, tick: int, n_ticks: int) -> Integers:
        """Blocks taken at the start of each iteration."""
        first = tick - self._first_tick
        return self._rows[BLOCKS, first : first + n_ticks]

    def blocks_at(self, tick: int) -> int:
        """Blocks taken at the start of one iteration."""
        return int(self._rows[BLOCKS, tick - self._first_tick])

    def reached(self, tick: int, n_ticks: int) -> Integers:
        """Requests that draft a first token, a second one, and so on in each iteration, (K, n_ticks)."""
        first = tick - self._first_tick
        return self._rows[REACHED:, first : first + n_ticks]

    def _make_room(self, tick: int, last_tick: int) -> None:
        """Forget the ticks that are over, and widen if the last one still does not fit."""
        kept = self._rows[:, tick - self._first_tick :]
        n_ticks = max(_FEWEST_TICKS, 2 * kept.shape[1], 2 * (last_tick - tick + 1))
        rows = np.zeros((len(self._rows), n_ticks), dtype=np.int64)
        rows[:, : kept.shape[1]] = kept
        self._rows, self._first_tick = rows, tick
