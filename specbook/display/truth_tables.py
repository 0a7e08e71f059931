"""Tables of the published table: what was asked, what rows lack, where the model fails, and whose figures they are."""

from __future__ import annotations

from typing import Any

import polars as pl

from specbook.display.validation_missing import missing_groups
from specbook.validation.published_series import SeriesLicence, series_licences
from specbook.validation.scores import GATE, compared_rows

_LONGEST_SOURCE = 46

# What sets the rows that are predicted worst apart, the narrowest first; a row is of the first kind that it fits.
_TARGET, _METHOD = pl.col("target_model"), pl.col("method")
FAILURES: dict[str, pl.Expr] = {
    "one server under CUDA": pl.col("series") == "llamacpp-rtx5060ti_qwen7b-cuda",
    "look-ups that seldom draft": (_METHOD == "ngram") & (pl.col("draft_length") < 1.0),
    "small GPUs under llama.cpp": pl.col("engine").str.starts_with("llama.cpp"),
    "tree of 64 tokens": pl.col("drafter").str.contains("topk"),
    "look-up of n-grams": _METHOD == "ngram",
    "batch of 32, engine not stated": pl.col("source") == "speedbench2026",
    "Llama-4-Scout": _TARGET.str.starts_with("Llama-4-Scout"),
    "Ling-flash-2.0": _TARGET == "Ling-flash-2.0",
    "recurrent layers": _TARGET.str.starts_with("Qwen3-Next"),
}
_REST = "all others"


def asked_frame(scores: dict[str, dict[str, Any]], always: float) -> pl.DataFrame:
    """The three figures that were asked, beside those that were reached.

    Parameters
    ----------
    scores : mapping of str to mapping
        By what was left out of the fit: the first row of a validation's scores.
    always : float
        Share of wins and losses that the rule "always speculate" gets right.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> found = asked_frame({"series": example_validation().scores.row(0, named=True)}, 1.0)
    >>> found["asked"].to_list()
    ['at least 95 %', 'at least 90 %', 'at most 8 %']
    """
    asked = {
        "win or lose right, outside ±5 %": ("at least 95 %", "win_lose_right", always),
        "best K within one token": ("at least 90 %", "best_k_within_one", None),
        "median |error| of the speedup": ("at most 8 %", "median_absolute_error", None),
    }
    return pl.DataFrame(
        [
            {"figure": figure, "asked": bound}
            | {f"{name} left out": _percent(row[key]) for name, row in scores.items()}
            | {"always speculate": "" if rule is None else _percent(rule)}
            for figure, (bound, key, rule) in asked.items()
        ]
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def lacks_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """What rows lack, by kind: how many rows, how many lack nothing else, and the cell that is commonest.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Examples
    --------
    >>> from specbook.validation.left_out import published_validation
    >>> lacks_frame(published_validation().frame).columns
    ['missing', 'rows', 'lack nothing else', 'mostly']
    """
    kinds: dict[str, dict[str, Any]] = {}
    for group in missing_groups(frame):
        row = kinds.setdefault(
            group.what, {"missing": group.what, "rows": 0, "lack nothing else": 0, "mostly": group.written or ""}
        )
        row["rows"] += group.n_rows
        row["lack nothing else"] += group.n_alone
    return pl.DataFrame(list(kinds.values())).sort("rows", descending=True, maintain_order=True)


def failures_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Compared rows by what sets those that are predicted worst apart, with their errors.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Returns
    -------
    polars.DataFrame
        Columns ``kind, n_rows, median, lowest, highest, within_8``; the last kind is all others.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> failures_frame(example_validation().frame)["kind"].to_list()
    ['all others']
    """
    compared = compared_rows(frame)
    error = pl.col("error")
    found = (
        compared.with_columns(kind_of().alias("kind"))
        .group_by("kind")
        .agg(
            n_rows=pl.len(),
            median=error.abs().median(),
            lowest=error.min(),
            highest=error.max(),
            within_8=(error.abs() <= GATE).mean(),
        )
    )
    order = {name: place for place, name in enumerate((*FAILURES, _REST))}
    return found.sort(pl.col("kind").replace_strict(order, return_dtype=pl.Int64))


def kind_of() -> pl.Expr:
    """The kind of a row as a column: the first of ``FAILURES`` that it fits, else all others.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> example_validation().frame.select(kind_of())["literal"].unique().to_list()
    ['all others']
    """
    kind = pl.lit(_REST)
    for name, is_it in reversed(FAILURES.items()):
        kind = pl.when(is_it.fill_null(value=False)).then(pl.lit(name)).otherwise(kind)
    return kind


def licences_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Every source of the published table: how many rows it gave, how many were compared, and its licence.

    Parameters
    ----------
    frame : polars.DataFrame
        Of the published table, whatever the constants.

    Examples
    --------
    >>> from specbook.validation.left_out import published_validation
    >>> licences_frame(published_validation().frame).columns
    ['source', 'rows', 'compared', 'licence', 'holder']
    """
    rows = frame.group_by("source").agg(rows=pl.len(), compared=pl.col("error").is_not_null().sum())
    licences = pl.DataFrame([_licence(each) for each in series_licences().values()])
    joined = rows.join(licences, on="source", how="left").sort("rows", "source", descending=[True, False])
    return joined.with_columns(pl.col("source").str.head(_LONGEST_SOURCE))


def _licence(each: SeriesLicence) -> dict[str, str]:
    return {"source": each.source, "licence": each.licence, "holder": each.holder or ""}
