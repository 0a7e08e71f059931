"""Rows of a run: one a job, and one a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from specbook.witness.execution import JobRun

REQUESTS: dict[str, Any] = {
    "configuration": pl.String,
    "domain": pl.String,
    "prompt": pl.String,
    "temperature": pl.Float64,
    "kind": pl.String,
    "order": pl.Int32,
    "ttft_s": pl.Float64,
    "tpot_s": pl.Float64,
    "n_tokens": pl.Int32,
    "n_rounds": pl.Int32,
    "n_drafted": pl.Int32,
    "n_accepted": pl.Int32,
    "processor_s": pl.Float64,
}
ROUNDS: dict[str, Any] = {
    "configuration": pl.String,
    "prompt": pl.String,
    "kind": pl.String,
    "order": pl.Int32,
    "round": pl.Int32,
    "drafted": pl.Int32,
    "depth": pl.Int32,
    "accepted": pl.Int32,
    "emitted": pl.Int32,
    "period_s": pl.Float64,
    "draft_s": pl.Float64,
    "verify_s": pl.Float64,
    "accept_s": pl.Float64,
}


def requests_frame(runs: Sequence[JobRun]) -> pl.DataFrame:
    """One row a job, in the order in which they were done.

    Returns
    -------
    DataFrame
        configuration (null without drafts: such a job serves all configurations of its prompt and temperature), domain,
        prompt, temperature, kind, order, ttft_s, tpot_s, n_tokens, n_rounds, n_drafted, n_accepted (as verified, those
        of a last round that was cut included), processor_s.
    """
    rows = [
        (
            _name(run),
            run.job.prompt.domain,
            run.job.prompt.identifier,
            run.job.temperature,
            run.job.kind,
            run.order,
            run.ttft_s,
            run.tpot_s,
            len(run.tokens),
            len(run.records),
            sum(record.drafted for record in run.records),
            sum(record.accepted for record in run.records),
            run.processor_s,
        )
        for run in sorted(runs, key=lambda run: run.order)
    ]
    return pl.DataFrame(rows, schema=REQUESTS, orient="row")


def rounds_frame(runs: Sequence[JobRun]) -> pl.DataFrame:
    """One row a round, in the order in which they were run.

    Returns
    -------
    DataFrame
        configuration, prompt, kind, order (of the job), round (from 0), drafted, depth, accepted, emitted, period_s
        (from the end of the round before by the witness's clock; the first one from the start of the job), and draft_s,
        verify_s and accept_s by the engine's.
    """
    rows = [row for run in sorted(runs, key=lambda run: run.order) for row in _rounds(run)]
    return pl.DataFrame(rows, schema=ROUNDS, orient="row")


def _rounds(run: JobRun) -> Iterator[tuple[Any, ...]]:
    for number, (record, period_s) in enumerate(zip(run.records, run.periods_s.tolist(), strict=True)):
        yield (
            _name(run),
            run.job.prompt.identifier,
            run.job.kind,
            run.order,
            number,
            record.drafted,
            record.depth,
            record.accepted,
            record.emitted,
            period_s,
            record.draft_s,
            record.verify_s,
            record.accept_s,
        )


def _name(run: JobRun) -> str | None:
    return None if run.job.configuration is None else run.job.configuration.name
