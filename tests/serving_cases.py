"""Small engines and loads, and a plain serving engine without any array, for tests of the serving simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from specbook.checks import Floats
from specbook.serving.arrivals import Arrivals
from specbook.serving.chances import Chances
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.draft_time import ConstantDraft
from specbook.serving.iteration_time import AffineIterationTime, ConstantIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.lengths import FixedLength
from specbook.serving.result import ServingResult, simulate_serving
from specbook.serving.round_law import RoundLaw
from specbook.serving.serving_config import ServingConfig
from specbook.serving.summary import ServingSummary
from specbook.serving.workload import Workload, make_workload

AFFINE = AffineIterationTime(c0_ms=9.0, c1_ms=0.06, c2_ms=0.0004, c3_ms=0.00002)
SCHEDULERS = ("vllm-v1", "vidur-sarathi", "vidur-vllm")


def engine(**changes: Any) -> ServingConfig:
    """An engine with room for all, whose iterations take longer with what they hold."""
    values: dict[str, Any] = {"kv": KvConfig(n_blocks=4000), "iteration_time": AFFINE, "max_batch": 16}
    return ServingConfig(**(values | changes))


def drafting(law: RoundLaw, **changes: Any) -> ServingConfig:
    """The same with one law of drafts, each pass of which takes 2 ms."""
    return engine(**({"policy": FixedDraft(law=law), "draft_time": ConstantDraft(seconds_per_pass=0.002)} | changes))


def one_at_a_time(seconds: float, **changes: Any) -> ServingConfig:
    """An engine that serves one request after the other, whole prompts in one chunk, equally long iterations."""
    return engine(**({"iteration_time": ConstantIterationTime(seconds=seconds), "max_batch": 1} | changes))


def requests(arrival_s: Sequence[float] | Floats, prompt_tokens: Any, output_tokens: Any) -> Workload:
    """Requests of given lengths, or all of one."""
    n = len(arrival_s)
    return Workload(
        arrival_s=np.asarray(arrival_s, dtype=np.float64),
        prompt_tokens=np.broadcast_to(prompt_tokens, n).copy(),
        output_tokens=np.broadcast_to(output_tokens, n).copy(),
    )


def equal_requests(arrivals: Arrivals, n: int, *, prompt: int, output: int, seed: int = 0) -> Workload:
    """Requests that differ in nothing but their arrival."""
    prompts, outputs = FixedLength(value=prompt), FixedLength(value=output)
    rng = np.random.default_rng(seed)
    return make_workload(arrivals=arrivals, prompts=prompts, outputs=outputs, n_requests=n, rng=rng)


def mixed_requests(n: int, *, seed: int = 0, rate_per_s: float = 20.0) -> Workload:
    """Requests of many lengths, at random instants."""
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1.0 / rate_per_s, n))
    return requests(arrival_s, rng.integers(1, 300, n), rng.integers(1, 60, n))


def simulate(config: ServingConfig, workload: Workload, seed: int = 0, **changes: Any) -> ServingResult:
    """A run whose acceptance has a seed."""
    return simulate_serving(config, workload, rng=np.random.default_rng(seed), **changes)


def column(frame: pl.DataFrame, name: str) -> np.ndarray:
    """Values of a column."""
    return frame[name].to_numpy()


def assert_same_frames(first: pl.DataFrame, second: pl.DataFrame) -> None:
    """The same columns, types and bytes."""
    assert first.schema == second.schema
    assert len(first) == len(second)
    different = [name for name in first.columns if column(first, name).tobytes() != column(second, name).tobytes()]
    assert not different


def assert_same_results(first: ServingResult, second: ServingResult) -> None:
    """The same requests, iterations and figures, in every bit."""
    assert_same_frames(first.requests, second.requests)
    assert_same_frames(first.iterations, second.iterations)
    assert first.summary == second.summary


def assert_same_but_for_order(first: ServingResult, second: ServingResult) -> None:
    """The same requests and iterations in every bit; the three sums that are taken in another order, nearly."""
    assert_same_frames(first.requests, second.requests)
    assert_same_frames(first.iterations, second.iterations)
    sums = [
        (result.summary.itl_s.mean, result.summary.itl_per_token_s.mean, result.summary.waste.rejected_slot_seconds)
        for result in (first, second)
    ]
    assert sums[0] == pytest.approx(sums[1], rel=1e-12)
    assert without_sums(first.summary) == without_sums(second.summary)


def without_sums(summary: ServingSummary) -> ServingSummary:
    """Figures but for those sums."""
    return replace(
        summary,
        itl_s=replace(summary.itl_s, mean=None, mean_interval=None),
        itl_per_token_s=replace(summary.itl_per_token_s, mean=None),
        waste=replace(summary.waste, rejected_slot_seconds=0.0),
    )


@dataclass(eq=False)
class PlainRequest:
    """A request of :class:`PlainEngine`: tokens to process before the next one comes out, and those processed."""

    request_id: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    to_process: int = 0
    processed: int = 0
    generated: int = 0
    blocks: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    preemptions: int = 0
    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None

    def __post_init__(self) -> None:
        self.to_process = self.prompt_tokens

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.generated

    @property
    def decodes(self) -> bool:
        return self.processed == self.to_process


@dataclass
class PlainEngine:
    """The rules of ``vllm-v1`` for one replica, request by request.

    Every round is drawn when it runs, and every block counted where it is. It shares nothing with the simulator but
    times, laws and the numbers that decide on acceptance.
    """

    config: ServingConfig
    workload: Workload
    seed: int
    waiting: list[PlainRequest] = field(default_factory=list)
    running: list[PlainRequest] = field(default_factory=list)
    ended: list[tuple[Any, ...]] = field(default_factory=list)
    iterations: list[tuple[Any, ...]] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    rejected_slot_seconds: float = 0.0

    def run(self) -> None:
        self.chances = Chances(np.random.default_rng(self.seed))
        load = self.workload
        rows = zip(load.arrival_s.tolist(), load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)
        coming = [PlainRequest(number, *row) for number, row in enumerate(rows)]
        self.now_s = 0.0
        while coming or self.waiting or self.running:
            if not self.waiting and not self.running:
                self.now_s = max(self.now_s, coming[0].arrival_s)
            while coming and coming[0].arrival_s <= self.now_s:
                self.waiting.append(coming.pop(0))
            self.iterate()

    @property
    def free_blocks(self) -> int:
        return self.config.kv.n_blocks - sum(each.blocks for each in self.running)

    def iterate(self) -> None:
        decoding = [each for each in self.running if each.decodes]
        mean_context = sum(each.total for each in decoding) / len(decoding) if decoding else 0.0
        self.law = self.config.policy.choose(len(decoding), mean_context)
        self.budget, self.has_preempted = self.config.chunk_tokens, False
        decodes = self.plan_decodes(decoding)
        chunks = self.plan_prompts()
        if not self.has_preempted:
            chunks += self.admit()
        if decodes or chunks:
            self.execute(decodes, chunks)

    def plan_decodes(self, decoding: list[PlainRequest]) -> list[PlainRequest]:
        planned = []
        for request in decoding:
            if self.budget > self.law.n_nodes and self.make_room(request, request.total + self.law.n_nodes):
                planned.append(request)
                self.budget -= self.law.n_nodes + 1
        return planned

    def plan_prompts(self) -> list[tuple[PlainRequest, int]]:
        planned = []
        for request in [each for each in self.running if not each.decodes]:
            tokens = min(request.to_process - request.processed, self.budget)
            if tokens and self.make_room(request, request.processed + tokens):
                planned.append((request, tokens))
                self.budget -= tokens
        return planned

    def admit(self) -> list[tuple[PlainRequest, int]]:
        kv, planned = self.config.kv, []
        while self.waiting and len(self.running) < self.config.max_batch and self.budget:
            request = self.waiting[0]
            tokens = min(request.to_process, self.budget)
            if self.free_blocks - kv.blocks_for(tokens) < kv.watermark_blocks:
                break
            self.running.append(self.waiting.pop(0))
            request.blocks = kv.blocks_for(tokens)
            request.scheduled_s = self.now_s if request.scheduled_s is None else request.scheduled_s
            planned.append((request, tokens))
            self.budget -= tokens
        return planned

    def make_room(self, request: PlainRequest, slots: int) -> bool:
        if request not in self.running:
            return False
        needed = max(self.config.kv.blocks_for(slots) - request.blocks, 0)
        while self.free_blocks < needed:
            victim = self.running.pop()
            self.has_preempted = True
            victim.preemptions += 1
            victim.blocks = victim.processed = 0
            victim.to_process = victim.total
            self.waiting.insert(0, victim)
            if victim is request:
                return False
        request.blocks += needed
        return True

    def execute(self, decodes: list[PlainRequest], chunks: list[tuple[PlainRequest, int]]) -> None:
        outcomes = [self.law.outcomes(self.chances.of(each.request_id, each.rounds, 1)) for each in decodes]
        drafted = [int(outcome[0][0]) for outcome in outcomes]
        emitted = [
            min(int(outcome[1][0]) + 1, each.output_tokens - each.generated)
            for outcome, each in zip(outcomes, decodes, strict=True)
        ]
        context, positions = sum(each.total for each in decodes), sum(drafted) + len(drafted)
        parts = [(tokens, each.processed) for each, tokens in chunks]
        start_s = self.now_s
        self.now_s += self.seconds(len(decodes), positions, context, max(drafted, default=0), parts)
        self.rejected_slot_seconds += (positions - sum(emitted)) * (self.now_s - start_s)
        completed = [each for each, tokens in chunks if each.processed + tokens == each.to_process]
        draft_length = self.law.draft_length if decodes else 0
        self.iterations.append((
            0, start_s, self.now_s, len(decodes) + len(chunks), len(decodes), sum(tokens for tokens, _ in parts),
            positions, context, draft_length, sum(emitted) + len(completed),
            self.config.kv.n_blocks - self.free_blocks, self.cached_tokens(parts), len(self.waiting),
        ))  # fmt: skip
        for each, tokens in chunks:
            each.processed += tokens
        for each, count, length in zip(decodes, emitted, drafted, strict=True):
            each.processed = each.to_process = each.total + count
            each.rounds, each.drafted, each.accepted = each.rounds + 1, each.drafted + length, each.accepted + count - 1
            self.emit(each, count)
        for each in completed:
            each.first_token_s = self.now_s if each.first_token_s is None else each.first_token_s
            self.emit(each, 1)

    def cached_tokens(self, parts: list[tuple[int, int]]) -> int:
        before = sum(each.total if each.decodes else each.processed for each in self.running)
        return before + sum(tokens for tokens, _ in parts)

    def seconds(
        self, n_decodes: int, positions: int, context: int, longest: int, parts: list[tuple[int, int]]
    ) -> float:
        passes = self.law.draft_length if self.law.is_fixed else longest
        draft_time = self.config.draft_time
        draft_s = passes * draft_time.seconds_per_pass if n_decodes and isinstance(draft_time, ConstantDraft) else 0.0
        return self.config.iteration_time.mixed_seconds(n_decodes, positions, context, parts) + draft_s

    def emit(self, request: PlainRequest, count: int) -> None:
        if request.last_token_s is not None:
            self.gaps_s.append(self.now_s - request.last_token_s)
        request.last_token_s = self.now_s
        request.generated += count
        if request.generated == request.output_tokens:
            self.running.remove(request)
            self.ended.append((
                request.request_id, 0, request.arrival_s, request.scheduled_s, request.first_token_s, self.now_s,
                request.prompt_tokens, request.output_tokens, request.rounds, request.drafted, request.accepted,
                request.preemptions,
            ))  # fmt: skip
