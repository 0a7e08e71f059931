"""Reading a projection for one place: one device, one domain, one drafter, one context or all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from specbook.checks import BadInput
from specbook.deploy.schedule import LengthTable
from specbook.files import check_readable, first_problem, parse_json, sha256_of
from specbook.roofline.grid import COLUMNS

SCHEMA = "specbook-projection/1"
_REMAKE = "make it with specbook project or specbook funnel"
# What a schedule is for; a projection may hold several of each, and they do not compete.
_PLACE = (
    "hardware", "domain", "method", "temperature", "drafter", "measured_target", "measured_drafter", "target",
    "precision", "draft_precision", "n_devices", "step_time_kind",
)  # fmt: skip
# Of these, what the command can be told; the others need a projection of their own.
_OPTIONS = {"hardware": "--hardware", "domain": "--domain", "method": "--method", "temperature": "--temperature"}

# Fields of a profile that stand in columns of its rows.
_EVIDENCE_COLUMNS = {
    "domain": "domain", "method": "method", "temperature": "temperature", "target": "measured_target",
    "drafter": "measured_drafter",
}  # fmt: skip
_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Projection:
    """A projection file: its rows, and what its metadata say of where they came from.

    Attributes
    ----------
    file : str
    sha256 : str
        Of the file's bytes.
    specbook_version : str
        That wrote it.
    rows : polars.DataFrame
    evidence : tuple of mapping
        The acceptance profiles that went in, each with its ``provenance``.
    notes : tuple of str
        What its figures assume.
    """

    file: str
    sha256: str
    specbook_version: str
    rows: pl.DataFrame
    evidence: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]


def read_projection(path: Path) -> Projection:
    """Read a projection that ``specbook project`` or ``specbook funnel`` wrote.

    Raises
    ------
    BadInput
        If it cannot be read, is no projection, is one of another schema, or lacks a column.
    """
    check_readable(path)
    try:
        metadata, rows = pl.read_parquet_metadata(path), pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        raise BadInput("is not a complete Parquet file", file=str(path), remedy=_REMAKE) from None
    schema = metadata.get("specbook.schema")
    if schema != SCHEMA:
        problem = "is no projection" if schema is None else "is not a projection of this version"
        remedy = f"expected {SCHEMA}; {_REMAKE}"
        raise BadInput(problem, file=str(path), field="specbook.schema", value=schema, remedy=remedy)
    missing = [name for name in COLUMNS if name not in rows.columns]
    if missing or rows.is_empty():
        problem = "holds no rows" if rows.is_empty() else f"lacks the column {missing[0]}"
        raise BadInput(problem, file=str(path), remedy=_REMAKE)
    _check_figures(rows, path)
    return Projection(
        file=path.name,
        sha256=sha256_of(path),
        specbook_version=metadata.get("specbook.version", ""),
        rows=rows,
        evidence=tuple(_json_list(metadata, "specbook.evidence", path, _EVIDENCE)),
        notes=tuple(_json_list(metadata, "specbook.notes", path, _NOTES)),
    )


def _check_figures(rows: pl.DataFrame, path: Path) -> None:
    """What follows from other columns must follow: an edited projection is none."""
    follows = {
        "round_s": pl.col("draft_s") + pl.col("verify_s"),
        "tpot_s": pl.col("round_s") / pl.col("expected_tokens"),
        "speedup": pl.col("baseline_tpot_s") / pl.col("tpot_s"),
    }
    gains = (pl.col("speedup") > 1.0) | (pl.col("draft_length") == 0)
    agrees = {name: (pl.col(name) - value).abs() <= _TOLERANCE * value for name, value in follows.items()}
    chain_tokens = pl.col("expected_tokens").is_between(1.0, (pl.col("draft_length") + 1) * (1.0 + _TOLERANCE))
    agrees["expected_tokens"] = pl.col("tree_nodes").is_not_null() | chain_tokens
    agrees["viable"] = pl.col("viable") == (pl.col("fits_memory") & gains)
    try:
        wrong = rows.select((~check.fill_null(False)).alias(name) for name, check in agrees.items())
    except pl.exceptions.PolarsError:
        raise BadInput("holds columns that are no numbers", file=str(path), remedy=_REMAKE) from None
    for column in wrong:
        if column.any():
            row = column.arg_true()[0]
            problem = f"does not follow from the other columns of row {row + 1}: somebody edited one of them"
            raise BadInput(problem, file=str(path), field=column.name, value=rows[column.name][row], remedy=_REMAKE)


class _Evidence(BaseModel):
    """What a deployment reads of a profile in a projection's metadata; the rest is handed on."""

    draft_length: int | None = None
    evidence: str | None = None
    marginal_acceptance: list[Annotated[float, Field(ge=0.0, le=1.0)]] | None = None
    provenance: list[dict[str, Any]] = []


