"""Traces of Azure's LLM services of 2023 (patel2024), 2024 and 2025: instants, with a zone or without one.

Times are counted in whole nanoseconds, so that seven decimals after a date stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from specbook.serving.traces.values import Row, refusal, tokens

NAME = "azure-llm"
SYNTAX = "table"
FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TICKS_PER_S = 10**9

_INSTANT = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)"
    r"(?:\.(?P<decimals>\d{1,9}))?"
    r"(?:Z|(?P<sign>[+-])(?P<zone_hour>[01]\d|2[0-3]):?(?P<zone_minute>[0-5]\d))?",
    re.ASCII,
)


def row(values: Sequence[Any]) -> Row:
    """One request."""
    timestamp, context, generated = values
    return instant_ns(timestamp), tokens(context, FIELDS[1]), tokens(generated, FIELDS[2])


def instant_ns(timestamp: str) -> int:
    """Nanoseconds since the year 1; without a zone, as if it were UTC.

    Examples
    --------
    >>> later, earlier = instant_ns("2024-05-10 02:00:00.0000001+02:00"), instant_ns("2024-05-10 00:00:00Z")
    >>> later - earlier
    100
    """
    match = _INSTANT.fullmatch(timestamp.strip())
    if match is None:
        raise refusal("is no date and time", FIELDS[0], timestamp)
    day, hour, minute, second, decimals, sign, zone_hour, zone_minute = match.groups()
    try:
        days = date.fromisoformat(day).toordinal()
    except ValueError:
        raise refusal("is no date and time", FIELDS[0], timestamp) from None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
    if sign is not None:
        seconds -= int(f"{sign}1") * 60 * (60 * int(zone_hour) + int(zone_minute))
    return seconds * TICKS_PER_S + (int(decimals.ljust(9, "0")) if decimals else 0)
