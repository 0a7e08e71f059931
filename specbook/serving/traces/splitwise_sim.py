"""Traces of the simulator of Splitwise (patel2024): seconds; a row of a batch would be several requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, number, refusal, ticks, tokens

NAME = "splitwise-sim"
SYNTAX = "table"
FIELDS = ("arrival_timestamp", "prompt_size", "token_size", "batch_size")
TICKS_PER_S = 1


def row(values: Sequence[Any]) -> Row:
    """One request."""
    arrival, prompt, output, batch = values
    if number(batch, FIELDS[3]) != 1:
        raise refusal("is no single request", FIELDS[3], batch)
    return ticks(arrival, FIELDS[0]), tokens(prompt, FIELDS[1]), tokens(output, FIELDS[2])
