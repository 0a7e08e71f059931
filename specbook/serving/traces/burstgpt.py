"""BurstGPT (burstgpt2024): seconds; columns by name, since older files have fewer. A failed request has no response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, ticks, tokens, tokens_back

NAME = "burstgpt"
SYNTAX = "table"
FIELDS = ("Timestamp", "Request tokens", "Response tokens")
TICKS_PER_S = 1


def row(values: Sequence[Any]) -> Row:
    """One request."""
    timestamp, request, response = values
    back = tokens_back(response, FIELDS[2])
    return ticks(timestamp, FIELDS[0]), tokens(request, FIELDS[1]), back
