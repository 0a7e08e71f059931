"""One thing that was measured: a pool of observations, and the files that fed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from specbook.acceptance.importing.pool import Pool
from specbook.acceptance.readers.observation import Observation


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceFile:
    """A file in which a record was recognised, and what its reading warned of."""

    path: Path
    name: str
    sha256: str
    warnings: list[str]


@dataclass
class FileSums:
    """What a file gave to a group."""

    formats: set[str] = field(default_factory=set)
    n_requests: int = 0
    n_observations: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Sums that a copy of the file would give again."""
        return self.n_observations, self.rounds, self.drafted, self.accepted


@dataclass
class Group:
    """A pool, what each file gave to it, and the files that leave open what they measured."""

    pool: Pool = field(default_factory=Pool)
    files: dict[SourceFile, FileSums] = field(default_factory=dict)
    loose_files: set[SourceFile] = field(default_factory=set)

    def add(self, seen: Observation, format_name: str, file: SourceFile, *, loose: bool) -> None:
        """Add what a record of a file says."""
        full = self.pool.add(seen, format_name)
        if full is None:
            return
        sums = self.files.setdefault(file, FileSums())
        sums.formats.add(format_name)
        sums.n_requests += full.is_request
        sums.n_observations += 1
        sums.rounds += full.n_rounds or 0
        sums.drafted += full.n_drafted_tokens or 0
        sums.accepted += full.n_accepted_tokens or 0
        if loose:
            self.loose_files.add(file)

    def names(self) -> str:
        """Paths of the files, for errors."""
        paths = [str(file.path) for file in self.files]
        return ", ".join(paths[:5]) + (", …" if len(paths) > 5 else "")
