"""``specbook project``: acceptance evidence and hardware in, ranked draft lengths out; options that others share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbook.checks import BadInput
from specbook.commands.output import AssumptionName, JsonFlag, emit, load_profile
from specbook.display import tables, terminal

if TYPE_CHECKING:
    from specbook.funnel_config import FunnelConfig
    from specbook.hardware.profile import HardwareProfile


TREE_NODES_TEXT = "1,2,3,4,6,8,12,16,24,32,48,64"


class StepTimeName(StrEnum):
    """Where the time of a pass comes from."""

    doctrine = "doctrine"
    calibrated = "calibrated"
    measured = "measured"


class MethodChoice(StrEnum):
    """What drafting costs like."""

    evidence = "evidence"
    draft_model = "draft_model"
    eagle = "eagle"
    eagle3 = "eagle3"
    mtp = "mtp"
    medusa = "medusa"
    ngram = "ngram"
    lookahead = "lookahead"


AcceptanceOption = Annotated[
    list[str], typer.Option("--acceptance", help="A profile, or a name of the library; repeatable.")
]
TargetOption = Annotated[str, typer.Option(help="Target, a name of the model library.")]
DraftOption = Annotated[
    str | None, typer.Option(help="Draft model, a name of the model library; without it, the method of the evidence.")
]
BatchOption = Annotated[str, typer.Option("--batch", help="Batch sizes, separated by commas.")]
ContextOption = Annotated[str, typer.Option("--context", help="Context lengths in tokens, separated by commas.")]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="Weight format: bf16, fp16, fp8, int4, q4_k, q8_0, fp32.")
]
DraftPrecisionOption = Annotated[str, typer.Option("--draft-precision", help="Weight format of the drafter.")]
AssumeOption = Annotated[
    AssumptionName,
    typer.Option("--assume", help="truncation: project shorter drafts from the positions of a longer one."),
]
MaxLengthOption = Annotated[int, typer.Option("--max-draft-length", min=1, max=64, help="Longest draft assumed.")]
MethodOption = Annotated[
    MethodChoice,
    typer.Option(
        "--method",
        help="What drafting costs like; evidence: the draft model if named, other methods beside it as measured.",
    ),
]
StepTimeOption = Annotated[
    StepTimeName,
    typer.Option("--step-time", help="calibrated; doctrine, the ideal bound; measured, from a probe's passes."),
]
BackendOption = Annotated[
    str | None, typer.Option("--backend", help="Which calibration or measured engine of the hardware file.")
]
TreeNodesOption = Annotated[
    str, typer.Option("--tree-nodes", help="Sizes of trees to offer where the evidence is of trees, with commas.")
]
StepsOption = Annotated[
    list[Path] | None,
    typer.Option("--steps", help="Measured step times of the one device, from specbook steps import; repeatable."),
]
DevicesOption = Annotated[
    int, typer.Option("--tensor-parallel", min=1, max=1024, help="Devices that share the models.")
]
OverheadsOption = Annotated[
    str | None,
    typer.Option("--engine-overheads", help="Add what an engine spends beside the passes: sglang, vllm, tensorrt-llm."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("project")(project_command)


def project_command(
    acceptance: AcceptanceOption,
    hardware: Annotated[list[str], typer.Option("--hardware", help="A name of the catalogue, or a hardware file.")],
    target: TargetOption,
    out: Annotated[Path, typer.Option("--out", help="The projection to write, Parquet.")],
    draft: DraftOption = None,
    batch: BatchOption = "1,4,16,64",
    context: ContextOption = "512,4096",
    precision: PrecisionOption = "bf16",
    draft_precision: DraftPrecisionOption = "bf16",
    assume: AssumeOption = AssumptionName.none,
    max_draft_length: MaxLengthOption = 16,
    method: MethodOption = MethodChoice.evidence,
    step_time: StepTimeOption = StepTimeName.calibrated,
    backend: BackendOption = None,
    steps: StepsOption = None,
    tree_nodes: TreeNodesOption = TREE_NODES_TEXT,
    tensor_parallel: DevicesOption = 1,
    engine_overheads: OverheadsOption = None,
    top: Annotated[int, typer.Option(min=1, help="Ranks to print for each batch and context.")] = 3,
    json: JsonFlag = False,
) -> None:
    """Rank draft lengths for a target, a drafter and a device."""
    from specbook.funnel import run_funnel, summary, write_ranking

    if len(hardware) > 1:
        remedy = "project one at a time, or take many through specbook funnel"
        raise BadInput("takes one device", field="--hardware", value=hardware, remedy=remedy)
    config = funnel_config(
        acceptance,
        hardware,
        (target, draft),
        (batch, context),
        precision=precision,
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
    result = run_funnel(config)
    write_ranking(result, out)
    if json:
        emit({**summary(result), "rows": result.ranking.to_dicts(), "out": str(out)})
        return
    terminal.show_ranking(result, top)
    tables.say(f"wrote {out}")


def funnel_config(
    acceptance: Sequence[str],
    hardware: Sequence[str] | None,
    models: tuple[str, str | None],
    axes: tuple[str, str],
    *,
    precision: str,
    draft_precision: str,
    method: MethodChoice,
    steps: Sequence[Path] | None,
    tree_nodes: str,
    engine_overheads: str | None,
    **choices: Any,
) -> FunnelConfig:
    """What the options of a command say, checked; ``axes`` are the lists of batches and contexts as they were given.

    Raises
    ------
    BadInput
        If a name is not known, a list is none, or a device is named twice.
    """
    from specbook.funnel_config import FunnelConfig
    from specbook.hardware.profile import catalogue_names, load_hardware
    from specbook.roofline.drafting import costs_like
    from specbook.roofline.engine_overheads import engine_overheads as overheads_of_engine
    from specbook.roofline.model_spec import model
    from specbook.roofline.model_spec import precision as weight_format

    for name in (precision, draft_precision):
        weight_format(name)
    devices = tuple(load_hardware(name) for name in hardware or catalogue_names())
    for device, count in Counter(device.name for device in devices).items():
        if count > 1:
            raise BadInput("named twice", field="hardware", value=device, remedy="name each device once")
    if steps:
        devices = (_with_steps(devices, steps),)
    target, draft = models
    return FunnelConfig(
        profiles=tuple(load_profile(name) for name in acceptance),
        hardware=devices,
        target=model(target),
        draft=None if draft is None else model(draft),
        batches=integers(axes[0], "--batch", 65536),
        contexts=integers(axes[1], "--context", 2**24),
        precision=precision.casefold(),
        draft_precision=draft_precision.casefold(),
        method=None if method is MethodChoice.evidence else costs_like(method.value),
        tree_nodes=integers(tree_nodes, "--tree-nodes", 512),
        overheads=None if engine_overheads is None else overheads_of_engine(engine_overheads),
        **choices,
    )


def _with_steps(devices: Sequence[HardwareProfile], steps: Sequence[Path]) -> HardwareProfile:
    """The one device with further tables of measured step times."""
    from specbook.hardware.step_times import read_step_times

    if len(devices) > 1:
        raise BadInput("are of one device", field="--steps", value=len(devices), remedy="name one with --hardware")
    tables = [read_step_times(path) for path in steps]
    return devices[0].model_copy(update={"step_times": [*devices[0].step_times, *tables]})


def integers(text: str, option: str, maximum: int, minimum: int = 1) -> tuple[int, ...]:
    """Whole numbers from ``minimum`` to ``maximum`` out of a list with commas, each once and in order.

    Raises
    ------
    BadInput
        If it is no such list.

    Examples
    --------
    >>> integers("16, 1,4,4", "--batch", 64)
    (1, 4, 16)
    """
    parts = [part.strip() for part in text.split(",")]
    digits = len(str(maximum))
    if not all(
        part.isascii() and part.isdigit() and len(part) <= digits and minimum <= int(part) <= maximum for part in parts
    ):
        remedy = f"give whole numbers from {minimum} to {maximum}, separated by commas, such as 1,4,16"
        raise BadInput("is no list of whole numbers", field=option, value=text, remedy=remedy)
    return tuple(sorted({int(part) for part in parts}))
