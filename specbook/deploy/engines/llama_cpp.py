"""llama.cpp: flags of ``llama-server``, which takes one draft length for all its slots."""

from __future__ import annotations

from specbook.deploy.deployment import (
    REHEARSAL,
    Deployment,
    Plan,
    command_line,
    drafter_weights,
    engine_word,
    known_rates,
    only_length,
    shell_deployment,
)

NAME = "llama.cpp"
_TYPES = {"draft_model": "draft-simple", "eagle3": "draft-eagle3", "mtp": "draft-mtp", "ngram": "ngram-simple"}
_SOURCES = (
    "ggml-org/llama.cpp tools/server/README.md at 00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b",
    "ggml-org/llama.cpp docs/speculative.md at 067318e633f77bbddc60f9eedc2a20142509f81d (the older names)",
)


def deploy(plan: Plan) -> Deployment:
    """The plan as flags: the length for the slots that ``-np`` sets.

    Raises
    ------
    BadInput
        If llama.cpp has no such method, the best length depends on how many slots there are, or nobody named the
        drafter.

    References
    ----------
    llamacpp22397 and llamacpp22964 for the names, llamacpp24508 for how much too deep a default can be

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> print(deploy(example_plan("draft_model", (4,))).command)
    llama-server -m T -np 64 --spec-type draft-simple --spec-draft-model D --spec-draft-n-max 4 --spec-draft-n-min 0
    --spec-draft-p-min 0
    """
    kind = engine_word(NAME, plan, _TYPES)
    length = only_length(NAME, plan)
    flags: list[object] = ["--spec-type", "none"] if length == 0 else _flags(plan, kind, length)
    return _deployment(plan, flags, _notes(plan, kind, length))


def rehearse(plan: Plan) -> Deployment:
    """The plan with drafts accepted by chance, at the rates of the evidence.

    References
    ----------
    llamacpp27711

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> rehearse(example_plan("draft_model", (4,))).command.split()[-2:]
    ['--spec-synth-rates', '0.8,0.6,0.45,0.35']
    """
    kind = engine_word(NAME, plan, _TYPES)
    length = only_length(NAME, plan)
    if length == 0:
        return deploy(plan)
    rates = known_rates(plan)
    synthetic: list[object] = ["--spec-synth-len", round(rates.expected_tokens, 6)]
    if rates.marginal_acceptance is not None:
        synthetic = ["--spec-synth-rates", ",".join(map(str, rates.marginal_acceptance))]
    return _deployment(plan, [*_flags(plan, kind, length), *synthetic], (REHEARSAL, *_notes(plan, kind, length)))


def _flags(plan: Plan, kind: str, length: int) -> list[object]:
    if kind == "ngram-simple":
        return ["--spec-type", kind, "--spec-ngram-simple-size-m", length]
    weights = drafter_weights(plan)
    drafter = [] if weights is None else ["--spec-draft-model", weights]
    limits = ["--spec-draft-n-max", length, "--spec-draft-n-min", 0, "--spec-draft-p-min", 0]
    return ["--spec-type", kind, *drafter, *limits]


def _notes(plan: Plan, kind: str, length: int) -> tuple[str, ...]:
    if length == 0:
        return ()
    notes = []
    if plan.batch is not None and plan.batch > 1:
        notes.append(f"for {plan.batch} busy slots; with fewer of them busy a longer draft may be faster")
    if _slots(plan) > 1:
        tokens = _slots(plan) * plan.schedules[0].first_context
        notes.append(f"the slots share the context of -c, by default the model's own: {tokens:,} tokens were projected")
    if kind == "draft-simple":
        old = command_line(
            ["--model-draft", drafter_weights(plan), "--draft-max", length, "--draft-min", 0, "--draft-p-min", 0]
        )
        notes.append(f"builds before the flags were renamed take {old}")
    if kind != "ngram-simple":
        notes.append("a --spec-draft-p-min above 0 stops drafts where the drafter is unsure: not what was projected")
    return tuple(notes)


def _slots(plan: Plan) -> int:
    return plan.batch or plan.ranges[-1].last_batch


def _deployment(plan: Plan, flags: list[object], notes: tuple[str, ...]) -> Deployment:
    words = ["llama-server", "-m", plan.target, "-np", _slots(plan), *flags]
    return shell_deployment(NAME, words, _SOURCES, notes)
