"""Which files an argument means: a file, a folder and everything in it, or a pattern."""

from __future__ import annotations

import glob
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from specbook.checks import BadInput, printable

_MOST_FILES = 100_000
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read; one that was named must be acceptance, one that was found may be anything.

    ``name`` is that of the file, with its folders where another file has the same.
    """

    path: Path
    named: bool
    name: str = ""


def expand(arguments: Sequence[Path]) -> list[Source]:
    """Files that the arguments mean, each once, in order.

    Parameters
    ----------
    arguments : sequence of Path
        Files, folders (searched to the bottom, hidden names left out) or patterns with ``*``, ``?``, ``[`` or ``**``.

    Raises
    ------
    BadInput
        If a folder or pattern holds no file, or far too many.

    Examples
    --------
    >>> from specbook.acceptance.library import example_file
    >>> folder = example_file("spec-bench.jsonl").parent
    >>> example_file("spec-bench.jsonl") in [source.path for source in expand([folder])]
    True
    """
    found: dict[Path, Source] = {}
    for argument in arguments:
        for source in _expanded(argument):
            found.setdefault(source.path.absolute(), source)
            if len(found) > _MOST_FILES:
                raise BadInput(f"more than {_MOST_FILES} files", file=str(argument), remedy="name a smaller folder")
    return _with_names(list(found.values()))


def _with_names(sources: list[Source]) -> list[Source]:
    """Names of one part, or of as many folders before it as tell all files apart; as text, whatever the system has."""
    by_name: defaultdict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_name[source.path.name].append(source)
    n_parts = {name: _parts_that_differ(alike) for name, alike in by_name.items()}
    return [
        replace(source, name=printable("/".join(source.path.absolute().parts[-n_parts[source.path.name] :])))
        for source in sources
    ]


def _parts_that_differ(alike: Sequence[Source]) -> int:
    parts = [source.path.absolute().parts for source in alike]
    return next(n for n in range(1, 2 + max(map(len, parts))) if len({part[-n:] for part in parts}) == len(parts))


def _expanded(argument: Path) -> list[Source]:
    if argument.is_dir():
        paths = sorted(path for path in argument.rglob("*") if path.is_file() and not _is_hidden(path, argument))
        return _some([Source(path, named=False) for path in paths], argument, "the folder holds no file")
    if not argument.exists() and _WILD & set(str(argument)):
        paths = sorted(Path(name) for name in glob.glob(str(argument), recursive=True))  # noqa: PTH207 – takes any root
        files = [Source(path, named=False) for path in paths if path.is_file()]
        return _some(files, argument, "no file matches the pattern")
    return [Source(argument, named=True)]


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _some(sources: list[Source], argument: Path, problem: str) -> list[Source]:
    if not sources:
        raise BadInput(problem, file=str(argument), remedy="check the path")
    return sources
