"""The engine under test: the shipped target and the drafters of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from specbook.engine.decoding import DecodingConfig, Round, autoregressive, speculative
from specbook.engine.drafters.choice import NoCut, read_cut
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.library import load_target
from specbook.engine.library.drafters import shipped_drafter
from specbook.engine.sampling import SamplingConfig
from specbook.measuring.subjects import specbook_reader
from specbook.witness.config import Configuration, WitnessConfig
from specbook.witness.jobs import Job


class NativeEngine:
    """Decodes the jobs of a run.

    Parameters
    ----------
    config : WitnessConfig
    replication : int
        The cost dial R; another one than the run's decodes the same tokens but for rounding.

    Examples
    --------
    >>> from specbook.witness.jobs import plan_jobs, prompts_of
    >>> four = Configuration(name="four", drafter="small", draft_length=4)
    >>> config = WitnessConfig(configurations=(four,), new_tokens=8, replication=1)
    >>> job = plan_jobs(config, prompts_of(config))[0]
    >>> next(NativeEngine(config, replication=1).rounds(job)).finish is None
    True
    """

    def __init__(self, config: WitnessConfig, replication: int) -> None:
        self._seed = config.seed
        self.target = load_target(config.arithmetic, replication)
        self._drafters = {each.name: self._load(each) for each in config.configurations}
        self._reader = specbook_reader(own=True)

    def _load(self, configuration: Configuration) -> Drafter:
        cut = read_cut(configuration.cut)
        return shipped_drafter(configuration.drafter, self.target, None if isinstance(cut, NoCut) else cut)

    def prompt_tokens(self, job: Job) -> int:
        """Tokens of a job's prompt."""
        return len(self._reader.encode(job.prompt))

    def rounds(self, job: Job) -> Iterator[Round]:
        """Rounds of a job, none of which has begun."""
        tokens, decoding = self._reader.encode(job.prompt), self._decoding(job)
        if job.configuration is None:
            return autoregressive(self.target, tokens, decoding)
        drafter, shape = self._drafters[job.configuration.name], job.configuration.shape
        return speculative(self.target, drafter, tokens, decoding, shape)

    def _decoding(self, job: Job) -> DecodingConfig:
        seed = int(np.random.SeedSequence([self._seed, job.number]).generate_state(1)[0])
        sampling = SamplingConfig(temperature=job.temperature)
        # No token ends a text, so that all requests are equally long.
        return DecodingConfig(max_new_tokens=job.new_tokens, sampling=sampling, seed=seed)
