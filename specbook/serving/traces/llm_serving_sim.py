"""LLMServingSim's workloads (llmservingsim2024), one JSON object a line: nanoseconds; the tokens are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbook.serving.traces.values import Row, ticks, tokens

NAME = "llm-serving-sim"
SYNTAX = "objects"
FIELDS = ("arrival_time_ns", "input_toks", "output_toks")
TICKS_PER_S = 10**9


def row(values: Sequence[Any]) -> Row:
    """One request."""
    arrival_ns, prompt, output = values
    return ticks(arrival_ns, FIELDS[0]), tokens(prompt, FIELDS[1]), tokens(output, FIELDS[2])
