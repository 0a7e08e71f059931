"""SGLang: speculative flags, and the file of adaptive steps where the length changes with the batch."""

from __future__ import annotations

from dataclasses import replace

from specbook.checks import BadInput
from specbook.deploy.deployment import (
    FORCED_MEAN,
    REHEARSAL,
    Deployment,
    Plan,
    drafter_weights,
    engine_word,
    known_rates,
    only_length,
    shell_deployment,
    with_environment,
)
from specbook.files import to_json

NAME = "sglang"
_ALGORITHMS = {"draft_model": "STANDALONE", "eagle": "EAGLE", "eagle3": "EAGLE3", "mtp": "EAGLE"}
# Only these have adaptive steps.
_ADAPTIVE = ("EAGLE", "EAGLE3")
_SOURCES = (
    "sgl-project/sglang python/sglang/srt/speculative/adaptive_spec_params.py at "
    "015c872628e328b530880bcf95ae91222604b225",
    "sgl-project/sglang python/sglang/srt/speculative/adaptive_step_router.py at "
    "a12239f6ac74d804d169ee5d3cfed3c49fa7162c",
    "sgl-project/sglang docs/advanced_features/adaptive_speculative_decoding.md at "
    "369fa46b1151bb3e8b73ddd17fee059fad72dd2f",
    "sgl-project/sglang docs/advanced_features/speculative_decoding.md at docs.sglang.io (flags and algorithms)",
)
_FORCED = "SemiAnalysisAI/InferenceX golden_al_distribution/README.md at fb9a9ca1c5488305558889755984460582655211"
_FILE = "adaptive_steps.json"


def deploy(plan: Plan, config_file: str | None = None) -> Deployment:
    """The plan as launch flags; a schedule as adaptive steps with one candidate for each range.

    With one candidate SGLang's moving average of accepted tokens has nothing to choose from, so that the batch alone
    decides, as in the projection.

    Parameters
    ----------
    plan : Plan
    config_file : str or None
        Where the file of adaptive steps will lie; None: here, under a usual name.

    Raises
    ------
    BadInput
        If SGLang has no such method, drafts n-grams as trees, has no adaptive steps for it, or nobody named the
        drafter.

    References
    ----------
    sglang24055, sglang21599

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> deploy(example_plan()).payload
    {'1': {'candidate_steps': [4]}, '8': {'candidate_steps': [2]}, '16': {'candidate_steps': [0]}}
    """
    if plan.engine_method == "ngram":
        problem, remedy = (
            "SGLang drafts n-grams as trees, to which a length does not carry over",
            "use another --engine",
        )
        raise BadInput(problem, field="method", value=plan.method, remedy=remedy)
    algorithm = engine_word(NAME, plan, _ALGORITHMS)
    if plan.longest == 0:
        return _deployment(plan, [])
    if len(plan.ranges) == 1 or algorithm not in _ADAPTIVE:
        only_length(f"SGLang's {algorithm}", plan)
        return _deployment(plan, _flags(plan, algorithm))
    steps = {str(each.first_batch): {"candidate_steps": [each.draft_length]} for each in plan.ranges}
    path = config_file or _FILE
    flags = [*_flags(plan, algorithm), "--speculative-adaptive", "--speculative-adaptive-config", path]
    adaptive = replace(_deployment(plan, flags), payload=steps, file_text=to_json(steps), file_format="json")
    return replace(adaptive, notes=_NOTES, config_file=path)


def rehearse(plan: Plan) -> Deployment:
    """The plan with rounds that accept the mean of the evidence, whatever was drafted.

    Raises
    ------
    BadInput
        If lengths differ between batches, since SGLang forces one mean for all of them.

    References
    ----------
    inferencex2026

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> rehearse(example_plan("eagle3", (4,))).command.split()[:2]
    ['env', 'SGLANG_SIMULATE_ACC_LEN=3.2']
    """
    real = deploy(plan)
    if only_length("a rehearsal on SGLang", plan) == 0:
        return real
    variables = {
        "SGLANG_SIMULATE_ACC_LEN": round(known_rates(plan).expected_tokens, 6),
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
        "SGLANG_SIMULATE_ACC_TOKEN_MODE": "real-draft-token",
    }
    forced = replace(real, schema_sources=(*real.schema_sources, _FORCED))
    return with_environment(forced, variables, (REHEARSAL, FORCED_MEAN))


_NOTES = (
    "keys are the smallest batch of a range; SGLang first rounds the batch up to that of a captured graph, so capture "
    "graphs just below each key too",
    "versions of SGLang before keys by batch take one list of candidate_steps for all and cannot say this",
    "adaptive steps need --speculative-eagle-topk 1, and are off under attention data parallelism and for MTP of "
    "several layers",
)


def _flags(plan: Plan, algorithm: str) -> list[object]:
    """Flags of a chain of the longest length; SGLang counts the bonus position among its draft tokens."""
    weights = drafter_weights(plan)
    drafter = [] if weights is None else ["--speculative-draft-model-path", weights]
    return [
        "--speculative-algorithm", algorithm, *drafter,
        "--speculative-num-steps", plan.longest,
        "--speculative-eagle-topk", 1,
        "--speculative-num-draft-tokens", plan.longest + 1,
    ]  # fmt: skip


def _deployment(plan: Plan, flags: list[object]) -> Deployment:
    words = ["python", "-m", "sglang.launch_server", "--model-path", plan.target, *flags]
    return shell_deployment(NAME, words, _SOURCES)
