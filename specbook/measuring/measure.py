"""``specbook profile measure``: prompts through the native engine, rounds into a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from specbook import __version__
from specbook.acceptance.profile import AcceptanceProfile, Measurement, Provenance
from specbook.checks import BadInput
from specbook.engine.drafters.drafter import Drafter
from specbook.engine.threads import blas_description, blas_threads
from specbook.engine.transformer import Transformer
from specbook.measuring.profiles import profile_of_rounds
from specbook.measuring.rounds import MeasuringConfig, measure_rounds
from specbook.progress import Progress, silent


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is measured: a target, a drafter, and how they are called.

    Attributes
    ----------
    weights_sha256 : dict of str to str
        File → SHA-256 of all weights involved.
    cut : str or None
        How the drafter's cut is written, such as ``entropy:1.5``.
    replication : int
        The cost dial R of the target.
    """

    target: Transformer
    drafter: Drafter
    target_name: str
    drafter_name: str
    weights_sha256: dict[str, str]
    cut: str | None = None
    replication: int = 1


def measure_profile(
    subject: Subject,
    prompts: Sequence[tuple[str, Sequence[int]]],
    config: MeasuringConfig,
    *,
    domain: str | None = None,
    provenance: Sequence[Provenance] = (),
    n_threads: int = 1,
    progress: Progress = silent,
) -> AcceptanceProfile:
    """Measure acceptance on prompts.

    Parameters
    ----------
    subject : Subject
    prompts : sequence of (str, sequence of int)
        Name and token ids of each prompt.
    config : MeasuringConfig
    domain : str, optional
        What the prompts are about.
    provenance : sequence of Provenance
        Where they came from.
    n_threads : int
        BLAS threads, set inside the process and stated in the profile.
    progress : callable
        Receives prompts done since the last call.

    Returns
    -------
    AcceptanceProfile
        With counts, intervals over prompts, and how it was measured.

    Raises
    ------
    BadInput
        If there is no prompt.
    ValueError
        If a prompt cannot be continued, or the drafter has another vocabulary.
    """
    if not prompts:
        raise BadInput("no prompts", field="prompts", remedy="name a file that holds some")
    with blas_threads(n_threads):
        frame = measure_rounds(subject.target, subject.drafter, prompts, config, progress)
        blas = blas_description()
    labels = {
        "target": subject.target_name,
        "drafter": subject.drafter_name,
        "method": subject.drafter.method if config.shape.n_nodes else "none",
        "domain": domain,
        "temperature": config.sampling.temperature,
    }
    measurement = _measurement(subject, frame, config, blas, len(prompts))
    is_tree = not config.shape.is_chain
    return profile_of_rounds(frame, labels, is_tree=is_tree, measurement=measurement, provenance=provenance)


def _measurement(
    subject: Subject, frame: pl.DataFrame, config: MeasuringConfig, blas: dict[str, str | int], n_prompts: int
) -> Measurement:
    seconds = {name: float(np.median(frame[name].to_numpy())) for name in ("draft_s", "verify_s", "accept_s")}
    return Measurement(
        engine=f"specbook {__version__}",
        arithmetic=subject.target.arithmetic.name,
        blas=blas,
        seed=config.seed,
        n_prompts=n_prompts,
        max_new_tokens=config.max_new_tokens,
        n_new_tokens=int(frame["emitted"].sum()),
        top_k=config.sampling.top_k,
        top_p=config.sampling.top_p,
        parents=list(config.shape.parents),
        cut=subject.cut,
        replication=subject.replication,
        weights_sha256=subject.weights_sha256,
        **seconds,
    )
