"""Published acceptance figures as data: one JSON file a source, one row a figure or a series over draft lengths.

A row gives a profile and a line of the source's table. What a profile has no field for, such as the speedup that was
measured beside a length, is in the table alone; a row without a name is a line of the table and no profile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from specbook.acceptance.profile import AcceptanceProfile, Provenance, TreeYield, profile_from_counts
from specbook.acceptance.yields import conditional_from_marginal
from specbook.checks import BadInput
from specbook.files import read_json

Row: TypeAlias = dict[str, Any]

_FOLDER = Path(__file__).parent / "published"
_LABELS = ("target", "drafter", "method", "domain", "temperature", "draft_length")
_FIGURES = (
    "n_rounds",
    "n_drafted_tokens",
    "n_accepted_tokens",
    "mean_acceptance_length",
    "marginal_acceptance",
    "conditional_acceptance",
)
_EVIDENCE = {
    "rounds_by_drafted": "counts",
    "marginal_acceptance": "marginal",
    "conditional_acceptance": "conditional",
    "mean_acceptance_length": "mean_length",
}
_COLUMNS: dict[str, Any] = {
    "name": pl.String,
    "key": pl.String,
    "target": pl.String,
    "drafter": pl.String,
    "method": pl.String,
    "domain": pl.String,
    "temperature": pl.Float64,
    "draft_length": pl.Int64,
    "tree": pl.Boolean,
    "evidence": pl.String,
    "n_rounds": pl.Int64,
    "mean_acceptance_length": pl.Float64,
    "marginal_acceptance": pl.List(pl.Float64),
    "conditional_acceptance": pl.List(pl.Float64),
    "speedup": pl.Float64,
    "speedup_sampled": pl.Float64,
    "expected_speedup": pl.Float64,
    "speedup_draft_length": pl.Int64,
    "draft_cost": pl.Float64,
    "batch": pl.Int64,
    "device": pl.String,
    "run": pl.String,
    "setting": pl.String,
}


@cache
def _sources() -> dict[str, Row]:
    documents = map(read_json, sorted(_FOLDER.glob("*.json")))
    return {document["key"]: document for document in documents}


def published_sources() -> dict[str, str]:
    """Bibliography keys of the sources of published figures, with a title for each.

    Examples
    --------
    >>> published_sources()["specbench"]
    'Spec-Bench leaderboard'
    """
    return {key: document["title"] for key, document in _sources().items()}


@cache
def published_rows() -> dict[str, Row]:
    """The rows that are profiles, by name."""
    return {row["name"]: row for key in _sources() for row in _rows(key) if row["name"] is not None}


@cache
def _rows(key: str) -> list[Row]:
    document = _sources()[key]
    plain = {"name": None, "tree": False, "key": key}
    lines = [plain | document["shared"] | row for row in document["rows"]]
    return [_derived(row) for line in lines for row in _series(line)]


def _series(line: Row) -> Iterator[Row]:
    """The line itself, or one row for each draft length from 1 of a line that holds a series."""
    lengths = line.pop("lengths_from_k_1", None)
    if lengths is None:
        yield line
        return
    for k, length in enumerate(lengths, start=1):
        yield line | {"name": line["name"].format(k=k), "draft_length": k, "mean_acceptance_length": length}


def _derived(row: Row) -> Row:
    """Add what follows from the figures of the row: its evidence, and the length and rates where it has totals."""
    evidence = next(kind for field, kind in _EVIDENCE.items() if field in row)
    rounds, accepted, drafted = (row.get(f"n_{what}") for what in ("rounds", "accepted_tokens", "drafted_tokens"))
    derived: Row = {"evidence": evidence}
    if rounds and accepted is not None:
        derived["mean_acceptance_length"] = 1.0 + accepted / rounds
    if drafted and accepted is not None:
        derived["draft_acceptance_rate"] = accepted / drafted
    if evidence == "marginal" and "conditional_acceptance" not in row:
        derived["conditional_acceptance"] = conditional_from_marginal(np.array(row["marginal_acceptance"])).tolist()
    return row | derived


@cache
def published_profile(name: str) -> AcceptanceProfile:
    """The profile of a row that has this name."""
    row = published_rows()[name]
    document = _sources()[row["key"]]
    labels: Row = {label: row.get(label) for label in _LABELS}
    figures: Row = {figure: row.get(figure) for figure in _FIGURES}
    warnings = [*document["warnings"], *row.get("warnings", [])]
    provenance = [_provenance(row, document["source"])]
    if row["evidence"] == "counts":
        table = {int(drafted): counts for drafted, counts in row["rounds_by_drafted"].items()}
        return profile_from_counts(table, warnings=warnings, provenance=provenance, **labels)
    return AcceptanceProfile(
        evidence=row["evidence"],
        draft_acceptance_rate=row.get("draft_acceptance_rate"),
        tree=TreeYield(depth_acceptance=[]) if row["tree"] else None,
        warnings=warnings,
        provenance=provenance,
        **labels,
        **figures,
    )


def _provenance(row: Row, source: str) -> Provenance:
    place = ", ".join(part for part in (source, row.get("where")) if part)
    what = ", ".join(part for part in (row.get("run"), row.get("setting")) if part)
    text = f"{place}: {what}" if what else place
    return Provenance(format="published", source=text, key=row["key"], n_requests=row.get("n_requests"))


def published_table(key: str) -> pl.DataFrame:
    """Everything that a source published about acceptance, and the speedups that it printed beside it.

    Parameters
    ----------
    key : str
        A key of ``published_sources()``, which is one of the bibliography.

    Returns
    -------
    polars.DataFrame
        One row a figure; the same columns for every source, null where it says nothing. ``name`` is the profile's,
        null for a row that is none. ``mean_acceptance_length`` counts the bonus token. ``speedup`` was measured on
        ``device`` at ``batch``; ``speedup_sampled`` is the same at temperature 1 where the source has one length for
        both; ``expected_speedup`` is the source's formula, with ``speedup_draft_length`` drafts that each take
        ``draft_cost`` of a pass of the target.

    Raises
    ------
    BadInput
        If no figures of that source ship.

    Examples
    --------
    >>> seven_b = published_table("specbench").filter(pl.col("target") == "vicuna-7b-v1.3")
    >>> recycling = seven_b.filter(pl.col("method") == "recycling")
    >>> recycling.select("mean_acceptance_length", "speedup", "device").rows()
    [(2.73, 1.4, 'NVIDIA GeForce RTX 3090'), (2.73, 2.22, 'NVIDIA A100 80GB')]
    """
    if key not in _sources():
        raise BadInput("no published figures of that source", value=key, remedy=f"one of {', '.join(_sources())}")
    return pl.DataFrame([_line(row) for row in _rows(key)], schema=_COLUMNS)


def _line(row: Row) -> Row:
    """The row's columns; what its profile holds is taken from there, so that the two cannot differ."""
    line = {column: row.get(column) for column in _COLUMNS}
    if row["name"] is None:
        return line
    profile = published_profile(row["name"])
    return line | {figure: getattr(profile, figure) for figure in _FIGURES if figure in _COLUMNS}
