"""Where requests come from: a workload with its own times, or clients that wait for their answers."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Protocol

from specbook.checks import BadInput
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.live_request import LiveRequest
from specbook.serving.workload import Workload


class Source(Protocol):
    """Gives requests in the order of their arrival."""

    depends_on_ends: bool
    """Whether a request that ends may bring another one."""

    @property
    def next_s(self) -> float:
        """When the next request arrives; infinite if none is known of."""

    def pop(self) -> LiveRequest:
        """The next request."""

    def ended(self, count: int, time_s: float) -> None:
        """Be told that requests have ended."""


class OpenSource:
    """Requests of one workload, or of its parts one after the other, at their own times.

    Raises
    ------
    BadInput
        If a part begins before the end of the one before it; when it is reached.

    Examples
    --------
    >>> from specbook.serving.workload import Workload
    >>> import numpy as np
    >>> part = Workload(arrival_s=np.array([0.0, 2.0]), prompt_tokens=np.array([9, 9]), output_tokens=np.array([1, 1]))
    >>> source = OpenSource([part])
    >>> source.next_s, source.pop().request_id, source.next_s, source.pop().request_id, source.next_s
    (0.0, 0, 2.0, 1, inf)
    """

    depends_on_ends = False

    def __init__(self, parts: Iterable[Workload]) -> None:
        self._requests = _in_order(parts)
        self._n_popped = 0
        self._next = next(self._requests, None)

    @property
    def next_s(self) -> float:
        """When the next request arrives."""
        return math.inf if self._next is None else self._next[0]

    def pop(self) -> LiveRequest:
        """The next request."""
        assert self._next is not None
        request = LiveRequest(self._n_popped, *self._next)
        self._n_popped += 1
        self._next = next(self._requests, None)
        return request

    def ended(self, count: int, time_s: float) -> None:
        """Nothing follows from it."""


class ClosedSource:
    """Clients that send their next request some time after the last one ended; the workload's own times do not count.

    Examples
    --------
    >>> from specbook.serving.workload import Workload
    >>> import numpy as np
    >>> lengths = Workload(arrival_s=np.zeros(3), prompt_tokens=np.full(3, 9), output_tokens=np.full(3, 1))
    >>> source = ClosedSource(lengths, ClosedLoop(n_clients=2, think_s=1.0))
    >>> [source.pop().arrival_s for _ in range(2)], source.next_s
    ([0.0, 0.0], inf)
    >>> source.ended(1, 5.0)
    >>> source.pop().arrival_s, source.next_s
    (6.0, inf)
    """

    depends_on_ends = True

    def __init__(self, workload: Workload, loop: ClosedLoop) -> None:
        self._rows = list(_rows(workload))
        self._think_s = loop.think_s
        self._n_popped = 0
        self._times = [0.0] * min(loop.n_clients, len(self._rows))

    @property
    def next_s(self) -> float:
        """When the next client sends; infinite while all of them wait, or nothing is left to ask."""
        return self._times[0] if self._times and self._n_popped < len(self._rows) else math.inf

    def pop(self) -> LiveRequest:
        """The next request."""
        request = LiveRequest(self._n_popped, heapq.heappop(self._times), *self._rows[self._n_popped][1:])
        self._n_popped += 1
        return request

    def ended(self, count: int, time_s: float) -> None:
        """Let clients think, and then send."""
        for _ in range(count):
            heapq.heappush(self._times, time_s + self._think_s)


def _in_order(parts: Iterable[Workload]) -> Iterator[tuple[float, int, int]]:
    last_s = 0.0
    for part in parts:
        if part.arrival_s[0] < last_s:
            problem = f"is before that of the part before it, {last_s!s}"
            raise BadInput(problem, field="arrival_s", value=float(part.arrival_s[0]), remedy="sort the parts")
        last_s = float(part.arrival_s[-1])
        yield from _rows(part)


def _rows(workload: Workload) -> Iterable[tuple[float, int, int]]:
    columns = (workload.arrival_s, workload.prompt_tokens, workload.output_tokens)
    return zip(*(column.tolist() for column in columns), strict=True)
