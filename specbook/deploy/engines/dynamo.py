"""NVIDIA Dynamo's mocker: the draft length and the conditional acceptance that it samples from."""

from __future__ import annotations

from specbook.checks import BadInput
from specbook.deploy.deployment import Deployment, Plan, known_rates, only_length, shell_deployment

NAME = "dynamo"
_LONGEST = 5
_SOURCES = (
    "ai-dynamo/dynamo components/src/dynamo/mocker/config.py at 0cb234e6b0655e7e58e6f3d29e4843dd0e89e114",
    "ai-dynamo/dynamo components/src/dynamo/mocker/tests/unit/test_config.py at "
    "ac0be1b9adb5b95e1481863342a565151aeaa501",
)


def deploy(plan: Plan) -> Deployment:
    """The plan as arguments of ``dynamo.mocker``, which takes *conditional* acceptance.

    Raises
    ------
    BadInput
        If lengths differ between batches, or are longer than Dynamo samples.

    References
    ----------
    dynamo10197, dynamo13517

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> print(deploy(example_plan("mtp", (4,))).command)
    python -m dynamo.mocker --model-path T --aic-perf-model --aic-nextn 4 --aic-nextn-accept-rates
    0.8,0.75,0.75,0.777778
    """
    length = only_length(NAME, plan)
    if length > _LONGEST:
        remedy = f"project with --max-draft-length {_LONGEST}"
        raise BadInput(
            f"Dynamo samples drafts of at most {_LONGEST}", field="draft_length", value=length, remedy=remedy
        )
    flags: list[object] = []
    notes: tuple[str, ...] = ()
    if length > 0:
        rates = ",".join(map(str, known_rates(plan).conditional_acceptance))
        flags, notes = ["--aic-nextn", length, "--aic-nextn-accept-rates", rates], _notes(plan)
    words = ["python", "-m", "dynamo.mocker", "--model-path", plan.target, "--aic-perf-model", *flags]
    return shell_deployment(NAME, words, _SOURCES, notes)


def _notes(plan: Plan) -> tuple[str, ...]:
    notes = ["rates are conditional: of each position, given that the one before was accepted"]
    if known_rates(plan).marginal_acceptance is None:
        notes.append(
            "only the mean length is known, so one conditional acceptance that gives it stands at every position"
        )
    notes.append(
        "offline replay dropped these arguments in silence for a time (ai-dynamo/dynamo#13517): compare with a run "
        "without them"
    )
    if plan.engine_method != "mtp":
        notes.append(f"Dynamo models MTP's drafting; what {plan.engine_method} costs is not in its times")
    return tuple(notes)
