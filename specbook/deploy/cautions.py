"""What somebody must know before a plan is believed: of the evidence, of the projection, of what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import polars as pl

from specbook import __version__
from specbook.deploy.deployment import Plan
from specbook.deploy.projection import Place

_NOTABLE_LOSS = 0.05
_SCALAR = {
    "mean_length": "a mean acceptance length",
    "draft_rate": "a draft acceptance rate",
}


def cautions(place: Place, plan: Plan) -> tuple[str, ...]:
    """Warnings, each a sentence, the gravest first.

    Parameters
    ----------
    place : Place
    plan : Plan

    Returns
    -------
    tuple of str
    """
    return (
        *_nothing_pays(place, plan),
        *_does_not_fit(place, plan),
        *_scalar(place),
        *_other_lengths(place, plan),
        *_other_domain(place),
        *_merged(plan),
        *_coarse(plan),
        *_left_out(place),
        *_names(place, plan),
        *_other_version(place),
    )


def _nothing_pays(place: Place, plan: Plan) -> Sequence[str]:
    if plan.longest:
        return ()
    fits = bool(place.rows.filter(draft_length=0)["fits_memory"].any())
    reason = "no draft length is faster than none" if fits else "not even the target alone fits in memory"
    return (f"do not speculate: {reason} at any batch that was asked for, on {place.labels['hardware']}",)


def _does_not_fit(place: Place, plan: Plan) -> Sequence[str]:
    """Batches that no engine will run, of those that were projected."""
    contexts = [each.first_context for each in plan.schedules]
    alone = place.rows.filter(pl.col("context").is_in(contexts) & (pl.col("draft_length") == 0))
    too_large = alone.filter(~pl.col("fits_memory")).sort("context", "batch").unique("context", keep="first")
    return [
        f"at context {context:,} the target alone does not fit in memory from batch {batch} on, so no engine gets there"
        for context, batch in too_large.sort("context").select("context", "batch").iter_rows()
    ]


def _scalar(place: Place) -> Sequence[str]:
    kinds = dict.fromkeys(str(each.get("evidence")) for each in place.evidence())
    return [
        f"the evidence is a scalar, {_SCALAR[kind]}: it says nothing of positions, and nothing of other draft lengths"
        for kind in kinds
        if kind in _SCALAR
    ]


def _other_lengths(place: Place, plan: Plan) -> Sequence[str]:
    known = place.assumptions()
    by_text: dict[str, list[int]] = {}
    for length in plan.draft_lengths:
        if length and not known[length].startswith("measured"):
            by_text.setdefault(known[length], []).append(length)
    return [
        f"acceptance at K = {', '.join(map(str, lengths))} was not measured but assumed: {text}; "
        "a position is accepted less often in a longer draft"
        for text, lengths in by_text.items()
    ]


def _other_domain(place: Place) -> Sequence[str]:
    measured = place.labels["domain"]
    if place.asked_domain is not None:
        known = "a domain that it does not name" if measured is None else f"the domain {measured}"
        return (f"acceptance was measured on {known}, not on {place.asked_domain}: expect another length to be best",)
    if measured is None:
        return ("the evidence does not name its domain; acceptance belongs to the text it was measured on",)
    return ()


def _merged(plan: Plan) -> Sequence[str]:
    """Ranges that lost much when a short one went into them."""
    return [
        f"batches {each.first_batch} to {each.last_batch} lose up to {each.largest_loss:.0%} to their best lengths, "
        "since a short range was put into its neighbour: --min-batches 1 keeps it"
        for place in plan.schedules
        for each in place.ranges
        if each.was_merged and each.largest_loss >= _NOTABLE_LOSS
    ]


def _coarse(plan: Plan) -> Sequence[str]:
    """Thresholds that lie between two projected batches, where nobody knows on which side."""
    gaps = [
        f"{before.projected_batches[-1]} and {after.first_batch}"
        for place in plan.schedules
        for before, after in pairwise(place.ranges)
        if after.first_batch - before.projected_batches[-1] > 1
    ]
    first = plan.ranges[0].projected_batches[0]
    below = [f"batches below {first} were not projected, and have its length"] if first > 1 else []
    if not gaps:
        return below
    places = ", ".join(dict.fromkeys(gaps))
    return [
        *below,
        f"lengths change somewhere between batches {places}, which were not projected: project more batches",
    ]


def _left_out(place: Place) -> Sequence[str]:
    if not place.n_other_drafts:
        return ()
    return ("trees and drafts with a cut were left out: an engine is told a number of tokens",)


def _other_version(place: Place) -> Sequence[str]:
    version = place.projection.specbook_version
    if version == __version__:
        return ()
    return (f"the projection was written by specbook {version or 'of an unknown version'}, and this is {__version__}",)


def _names(place: Place, plan: Plan) -> Sequence[str]:
    measured, target = place.labels["measured_target"], place.labels["target"]
    drafter, costed = place.labels["measured_drafter"], place.labels["drafter"]
    method = place.labels["method"]
    found = []
    if method is None:
        found.append(f"the evidence does not name its method; it is deployed as {plan.method}, as it was costed")
    if measured is not None and measured != target:
        found.append(f"acceptance was measured on {measured}, and the times are those of {target}")
    if drafter is not None and method == "draft_model" and drafter != costed:
        found.append(f"acceptance was measured with {drafter}, and the times are those of {costed}")
    return found
