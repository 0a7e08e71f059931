"""From a place of a projection to a plan: schedules, names, acceptance."""

from __future__ import annotations

from dataclasses import dataclass

from specbook.checks import BadInput
from specbook.deploy.deployment import ContextSchedule, Plan
from specbook.deploy.projection import Place, length_table
from specbook.deploy.rates import AcceptanceRates, acceptance_rates
from specbook.deploy.schedule import BatchRange, LengthTable, best_length, draft_schedule
from specbook.roofline.drafting import METHODS


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What somebody may ask of a plan.

    Attributes
    ----------
    context : int or None
        Tokens of context; None where the projection holds one, or for all of them with ``by_context``.
    by_context : bool
        One schedule for each context.
    batch : int or None
        One draft length, the best for so many requests at once.
    min_gain : float
        Share of the time per token for which a length is left.
    min_batches : int
        Fewest batches of a range.
    target, drafter : str or None
        Names or paths for the engine; None: as the evidence names them, or else the projection.
    """

    context: int | None = None
    by_context: bool = False
    batch: int | None = None
    min_gain: float = 0.03
    min_batches: int = 2
    target: str | None = None
    drafter: str | None = None

    def __post_init__(self) -> None:
        if self.by_context and (self.context is not None or self.batch is not None):
            field = "--context" if self.context is not None else "--batch"
            raise BadInput("is one, and --by-context is for all", field=field, remedy="leave one of them out")
        for field, name in (("--target", self.target), ("--draft", self.drafter)):
            if name is not None and not name.strip():
                raise BadInput("is empty", field=field, value=name, remedy="give a path or hub name, or leave it out")
        if not 0.0 <= self.min_gain <= 1.0:
            remedy = "give a share such as 0.03"
            raise BadInput("must lie in [0, 1]", field="--min-gain", value=self.min_gain, remedy=remedy)


def make_plan(place: Place, options: PlanOptions) -> Plan:
    """The plan for one place of a projection.

    Raises
    ------
    BadInput
        If several contexts are left, or a context or batch was not projected.
    """
    schedules = tuple(
        ContextSchedule(first_context=context, ranges=_ranges(length_table(place, context), options))
        for context in _contexts(place, options)
    )
    longest = max(each.draft_length for schedule in schedules for each in schedule.ranges)
    return Plan(
        target=options.target or str(place.labels["measured_target"] or place.labels["target"]),
        drafter=options.drafter or _drafter(place),
        method=_method(place),
        schedules=schedules,
        rates=_rates(place, longest),
        batch=options.batch,
    )


def _method(place: Place) -> str:
    """As the evidence names it; where it does not, what drafting was costed as."""
    if place.labels["method"] is not None:
        return str(place.labels["method"])
    costed = str(place.labels["drafter"])
    return costed if costed in METHODS else "draft_model"


def _drafter(place: Place) -> str | None:
    """As the evidence names it, or the model whose times were taken; a method is no name."""
    if place.labels["measured_drafter"] is not None:
        return str(place.labels["measured_drafter"])
    costed = str(place.labels["drafter"])
    return None if costed in METHODS else costed


def _rates(place: Place, longest: int) -> AcceptanceRates | None:
    if longest == 0:
        return None
    measured = place.measured_marginal(longest)
    return acceptance_rates(longest, place.expected_tokens(), place.assumptions(), measured)


def _contexts(place: Place, options: PlanOptions) -> tuple[int, ...]:
    if options.by_context:
        return place.contexts
    if options.context is not None:
        return (options.context,)
    if len(place.contexts) > 1:
        several = f"holds several: {', '.join(map(str, place.contexts))}"
        remedy = "name one with --context, or write a table of all with --by-context"
        raise BadInput(several, file=place.projection.file, field="context", remedy=remedy)
    return place.contexts


def _ranges(table: LengthTable, options: PlanOptions) -> tuple[BatchRange, ...]:
    if options.batch is None:
        return draft_schedule(table, min_gain=options.min_gain, min_batches=options.min_batches)
    if options.batch not in table.batches:
        known = ", ".join(map(str, table.batches))
        raise BadInput(
            "was not projected, or does not fit", field="--batch", value=options.batch, remedy=f"one of {known}"
        )
    return (_for_all(table, best_length(table, options.batch), options.batch),)


def _for_all(table: LengthTable, draft_length: int, batch: int) -> BatchRange:
    """One length up to a batch: what it costs there, and at the smaller batches that were projected."""
    column, n_rows = table.draft_lengths.index(draft_length), table.batches.index(batch) + 1
    best = table.tpot_s[:n_rows].min(axis=1, where=table.pays[:n_rows], initial=float("inf"))
    return BatchRange(
        first_batch=1,
        last_batch=batch,
        draft_length=draft_length,
        projected_batches=table.batches[:n_rows],
        largest_loss=float((table.tpot_s[:n_rows, column] / best - 1.0).max()),
        smallest_speedup=float(table.speedups[:n_rows, column].min()),
    )
