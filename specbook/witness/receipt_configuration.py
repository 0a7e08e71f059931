"""A configuration in a receipt: prediction, clock, verdict, and the requests that all of it follows from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import polars as pl
from pydantic import Field, model_validator

from specbook.files import model_sha256
from specbook.measuring.prompts import Prompt
from specbook.witness.receipt_checks import check_equal, check_parity, check_requests, check_terms, mean_tpot_s
from specbook.witness.receipt_parts import (
    ErrorRecord,
    Finite,
    ForecastRecord,
    FreshProbeRecord,
    Line,
    P90Record,
    ParityRecord,
    Part,
    RequestRecord,
    Size,
    SpeedupRecord,
    TermRecord,
    impossible,
)
from specbook.witness.result import ConfigurationResult, Verdict
from specbook.witness.statistics import percentile_90


@dataclass(frozen=True, kw_only=True)
class StatedError:
    """The error of a replay as a receipt states it; a :class:`~specbook.witness.verdict.Judged`."""

    error: float
    error_low: float
    error_high: float


class ConfigurationRecord(Part):
    """One way to speculate: what was predicted of it, what it did, and the verdict."""

    name: Line
    drafter: Line
    draft_length: Size | None = Field(description="K of a chain, or the depth of the drafter's own tree.")
    parents: list[int] | None = Field(description="Parent of each node of a tree; null without one.")
    cut: Line
    domains: list[Line] = Field(min_length=1)
    temperature: Finite
    verdict: Verdict
    reasons: list[Line] = Field(min_length=1, description="What the verdict follows from.")
    measured_p90_tpot_s: P90Record = Field(description="On the clock.")
    simulated_p90_tpot_s: P90Record = Field(description="The replay, which the gate judges.")
    error: ErrorRecord = Field(description="Of the replay: simulated ÷ measured − 1.")
    forecast: ForecastRecord | None = Field(description="Null without a hardware profile.")
    autoregressive_p90_tpot_s: P90Record = Field(description="Without drafts, same prompts, on the clock.")
    speedup: SpeedupRecord
    parity: ParityRecord
    attribution: list[TermRecord] = Field(description="Terms of the replay, seconds per token.")
    fresh_probe: FreshProbeRecord | None = Field(description="After a failure of the replay, else null.")
    requests: list[RequestRecord] = Field(min_length=2)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_follows(self)
        check_requests(self.requests, self.domains, _most_tokens(self))
        check_parity(self.parity, self.requests, self.temperature)
        _check_terms(self)
        return self

    @property
    def judged(self) -> StatedError:
        """What the verdict follows from, beside the machine and the tokens."""
        return StatedError(error=self.error.value, error_low=self.error.low, error_high=self.error.high)


def configuration_record(
    result: ConfigurationResult, prompts: Sequence[Prompt], requests: pl.DataFrame
) -> ConfigurationRecord:
    """What a receipt keeps of a configuration.

    Parameters
    ----------
    result : ConfigurationResult
    prompts : sequence of Prompt
        Of its requests, in the order in which they were chosen.
    requests : DataFrame
        Of the whole run, as :func:`~specbook.witness.frames.requests_frame` has them.
    """
    configuration, forecast = result.configuration, result.forecast
    return ConfigurationRecord(
        name=configuration.name,
        drafter=configuration.drafter,
        draft_length=configuration.draft_length,
        parents=None if configuration.parents is None else list(configuration.parents),
        cut=configuration.cut,
        domains=list(configuration.domains),
        temperature=configuration.temperature,
        verdict=result.verdict,
        reasons=list(result.reasons),
        measured_p90_tpot_s=P90Record.of(result.replay.measured),
        simulated_p90_tpot_s=P90Record.of(result.replay.predicted),
        error=ErrorRecord(value=result.replay.error, low=result.replay.error_low, high=result.replay.error_high),
        forecast=None
        if forecast is None
        else ForecastRecord.of(
            forecast, model_sha256(forecast.acceptance), measured_beforehand=configuration.acceptance is None
        ),
        autoregressive_p90_tpot_s=P90Record.of(result.autoregressive),
        speedup=SpeedupRecord(value=result.speedup, low=result.speedup_low, high=result.speedup_high),
        parity=ParityRecord.of(result.parity),
        attribution=[TermRecord.of(term) for term in result.terms],
        fresh_probe=None if result.fresh_probe is None else FreshProbeRecord.of(result.fresh_probe),
        requests=list(_requests(result, prompts, requests)),
    )


def _requests(result: ConfigurationResult, prompts: Sequence[Prompt], frame: pl.DataFrame) -> Iterator[RequestRecord]:
    """The requests of a configuration beside the same prompts without drafts, in the order of the replay."""
    configuration = result.configuration
    alone = frame.filter(pl.col("kind") == "autoregressive", pl.col("temperature") == configuration.temperature)
    alone_s = dict(alone.select("prompt", "tpot_s").iter_rows())
    drafted = frame.filter(pl.col("kind") == "speculative", pl.col("configuration") == configuration.name)
    rows = {row["prompt"]: row for row in drafted.iter_rows(named=True)}
    for prompt, simulated_s in zip(prompts, result.replay.tpot_s.tolist(), strict=True):
        row = rows[prompt.identifier]
        yield RequestRecord(
            prompt=prompt.identifier,
            domain=row["domain"],
            n_tokens=row["n_tokens"],
            n_rounds=row["n_rounds"],
            autoregressive_tpot_s=alone_s[prompt.identifier],
            measured_tpot_s=row["tpot_s"],
            simulated_tpot_s=simulated_s,
        )


def _check_follows(record: ConfigurationRecord) -> None:
    """Raise if a figure is not the one that the requests give."""
    stated = {
        "measured_p90_tpot_s": (record.measured_p90_tpot_s, [each.measured_tpot_s for each in record.requests]),
        "simulated_p90_tpot_s": (record.simulated_p90_tpot_s, [each.simulated_tpot_s for each in record.requests]),
        "autoregressive_p90_tpot_s": (
            record.autoregressive_p90_tpot_s,
            [each.autoregressive_tpot_s for each in record.requests],
        ),
    }
    for field, (p90, tpot_s) in stated.items():
        if p90.n != len(tpot_s):
            raise impossible(f"is of {p90.n} requests, and {len(tpot_s)} are listed", f"{field}.n", p90.n)
        check_equal(f"{field}.value", p90.value, percentile_90(tpot_s), "the 90th percentile of the requests")
    measured_s = record.measured_p90_tpot_s.value
    check_equal("error.value", record.error.value, record.simulated_p90_tpot_s.value / measured_s - 1.0, _RATIO)
    if record.forecast is not None:
        error = record.forecast.p90_tpot_s.value / measured_s - 1.0
        check_equal("forecast.error.value", record.forecast.error.value, error, _RATIO)
    alone_s, drafted_s = (sum(each[1]) for each in (stated["autoregressive_p90_tpot_s"], stated["measured_p90_tpot_s"]))
    check_equal("speedup.value", record.speedup.value, alone_s / drafted_s, "mean time without ÷ with drafts")


_RATIO = "predicted ÷ measured − 1"


def _most_tokens(record: ConfigurationRecord) -> int:
    """That a round gives: the longest draft, and the bonus token."""
    if (record.draft_length is None) == (record.parents is None):
        raise impossible("one of a draft length and a tree is to be given", "draft_length", record.draft_length)
    return 1 + (record.draft_length or len(record.parents or ()))


def _check_terms(record: ConfigurationRecord) -> None:
    """Raise if terms do not add up to the mean seconds per token, measured and in the replay."""
    requests = record.requests
    measured_s = mean_tpot_s(requests, [each.measured_tpot_s for each in requests])
    simulated_s = mean_tpot_s(requests, [each.simulated_tpot_s for each in requests])
    check_terms("attribution", record.attribution, measured_s, simulated_s)
    if record.forecast is not None:
        check_terms("forecast.attribution", record.forecast.attribution, measured_s)
    if record.fresh_probe is not None:
        before, meaning = record.fresh_probe.error_before, "the error that the verdict is of"
        check_equal("fresh_probe.error_before", before, record.error.value, meaning)
