"""Vidur's two schedulers, by its rules to the letter, so that its results come out with a difference of 0.

Their order of things matters: who is looked at first, who gives way, where a preempted request queues. One rule is kept
though it is odd: a request that is preempted amid its prompt computes what it had of it, and then gets the rest of the
prompt token by token, as if it were output.
"""

from __future__ import annotations

from collections import deque

from specbook.serving.engine import Engine, Prefill
from specbook.serving.live_request import LiveRequest


def _take_in_order(engine: Engine, order: deque[LiveRequest]) -> None:
    """Give each decoding request its blocks; where none is free, the last of the order gives way.

    A request needs one free block even in iterations in which it takes none.
    """
    while order:
        request = order.popleft()
        if request.path is None:
            continue
        taken = engine.blocks_needed(request)
        while engine.free_blocks < max(taken, 1):
            victim = order.pop() if order else request
            engine.preempt(victim)
            if victim is request:
                break
        else:
            engine.free_blocks -= taken


def _has_room(engine: Engine, blocks: int) -> bool:
    return engine.free_blocks - blocks >= engine.config.kv.watermark_blocks


class VidurSarathi:
    """Chunked prefill: decodes first, then prompts that are under way, then new ones, within one budget of tokens."""

    restarts_prompt = False

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        """As the protocol says."""
        if not engine.take_blocks_of_all():
            _take_in_order(engine, deque(engine.running))
        budget = engine.config.chunk_tokens - engine.positions
        prefills: list[Prefill] = []
        if engine.n_prefilling:
            budget = self._go_on(engine, budget, prefills)
        if engine.waiting:
            self._admit(engine, budget, prefills)
        return prefills, True

    def _go_on(self, engine: Engine, budget: int, prefills: list[Prefill]) -> int:
        """Add chunks of prompts under way; one that gets none goes to the front. What is left of the budget."""
        skipped: list[LiveRequest] = []
        decodes: list[LiveRequest] = []
        served: list[LiveRequest] = []
        for request in engine.running:
            if request.path is not None:
                decodes.append(request)
                continue
            tokens = max(min(request.prompt_tokens - request.prefilled_tokens, budget), 0)
            budget -= tokens
            if tokens:
                prefills.append((request, tokens))
                served.append(request)
            else:
                skipped.append(request)
        engine.running[:] = skipped + decodes + served
        return budget

    def _admit(self, engine: Engine, budget: int, prefills: list[Prefill]) -> None:
        kv = engine.config.kv
        while engine.waiting and len(engine.running) < engine.config.max_batch and budget > 0:
            blocks = kv.blocks_for(engine.waiting[0].prompt_tokens)
            if not _has_room(engine, blocks):
                return
            request = engine.admit(blocks)
            tokens = min(request.prompt_tokens, budget)
            budget -= tokens
            prefills.append((request, tokens))


class VidurVllm:
    """The scheduler of vLLM's first engine: whole prompts before any decode, in batches of their own."""

    restarts_prompt = False

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        """As the protocol says."""
        prefills = self._admit(engine)
        if prefills:
            return prefills, False
        engine.running.sort(key=lambda request: (request.arrival_s, request.request_id))
        if not engine.take_blocks_of_all():
            _take_in_order(engine, deque(engine.running))
        return [], True

    def _admit(self, engine: Engine) -> list[Prefill]:
        config = engine.config
        prefills: list[Prefill] = []
        longest = 0
        while engine.waiting and len(engine.running) < config.max_batch:
            tokens = engine.waiting[0].prompt_tokens
            longest = max(longest, tokens)
            blocks = config.kv.blocks_for(tokens)
            if (len(prefills) + 1) * longest > config.chunk_tokens or not _has_room(engine, blocks):
                break
            prefills.append((engine.admit(blocks), tokens))
        return prefills
