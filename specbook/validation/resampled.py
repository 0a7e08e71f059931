"""How far the headline rests on which targets were published: whole targets drawn again, with replacement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from specbook.checks import Floats
from specbook.validation.scores import GATE, best_draft_lengths, compared_rows

DRAWS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Resampled:
    """Figures over resampled targets.

    Attributes
    ----------
    n_targets : int
    median : (low, high)
        95 % of the median absolute errors.
    above_gate : float
        Share of the draws whose median is above 8 %.
    best_k : (low, high)
        95 % of the shares of choices of K that were found exactly.
    """

    n_targets: int
    median: tuple[float, float]
    above_gate: float
    best_k: tuple[float, float]


def resampled_headline(frame: pl.DataFrame, rng: np.random.Generator) -> Resampled:
    """The headline over targets that are drawn with replacement, 2,000 times.

    Rows of a target share a server, a count of devices and often a baseline, so that whole targets are drawn. What
    there is no second of, such as another bench, no draw brings.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`, with at least one choice of a draft length.
    rng : numpy.random.Generator

    Returns
    -------
    Resampled

    References
    ----------
    fieldwelsh2007

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> resampled_headline(example_validation().frame, np.random.default_rng(0)).n_targets
    1
    """
    errors = _by_target(compared_rows(frame).with_columns(pl.col("error").abs()), "error")
    choices = best_draft_lengths(frame, "target_model").with_columns(
        found=(pl.col("measured") == pl.col("predicted")).cast(pl.Float64)
    )
    found = _by_target(choices, "found")
    names = list(errors)
    drawn = rng.integers(len(names), size=(DRAWS, len(names)))
    none = np.empty(0)
    medians = [float(np.median(np.concatenate([errors[names[each]] for each in draw]))) for draw in drawn]
    pools = [np.concatenate([found.get(names[each], none) for each in draw]) for draw in drawn]
    return Resampled(
        n_targets=len(names),
        median=_interval(medians),
        above_gate=float((np.array(medians) > GATE).mean()),
        best_k=_interval([float(pool.mean()) for pool in pools if pool.size]),
    )


def _by_target(rows: pl.DataFrame, column: str) -> dict[str, Floats]:
    groups = rows.group_by("target_model", maintain_order=True).agg(column)
    return {name: np.array(values) for name, values in groups.iter_rows()}


def _interval(values: list[float]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return low, high
