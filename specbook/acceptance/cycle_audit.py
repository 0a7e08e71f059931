"""What a sweep says about where drafting pays: the figures that a claim about it is checked against.

Every function takes a frame of :func:`~specbook.acceptance.cycle_sweep.sweep_cycles`, any subset of its rows, and the
name of the speedup to look at: the simulated one, its exact mean, or that of endless sequences.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from specbook.acceptance.yields import expected_rounds, expected_tokens_per_round
from specbook.checks import Floats, check_draft_axis, check_probability

SpeedupName = Literal["speedup", "expected_speedup", "untruncated_speedup"]

# Speedups this close are one, so that rounding decides nothing.
_TIE = 1e-9


def mean_speedup_by_cost_ratio(sweep: pl.DataFrame, speedup: SpeedupName = "expected_speedup") -> pl.DataFrame:
    """Speedup averaged over all rows of one cost ratio, whatever their draft length and acceptance.

    Parameters
    ----------
    sweep : polars.DataFrame
    speedup : str
        Column to average.

    Returns
    -------
    polars.DataFrame
        Columns ``cost_ratio, mean_speedup``, rising in ``cost_ratio``.

    Examples
    --------
    >>> sweep = pl.DataFrame({"cost_ratio": [0.5, 0.1, 0.1], "expected_speedup": [0.9, 2.0, 3.0]})
    >>> mean_speedup_by_cost_ratio(sweep).rows()
    [(0.1, 2.5), (0.5, 0.9)]
    """
    return sweep.group_by("cost_ratio").agg(mean_speedup=pl.col(speedup).mean()).sort("cost_ratio")


def best_row(sweep: pl.DataFrame, speedup: SpeedupName = "speedup") -> dict[str, Any]:
    """The row of the largest speedup; of simulated ones the largest is a little too large, since luck chose it.

    Parameters
    ----------
    sweep : polars.DataFrame
    speedup : str
        Column to look at.

    Examples
    --------
    >>> best_row(pl.DataFrame({"draft_length": [1, 2], "speedup": [1.5, 1.8]}))
    {'draft_length': 2, 'speedup': 1.8}
    """
    return sweep.row(sweep[speedup].arg_max() or 0, named=True)


def losing(sweep: pl.DataFrame, speedup: SpeedupName = "expected_speedup") -> pl.DataFrame:
    """Rows that are slower than decoding without drafts; a speedup of 1, up to rounding, does not lose.

    Parameters
    ----------
    sweep : polars.DataFrame
    speedup : str

    Returns
    -------
    polars.DataFrame
        The rows, in their order.

    Examples
    --------
    >>> losing(pl.DataFrame({"draft_length": [1, 15], "expected_speedup": [1.0, 0.8]}))["draft_length"].to_list()
    [15]
    """
    return sweep.filter(pl.col(speedup) < 1.0 - _TIE)


def outside(rows: pl.DataFrame, min_cost_ratio: float, max_acceptance: float) -> pl.DataFrame:
    """Rows outside a corner of expensive drafts and low acceptance: the counterexamples to a claim that all lie in it.

    Parameters
    ----------
    rows : polars.DataFrame
        Such as :func:`losing` returns.
    min_cost_ratio, max_acceptance : float
        The corner, its edges included.

    Returns
    -------
    polars.DataFrame

    Examples
    --------
    >>> rows = pl.DataFrame({"cost_ratio": [0.25, 0.1, 0.5], "swept_acceptance": [0.7, 0.5, 0.9]})
    >>> outside(rows, min_cost_ratio=0.25, max_acceptance=0.7).rows()
    [(0.1, 0.5), (0.5, 0.9)]
    """
    cheap = pl.col("cost_ratio") < min_cost_ratio - _TIE
    good = pl.col("swept_acceptance") > max_acceptance + _TIE
    return rows.filter(cheap | good)


def optimal_draft_lengths(
    sweep: pl.DataFrame, speedup: SpeedupName = "expected_speedup", tolerance: float = _TIE
) -> pl.DataFrame:
    """Fastest draft length of each draft model, acceptance and draft cost; 0 where every one of them loses.

    Parameters
    ----------
    sweep : polars.DataFrame
    speedup : str
    tolerance : float
        Draft lengths whose speedup is within this share of the best are listed with it.

    Returns
    -------
    polars.DataFrame
        Columns ``draft_model, swept_acceptance, draft_s``; ``fastest``, the shortest of the fastest swept draft lengths
        up to rounding; ``best_draft_length``, the same or 0; ``best_speedup``, at least 1; ``near_best``, a list.

    Examples
    --------
    >>> columns = {"draft_length": [1, 2], "expected_speedup": [0.9, 0.8]}
    >>> place = {"draft_model": ["fixed"] * 2, "swept_acceptance": [0.5] * 2, "draft_s": [1e-4] * 2}
    >>> optimal_draft_lengths(pl.DataFrame(place | columns)).row(0)[3:]
    (1, 0, 1.0, [1])
    """
    place = ("draft_model", "swept_acceptance", "draft_s")
    best, value = pl.col(speedup).max(), pl.col(speedup)
    return (
        sweep.sort("draft_length")
        .group_by(place, maintain_order=True)
        .agg(
            fastest=pl.col("draft_length").filter(value >= best * (1.0 - _TIE)).first(),
            best_speedup=best,
            near_best=pl.col("draft_length").filter(value >= best * (1.0 - tolerance)),
        )
        .with_columns(
            best_draft_length=pl.when(pl.col("best_speedup") < 1.0 - _TIE).then(0).otherwise("fastest"),
            best_speedup=pl.max_horizontal("best_speedup", pl.lit(1.0)),
        )
        .select(*place, "fastest", "best_draft_length", "best_speedup", "near_best")
        .sort(place)
    )


def break_even_cost_ratio(conditional_acceptance: ArrayLike, n_tokens: int | None = None) -> Floats:
    r"""Cost of a draft pass, in verify passes, at which drafting neither gains nor loses.

    Parameters
    ----------
    conditional_acceptance : (..., draft_length) array_like of float
        Acceptance of position ``i`` given that every earlier one was accepted, in [0, 1]; draft_length at least 1.
    n_tokens : int, optional
        Tokens of a sequence, whose last round is cut; without it, sequences are endless.

    Returns
    -------
    (...) ndarray of float64
        Cost ratio, in [0, 1].

    Raises
    ------
    ValueError
        If the acceptance is no vector of probabilities or is empty, or ``n_tokens`` is not whole and at least 1.

    Notes
    -----
    .. math:: c^* = \frac{E - 1}{K}, \qquad E = n / N \text{ for sequences of } n \text{ tokens in } N \text{ rounds}

    That is the mean of the marginal acceptances, which never rise, so that the first draft token is the last to stop
    paying: some draft length pays if and only if drafts cost less than the acceptance of position 1.

    References
    ----------
    leviathan2023, section 3.3

    Examples
    --------
    >>> print(break_even_cost_ratio([0.8]), break_even_cost_ratio([0.8] * 5).round(4))
    0.8 0.5379
    """
    conditional = check_draft_axis(
        "conditional_acceptance", check_probability("conditional_acceptance", conditional_acceptance)
    )
    draft_length = conditional.shape[-1]
    if draft_length == 0:
        raise ValueError("conditional_acceptance must hold at least one position; got none")
    if n_tokens is None:
        return np.asarray((expected_tokens_per_round(conditional) - 1.0) / draft_length)
    if n_tokens < 1:
        raise ValueError(f"n_tokens must be at least 1; got {n_tokens}")
    return np.asarray((n_tokens / expected_rounds(conditional, n_tokens) - 1.0) / draft_length)


def pareto_front(sweep: pl.DataFrame, speedup: SpeedupName = "expected_speedup") -> pl.DataFrame:
    """Rows that no other row of the same acceptance beats: none is faster without a larger share of time for drafting.

    Parameters
    ----------
    sweep : polars.DataFrame
    speedup : str

    Returns
    -------
    polars.DataFrame
        Rows by ``swept_acceptance``, then rising in ``overhead`` and in speedup.

    Examples
    --------
    >>> columns = {"overhead": [0.1, 0.3, 0.2], "expected_speedup": [1.5, 1.8, 1.4]}
    >>> pareto_front(pl.DataFrame({"swept_acceptance": [0.8] * 3} | columns))["overhead"].to_list()
    [0.1, 0.3]
    """
    rows = sweep.sort("swept_acceptance", "overhead", speedup, descending=[False, False, True])
    fastest_before = pl.col(speedup).cum_max().shift(1).over("swept_acceptance")
    return rows.filter(fastest_before.is_null() | (pl.col(speedup) > fastest_before * (1.0 + _TIE)))
