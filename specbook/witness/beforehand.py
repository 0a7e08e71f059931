"""Acceptance that a forecast may know: measured on prompts that are not in the run."""

from __future__ import annotations

from collections.abc import Sequence

from specbook.acceptance.profile import AcceptanceProfile
from specbook.measuring.measure import measure_profile
from specbook.measuring.prompts import Prompt
from specbook.measuring.rounds import MeasuringConfig
from specbook.measuring.subjects import specbook_reader, specbook_subject
from specbook.progress import Progress, silent
from specbook.witness.config import Configuration, WitnessConfig


def acceptance_beforehand(
    configuration: Configuration, config: WitnessConfig, others: Sequence[Prompt], progress: Progress = silent
) -> AcceptanceProfile:
    """The configuration's own profile, or one that is measured now.

    Parameters
    ----------
    configuration : Configuration
    config : WitnessConfig
    others : sequence of Prompt
        Of the same domains as the run's, none of them in it.
    progress : callable
        Called with 1 for each prompt that is measured.

    Notes
    -----
    The target is measured without its cost dial, which changes no token but by rounding. Requests of the run are not
    ended by a token either.
    """
    if configuration.acceptance is not None:
        return configuration.acceptance
    reader = specbook_reader(own=True)
    measuring = MeasuringConfig(
        shape=configuration.shape,
        sampling=configuration.sampling,
        max_new_tokens=config.new_tokens,
        seed=config.seed,
    )
    return measure_profile(
        specbook_subject(configuration.drafter, config.arithmetic, configuration.cut),
        [(prompt.identifier, reader.encode(prompt)) for prompt in others],
        measuring,
        domain="+".join(configuration.domains),
        progress=progress,
    )
