"""How errors of the parts make the error of the whole: the formula behind a verdict, for numpy and for the page."""

from __future__ import annotations

from typing import Any


def composed_error(
    verify_error: Any, draft_error: Any, acceptance_error: Any, verify_share: Any, draft_share: Any
) -> Any:
    r"""Error of the mean seconds per token, from errors of its terms.

    Parameters
    ----------
    verify_error, draft_error, acceptance_error : array_like or expression
        Predicted ÷ measured − 1 of a verify pass, of a round's drafting, and of rounds per token.
    verify_share, draft_share : array_like or expression
        Shares of a measured round; what is left is overhead, predicted without error.

    Returns
    -------
    array_like or expression
        Predicted ÷ measured − 1.

    Notes
    -----
    .. math:: e = (1 + e_r)(1 + s_v e_v + s_d e_d) - 1

    since a token takes rounds per token times the seconds of a round.

    Examples
    --------
    >>> round(composed_error(0.10, -0.05, 0.0, 0.8, 0.15), 4)
    0.0725
    """
    return (1.0 + acceptance_error) * (1.0 + verify_share * verify_error + draft_share * draft_error) - 1.0
