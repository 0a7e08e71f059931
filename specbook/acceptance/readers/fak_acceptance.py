"""fak's ``fak-spec-acceptance/1``: recorded tokens replayed greedily against recorded drafts (fak10845).

``positional_alpha`` is the share of proposals accepted at a position, which is marginal although fak's roofline takes
it as conditional. Whether ``proposed`` counts rounds that drafted a position, as fak itself does, or rounds that
reached it, is told by the counts; where they do not tell, positions are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import mul
from typing import Any

from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.values import (
    LONGEST_DRAFT,
    MOSTLY,
    a_list,
    an_object,
    expect,
    expect_close,
    fractions,
    length_key,
    number,
    text,
    whole,
)
from specbook.checks import BadInput

NAME = "fak-acceptance"
WARNINGS = (
    "recorded tokens replayed greedily, drafts aligned by position; whether the corpus was fak's synthetic one is not "
    "in the file",
)
CUMULATIVE = False

_SCHEMA = "fak-spec-acceptance/1"
_METHODS = {"linear_mtp": "mtp"}
_REACHED = (
    "`proposed` counts rounds that reached a position; the length of drafts is taken to be the same in all rounds"
)
_UNCLEAR = "`proposed` may count rounds that drafted a position or that reached it: positions are left out"
_UNTYPED = "positional_alpha fits the stated length neither as marginal nor as conditional: it is left out"
_ROUNDED = "tree_depth_yield is rounded, so that rounds by depth cannot be told: they are left out"
_SYNTHETIC = "the file says that its corpus is synthetic: its acceptance is an assumption, not a measurement"
_SAMPLED = "the replay is greedy, whatever temperature the file states"
# Above this share of full drafts, the few shorter ones are drafts cut at the end of a sequence.


def recognises(record: Any) -> bool:
    """Whether the record names fak's schema."""
    return isinstance(record, dict) and str(record.get("schema", "")).startswith("fak-spec-acceptance/")


def read(record: Any, where: str) -> Iterator[Observation]:
    """Yield one run."""
    if record["schema"] != _SCHEMA:
        remedy = f"this version of specbook reads {_SCHEMA}"
        raise BadInput("unknown schema", file=where, field="schema", value=record["schema"], remedy=remedy)
    spec = an_object(record.get("draft_spec") or {}, where, "draft_spec")
    labels, notes = _labels(record, spec, where), _notes(record)
    rounds = whole(record.get("total_rounds"), where, "total_rounds")
    if rounds == 0:
        yield Observation(by_accepted=[], labels=labels, is_request=False)
    elif spec.get("method") == "tree_spec":
        yield _tree(record, rounds, labels, notes, where)
    else:
        yield _chain(record, spec, rounds, labels, notes, where)


def _labels(record: dict[str, Any], spec: dict[str, Any], where: str) -> dict[str, Any]:
    method = text(spec.get("method"), where, "draft_spec.method")
    stated = {
        "target": text(record.get("target_model"), where, "target_model"),
        "drafter": text(spec.get("draft_model_id"), where, "draft_spec.draft_model_id"),
        "method": method and _METHODS.get(method, method),
        "domain": text(record.get("domain"), where, "domain"),
    }
    labels: dict[str, Any] = {name: value for name, value in stated.items() if value}
    if record.get("temperature") is not None:
        labels["temperature"] = number(record["temperature"], where, "temperature")
    return labels


def _notes(record: dict[str, Any]) -> tuple[str, ...]:
    stated = (f"{name} {value}" for name, value in record.items() if isinstance(value, str) or value is True)
    said = any("synthetic" in words.casefold() for words in stated)
    sampled = isinstance(record.get("temperature"), int | float) and record["temperature"] > 0
    return (*([_SYNTHETIC] if said else ()), *([_SAMPLED] if sampled else ()))


