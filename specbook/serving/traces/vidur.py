"""Vidur's processed traces (vidur2024): seconds since the first request; other columns do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, ticks, tokens

NAME = "vidur"
SYNTAX = "table"
FIELDS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
TICKS_PER_S = 1


def row(values: Sequence[Any]) -> Row:
    """One request."""
    arrived_at, prefill, decode = values
    return ticks(arrived_at, FIELDS[0]), tokens(prefill, FIELDS[1]), tokens(decode, FIELDS[2])
