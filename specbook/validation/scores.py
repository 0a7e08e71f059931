"""How good predictions are: errors of the speedup, the choice to speculate at all, and the choice of a draft length."""

from __future__ import annotations

from typing import Any

import polars as pl

NEAR_ONE = 0.05
GATE = 0.08
# What tells one choice of a draft length from another.
CHOICE = ("series", "drafter", "workload", "batch")
GROUPS = ("status", "devices_from", "engine", "device", "target_model", "method", "series")

_SCHEMA: dict[str, Any] = {
    "by": pl.String, "group": pl.String, "n_rows": pl.Int64, "median_absolute_error": pl.Float64,
    "p90_absolute_error": pl.Float64, "bias": pl.Float64, "within_8": pl.Float64, "n_outside_band": pl.Int64,
    "win_lose_right": pl.Float64, "always_right": pl.Float64, "n_varying_series": pl.Int64, "best_k_exact": pl.Float64,
    "best_k_within_one": pl.Float64, "best_k_within_one_tried": pl.Float64, "regret": pl.Float64,
    "rank_correlation": pl.Float64, "coverage": pl.Float64,
}  # fmt: skip

_SIZE = pl.col("error").abs()
_RANK_CORRELATION = pl.corr("measured_speedup", "predicted_speedup", method="spearman").fill_nan(None)
_ERRORS = {  # of rows that draft: without drafts the prediction is the baseline, and its error nothing
    "n_rows": pl.len(),
    "median_absolute_error": _SIZE.median(),
    "p90_absolute_error": _SIZE.quantile(0.9, "linear"),
    "bias": pl.col("error").mean(),
    "within_8": (_SIZE <= GATE).mean(),
    "n_outside_band": (~pl.col("is_near_one")).sum(),
    "win_lose_right": (pl.col("measured_wins") == pl.col("predicted_wins")).filter(~pl.col("is_near_one")).mean(),
    "always_right": pl.col("measured_wins").filter(~pl.col("is_near_one")).mean(),
    "rank_correlation": pl.when(pl.len() >= 3).then(_RANK_CORRELATION),
    "coverage": pl.col("measured_speedup").is_between("predicted_low", "predicted_high").mean(),
}
_APART = (pl.col("predicted") - pl.col("measured")).abs()
_CHOICES = {
    "n_varying_series": pl.len(),
    "best_k_exact": (_APART == 0.0).mean(),
    "best_k_within_one": (_APART <= 1.0).mean(),
    "best_k_within_one_tried": (pl.col("steps_apart") <= 1).mean(),
    "regret": pl.col("regret").mean(),
}


def scored(frame: pl.DataFrame) -> pl.DataFrame:
    """Scores of all compared rows, and of each group of them.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Returns
    -------
    polars.DataFrame
        ``by`` and ``group``, ``n_rows``; errors of the speedup as shares of the measured one; of rows outside ±5 % of 1
        (``n_outside_band``), the share whose win or loss was foreseen, and for which drafting always would have been
        right; of series that vary K, the share whose best K was found (exactly; within one token; within one of the
        lengths that were tried), and the mean share of speed lost by the predicted K; Spearman's rank correlation (null
        below three rows); how often the interval holds the measured figure. Null where nothing can be said.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> scored(example_validation().frame)["by"].to_list()[:2]
    ['all', 'status']
    """
    compared = compared_rows(frame)
    scores = [_of_all(compared), *(_by_group(compared, by) for by in GROUPS)]
    labelled = [part.with_columns(by=pl.lit(by)) for by, part in zip(("all", *GROUPS), scores, strict=True)]
    return pl.concat([part.select(pl.col(name).cast(kind) for name, kind in _SCHEMA.items()) for part in labelled])


def compared_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Those rows that have a predicted and a measured speedup.

    Examples
    --------
    >>> compared_rows(pl.DataFrame({"error": [0.1, None]})).height
    1
    """
    return frame.filter(pl.col("error").is_not_null())


def drafting_rows(compared: pl.DataFrame) -> pl.DataFrame:
    """Those rows that drafted; rows with K = 0 are candidates for the best K and no test of a prediction.

    Examples
    --------
    >>> drafting_rows(pl.DataFrame({"draft_length": [0.0, 3.0]})).height
    1
    """
    return compared.filter(pl.col("draft_length") > 0.0)


def _of_all(compared: pl.DataFrame) -> pl.DataFrame:
    choices = best_draft_lengths(compared).select(**_CHOICES)
    errors = drafting_rows(compared).select(**_ERRORS)
    return pl.concat([errors, choices], how="horizontal").with_columns(group=pl.lit("all"))


def _by_group(compared: pl.DataFrame, by: str) -> pl.DataFrame:
    known = compared.filter(pl.col(by).is_not_null())
    choices = best_draft_lengths(known, by).group_by(by).agg(**_CHOICES)
    errors = drafting_rows(known).group_by(by, maintain_order=True).agg(**_ERRORS)
    joined = errors.join(choices, on=by, how="left", maintain_order="left").rename({by: "group"})
    return joined.with_columns(pl.col("n_varying_series").fill_null(0))


def best_draft_lengths(rows: pl.DataFrame, *further: str) -> pl.DataFrame:
    """The best draft length of each series that varies it: measured, predicted, and what choosing the latter costs.

    Rows of a series that differ in drafter, workload or batch are separate choices. The shorter length wins a tie.

    Parameters
    ----------
    rows : polars.DataFrame
        With measured and predicted speedups.
    *further : str
        Columns by which choices are kept apart as well; they come first in the result.

    Returns
    -------
    polars.DataFrame
        ``series, drafter, workload, batch, n_lengths, measured, predicted, steps_apart, regret``: how many of the tried
        lengths the two are apart, and the share of the best measured speed that the predicted one loses.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> best_draft_lengths(example_validation().frame).columns[:2]
    ['series', 'drafter']
    """
    compared = compared_rows(rows).sort("draft_length", maintain_order=True)
    choice = list(dict.fromkeys((*further, *CHOICE)))
    measured, predicted = pl.col("measured_speedup").arg_max(), pl.col("predicted_speedup").arg_max()
    return (
        compared.group_by(choice, maintain_order=True)
        .agg(
            n_lengths=pl.col("draft_length").n_unique(),
            measured=pl.col("draft_length").get(measured),
            predicted=pl.col("draft_length").get(predicted),
            steps_apart=_rank_of(measured).sub(_rank_of(predicted)).abs(),
            regret=1.0 - pl.col("measured_speedup").get(predicted) / pl.col("measured_speedup").max(),
        )
        .filter(pl.col("n_lengths") > 1)
        .sort(choice)
    )


def _rank_of(place: pl.Expr) -> pl.Expr:
    """Which of the lengths that were tried stands at a place."""
    return pl.col("draft_length").rank("dense").cast(pl.Int64).get(place)