def _positions(record: dict[str, Any], where: str) -> tuple[list[int], list[int]]:
    """Proposed and accepted by position; positions are numbered from 0, and each rate is accepted ÷ proposed."""
    items = a_list(record.get("positions") or [], where, "positions")
    if len(items) > LONGEST_DRAFT:
        raise _wrong(f"has more than {LONGEST_DRAFT} positions", where, "positions", len(items))
    proposed, accepted = [], []
    for index, item in enumerate(items):
        name = f"positions[{index}]"
        row = an_object(item, where, name)
        expect(row.get("position"), index, where, f"{name}.position", "its place in the list, counted from 0,")
        proposed.append(whole(row.get("proposed"), where, f"{name}.proposed"))
        accepted.append(whole(row.get("accepted"), where, f"{name}.accepted"))
        if accepted[-1] > proposed[-1]:
            raise _wrong(f"more than the {proposed[-1]} proposed", where, f"{name}.accepted", accepted[-1])
        if proposed[-1]:
            expect_close(row.get("rate"), accepted[-1] / proposed[-1], where, f"{name}.rate", "accepted ÷ proposed")
    width = max((i for i, count in enumerate(proposed, start=1) if count), default=0)
    return proposed[:width], accepted[:width]


def _wrong(problem: str, where: str, field: str, value: Any) -> BadInput:
    return BadInput(problem, file=where, field=field, value=value, remedy="make the profile again")


def _chain(
    record: dict[str, Any],
    spec: dict[str, Any],
    rounds: int,
    labels: dict[str, Any],
    notes: tuple[str, ...],
    where: str,
) -> Observation:
    proposed, accepted = _positions(record, where)
    if not proposed:
        return _from_alpha(record, rounds, labels, notes, where)
    if any(after > before for before, after in pairwise([rounds, *accepted])):
        problem = f"accepted rises from position to position, or is above the {rounds} rounds"
        raise _wrong(problem, where, "positions", accepted)
    depth = whole(spec.get("draft_depth") or 0, where, "draft_spec.draft_depth")
    if 0 < depth < len(proposed):
        raise _wrong(f"{len(proposed)} positions were proposed", where, "draft_spec.draft_depth", depth)
    if proposed[0] > rounds:
        raise _wrong(f"more than the {rounds} rounds", where, "positions[0].proposed", proposed[0])
    _check_length(record, sum(accepted), rounds, where)
    _check_vectors(record, proposed, accepted, rounds, where)
    kind = _meaning(proposed, accepted)
    drafted = proposed if kind == "drafted" else None
    if kind != "unclear" and (drafted or [rounds])[-1] >= MOSTLY * rounds:
        labels = labels | {"draft_length": len(proposed)}
    return Observation(
        labels=labels,
        is_request=False,
        by_drafted=_table(rounds, proposed, accepted) if kind == "drafted" else None,
        accepted_by_position=None if kind == "unclear" else [float(count) for count in accepted],
        drafted_by_position=drafted,
        n_rounds=rounds,
        n_drafted_tokens=None if drafted is None else sum(drafted),
        n_accepted_tokens=sum(accepted),
        notes=(*notes, *{"reached": (_REACHED,), "unclear": (_UNCLEAR,)}.get(kind, ())),
    )


def _meaning(proposed: list[int], accepted: list[int]) -> str:
    """What ``proposed`` counts: a position that more rounds proposed than reached was drafted unseen.

    Examples
    --------
    >>> _meaning([10, 10], [8, 4]), _meaning([10, 8], [8, 4]), _meaning([10, 7], [8, 4])
    ('drafted', 'reached', 'unclear')
    """
    later = list(zip(proposed[1:], accepted, strict=False))
    if any(after > before for before, after in pairwise(proposed)):
        return "unclear"
    if len({*proposed}) == 1 or any(count > before for count, before in later):
        return "drafted"
    return "reached" if all(count == before for count, before in later) else "unclear"


def _table(rounds: int, proposed: list[int], accepted: list[int]) -> dict[int, list[int]] | None:
    """Rounds by drafted and accepted tokens, where every draft was as long; other rounds drafted nothing."""
    if len({*proposed}) != 1 or not proposed[0]:
        return None
    at_least = [proposed[0], *accepted, 0]
    table = {len(proposed): [at_least[j] - at_least[j + 1] for j in range(len(proposed) + 1)]}
    return table | ({0: [rounds - proposed[0]]} if rounds > proposed[0] else {})


