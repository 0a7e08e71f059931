"""Greedy parity of the witnessed run itself: the tokens that were timed, with and without drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from specbook.witness.execution import JobRun
from specbook.witness.result import Parity


def parity_of(speculative: Sequence[JobRun], alone: Mapping[str, JobRun]) -> Parity:
    """Compare the tokens of requests with those of the same prompts without drafts.

    Parameters
    ----------
    speculative : sequence of JobRun
        Requests of a configuration.
    alone : mapping of str to JobRun
        By the prompt's identifier.

    Returns
    -------
    Parity
        Of nothing where tokens are drawn: there speculation promises the distribution, not the draw.
    """
    temperature = speculative[0].job.temperature
    if temperature:
        why_not = f"tokens are drawn at temperature {temperature:g}, and only their distribution is the same"
        return Parity(n_requests=0, n_tokens=0, n_equal_tokens=0, first_difference=None, why_not=why_not)
    pairs = [(run, alone[run.job.prompt.identifier]) for run in speculative]
    equal = [_n_equal(run, reference) for run, reference in pairs]
    whole = [max(len(run.tokens), len(reference.tokens)) for run, reference in pairs]
    differing = [pair for pair, same, n in zip(pairs, equal, whole, strict=True) if same < n]
    return Parity(
        n_requests=len(pairs),
        n_tokens=sum(whole),
        n_equal_tokens=sum(equal),
        first_difference=_told(*differing[0]) if differing else None,
        why_not=None,
    )


def _n_equal(run: JobRun, reference: JobRun) -> int:
    pairs = zip(run.tokens, reference.tokens, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _told(run: JobRun, reference: JobRun) -> str:
    place = _n_equal(run, reference)
    with_drafts, without = (_token(each, place) for each in (run, reference))
    return f"{run.job.prompt.identifier}: token {place + 1} is {with_drafts} with drafts, {without} without"


def _token(run: JobRun, place: int) -> str:
    return str(run.tokens[place]) if place < len(run.tokens) else "missing"
