"""Lookahead: the target refines guesses of its own future in parallel, and the runs of tokens it finds become drafts.

A window of W columns holds the last N − 1 guesses of each future position, as rows of one more pass of the target. The
columns are runs of N tokens; they go into a pool under their first token, and those that begin with the last token
are proposed as branches. On an accelerator this pass and the verify pass are one; here they are two, so that the time
of a draft is a whole pass of the target and lookahead does not pay by the clock. Its acceptance is what it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbook.checks import check_counts
from specbook.engine.draft import Draft
from specbook.engine.drafters.drafter import Request, TargetState
from specbook.engine.kv_cache import Integers
from specbook.engine.layout import Mask
from specbook.engine.transformer import Transformer


class LookaheadDrafter:
    """Drafts runs of tokens that the target found by refining guesses.

    Parameters
    ----------
    target : Transformer
        The model that verifies.
    window : int
        W, columns.
    run_length : int
        N, tokens of a run, at least 2; a draft is no longer than N − 1.
    n_kept : int
        Runs kept for each first token, the latest ones.

    References
    ----------
    fu2024
    """

    method = "lookahead"

    def __init__(self, target: Transformer, window: int = 5, run_length: int = 4, n_kept: int = 8) -> None:
        self.target = target
        self.window = int(check_counts("window", window, minimum=1))
        self.run_length = int(check_counts("run_length", run_length, minimum=2))
        self.n_kept = int(check_counts("n_kept", n_kept, minimum=1))

    @property
    def n_vocab(self) -> int:
        """The target's."""
        return self.target.n_vocab

    def start(self, state: TargetState, tokens: Sequence[int], capacity: int) -> None:
        """Fill the window with tokens of the prompt, which are as good a first guess as any."""
        self._cache, self._capacity = state.cache, capacity
        self._pool: dict[int, list[tuple[int, ...]]] = {}
        guesses = np.resize(np.asarray(tokens), (self.run_length - 1) * self.window)
        self._guesses: list[list[int]] = guesses.reshape(self.run_length - 1, self.window).tolist()

    def propose(self, request: Request) -> Draft:
        """Refine the guesses by one pass of the target, then propose runs that begin with the last token."""
        self._refine(int(request.tokens[-1]))
        return self._draft(int(request.tokens[-1]), request)

    def _refine(self, last: int) -> None:
        """One pass over the last token and the window; its answers become the newest guesses."""
        n_levels = self.run_length - 1
        rows = 1 + n_levels * self.window
        length = int(self._cache.lengths[0])
        if length + rows > self._cache.capacity or length + n_levels + self.window > self.target.spec.max_context:
            return
        tokens = [last, *(token for level in self._guesses for token in level)]
        positions, mask = self._window_rows(length)
        hidden = self.target.forward(np.array([tokens]), positions, mask, self._cache)
        answers = self.target.logits(hidden[:, -self.window :])[0].argmax(axis=-1).tolist()
        self._cache.drop_pending()
        self._collect(answers)
        self._guesses = [*self._guesses[1:], answers]

    def _window_rows(self, length: int) -> tuple[Integers, Mask]:
        """Positions and mask: a guess sees the last token, the oldest guesses before its column, and its own column."""
        n_levels, window = self.run_length - 1, self.window
        level, column = np.divmod(np.arange(n_levels * window), window)
        oldest = (level[None] == 0) & (column[None] <= column[:, None])
        own = (column[None] == column[:, None]) & (level[None] <= level[:, None])
        mask = np.ones((1 + n_levels * window, 1 + n_levels * window), np.bool_)
        mask[0, 1:] = False
        mask[1:, 1:] = oldest | own
        positions = np.concatenate([[length], length + 1 + column + level])
        return positions[None].astype(np.int64), mask[None]

    def _collect(self, answers: list[int]) -> None:
        for column in range(self.window):
            run = tuple(level[column] for level in [*self._guesses, answers])
            runs = self._pool.setdefault(run[0], [])
            if run[1:] in runs:
                runs.remove(run[1:])
            runs.append(run[1:])
            del runs[: -self.n_kept]

    def _draft(self, last: int, request: Request) -> Draft:
        """Known runs as branches that share their beginnings, the latest run first, as far as the shape has room."""
        draft = Draft()
        place = {-1: -1}
        known: dict[tuple[int, int], int] = {}
        for run in reversed(self._pool.get(last, [])):
            node = -1
            for token in run:
                if (node, token) not in known:
                    free = request.shape.children(place[node])[sum(parent == node for parent in draft.parents) :]
                    if not free:
                        break
                    known[node, token] = draft.add(token, node, None)
                    place[known[node, token]] = free[0]
                node = known[node, token]
        return draft

    def accept(self, path: Sequence[int]) -> None:
        """Nothing to keep."""
