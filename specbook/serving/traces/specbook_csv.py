"""Our own table, for traces that no other format fits: ``arrival_s,prompt_tokens,output_tokens``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, ticks, tokens

NAME = "specbook-csv"
SYNTAX = "table"
FIELDS = ("arrival_s", "prompt_tokens", "output_tokens")
TICKS_PER_S = 1


def row(values: Sequence[Any]) -> Row:
    """One request."""
    arrival_s, prompt, output = values
    return ticks(arrival_s, FIELDS[0]), tokens(prompt, FIELDS[1]), tokens(output, FIELDS[2])
