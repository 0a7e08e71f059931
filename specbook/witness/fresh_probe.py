"""After a failure: the probe once more, and what the replay would say with it."""

from __future__ import annotations

import numpy as np

from specbook.witness.attribution import measured_cost, replayed_cost, terms_of
from specbook.witness.clock import Clock
from specbook.witness.config import Configuration
from specbook.witness.execution import run_job
from specbook.witness.observation import Decoder, Observation
from specbook.witness.replay import Replay, probe_rounds, replay
from specbook.witness.result import FreshProbe
from specbook.witness.trace import Trace


def probe_again(
    configuration: Configuration,
    observation: Observation,
    trace: Trace,
    before: Replay,
    decoder: Decoder,
    clock: Clock,
    rng: np.random.Generator,
) -> FreshProbe:
    """Run the probe jobs of a configuration again, and replay the run with their step times.

    Parameters
    ----------
    configuration : Configuration
        Which failed.
    observation : Observation
    trace : tuple of RequestTrace
    before : Replay
        With the first probe.
    decoder : Decoder
    clock : Clock
    rng : Generator
        Of the resampling.

    Notes
    -----
    The run is not measured again and the verdict stays. A machine that changed while it ran is told from a model that
    composes wrongly: with the former the second probe misses by another amount, with the latter by the same.
    """
    jobs = [probe.job for probe in observation.of("probe", configuration)]
    probes = probe_rounds([run_job(job, decoder.rounds(job), order, clock) for order, job in enumerate(jobs)])
    runs = observation.of("speculative", configuration)
    again = replay(trace, configuration.shape.depth, np.array([run.tpot_s for run in runs]), probes, rng)
    return FreshProbe(
        error_before=before.error,
        error_after=again.error,
        terms=terms_of(replayed_cost(runs, probes, again.table), measured_cost(runs)),
    )
