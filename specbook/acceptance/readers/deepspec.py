"""DeepSpec's evaluation rows, one a data set: means over rounds, and the share of drafts accepted by position.

Position i is judged in the proposals that were at least so long, and counts as accepted if all before it were: the
vector is marginal (deepspec2026). The evaluation stops at the first end-of-sequence token, also inside an accepted
prefix, and such a round has no bonus token; the stated length is therefore a little below 1 + accepted ÷ rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import LONGEST_DRAFT, MOSTLY, a_list, fraction, number, text
from specbook.checks import BadInput

NAME = "deepspec"
WARNINGS = ("rounds end at the first end-of-sequence token, where vLLM counts on to the end of the accepted prefix",)
CUMULATIVE = False

_CONDITIONAL = "the vector multiplies to the stated length: it is conditional"
_DROPPED = "acceptance by position fits the stated length neither as marginal nor as conditional: it is left out"
# Rounds that end a sequence lack the bonus token, which lowers the length by less than this; rounding adds little.
_LOWERED, _ROUNDED = 0.099, 0.02
# A rate printed with two digits, and a little for the float.
_VERIFY_STEP = 0.0051
_OTHER_RATE = "verify_rate is not acceptance_length ÷ (draft_tokens_per_proposal + 1) and is not used"


def recognises(record: Any) -> bool:
    """Whether the record is a row of the evaluation, or an artifact that holds one under ``spec``."""
    return isinstance(record, dict) and _row(record) is not None


def _row(record: dict[str, Any]) -> dict[str, Any] | None:
    for row in (record, record.get("spec")):
        if isinstance(row, dict) and {"draft_tokens_per_proposal", "acceptance_length", "verify_rate"} <= row.keys():
            return row
    return None


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one run; one without proposals says 0 for everything, which is no length."""
    row = _row(record) or {}
    domain = text(row.get("dataset"), where, "dataset")
    labels: dict[str, Any] = {} if domain is None else {"domain": domain}
    drafted = number(row["draft_tokens_per_proposal"], where, "draft_tokens_per_proposal", maximum=LONGEST_DRAFT)
    if row["acceptance_length"] == 0 and drafted == 0:
        yield Observation(by_accepted=[], labels=labels, is_request=False)
        return
    length = number(row["acceptance_length"], where, "acceptance_length", maximum=drafted + 1.01)
    notes = _checked_notes(row, length, drafted, where)
    rates = _rates(row, where)
    if rates and len(rates) - drafted <= 1.0 - MOSTLY:  # so at least that share of proposals was as long as any
        labels["draft_length"] = len(rates)
    seen = _observation(rates, length, drafted, labels, _weight(row, where))
    yield replace(seen, notes=(*seen.notes, *notes))


def _checked_notes(row: dict[str, Any], length: float, drafted: float, where: str) -> tuple[str, ...]:
    if length < 1.0:
        raise BadInput(
            "a round gives at least one token",
            file=where,
            field="acceptance_length",
            value=length,
            remedy="the length counts the bonus token",
        )
    stated = number(row["verify_rate"] or 0.0, where, "verify_rate")
    return () if abs(stated - length / (drafted + 1.0)) <= _VERIFY_STEP else (_OTHER_RATE,)


def _rates(row: dict[str, Any], where: str) -> list[float]:
    """Shares by position, up to the first that no proposal reached."""
    name = "accept_rates_by_position"
    stated = a_list(row.get(name) or [], where, name)
    known = [value for value in stated if value is not None]
    if len(stated) > LONGEST_DRAFT or stated[: len(known)] != known:
        problem = "holds a position after one that no proposal reached"
        raise BadInput(problem, file=where, field=name, value=stated, remedy="run the evaluation again")
    return [fraction(value, where, f"{name}[{index}]") for index, value in enumerate(known)]


def _weight(row: dict[str, Any], where: str) -> float | None:
    """Verify steps, where the row has their rate and the time they took."""
    if row.get("verifications_per_second") is None or row.get("elapsed_seconds") is None:
        return None
    per_second = number(row["verifications_per_second"], where, "verifications_per_second")
    return per_second * number(row["elapsed_seconds"], where, "elapsed_seconds") or None


def _observation(
    rates: list[float], length: float, drafted: float, labels: dict[str, Any], weight: float | None
) -> Observation:
    alike = labels.get("draft_length") is not None
    falls = all(after <= before + 1e-9 for before, after in pairwise(rates))
    marginal = rates if rates and falls and _fits(rates, length, drafted, alike) else None
    product = list(accumulate(rates, mul))
    conditional = rates if rates and marginal is None and _fits(product, length, drafted, alike) else None
    notes = (_CONDITIONAL,) if conditional else () if marginal or not rates else (_DROPPED,)
    return Observation(
        labels=labels,
        is_request=False,
        mean_acceptance_length=length,
        marginal_acceptance=marginal,
        conditional_acceptance=None if conditional is None else [*conditional],
        weight=weight,
        notes=notes,
    )


def _fits(marginal: list[float], length: float, drafted: float, alike: bool) -> bool:
    """Whether marginal shares give the length, whichever proposals were the short ones.

    With proposals of one length the length is 1 + the sum. Else a share counts with the part of proposals that were so
    long, and those parts only sum to the mean draft: the length is least if all parts are equal, greatest if the first
    positions were always proposed.
    """
    total = sum(marginal)
    if alike:
        return -_LOWERED <= length - 1.0 - total <= _ROUNDED
    full = int(drafted)
    most = sum(marginal[:full]) + (drafted - full) * sum(marginal[full : full + 1])
    return total * drafted / len(marginal) - _LOWERED <= length - 1.0 <= most + _ROUNDED
