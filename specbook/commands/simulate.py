"""The command ``specbook simulate``: an engine under a load, with and without drafts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from specbook.commands.option_names import in_one_line, naming_options
from specbook.commands.output import AssumptionName, JsonFlag, emit, load_profile, note
from specbook.commands.projection import (
    AssumeOption,
    BackendOption,
    DevicesOption,
    DraftOption,
    DraftPrecisionOption,
    MethodChoice,
    MethodOption,
    OverheadsOption,
    PrecisionOption,
    StepsOption,
    integers,
)
from specbook.commands.scale_options import ClusterOption, JobsOption
from specbook.commands.serving_options import (
    ArrivalsChoice,
    LoadOptions,
    RoutingChoice,
    SchedulerChoice,
    schedule_of,
    slo_of,
    watermark_of,
)
from specbook.commands.serving_request import EngineOptions, SimulationRequest, folder_of
from specbook.commands.serving_run import simulate
from specbook.commands.serving_runs import RunsReport, simulate_runs


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("simulate")(simulate_command)


def simulate_command(
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="The folder to write.")],
    trace: Annotated[Path | None, typer.Option("--trace", help="Recorded requests, in any known format.")] = None,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Skip rows that cannot be used or run, and count them.")
    ] = False,
    time_factor: Annotated[float | None, typer.Option(help="Multiply every arrival; 0.5 is twice the load.")] = None,
    at_rate: Annotated[float | None, typer.Option(help="Scale the trace's time to so many requests a second.")] = None,
    first: Annotated[int | None, typer.Option(min=1, help="So many requests of the trace.")] = None,
    arrivals: Annotated[
        ArrivalsChoice | None, typer.Option(help="Without a trace: how requests come; poisson if left out.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second.")] = None,
    burstiness: Annotated[float | None, typer.Option(help="Of gamma arrivals: 1 is poisson, less is burstier.")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="Closed: clients that wait for their answers.")] = None,
    think: Annotated[float | None, typer.Option(help="Closed: seconds from an answer to the next request.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, max=10**7, help="Requests to draw; 2000.")] = None,
    prompt_tokens: Annotated[
        str | None, typer.Option(help="N, LOW-HIGH, lognormal:MEDIAN,SIGMA or geometric:MEAN; 512.")
    ] = None,
    output_tokens: Annotated[str | None, typer.Option(help="The same for outputs; 128.")] = None,
    scheduler: Annotated[SchedulerChoice, typer.Option(help="How iterations are filled.")] = SchedulerChoice.vllm_v1,
    step_time: Annotated[
        str, typer.Option("--step-time", help="A JSON file, or roofline (calibrated), doctrine or measured.")
    ] = "roofline",
    hardware: Annotated[str | None, typer.Option(help="A name of the catalogue, or a hardware file.")] = None,
    target: Annotated[str | None, typer.Option(help="Target, a name of the model library.")] = None,
    draft: DraftOption = None,
    precision: PrecisionOption = "bf16",
    draft_precision: DraftPrecisionOption = "bf16",
    tensor_parallel: DevicesOption = 1,
    engine_overheads: OverheadsOption = None,
    method: MethodOption = MethodChoice.evidence,
    backend: BackendOption = None,
    steps: StepsOption = None,
    max_batch: Annotated[int, typer.Option(min=1, max=65536, help="Requests that run at once.")] = 256,
    chunk_tokens: Annotated[int, typer.Option(min=1, max=2**24, help="Tokens of one iteration.")] = 2048,
    kv_blocks: Annotated[
        int | None, typer.Option(min=1, max=2**40, help="Blocks of the KV cache; by default what fits.")
    ] = None,
    block_size: Annotated[int, typer.Option(min=1, max=2**20, help="Tokens of a block.")] = 16,
    watermark_blocks: Annotated[
        str | None, typer.Option(metavar="INTEGER", help="Blocks kept free when a request is admitted; 1 %.")
    ] = None,
    replicas: Annotated[int, typer.Option(min=1, max=4096, help="Engines of a kind.")] = 1,
    routing: Annotated[RoutingChoice, typer.Option(help="Which engine gets a request.")] = RoutingChoice.round_robin,
    max_waiting: Annotated[
        int, typer.Option(min=1, max=10**9, help="Requests that may wait at one engine; with more, the run stops.")
    ] = 100_000,
    acceptance: Annotated[
        list[str] | None, typer.Option("--acceptance", help="A profile, or a name of the library; repeatable.")
    ] = None,
    conditional_acceptance: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Instead of a profile: one acceptance for every position.")
    ] = None,
    draft_length: Annotated[
        str | None,
        typer.Option(metavar="K", help="K of every round; by default the one that was measured. 2,4,8 tries several."),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="K by batch, 1:4,16:2,32:0, or by batch and context, 16@8192:4.")
    ] = None,
    assume: AssumeOption = AssumptionName.none,
    slo_ttft: Annotated[float | None, typer.Option(help="Seconds to the first token.")] = None,
    slo_tpot: Annotated[float | None, typer.Option(help="Seconds a token after it.")] = None,
    slo_e2e: Annotated[float | None, typer.Option(help="Seconds of a whole request.")] = None,
    slo_percentile: Annotated[int, typer.Option(help="Of requests that keep a limit: 50, 90 or 99.")] = 90,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run without drafts, and judge; exit code 1 if it does not pay.")
    ] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Write rows as they come, in little memory.")] = False,
    seed: Annotated[
        str, typer.Option(metavar="INTEGER", help="Of acceptance, and of a drawn load. 0,1,2 runs several.")
    ] = "0",
    jobs: JobsOption = 1,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
) -> None:
    """Simulate a serving engine under a load: latencies, throughput, goodput and waste, with drafts and without."""
    from specbook.display import serving_terminal
    from specbook.display.tables import say
    from specbook.serving_setup import DraftEvidence, EngineLimits

    folder = folder_of(out)
    lengths = () if draft_length is None else integers(draft_length, "--draft-length", 64, minimum=0)
    seeds = integers(seed, "--seed", 2**53, minimum=0)
    with naming_options():
        with in_one_line("specbook simulate"):
            request = SimulationRequest(
                load=LoadOptions(
                    trace=trace,
                    lenient=lenient,
                    time_factor=time_factor,
                    at_rate=at_rate,
                    first=first,
                    arrivals=arrivals,
                    rate=rate,
                    burstiness=burstiness,
                    clients=clients,
                    think=think,
                    requests=requests,
                    prompt_tokens=prompt_tokens,
                    output_tokens=output_tokens,
                ),
                engine=EngineOptions(
                    step_time=step_time,
                    hardware=hardware,
                    target=target,
                    draft=draft,
                    precision=precision,
                    draft_precision=draft_precision,
                    tensor_parallel=tensor_parallel,
                    engine_overheads=engine_overheads,
                    method=method,
                    backend=backend,
                    steps=tuple(steps or ()),
                ),
                limits=EngineLimits(
                    scheduler=scheduler.value,
                    max_batch=max_batch,
                    chunk_tokens=chunk_tokens,
                    block_size_tokens=block_size,
                    n_blocks=kv_blocks,
                    watermark_blocks=None if watermark_blocks is None else watermark_of(watermark_blocks),
                    n_replicas=replicas,
                    routing="round_robin" if routing is RoutingChoice.round_robin else "least_outstanding",
                    max_waiting=max_waiting,
                ),
                acceptance=tuple(acceptance or ()),
                evidence=DraftEvidence(
                    profiles=tuple(load_profile(name) for name in acceptance or ()),
                    conditional_acceptance=conditional_acceptance,
                    draft_length=lengths[-1] if lengths else None,
                    schedule=None if schedule is None else schedule_of(schedule),
                    assume=assume.value,
                ),
                slo=slo_of(slo_ttft, slo_tpot, slo_e2e, slo_percentile),
                compare=compare,
                stream=stream,
                seed=seeds[0],
                jobs=jobs,
                cluster=cluster,
            )
        if len(lengths) > 1 or len(seeds) > 1:
            _finish(simulate_runs(request, lengths, seeds, folder), folder, compare, json)
            return
        report = simulate(request, folder)
    _tell_skipped(report.skipped)
    unstable = serving_terminal.instability(report.summary, report.setup.config)
    if unstable is not None:
        note(f"warning: {unstable}")
    if json:
        emit(report.document)
    else:
        serving_terminal.show_serving(report.setup, report.summary, report.slo, report.baseline, report.verdict)
        assumed = [f"acceptance at {text}" for text in report.setup.assumptions if not text.endswith(": measured")]
        for text in (*report.setup.notes, *report.trace_notes, *assumed):
            note(f"note: {text}")
        say(f"wrote {folder}")
    if report.verdict is not None and not report.verdict.stays:
        raise typer.Exit(1)


def _finish(report: RunsReport, folder: Path, compare: bool, json: bool) -> None:
    """Tell of many runs as of one: the exit code is 1 if no drafts stay at every seed where they are judged."""
    from specbook.display.serving_runs_terminal import show_runs
    from specbook.display.tables import say

    _tell_skipped(report.skipped)
    if json:
        emit(report.document.model_dump(mode="json", by_alias=True))
    else:
        show_runs(report.document, report.configurations)
        for text in report.document.notes[1:]:
            note(f"note: {text}")
        say(f"wrote {folder}")
    if compare and not report.drafting_stays:
        raise typer.Exit(1)


def _tell_skipped(skipped: Mapping[str, int]) -> None:
    from specbook.hardware.readers.rows import counted

    for reason, count in skipped.items():
        note(f"warning: {counted(count, 'row')} of the trace {'was' if count == 1 else 'were'} skipped: {reason}")
