"""What an engine holds between two iterations: who waits and runs, the rounds to come, and the blocks that are free.

Schedulers work on this, and nothing here moves the clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Protocol

from specbook.checks import BadInput
from specbook.serving.calendar import Calendar
from specbook.serving.chances import Chances
from specbook.serving.decode_path import REACHED, DecodePath, PathStart, draw_path
from specbook.serving.live_request import LiveRequest
from specbook.serving.serving_config import ServingConfig

Prefill = tuple[LiveRequest, int]
# Last tick of a path, a number that breaks ties, whose it is, and the path.
_End = tuple[int, int, LiveRequest, DecodePath]


class Scheduler(Protocol):
    """Decides at an iteration boundary what runs next."""

    restarts_prompt: bool
    """Whether a request that is preempted amid its prompt starts it again."""

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        """Chunks of prompts to process, and whether the decoding requests run; takes the blocks for both."""


class Engine:
    """An engine at an iteration boundary.

    Parameters
    ----------
    config : ServingConfig
    scheduler : Scheduler
    chances : Chances

    Attributes
    ----------
    now_s : float
        The boundary.
    waiting, running, parked : requests
        In order; those that are parked run, and sit out one iteration.
    n_decodes, n_prefilling, context_tokens : int
        Requests that decode and are not parked, that are amid their prompt, and tokens of context of the former.
    free_blocks : int
    idle_cache_tokens : int
        Tokens in the cache of requests that are amid their prompt, or parked.
    tick : int
        Decode iterations so far.
    law : RoundLaw
        Of the next round.
    has_preempted : bool
        Whether someone had to give way since the last boundary.
    """

    def __init__(self, config: ServingConfig, scheduler: Scheduler, chances: Chances) -> None:
        self.config = config
        self.now_s = 0.0
        self.waiting: deque[LiveRequest] = deque()
        self.running: list[LiveRequest] = []
        self.parked: list[LiveRequest] = []
        self.n_decodes = self.n_prefilling = self.context_tokens = 0
        self.has_preempted = False
        self.free_blocks = config.kv.n_blocks
        self.idle_cache_tokens = 0
        self.tick = 0
        self.law = config.policy.choose(1, 0.0)
        self._scheduler, self._chances = scheduler, chances
        self._has_one_law = len(config.policy.laws) == 1
        self._n_rows = REACHED + config.cut_rows
        self._calendar = Calendar(self._n_rows)
        self._ends: list[_End] = []
        self._fresh: dict[LiveRequest, None] = {}  # in the order of their joining
        self._n_paths = self._preempted_in_vain = 0
        self._last_emission_s = 0.0

    @property
    def positions(self) -> int:
        """Positions that the decoding requests debit from the iteration's tokens, before acceptance is known."""
        return self.n_decodes * (self.law.n_nodes + 1)

    def decodes(self) -> list[LiveRequest]:
        """Those that decode, in the order of the list of running requests."""
        return self.running if not self.n_prefilling else [each for each in self.running if each.path is not None]

    def take_blocks_of_all(self) -> bool:
        """Give all decoding requests their blocks, if one is free even after the last; otherwise each needs a look."""
        if not self.n_decodes:
            return True
        taken = self._calendar.blocks_at(self.tick)
        if taken >= self.free_blocks:
            return False
        self.free_blocks -= taken
        return True

    def blocks_needed(self, request: LiveRequest) -> int:
        """Blocks that the next round of a decoding request takes."""
        return request.path.blocks_taken(self.tick)  # type: ignore[union-attr]

    def admit(self, blocks: int) -> LiveRequest:
        """Move the first waiting request to the running ones, with some blocks."""
        request = self.waiting.popleft()
        self.free_blocks -= blocks
        request.blocks = blocks
        self.running.append(request)
        self.n_prefilling += 1
        if request.scheduled_s < 0.0:
            request.scheduled_s = self.now_s
        return request

    def grow(self, request: LiveRequest, blocks: int) -> None:
        """Give a request that is amid its prompt further blocks."""
        request.blocks += blocks
        self.free_blocks -= blocks

    def preempt(self, request: LiveRequest) -> None:
        """Take a running request's blocks and put it in front of those that wait; it will compute its cache anew."""
        if request.path is not None:
            self._leave(request)
        else:
            self.n_prefilling -= 1
            self.idle_cache_tokens -= request.prefilled_tokens
            if not self._scheduler.restarts_prompt:
                request.rest_tokens += request.prompt_tokens - request.prefilled_tokens
                request.prompt_tokens = request.prefilled_tokens
        self.has_preempted = True
        if self.running[-1] is request:
            self.running.pop()
        else:
            self.running.remove(request)
        self.free_blocks += request.blocks
        request.blocks = request.prefilled_tokens = 0
        request.preemptions += 1
        self.waiting.appendleft(request)
        self._count_in_vain(request)

    def park(self, request: LiveRequest) -> None:
        """Let a decoding request sit out the next iteration, since its tokens do not fit; it keeps its blocks."""
        path = self._off_calendar(request)
        self.idle_cache_tokens += path.tokens_at(self.tick)
        self.parked.append(request)
        path.delay()

    def _count_in_vain(self, request: LiveRequest) -> None:
        self._preempted_in_vain += 1
        if self._preempted_in_vain > 8 * self.config.max_batch + 64:
            raise BadInput(
                f"requests preempt each other and none moves on at {self.now_s:.3f} s (livelock)",
                field="request",
                value=request.request_id,
                remedy="give more KV blocks, or a smaller max_batch",
            )

    def _choose_law(self) -> None:
        """Ask the policy; where it changes its mind, draw the rounds of all decoding requests from here on again."""
        mean_context = self.context_tokens / self.n_decodes if self.n_decodes else 0.0
        law = self.config.policy.choose(self.n_decodes, mean_context)
        if law is self.law:
            return
        self.law = law
        self._ends.clear()
        for request in self.decodes():
            self._leave(request)
            self._join(request)

    def _join(self, request: LiveRequest) -> None:
        """Draw the rounds of a request that decodes from the next tick on, and put them in the calendar."""
        start = PathStart(
            request_id=request.request_id,
            tokens=request.prompt_tokens,
            blocks=request.blocks,
            rest_tokens=request.rest_tokens,
            rounds=request.rounds,
        )
        path = draw_path(start, self.law, self.tick, self._chances, self.config.kv, self._n_rows)
        request.path = path
        self._on_calendar(request, path)

    def _on_calendar(self, request: LiveRequest, path: DecodePath) -> None:
        self._calendar.add(path, self.tick)
        self._n_paths += 1
        heapq.heappush(self._ends, (path.last_tick, self._n_paths, request, path))
        self.n_decodes += 1
        self.context_tokens += path.tokens_at(self.tick)
        self._fresh[request] = None

    def _off_calendar(self, request: LiveRequest) -> DecodePath:
        path = request.path
        assert path is not None
        self._calendar.remove(path, self.tick)
        self.n_decodes -= 1
        self.context_tokens -= path.tokens_at(self.tick)
        if request in self._fresh:
            del self._fresh[request]
        else:
            request.last_emission_s = self._last_emission_s
        return path

    def _leave(self, request: LiveRequest) -> None:
        """Book what a decoding request has done, as if all of it had been asked as a prompt."""
        path = self._off_calendar(request)
        emitted, rounds = path.emitted_at(self.tick), path.rounds_at(self.tick)
        request.blocks = path.blocks_at(self.tick)
        request.prompt_tokens = path.tokens_before + emitted
        request.rest_tokens -= emitted
        request.rounds += rounds
        request.drafted_tokens += path.drafted_at(self.tick)
        request.accepted_tokens += emitted - rounds
        request.path = None

    def _unpark(self) -> None:
        for request in self.parked:
            assert request.path is not None
            self._on_calendar(request, request.path)
            self.idle_cache_tokens -= request.path.tokens_at(self.tick)
        self.parked.clear()

    def _next_end(self) -> int:
        """Tick of the next round that ends a request."""
        while not _is_valid(self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def _pop_ended(self) -> list[LiveRequest]:
        """Requests whose last round is over, off the calendar and with all their rounds booked; they still run."""
        ended = []
        while self._ends and self._ends[0][0] < self.tick:
            end = heapq.heappop(self._ends)
            if _is_valid(end):
                self._book_path(end[2], end[3])
                ended.append(end[2])
        return ended

    def _book_path(self, request: LiveRequest, path: DecodePath) -> None:
        rounds = path.rounds_at(self.tick)
        request.rounds += rounds
        request.drafted_tokens += path.drafted_at(self.tick)
        request.accepted_tokens += request.rest_tokens - rounds
        request.blocks = path.blocks_at(self.tick)
        self.n_decodes -= 1
        self.context_tokens -= path.tokens_before + request.rest_tokens


def _is_valid(end: _End) -> bool:
    """Whether a path is still the one that its request follows."""
    last_tick, _, request, path = end
    return request.path is path and path.last_tick == last_tick
