"""One row per request, in the order of arrival, handed on block by block as requests end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from specbook.serving.live_request import LiveRequest

_ROWS = 32768
REQUEST_SCHEMA: dict[str, Any] = {
    "request_id": pl.Int64,
    "replica": pl.Int32,
    "arrival_s": pl.Float64,
    "scheduled_s": pl.Float64,
    "first_token_s": pl.Float64,
    "end_s": pl.Float64,
    "prompt_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "rounds": pl.Int64,
    "drafted_tokens": pl.Int64,
    "accepted_tokens": pl.Int64,
    "preemptions": pl.Int32,
}


class RequestLog:
    """Collects requests that ended; those that overtook an earlier one wait for it, and for nothing else.

    Parameters
    ----------
    emit : callable
        Takes a frame of up to 32,768 rows, whose ``request_id`` goes on where the last one's stopped.

    Examples
    --------
    >>> frames = []
    >>> log = RequestLog(frames.append)
    >>> for number in (1, 0):
    ...     log.add(LiveRequest(number, 0.5, 100, 20), 2.0, 0)
    >>> log.close()
    >>> frames[0]["request_id"].to_list(), frames[0]["end_s"].to_list()
    ([0, 1], [2.0, 2.0])
    """

    def __init__(self, emit: Callable[[pl.DataFrame], None]) -> None:
        self._emit = emit
        self._waiting: dict[int, tuple[Any, ...]] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._next_id = 0
        self.n_requests = 0

    def add(self, request: LiveRequest, end_s: float, replica: int) -> None:
        """Add a request that has ended."""
        self.n_requests += 1
        self._waiting[request.request_id] = (
            request.request_id,
            replica,
            request.arrival_s,
            request.scheduled_s,
            request.first_token_s,
            end_s,
            request.asked_prompt_tokens,
            request.asked_output_tokens,
            request.rounds,
            request.drafted_tokens,
            request.accepted_tokens,
            request.preemptions,
        )
        while self._next_id in self._waiting:
            self._rows.append(self._waiting.pop(self._next_id))
            self._next_id += 1
        if len(self._rows) >= _ROWS:
            self._flush()

    def close(self) -> None:
        """Hand on what is left: also what waits for a request that never ended, or an empty frame if nobody ended."""
        self._rows.extend(self._waiting[number] for number in sorted(self._waiting))
        self._waiting.clear()
        if self._rows or not self.n_requests:
            self._flush()

    def _flush(self) -> None:
        self._emit(pl.DataFrame(self._rows, schema=REQUEST_SCHEMA, orient="row"))
        self._rows = []
