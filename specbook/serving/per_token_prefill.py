"""Prompts at so much a token, for where nobody measured more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from specbook.checks import check_positive


@dataclass(frozen=True, kw_only=True)
class PerTokenPrefill:
    """A pass that costs so much for each position and nothing else; a ``StepTime`` for prompts nobody measured.

    Attributes
    ----------
    seconds_per_token : float

    Raises
    ------
    ValueError
        If it is not above 0.

    Examples
    --------
    >>> print(PerTokenPrefill(seconds_per_token=2e-5)(512, 1, [0, 4096]))
    [0.01024 0.01024]
    """

    seconds_per_token: float
    kind: str = field(default="per token", init=False)
    overhead_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        check_positive("seconds_per_token", self.seconds_per_token)

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = np) -> Any:
        """Seconds of one forward pass, broadcast over the arguments."""
        return self.seconds_per_token * xp.multiply(tokens, batch) + 0.0 * xp.asarray(context)
