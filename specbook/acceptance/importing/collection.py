"""Files into groups: each group is one thing that was measured, and becomes one profile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from specbook.acceptance.importing.agreement import agreed_profile
from specbook.acceptance.importing.formats import NoAcceptanceFile, ProfileAlready, UnknownFormat, observations
from specbook.acceptance.importing.group import Group, SourceFile
from specbook.acceptance.importing.names import profile_names
from specbook.acceptance.importing.options import ImportOptions
from specbook.acceptance.importing.pool import LABELS, found
from specbook.acceptance.importing.sources import Source, expand
from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.readers.observation import Observation
from specbook.checks import BadInput, shown
from specbook.files import check_readable, sha256_of
from specbook.progress import Progress, silent

_MOST_GROUPS = 4096
_MOST_VALUES = 64
# Answers with names of their own that are looked for again; a few hundred bytes each would be gigabytes in the end.
_MOST_ANSWERS = 1_000_000


def import_profile(
    paths: Sequence[Path], options: ImportOptions | None = None, progress: Progress = silent
) -> AcceptanceProfile:
    """Read acceptance files into one profile.

    Parameters
    ----------
    paths : sequence of Path
        Files, folders or patterns, all of the same target, drafter, method, temperature and draft length; their rounds
        are pooled.
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
    collection = Collection(options or ImportOptions(), split=False)
    (profile,) = collection.profiles(expand(paths), progress).values()
    return profile


def import_profiles(
    paths: Sequence[Path], options: ImportOptions | None = None, progress: Progress = silent
) -> dict[str, AcceptanceProfile]:
    """Read acceptance files into one profile for each target, drafter, method, domain, temperature, length and run.

    Totals of a run that leave target, domain or temperature open are kept apart by file: nothing says that two of them
    measured the same.

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
    return Collection(options or ImportOptions(), split=True).profiles(expand(paths), progress)


@dataclass
class Collection:
    """Observations of all files, by group."""

    options: ImportOptions
    split: bool
    groups: dict[tuple[Any, ...], Group] = field(default_factory=dict)
    files: list[SourceFile] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    values: defaultdict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    answers: set[bytes] = field(default_factory=set)
    passed_over: list[str] = field(default_factory=list)

    def profiles(self, sources: Sequence[Source], progress: Progress) -> dict[str, AcceptanceProfile]:
        """Read all sources, and make the profile of each group."""
        for source in sources:
            self._read(source, progress)
        groups = {key: group for key, group in self.groups.items() if group.pool.n_observations}
        if not groups:
            raise self._nothing(sources)
        several_runs = len(self.values["run"]) > 1
        notes = self._left_out()
        names = profile_names([*LABELS, "file", "format"] if self.split else [], list(groups))
        made = [agreed_profile(group, self.options, notes, several_runs=several_runs) for group in groups.values()]
        return dict(zip(names, made, strict=True))

    def _read(self, source: Source, progress: Progress) -> None:
        """Read one file; one that was found, and not named, may be anything as long as no record of it was read."""
        try:
            self._read_file(source, progress)
        except NoAcceptanceFile as error:
            if source.named:
                raise
            if isinstance(error, ProfileAlready):  # as an earlier import may have left it there
                return
            reason = "" if isinstance(error, UnknownFormat) else f" ({error.problem})"
            self.passed_over.append(f"{source.name}{reason}")

    def _read_file(self, source: Source, progress: Progress) -> None:
        digest = _digest(source.path)
        twin = self.digests.get(digest)
        if twin is not None:
            raise NoAcceptanceFile(f"the same content as {twin}", file=str(source.path), remedy="name each file once")
        file: SourceFile | None = None
        warnings: list[str] = []
        for seen, name in observations(source.path, self.options.format, warnings.append, progress):
            if file is None:
                file = SourceFile(path=source.path, name=source.name, sha256=digest, warnings=warnings)
                self.files.append(file)
                self.digests[digest] = file.name
            self._note_values(seen)
            if self.options.keeps(seen.labels):
                self._add(seen, name, file)

    def _note_values(self, seen: Observation) -> None:
        for name in LABELS:
            values = self.values[name]
            if len(values) < _MOST_VALUES:
                values.add(seen.labels.get(name))

    def _add(self, seen: Observation, name: str, file: SourceFile) -> None:
        self._check_answer(seen, file)
        labels = {**seen.labels, **self.options.stated}
        apart = file if _is_loose(seen, labels) else None
        # Two formats may hold the rounds of one run: each gets a profile of its own, and one file takes only one.
        key = (*(labels.get(label) for label in LABELS), apart and apart.name, name) if self.split else ()
        group = self.groups.setdefault(key, Group())
        if len(self.groups) > _MOST_GROUPS:
            remedy = "state the labels that vary without meaning, such as --domain"
            raise BadInput(f"more than {_MOST_GROUPS} profiles", file=str(file.path), remedy=remedy)
        group.add(seen, name, file, loose=apart is not None)

    def _check_answer(self, seen: Observation, file: SourceFile) -> None:
        """The same answer in two places is an export that was joined to itself, and not more evidence."""
        if seen.answer is None:
            return
        digest = blake2b(
            f"{seen.answer}\0{seen.by_accepted}\0{seen.by_drafted}".encode(errors="replace"), digest_size=8
        )
        if digest.digest() in self.answers:
            remedy = "drop the copy, which would count its rounds twice"
            raise BadInput(f"the answer {shown(seen.answer)} stands twice", file=str(file.path), remedy=remedy)
        if len(self.answers) < _MOST_ANSWERS:
            self.answers.add(digest.digest())

    def _left_out(self) -> list[str]:
        n_files = len(self.passed_over)
        if not n_files:
            return []
        names = ", ".join(self.passed_over[:5]) + (", …" if n_files > 5 else "")
        return [f"{n_files} file{'' if n_files == 1 else 's'} left out, no acceptance file or a copy of one: {names}"]

    def _nothing(self, sources: Sequence[Source]) -> BadInput:
        names = ", ".join(str(source.path) for source in sources[:5]) + (", …" if len(sources) > 5 else "")
        if not self.files:
            remedy = "name an acceptance file, or the folder that holds one"
            return BadInput("no acceptance file among them", file=names, remedy=remedy)
        wanted = [name for name, texts in self.options.only.items() if texts]
        if wanted and not any(group.pool.n_empty for group in self.groups.values()):
            asked = ", ".join(f"{name} {' or '.join(self.options.only[name])}" for name in wanted)
            there = "; ".join(f"{name} {', '.join(found(self.values[name]))}" for name in wanted)
            return BadInput(f"no rounds of {asked}", file=names, remedy=f"there is {there}")
        return BadInput(
            "no rounds: every request is empty, failed or ran without speculation",
            file=names,
            remedy="nothing can be said about acceptance; check the run that wrote the file",
        )


def _digest(path: Path) -> str:
    try:
        check_readable(path)
    except BadInput as error:
        raise NoAcceptanceFile(**vars(error)) from None
    return sha256_of(path)


def _is_loose(seen: Observation, labels: dict[str, Any]) -> bool:
    """Whether it says too little to be pooled with another file: a run that does not say what it measured."""
    is_run = not seen.is_request or labels.get("run") is not None
    return is_run and any(labels.get(name) is None for name in ("target", "domain", "temperature"))
