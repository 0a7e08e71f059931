"""The forecast: what a user has beforehand, a hardware profile and an acceptance profile, against what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specbook.acceptance.intervals import standard_errors_to_ends
from specbook.acceptance.profile import AcceptanceProfile, Intervals
from specbook.checks import Floats
from specbook.hardware.profile import HardwareProfile
from specbook.serving.arrivals import ClosedLoop
from specbook.serving.draft_time import DraftTime, SteppedDraft
from specbook.serving.iteration_time import IterationTime
from specbook.serving.profile_laws import profile_laws
from specbook.serving.result import simulate_serving
from specbook.serving.round_law import RoundLaw
from specbook.serving.stepped_time import SteppedTime
from specbook.witness.attribution import RoundCost, terms_of
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.native_costs import native_drafter, native_rates, target_step
from specbook.witness.result import Forecast
from specbook.witness.statistics import N_REPLICATES, interval_of, p90_of_groups, percentile_90, resamples
from specbook.witness.trace import Integers, decode_seconds, later_rounds, law_of_counts, serving_config

# Requests that are simulated; runs of so many as were witnessed are drawn from them.
_N_SIMULATED = 2000
_LONGEST_DRAFT = 64


@dataclass(frozen=True, kw_only=True)
class ForecastTimes:
    """Step times that were known before the run.

    Attributes
    ----------
    hardware, kind : str
        Whose, and how they follow from what was measured of it.
    iteration_time : IterationTime
        Of the target.
    draft_time : DraftTime
    """

    hardware: str
    kind: str
    iteration_time: IterationTime
    draft_time: DraftTime


def forecast_times(
    configuration: Configuration, config: WitnessConfig, hardware: HardwareProfile, longest_prompt_tokens: int
) -> ForecastTimes:
    """Step times of the run's models by a calibrated hardware profile.

    Parameters
    ----------
    configuration : Configuration
    config : WitnessConfig
    hardware : HardwareProfile
        Of a machine that was probed with the native engine.
    longest_prompt_tokens : int

    Raises
    ------
    BadInput
        If the profile is of another engine or arithmetic, or the simulator cannot play the drafter.
    """
    rates = native_rates(hardware, config.arithmetic)
    drafter = native_drafter(configuration.drafter, rates, config.replication)
    longest_tokens = longest_prompt_tokens + config.new_tokens + configuration.shape.n_nodes + 1
    step = target_step(rates, config.replication)
    return ForecastTimes(
        hardware=hardware.name,
        kind=step.kind,
        iteration_time=SteppedTime(step=step, max_context_tokens=longest_tokens),
        draft_time=SteppedDraft(drafter=drafter, prefill_step=None, max_context_tokens=longest_tokens),
    )


def profile_law(profile: AcceptanceProfile, depth: int) -> RoundLaw:
    """The law of a round that a profile speaks for.

    Parameters
    ----------
    profile : AcceptanceProfile
    depth : int
        Draft passes of a round: K of a chain, or the depth of a tree.

    Raises
    ------
    BadInput
        If the profile speaks for no draft length.

    Examples
    --------
    >>> from specbook.acceptance.profile import profile_from_counts
    >>> profile_law(profile_from_counts({2: [2, 4, 4]}, draft_length=2), 2).expected_tokens
    2.2
    """
    table = profile.table()
    if table is not None:
        return law_of_counts(table, depth)
    laws = profile_laws([profile], max_draft_length=_LONGEST_DRAFT)
    return laws[max(laws)].law


@dataclass(frozen=True, kw_only=True)
class Beforehand:
    """What is known of a configuration before anything is timed."""

    times: ForecastTimes
    acceptance: AcceptanceProfile


@dataclass(frozen=True, kw_only=True)
class Witnessed:
    """What a forecast is held against.

    Attributes
    ----------
    prompt_tokens : (n_requests,) ndarray of int64
    n_tokens : int
        Of each answer.
    tpot_s : (n_requests,) ndarray of float64
    cost : RoundCost
    """

    prompt_tokens: Integers
    n_tokens: int
    tpot_s: Floats
    cost: RoundCost


def forecast(known: Beforehand, depth: int, witnessed: Witnessed, rng: np.random.Generator) -> Forecast:
    r"""Predict the P90 TPOT of a run from what was known before it, and compare.

    Parameters
    ----------
    known : Beforehand
    depth : int
        Draft passes of a round.
    witnessed : Witnessed
        Its prompts' lengths and the length of the answers are known beforehand; the rest is compared with.
    rng : Generator
        Of the simulation and the resampling.

    Notes
    -----
    Rounds of a request are drawn independently of each other. Requests differ by more than that, since prompts do:
    where the profile states an interval of its mean acceptance length over prompts, :func:`prompt_scatter` of it
    lengthens and shortens whole requests, by a factor of 1 in the mean. Without one, all prompts are taken to be alike,
    and P90 comes out too low.

    The interval of the error holds the scatter of the requests that were measured, and what is not known of the mean
    acceptance length τ where the profile says it: time goes as :math:`1 / \tau`.

    References
    ----------
    davison1997
    """
    profile, n_requests = known.acceptance, witnessed.tpot_s.size
    simulated = _simulated(known.times, profile, depth, witnessed, rng)
    predicted = p90_of_groups(simulated.tpot_s, n_requests, rng)
    drawn = np.quantile(witnessed.tpot_s[resamples(n_requests, rng)], 0.9, axis=1)
    drawn_error = predicted.value_s * _drawn_scale(profile, rng) / drawn - 1.0
    error = predicted.value_s / percentile_90(witnessed.tpot_s) - 1.0
    low, high = interval_of(error, drawn_error, n_requests)
    return Forecast(
        predicted=predicted,
        error=error,
        error_low=low,
        error_high=high,
        speedup=simulated.alone_tpot_s / float(simulated.tpot_s.mean()),
        terms=terms_of(simulated.cost, witnessed.cost),
        hardware=known.times.hardware,
        step_time_kind=known.times.kind,
        acceptance=profile,
    )


@dataclass(frozen=True, kw_only=True)
class _Simulated:
    """Seconds per token of many requests with drafts, the mean without, and what a round is made of."""

    tpot_s: Floats
    alone_tpot_s: float
    cost: RoundCost


def _simulated(
    times: ForecastTimes, profile: AcceptanceProfile, depth: int, witnessed: Witnessed, rng: np.random.Generator
) -> _Simulated:
    law = profile_law(profile, depth)
    prompt_tokens = np.resize(witnessed.prompt_tokens, _N_SIMULATED)
    first_tokens = 1 + law.outcomes(rng.random(_N_SIMULATED))[1]
    n_tokens = np.full(_N_SIMULATED, witnessed.n_tokens)
    config = serving_config(law, times.iteration_time, times.draft_time)
    workload = later_rounds(prompt_tokens, first_tokens, n_tokens)
    result = simulate_serving(config, workload, rng=rng, loop=ClosedLoop(n_clients=1))
    seconds, n_rounds, n_gaps = decode_seconds(result), int(result.requests["rounds"].sum()), n_tokens - 1
    middle_tokens = np.asarray(prompt_tokens + witnessed.n_tokens // 2)
    verify_s = _verify_s(times.iteration_time, law, middle_tokens)
    cost = RoundCost(
        rounds_per_token=n_rounds / int(n_gaps.sum()),
        verify_s=verify_s,
        draft_s=float(seconds.sum()) / n_rounds - verify_s,
        overhead_s=0.0,
    )
    sigma = prompt_scatter(profile, law)
    # With a mean of 1: tokens per round of all prompts together are the harmonic mean of those of each.
    scatter = np.exp(sigma * rng.standard_normal(_N_SIMULATED) - sigma**2 / 2.0)
    alone_s = float(times.iteration_time.decode_seconds(1, 1, middle_tokens).mean())
    return _Simulated(tpot_s=scatter * seconds / n_gaps, alone_tpot_s=alone_s, cost=cost)


def _verify_s(iteration_time: IterationTime, law: RoundLaw, context_tokens: Integers) -> float:
    """Mean seconds of the target's pass, over what a round drafts."""
    shares = np.bincount(law.drafted, weights=law.probability)
    return sum(
        float(share * iteration_time.decode_seconds(1, drafted + 1, context_tokens).mean())
        for drafted, share in enumerate(shares)
        if share
    )


