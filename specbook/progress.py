"""How long work tells how far it is: a callable that receives the steps done since the last call."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int], None]


def silent(_: int) -> None:
    """Report no progress."""
