"""Speedups by a model, or a variant of it, whose constants were fitted to all other groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbook.checks import Floats
from specbook.validation.constants import left_out_constants
from specbook.validation.passes import Passes
from specbook.validation.rounds import Model, modelled_speedups


def left_out_speedups(
    passes: Passes,
    speedups: Floats,
    groups: Sequence[str],
    known: Mapping[str, float] | None = None,
    *,
    model: Model = modelled_speedups,
    told: Sequence[bool] | None = None,
) -> Floats:
    """Speedup of each row by constants that were fitted to all groups but its own.

    Parameters
    ----------
    passes, speedups, groups, known, model, told
        As of :func:`~specbook.validation.constants.left_out_constants`.

    Returns
    -------
    (n,) ndarray of float64

    Raises
    ------
    BadInput
        If there is one group alone, or too few rows outside one.

    Examples
    --------
    >>> import numpy as np
    >>> from specbook.validation.published_errors import comparable
    >>> rows = comparable("sglang")
    >>> speedups = left_out_speedups(rows.passes, rows.speedups, rows.groups("series"))
    >>> bool(np.median(np.abs(speedups / rows.speedups - 1)) < 0.08)
    True
    """
    return model(passes, left_out_constants(passes, speedups, groups, known, model=model, told=told))
