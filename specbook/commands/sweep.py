"""``specbook sweep``: the whole grid of targets, precisions, methods, drafts, devices, batches and contexts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.commands.output import AssumptionName, JsonFlag, emit, note, working
from specbook.commands.projection import (
    TREE_NODES_TEXT,
    AcceptanceOption,
    AssumeOption,
    BackendOption,
    BatchOption,
    ContextOption,
    DevicesOption,
    DraftOption,
    DraftPrecisionOption,
    MaxLengthOption,
    MethodChoice,
    MethodOption,
    OverheadsOption,
    StepsOption,
    StepTimeName,
    StepTimeOption,
    TreeNodesOption,
    funnel_config,
)
from specbook.commands.scale_options import ClusterOption, JobsOption, shared_work
from specbook.display import tables

if TYPE_CHECKING:
    from specbook.funnel_config import FunnelConfig

_BATCHES = ",".join(map(str, range(1, 65)))


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("sweep")(sweep_command)


def sweep_command(
    acceptance: AcceptanceOption,
    target: Annotated[list[str], typer.Option(help="Target, a name of the model library; repeatable.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    draft: DraftOption = None,
    hardware: Annotated[
        list[str] | None,
        typer.Option("--hardware", help="A name or file; repeatable. Without it, the whole catalogue."),
    ] = None,
    batch: BatchOption = _BATCHES,
    context: ContextOption = "512,1024,2048,4096,8192,16384,32768",
    precision: Annotated[
        str, typer.Option("--precision", help="Weight formats of the target, separated by commas.")
    ] = "bf16",
    draft_precision: DraftPrecisionOption = "bf16",
    assume: AssumeOption = AssumptionName.none,
    max_draft_length: MaxLengthOption = 10,
    method: MethodOption = MethodChoice.evidence,
    step_time: StepTimeOption = StepTimeName.calibrated,
    backend: BackendOption = None,
    steps: StepsOption = None,
    tree_nodes: TreeNodesOption = TREE_NODES_TEXT,
    tensor_parallel: DevicesOption = 1,
    engine_overheads: OverheadsOption = None,
    jobs: JobsOption = 1,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
) -> None:
    """Evaluate every combination; keep fronts by context, where drafting pays, and three configurations by role."""
    from specbook.display import sweep_terminal
    from specbook.funnel_sweep import sweep_config, sweep_notes, sweep_summary, write_sweep
    from specbook.roofline.sweep import sweep

    configs: list[FunnelConfig] = [
        funnel_config(
            acceptance,
            hardware,
            (name, draft),
            (batch, context),
            precision=weight_format.strip(),
            draft_precision=draft_precision,
            assume=assume.value,
            max_draft_length=max_draft_length,
            method=method,
            step_time=step_time.value,
            backend=backend,
            steps=steps,
            tree_nodes=tree_nodes,
            tensor_parallel=tensor_parallel,
            engine_overheads=engine_overheads,
        )
        for name in target
        for weight_format in precision.split(",")
    ]
    everything = sweep_config(configs)
    with shared_work(jobs, cluster) as executor, working("sweeping", everything.n_configurations) as advance:
        result = sweep(everything, advance, executor)
    write_sweep(configs, result, out)
    if json:
        emit({**sweep_summary(configs, result), "out": str(out)})
        return
    sweep_terminal.show_sweep(result)
    for text in sweep_notes(configs):
        note(f"note: {text}")
    tables.say(f"wrote {out}")
