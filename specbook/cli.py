"""The command line: ``specbook``. Tables on a terminal, ``--json`` for machines, one line for bad input.

Exit codes: 0 done, 1 a gate failed, 2 bad input. Model and file names are printed escaped, since they come from
other people's files.
"""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import Abort, TyperException

from specbook import __version__
from specbook.checks import BadInput, printable
from specbook.commands import cycles as cycles_commands
from specbook.commands import parity as parity_commands
from specbook.commands import profile as profile_commands
from specbook.commands.output import AssumptionName, JsonFlag, emit, load_profile
from specbook.display import tables, terminal

if TYPE_CHECKING:
    from specbook.funnel_config import FunnelConfig

app = typer.Typer(
    name="specbook",
    help="Find out whether speculative decoding pays before renting a GPU.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
profile_app = typer.Typer(help="Acceptance profiles: import, show, library.", rich_markup_mode=None)
app.add_typer(profile_app, name="profile")
profile_commands.register(profile_app)
cycles_commands.register(app)
parity_commands.register(app)


BatchOption = Annotated[str, typer.Option("--batch", help="Batch sizes, separated by commas.")]
ContextOption = Annotated[str, typer.Option("--context", help="Context lengths in tokens, separated by commas.")]
PrecisionOption = Annotated[str, typer.Option("--precision", help="Weight format: bf16, fp16, fp8, int4, q4_k, q8_0.")]
DraftPrecisionOption = Annotated[str, typer.Option("--draft-precision", help="Weight format of the draft model.")]
AssumeOption = Annotated[
    AssumptionName,
    typer.Option("--assume", help="truncation: project shorter drafts from the positions of a longer one."),
]
MaxLengthOption = Annotated[int, typer.Option("--max-draft-length", min=1, max=64, help="Longest draft assumed.")]


def main() -> None:
    """Run the command line; bad input becomes one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still shows its tables
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except BadInput as error:
        raise SystemExit(_complain(str(error))) from None
    except TyperException as error:
        raise SystemExit(_complain(f"{' '.join(error.format_message().split())} See specbook --help.")) from None
    except Abort:
        raise SystemExit(130) from None
    except BrokenPipeError:  # whoever read the output has seen enough
        _discard_output()
        raise SystemExit(0) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.filename is not None:  # a path that the system itself refuses
            raise SystemExit(_complain(f"{error.filename}: {reason}; check the path")) from None
        _discard_output()
        raise SystemExit(_complain(f"cannot write the output: {reason}")) from None
    raise SystemExit(code or 0)


def _discard_output() -> None:
    """Let the interpreter's last flush go nowhere, since it would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> int:
    """Print one line on standard error; the exit code of bad input."""
    sys.stderr.write(f"specbook: {printable(text)}\n")
    return 2


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"specbook {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find out whether speculative decoding pays before renting a GPU."""
    del version
    _help_without_command(context)


@profile_app.callback(invoke_without_command=True)
def _profile_options(context: typer.Context) -> None:
    """Acceptance profiles: import, show, library."""
    _help_without_command(context)


def _help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("hardware")
def hardware(json: JsonFlag = False) -> None:
    """List the hardware catalogue."""
    from specbook.hardware.profile import catalogue_device, catalogue_names

    devices = [catalogue_device(name) for name in catalogue_names()]
    if json:
        emit({device.name: device.model_dump(mode="json", by_alias=True) for device in devices})
    else:
        terminal.show_hardware(devices)


@app.command("models")
def models(json: JsonFlag = False) -> None:
    """List the model library."""
    from specbook.roofline.model_spec import model, model_entry, model_names

    if json:
        emit({name: {"n_parameters": model(name).n_parameters, **model_entry(name)} for name in model_names()})
        return
    terminal.show_models([model(name) for name in model_names()])


def _integers(text: str, option: str, maximum: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    digits = len(str(maximum))
    if not all(
        part.isascii() and part.isdigit() and len(part) <= digits and 1 <= int(part) <= maximum for part in parts
    ):
        remedy = f"give whole numbers from 1 to {maximum}, separated by commas, such as 1,4,16"
        raise BadInput("is no list of whole numbers", field=option, value=text, remedy=remedy)
    return tuple(sorted({int(part) for part in parts}))


@app.command("project")
def project_command(
    acceptance: Annotated[
        list[str], typer.Option("--acceptance", help="A profile, or a name of the library; repeatable.")
    ],
    hardware: Annotated[list[str], typer.Option("--hardware", help="A name of the catalogue, or a hardware file.")],
    target: Annotated[str, typer.Option(help="Target, a name of the model library.")],
    draft: Annotated[str, typer.Option(help="Draft model, a name of the model library.")],
    out: Annotated[Path, typer.Option("--out", help="The projection to write, Parquet.")],
    batch: BatchOption = "1,4,16,64",
    context: ContextOption = "512,4096",
    precision: PrecisionOption = "bf16",
    draft_precision: DraftPrecisionOption = "bf16",
    assume: AssumeOption = AssumptionName.none,
    max_draft_length: MaxLengthOption = 16,
    top: Annotated[int, typer.Option(min=1, help="Ranks to print for each batch and context.")] = 3,
    json: JsonFlag = False,
) -> None:
    """Rank draft lengths for a target, a draft model and a device by the doctrine's roofline."""
    from specbook.funnel import run_funnel, summary, write_ranking

    if len(hardware) > 1:
        remedy = "project one at a time, or take many through specbook funnel"
        raise BadInput("takes one device", field="--hardware", value=hardware, remedy=remedy)
    lengths = (batch, context, assume, max_draft_length)
    config = _funnel_config(acceptance, hardware, (target, draft), lengths, (precision, draft_precision))
    result = run_funnel(config)
    write_ranking(result, out)
    if json:
        emit({**summary(result), "rows": result.ranking.to_dicts(), "out": str(out)})
        return
    terminal.show_ranking(result, top)
    tables.say(f"wrote {out}")


@app.command("funnel")
def funnel_command(
    acceptance: Annotated[
        list[str], typer.Option("--acceptance", help="A profile, or a name of the library; repeatable.")
    ],
    target: Annotated[str, typer.Option(help="Target, a name of the model library.")],
    draft: Annotated[str, typer.Option(help="Draft model, a name of the model library.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    hardware: Annotated[
        list[str] | None,
        typer.Option("--hardware", help="A name or file; repeatable. Without it, the whole catalogue."),
    ] = None,
    batch: BatchOption = "1,2,4,8,16,32,64",
    context: ContextOption = "512,2048,8192,32768",
    precision: PrecisionOption = "bf16",
    draft_precision: DraftPrecisionOption = "bf16",
    assume: AssumeOption = AssumptionName.none,
    max_draft_length: MaxLengthOption = 16,
    json: JsonFlag = False,
) -> None:
    """Take acceptance evidence through the stages that exist (roofline) and write the results into a folder."""
    from specbook.funnel import run_funnel, summary, write_funnel
    from specbook.hardware.profile import catalogue_names

    lengths = (batch, context, assume, max_draft_length)
    devices = hardware or catalogue_names()
    config = _funnel_config(acceptance, devices, (target, draft), lengths, (precision, draft_precision))
    result = run_funnel(config)
    write_funnel(result, out)
    if json:
        emit({**summary(result), "out": str(out)})
        return
    terminal.show_gates(result)
    terminal.show_notes(result)
    tables.say(f"wrote {out}")


def _funnel_config(
    acceptance: Sequence[str],
    hardware: Sequence[str],
    names: tuple[str, str],
    lengths: tuple[str, str, AssumptionName, int],
    precisions: tuple[str, str],
) -> FunnelConfig:
    from specbook.funnel_config import FunnelConfig
    from specbook.hardware.profile import load_hardware
    from specbook.roofline.model_spec import model
    from specbook.roofline.model_spec import precision as weight_format

    batch, context, assume, max_draft_length = lengths
    for name in precisions:
        weight_format(name)
    devices = tuple(load_hardware(name) for name in hardware)
    for device, count in Counter(device.name for device in devices).items():
        if count > 1:
            raise BadInput("named twice", field="hardware", value=device, remedy="name each device once")
    return FunnelConfig(
        profiles=tuple(load_profile(name) for name in acceptance),
        hardware=devices,
        target=model(names[0]),
        draft=model(names[1]),
        batches=_integers(batch, "--batch", 65536),
        contexts=_integers(context, "--context", 2**24),
        precision=precisions[0].casefold(),
        draft_precision=precisions[1].casefold(),
        assume=assume.value,
        max_draft_length=max_draft_length,
    )
