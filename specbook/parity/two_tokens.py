"""The rule of acceptance on a vocabulary of two tokens, right and wrong, as formulas that the published page evaluates.

``p`` is the target's probability of token A and ``q`` the draft's. Each function gives the probability with which A
comes out of one drafted position.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def by_the_rule(p: Any, q: Any, xp: Any = np) -> Any:
    r"""Accept with ``min(1, p/q)``, else draw from the residual: the target's own law.

    Parameters
    ----------
    p, q : array_like of float, or expressions
        In [0, 1].
    xp : namespace
        Provides ``maximum`` and ``where``.

    Returns
    -------
    ndarray of float64, or an expression
        Equal to ``p``.

    Notes
    -----
    .. math:: \min(p, q) + |p - q| \, [p > q]

    References
    ----------
    leviathan2023

    Examples
    --------
    >>> print(by_the_rule(np.array([0.7]), np.array([0.4])).round(12))
    [0.7]
    """
    kept = p - xp.maximum(p - q, 0.0)
    rejected = xp.maximum(p - q, q - p)
    return kept + xp.where(p > q, rejected, 0.0)


def without_residual(p: Any, q: Any, xp: Any = np) -> Any:
    r"""Accept by the rule, but draw from the target's whole distribution after a rejection.

    Examples
    --------
    >>> print(without_residual(np.array([0.7]), np.array([0.4])).round(12))
    [0.61]
    """
    kept = p - xp.maximum(p - q, 0.0)
    return kept + xp.maximum(p - q, q - p) * p


def accepting_all(p: Any, q: Any, xp: Any = np) -> Any:  # noqa: ARG001  (all rules take the same arguments)
    """Keep every draft: the drafter's law.

    Examples
    --------
    >>> print(accepting_all(np.array([0.7]), np.array([0.4])))
    [0.4]
    """
    return q + 0.0


RULES = {
    "by the rule": by_the_rule,
    "residual forgotten": without_residual,
    "all accepted": accepting_all,
}
