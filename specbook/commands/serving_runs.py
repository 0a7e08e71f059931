"""Many runs of ``specbook simulate``: several draft lengths, several seeds, and no speculation beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specbook.checks import BadInput
from specbook.commands.option_names import in_one_line
from specbook.commands.output import working
from specbook.commands.scale_options import shared_work
from specbook.commands.serving_about import about_of
from specbook.commands.serving_options import MOST_IN_MEMORY, Load, load_of
from specbook.commands.serving_request import SimulationRequest, load_and_setup, setup_of

if TYPE_CHECKING:
    from specbook.serving.runs_file import ServingRunsFile
    from specbook.serving.serving_config import ServingConfig
    from specbook.serving.spread import ConfigurationSpread
    from specbook.serving_setup import ServingSetup


@dataclass(frozen=True, kw_only=True)
class RunsReport:
    """What many runs come to; ``skipped`` counts rows of the trace by reason, ``document`` is ``summary.json``."""

    configurations: tuple[ConfigurationSpread, ...]
    skipped: dict[str, int]
    document: ServingRunsFile

    @property
    def drafting_stays(self) -> bool:
        """Whether a configuration with drafts stays at every seed."""
        return any(each.drafts and each.stays for each in self.configurations)


def simulate_runs(
    request: SimulationRequest, draft_lengths: Sequence[int], seeds: Sequence[int], out: Path
) -> RunsReport:
    """Simulate each draft length with each seed, and write ``runs.parquet`` and ``summary.json`` into ``out``.

    Parameters
    ----------
    request : SimulationRequest
        With the longest of the draft lengths and the first of the seeds.
    draft_lengths : sequence of int
        Rising; with more than one, and under ``compare``, no speculation runs beside them. Empty or one: as the request
        says it.
    seeds : sequence of int
    out : Path

    Raises
    ------
    BadInput
        If an option is missing or contradicts another, a file cannot be used, or a request can never run. Nothing is
        written then.
    """
    from specbook.serving.many import simulate_many
    from specbook.serving.runs_file import runs_document, write_runs
    from specbook.serving.spread import spread_over_seeds

    with in_one_line("specbook simulate"):
        loads = _loads(request, seeds)
        longest = max(loads.values(), key=lambda load: load.longest_tokens)
        setups = _setups(request, draft_lengths, longest)
        configs = _configs(request, draft_lengths, setups)
        about = about_of(request, setups[-1], longest) | _said_of_all(setups, draft_lengths, longest)
    total = sum(load.n_requests for load in loads.values()) * len(configs)
    with shared_work(request.jobs, request.cluster) as executor, working("simulating", total) as progress:
        runs = simulate_many(
            configs,
            lambda seed: loads[seed].whole(),
            seeds=seeds,
            slo=request.slo if request.slo.limits else None,
            loop=longest.loop,
            executor=executor,
            progress=progress,
        )
    configurations = spread_over_seeds(runs, request.slo.percentile)
    document = runs_document(about, seeds, configurations)
    write_runs(runs, document, out)
    return RunsReport(configurations=configurations, skipped=longest.skipped, document=document)


def _loads(request: SimulationRequest, seeds: Sequence[int]) -> dict[int, Load]:
    """The load of each seed: one trace for all of them, or what each one draws."""
    if request.stream:
        remedy = "leave it out, or give one seed and one draft length"
        raise BadInput("writes rows, which many runs do not", field="--stream", remedy=remedy)
    first, _ = load_and_setup(request)
    if first.n_requests > MOST_IN_MEMORY:
        remedy = f"take at most {MOST_IN_MEMORY:,}, with --first or --requests, or one seed and one draft length"
        raise BadInput("is too long for many runs", field="load", value=f"{first.n_requests:,} requests", remedy=remedy)
    if request.load.trace is not None:
        return dict.fromkeys(seeds, first)
    return {seed: first if seed == request.seed else load_of(request.load, seed) for seed in seeds}


def _setups(request: SimulationRequest, draft_lengths: Sequence[int], longest: Load) -> list[ServingSetup]:
    """The engine of each draft length, for the longest request of all seeds."""
    from specbook.serving_setup import drafts_from

    evidence = [request.evidence]
    if len(draft_lengths) > 1:
        evidence = [replace(request.evidence, draft_length=length) for length in draft_lengths]
    return [setup_of(request, drafts_from(each), longest) for each in evidence]


def _configs(
    request: SimulationRequest, draft_lengths: Sequence[int], setups: Sequence[ServingSetup]
) -> dict[str, ServingConfig]:
    from specbook.serving.draft_policy import policy_in_words

    beside = [setups[-1].baseline] if request.compare or len(draft_lengths) > 1 else []
    configs: dict[str, ServingConfig] = {}
    for config in (*beside, *(setup.config for setup in setups)):
        configs.setdefault(policy_in_words(config.policy), config)
    return configs


def _said_of_all(setups: Sequence[ServingSetup], draft_lengths: Sequence[int], load: Load) -> dict[str, Any]:
    """Assumptions and notes of every draft length, each once."""
    assumptions = [text for setup in setups for text in setup.assumptions]
    notes = [text for setup in setups for text in setup.notes]
    blocks = setups[-1].kv_text
    if len({setup.kv_text for setup in setups}) > 1:
        blocks = f"K = {draft_lengths[-1]}: {blocks}"
    return {
        "assumptions": list(dict.fromkeys(assumptions)),
        "notes": list(dict.fromkeys([blocks, *notes, *load.notes])),
    }
