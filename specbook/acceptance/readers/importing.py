"""From files to one acceptance profile: recognise the format, pool the requests, keep what the labels agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from specbook.acceptance.estimates import weighted
from specbook.acceptance.profile import (
    AcceptanceProfile,
    Provenance,
    TreeYield,
    profile_from_accepted,
    profile_from_counts,
)
from specbook.acceptance.readers import spec_bench, vllm_per_request
from specbook.acceptance.readers.records import Progress, Record, read_records, silent
from specbook.acceptance.readers.requests import Reader, RequestCounts
from specbook.checks import BadInput
from specbook.files import check_readable, sha256_of

FORMATS: dict[str, Reader] = {module.NAME: cast(Reader, module) for module in (vllm_per_request, spec_bench)}
LABELS = ("target", "drafter", "method", "domain", "temperature", "draft_length")


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What the person importing knows and the file may not say.

    Attributes
    ----------
    format : str
        A key of :data:`FORMATS`, or ``auto``.
    labels : dict
        Values for target, drafter, method, domain, temperature or draft_length that override the file's. A stated
        ``draft_length`` says that every round drafted that many tokens.
    categories : tuple of str
        Keep only requests of these domains; empty keeps all.

    Raises
    ------
    BadInput
        If there is no such format.
    """

    format: str = "auto"
    labels: dict[str, Any] = field(default_factory=dict)
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            remedy = f"one of auto, {', '.join(FORMATS)}"
            raise BadInput("no such format", field="format", value=self.format, remedy=remedy)


@dataclass
class _Pool:
    """Sums over requests; its size does not grow with the file."""

    by_accepted: Counter[int] = field(default_factory=Counter)
    by_drafted: dict[int, Counter[int]] = field(default_factory=dict)
    labels: dict[str, set[Any]] = field(default_factory=dict)
    all_counted: bool = True
    drafted: int | None = 0
    n_requests: int = 0
    n_empty: int = 0
    sum_of_means: float = 0.0

    def add(self, request: RequestCounts) -> None:
        n_rounds = sum(request.by_accepted)
        if not n_rounds:
            self.n_empty += 1
            return
        self.n_requests += 1
        self.by_accepted.update(dict(enumerate(request.by_accepted)))
        self.sum_of_means += 1.0 + weighted(request.by_accepted) / n_rounds
        self.all_counted &= request.by_drafted is not None
        for drafted, row in (request.by_drafted or {}).items():
            self.by_drafted.setdefault(drafted, Counter()).update(dict(enumerate(row)))
        unknown = self.drafted is None or request.n_drafted_tokens is None
        self.drafted = None if unknown else cast(int, self.drafted) + cast(int, request.n_drafted_tokens)
        for name in LABELS:
            self.labels.setdefault(name, set()).add(request.labels.get(name))


def import_profile(
    paths: Sequence[Path], options: ImportOptions | None = None, progress: Progress = silent
) -> AcceptanceProfile:
    """Read acceptance files into one profile.

    Parameters
    ----------
    paths : sequence of Path
        Files of the same target, drafter, method and temperature; their rounds are pooled.
    options : ImportOptions, optional
        Format, labels and filter; all automatic without it.
    progress : callable
        Receives the number of bytes read since the last call.

    Returns
    -------
    AcceptanceProfile
        With evidence ``counts`` where every request says what it drafted, else ``marginal``.

    Raises
    ------
    BadInput
        If a file is unreadable, of no known format or impossible, if it holds no rounds, or if files disagree.

    Examples
    --------
    >>> from specbook.acceptance.library import example_file
    >>> profile = import_profile([example_file("vllm-per-request.jsonl")])
    >>> profile.evidence, profile.draft_length, round(profile.mean_acceptance_length, 3)
    ('counts', 4, 3.136)
    """
    options = options or ImportOptions()
    pool, warnings, provenance = _Pool(), list[str](), list[Provenance]()
    for path in paths:
        check_readable(path)
        before, digest = pool.n_requests, sha256_of(path)
        if digest in {item.sha256 for item in provenance}:
            raise BadInput("the same content was given before", file=str(path), remedy="name each file once")
        found: set[str] = set()
        for record, reader in _recognised(path, options.format, warnings, progress):
            found.add(reader.NAME)
            for request in reader.read(record.value, record.where):
                if not options.categories or request.labels.get("domain") in options.categories:
                    pool.add(request)
        warnings += [w for name in sorted(found) for w in FORMATS[name].WARNINGS if w not in warnings]
        n_requests = pool.n_requests - before
        provenance.append(
            Provenance(file=path.name, sha256=digest, format=",".join(sorted(found)), n_requests=n_requests)
        )
    if not pool.n_requests:
        raise _no_rounds(paths, options)
    return _to_profile(pool, options, warnings, provenance, paths)


def _no_rounds(paths: Sequence[Path], options: ImportOptions) -> BadInput:
    wanted = f" of category {', '.join(options.categories)}" if options.categories else ""
    return BadInput(
        f"no rounds{wanted}: every request is empty, failed or ran without speculation",
        file=", ".join(map(str, paths)),
        remedy="nothing can be said about acceptance; check the run that wrote the file",
    )


