"""From files to acceptance profiles: recognise the format, pool what belongs together, keep what labels agree on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specbook.acceptance.profile import AcceptanceProfile, Provenance
from specbook.acceptance.readers.formats import FORMATS, UnknownFormat, observations
from specbook.acceptance.readers.observation import Observation
from specbook.acceptance.readers.pool import LABELS, Pool, found
from specbook.acceptance.readers.pooled_profile import pooled_profile
from specbook.acceptance.readers.records import Progress, silent
from specbook.acceptance.readers.sources import Source, expand
from specbook.checks import BadInput
from specbook.files import check_readable, sha256_of

_MOST_GROUPS = 4096


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
    only : dict of str to tuple of str
        Keep only observations whose label is one of these, such as ``{"domain": ("code",), "run": ("cuda",)}``.
    n_replicates, seed : int
        Of the bootstrap that gives the intervals.

    Raises
    ------
    BadInput
        If there is no such format or label.
    """

    format: str = "auto"
    labels: dict[str, Any] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    n_replicates: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            remedy = f"one of auto, {', '.join(FORMATS)}"
            raise BadInput("no such format", field="--format", value=self.format, remedy=remedy)
        for name in self.only:
            if name not in LABELS:
                raise BadInput("no such label", field="--only", value=name, remedy=f"one of {', '.join(LABELS)}")

    def keeps(self, labels: Mapping[str, Any]) -> bool:
        """Whether an observation of these labels is wanted."""
        return all(str(labels.get(name)) in wanted for name, wanted in self.only.items())


