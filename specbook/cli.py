"""The command line: ``specbook``. Tables on a terminal, ``--json`` for machines, one line for bad input.

Exit codes: 0 done, 1 a gate failed, 2 bad input. Model and file names are printed escaped, since they come from
other people's files.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from specbook import __version__
from specbook.checks import BadInput, printable
from specbook.commands import cycles as cycles_commands
from specbook.commands import deploy as deploy_commands
from specbook.commands import funnel as funnel_commands
from specbook.commands import parity as parity_commands
from specbook.commands import probe as probe_commands
from specbook.commands import profile as profile_commands
from specbook.commands import projection as projection_commands
from specbook.commands import receipt as receipt_commands
from specbook.commands import simulate as simulate_commands
from specbook.commands import step_times as step_times_commands
from specbook.commands import sweep as sweep_commands
from specbook.commands import validate as validate_commands
from specbook.commands import witness as witness_commands
from specbook.commands.output import JsonFlag, emit
from specbook.display import terminal

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
steps_app = typer.Typer(help="Measured step times: import, show.", rich_markup_mode=None)
app.add_typer(steps_app, name="steps")
step_times_commands.register(steps_app)
receipt_app = typer.Typer(help="Receipts of a witness: show, check.", rich_markup_mode=None)
app.add_typer(receipt_app, name="receipt")
receipt_commands.register(receipt_app)
cycles_commands.register(app)
deploy_commands.register(app)
funnel_commands.register(app)
parity_commands.register(app)
probe_commands.register(app)
projection_commands.register(app)
simulate_commands.register(app)
sweep_commands.register(app)
validate_commands.register(app)
witness_commands.register(app)


def main() -> None:
    """Run the command line; bad input becomes one line on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode still shows its tables
    try:
        code = app(prog_name="specbook", standalone_mode=False)
        sys.stdout.flush()
    except BadInput as error:
        raise SystemExit(_complain(str(error))) from None
    except TyperException as error:
        raise SystemExit(_complain(_with_help(error))) from None
    except Abort:
        raise SystemExit(130) from None
    except MemoryError:
        raise SystemExit(_complain("needs more memory than there is; ask for fewer batches or contexts")) from None
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


def _with_help(error: TyperException) -> str:
    """What is wrong with the words of the command, in one line, and whose help says what would be right."""
    context = getattr(error, "ctx", None)
    command = "specbook" if context is None else context.command_path
    return f"{' '.join(error.format_message().split()).rstrip('.')}; see {command} --help"


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


@steps_app.callback(invoke_without_command=True)
def _steps_options(context: typer.Context) -> None:
    """Measured step times: import, show."""
    _help_without_command(context)


@receipt_app.callback(invoke_without_command=True)
def _receipt_options(context: typer.Context) -> None:
    """Receipts of a witness: show, check."""
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
