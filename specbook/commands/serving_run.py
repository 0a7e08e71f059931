"""One run of ``specbook simulate``: from options to rows, figures and the gate's verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from specbook.checks import BadInput
from specbook.commands.option_names import in_one_line
from specbook.commands.output import working
from specbook.commands.scale_options import is_shared, shared_work
from specbook.commands.serving_about import about_of
from specbook.commands.serving_options import MOST_IN_MEMORY, Load
from specbook.commands.serving_request import SimulationRequest, existing, load_and_setup

if TYPE_CHECKING:
    from specbook.progress import Progress
    from specbook.serving.gate import GateVerdict
    from specbook.serving.serving_config import ServingConfig
    from specbook.serving.slo import Slo
    from specbook.serving.summary import ServingSummary
    from specbook.serving_setup import ServingSetup


@dataclass(frozen=True, kw_only=True)
class SimulationReport:
    """What a run comes to; ``skipped`` counts rows of the trace by reason, ``document`` is ``summary.json``."""

    setup: ServingSetup
    summary: ServingSummary
    slo: Slo
    baseline: ServingSummary | None
    verdict: GateVerdict | None
    skipped: dict[str, int]
    trace_notes: tuple[str, ...]
    document: dict[str, Any]


def simulate(request: SimulationRequest, out: Path) -> SimulationReport:
    """Simulate, judge, and write ``requests.parquet``, ``iterations.parquet`` and ``summary.json`` into ``out``.

    Raises
    ------
    BadInput
        If an option is missing or contradicts another, a file cannot be used, or a request can never run. Nothing is
        written then.
    """
    from specbook import __version__
    from specbook.serving.gate import judge
    from specbook.serving.summary_file import serving_document

    with in_one_line("specbook simulate"):
        load, setup = load_and_setup(request)
        about = {
            "schema": "specbook-serving/1",
            "specbook_version": __version__,
            "seed": request.seed,
            **about_of(request, setup, load),
        }
        run = _run(request, load, setup.flops_per_token)
        _check_shared(request, load)
    total = load.n_requests * (2 if request.compare else 1)
    with shared_work(request.jobs, request.cluster) as executor, working("simulating", total) as progress:
        # First what is not kept, so that nothing is written before everything has run.
        begun = _baseline(request, load, setup, executor, progress) if executor is not None else None
        baseline = _figures(run, setup.baseline, out, progress) if request.compare and begun is None else None
        summary, write = run(setup.config, out, progress)
        baseline = baseline if begun is None else next(begun)
    verdict = None if baseline is None else judge(summary, baseline, request.slo)
    about["comparison"] = _comparison(setup, baseline, verdict)
    document = serving_document(about, summary)
    write(document)
    return SimulationReport(
        setup=setup,
        summary=summary,
        slo=request.slo,
        baseline=baseline,
        verdict=verdict,
        skipped=load.skipped,
        trace_notes=load.notes,
        document=document,
    )


# Runs an engine, with a folder for its rows; gives its figures, and what writes the rest of them.
_Write = Callable[[dict[str, Any]], None]
_Runner = Callable[["ServingConfig", Path, "Progress"], tuple["ServingSummary", _Write]]


def _run(request: SimulationRequest, load: Load, flops_per_token: float | None) -> _Runner:
    """How to run any engine under this load and luck: in memory, or with its rows streamed into the folder."""
    import numpy as np

    from specbook.serving.result import simulate_serving, stream_serving, write_result, write_summary

    slo = request.slo if request.slo.limits else None

    def stream(config: ServingConfig, folder: Path, progress: Progress) -> tuple[ServingSummary, _Write]:
        rng = np.random.default_rng(request.seed)
        with _no_empty_folder(folder):
            summary = stream_serving(
                config,
                load.parts(),
                folder,
                rng=rng,
                slo=slo,
                flops_per_token=flops_per_token,
                progress=progress,
            )
        return summary, lambda about: write_summary(summary, folder, about)

    if _streams(request, load):
        return stream
    workload = load.whole()

    def in_memory(config: ServingConfig, folder: Path, progress: Progress) -> tuple[ServingSummary, _Write]:
        result = simulate_serving(
            config,
            workload,
            rng=np.random.default_rng(request.seed),
            loop=load.loop,
            slo=slo,
            flops_per_token=flops_per_token,
            progress=progress,
        )
        return result.summary, lambda about: write_result(result, folder, about)

    return in_memory


def _streams(request: SimulationRequest, load: Load) -> bool:
    if request.stream and load.loop is not None:
        remedy = "leave it out, or choose other --arrivals"
        raise BadInput("does not go with clients that wait for their answers", field="--stream", remedy=remedy)
    return request.stream or (load.n_requests > MOST_IN_MEMORY and load.loop is None)


def _check_shared(request: SimulationRequest, load: Load) -> None:
    """There is work to share where two engines run, each of them whole."""
    if not is_shared(request.jobs, request.cluster):
        return
    field, value = ("--jobs", request.jobs) if request.cluster is None else ("--cluster", request.cluster)
    if not request.compare:
        raise BadInput(
            "shares two runs, and there is one", field=field, value=value, remedy="add --compare, or drop it"
        )
    if _streams(request, load):
        raise BadInput("does not go with rows that are streamed", field=field, value=value, remedy="leave it out")


def _baseline(
    request: SimulationRequest, load: Load, setup: ServingSetup, executor: Executor, progress: Progress
) -> Iterator[ServingSummary]:
    """The figures of the engine without drafts, which somebody else begins to run now."""
    from specbook.serving.many import Simulation, run_simulations

    run = Simulation(
        config=setup.baseline,
        workload=load.whole(),
        seed=request.seed,
        loop=load.loop,
        slo=request.slo if request.slo.limits else None,
        flops_per_token=setup.flops_per_token,
    )
    return run_simulations([run], executor, progress)


def _figures(run: _Runner, config: ServingConfig, out: Path, progress: Progress) -> ServingSummary:
    """Figures alone: rows that were streamed are thrown away."""
    with TemporaryDirectory(prefix=".simulate-", dir=existing(out)) as scratch:
        return run(config, Path(scratch), progress)[0]


def _comparison(
    setup: ServingSetup, baseline: ServingSummary | None, verdict: GateVerdict | None
) -> dict[str, Any] | None:
    if baseline is None or verdict is None:
        return None
    return {
        "viable": verdict.stays,
        "reasons": list(verdict.reasons),
        "kv_blocks": setup.baseline.kv.n_blocks,
        "without_speculation": baseline.as_dict(),
    }


@contextmanager
def _no_empty_folder(folder: Path) -> Iterator[None]:
    """Take a folder away again that was made for rows that never came."""
    existed = folder.exists()
    try:
        yield
    except BaseException:
        if not existed and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        raise