_EVIDENCE, _NOTES = TypeAdapter(list[_Evidence]), TypeAdapter(list[str])


def _json_list(metadata: Mapping[str, str], key: str, path: Path, kind: TypeAdapter[list[Any]]) -> list[Any]:
    try:
        values = parse_json(metadata.get(key, "[]").encode(), str(path))
    except BadInput:
        values = None
    if not isinstance(values, list):
        raise BadInput("is no list", file=str(path), field=key, remedy=_REMAKE)
    try:
        kind.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        found = first_problem(error, str(path), _REMAKE)
        field = f"{key}.{found.field}"
        raise BadInput(found.problem, file=found.file, field=field, value=found.value, remedy=_REMAKE) from None
    return values


@dataclass(frozen=True, kw_only=True)
class Place:
    """The rows of one device, domain, method and drafter, chains of fixed length only.

    Attributes
    ----------
    projection : Projection
    rows : polars.DataFrame
    labels : mapping of str to object
        Value of each column that is the same in all rows.
    asked_domain : str or None
        The domain that was asked for, where the evidence has another one or names none.
    n_other_drafts : int
        Trees and drafts with a cut that were left out.
    """

    projection: Projection
    rows: pl.DataFrame
    labels: Mapping[str, Any]
    asked_domain: str | None = None
    n_other_drafts: int = 0

    @property
    def contexts(self) -> tuple[int, ...]:
        """Context lengths in tokens, rising."""
        return tuple(self.rows["context"].unique().sort().to_list())

    def expected_tokens(self) -> dict[int, float]:
        """Tokens per round by draft length."""
        return _by_length(self.rows, "expected_tokens")

    def assumptions(self) -> dict[int, str]:
        """How the tokens of each draft length are known."""
        return _by_length(self.rows, "acceptance_assumption")

    def evidence(self) -> list[Mapping[str, Any]]:
        """The profiles that speak of this place."""
        return [
            each
            for each in self.projection.evidence
            if all(each.get(field) == self.labels[column] for field, column in _EVIDENCE_COLUMNS.items())
        ]

    def measured_marginal(self, draft_length: int) -> Sequence[float] | None:
        """Marginal acceptance of the only profile that was measured at a draft length; None if it holds none."""
        found = [each for each in self.evidence() if each.get("draft_length") == draft_length]
        marginal = found[0].get("marginal_acceptance") if len(found) == 1 else None
        return marginal if isinstance(marginal, list) and len(marginal) == draft_length else None


def _by_length(rows: pl.DataFrame, column: str) -> dict[int, Any]:
    first = rows.unique("draft_length", keep="first", maintain_order=True).sort("draft_length")
    return dict(zip(first["draft_length"].to_list(), first[column].to_list(), strict=True))


