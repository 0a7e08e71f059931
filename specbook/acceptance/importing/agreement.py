"""What the observations of a group agree on, what they must not do together, and what the profile says about it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from specbook.acceptance.importing.formats import FORMATS
from specbook.acceptance.importing.group import Group, SourceFile
from specbook.acceptance.importing.options import ImportOptions
from specbook.acceptance.importing.pool import LABELS, found
from specbook.acceptance.importing.profiles import pooled_profile
from specbook.acceptance.profile import AcceptanceProfile, Provenance
from specbook.checks import BadInput
from specbook.files import first_problem

# Two runs of this many rounds do not happen to agree in every sum.
_FEWEST_ROUNDS_TO_BE_A_COPY = 100


def agreed_profile(group: Group, options: ImportOptions, notes: list[str], *, several_runs: bool) -> AcceptanceProfile:
    """The profile of a group, if its observations may be pooled.

    Raises
    ------
    BadInput
        If they may hold the same rounds twice, measured different things, or contradict a stated label.
    """
    _check_formats(group)
    _check_copies(group)
    _check_runs(group)
    stated = options.stated
    # Runs first: what else differs between them is what they are.
    labels = {name: _agreed(name, group, stated) for name in sorted(LABELS, key=lambda name: name != "run")}
    del labels["run"]
    changed = [name for name in stated if group.pool.labels[name] != {stated[name]}]
    labels["stated_labels"] = changed
    labels["warnings"] = [*notes, *_notes(group, changed, stated, several_runs)]
    labels["provenance"] = _provenance(group)
    try:
        return pooled_profile(group.pool, labels, stated, options.n_replicates, options.seed)
    except ValidationError as error:
        raise first_problem(error, group.names(), "export the file again") from None
    except BadInput as error:
        raise error if error.file else error.at(group.names()) from None


def _check_formats(group: Group) -> None:
    names = sorted(group.pool.formats)
    if len(names) > 1:
        raise BadInput(
            f"{' and '.join(names)} may hold the same rounds twice",
            file=group.names(),
            remedy="keep one kind with --format, or import them apart",
        )
    if FORMATS[names[0]].CUMULATIVE and len(group.files) > 1:
        raise BadInput(
            "counts since the server started, so that two files count the same rounds",
            file=group.names(),
            remedy="import only the last one",
        )


def _check_copies(group: Group) -> None:
    known: dict[tuple[int, ...], SourceFile] = {}
    for file, sums in group.files.items():
        twin = known.setdefault(sums.totals, file)
        if twin is not file and sums.rounds >= _FEWEST_ROUNDS_TO_BE_A_COPY:
            problem = f"holds the same {sums.rounds} rounds as {twin.name} in every sum"
            raise BadInput(problem, file=str(file.path), remedy="it looks like a copy: name each run once")


def _check_runs(group: Group) -> None:
    if len(group.loose_files) > 1:
        raise BadInput(
            "totals of several runs, and the files leave open whether they measured the same",
            file=group.names(),
            remedy="state what they share with --target, --domain and --temperature, "
            "or write each to its own profile with --out FOLDER/",
        )


def _agreed(name: str, group: Group, stated: dict[str, Any]) -> Any:
    """The label that the person gave, or that every observation carries; mixed domains are no error."""
    values = group.pool.labels[name]
    if name == "draft_length" and name in stated and values - {None, stated[name]}:
        raise BadInput(
            f"the source says {', '.join(found(values))}",
            file=group.names(),
            field=name,
            value=stated[name],
            remedy="leave --draft-length out",
        )
    if name != "run" and name in stated:
        return stated[name]
    if len(values) == 1:
        return next(iter(values))
    if name == "draft_length" and None in values and len(values) == 2:
        return None  # a schedule left it open in some requests
    if name == "domain":
        return "mixed"
    together = "" if name in ("run", "draft_length") else f", or pass --{name} to say that they belong together"
    raise BadInput(
        f"requests disagree: {', '.join(found(values))}",
        file=group.names(),
        field=name,
        remedy=f"keep one with --only {name}=…, write each to its own profile with --out FOLDER/{together}",
    )


def _notes(group: Group, changed: list[str], stated: dict[str, Any], several_runs: bool) -> list[str]:
    """What the profile owes to the person who imported it, and what it leaves out."""
    pool = group.pool
    notes = [f"{file.name}: {text}" for file in group.files for text in file.warnings]
    notes += [warning for name in sorted(pool.formats) for warning in FORMATS[name].WARNINGS]
    notes += pool.notes
    notes += [f"stated at import: {name} = {stated[name]}{_instead(pool.labels[name])}" for name in changed]
    if several_runs:
        notes += [f"run of the source: {run}" for run in found(pool.labels["run"] - {None})]
    unsaid = [name for name in ("target", "domain", "temperature") if name not in stated and None in pool.labels[name]]
    if len(group.files) > 1 and unsaid:
        notes.append(f"{len(group.files)} files pooled; they do not all say {', '.join(unsaid)}")
    if any(str(domain).casefold() in _INVENTED for domain in (*pool.labels["domain"], stated.get("domain"))):
        notes.append(_RANDOM)
    if pool.n_empty:
        n_records = pool.n_empty + pool.n_observations
        notes.append(f"{pool.n_empty} of {n_records} requests had no rounds (failed, or without speculation), left out")
    return notes


_INVENTED = {"random", "synthetic"}
_RANDOM = "prompts of random tokens overstate what speculation gains (speedbench2026)"


def _instead(values: set[Any]) -> str:
    known = [value for value in found(values) if value != "–"]
    return f", where the source says {', '.join(known)}" if known else ", which the source does not say"


def _provenance(group: Group) -> list[Provenance]:
    return [
        Provenance(
            file=file.name,
            sha256=file.sha256,
            format=",".join(sorted(sums.formats)),
            n_requests=sums.n_requests or None,
        )
        for file, sums in group.files.items()
    ]
