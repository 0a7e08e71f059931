"""What requests drafted and accepted, round by round, and the simulator's time for exactly that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specbook.checks import Floats
from specbook.engine.decoding import RoundRecord
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.draft_policy import FixedDraft
from specbook.serving.draft_time import DraftTime, NoDraft
from specbook.serving.iteration_time import IterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.recorded_chances import RecordedChances, recorded_luck
from specbook.serving.result import ServingResult, simulate_serving
from specbook.serving.round_law import RoundLaw, counted_law
from specbook.serving.serving_config import ServingConfig
from specbook.serving.workload import Workload

Integers = NDArray[np.int64]
_N_BLOCKS = 4096  # one request at a time never fills them


@dataclass(frozen=True, kw_only=True)
class RequestTrace:
    """A request that was decoded.

    Attributes
    ----------
    prompt_tokens, n_tokens : int
        Of its prompt, and those it was answered with, at least 2.
    first_tokens : int
        Tokens of its first round, which arrive together and count as the first token does.
    drafted, accepted : (n_rounds,) ndarray of int64
        Of each round after the first; of a last round that was cut, as verified.
    """

    prompt_tokens: int
    n_tokens: int
    first_tokens: int
    drafted: Integers
    accepted: Integers


Trace = tuple[RequestTrace, ...]


def request_trace(records: Sequence[RoundRecord], prompt_tokens: int) -> RequestTrace:
    """The trace of a request from the engine's records of its rounds.

    Examples
    --------
    >>> seconds = {"draft_s": 0.0, "verify_s": 0.0, "accept_s": 0.0}
    >>> record = RoundRecord(drafted=2, depth=2, accepted=1, emitted=2, tried=(), kept=(), **seconds)
    >>> request_trace([record, record], prompt_tokens=9).n_tokens
    4
    """
    later = records[1:]
    return RequestTrace(
        prompt_tokens=prompt_tokens,
        n_tokens=sum(record.emitted for record in records),
        first_tokens=records[0].emitted,
        drafted=np.array([record.drafted for record in later], dtype=np.int64),
        accepted=np.array([record.accepted for record in later], dtype=np.int64),
    )


def trace_law(trace: Trace, depth: int) -> RoundLaw:
    """The law that counts the rounds of a trace, so that all of them are possible in it.

    Parameters
    ----------
    trace : tuple of RequestTrace
        With at least one round after a first one.
    depth : int
        Draft passes of a round: K of a chain, or the depth of a tree.
    """
    counts: dict[int, list[int]] = {}
    for request in trace:
        for drafted, accepted in zip(request.drafted.tolist(), request.accepted.tolist(), strict=True):
            counts.setdefault(drafted, [0] * (drafted + 1))[accepted] += 1
    return law_of_counts(counts, depth)


def law_of_counts(rounds_by_drafted: Mapping[int, Sequence[int]], depth: int) -> RoundLaw:
    """The law of counted rounds; of a tree, whose rounds are alike, with as many passes as it is deep.

    Parameters
    ----------
    rounds_by_drafted : mapping of int to sequence of int
        As :func:`~specbook.serving.round_law.counted_law` takes them.
    depth : int
        As in :func:`trace_law`.
    """
    law = counted_law(rounds_by_drafted)
    return replace(law, draft_length=min(depth, law.n_nodes)) if law.is_fixed else law


def simulated_tpot_s(
    trace: Trace, depth: int, iteration_time: IterationTime, draft_time: DraftTime | None = None
) -> Floats:
    r"""TPOT of each request of a trace in the serving simulator, one request after the other.

    Parameters
    ----------
    trace : tuple of RequestTrace
    depth : int
        As in :func:`trace_law`.
    iteration_time : IterationTime
    draft_time : DraftTime, optional
        None where the iteration time holds the drafting.

    Returns
    -------
    (n_requests,) ndarray of float64
        Seconds per token.

    Notes
    -----
    The simulator's prompt gives one token; a first round gave m. So it is asked for n − m + 1 tokens behind a prompt
    that is m − 1 longer, and

    .. math:: \mathrm{TPOT} = (t_\mathrm{end} - t_\mathrm{first}) / (n - 1)

    as measured: the same rounds lie between the same two instants.
    """
    law = trace_law(trace, depth)
    luck = RecordedChances([recorded_luck(law, request.drafted, request.accepted) for request in trace])
    lengths = [(each.prompt_tokens, each.first_tokens, each.n_tokens) for each in trace]
    prompt_tokens, first_tokens, n_tokens = np.array(lengths, dtype=np.int64).T
    config, workload = (
        serving_config(law, iteration_time, draft_time),
        later_rounds(prompt_tokens, first_tokens, n_tokens),
    )
    result = simulate_serving(config, workload, rng=luck, loop=ClosedLoop(n_clients=1))
    return np.asarray(decode_seconds(result) / (n_tokens - 1))


def decode_seconds(result: ServingResult) -> Floats:
    """Seconds from the first token of each request to its last, (n_requests,) ndarray of float64."""
    return np.asarray((result.requests["end_s"] - result.requests["first_token_s"]).to_numpy())


def serving_config(law: RoundLaw, iteration_time: IterationTime, draft_time: DraftTime | None) -> ServingConfig:
    """An engine that serves one request at a time, as the witness does."""
    return ServingConfig(
        max_batch=1,
        kv=KvConfig(n_blocks=_N_BLOCKS),
        iteration_time=iteration_time,
        draft_time=NoDraft() if draft_time is None else draft_time,
        policy=FixedDraft(law=law),
    )


def later_rounds(prompt_tokens: Integers, first_tokens: Integers, n_tokens: Integers) -> Workload:
    """Requests whose first rounds are part of their prompts, as :func:`simulated_tpot_s` explains.

    Parameters
    ----------
    prompt_tokens, first_tokens, n_tokens : (n_requests,) ndarray of int64
        Of each prompt, of the first round, and of the whole answer, which is longer than the first round.
    """
    return Workload(
        arrival_s=np.zeros(prompt_tokens.size),
        prompt_tokens=prompt_tokens + first_tokens - 1,
        output_tokens=n_tokens - first_tokens + 1,
        name="witness",
    )
