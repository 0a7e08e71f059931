"""Settings of a fleet taken apart into passes and what no constant of the backend touches."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from specbook.checks import BadInput, Floats
from specbook.roofline.drafting import Drafter, ParallelHeads, SequentialDrafter
from specbook.validation.fleet_constants import constants_before
from specbook.validation.fleet_passes import PassAt, StackedPasses, stacked
from specbook.validation.passes import passes_of
from specbook.validation.rounds import constants_of, predict_rounds
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Setting
from specbook.validation.step_times import StepTimes


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a round of one setting is made of.

    Attributes
    ----------
    setting : Setting
    step, verify : PassAt
        The target over one position of each sequence, and over all of a verify pass.
    draft : PassAt or None
        Of a drafter with weights.
    n_draft_passes, n_draft_overheads : float
        How often a round pays that pass, and the overhead of a step beside it.
    n_further_steps : float
        Steps by which what the engine's kernels lose lengthens a verify pass; held fixed.
    other_s : float
        What the engine spends beside the passes, and look-ups; held fixed.
    outside_share : float
        Of a token's time in the fastest workload, outside decoding.
    """

    setting: Setting
    step: PassAt
    verify: PassAt
    draft: PassAt | None
    n_draft_passes: float
    n_draft_overheads: float
    n_further_steps: float
    other_s: float
    outside_share: float

    @property
    def series(self) -> str:
        """What the row is alike with: its series, or what stands in for one."""
        row = self.setting.row
        return row.series or " ".join((row.source, row.target, row.drafter, row.workload))

    @property
    def server(self) -> Hashable:
        """Same source, passes and context: workloads of it differ in what is outside decoding alone."""
        return (self.setting.row.source, self.step)

    @property
    def workload(self) -> Hashable:
        """Rows of one workload of a server share a run without speculation."""
        return (self.server, self.setting.row.workload)


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetData:
    """Settings of one device and engine, taken apart.

    Attributes
    ----------
    parts : tuple of Parts
        In the order of the settings.
    passes : StackedPasses
        All distinct passes of them.
    index : dict of PassAt to int
    """

    parts: tuple[Parts, ...]
    passes: StackedPasses
    index: dict[PassAt, int] = field(repr=False)


def fleet_data(found: Sequence[Setting]) -> FleetData:
    """Take settings apart into passes.

    Parameters
    ----------
    found : sequence of Setting
        At least one, all of one device and engine, each with a number of devices.

    Raises
    ------
    BadInput
        If a figure of a setting is impossible.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> len(fleet_data([example_setting()]).index)  # a step, a verify pass and a draft pass
    3
    """
    for setting in found:
        _check(setting)
    times, before = StepTimes(), constants_before(found[0].device)
    n_steps, engine_s = _beside_passes(found, times)
    parts = tuple(
        _parts(setting, (float(steps), float(spent_s)), times)
        for setting, steps, spent_s in zip(found, n_steps, engine_s, strict=True)
    )
    passes = [each for part in parts for each in (part.step, part.verify, part.draft) if each is not None]
    index = {each: position for position, each in enumerate(dict.fromkeys(passes))}
    return FleetData(parts=parts, passes=stacked(list(index), before), index=index)


def _check(setting: Setting) -> None:
    row = setting.row
    figures = {
        "tok_s": row.tokens_per_s,
        "baseline_tok_s": row.baseline_tokens_per_s,
        "batch": setting.batch,
        "devices": setting.n_devices,
        "context": setting.context_tokens,
        "acc_len_incl_bonus": setting.tokens_per_round,
    }
    for name, value in figures.items():
        if value is not None and not (math.isfinite(value) and value > 0.0):
            remedy = "correct the row or leave it out"
            raise BadInput(f"line {row.line} is not finite and above 0", field=name, value=value, remedy=remedy)
    if setting.tokens_per_round < 1.0 or setting.depth < 0.0 or setting.n_nodes < 0.0:
        drafted = (setting.tokens_per_round, setting.depth, setting.n_nodes)
        remedy = "a round yields at least one token, and drafts at least none"
        raise BadInput(f"line {row.line} is impossible", field="acc_len_incl_bonus, K", value=drafted, remedy=remedy)


def _beside_passes(found: Sequence[Setting], times: StepTimes) -> tuple[Floats, Floats]:
    """What the engine adds to the passes of each round: multiples of the target's step, and seconds."""
    unknown = np.full(len(found), np.nan)
    passes = replace(passes_of(found, times), baseline_tpot_s=unknown, fastest_tpot_s=unknown)
    constants = np.array([constants_of(overheads_of(each)) for each in found])
    round_s, longer_s = (
        predict_rounds(replace(passes, step_s=factor * passes.step_s), constants).round_s for factor in (1.0, 2.0)
    )
    of_steps_s = longer_s - round_s
    return of_steps_s / passes.step_s, round_s - of_steps_s - passes.verify_s - passes.draft_s


def _parts(setting: Setting, beside: tuple[float, float], times: StepTimes) -> Parts:
    target = times.target(setting.device, setting.target, setting.precision, setting.n_devices or 1)
    drafter = times.drafter(setting)
    draft, n_passes, n_overheads, looking_up_s = _drafting(drafter, setting)
    at = {"batch": float(setting.batch), "context": float(setting.context_tokens)}
    return Parts(
        setting=setting,
        step=PassAt(step=target, tokens=1.0, **at),
        verify=PassAt(step=target, tokens=float(drafter.verify_width(setting.n_nodes)), **at),
        draft=draft,
        n_draft_passes=n_passes,
        n_draft_overheads=n_overheads,
        n_further_steps=beside[0],
        other_s=beside[1] + looking_up_s,
        outside_share=overheads_of(setting).outside_share,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _UnitStep:
    """A step time that takes what it is told and notes where it was asked: drafting is linear in both figures."""

    seconds: float
    overhead_s: float
    asked: list[tuple[float, float, float]]
    kind: str = "unit"

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        del xp
        self.asked.append((float(tokens), float(batch), float(context)))
        return self.seconds


def _drafting(drafter: Drafter, setting: Setting) -> tuple[PassAt | None, float, float, float]:
    """The draft pass, how often a round pays it and the overhead of a step beside it, and seconds without either."""
    if not setting.depth:
        return None, 0.0, 0.0, 0.0
    at = (setting.depth, setting.n_nodes, float(setting.batch), setting.context_tokens)
    if not isinstance(drafter, SequentialDrafter | ParallelHeads):
        return None, 0.0, 0.0, float(drafter.seconds(*at))
    asked: list[tuple[float, float, float]] = []
    n_passes, n_overheads = (
        float(replace(drafter, step=_UnitStep(seconds=seconds, overhead_s=overhead_s, asked=asked)).seconds(*at))
        for seconds, overhead_s in ((1.0, 0.0), (0.0, 1.0))
    )
    step: Any = drafter.step
    tokens, batch, context = asked[0]
    return PassAt(step=step, tokens=tokens, batch=batch, context=context), n_passes, n_overheads, 0.0
