"""Mooncake's traces (mooncake2025), one JSON object a line: milliseconds; the hashes of blocks are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, ticks, tokens

NAME = "mooncake"
SYNTAX = "objects"
FIELDS = ("timestamp", "input_length", "output_length")
TICKS_PER_S = 1000


def row(values: Sequence[Any]) -> Row:
    """One request."""
    timestamp, prompt, output = values
    return ticks(timestamp, FIELDS[0]), tokens(prompt, FIELDS[1]), tokens(output, FIELDS[2])
