"""Results of witnesses that nobody ran: figures chosen by a test, everything else consistent with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from specbook.acceptance.profile import profile_from_counts
from specbook.witness.attribution import blame_text
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.frames import REQUESTS, ROUNDS
from specbook.witness.jobs import prompts_of
from specbook.witness.period_table import PeriodTable
from specbook.witness.replay import Replay
from specbook.witness.result import (
    ConfigurationResult,
    Control,
    ControlBlock,
    Engine,
    Forecast,
    FreshProbe,
    Parity,
    Term,
    WitnessResult,
)
from specbook.witness.statistics import P90, percentile_90
from specbook.witness.verdict import judge_replay

MEASURED_S = np.array([0.008, 0.009, 0.01, 0.012])
ALONE_S = np.array([0.013, 0.0132, 0.0131, 0.0135])
MEAN_S = float(MEASURED_S.mean())
ENGINE = Engine(
    specbook_version="0.1.0",
    arithmetic="fast",
    replication=8,
    blas_kernel="Haswell",
    n_threads=1,
    host={"system": "Linux", "machine": "x86_64", "processor": "Model T", "cores": "2", "memory": "8 GiB"},
    weights_sha256={"target": "a" * 64, "draft": "b" * 64},
)


def terms(error: float) -> tuple[Term, ...]:
    """Of a mean that is so far off, all of it in the verify pass."""
    predicted_s = (1.0 + error) * MEAN_S
    return (
        Term(name="verify", predicted_s=(0.8 + error) * MEAN_S, measured_s=0.8 * MEAN_S),
        Term(name="draft", predicted_s=0.15 * MEAN_S, measured_s=0.15 * MEAN_S),
        Term(name="acceptance", predicted_s=predicted_s, measured_s=predicted_s),
        Term(name="overhead", predicted_s=0.05 * MEAN_S, measured_s=0.05 * MEAN_S),
    )


def control(reason: str | None = None) -> Control:
    """A quiet machine, or one that says why it was not."""
    blocks = tuple(
        ControlBlock(when=when, mean_s=0.0131, median_s=0.013, p90_s=0.0145, processor_share=0.999)
        for when in ("before", "middle", "after")
    )
    return Control(blocks=blocks, load_average=1.0, reasons=() if reason is None else (reason,))


def parity(*, equal: bool = True, temperature: float = 0.0) -> Parity:
    """Of four requests of 64 tokens."""
    if temperature:
        return Parity(n_requests=0, n_tokens=0, n_equal_tokens=0, first_difference=None, why_not="tokens are drawn")
    if equal:
        return Parity(n_requests=4, n_tokens=256, n_equal_tokens=256, first_difference=None, why_not=None)
    difference = "code-001: token 9 is 5 with drafts, 6 without"
    return Parity(n_requests=4, n_tokens=256, n_equal_tokens=200, first_difference=difference, why_not=None)


def p90(values: Any) -> P90:
    """Of values, with an interval of five percent to either side."""
    value_s = percentile_90(values)
    return P90(value_s=value_s, low_s=0.95 * value_s, high_s=1.05 * value_s, n=len(values))


def replay(error: float) -> Replay:
    """A replay that is so far off in every request."""
    simulated_s = (1.0 + error) * MEASURED_S
    table = PeriodTable(positions=np.array([5]), seconds=np.array([0.02]), slope_s=0.0)
    found = percentile_90(simulated_s) / percentile_90(MEASURED_S) - 1.0
    return Replay(
        predicted=p90(simulated_s),
        measured=p90(MEASURED_S),
        tpot_s=simulated_s,
        table=table,
        error=found,
        error_low=found - 0.01,
        error_high=found + 0.01,
    )


def forecast(error: float) -> Forecast:
    """A forecast that is so far off."""
    value_s = (1.0 + error) * percentile_90(MEASURED_S)
    found = value_s / percentile_90(MEASURED_S) - 1.0
    return Forecast(
        predicted=P90(value_s=value_s, low_s=0.9 * value_s, high_s=1.1 * value_s, n=2000),
        error=found,
        error_low=found - 0.05,
        error_high=found + 0.05,
        speedup=1.4,
        terms=terms(error),
        hardware="model-t",
        step_time_kind="calibrated, fitted to a probe",
        acceptance=profile_from_counts({4: [3, 2, 2, 1, 4]}, draft_length=4, target="specbook-target"),
    )


def configuration_result(
    configuration: Configuration, error: float, machine: Control, *, equal: bool = True, forecast_error: float | None
) -> ConfigurationResult:
    """A configuration whose replay is so far off."""
    found, tokens = replay(error), parity(equal=equal, temperature=configuration.temperature)
    verdict, reasons = judge_replay(found, machine, tokens)
    is_off = verdict == "fail" and equal
    speedup = float(ALONE_S.sum() / MEASURED_S.sum())
    return ConfigurationResult(
        configuration=configuration,
        replay=found,
        autoregressive=p90(ALONE_S),
        speedup=speedup,
        speedup_low=speedup - 0.1,
        speedup_high=speedup + 0.1,
        forecast=None if forecast_error is None else forecast(forecast_error),
        parity=tokens,
        verdict=verdict,
        reasons=(*reasons, blame_text(terms(error))) if is_off else reasons,
        terms=terms(error),
        fresh_probe=FreshProbe(error_before=found.error, error_after=0.01, terms=terms(0.01)) if is_off else None,
    )


def witness_result(
    *errors: float,
    reason: str | None = None,
    equal: bool = True,
    temperature: float = 0.0,
    forecast_error: float | None = -0.06,
) -> WitnessResult:
    """A run of one configuration for each error of the replay, on four prompts.

    Parameters
    ----------
    *errors : float
        0.01 alone if none is given.
    reason : str or None
        Why the machine was not quiet.
    equal : bool
        Whether greedy tokens are those without drafts.
    temperature : float
    forecast_error : float or None
        None for a run without hardware profile.
    """
    wanted = tuple(
        Configuration(name=f"chain {length}", drafter="small", draft_length=length, temperature=temperature)
        for length in range(4, 4 + len(errors or (0.01,)))
    )
    config = WitnessConfig(configurations=wanted, n_prompts=len(MEASURED_S))
    machine = control(reason)
    results = tuple(
        configuration_result(each, error, machine, equal=equal, forecast_error=forecast_error)
        for each, error in zip(wanted, errors or (0.01,), strict=True)
    )
    return WitnessResult(
        config=config,
        engine=ENGINE,
        control=machine,
        results=results,
        requests=_requests(config),
        rounds=pl.DataFrame(schema=ROUNDS),
        elapsed_s=31.5,
    )


def _requests(config: WitnessConfig) -> pl.DataFrame:
    """Jobs of all configurations, in another order than that of the prompts."""
    rows = []
    for configuration in (None, *config.configurations):
        temperature = config.configurations[0].temperature
        prompts = prompts_of(config)["code",].run
        tpot_s = ALONE_S if configuration is None else MEASURED_S
        for prompt, seconds in zip(prompts, tpot_s.tolist(), strict=True):
            name, kind = (None, "autoregressive") if configuration is None else (configuration.name, "speculative")
            counts = (64, 63, 0, 0) if configuration is None else (64, 20, 80, 44)
            rows.append((name, "code", prompt.identifier, temperature, kind, 0, 0.02, seconds, *counts, 0.5))
    frame = pl.DataFrame(rows, schema=REQUESTS, orient="row")
    return frame.reverse().with_columns(order=pl.int_range(pl.len(), dtype=pl.Int32))
