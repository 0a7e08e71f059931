"""Stage 1: acceptance profiles, given or measured by the native engine; those that speak for no draft are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbook.acceptance.candidates import group_profiles
from specbook.acceptance.choices import drafts_of
from specbook.acceptance.profile import AcceptanceProfile, Provenance, read_profile, write_profile
from specbook.checks import BadInput
from specbook.files import model_sha256, sha256_of, to_json, write_text
from specbook.funnel_config import FunnelConfig
from specbook.measuring.prompts import Prompt, own_prompts_file
from specbook.progress import Progress
from specbook.stage_folder import Gate, Stage
from specbook.stages.plan import (
    STAGE_NAMES,
    FunnelPlan,
    MeasurePlan,
    WitnessPlan,
    Working,
    numbered_file,
    plain,
)
from specbook.witness.beforehand import acceptance_beforehand
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.prompts import choose_prompts

NAME = STAGE_NAMES[0]


def acceptance_stage(plan: FunnelPlan, working: Working) -> Stage:
    """Profiles into files, one each; ``dropped.json`` names those that do not go on."""

    def run(folder: Path) -> Gate:
        measure = plan.measure
        given = plan.choices.profiles if measure is None else measured_profiles(measure, plan.witness, working)
        refused = [why_unusable(profile, plan.choices) for profile in given]
        kept = [profile for profile, reason in zip(given, refused, strict=True) if reason is None]
        for number, profile in enumerate(kept, 1):
            write_profile(profile, folder / numbered_file(number, len(kept), _label(profile)))
        dropped = [(profile, reason) for profile, reason in zip(given, refused, strict=True) if reason is not None]
        write_text(folder / "dropped.json", to_json([_dropped(profile, error) for profile, error in dropped]))
        return Gate(entered=len(given), left=len(kept), dropped=Counter(error.problem for _, error in dropped))

    return Stage(name=NAME, inputs=_inputs(plan), run=run)


def _inputs(plan: FunnelPlan) -> dict[str, Any]:
    if plan.measure is None:
        source: dict[str, Any] = {"profiles": [model_sha256(profile) for profile in plan.choices.profiles]}
    else:
        left_out = {"n_prompts": plan.witness.n_prompts, "seed": plan.witness.seed}
        source = {"measured": plain(plan.measure), "but_not_on": left_out}
    return {**source, **plan.evidence_inputs, "draft": plan.model_inputs["draft"], "method": plan.choices.method}


def read_profiles(root: Path) -> tuple[AcceptanceProfile, ...]:
    """The profiles that stage 1 handed on.

    Raises
    ------
    BadInput
        If one cannot be read.
    """
    return tuple(read_profile(path) for path in sorted((root / NAME).glob("[0-9]*.json")))


def why_unusable(profile: AcceptanceProfile, choices: FunnelConfig) -> BadInput | None:
    """What keeps a profile from being projected; None if nothing does.

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_accepted
    >>> from specbook.funnel import example_funnel
    >>> why_unusable(profile_from_accepted([1, 1]), example_funnel()).problem
    'the source does not say how many tokens each round drafted, or they varied'
    """
    length, nodes = choices.max_draft_length, choices.tree_nodes
    try:
        candidates = drafts_of([profile], assume=choices.assume, max_draft_length=length, tree_nodes=nodes)
        choices.method_of(candidates.method)
    except BadInput as error:
        return error
    return None


def usable_profiles(choices: FunnelConfig) -> tuple[AcceptanceProfile, ...]:
    """The given profiles that can be projected.

    Raises
    ------
    BadInput
        If none can, with what the first one lacks; or if two speak of one and the same draft.

    Examples
    --------
    >>> from specbook.funnel import example_funnel
    >>> len(usable_profiles(example_funnel()))
    1
    """
    refused = [why_unusable(profile, choices) for profile in choices.profiles]
    if refused and None not in refused:
        raise next(error for error in refused if error is not None)
    usable = [profile for profile, error in zip(choices.profiles, refused, strict=True) if error is None]
    for group in group_profiles(usable):
        drafts_of(group, assume=choices.assume, max_draft_length=choices.max_draft_length)
    return tuple(usable)


def measured_profiles(measure: MeasurePlan, witness: WitnessPlan, working: Working) -> list[AcceptanceProfile]:
    """Acceptance of the shipped target with one of its drafters, by domain and draft length, on this machine.

    It does not depend on the cost dial, which repeats weights and changes no output. It is measured as the witness
    runs, where no token ends a text, and on prompts that the witness will not run.

    Parameters
    ----------
    measure : MeasurePlan
    witness : WitnessPlan
        Whose prompts are left out.
    working : callable

    Raises
    ------
    BadInput
        If a domain has too few prompts for both.
    """
    wanted = [(domain, length) for domain in measure.domains for length in measure.draft_lengths]
    profiles = []
    with working("measuring acceptance", measure.n_prompts * len(wanted)) as progress:
        for domain, length in wanted:
            prompts = choose_prompts((domain,), witness.n_prompts, witness.seed).others[: measure.n_prompts]
            profiles.append(_measured(measure, domain, length, prompts, progress))
    return profiles


def _measured(
    measure: MeasurePlan, domain: str, length: int, prompts: Sequence[Prompt], progress: Progress
) -> AcceptanceProfile:
    """One profile, with where its prompts came from."""
    one = Configuration(name=f"K = {length}", drafter=measure.drafter, draft_length=length, domains=(domain,))
    config = WitnessConfig(
        configurations=(one,), arithmetic=measure.arithmetic, new_tokens=measure.new_tokens, seed=measure.seed
    )
    file = own_prompts_file(domain)
    source = [Provenance(file=file.name, sha256=sha256_of(file), format="prompts")]
    profile = acceptance_beforehand(one, config, prompts, progress)
    return profile.model_copy(update={"provenance": source})


def _label(profile: AcceptanceProfile) -> str:
    length = None if profile.draft_length is None else f"k{profile.draft_length}"
    parts = (profile.target, profile.method, profile.domain, length)
    return " ".join(str(part) for part in parts if part is not None)


def _dropped(profile: AcceptanceProfile, error: BadInput) -> dict[str, str]:
    return {"profile": _label(profile), "reason": error.problem, "remedy": error.remedy}


def same_evidence(profiles: Sequence[AcceptanceProfile], row: Mapping[str, Any]) -> tuple[AcceptanceProfile, ...]:
    """The profiles that a row of a projection speaks of; a profile that names no method stands for any."""

    def matches(profile: AcceptanceProfile) -> bool:
        names = (profile.target, profile.drafter, profile.domain, profile.temperature)
        wanted = (row["measured_target"], row["measured_drafter"], row["domain"], row["temperature"])
        return names == wanted and profile.method in (None, row["method"])

    return tuple(profile for profile in profiles if matches(profile))
