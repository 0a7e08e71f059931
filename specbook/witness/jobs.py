"""The jobs of a run, and the order in which they are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from specbook.measuring.prompts import Prompt
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.prompts import ChosenPrompts, choose_prompts

Kind = Literal["autoregressive", "speculative", "probe"]

# Rounds of a probe job, of which the first ones find cold caches and are left out.
PROBE_ROUNDS, COLD_ROUNDS = 16, 5
# Steps of a control block; the first ones are left out as well.
CONTROL_STEPS, COLD_STEPS = 88, 8
N_CONTROL_BLOCKS = 3

_ORDER = 101  # keeps the stream of the order apart from those of the prompts


@dataclass(frozen=True, kw_only=True)
class Job:
    """One text to decode, with the clock running.

    Attributes
    ----------
    kind : str
        ``autoregressive``, ``speculative``, or ``probe``: speculative, on another prompt, for so many rounds.
    configuration : Configuration or None
        None for an autoregressive job, which serves all configurations of its prompt and temperature.
    prompt : Prompt
    temperature : float
    number : int
        Of the prompt, for its seed: jobs of one prompt draw from the same streams.
    new_tokens : int
    max_rounds : int or None
        Decoding is left off after so many.
    """

    kind: Kind
    configuration: Configuration | None
    prompt: Prompt
    temperature: float
    number: int
    new_tokens: int
    max_rounds: int | None = None


def plan_jobs(config: WitnessConfig, prompts: Mapping[tuple[str, ...], ChosenPrompts]) -> list[Job]:
    """All jobs of a run in their shuffled order, without warm-up and control.

    Parameters
    ----------
    config : WitnessConfig
    prompts : mapping of tuple of str to ChosenPrompts
        By the domains of a configuration.

    Notes
    -----
    Randomised blocks: a block holds one request of every configuration, the same prompts without drafts, and a probe of
    every configuration where there are other prompts enough; jobs are shuffled within their block. A machine that
    drifts then meets requests and probes alike.
    """
    blocks: list[dict[tuple[object, ...], Job]] = [{} for _ in range(config.n_prompts)]
    alone: set[tuple[str, float]] = set()
    for configuration in config.configurations:
        chosen = prompts[configuration.domains]
        for number, prompt in enumerate(chosen.run):
            key = (prompt.identifier, configuration.temperature)
            if key not in alone:
                alone.add(key)
                blocks[number][key] = _job_alone(prompt, number, configuration.temperature, config.new_tokens)
            request = speculative_job(configuration, prompt, number, config.new_tokens)
            blocks[number]["run", configuration.name] = request
        probed = chosen.others[: config.n_prompts]
        for number, prompt in enumerate(probed):
            block = blocks[number * config.n_prompts // len(probed)]
            block["probe", configuration.name] = probe_job(configuration, prompt, number)
    rng = np.random.default_rng([config.seed, _ORDER])
    return [job for block in blocks for job in _shuffled(list(block.values()), rng)]


def _shuffled(jobs: Sequence[Job], rng: np.random.Generator) -> list[Job]:
    return [jobs[index] for index in rng.permutation(len(jobs))]


def prompts_of(config: WitnessConfig) -> dict[tuple[str, ...], ChosenPrompts]:
    """Prompts by the domains of the configurations; configurations of the same domains share theirs.

    Raises
    ------
    BadInput
        If a domain has too few.
    """
    return {each.domains: choose_prompts(each.domains, config.n_prompts, config.seed) for each in config.configurations}


def _job_alone(prompt: Prompt, number: int, temperature: float, new_tokens: int) -> Job:
    """A prompt without drafts."""
    return Job(
        kind="autoregressive",
        configuration=None,
        prompt=prompt,
        temperature=temperature,
        number=number,
        new_tokens=new_tokens,
    )


def speculative_job(configuration: Configuration, prompt: Prompt, number: int, new_tokens: int) -> Job:
    """A request of a configuration."""
    return Job(
        kind="speculative",
        configuration=configuration,
        prompt=prompt,
        temperature=configuration.temperature,
        number=number,
        new_tokens=new_tokens,
    )


def probe_job(configuration: Configuration, prompt: Prompt, number: int) -> Job:
    """So many rounds of a configuration on another prompt, however many tokens they give."""
    return Job(
        kind="probe",
        configuration=configuration,
        prompt=prompt,
        temperature=configuration.temperature,
        number=number,
        new_tokens=PROBE_ROUNDS * (configuration.shape.depth + 1),
        max_rounds=PROBE_ROUNDS,
    )


def warm_up_jobs(jobs: Iterable[Job]) -> list[Job]:
    """The first job of each kind and configuration once more: done before all others, and discarded."""
    first: dict[tuple[str, str | None], Job] = {}
    for job in jobs:
        name = None if job.configuration is None else job.configuration.name
        first.setdefault((job.kind, name), job)
    return [job for (kind, _), job in first.items() if kind != "probe"]


def control_job(jobs: Sequence[Job]) -> Job:
    """The text that is decoded without drafts before, amid and after the run."""
    first = min((job for job in jobs if job.kind == "autoregressive"), key=lambda job: job.prompt.identifier)
    return _job_alone(first.prompt, 0, 0.0, CONTROL_STEPS)


def n_steps(config: WitnessConfig, *, forecast: bool) -> int:
    """Steps that a run reports to its progress, before it starts.

    Parameters
    ----------
    config : WitnessConfig
    forecast : bool
        Whether a hardware profile is given, so that acceptance is measured beforehand.

    Examples
    --------
    >>> four = Configuration(name="four", drafter="small", draft_length=4)
    >>> n_steps(WitnessConfig(configurations=(four,)), forecast=True)
    65
    """
    prompts = prompts_of(config)
    jobs = plan_jobs(config, prompts)
    unknown = [each for each in config.configurations if each.acceptance is None]
    beforehand = sum(len(prompts[each.domains].others) for each in unknown) if forecast else 0
    return len(jobs) + len(warm_up_jobs(jobs)) + N_CONTROL_BLOCKS + beforehand
