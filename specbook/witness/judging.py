"""What was observed of one configuration as a result: both predictions, the tokens, the verdict, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbook.checks import Floats
from specbook.witness.attribution import RoundCost, blame_text, measured_cost, replayed_cost, terms_of
from specbook.witness.clock import Clock
from specbook.witness.config import Configuration
from specbook.witness.execution import JobRun
from specbook.witness.forecast import Beforehand, Witnessed, forecast
from specbook.witness.fresh_probe import probe_again
from specbook.witness.observation import Decoder, Observation
from specbook.witness.parity import parity_of
from specbook.witness.replay import probe_rounds, replay
from specbook.witness.result import ConfigurationResult, Control, Forecast
from specbook.witness.statistics import interval_of, p90_of, resamples
from specbook.witness.trace import Trace, request_trace
from specbook.witness.verdict import judge_replay


def configuration_result(
    configuration: Configuration,
    observation: Observation,
    control: Control,
    known: Beforehand | None,
    decoder: Decoder,
    clock: Clock,
    rng: np.random.Generator,
) -> ConfigurationResult:
    """Judge a configuration; after a failure of the replay, probe again.

    Parameters
    ----------
    configuration : Configuration
    observation : Observation
    control : Control
    known : Beforehand or None
        None where nothing is forecast.
    decoder : Decoder
    clock : Clock
        For the fresh probe.
    rng : Generator
        Of all resampling.
    """
    replaying, comparing, forecasting, probing = rng.spawn(4)
    requests = _Requests.of(configuration, observation, decoder)
    probes = probe_rounds(observation.of("probe", configuration))
    replayed = replay(requests.trace, configuration.shape.depth, requests.tpot_s, probes, replaying)
    parity = parity_of(requests.runs, {run.job.prompt.identifier: run for run in requests.alone})
    cost = measured_cost(requests.runs)
    terms = terms_of(replayed_cost(requests.runs, probes, replayed.table), cost)
    verdict, reasons = judge_replay(replayed, control, parity)
    is_off = verdict == "fail" and parity.is_equal
    fresh = (
        probe_again(configuration, observation, requests.trace, replayed, decoder, clock, probing) if is_off else None
    )
    speedup, speedup_low, speedup_high = speedup_of(requests.alone_tpot_s, requests.tpot_s, comparing)
    return ConfigurationResult(
        configuration=configuration,
        replay=replayed,
        autoregressive=p90_of(requests.alone_tpot_s, comparing),
        speedup=speedup,
        speedup_low=speedup_low,
        speedup_high=speedup_high,
        forecast=None if known is None else _forecast(known, configuration, requests, cost, forecasting),
        parity=parity,
        verdict=verdict,
        reasons=(*reasons, blame_text(terms)) if is_off else reasons,
        terms=terms,
        fresh_probe=fresh,
    )


@dataclass(frozen=True, kw_only=True)
class _Requests:
    """Requests of a configuration, the same prompts without drafts, and the trace."""

    runs: list[JobRun]
    alone: list[JobRun]
    trace: Trace

    @classmethod
    def of(cls, configuration: Configuration, observation: Observation, decoder: Decoder) -> _Requests:
        runs = observation.of("speculative", configuration)
        by_prompt = {run.job.prompt.identifier: run for run in observation.of("autoregressive", configuration)}
        return cls(
            runs=runs,
            alone=[by_prompt[run.job.prompt.identifier] for run in runs],
            trace=tuple(request_trace(run.records, decoder.prompt_tokens(run.job)) for run in runs),
        )

    @property
    def tpot_s(self) -> Floats:
        return np.array([run.tpot_s for run in self.runs])

    @property
    def alone_tpot_s(self) -> Floats:
        return np.array([run.tpot_s for run in self.alone])


def speedup_of(alone_tpot_s: Floats, tpot_s: Floats, rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean seconds per token without ÷ with drafts, and a 95 % interval over requests.

    Parameters
    ----------
    alone_tpot_s, tpot_s : (n_requests,) ndarray of float64
        Of the same prompts, which are drawn again together.
    rng : Generator

    Examples
    --------
    >>> speedup_of(np.array([0.02, 0.02]), np.array([0.01, 0.01]), np.random.default_rng(0))
    (2.0, 2.0, 2.0)
    """
    chosen = resamples(tpot_s.size, rng)
    value = float(alone_tpot_s.mean() / tpot_s.mean())
    return value, *interval_of(value, alone_tpot_s[chosen].mean(axis=1) / tpot_s[chosen].mean(axis=1), tpot_s.size)


def _forecast(
    known: Beforehand, configuration: Configuration, requests: _Requests, cost: RoundCost, rng: np.random.Generator
) -> Forecast:
    witnessed = Witnessed(
        prompt_tokens=np.array([request.prompt_tokens for request in requests.trace]),
        n_tokens=requests.trace[0].n_tokens,
        tpot_s=requests.tpot_s,
        cost=cost,
    )
    return forecast(known, configuration.shape.depth, witnessed, rng)