def _recognised(path: Path, wanted: str, warnings: list[str], progress: Progress) -> Iterator[tuple[Record, Reader]]:
    readers = list(FORMATS.values()) if wanted == "auto" else [FORMATS[wanted]]
    for record in read_records(path, lambda text: warnings.append(f"{path.name}: {text}"), progress):
        for reader in readers:
            if reader.recognises(record.value):
                yield record, reader
                break
        else:
            known = ", ".join(reader.NAME for reader in readers)
            raise BadInput(
                f"holds no record of a known format ({known})",
                file=record.where,
                field="keys" if isinstance(record.value, dict) else None,
                value=_outline(record.value),
                remedy="see the file formats page of the book for what each looks like",
            )


def _outline(value: Any) -> Any:
    return sorted(value)[:6] if isinstance(value, dict) else value


def _to_profile(
    pool: _Pool, options: ImportOptions, warnings: list[str], provenance: list[Provenance], paths: Sequence[Path]
) -> AcceptanceProfile:
    labels = {name: _agreed(name, pool, options, paths) for name in LABELS}
    labels["provenance"] = provenance
    warnings += _notes(pool, options)
    labels["mean_acceptance_length_per_request"] = pool.sum_of_means / pool.n_requests
    # The same names are chains in serving engines; only Spec-Bench's scripts run them as trees.
    is_tree = labels["method"] in spec_bench.TREE_METHODS and any(p.format == spec_bench.NAME for p in provenance)
    table = _table(pool, options, is_tree)
    if table is not None:
        labels["draft_length"] = _draft_length(table, options.labels.get("draft_length"))
        return profile_from_counts(table, warnings=warnings, **labels)
    by_accepted = _dense(pool.by_accepted)
    if is_tree:
        depth = profile_from_accepted(by_accepted).marginal_acceptance or []
        labels["tree"] = TreeYield(depth_acceptance=depth, n_nodes=None)
        warnings.append(_TREE)
    elif labels["method"] != "none":
        warnings.append(_LOWER_BOUND)
    if pool.drafted is not None and pool.drafted > 0:
        labels["n_drafted_tokens"] = pool.drafted
        labels["draft_acceptance_rate"] = weighted(by_accepted) / pool.drafted
    return profile_from_accepted(by_accepted, warnings=warnings, **labels)


_TREE = "a tree drafter: positions are depths of the accepted path, and the chain formula does not apply"
_LOWER_BOUND = (
    "where a draft was shorter than a position, the position counts as not accepted: late positions are lower bounds"
)

# Above this share of full-length rounds, the few shorter ones are drafts cut at the end of a sequence.
_MOSTLY = 0.95


def _draft_length(table: dict[int, list[int]], stated: int | None) -> int | None:
    """The length that rounds drafted, or null if it varied; a stated one must be it."""
    rounds = {drafted: sum(row) for drafted, row in table.items() if sum(row)}
    longest = max(rounds)
    found = longest if rounds[longest] >= _MOSTLY * sum(rounds.values()) else None
    if stated is not None and stated != found:
        drafted = ", ".join(f"{count} rounds of {length}" for length, count in sorted(rounds.items()))
        raise BadInput(
            f"the files say what was drafted: {drafted}",
            field="draft_length",
            value=stated,
            remedy="leave --draft-length out",
        )
    return found


def _notes(pool: _Pool, options: ImportOptions) -> list[str]:
    """What the profile owes to the person who imported it, and what it leaves out."""
    stated = {name: value for name, value in options.labels.items() if value is not None}
    changed = [f"{name} = {value}" for name, value in stated.items() if pool.labels[name] != {value}]
    notes = [f"stated at import, not by the source: {', '.join(changed)}"] if changed else []
    if pool.n_empty:
        notes.append(f"{pool.n_empty} of {pool.n_empty + pool.n_requests} requests had no rounds and were left out")
    return notes


def _dense(counts: Counter[int], width: int = 0) -> list[int]:
    return [counts[j] for j in range(max(width, max(counts, default=0) + 1))]


def _table(pool: _Pool, options: ImportOptions, is_tree: bool) -> dict[int, list[int]] | None:
    if pool.all_counted:
        return {k: _dense(pool.by_drafted[k], k + 1) for k in sorted(pool.by_drafted)}
    stated = options.labels.get("draft_length")
    if stated is None or is_tree:
        return None
    longest = max(j for j, n in pool.by_accepted.items() if n)
    if longest > stated:
        raise BadInput(
            f"a round accepted {longest} tokens",
            field="draft_length",
            value=stated,
            remedy="a round cannot accept more than it drafted: leave --draft-length out if it varied",
        )
    return {stated: _dense(Counter({j: n for j, n in pool.by_accepted.items() if n}), stated + 1)}


def _agreed(name: str, pool: _Pool, options: ImportOptions, paths: Sequence[Path]) -> Any:
    """The label that the person gave, or that every request carries; mixed domains and lengths are no error."""
    if options.labels.get(name) is not None:
        return options.labels[name]
    values = pool.labels[name]
    if len(values) == 1:
        return next(iter(values))
    if name == "domain":
        return "mixed"
    if name == "draft_length":
        return None
    raise BadInput(
        f"requests disagree: {', '.join(sorted(map(str, values)))}",
        file=", ".join(map(str, paths)),
        field=name,
        remedy=f"import them apart, or pass --{name} to say that they belong together",
    )
