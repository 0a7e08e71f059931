"""What simpler rules say of the same rows, so that the model's errors have something to be compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import brentq

from specbook.acceptance.yields import expected_tokens_per_round
from specbook.checks import BadInput, Floats
from specbook.roofline.engine_overheads import CONSTANTS
from specbook.validation.left_out import left_out_validation
from specbook.validation.passes import Passes, passes_of_rows
from specbook.validation.published_errors import LEFT_OUT, LeftOut
from specbook.validation.published_series import published_series
from specbook.validation.rounds import predict_rounds
from specbook.validation.scores import compared_rows, scored
from specbook.validation.settings import Setting, settings

_SCORES = (
    "median_absolute_error", "bias", "within_8", "win_lose_right", "best_k_exact", "best_k_within_one_tried", "regret",
)  # fmt: skip
_SCHEMA: dict[str, Any] = {
    "rule": pl.String, "n_losses_foreseen": pl.Int64, **dict.fromkeys(_SCORES, pl.Float64),
    "median_dense": pl.Float64, "median_mixture": pl.Float64,
}  # fmt: skip
_ERRORS = ("median_absolute_error", "bias", "within_8", "median_dense", "median_mixture")
_FIXED_LENGTHS = (3.0, 5.0, 7.0)


def leviathan_speedups(passes: Passes) -> Floats:
    r"""The speedup that follows from tokens per round and the cost ratio alone.

    Parameters
    ----------
    passes : Passes
        Of n settings.

    Returns
    -------
    (n,) ndarray of float64

    Notes
    -----
    .. math:: S = \frac{E}{1 + K c}

    with the modelled drafting of a round over the modelled step for K c. A verify pass takes as long as a step, and
    nothing is spent beside the passes. With the α that gives the stated tokens per round, the numerator is E itself.

    References
    ----------
    leviathan2023, theorem 3.8

    Examples
    --------
    >>> from specbook.validation.passes import passes_of
    >>> from specbook.validation.settings import example_setting
    >>> print(leviathan_speedups(passes_of([example_setting()])).round(2))
    [2.55]
    """
    return passes.tokens_per_round / (1.0 + passes.draft_s / passes.step_s)


def iid_acceptance(tokens: float, draft_length: float) -> float:
    """The one acceptance of every position that gives so many tokens per round.

    Parameters
    ----------
    tokens : float
        Per round, with the bonus token, from 1 to ``draft_length`` + 1.
    draft_length : float
        Rounded to a whole number, since means of counted drafts need not be one.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    BadInput
        If no acceptance gives so many.

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> iid_acceptance(1.875, 3)
    0.5
    """
    length = round(draft_length)
    if not 1.0 <= tokens <= length + 1.0:
        remedy = f"drafts of {length} give from 1 to {length + 1} tokens per round"
        raise BadInput("no acceptance gives these", field="tokens", value=tokens, remedy=remedy)
    return round(float(brentq(lambda alpha: iid_tokens(alpha, length) - tokens, 0.0, 1.0)), 12)


def iid_tokens(acceptance: float, draft_length: float) -> float:
    """Tokens per round if every position is accepted alike, whatever came before.

    Examples
    --------
    >>> iid_tokens(0.5, 3)
    1.875
    """
    return float(expected_tokens_per_round(np.full(round(draft_length), acceptance)))


@cache
def published_passes() -> tuple[tuple[Setting, ...], Passes]:
    """The shipped rows that can be predicted, and the modelled passes of each.

    Examples
    --------
    >>> found, passes = published_passes()
    >>> len(found) == passes.step_s.size
    True
    """
    found, passes = passes_of_rows(settings(published_series().rows))
    return tuple(found), passes


def with_predictions(frame: pl.DataFrame, speedups: Floats) -> pl.DataFrame:
    """The same measured rows with other predictions, and no interval.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows of :func:`~specbook.validation.validate.validate` that have a measured speedup.
    speedups : (n,) ndarray of float64

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> frame = example_validation().frame
    >>> with_predictions(frame, frame["measured_speedup"].to_numpy())["error"].to_list()
    [0.0, 0.0, 0.0]
    """
    nothing = pl.lit(None, dtype=pl.Float64)
    return frame.with_columns(
        predicted_speedup=pl.Series(speedups, dtype=pl.Float64), predicted_low=nothing, predicted_high=nothing
    ).with_columns(
        error=pl.col("predicted_speedup") / pl.col("measured_speedup") - 1.0,
        predicted_wins=pl.col("predicted_speedup") > 1.0,
    )


@cache
def yardsticks() -> pl.DataFrame:
    """Scores of specbook and of simpler rules on the same published rows.

    Returns
    -------
    polars.DataFrame
        ``rule`` and, from :func:`~specbook.validation.scores.scored`, the errors, the wins and losses outside ±5 %
        that were foreseen, and what choosing the draft length by the rule costs; ``n_losses_foreseen`` of the rows
        that lost, and the median error over dense targets and over mixtures. A rule that gives no speedup has no error.

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> yardsticks()["rule"][0]
    'specbook, series left out'
    """
    rows = _compared("series")
    rules: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
        "no engine constants": lambda frame: with_predictions(frame, _bare_speedups(frame)),
        "Leviathan, α of each row": lambda frame: with_predictions(frame, _leviathan(frame)),
        "Leviathan, α of least K": lambda frame: with_predictions(frame, _leviathan_from_shortest(frame)),
    }
    scores = [_scores(f"specbook, {left_out} left out", _compared(left_out)) for left_out in LEFT_OUT]
    scores += [_scores(name, rule(rows)) for name, rule in rules.items()]
    scores += [_always(rows, length) for length in _FIXED_LENGTHS]
    return pl.DataFrame(scores, schema=_SCHEMA)


def _compared(left_out: LeftOut) -> pl.DataFrame:
    return compared_rows(left_out_validation(left_out).frame)


def _scores(rule: str, frame: pl.DataFrame) -> dict[str, Any]:
    row = scored(frame).row(0, named=True)
    lost = frame.filter(~pl.col("is_near_one"), ~pl.col("measured_wins"))
    foreseen = int((~lost["predicted_wins"]).sum())
    return {
        "rule": rule,
        "n_losses_foreseen": foreseen,
        **{name: row[name] for name in _SCORES},
        **{f"median_{kind}": _median(frame, is_mixture=kind == "mixture") for kind in ("dense", "mixture")},
    }


def _median(frame: pl.DataFrame, *, is_mixture: bool) -> float:
    lines = [each.row.line for each in published_passes()[0] if each.target.is_mixture == is_mixture]
    errors = frame.filter(pl.col("line").is_in(lines))["error"]
    return float(np.median(errors.abs().to_numpy()))


def _passes(frame: pl.DataFrame) -> Passes:
    found, passes = published_passes()
    places = {setting.row.line: place for place, setting in enumerate(found)}
    return passes.part(np.array([places[line] for line in frame["line"]], dtype=np.int64))


def _bare_speedups(frame: pl.DataFrame) -> Floats:
    return predict_rounds(_passes(frame), np.zeros(len(CONSTANTS))).speedup


def _leviathan(frame: pl.DataFrame) -> Floats:
    return leviathan_speedups(_passes(frame))


def _leviathan_from_shortest(frame: pl.DataFrame) -> Floats:
    """As :func:`leviathan_speedups`, with tokens per round that one measured length says of the others."""
    rows = frame.select("series", "batch", "draft_length", "tokens_per_round")
    first: dict[tuple[str, int], float] = {}
    for series, batch, length, tokens in rows.sort("draft_length").iter_rows():
        if (series, batch) not in first:
            first[series, batch] = iid_acceptance(min(tokens, round(length) + 1.0), length)
    expected = [iid_tokens(first[series, batch], length) for series, batch, length, _ in rows.iter_rows()]
    ratios = np.array(expected, dtype=np.float64) / rows["tokens_per_round"].to_numpy()
    return np.asarray(_leviathan(frame) * ratios, dtype=np.float64)


def _always(frame: pl.DataFrame, length: float) -> dict[str, Any]:
    """Speculating everywhere, with the same draft length or the nearest to it; no speedup is foreseen."""
    closeness = 1.0 + 1.0 / (1.0 + np.abs(frame["draft_length"].to_numpy() - length))
    scores = _scores(f"always draft, K = {length:.0f}", with_predictions(frame, closeness))
    return scores | dict.fromkeys(_ERRORS)
