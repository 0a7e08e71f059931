"""The scheduler of vLLM's second engine: decodes first, chunked prefill, watermark, preemption by recomputing.

What is kept: one budget of tokens for everything; decodes debit their drafts and the bonus position before acceptance
is known; a prompt gets blocks chunk by chunk; the request that was admitted last gives way; after a preemption nobody
is admitted in the same iteration. Left out: prefix caching, priorities, limits on partial prompts, encoder inputs.
"""

from __future__ import annotations

from specbook.serving.engine import Engine, Prefill
from specbook.serving.live_request import LiveRequest


class VllmV1:
    """Decode first, then prompts under way, then new ones."""

    restarts_prompt = True

    def plan(self, engine: Engine) -> tuple[list[Prefill], bool]:
        """As the protocol says."""
        budget = engine.config.chunk_tokens
        if engine.positions > budget or not engine.take_blocks_of_all():
            self._decode(engine, budget)
        budget -= engine.positions
        prefills: list[Prefill] = []
        if engine.n_prefilling:
            budget = self._go_on(engine, budget, prefills)
        if engine.waiting and not engine.has_preempted:
            self._admit(engine, budget, prefills)
        return prefills, True

    def _decode(self, engine: Engine, budget: int) -> None:
        """Look at each decoding request in the order of admission: it gets blocks, or sits out, or gives way."""
        positions = engine.law.n_nodes + 1
        for request in list(engine.decodes()):
            if request.path is None:
                continue  # it gave way to an earlier one
            if budget < positions:
                engine.park(request)
            elif self._make_room(engine, request, engine.blocks_needed(request)):
                engine.free_blocks -= engine.blocks_needed(request)
                budget -= positions

    def _make_room(self, engine: Engine, request: LiveRequest, blocks: int) -> bool:
        """Preempt from the end until so many blocks are free; False if the request itself had to go."""
        while engine.free_blocks < blocks:
            victim = engine.running[-1]
            engine.preempt(victim)
            if victim is request:
                return False
        return True

    def _go_on(self, engine: Engine, budget: int, prefills: list[Prefill]) -> int:
        """Add chunks of prompts under way; what is left of the budget."""
        for request in [each for each in engine.running if each.path is None]:
            tokens = min(request.prompt_tokens - request.prefilled_tokens, budget)
            if tokens <= 0 or not request.blocks:  # it got nothing, or gave way to an earlier one
                continue
            blocks = engine.config.kv.blocks_for(request.prefilled_tokens + tokens) - request.blocks
            if self._make_room(engine, request, blocks):
                engine.grow(request, blocks)
                prefills.append((request, tokens))
                budget -= tokens
        return budget

    def _admit(self, engine: Engine, budget: int, prefills: list[Prefill]) -> None:
        config = engine.config
        while engine.waiting and len(engine.running) < config.max_batch and budget > 0:
            tokens = min(engine.waiting[0].prompt_tokens, budget)
            blocks = config.kv.blocks_for(tokens)
            if engine.free_blocks - blocks < config.kv.watermark_blocks:
                return
            prefills.append((engine.admit(blocks), tokens))
            budget -= tokens
