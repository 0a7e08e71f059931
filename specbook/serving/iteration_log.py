"""One row per iteration, kept as columns and handed on block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from specbook.serving.decode_path import Integers

_ROWS = 32768
# What differs from iteration to iteration of a stretch, and what stays.
_VARYING: dict[Any, Any] = {
    "start_s": pl.Float64(),
    "end_s": pl.Float64(),
    "decode_positions": pl.Int32(),
    "decode_context_tokens": pl.Int64(),
    "emitted_tokens": pl.Int32(),
    "kv_blocks_used": pl.Int32(),
}
_STEADY: dict[Any, Any] = {
    "replica": pl.Int32(),
    "batch_size": pl.Int32(),
    "n_decodes": pl.Int32(),
    "prefill_tokens": pl.Int32(),
    "draft_length": pl.Int32(),
    "waiting": pl.Int32(),
    "idle_cache_tokens": pl.Int64(),
}
_ORDER = [
    "replica", "start_s", "end_s", "batch_size", "n_decodes", "prefill_tokens", "decode_positions",
    "decode_context_tokens", "draft_length", "emitted_tokens", "kv_blocks_used", "kv_tokens_used", "waiting",
]  # fmt: skip


class IterationLog:
    """Collects iterations of one or more replicas.

    Parameters
    ----------
    emit : callable
        Takes a frame of 32,768 rows, the last one of fewer, in the order of their being added.

    Attributes
    ----------
    n_iterations : int
    busy_s, block_seconds, token_seconds : float
        Sums over the frames handed on: seconds, and blocks in use and tokens in them times seconds. Added up here and
        in order, since sums that several threads make of a long file differ in the last bit from one time to the next.
    batch_sizes : int
        Sum of the batch sizes.
    peak_blocks : int

    Examples
    --------
    >>> frames = []
    >>> log = IterationLog(frames.append)
    >>> log.add(2, (np.array([0.0, 0.5]), np.array([0.5, 1.0]), 1, np.array([9, 10]), 1, 1), (0, 1, 1, 0, 0, 3, 0))
    >>> log.close()
    >>> frames[0]["end_s"].to_list(), frames[0]["decode_context_tokens"].to_list(), frames[0]["waiting"].to_list()
    ([0.5, 1.0], [9, 10], [3, 3])
    """

    def __init__(self, emit: Callable[[pl.DataFrame], None]) -> None:
        self._emit = emit
        # Floats hold whole numbers up to 2 ** 53, which no count here comes near.
        self._varying = np.zeros((_ROWS, len(_VARYING)))
        self._steady: list[tuple[int, ...]] = []
        self._lengths: list[int] = []
        self._n_rows = 0
        self.n_iterations = self.batch_sizes = self.peak_blocks = 0
        self.busy_s = self.block_seconds = self.token_seconds = 0.0

    def add(self, n: int, varying: tuple[Any, ...], steady: tuple[int, ...]) -> None:
        """Add n iterations.

        Parameters
        ----------
        n : int
        varying : tuple
            Start and end, positions and context of the decodes, tokens emitted, blocks used: each a number, or (n,).
        steady : tuple of int
            Replica, batch size, decodes, tokens of prompts, draft length, requests that wait, and tokens in the cache
            of requests that do not decode now.
        """
        if self._n_rows + n > _ROWS:
            self._add_in_parts(n, varying, steady)
            return
        if n == 1 and not isinstance(varying[0], np.ndarray):
            self._varying[self._n_rows] = varying
        else:
            rows = self._varying[self._n_rows : self._n_rows + n]
            for column, values in enumerate(varying):
                rows[:, column] = values
        self._steady.append(steady)
        self._lengths.append(n)
        self._n_rows += n
        self.n_iterations += n
        if self._n_rows == _ROWS:
            self.close()

    def _add_in_parts(self, n: int, varying: tuple[Any, ...], steady: tuple[int, ...]) -> None:
        first = 0
        while first < n:
            last = min(first + _ROWS - self._n_rows, n)
            part = tuple(v[first:last] if isinstance(v, np.ndarray) else v for v in varying)
            self.add(last - first, part, steady)
            first = last

    def close(self) -> None:
        """Hand on what is left; an empty frame if there was nothing."""
        if not self._n_rows and self.n_iterations:
            return
        varying = self._varying[: self._n_rows].T
        steady = np.repeat(_as_rows(self._steady), self._lengths, axis=0).T
        columns = dict(zip(_VARYING, varying.copy(), strict=True)) | dict(zip(_STEADY, steady, strict=True))
        columns["kv_tokens_used"] = columns["decode_context_tokens"] + columns["idle_cache_tokens"]
        self._sum_up(columns)
        self._emit(pl.DataFrame(columns).cast({**_VARYING, **_STEADY, "kv_tokens_used": pl.Int64()}).select(_ORDER))
        self._steady, self._lengths, self._n_rows = [], [], 0

    def _sum_up(self, columns: dict[Any, Any]) -> None:
        seconds = columns["end_s"] - columns["start_s"]
        self.busy_s += float(seconds.sum())
        self.block_seconds += float((seconds * columns["kv_blocks_used"]).sum())
        self.token_seconds += float((seconds * columns["kv_tokens_used"]).sum())
        self.batch_sizes += int(columns["batch_size"].sum())
        self.peak_blocks = max(self.peak_blocks, int(columns["kv_blocks_used"].max(initial=0)))


def _as_rows(steady: list[tuple[int, ...]]) -> Integers:
    return np.array(steady, dtype=np.int64).reshape(-1, len(_STEADY))