def choose_place(projection: Projection, wanted: Mapping[str, Any]) -> Place:
    """The rows of one place; whatever ``wanted`` does not settle must be the same throughout.

    Parameters
    ----------
    projection : Projection
    wanted : mapping of str to object
        Values of ``hardware``, ``domain``, ``method`` and ``temperature``; None is no wish.

    Raises
    ------
    BadInput
        If a wish is not in the projection, several values are left of something, or nothing but trees is.
    """
    rows, asked_domain = projection.rows, None
    for column in _PLACE:
        values = _sorted(rows[column].unique().to_list())
        wish = wanted.get(column)
        if wish is not None and column == "domain" and len(values) == 1 and values != [wish]:
            asked_domain, wish = wish, values[0]  # other traffic than was measured: a warning, not an error
        rows = _only(projection, rows, column, wish, values)
    chains = rows.filter(pl.col("tree_nodes").is_null() & ~pl.col("acceptance_assumption").str.contains(", cut "))
    if chains.filter(pl.col("draft_length") > 0).is_empty() and rows["draft_length"].max() != 0:
        remedy = "project a profile of a chain: serving engines set a number of tokens"
        raise BadInput("holds trees or drafts with a cut alone", file=projection.file, remedy=remedy)
    if 0 not in chains["draft_length"]:
        raise BadInput("lacks draft length 0, to which all is compared", file=projection.file, remedy=_REMAKE)
    return Place(
        projection=projection,
        rows=chains,
        labels={column: rows[column][0] for column in COLUMNS if rows[column].n_unique() == 1},
        asked_domain=asked_domain,
        n_other_drafts=rows.height - chains.height,
    )


def _only(projection: Projection, rows: pl.DataFrame, column: str, wish: Any, values: Sequence[Any]) -> pl.DataFrame:
    """The rows that have the value wished for, or the only one that there is."""
    if wish is None and len(values) == 1:
        return rows
    options = ", ".join(str(value) for value in values)
    field = _OPTIONS.get(column, column)
    if wish is None:
        remedy = f"name one with {field}" if column in _OPTIONS else "project one of them alone"
        raise BadInput(f"holds several: {options}", file=projection.file, field=column, remedy=remedy)
    if wish not in values:
        raise BadInput("is not in the projection", field=field, value=wish, remedy=f"it holds {options}")
    return rows.filter(pl.col(column).is_null() if wish is None else pl.col(column) == wish)


def _sorted(values: Sequence[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is None, str(value)))


def _that_can_run(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without the batches at which not even the target alone fits, which no engine runs; all if none fits."""
    too_large = rows.filter((pl.col("draft_length") == 0) & ~pl.col("fits_memory"))["batch"]
    left = rows.filter(~pl.col("batch").is_in(too_large.to_list()))
    return rows if left.is_empty() else left


def length_table(place: Place, context: int) -> LengthTable:
    """Time per token by batch and draft length at one context.

    Raises
    ------
    BadInput
        If the context was not projected, a batch lacks draft length 0, or a time is impossible.
    """
    file = place.projection.file
    if context not in place.contexts:
        known = ", ".join(map(str, place.contexts))
        raise BadInput("was not projected", field="--context", value=context, remedy=f"it holds {known}")
    rows = _that_can_run(place.rows.filter(pl.col("context") == context)).sort("batch", "draft_length")
    if rows.select(pl.struct("batch", "draft_length").is_duplicated().any()).item():
        raise BadInput("holds a draft length twice at one batch", file=file, remedy=_REMAKE)
    batches, lengths = rows["batch"].unique().sort().to_list(), rows["draft_length"].unique().sort().to_list()
    shape = len(batches), len(lengths)
    tpot_s, pays = np.ones(shape), np.zeros(shape, dtype=bool)
    at = np.searchsorted(batches, rows["batch"].to_numpy()), np.searchsorted(lengths, rows["draft_length"].to_numpy())
    tpot_s[at], pays[at] = rows["tpot_s"].to_numpy(), rows["viable"].to_numpy()
    pays[:, 0] = True  # no speculation, even where not even that fits: there is nothing else to fall back to
    if rows.filter(pl.col("draft_length") == 0).height != len(batches):
        raise BadInput("lacks draft length 0 at a batch", file=file, remedy=_REMAKE)
    try:
        return LengthTable(batches=tuple(batches), draft_lengths=tuple(lengths), tpot_s=tpot_s, pays=pays)
    except ValueError as error:
        raise BadInput(str(error), file=file, remedy=_REMAKE) from None
