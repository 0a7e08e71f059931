"""The serving simulation: requests arrive, replicas work, and the clock goes from iteration boundary to boundary."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from specbook.checks import BadInput
from specbook.progress import silent
from specbook.serving.chances import Chances
from specbook.serving.engine import Scheduler
from specbook.serving.live_request import LiveRequest
from specbook.serving.recorder import Recorder
from specbook.serving.replica import Replica
from specbook.serving.schedulers.vidur import VidurSarathi, VidurVllm
from specbook.serving.schedulers.vllm_v1 import VllmV1
from specbook.serving.serving_config import SchedulerName, ServingConfig
from specbook.serving.sources import Source

_SCHEDULERS: dict[SchedulerName, type[Scheduler]] = {
    "vidur-sarathi": VidurSarathi,
    "vidur-vllm": VidurVllm,
    "vllm-v1": VllmV1,
}


def drive(
    config: ServingConfig,
    source: Source,
    recorder: Recorder,
    rng: np.random.Generator | Chances,
    progress: Callable[[int], None] = silent,
) -> int:
    """Run a source's requests through the replicas to the end.

    Parameters
    ----------
    config : ServingConfig
    source : Source
    recorder : Recorder
        Takes what happens; it is not closed.
    rng : Generator or Chances
        For acceptance alone; chances give back what was recorded.
    progress : callable
        Called with 1 for each request that arrives.

    Returns
    -------
    int
        Requests that had not ended when the run was stopped because too many waited; 0 after a whole run.

    Raises
    ------
    BadInput
        If there is no request, one can never run, or requests preempt each other without end.
    TypeError
        If rng is not a generator.
    """
    if not isinstance(rng, np.random.Generator | Chances):
        raise TypeError(f"rng must be a numpy.random.Generator, as np.random.default_rng(seed) gives; got {rng!r}")
    if source.next_s == math.inf:
        raise BadInput("holds no request", field="workload", remedy="give at least one")
    chances = rng if isinstance(rng, Chances) else Chances(rng)
    replicas = [
        Replica(number, config, _SCHEDULERS[config.scheduler](), chances, recorder)
        for number in range(config.n_replicas)
    ]
    n_arrived = 0
    while True:
        next_s = source.next_s
        if _advance(replicas, source, next_s):
            continue
        if next_s == math.inf:
            return 0
        request = source.pop()
        refusal = why_never(request.asked_prompt_tokens, request.asked_output_tokens, config)
        if refusal is not None:
            raise refusal.at(f"request {request.request_id}")
        replica = _route(replicas, request, config)
        replica.push(request)
        n_arrived += 1
        progress(1)
        if len(replica.waiting) > config.max_waiting:
            return n_arrived - recorder.requests.n_requests


def _advance(replicas: Sequence[Replica], source: Source, until_s: float) -> bool:
    """Let the replicas work up to an arrival; True if it may not be the next one any more."""
    if source.depends_on_ends:
        return _advance_first(replicas, source, until_s)
    for replica in replicas:
        while replica.advance(until_s):
            pass
    return False


def _advance_first(replicas: Sequence[Replica], source: Source, until_s: float) -> bool:
    """Let the replica that is behind work, at most up to where it overtakes the next one; True if one worked."""
    first = min(replicas, key=lambda replica: replica.next_start_s)
    if first.next_start_s >= until_s:
        return False
    others_s = min((each.next_start_s for each in replicas if each is not first), default=math.inf)
    ended = first.advance(min(until_s, max(others_s, math.nextafter(first.next_start_s, math.inf))))
    source.ended(ended, first.now_s)
    return True


def _route(replicas: Sequence[Replica], request: LiveRequest, config: ServingConfig) -> Replica:
    if config.routing == "round_robin":
        return replicas[request.request_id % len(replicas)]
    return min(replicas, key=lambda replica: replica.outstanding_at(request.arrival_s))


def why_never(prompt_tokens: int, output_tokens: int, config: ServingConfig) -> BadInput | None:
    """Why an engine can never run a request, in words that are the same for all such requests; None if it can.

    Longer prompts and more tokens never run where fewer do not.

    Examples
    --------
    >>> from specbook.serving.iteration_time import ConstantIterationTime
    >>> from specbook.serving.kv_blocks import KvConfig
    >>> config = ServingConfig(kv=KvConfig(n_blocks=6), iteration_time=ConstantIterationTime(seconds=0.5))
    >>> print(why_never(90, 6, config))
    None
    >>> print(why_never(90, 7, config))
    tokens = 97: are more than 6 KV blocks of 16 tokens hold; give more KV blocks, or shorter requests
    """
    kv = config.kv
    tokens = prompt_tokens + output_tokens + config.largest_draft
    if not kv.fits(tokens):
        free = f" with {kv.watermark_blocks:,} kept free" if kv.watermark_blocks else ""
        drafted = f", the longest draft of {config.largest_draft} included" if config.largest_draft else ""
        problem = f"are more than {kv.n_blocks:,} KV blocks of {kv.block_size_tokens:,} tokens hold{free}{drafted}"
        return BadInput(problem, field="tokens", value=tokens, remedy="give more KV blocks, or shorter requests")
    if config.scheduler == "vidur-vllm" and prompt_tokens > config.chunk_tokens:
        problem, remedy = f"are more than a batch takes, {config.chunk_tokens:,}", "raise chunk_tokens"
        return BadInput(problem, field="prompt tokens", value=prompt_tokens, remedy=remedy)
    return None
