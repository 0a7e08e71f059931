"""A small plan, for examples and first steps."""

from __future__ import annotations

from specbook.deploy.deployment import ContextSchedule, Plan
from specbook.deploy.rates import AcceptanceRates
from specbook.deploy.schedule import BatchRange

_STARTS = (1, 8, 16)


def example_plan(method: str = "eagle3", draft_lengths: tuple[int, ...] = (4, 2, 0)) -> Plan:
    """Up to three ranges from batch 1, the last of which ends at 64.

    Examples
    --------
    >>> [each.first_batch for each in example_plan().ranges]
    [1, 8, 16]
    """
    starts = _STARTS[: len(draft_lengths)]
    ends = [*(start - 1 for start in starts[1:]), 64]
    ranges = tuple(
        BatchRange(
            first_batch=first,
            last_batch=last,
            draft_length=length,
            projected_batches=(first,),
            largest_loss=0.0,
            smallest_speedup=1.5 if length else 1.0,
        )
        for first, last, length in zip(starts, ends, draft_lengths, strict=True)
    )
    marginal = (0.8, 0.6, 0.45, 0.35, 0.25, 0.2, 0.15, 0.1)[: max(draft_lengths)]
    rates = AcceptanceRates(
        draft_length=max(draft_lengths), expected_tokens=1.0 + sum(marginal), marginal_acceptance=marginal
    )
    return Plan(
        target="T",
        drafter="D",
        method=method,
        schedules=(ContextSchedule(first_context=512, ranges=ranges),),
        rates=rates if marginal else None,
    )
