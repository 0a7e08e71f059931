"""Rules that know no hardware and need measured speculation on the same bench, beside the model on the same rows.

Somebody who has speculated on a server can tell its next series from the last ones. These rules do that, and are what
the model has to be worth something against; before anything ran, they say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from specbook.checks import Floats
from specbook.validation.published_errors import KNOWN, LEFT_OUT, Comparable, comparable
from specbook.validation.refitted import left_out_speedups
from specbook.validation.scores import CHOICE, GATE, best_draft_lengths

_ENGINE = "sglang"
# As in the fit of the engine's constants: beyond this error of the logarithm, a row counts less than its square.
_SOFT = 0.05


def neighbours_speedups(rows: Comparable) -> Floats:
    """Each row's tokens per round, times the median share of them that other series of its target and K gained.

    Parameters
    ----------
    rows : Comparable

    Returns
    -------
    (n,) ndarray of float64
        NaN where no other series has the same target and draft length.

    Examples
    --------
    >>> rows = comparable("sglang")
    >>> bool(np.isfinite(neighbours_speedups(rows)).sum() > 100)
    True
    """
    series, targets = (np.array(rows.groups(left_out)) for left_out in LEFT_OUT)
    lengths = np.array([each.depth for each in rows.found])
    shares = rows.speedups / rows.passes.tokens_per_round
    alike = (targets[:, None] == targets) & (lengths[:, None] == lengths) & (series[:, None] != series)
    medians = [float(np.median(shares[others])) if others.any() else np.nan for others in alike]
    return np.array(medians) * rows.passes.tokens_per_round


def regressed_speedups(rows: Comparable, groups: Sequence[str]) -> Floats:
    r"""Each row's speedup by a regression over all other groups.

    Parameters
    ----------
    rows : Comparable
    groups : (n,) sequence of str

    Returns
    -------
    (n,) ndarray of float64

    Notes
    -----
    .. math:: \ln S = a + b \ln E + c K + d\,[\text{mixture}]

    with four numbers for all targets, fitted with the soft loss of the engine's constants.

    Examples
    --------
    >>> rows = comparable("sglang")
    >>> regressed_speedups(rows, rows.groups("series")).size == rows.speedups.size
    True
    """
    lengths = [each.depth for each in rows.found]
    is_mixture = [float(each.target.is_mixture) for each in rows.found]
    columns = (np.ones(rows.speedups.size), np.log(rows.passes.tokens_per_round), lengths, is_mixture)
    known, logs, names = np.column_stack(columns), np.log(rows.speedups), np.array(groups)
    found = np.empty(logs.size)
    for name in dict.fromkeys(groups):
        out = names == name
        found[out] = known[out] @ _regressed(known[~out], logs[~out])
    return np.exp(found)


def _regressed(known: Floats, logs: Floats) -> Floats:
    start = np.zeros(known.shape[1])
    fit = least_squares(lambda each: known @ each - logs, start, loss="soft_l1", f_scale=_SOFT)
    return np.asarray(fit.x, dtype=np.float64)


@cache
def bench_yardsticks() -> pl.DataFrame:
    """Errors of the model and of rules without hardware, each on the same rows of SGLang.

    Returns
    -------
    polars.DataFrame
        ``rule``; ``left_out``; ``n_rows`` and, over those that have neighbours, ``n_neighboured``: the median absolute
        error over all rows (null where the rule cannot say) and ``neighboured`` over these; ``within_8`` and
        ``regret``, the mean share of speed that the chosen draft length loses, over these as well.

    References
    ----------
    specbundle

    Examples
    --------
    >>> bench_yardsticks()["rule"].unique(maintain_order=True).to_list()
    ['specbook', 'regression', "a neighbour's share"]
    """
    rows = comparable(_ENGINE)
    neighbours = neighbours_speedups(rows)
    has = np.isfinite(neighbours)
    table = []
    for rule in ("specbook", "regression"):
        for left_out in LEFT_OUT:
            groups = rows.groups(left_out)
            if rule == "specbook":
                predicted = left_out_speedups(rows.passes, rows.speedups, groups, KNOWN[_ENGINE])
            else:
                predicted = regressed_speedups(rows, groups)
            table.append({"rule": rule, "left_out": left_out, **_scores(rows, predicted, has)})
    table.append({"rule": "a neighbour's share", "left_out": "series", **_scores(rows, neighbours, has)})
    return pl.DataFrame(table)


def _scores(rows: Comparable, predicted: Floats, has: Any) -> dict[str, Any]:
    size = np.abs(predicted / rows.speedups - 1.0)
    choices = pl.DataFrame(
        {name: [getattr(each.row, name) for each in rows.found] for name in CHOICE}
        | {
            "draft_length": [each.depth for each in rows.found],
            "measured_speedup": rows.speedups,
            "predicted_speedup": predicted,
            "error": predicted / rows.speedups - 1.0,
        }
    )
    return {
        "n_rows": size.size,
        "median": float(np.median(size)) if has.all() or np.isfinite(size).all() else None,
        "n_neighboured": int(has.sum()),
        "neighboured": float(np.median(size[has])),
        "within_8": float((size[has] <= GATE).mean()),
        "regret": float(best_draft_lengths(choices.filter(pl.Series(has)))["regret"].to_numpy().mean()),
    }
