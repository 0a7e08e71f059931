"""Stages that write folders, one after the other: done once, resumed after a kill, and never half there.

A stage works in a scratch folder, which gets its name when it is complete. Beside its files lies a manifest of what it
was made from and of what it made, by SHA-256, so that a second run knows what it can keep: a stage is kept if it was
made from the same, by the same version, after the same stages. A file that was edited is no longer what the stages
after it were made from, and is refused rather than mended.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specbook import __version__
from specbook.checks import BadInput
from specbook.files import dump_model, read_model, sha256_of, write_text

_MANIFEST = "manifest.json"
_SCRATCH = ".unfinished-"
_LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What passed a stage.

    Attributes
    ----------
    entered, left : int
        Configurations before and after it.
    dropped : mapping of str to int
        How many did not pass, by reason; together with those that left they are those that entered.

    Raises
    ------
    ValueError
        If they do not add up.

    Examples
    --------
    >>> Gate(entered=8, left=3, dropped={"does not fit in memory": 5}).left
    3
    """

    entered: int
    left: int
    dropped: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.left + sum(self.dropped.values()) != self.entered:
            raise ValueError(
                f"{self.left} left and {dict(self.dropped)} dropped are not the {self.entered} that entered"
            )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a funnel.

    Attributes
    ----------
    name : str
        Also that of its folder.
    inputs : mapping
        What it is made from beside the stages before it, as JSON can say it: parameters, and files by their SHA-256.
    run : callable
        Writes its files into a folder, and says what passed.
    reads_before : bool
        Whether it reads what the stages before it wrote, so that it has to run again when they did.
    """

    name: str
    inputs: Mapping[str, Any]
    run: Callable[[Path], Gate]
    reads_before: bool = True


class StageManifest(BaseModel):
    """``manifest.json`` of a stage's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: Literal["specbook-stage/1"] = Field("specbook-stage/1", alias="schema")
    specbook_version: str
    stage: str
    made_from: str = Field(description="SHA-256 of the stage's inputs, of the version, and of the stages it reads.")
    inputs: dict[str, Any]
    files: dict[str, str] = Field(description="File → SHA-256.")
    entered: int = Field(ge=0)
    left: int = Field(ge=0)
    dropped: dict[str, int]

    @property
    def gate(self) -> Gate:
        """What passed."""
        return Gate(entered=self.entered, left=self.left, dropped=self.dropped)


def _silent(name: str, kept: bool) -> None:
    del name, kept


def run_stages(folder: Path, stages: Sequence[Stage], report: Callable[[str, bool], None] = _silent) -> dict[str, Gate]:
    """Run stages in order, each into its own folder inside ``folder``; those that are there already are kept.

    Parameters
    ----------
    folder : Path
    stages : sequence of Stage
    report : callable
        Called with each stage's name, and whether it is kept from before, when its turn comes.

    Returns
    -------
    dict of str to Gate
        By stage, in order.

    Raises
    ------
    BadInput
        If another run works in the folder, a file of a stage was edited or is missing, a manifest is of another version
        of specbook, a stage that has to run again holds a file of somebody else, or something cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> def count(folder):
    ...     write_text(folder / "three.txt", "3")
    ...     return Gate(entered=3, left=2, dropped={"too slow": 1})
    >>> with TemporaryDirectory() as scratch:
    ...     stage = Stage(name="1-count", inputs={"n": 3}, run=count)
    ...     run_stages(Path(scratch), [stage])["1-count"].left
    2
    """
    with alone_in(folder):
        return run_stages_alone(folder, stages, report)


def run_stages_alone(
    folder: Path, stages: Sequence[Stage], report: Callable[[str, bool], None] = _silent
) -> dict[str, Gate]:
    """:func:`run_stages` for somebody who is :func:`alone_in` the folder, and has more to write there afterwards."""
    _clear(folder)
    before, gates = "", {}
    for stage in stages:
        made_from = _made_from(stage, before if stage.reads_before else "")
        manifest = _kept(folder / stage.name, made_from)
        report(stage.name, manifest is not None)
        manifest = manifest or _run(folder, stage, made_from)
        before, gates[stage.name] = _digest([before, manifest.made_from, manifest.files]), manifest.gate
    return gates


