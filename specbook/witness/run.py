"""Running a witness: acceptance beforehand, all jobs by the clock, then both predictions and the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specbook.engine.threads import blas_threads
from specbook.hardware.profile import HardwareProfile
from specbook.progress import Progress, silent
from specbook.witness.beforehand import acceptance_beforehand
from specbook.witness.clock import Clock, MachineClock
from specbook.witness.config import WitnessConfig
from specbook.witness.control import judge_control
from specbook.witness.forecast import Beforehand, forecast_times
from specbook.witness.frames import requests_frame, rounds_frame
from specbook.witness.identity import engine_identity
from specbook.witness.jobs import Job, plan_jobs, prompts_of
from specbook.witness.judging import configuration_result
from specbook.witness.observation import Decoder, observe
from specbook.witness.prompts import ChosenPrompts
from specbook.witness.result import WitnessResult
from specbook.witness.subject import NativeEngine

_RESAMPLING = 202  # keeps the stream of all resampling apart from those of prompts and order


def run_witness(
    config: WitnessConfig,
    *,
    hardware: HardwareProfile | None = None,
    clock: Clock | None = None,
    progress: Progress = silent,
) -> WitnessResult:
    """Decode with and without drafts on the native engine, and hold both predictions against the clock.

    Parameters
    ----------
    config : WitnessConfig
    hardware : HardwareProfile, optional
        Of this machine, probed with the native engine: for the forecast, which is left out without it.
    clock : Clock, optional
        The machine's own if not given.
    progress : callable
        Called with the steps done, of :func:`~specbook.witness.jobs.n_steps`.

    Returns
    -------
    WitnessResult

    Raises
    ------
    BadInput
        Before anything is decoded: if a domain has too few prompts, or the hardware profile cannot be used.

    Notes
    -----
    One BLAS thread, whatever the environment says: a second one makes steps ten times slower as soon as anything else
    runs. Other threads of the same process are the caller's business.

    References
    ----------
    davison1997

    Examples
    --------
    >>> from specbook.witness.config import Configuration
    >>> four = Configuration(name="four", drafter="small", draft_length=4)
    >>> tiny = WitnessConfig(configurations=(four,), replication=1, new_tokens=8, n_prompts=2)
    >>> result = run_witness(tiny)
    >>> result.results[0].parity.is_equal, result.results[0].forecast
    (True, None)
    """
    clock = clock or MachineClock()
    start_s = clock.now_s()
    prompts = prompts_of(config)
    jobs = plan_jobs(config, prompts)
    with blas_threads(1):
        decoder = NativeEngine(config, config.replication)
        known = {} if hardware is None else _known(config, hardware, decoder, jobs, prompts, progress)
        return witness(config, jobs, decoder, clock, known=known, start_s=start_s, progress=progress)


def _known(
    config: WitnessConfig,
    hardware: HardwareProfile,
    decoder: Decoder,
    jobs: Sequence[Job],
    prompts: Mapping[tuple[str, ...], ChosenPrompts],
    progress: Progress,
) -> dict[str, Beforehand]:
    """Step times of all configurations first, so that a profile that cannot be used is refused at once."""
    longest_tokens = max(map(decoder.prompt_tokens, jobs))
    times = [forecast_times(each, config, hardware, longest_tokens) for each in config.configurations]
    return {
        each.name: Beforehand(
            times=own, acceptance=acceptance_beforehand(each, config, prompts[each.domains].others, progress)
        )
        for each, own in zip(config.configurations, times, strict=True)
    }


def witness(
    config: WitnessConfig,
    jobs: Sequence[Job],
    decoder: Decoder,
    clock: Clock,
    *,
    known: Mapping[str, Beforehand],
    start_s: float,
    progress: Progress = silent,
) -> WitnessResult:
    """Do the jobs with any decoder and any clock, and judge.

    Parameters
    ----------
    config : WitnessConfig
    jobs : sequence of Job
        Of :func:`~specbook.witness.jobs.plan_jobs`.
    decoder : Decoder
    clock : Clock
    known : mapping of str to Beforehand
        By configuration; those that are missing have no forecast.
    start_s : float
        When the run began, by the clock.
    progress : callable
    """
    observation = observe(decoder, jobs, clock, progress)
    control = judge_control(observation.control, observation.runs, observation.running)
    results = tuple(
        configuration_result(
            each,
            observation,
            control,
            known.get(each.name),
            decoder,
            clock,
            np.random.default_rng([config.seed, _RESAMPLING, number]),
        )
        for number, each in enumerate(config.configurations)
    )
    return WitnessResult(
        config=config,
        engine=engine_identity(config),
        control=control,
        results=results,
        requests=requests_frame(observation.runs),
        rounds=rounds_frame(observation.runs),
        elapsed_s=clock.now_s() - start_s,
    )
