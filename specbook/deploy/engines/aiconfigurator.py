"""NVIDIA AIConfigurator: the draft length, and the draft tokens accepted in a round."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.deploy.deployment import Deployment, Plan, known_rates, only_length, shell_deployment

NAME = "aiconfigurator"
_OLDER_POSITIONS = 5
_SOURCES = (
    "ai-dynamo/aiconfigurator src/aiconfigurator/cli/main.py, the help of --nextn and --nextn-accepted, as of pull "
    "request #1405",
    "ai-dynamo/aiconfigurator src/aiconfigurator/cli/main.py at 0054e1c442e554a36ee4586e810c37eecb0d90c3 (the older "
    "nextn_accept_rates)",
)


def deploy(plan: Plan) -> Deployment:
    """The plan as arguments of the command line, which takes the mean of accepted tokens *without* the bonus token.

    Raises
    ------
    BadInput
        If lengths differ between batches.

    Notes
    -----
    ``nextn_accepted`` is the mean acceptance length minus 1, in [0, K].

    References
    ----------
    aiconfigurator

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> print(deploy(example_plan("mtp", (4,))).command)
    aiconfigurator cli default --model-path T --nextn 4 --nextn-accepted 2.2
    """
    length = only_length(NAME, plan)
    flags: list[object] = ["--nextn", length]
    notes: tuple[str, ...] = ()
    if length > 0:
        flags += ["--nextn-accepted", round(known_rates(plan).expected_tokens - 1.0, 6)]
        notes = _notes(plan)
    words = ["aiconfigurator", "cli", "default", "--model-path", plan.target, *flags]
    return shell_deployment(NAME, words, _SOURCES, notes)


def _notes(plan: Plan) -> tuple[str, ...]:
    notes = [
        "nextn_accepted is the mean acceptance length less the bonus token",
        _older(known_rates(plan).conditional_acceptance),
        "add --system, --total-gpus and the load; a projection does not know them",
    ]
    if plan.engine_method != "mtp":
        notes.append(f"AIConfigurator models MTP's drafting; what {plan.engine_method} costs is not in its times")
    return tuple(notes)


def _older(conditional: Sequence[float]) -> str:
    """What versions took that had rates of five positions in place of a mean."""
    if len(conditional) > _OLDER_POSITIONS:
        return f"versions before --nextn-accepted cannot be told more than {_OLDER_POSITIONS} drafts"
    padded = [*conditional, *[0.0] * (_OLDER_POSITIONS - len(conditional))]
    return f"versions before --nextn-accepted took conditional rates of five positions: {','.join(map(str, padded))}"