def import_profile(
    paths: Sequence[Path], options: ImportOptions | None = None, progress: Progress = silent
) -> AcceptanceProfile:
    """Read acceptance files into one profile.

    Parameters
    ----------
    paths : sequence of Path
        Files, folders or patterns, all of the same target, drafter, method and temperature; their rounds are pooled.
    options : ImportOptions, optional
        Format, labels and filter; all automatic without it.
    progress : callable
        Receives the number of bytes read since the last call.

    Returns
    -------
    AcceptanceProfile
        As strong as the weakest record: evidence ``counts`` where every one says what it drafted, else less.

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
    work = _Import(options or ImportOptions(), lambda _: ())
    work.read(expand(paths), progress)
    return work.profile(work.groups[()])


def import_profiles(
    paths: Sequence[Path], options: ImportOptions | None = None, progress: Progress = silent
) -> dict[str, AcceptanceProfile]:
    """Read acceptance files into one profile for each target, drafter, method, domain, temperature, length and run.

    Parameters
    ----------
    paths, options, progress
        As in :func:`import_profile`.

    Returns
    -------
    dict of str to AcceptanceProfile
        A name made of what tells the profiles apart → profile.

    Raises
    ------
    BadInput
        As :func:`import_profile`.

    Examples
    --------
    >>> from specbook.acceptance.library import example_file
    >>> sorted(import_profiles([example_file("spec-bench.jsonl")]))
    ['coding', 'writing']
    """
    options = options or ImportOptions()
    work = _Import(options, lambda labels: tuple(labels.get(name) for name in LABELS))
    work.read(expand(paths), progress)
    names = _names(list(work.groups))
    return {name: work.profile(group) for name, group in zip(names, work.groups.values(), strict=True)}


@dataclass
class _Group:
    """One pool, and the files that fed it."""

    pool: Pool = field(default_factory=Pool)
    n_requests_by_file: dict[int, int] = field(default_factory=dict)
    formats_by_file: dict[int, set[str]] = field(default_factory=dict)


@dataclass
class _Import:
    """Files read so far: groups of observations, notes, and what the files are."""

    options: ImportOptions
    key_of: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    groups: dict[tuple[Any, ...], _Group] = field(default_factory=dict)
    files: list[tuple[Path, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    runs: set[Any] = field(default_factory=set)

    @property
    def stated(self) -> dict[str, Any]:
        return {name: value for name, value in self.options.labels.items() if value is not None}

    def read(self, sources: Sequence[Source], progress: Progress) -> None:
        passed_over = []
        for source in sources:
            try:
                self._read_file(source.path, progress)
            except UnknownFormat:
                if source.named:
                    raise
                passed_over.append(source.path.name)
        if passed_over:
            names = ", ".join(passed_over[:5]) + (", …" if len(passed_over) > 5 else "")
            self.warnings.append(f"{len(passed_over)} files are no acceptance files and were left out: {names}")
        if not any(group.pool.n_observations for group in self.groups.values()):
            raise self._no_rounds()
        self.groups = {key: group for key, group in self.groups.items() if group.pool.n_observations}

    def _read_file(self, path: Path, progress: Progress) -> None:
        check_readable(path)
        digest = sha256_of(path)
        if digest in {known for _, known in self.files}:
            raise BadInput("the same content was given before", file=str(path), remedy="name each file once")
        index, seen_any = len(self.files), False
        for seen, name in self._observations(path, progress):
            if not seen_any:
                self.files.append((path, digest))
                seen_any = True
            if len(self.runs) < _MOST_GROUPS:
                self.runs.add(seen.labels.get("run"))
            if self.options.keeps(seen.labels):
                self._add(seen, name, index)

    def _observations(self, path: Path, progress: Progress) -> Iterator[tuple[Observation, str]]:
        def warn(text: str) -> None:
            self.warnings.append(f"{path.name}: {text}")

        return observations(path, self.options.format, warn, progress)

    def _add(self, seen: Observation, name: str, index: int) -> None:
        key = self.key_of({**seen.labels, **self.stated})
        group = self.groups.setdefault(key, _Group())
        if len(self.groups) > _MOST_GROUPS:
            remedy = "state the labels that vary without meaning, such as --domain"
            raise BadInput(f"more than {_MOST_GROUPS} profiles", file=str(self.files[index][0]), remedy=remedy)
        before = group.pool.n_observations
        group.pool.add(seen, name)
        if group.pool.n_observations > before:
            counted = group.n_requests_by_file.get(index, 0) + seen.is_request
            group.n_requests_by_file[index] = counted
            group.formats_by_file.setdefault(index, set()).add(name)

    def _no_rounds(self) -> BadInput:
        wanted = ", ".join(f"{name} {' or '.join(values)}" for name, values in self.options.only.items())
        return BadInput(
            f"no rounds{f' of {wanted}' if wanted else ''}: every request is empty, failed or ran without speculation",
            file=", ".join(str(path) for path, _ in self.files[:5]) or None,
            remedy="nothing can be said about acceptance; check the run that wrote the file",
        )

    def profile(self, group: _Group) -> AcceptanceProfile:
        """The profile of one group."""
        self._check_formats(group)
        labels = {name: self._agreed(name, group) for name in LABELS}
        del labels["run"]
        labels["warnings"] = [*self.warnings, *self._format_warnings(group), *group.pool.notes, *self._notes(group)]
        labels["provenance"] = self._provenance(group)
        try:
            return pooled_profile(group.pool, labels, self.stated, self.options.n_replicates, self.options.seed)
        except ValidationError as error:
            raise _impossible(error, self._names(group)) from None

    def _names(self, group: _Group) -> str:
        paths = [str(self.files[index][0]) for index in group.n_requests_by_file]
        return ", ".join(paths[:5]) + (", …" if len(paths) > 5 else "")

    def _check_formats(self, group: _Group) -> None:
        names = sorted(group.pool.formats)
        if len(names) > 1:
            raise BadInput(
                f"{' and '.join(names)} may hold the same rounds twice",
                file=self._names(group),
                remedy="keep one kind with --format, or import them apart",
            )
        if FORMATS[names[0]].CUMULATIVE and len(group.n_requests_by_file) > 1:
            raise BadInput(
                "counts since the server started, so that two files count the same rounds",
                file=self._names(group),
                remedy="import only the last one",
            )

    def _agreed(self, name: str, group: _Group) -> Any:
        """The label that the person gave, or that every observation carries; mixed domains are no error."""
        values = group.pool.labels[name]
        if name != "run" and self.stated.get(name) is not None:
            return self.stated[name]
        if len(values) == 1:
            return next(iter(values))
        if name == "domain":
            return "mixed"
        if name == "draft_length" and (group.pool.all_counted or group.pool.all_histograms):
            return None
        ways = f"pass --{name.replace('_', '-')} to say that they belong together"
        raise BadInput(
            f"requests disagree: {', '.join(found(values))}",
            file=self._names(group),
            field=name,
            remedy=f"keep one with --only {name}=…, write each to its own profile with --out FOLDER/"
            + ("" if name == "run" else f", or {ways}"),
        )

    def _format_warnings(self, group: _Group) -> list[str]:
        return [warning for name in sorted(group.pool.formats) for warning in FORMATS[name].WARNINGS]

    def _notes(self, group: _Group) -> list[str]:
        """What the profile owes to the person who imported it, and what it leaves out."""
        pool = group.pool
        changed = [f"{name} = {value}" for name, value in self.stated.items() if pool.labels[name] != {value}]
        notes = [f"stated at import, not by the source: {', '.join(changed)}"] if changed else []
        if len(self.runs) > 1:
            notes += [f"run of the source: {run}" for run in found(pool.labels["run"] - {None})]
        if pool.n_empty:
            notes.append(
                f"{pool.n_empty} of {pool.n_empty + pool.n_observations} requests had no rounds and were left out"
            )
        return notes

    def _provenance(self, group: _Group) -> list[Provenance]:
        return [
            Provenance(
                file=self.files[index][0].name,
                sha256=self.files[index][1],
                format=",".join(sorted(group.formats_by_file[index])),
                n_requests=n_requests or None,
            )
            for index, n_requests in group.n_requests_by_file.items()
        ]


def _impossible(error: ValidationError, names: str) -> BadInput:
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    return BadInput(
        first["msg"].removeprefix("Value error, "),
        file=names,
        field=context.get("field") or ".".join(map(str, first["loc"])) or None,
        value=context.get("value", first["input"]),
        remedy=context.get("remedy", "export the file again"),
    )


def _names(keys: Sequence[tuple[Any, ...]]) -> list[str]:
    """A name for each key: the labels in which keys differ, made fit for a file name; numbered if they still clash."""
    varying = [index for index in range(len(LABELS)) if len({key[index] for key in keys}) > 1]
    names: dict[str, int] = {}
    result = []
    for key in keys:
        parts = [_slug(LABELS[index], key[index]) for index in varying]
        name = "-".join(part for part in parts if part) or "acceptance"
        names[name] = names.get(name, 0) + 1
        result.append(name if names[name] == 1 else f"{name}-{names[name]}")
    return result


def _slug(label: str, value: Any) -> str:
    if value is None and label in ("draft_length", "run"):
        return ""
    prefix = {"draft_length": "k", "temperature": "t"}.get(label, "")
    text = "unknown" if value is None else str(value)
    return prefix + (re.sub(r"[^a-z0-9.]+", "-", text.casefold()).strip("-.")[:80] or "unnamed")
