"""One replica: an engine and its clock, which moves from iteration to iteration.

A scheduler decides at each boundary what the next iteration holds. Where nothing can change for a while, since nobody
ends, no block may be missing and whoever waits cannot be admitted, the iterations up to the next event are computed
as arrays. The result is the same in every bit as one iteration after the other, and a test holds it to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from specbook.checks import BadInput, Floats
from specbook.serving.chances import Chances
from specbook.serving.decode_path import Integers
from specbook.serving.engine import Engine, Prefill, Scheduler
from specbook.serving.live_request import LiveRequest
from specbook.serving.recorder import Recorder
from specbook.serving.serving_config import ServingConfig


class Replica(Engine):
    """An engine on its way through time.

    Parameters
    ----------
    number : int
    config : ServingConfig
    scheduler : Scheduler
    chances : Chances
    recorder : Recorder
    """

    def __init__(
        self, number: int, config: ServingConfig, scheduler: Scheduler, chances: Chances, recorder: Recorder
    ) -> None:
        super().__init__(config, scheduler, chances)
        self.number = number
        self.is_idle = True
        self._recorder = recorder
        self._ended_in_last = 0
        self._iteration_s = 1e-3

    @property
    def next_start_s(self) -> float:
        """When the next iteration would start; infinite while there is nothing to do."""
        return math.inf if self.is_idle else self.now_s

    def outstanding_at(self, time_s: float) -> int:
        """Requests that arrived here and have not ended by a time not before the start of the present iteration."""
        not_yet = self._ended_in_last if self.now_s >= time_s else 0
        return len(self.waiting) + len(self.running) + not_yet

    def push(self, request: LiveRequest) -> None:
        """Let a request arrive."""
        if self.is_idle:
            self.is_idle = False
            self.now_s = request.arrival_s
        self.waiting.append(request)

    def advance(self, until_s: float) -> int:
        """Run the iterations that start before a time, up to one that ends a request; the number of those it ends."""
        while self.now_s < until_s and not self.is_idle:
            ended = self._iterate(until_s)
            if ended:
                return ended
        return 0

    def _iterate(self, until_s: float) -> int:
        if not self._has_one_law:
            self._choose_law()
        self.has_preempted = False
        prefills, runs_decodes = self._scheduler.plan(self)
        if prefills:
            ended = self._run_mixed(prefills, runs_decodes)
        elif runs_decodes and self.n_decodes:
            ended = self._run_decodes(until_s)
        else:
            self._rest()
            return 0
        if self.parked:
            self._unpark()
        self._ended_in_last = ended
        return ended

    def _rest(self) -> None:
        self._ended_in_last = 0
        if self.has_preempted:
            return  # what was taken away is free at the next look
        if self.waiting or self.running:
            stuck = self.waiting[0] if self.waiting else self.running[0]
            raise BadInput(
                f"cannot be admitted into an empty engine at {self.now_s:.3f} s",
                field="request",
                value=stuck.request_id,
                remedy="give more KV blocks or tokens to an iteration, or a smaller watermark",
            )
        self.is_idle = True

    def _run_mixed(self, prefills: Sequence[Prefill], runs_decodes: bool) -> int:
        config, n_decodes = self.config, self.n_decodes if runs_decodes else 0
        chunks = [(tokens, request.prefilled_tokens) for request, tokens in prefills]
        context, positions, emitted, draft_s = self._next_round() if n_decodes else (0, 0, 0, 0.0)
        seconds = config.iteration_time.mixed_seconds(n_decodes, positions, context, chunks)
        seconds += draft_s + config.draft_time.prefill_seconds(chunks)
        start_s, self.now_s = self.now_s, self.now_s + seconds
        completed = [request for request, tokens in prefills if self._process(request, tokens)]
        varying = (
            start_s, self.now_s, positions, context, emitted + len(completed), config.kv.n_blocks - self.free_blocks
        )  # fmt: skip
        self._log(1, varying, n_decodes, sum([tokens for tokens, _ in chunks]), len(chunks))
        ended = 0
        if n_decodes:
            self._recorder.round(start_s, self.now_s, emitted, positions, n_decodes, self._last_emission_s, self._fresh)
            ended = self._move_on(1, emitted)
        for request in completed:
            ended += self._first_token(request)
        return ended

    def _next_round(self) -> tuple[int, int, int, float]:
        """Context and positions of the next verify pass, tokens it will emit, seconds of drafting before it."""
        if not self.law.n_nodes:
            return self.context_tokens, self.n_decodes, self.n_decodes, 0.0
        emitted = int(self._calendar.emitted(self.tick, 1)[0])
        positions = (
            self.positions if self.law.is_fixed else int(self.n_decodes + self._calendar.reached(self.tick, 1).sum())
        )
        draft_s = float(self._draft_seconds(1, np.array([self.context_tokens]))[0])
        return self.context_tokens, positions, emitted, draft_s

    def _first_token(self, request: LiveRequest) -> bool:
        """A prompt is done and gives a token; whether the request ends with it."""
        self.n_prefilling -= 1
        self.idle_cache_tokens -= request.prompt_tokens
        self._preempted_in_vain = 0
        if request.first_token_s < 0.0:
            request.first_token_s = self.now_s
        else:
            self._recorder.burst(self.now_s - request.last_emission_s)
        request.last_emission_s = self.now_s
        request.prompt_tokens += 1
        request.rest_tokens -= 1
        if request.rest_tokens:
            self._join(request)
            return False
        self._end(request)
        return True

    def _positions(self, n: int) -> Integers | int:
        """Positions of each of the next n verify passes; one number where all are alike."""
        if self.law.is_fixed:
            return self.positions
        return np.asarray(self.n_decodes + self._calendar.reached(self.tick, n).sum(axis=0))

    def _draft_seconds(self, n: int, context: Integers) -> Floats:
        if self.law.is_fixed:
            return self.config.draft_time.seconds(self.law.draft_length, self.law.n_nodes, self.n_decodes, context)
        reached = self._calendar.reached(self.tick, n)
        return self.config.draft_time.cut_seconds(reached, context, self.n_decodes)

    def _run_decodes(self, until_s: float) -> int:
        """Run decode iterations up to the next thing that may happen."""
        taken = self._quiet_ticks(until_s)
        n = taken.size
        context = self._contexts(n)
        n = min(n, self._same_law(context))
        positions = self._positions(n)
        seconds = self.config.iteration_time.decode_seconds(self.n_decodes, positions, context[:n])
        if self.law.n_nodes:
            seconds = seconds + self._draft_seconds(n, context[:n])
        times = np.empty(n + 1)
        times[0] = self.now_s
        times[1:] = seconds
        np.add.accumulate(times, out=times)
        n = max(int(times[:-1].searchsorted(until_s)), 1)
        positions = positions if isinstance(positions, int) else positions[:n]
        emitted = self._book_decodes(times[: n + 1], context[:n], positions, taken[:n])
        self._iteration_s = (self.now_s - float(times[0])) / n
        return self._move_on(n, emitted)

    def _contexts(self, n: int) -> Integers:
        """Tokens of context before each of the next n decode iterations."""
        if not self.law.n_nodes:
            return np.arange(self.context_tokens, self.context_tokens + n * self.n_decodes, self.n_decodes)
        context = np.empty(n, dtype=np.int64)
        context[0] = self.context_tokens
        np.cumsum(self._calendar.emitted(self.tick, n)[:-1], out=context[1:])
        context[1:] += self.context_tokens
        return context

    def _book_decodes(self, times: Floats, context: Integers, positions: Integers | int, taken: Integers) -> int:
        """Take further blocks, set the clock, and report n iterations that nothing came between; tokens emitted."""
        n = context.size
        used = self.config.kv.n_blocks - self.free_blocks + taken
        self.free_blocks -= int(taken[-1])
        emitted: Integers | int = self.n_decodes
        n_emitted = n * self.n_decodes
        if self.law.n_nodes:
            emitted = self._calendar.emitted(self.tick, n)
            n_emitted = int(emitted.sum())
            self._recorder.rejected(positions - emitted, times)
        self._log(n, (times[:-1], times[1:], positions, context, emitted, used), self.n_decodes)
        self._recorder.rounds(times, n_emitted, self.n_decodes, self._last_emission_s, self._fresh)
        self.now_s = float(times[-1])
        return n_emitted

    def _quiet_ticks(self, until_s: float) -> Integers:
        """Blocks taken in further decode iterations, as a running total, for as many as nothing can come between.

        The first one, whose blocks are taken, counts as 0; with the last one a request ends, or blocks could lack.
        """
        n = self._next_end() - self.tick + 1
        if self.config.one_by_one or self.parked or self.has_preempted or (self.waiting and not self.law.is_fixed):
            return np.zeros(1, dtype=np.int64)
        if until_s < math.inf:  # about as many as start by then; the rest would be thrown away
            n = min(n, 2 + int(min(1.25 * (until_s - self.now_s) / self._iteration_s, n)))
        taken = self._calendar.blocks(self.tick, n).cumsum()
        taken -= taken[0]
        if taken[-1] < self.free_blocks:
            return taken
        return taken[: max(int(taken.searchsorted(self.free_blocks)), 1)]

    def _same_law(self, context: Integers) -> int:
        limit = self.config.policy.holds_below(self.n_decodes, context[0] / self.n_decodes)
        return context.size if limit == math.inf else int(np.searchsorted(context / self.n_decodes, limit))

    def _move_on(self, n: int, emitted: int) -> int:
        """Let n decode iterations be over; the number of requests that end with the last one."""
        self._fresh.clear()
        self._last_emission_s = self.now_s
        self._preempted_in_vain = 0
        self.context_tokens += emitted
        self.tick += n
        ended = self._pop_ended()
        for request in ended:
            self._end(request)
        return len(ended)

    def _end(self, request: LiveRequest) -> None:
        self.running.remove(request)
        self.free_blocks += request.blocks
        self._recorder.ended(request, self.now_s, self.number)

    def _process(self, request: LiveRequest, tokens: int) -> bool:
        """Process a chunk of a prompt; whether it is done."""
        request.prefilled_tokens += tokens
        self.idle_cache_tokens += tokens
        return request.prefilled_tokens == request.prompt_tokens

    def _log(
        self, n: int, varying: tuple[Any, ...], n_decodes: int, prefill_tokens: int = 0, n_prefills: int = 0
    ) -> None:
        draft_length = self.law.draft_length if n_decodes else 0
        idle_tokens = self.idle_cache_tokens + (0 if n_decodes else self.context_tokens)
        batch_size, n_waiting = n_decodes + n_prefills, len(self.waiting)
        steady = (self.number, batch_size, n_decodes, prefill_tokens, draft_length, n_waiting, idle_tokens)
        self._recorder.iterations.add(n, varying, steady)