def prompt_scatter(profile: AcceptanceProfile, law: RoundLaw) -> float:
    r"""Standard deviation of the logarithm of tokens per round from prompt to prompt, beyond that of their rounds.

    Parameters
    ----------
    profile : AcceptanceProfile
    law : RoundLaw
        Of its rounds.

    Returns
    -------
    float
        0 where the profile does not say, or its prompts scatter no more than their rounds do.

    Notes
    -----
    The standard error s of a logarithm of the mean over n prompts of m rounds each holds both,

    .. math:: s^2 = \frac{1}{n} \left(\sigma^2 + \frac{v}{m}\right)

    with the relative variance v of the tokens of a round, and is solved for :math:`\sigma`.

    References
    ----------
    davison1997, section 3.8
    """
    if profile.intervals is None or not profile.n_rounds:
        return 0.0
    n_prompts = profile.intervals.n_prompts
    tokens, shares = 1.0 + np.asarray(law.accepted, dtype=np.float64), np.asarray(law.probability)
    relative_variance = float(shares @ (tokens / law.expected_tokens - 1.0) ** 2)
    whole = n_prompts * _standard_error(profile.intervals) ** 2
    return math.sqrt(max(0.0, whole - relative_variance * n_prompts / profile.n_rounds))


def _standard_error(intervals: Intervals) -> float:
    """Of the logarithm of the mean acceptance length, from the ends of its interval."""
    low, high = intervals.mean_acceptance_length
    return math.log(high / low) / (2.0 * standard_errors_to_ends(intervals.n_prompts, intervals.level))


def _drawn_scale(profile: AcceptanceProfile, rng: np.random.Generator) -> Floats:
    """How much longer a run takes for what is not known of acceptance, one a replicate."""
    error = 0.0 if profile.intervals is None else _standard_error(profile.intervals)
    return np.exp(-error * rng.standard_normal(N_REPLICATES))