def _clear(folder: Path) -> None:
    """Take away what a run that was killed had begun."""
    try:
        for leftover in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(leftover)
    except OSError as error:
        raise _cannot_write(folder, error) from None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Refuse to work in a folder in which another process of this kind works; the system ends the lock with either.

    Raises
    ------
    BadInput
        If another one works there, or the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        remedy = "wait for it, or choose another --out"
        raise BadInput("another funnel is at work in it", file=str(folder), remedy=remedy) from None
    except OSError as error:  # of a file system that has no locks
        reason = (error.strerror or str(error)).lower()
        raise BadInput(f"cannot be locked ({reason})", file=str(folder), remedy="choose an --out elsewhere") from None


def _kept(folder: Path, made_from: str) -> StageManifest | None:
    """The manifest of a stage that is complete and made from the same; None if it has to run."""
    if not folder.exists():
        return None
    manifest = read_manifest(folder)
    if manifest.made_from == made_from:
        return manifest
    for path in sorted(folder.iterdir()):
        if path.name != _MANIFEST and path.name not in manifest.files:
            remedy = "move it elsewhere: the stage runs again, and its folder is replaced"
            raise BadInput("is no file of its stage", file=str(path), remedy=remedy)
    return None


def read_manifest(folder: Path) -> StageManifest:
    """The manifest of a complete stage, whose files are as it says.

    Raises
    ------
    BadInput
        If it is missing or damaged, was made by another version, or a file is missing or was edited.
    """
    manifest = read_model(folder / _MANIFEST, StageManifest)
    if manifest.specbook_version != __version__:
        problem = f"was made by specbook {manifest.specbook_version}, and this is {__version__}"
        raise BadInput(problem, file=str(folder), remedy="choose another --out, or delete the folder")
    try:
        _ = manifest.gate
    except ValueError as error:
        remedy = f"delete {folder} to run the stage again"
        raise BadInput(str(error), file=str(folder / _MANIFEST), field="dropped", remedy=remedy) from None
    for name, expected in manifest.files.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != expected:
            problem = "was edited since its stage made it" if path.is_file() else "is missing from its stage"
            raise BadInput(problem, file=str(path), remedy=f"delete {folder} to run the stage again")
    return manifest


def _run(folder: Path, stage: Stage, made_from: str) -> StageManifest:
    """Run a stage in a scratch folder, and give it its name when all is there."""
    scratch, final = folder / f"{_SCRATCH}{stage.name}", folder / stage.name
    try:
        scratch.mkdir()
        gate = stage.run(scratch)
        manifest = StageManifest(
            schema="specbook-stage/1",
            specbook_version=__version__,
            stage=stage.name,
            made_from=made_from,
            inputs=dict(stage.inputs),
            files={path.name: sha256_of(path) for path in sorted(scratch.iterdir())},
            entered=gate.entered,
            left=gate.left,
            dropped=dict(gate.dropped),
        )
        write_text(scratch / _MANIFEST, dump_model(manifest))
        _replace(final, scratch)
    except OSError as error:
        raise _cannot_write(folder, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _replace(final: Path, scratch: Path) -> None:
    """Give a complete stage its name, once what had it is moved aside in one step: no half of it is ever there."""
    aside = final.with_name(f"{_SCRATCH}{final.name}-before")
    if final.exists():
        final.rename(aside)
    scratch.rename(final)
    if aside.exists():
        shutil.rmtree(aside)


def _made_from(stage: Stage, before: str) -> str:
    return _digest({"version": __version__, "stage": stage.name, "inputs": dict(stage.inputs), "before": before})


def _digest(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _cannot_write(folder: Path, error: OSError) -> BadInput:
    reason = (error.strerror or str(error)).lower()
    return BadInput(f"cannot be written ({reason})", file=str(folder), remedy="choose another --out, or make room")
