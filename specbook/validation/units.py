"""The units in which people state speeds, and the total over all streams that each amounts to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from specbook.checks import BadInput

ACCEPTED = "tok/s total, tok/s per stream, ms/token"
_LONGEST_UNIT = 120
_PER_STREAM = re.compile(
    r"(?:/|\bper|\beach)[ -]?(?:stream|user|request|req|sequence|seq|client|query|slot)s?\b|\bsingle[ -]stream\b"
)
_TOTAL = re.compile(r"\b(?:total|aggregate|aggregated|(?:over )?(?:all )?(?:streams|users|requests)|system)\b")
_PERCENT = re.compile(r"[,;]?[^,;]*\bacc[a-z_]*[^,;]*(?:%|percent|pct)[^,;]*")
_NOISE = re.compile(
    r"\b(?:output|generated|generation|decode|decoding|mean|median|average|avg)\b|\b(?:over|across) \w+\b|[,;()\[\]]"
)
_RATE = re.compile(r"(?:tok|toks|tokens?|t)(?:/|per)s(?:ec(?:ond)?)?|tps")
_SCALE_OF_TIME = {"ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "s": 1.0, "second": 1.0, "seconds": 1.0}
_TIME = re.compile(
    r"(?P<per>ms|milliseconds?|s|seconds?)(?:/|per)(?:tok|tokens?)|(?:tpot|itl)(?P<after>ms|s)|(?P<before>ms|s)(?:tpot|itl)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedUnit:
    """What a number in a column of speeds means.

    Attributes
    ----------
    seconds_per_token : float or None
        Seconds that 1 stands for where the number is a time per token; None where it is a rate.
    is_per_stream : bool
        Whether it is the speed of one of the streams of a batch.
    says_total : bool
        Whether the unit says that it is the speed of all streams together.
    is_stated : bool
        Whether there is a unit; False for an empty cell, which is read as a total.
    acceptance_in_percent : bool
        Whether the unit says that the acceptance rate beside it is in percent.
    """

    seconds_per_token: float | None = None
    is_per_stream: bool = False
    says_total: bool = False
    is_stated: bool = True
    acceptance_in_percent: bool = False

    def total_tokens_per_s(self, value: float, batch: int | None) -> float:
        """Tokens per second over all streams of a batch.

        Raises
        ------
        BadInput
            If one stream's speed has no batch to be multiplied by.

        Examples
        --------
        >>> speed_unit("ms/token").total_tokens_per_s(20.0, 4)
        200.0
        """
        rate = value if self.seconds_per_token is None else 1.0 / (value * self.seconds_per_token)
        if not self.is_per_stream:
            return rate
        if batch is None:
            raise BadInput("is the speed of one stream, and the batch is missing", remedy="give the batch")
        return rate * batch


@lru_cache(maxsize=1024)
def speed_unit(text: str) -> SpeedUnit:
    """The unit that a cell names.

    Parameters
    ----------
    text : str
        "tok/s", "output tok/s total" and "tok/s, mean over prompts" are totals over the streams, as is an empty cell;
        "tok/s per stream", "tok/s per user" and "ms/token" are of one stream.

    Raises
    ------
    BadInput
        If it names none of these.

    Examples
    --------
    >>> speed_unit("output tok/s per user").is_per_stream
    True
    >>> speed_unit("tokens/min")
    Traceback (most recent call last):
        ...
    specbook.checks.BadInput: is no unit of speed that is known; one of tok/s total, tok/s per stream, ms/token
    """
    plain = " ".join(text.casefold().split())
    if len(plain) > _LONGEST_UNIT:
        raise BadInput("is no unit of speed that is known", remedy=f"one of {ACCEPTED}")
    rest = _PERCENT.sub("", plain)
    percent = rest != plain
    if not rest:
        return SpeedUnit(is_stated=False, acceptance_in_percent=percent)
    is_per_stream, is_total = _PER_STREAM.search(rest) is not None, _TOTAL.search(rest) is not None
    bare = re.sub(r"\s", "", _NOISE.sub(" ", _TOTAL.sub(" ", _PER_STREAM.sub(" ", rest))))
    time = _TIME.fullmatch(bare)
    if (is_per_stream or time is not None) and is_total:
        raise BadInput("says both one stream and a total", remedy=f"one of {ACCEPTED}")
    if time is not None:
        seconds = _SCALE_OF_TIME[next(name for name in time.groups() if name)]
        return SpeedUnit(seconds_per_token=seconds, is_per_stream=True, acceptance_in_percent=percent)
    if _RATE.fullmatch(bare) is None:
        raise BadInput("is no unit of speed that is known", remedy=f"one of {ACCEPTED}")
    return SpeedUnit(is_per_stream=is_per_stream, says_total=is_total, acceptance_in_percent=percent)
