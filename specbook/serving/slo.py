"""What users are promised, and which requests got it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from specbook.checks import BadInput, check_positive


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Limits on the latency of one request; None where nothing is promised.

    Attributes
    ----------
    ttft_s, tpot_s, e2e_s : float or None
        Time to first token, time per output token after it, time of the whole request.
    percentile : int
        Of the requests that have to keep each limit, for the gate: 50, 90 or 99.

    Raises
    ------
    ValueError
        If a limit is not positive.
    BadInput
        If the percentile is not one that is reported.

    Examples
    --------
    >>> Slo(ttft_s=2.0, tpot_s=0.05).limits
    {'ttft_s': 2.0, 'tpot_s': 0.05}
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    percentile: int = 90

    def __post_init__(self) -> None:
        for name, limit in self.limits.items():
            check_positive(name, limit)
        if self.percentile not in (50, 90, 99):
            raise BadInput("is not reported", field="percentile", value=self.percentile, remedy="one of 50, 90, 99")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that there are, by latency."""
        limits = {"ttft_s": self.ttft_s, "tpot_s": self.tpot_s, "e2e_s": self.e2e_s}
        return {name: limit for name, limit in limits.items() if limit is not None}


def latencies() -> dict[str, pl.Expr]:
    """Expressions of the latencies of a request, by name, over the columns of ``requests.parquet``.

    TPOT is null for a request of one token, which has no time between tokens.
    """
    after_first = pl.col("end_s") - pl.col("first_token_s")
    return {
        "ttft_s": pl.col("first_token_s") - pl.col("arrival_s"),
        "tpot_s": pl.when(pl.col("output_tokens") > 1).then(after_first / (pl.col("output_tokens") - 1)),
        "e2e_s": pl.col("end_s") - pl.col("arrival_s"),
        "wait_s": pl.col("scheduled_s") - pl.col("arrival_s"),
    }


def keeps(slo: Slo) -> pl.Expr:
    """Whether a request kept every limit; one without a latency keeps its limit."""
    known = latencies()
    return pl.all_horizontal(
        pl.col("end_s").is_not_null(),
        *((known[name] <= limit).fill_null(value=True) for name, limit in slo.limits.items()),
    )
