"""What of a receipt must follow from what else: no figure of a configuration may contradict its requests."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from specbook.witness.receipt_parts import ParityRecord, RequestRecord, TermRecord, impossible

# Figures that follow from others are stored with all their digits; sums may differ in the last ones.
_TOLERANCE = 1e-9
_TERMS = ("verify", "draft", "acceptance", "overhead")
_GREEDY = 0.0


def check_equal(field: str, value: float, expected: float, meaning: str) -> None:
    """Raise if a figure is not what it means.

    Examples
    --------
    >>> check_equal("error.value", 0.05, 0.05, "predicted ÷ measured − 1")
    """
    if not isclose(value, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
        raise impossible(f"is not {meaning}, which is {expected:.6g}", field, value)


def check_requests(requests: Sequence[RequestRecord], domains: Sequence[str], most_tokens: int) -> None:
    """Raise if a prompt stands twice or is of another domain, or a request has tokens that its rounds cannot give.

    Parameters
    ----------
    requests : sequence of RequestRecord
    domains : sequence of str
        Of the configuration.
    most_tokens : int
        That a round gives, the bonus token included.
    """
    prompts = [each.prompt for each in requests]
    if len(set(prompts)) != len(prompts):
        raise impossible("one prompt twice", "requests", max(prompts, key=prompts.count))
    for number, each in enumerate(requests):
        place = f"requests.{number}"
        if each.domain not in domains:
            raise impossible("is no domain of the configuration", f"{place}.domain", each.domain)
        if not 2 <= each.n_rounds <= each.n_tokens <= each.n_rounds * most_tokens:
            problem = f"cannot be of {each.n_tokens} tokens, 1 to {most_tokens} a round, with rounds after the first"
            raise impossible(problem, f"{place}.n_rounds", each.n_rounds)


def check_parity(parity: ParityRecord, requests: Sequence[RequestRecord], temperature: float) -> None:
    """Raise if a greedy run compared other tokens than its own, or a drawn one compared any."""
    n_requests = len(requests) if temperature == _GREEDY else 0
    if parity.n_requests != n_requests:
        problem = f"is not the number of requests whose tokens can be compared, {n_requests}"
        raise impossible(problem, "parity.n_requests", parity.n_requests)
    n_tokens = sum(each.n_tokens for each in requests) if n_requests else 0
    # Where tokens differ, the longer of two texts counts.
    if parity.n_tokens < n_tokens or (parity.as_parity().is_equal and parity.n_tokens > n_tokens):
        raise impossible(f"is not that of the requests, {n_tokens}", "parity.n_tokens", parity.n_tokens)


def check_terms(field: str, terms: Sequence[TermRecord], measured_s: float, predicted_s: float | None = None) -> None:
    """Raise if terms are not the four, or do not add up to what was measured, or to what was predicted.

    Parameters
    ----------
    field : str
        Where they stand.
    terms : sequence of TermRecord
    measured_s : float
        Mean seconds per token, as :func:`mean_tpot_s` has it.
    predicted_s : float or None
        The same of the prediction; None where it is of other requests than those that are listed.
    """
    names = [term.name for term in terms]
    if sorted(names) != sorted(_TERMS):
        raise impossible(f"are not {', '.join(_TERMS)}", field, names)
    # Acceptance compares rounds per token at the predicted time of a round, so it is no part of the measured sum.
    total_s = sum(term.measured_s for term in terms if term.name != "acceptance")
    check_equal(f"{field}.measured_s", total_s, measured_s, "the mean seconds per token of the requests")
    if predicted_s is not None:
        off_s = sum(term.predicted_s - term.measured_s for term in terms)
        check_equal(field, off_s, predicted_s - measured_s, "the difference of the means, in seconds per token")


def mean_tpot_s(requests: Sequence[RequestRecord], tpot_s: Sequence[float]) -> float:
    """Mean over tokens, but for the first of each request.

    Parameters
    ----------
    requests : sequence of RequestRecord
    tpot_s : sequence of float
        Of each, seconds per token.
    """
    weights = [each.n_tokens - 1 for each in requests]
    return sum(weight * seconds for weight, seconds in zip(weights, tpot_s, strict=True)) / sum(weights)
