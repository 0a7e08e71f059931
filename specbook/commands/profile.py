"""The commands of acceptance profiles: ``specbook profile import``, ``measure``, ``show`` and ``library``."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from specbook.acceptance.profile import AcceptanceProfile, write_profile
from specbook.checks import BadInput
from specbook.commands.measure import profile_measure
from specbook.commands.output import JsonFlag, emit, load_profile, note, reading, write_and_show
from specbook.display import tables, terminal


def register(app: typer.Typer) -> None:
    """Add the commands to a group."""
    app.command("import")(profile_import)
    app.command("measure")(profile_measure)
    app.command("show")(profile_show)
    app.command("library")(profile_library)


def profile_import(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE..", help="Acceptance files, folders of them, or quoted patterns.")
    ],
    out: Annotated[str, typer.Option("--out", help="The profile to write; a folder (end it with /) gets one each.")],
    format: Annotated[str, typer.Option("--format", help="auto, or a format; a wrong name lists them all.")] = "auto",
    target: Annotated[str | None, typer.Option(help="Target model, if the file does not say.")] = None,
    drafter: Annotated[str | None, typer.Option(help="Draft model or head.")] = None,
    method: Annotated[str | None, typer.Option(help="draft_model, eagle, medusa, mtp, ngram, …")] = None,
    domain: Annotated[str | None, typer.Option(help="What the prompts were about.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy.")] = None,
    draft_length: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Tokens drafted in every round, if the file does not say.")
    ] = None,
    category: Annotated[list[str] | None, typer.Option(help="Keep only requests of this domain; repeatable.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Keep only records of a label, such as run=cuda or draft_length=4; repeatable."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Read acceptance files into a profile."""
    from specbook.acceptance.importing import ImportOptions
    from specbook.acceptance.importing.collection import Collection
    from specbook.acceptance.importing.sources import expand

    if temperature is not None and not math.isfinite(temperature):
        raise BadInput("must be finite", field="--temperature", value=temperature, remedy="0 is greedy")
    labels = {
        "target": target,
        "drafter": drafter,
        "method": method,
        "domain": domain,
        "temperature": temperature,
        "draft_length": draft_length,
    }
    is_folder = out.endswith(("/", os.sep))
    sources = expand(files)
    options = ImportOptions(format=format, labels=labels, only=_only(category or [], only or []))
    collection = Collection(options, split=is_folder)
    with reading([source.path for source in sources]) as progress:
        profiles = collection.profiles(sources, progress)
    read = [file.path for file in collection.files]
    if is_folder:
        _write_profiles(profiles, Path(out), read, json)
    else:
        _check_not_read([Path(out)], read)
        write_and_show(next(iter(profiles.values())), Path(out), json)


def _only(categories: Sequence[str], pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Filters by label: ``NAME=VALUE``, several values of one name are alternatives."""
    wanted: dict[str, list[str]] = {"domain": list(categories)} if categories else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise BadInput("is no NAME=VALUE", field="--only", value=pair, remedy="such as --only run=cuda")
        wanted.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in wanted.items()}


def _check_not_read(targets: Sequence[Path], sources: Sequence[Path]) -> None:
    read = {os.path.realpath(path) for path in sources}
    for target in targets:
        if os.path.realpath(target) in read:
            remedy = "choose another --out"
            raise BadInput("is one of the files to read", field="--out", value=str(target), remedy=remedy)


def _write_profiles(profiles: dict[str, AcceptanceProfile], folder: Path, sources: Sequence[Path], json: bool) -> None:
    """Write one file a profile, and say what came out; a note that several share is said once."""
    paths = {name: folder / f"{name}.json" for name in profiles}
    _check_not_read(list(paths.values()), sources)
    for path in paths.values():
        if path.exists() and not path.is_file():
            raise BadInput("is no regular file", field="--out", value=str(path), remedy="choose another --out")
    for name, profile in profiles.items():
        write_profile(profile, paths[name])
    for warning, count in Counter(warning for profile in profiles.values() for warning in profile.warnings).items():
        note(f"note ({count} of {len(profiles)} profiles): {warning}")
    if json:
        emit({name: profile.model_dump(mode="json", by_alias=True) for name, profile in profiles.items()})
        return
    terminal.show_profiles(profiles)
    tables.say(f"wrote {len(profiles)} profile{'' if len(profiles) == 1 else 's'} into {folder}")


def profile_show(
    profile: Annotated[
        str | None, typer.Argument(metavar="P.json", help="A profile, or a name of the library.", show_default=False)
    ] = None,
    library: Annotated[
        bool, typer.Option("--library", help="Look in the library alone; without a name, list it.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Show a profile."""
    if library:
        profile_library(profile, json)
        return
    if profile is None:
        raise BadInput("missing", field="P.json", remedy="name a profile, or list the library with --library")
    _show(load_profile(profile), json)


def _show(profile: AcceptanceProfile, json: bool) -> None:
    if json:
        emit(profile.model_dump(mode="json", by_alias=True))
        return
    terminal.show_profile(profile)
    for warning in profile.warnings:
        tables.say(f"note: {warning}")


def profile_library(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show this one, or list those that begin like this.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List the profiles that ship with specbook, or show one."""
    from specbook.acceptance.library import library_names, library_profile, names_beginning

    if name in library_names():
        _show(library_profile(name), json)
        return
    names = library_names() if name is None else names_beginning(name)
    profiles = {known: library_profile(known) for known in names}
    if json:
        emit({known: profile.model_dump(mode="json", by_alias=True) for known, profile in profiles.items()})
    elif name is None:
        terminal.show_library(profiles)
    else:
        terminal.show_library_names(profiles)