def _check_length(record: dict[str, Any], accepted: int, rounds: int, where: str) -> None:
    """The stated length counts the bonus token, which the last round of a sample may lack."""
    if record.get("mean_acceptance_length") is None:
        return
    length = number(record["mean_acceptance_length"], where, "mean_acceptance_length")
    samples = min(whole(record.get("sample_count") or 0, where, "sample_count"), rounds)
    derived = 1.0 + accepted / rounds
    if not derived - samples / rounds <= length <= derived:
        expect_close(length, derived, where, "mean_acceptance_length", "the positions")


def _check_vectors(record: dict[str, Any], proposed: list[int], accepted: list[int], rounds: int, where: str) -> None:
    alpha = fractions(record.get("positional_alpha") or [], where, "positional_alpha")
    width = len(proposed)
    if alpha and (len(alpha) < width or any(alpha[width:])):
        raise _wrong(f"has not the {width} positions of `positions`", where, "positional_alpha", alpha)
    for index, (value, made, kept) in enumerate(zip(alpha, proposed, accepted, strict=False)):
        expect_close(value, kept / max(made, 1), where, f"positional_alpha[{index}]", "the positions")
    for depth, count in _yields(record, rounds, where).items():
        counted = accepted[depth - 1] if depth <= len(accepted) else 0
        expect_close(count, counted, where, f"tree_depth_yield.{depth} × total_rounds", "the positions")


def _from_alpha(
    record: dict[str, Any], rounds: int, labels: dict[str, Any], notes: tuple[str, ...], where: str
) -> Observation:
    """The vector where the counts were left out; its type is told by the stated length."""
    alpha = fractions(record.get("positional_alpha") or [], where, "positional_alpha")
    length = number(record.get("mean_acceptance_length"), where, "mean_acceptance_length", minimum=1.0)

    def fits(marginal: list[float]) -> bool:
        return abs(1.0 + sum(marginal) - length) <= 0.01 * length

    falls = all(after <= before for before, after in pairwise(alpha))
    marginal = alpha if alpha and falls and fits(alpha) else None
    conditional = [*alpha] if alpha and marginal is None and fits(list(accumulate(alpha, mul))) else None
    return Observation(
        labels=labels,
        is_request=False,
        n_rounds=rounds,
        mean_acceptance_length=length,
        marginal_acceptance=marginal,
        conditional_acceptance=None if conditional is None else [*conditional],
        notes=(*notes, *([_UNTYPED] if alpha and marginal is None and conditional is None else ())),
    )


def _yields(record: dict[str, Any], rounds: int, where: str) -> dict[int, float]:
    """Rounds that accepted a path of each depth; depths begin at 1, and one that none reached is left out."""
    name = "tree_depth_yield"
    stated = an_object(record.get(name) or {}, where, name)
    if "0" in stated:
        raise _wrong("begins at depth 0; the first accepted token is depth 1", where, name, stated)
    return {
        length_key(depth, where, name): rounds * number(share, where, f"{name}.{depth}", maximum=1.0)
        for depth, share in stated.items()
    }


def _tree(
    record: dict[str, Any], rounds: int, labels: dict[str, Any], notes: tuple[str, ...], where: str
) -> Observation:
    """Rounds by accepted depth; ``positions`` and ``positional_alpha`` count nodes of the tree, not rounds."""
    counts = _yields(record, rounds, where)
    at_least = [rounds, *(round(counts.get(depth, 0.0)) for depth in range(1, max(counts, default=0) + 1)), 0]
    seen = Observation(labels=labels, is_request=False, is_tree=True, n_rounds=rounds, notes=notes)
    if not counts or any(abs(count - at_least[depth]) > 0.05 for depth, count in counts.items()):
        length = number(record.get("mean_acceptance_length"), where, "mean_acceptance_length", minimum=1.0)
        return replace(seen, mean_acceptance_length=length, notes=(*notes, *([_ROUNDED] if counts else ())))
    if any(after > before for before, after in pairwise(at_least)):
        raise _wrong("rises with depth", where, "tree_depth_yield", record["tree_depth_yield"])
    _check_length(record, sum(at_least[1:]), rounds, where)
    return replace(seen, by_accepted=[before - after for before, after in pairwise(at_least)])
