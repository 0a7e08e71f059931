"""``specbook funnel``: all five stages, from evidence to receipts, file to file in one folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.checks import BadInput
from specbook.commands.funnel_plan import (
    MEASURED_DOMAINS,
    MEASURED_LENGTHS,
    FunnelRequest,
    MeasureOptions,
    plan_of,
    quick_plan,
)
from specbook.commands.option_names import in_one_line, naming_options
from specbook.commands.output import INTERRUPTED, AssumptionName, JsonFlag, emit, note, working
from specbook.commands.projection import (
    TREE_NODES_TEXT,
    AssumeOption,
    BackendOption,
    BatchOption,
    ContextOption,
    DevicesOption,
    DraftOption,
    MaxLengthOption,
    MethodChoice,
    MethodOption,
    OverheadsOption,
    StepsOption,
    StepTimeName,
    StepTimeOption,
    TreeNodesOption,
)
from specbook.commands.scale_options import ClusterOption, JobsOption, shared_work
from specbook.commands.serving_options import ArrivalsChoice, LoadOptions, SchedulerChoice, slo_of
from specbook.commands.serving_request import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from specbook.stages.plan import FunnelPlan
    from specbook.stages.run import FunnelRun

# What may stand beside --quick, which chooses the rest.
_BESIDE_QUICK = {"out", "quick", "stages", "jobs", "cluster", "json"}

# Where an option came from that stands on the command line.
_GIVEN = "COMMANDLINE"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("funnel")(funnel_command)


def funnel_command(
    command: typer.Context,
    out: Annotated[str, typer.Option("--out", metavar="PATH", help="The folder to write; an earlier run is resumed.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="The native engine on this machine, all stages within 90 seconds.")
    ] = False,
    acceptance: Annotated[
        list[str] | None, typer.Option("--acceptance", help="A profile, or a name of the library; repeatable.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Instead of files: measure acceptance with the native engine.")
    ] = False,
    drafter: Annotated[
        str, typer.Option("--drafter", help="With --measure: small, eagle, medusa, mtp, lookup, ngram or tree.")
    ] = "small",
    domains: Annotated[
        str, typer.Option("--domains", help="With --measure: domains of specbook's own prompts, with commas.")
    ] = MEASURED_DOMAINS,
    draft_lengths: Annotated[
        str, typer.Option("--draft-lengths", help="With --measure: each is measured by itself.")
    ] = MEASURED_LENGTHS,
    hardware: Annotated[
        list[str] | None,
        typer.Option("--hardware", help="A name or file; repeatable. Without it, the whole catalogue."),
    ] = None,
    probe_seconds: Annotated[
        float | None, typer.Option("--probe-seconds", help="Instead of --hardware: probe this machine for so long.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="Target, a name of the model library.")] = None,
    draft: DraftOption = None,
    batch: BatchOption = "1,2,4,8,16,32,64",
    context: ContextOption = "512,2048,8192,32768",
    precision: Annotated[
        str | None, typer.Option("--precision", help="Weight format; bf16, or fp32 for models of the native engine.")
    ] = None,
    draft_precision: Annotated[
        str | None, typer.Option("--draft-precision", help="Weight format of the drafter; the same.")
    ] = None,
    assume: AssumeOption = AssumptionName.none,
    max_draft_length: MaxLengthOption = 16,
    method: MethodOption = MethodChoice.evidence,
    step_time: StepTimeOption = StepTimeName.calibrated,
    backend: BackendOption = None,
    steps: StepsOption = None,
    tree_nodes: TreeNodesOption = TREE_NODES_TEXT,
    tensor_parallel: DevicesOption = 1,
    engine_overheads: OverheadsOption = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Recorded requests, in any known format.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip rows of it that cannot be used, counted.")] = False,
    time_factor: Annotated[float | None, typer.Option(help="Multiply every arrival; 0.5 is twice the load.")] = None,
    at_rate: Annotated[float | None, typer.Option(help="Scale the trace's time to so many requests a second.")] = None,
    first: Annotated[int | None, typer.Option(min=1, help="So many requests of the trace.")] = None,
    mean_batch: Annotated[
        float | None,
        typer.Option("--mean-batch", help="Requests at once, from which each device gets its own rate; 8."),
    ] = None,
    arrivals: Annotated[
        ArrivalsChoice | None, typer.Option(help="Without a trace: how requests come; poisson if left out.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second, the same on every device.")] = None,
    burstiness: Annotated[float | None, typer.Option(help="Of gamma arrivals: 1 is poisson, less is burstier.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, max=10**6, help="Requests to draw; 400.")] = None,
    prompt_tokens: Annotated[
        str | None, typer.Option(help="N, LOW-HIGH, lognormal:MEDIAN,SIGMA or geometric:MEAN; lognormal:512,0.6.")
    ] = None,
    output_tokens: Annotated[str | None, typer.Option(help="The same for outputs; lognormal:128,0.6.")] = None,
    scheduler: Annotated[SchedulerChoice, typer.Option(help="How iterations are filled.")] = SchedulerChoice.vllm_v1,
    max_batch: Annotated[int, typer.Option(min=1, max=65536, help="Requests that run at once.")] = 256,
    chunk_tokens: Annotated[int, typer.Option(min=1, max=2**24, help="Tokens of one iteration.")] = 2048,
    kv_blocks: Annotated[
        int | None, typer.Option(min=1, max=2**40, help="Blocks of the KV cache; by default what fits.")
    ] = None,
    slo_ttft: Annotated[float | None, typer.Option(help="Seconds to the first token.")] = None,
    slo_tpot: Annotated[float | None, typer.Option(help="Seconds a token after it.")] = None,
    slo_e2e: Annotated[float | None, typer.Option(help="Seconds of a whole request.")] = None,
    slo_percentile: Annotated[int, typer.Option(help="Of requests that keep a limit: 50, 90 or 99.")] = 90,
    witness_prompts: Annotated[
        int, typer.Option("--witness-prompts", min=2, max=32, help="Requests of each configuration that is run.")
    ] = 12,
    witness_tokens: Annotated[int, typer.Option("--witness-tokens", min=1, max=512, help="Tokens of each.")] = 64,
    stages: Annotated[int, typer.Option("--stages", min=1, max=5, help="Run the first so many.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**53, help="Of everything that is drawn.")] = 0,
    jobs: JobsOption = 1,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
) -> None:
    """Evidence, hardware, projection, load and witness, one after the other; at most three configurations are left.

    Exit code 1 if a configuration that was run failed the witness.
    """
    folder = folder_of(out)
    with naming_options(), in_one_line("specbook funnel"):
        if quick:
            _check_quick(command)
            plan = replace(quick_plan(), last_stage=stages)
        else:
            plan = plan_of(
                FunnelRequest(
                    acceptance=tuple(acceptance or ()),
                    measured=MeasureOptions(drafter=drafter, domains=domains, draft_lengths=draft_lengths)
                    if measure
                    else None,
                    hardware=tuple(hardware or ()),
                    probe_seconds=probe_seconds,
                    target=target,
                    draft=draft,
                    axes=(batch, context),
                    precision=precision,
                    draft_precision=draft_precision,
                    choices={
                        "assume": assume.value,
                        "max_draft_length": max_draft_length,
                        "method": method,
                        "step_time": step_time.value,
                        "backend": backend,
                        "steps": steps,
                        "tree_nodes": tree_nodes,
                        "tensor_parallel": tensor_parallel,
                        "engine_overheads": engine_overheads,
                    },
                    load=LoadOptions(
                        trace=trace,
                        lenient=lenient,
                        time_factor=time_factor,
                        at_rate=at_rate,
                        first=first,
                        arrivals=arrivals,
                        rate=rate,
                        burstiness=burstiness,
                        requests=requests,
                        prompt_tokens=prompt_tokens,
                        output_tokens=output_tokens,
                    ),
                    mean_batch=mean_batch,
                    limits={
                        "scheduler": scheduler.value,
                        "max_batch": max_batch,
                        "chunk_tokens": chunk_tokens,
                        "n_blocks": kv_blocks,
                    },
                    slo=slo_of(slo_ttft, slo_tpot, slo_e2e, slo_percentile),
                    witness={"n_prompts": witness_prompts, "new_tokens": witness_tokens, "seed": seed},
                    stages=stages,
                    seed=seed,
                )
            )
    run = _run(plan, folder, jobs, cluster)
    if json:
        emit({**run.document, "out": str(folder)})
    else:
        _show(run)
    if run.verdict == "fail":
        raise typer.Exit(1)


def _check_quick(command: typer.Context) -> None:
    """``--quick`` chooses everything; what was given beside it would not be heeded."""
    for name, value in command.params.items():
        source = command.get_parameter_source(name)
        if source is not None and source.name == _GIVEN and name not in _BESIDE_QUICK:
            option = f"--{name.replace('_', '-')}"
            remedy = "leave one of them out; --measure and --probe-seconds make a longer run of the same kind"
            raise BadInput("means nothing beside --quick", field=option, value=value, remedy=remedy)


def _run(plan: FunnelPlan, folder: Path, jobs: int, cluster: str | None) -> FunnelRun:
    from specbook.stages.run import run_plan

    with shared_work(jobs, cluster) as executor:
        try:
            return run_plan(plan, folder, working=working, executor=executor, report=_announce, page=_page())
        except KeyboardInterrupt:
            note(f"interrupted; the stages that were complete are kept in {folder}, and the same command goes on")
            raise typer.Exit(INTERRUPTED) from None


def _announce(stage: str, kept: bool) -> None:
    """Each stage as it begins, for who watches."""
    if sys.stderr.isatty():
        note(f"{stage}{', kept from before' if kept else ''}")


def _page() -> Callable[[FunnelRun], str] | None:
    """What makes the report; None, said in a line, where charts are not installed."""
    try:
        from specbook.display.funnel_report import report_page
    except ModuleNotFoundError as error:
        note(f"note: no report.html is written, since {error.name} is missing: install specbook[book]")
        return None
    return report_page


def _show(run: FunnelRun) -> None:
    from specbook.display.funnel_terminal import show_run
    from specbook.display.tables import say

    show_run(run)
    for text in run.document["notes"]:
        note(f"note: {text}")
    say(f"wrote {run.folder}")
