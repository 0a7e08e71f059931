"""vLLM: ``--speculative-config``, with a draft length for each range of batches, or of batches and contexts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from specbook.deploy.deployment import (
    FORCED_MEAN,
    REHEARSAL,
    ContextSchedule,
    Deployment,
    Plan,
    compact_json,
    drafter_weights,
    engine_word,
    known_rates,
    shell_deployment,
)
from specbook.files import to_json

NAME = "vllm"
_METHODS = {name: name for name in ("draft_model", "eagle", "eagle3", "mtp", "medusa", "ngram")}
_SOURCES = (
    "vllm-project/vllm vllm/config/speculative.py at 002e77c1f0ef9b19cff8b9e21cfbd6feb3d6b443",
    "vllm-project/vllm docs/features/speculative_decoding/dynamic_speculative_decoding.md at "
    "015a47e1282c9ef40d706ee3463cb699e04e93c0",
)
_PROPOSED = "vllm-project/vllm#48944, vllm/v1/spec_decode/dynamic/utils.py at 14b450ca590cbff96e7004bdb147a5d3acf5a4f6"
# The end of the last context range in the proposal, whatever is written there.
_NO_END = 2**31 - 1


def deploy(plan: Plan) -> Deployment:
    """The plan as a ``--speculative-config``.

    Raises
    ------
    BadInput
        If vLLM has no such method, or nobody named the drafter.

    References
    ----------
    vllm32374 for the table by batch, vllm48627 for the one by batch and context, vllm49548 for what a table can cost

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> deploy(example_plan()).payload["num_speculative_tokens_per_batch_size"]
    [[1, 7, 4], [8, 15, 2], [16, 64, 0]]
    """
    method = engine_word(NAME, plan, _METHODS)
    if plan.longest == 0:
        return _deployment(plan, None, ())
    payload: dict[str, Any] = {"method": method}
    if (weights := drafter_weights(plan)) is not None:
        payload["model"] = weights
    payload["num_speculative_tokens"] = plan.longest
    table = _table(plan)
    if table is not None:
        payload["num_speculative_tokens_per_batch_size"] = table
    return _deployment(plan, payload, _notes(plan, table is not None))


def rehearse(plan: Plan) -> Deployment:
    """The plan with drafts accepted by chance instead of by the model, at the rates of the evidence.

    The drafter runs and costs what it costs, so that an untrained one of the right shape will do; its text is noise.

    References
    ----------
    vllm40662

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> rehearse(example_plan()).payload["synthetic_acceptance_rates"]
    [0.8, 0.6, 0.45, 0.35]
    """
    real = deploy(plan)
    if real.payload is None:
        return real
    rates = known_rates(plan)
    payload = {**real.payload, "rejection_sample_method": "synthetic"}
    notes = [REHEARSAL]
    if rates.marginal_acceptance is None:
        payload["synthetic_acceptance_length"] = round(rates.expected_tokens, 6)
        notes.append(FORCED_MEAN)
    else:
        payload["synthetic_acceptance_rates"] = list(rates.marginal_acceptance)
        if len(set(plan.draft_lengths) - {0}) > 1:
            notes.append(f"shorter drafts are accepted like the first positions of K = {plan.longest}")
    return _deployment(plan, payload, (*notes, *real.notes))


def _deployment(plan: Plan, payload: dict[str, Any] | None, notes: tuple[str, ...]) -> Deployment:
    sources = (*_SOURCES, _PROPOSED) if len(plan.schedules) > 1 else _SOURCES
    flags = [] if payload is None else ["--speculative-config", compact_json(payload)]
    made = shell_deployment(NAME, ["vllm", "serve", plan.target, *flags], sources, notes)
    return made if payload is None else replace(made, payload=payload, file_text=to_json(payload), file_format="json")


def _table(plan: Plan) -> list[list[int]] | None:
    """Rows of the table: [first, last, K], or [first, last, first context, last context, K]; None for one length."""
    if len(plan.schedules) > 1:
        return _by_context(plan.schedules)
    if len(plan.ranges) == 1:
        return None
    return [[each.first_batch, each.last_batch, each.draft_length] for each in plan.ranges]


def _by_context(schedules: tuple[ContextSchedule, ...]) -> list[list[int]]:
    """The rectangular table that the proposal asks for: every context has the batch ranges of all of them."""
    starts = sorted({each.first_batch for place in schedules for each in place.ranges})
    last = max(each.last_batch for place in schedules for each in place.ranges)
    batches = list(pairwise([*starts, last + 1]))
    edges = [1, *(place.first_context for place in schedules[1:])]
    contexts = list(zip(edges, [*(edge - 1 for edge in edges[1:]), _NO_END], strict=True))
    return [
        [first, stop - 1, low, high, _length_at(place, first)]
        for first, stop in batches
        for place, (low, high) in zip(schedules, contexts, strict=True)
    ]


def _length_at(place: ContextSchedule, batch: int) -> int:
    return next(each.draft_length for each in reversed(place.ranges) if each.first_batch <= batch)


def _notes(plan: Plan, has_table: bool) -> tuple[str, ...]:
    notes = []
    if len(plan.schedules) > 1:
        notes.append(
            "rows of five by batch and context are a proposal (vllm-project/vllm#48627, pull request #48944, open when "
            "looked up); a released vLLM refuses them"
        )
        notes.append(
            "up to the second context the lengths are those of the first; gains are weighed along the batch alone"
        )
    if has_table:
        notes.append(
            "vLLM counts every scheduled request, prompts too, and shapes its graphs by the length: compare throughput "
            "just below and above each threshold (vllm-project/vllm#49548)"
        )
        notes.append("vLLM ignores the table where --data-parallel-size is above 1")
        notes.append("with a table vLLM's model runner V1 captures piece-wise graphs alone; full ones need V2")
        if plan.engine_method not in ("eagle", "eagle3"):
            notes.append(f"vLLM's table was tested with EAGLE and DFlash, not with {plan.engine_method}")
    if plan.engine_method == "mtp":
        notes.append("vLLM refuses more tokens than the checkpoint has MTP layers, unless they are a multiple of them")
    if plan.engine_method == "ngram":
        notes.append("prompt_lookup_min and prompt_lookup_max are vLLM's own defaults, since the evidence does not say")
    return tuple(notes)
