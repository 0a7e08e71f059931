"""TensorRT-LLM: ``speculative_config`` with ``draft_len_schedule``, as YAML for ``trtllm-serve``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from specbook.checks import BadInput
from specbook.deploy.deployment import (
    FORCED_MEAN,
    REHEARSAL,
    Deployment,
    Plan,
    command_line,
    drafter_weights,
    engine_word,
    known_rates,
    only_length,
    shell_deployment,
    with_environment,
)

NAME = "tensorrt-llm"
_TYPES = {"draft_model": "Draft_Target", "eagle3": "Eagle3", "mtp": "MTP", "ngram": "NGram"}
_SOURCES = ("NVIDIA/TensorRT-LLM tensorrt_llm/llmapi/llm_args.py at 0004396720054fd8e205cbf616f21f0b57c6b412",)
_FORCED = "SemiAnalysisAI/InferenceX golden_al_distribution/README.md at fb9a9ca1c5488305558889755984460582655211"
_FILE = "speculative.yaml"


def deploy(plan: Plan, config_file: str | None = None) -> Deployment:
    """The plan as a ``speculative_config``.

    Parameters
    ----------
    plan : Plan
    config_file : str or None
        Where the configuration will lie; None: here, under a usual name.

    Raises
    ------
    BadInput
        If TensorRT-LLM has no such method, a length exceeds that of the smallest batch, which its schedule refuses, or
        nobody named the drafter.

    Notes
    -----
    A key of ``draft_len_schedule`` is the last batch of its range. The smallest must have ``max_draft_len``, and
    beyond the largest nothing is drafted. Earlier releases read the same field as the first batch of a range and asked
    for a key of 1.

    References
    ----------
    trtllm10860 for the schedule, trtllm16888 for what a pause of the drafter can cost

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> deploy(example_plan()).payload["speculative_config"]["draft_len_schedule"]
    {7: 4, 15: 2, 64: 0}
    """
    kind = engine_word(NAME, plan, _TYPES)
    _check_longest_first(plan)
    if plan.longest == 0:
        return _target_alone(plan)
    config: dict[str, Any] = {"decoding_type": kind, "max_draft_len": plan.longest}
    if (weights := drafter_weights(plan)) is not None:
        config["speculative_model"] = weights
    if len(plan.ranges) > 1:
        config["draft_len_schedule"] = {each.last_batch: each.draft_length for each in plan.ranges}
    return _deployment(plan, config, config_file or _FILE)


def rehearse(plan: Plan, config_file: str | None = None) -> Deployment:
    """The plan with rounds that accept the mean of the evidence, whatever was drafted.

    Raises
    ------
    BadInput
        If lengths differ between batches, since TensorRT-LLM forces one mean for all of them.

    Notes
    -----
    TensorRT-LLM counts drafts alone: the mean acceptance length minus 1.

    References
    ----------
    inferencex2026

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> rehearse(example_plan("eagle3", (4,))).command.split()[1]
    'TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=2.2'
    """
    real = deploy(plan, config_file)
    if only_length("a rehearsal on TensorRT-LLM", plan) == 0:
        return real
    accepted = round(known_rates(plan).expected_tokens - 1.0, 6)
    forced = replace(real, schema_sources=(*real.schema_sources, _FORCED))
    return with_environment(forced, {"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS": accepted}, (REHEARSAL, FORCED_MEAN))


def _check_longest_first(plan: Plan) -> None:
    first = plan.ranges[0].draft_length
    for each in plan.ranges:
        if each.draft_length > first:
            problem = (
                f"the best length rises from {first} to {each.draft_length}, and TensorRT-LLM's first is its longest"
            )
            remedy = "ask for one length with --batch"
            raise BadInput(problem, field="batch", value=each.first_batch, remedy=remedy)


def _notes(plan: Plan) -> tuple[str, ...]:
    notes = []
    if len(plan.ranges) > 1:
        notes.append(
            "keys are the last batch of each range; releases that ask for a key of 1 read them as first batches and "
            "would misread this"
        )
        notes.append(
            f"nothing is drafted beyond batch {plan.ranges[-1].last_batch}, the largest that was projected; where a "
            "one-model drafter rests, what it remembers of its requests goes stale, and they accept less for the rest "
            "of their lives (NVIDIA/TensorRT-LLM#16888): keep the server below that batch"
        )
        notes.append("draft_len_schedule is a developer interface there, and needs the PyTorch backend")
    if plan.engine_method == "mtp":
        notes.append("releases that refuse max_draft_len for MTP take the same number as num_nextn_predict_layers")
    if plan.engine_method == "ngram":
        notes.append("max_matching_ngram_size is TensorRT-LLM's own default, since the evidence does not say")
    return tuple(notes)


def _target_alone(plan: Plan) -> Deployment:
    return shell_deployment(NAME, ["trtllm-serve", plan.target], _SOURCES)


def _deployment(plan: Plan, config: dict[str, Any], config_file: str) -> Deployment:
    payload = {"speculative_config": config}
    return Deployment(
        engine=NAME,
        command=command_line(["trtllm-serve", plan.target, "--extra_llm_api_options", config_file]),
        payload=payload,
        file_text=yaml.safe_dump(payload, sort_keys=False, allow_unicode=True),
        file_format="yaml",
        schema_sources=_SOURCES,
        notes=_notes(plan),
        config_file=config_file,
    )
