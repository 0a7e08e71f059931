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
    rng: np.random.Generator,
    progress: Callable[[int], None] = silent,
) -> int:
    """Run a source's requests through the replicas to the end.

    Parameters
    ----------
    config : ServingConfig
    source : Source
    recorder : Recorder
        Takes what happens; it is not closed.
    rng : Generator
        For acceptance alone.
    progress : callable
        Called with 1 for each request that arrives.

    Returns
    -------
    int
        Requests that had not ended when the run was stopped because too many waited; 0 after a whole run.

    Raises
    ------
    BadInput
        If a request can never run, or requests preempt each other without end.
    """
    chances = Chances(rng)
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
        _check_fits(request, config)
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


def _check_fits(request: LiveRequest, config: ServingConfig) -> None:
    kv = config.kv
    tokens = request.asked_prompt_tokens + request.asked_output_tokens + config.largest_draft
    if not kv.fits(tokens):
        raise BadInput(
            f"needs {kv.blocks_for(tokens)} KV blocks and {kv.watermark_blocks} free ones; there are {kv.n_blocks}",
            field="request",
            value=request.request_id,
            remedy="give more KV blocks, or drop it from the trace",
        )
    if config.scheduler == "vidur-vllm" and request.asked_prompt_tokens > config.chunk_tokens:
        raise BadInput(
            f"has a prompt of {request.asked_prompt_tokens} tokens, which is more than a batch takes",
            field="request",
            value=request.request_id,
            remedy="raise chunk_tokens",
        )
