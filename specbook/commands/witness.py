"""The command ``specbook witness``: decode for real, hold the predictions against the clock, write the receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbook.checks import BadInput
from specbook.commands.option_names import naming_options
from specbook.commands.output import INTERRUPTED, JsonFlag, check_out, emit, note, note_kernels, working
from specbook.commands.tree_option import TreeOption, tree_of

if TYPE_CHECKING:
    import polars as pl

    from specbook.hardware.profile import HardwareProfile
    from specbook.witness.config import WitnessConfig
    from specbook.witness.config_file import WitnessConfigFile
    from specbook.witness.receipt_parts import InputRecord
    from specbook.witness.result import WitnessResult


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("witness")(witness)


def witness(
    out: Annotated[Path, typer.Option("--out", help="The receipt to write.")],
    config: Annotated[
        Path | None, typer.Option("--config", help="A specbook-witness-config/1 file: up to three configurations.")
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter", help="Without --config: small, eagle, medusa, mtp, lookup, ngram, lookahead or tree."
        ),
    ] = None,
    draft_length: Annotated[
        int | None, typer.Option("--draft-length", min=1, max=64, help="Tokens that a round drafts, K; 4.")
    ] = None,
    tree: TreeOption = None,
    cut: Annotated[
        str | None, typer.Option("--cut", help="Stop a draft early: entropy:NATS or confidence:PROBABILITY.")
    ] = None,
    domain: Annotated[
        list[str] | None,
        typer.Option("--domain", help="Whose prompts: code, mathematics, chat or summarisation; repeatable; code."),
    ] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", min=0.0, help="0, greedy, by default.")] = None,
    acceptance: Annotated[
        str | None,
        typer.Option("--acceptance", help="A profile for the forecast; by default measured before the run."),
    ] = None,
    arithmetic: Annotated[str | None, typer.Option("--arithmetic", help="fast, or exact, ref64 or naive.")] = None,
    replication: Annotated[
        int | None, typer.Option("--replication", min=1, max=64, help="The cost dial R of the target; 8.")
    ] = None,
    new_tokens: Annotated[int | None, typer.Option("--new-tokens", min=1, help="Of each request; 64.")] = None,
    prompts: Annotated[int | None, typer.Option("--prompts", min=1, help="Requests of a configuration; 12.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**53, help="Of everything that is drawn; 0.")
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", help="A specbook-hardware/1 file or a name, for the forecast; none without it."),
    ] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option("--baseline", help="Another engine's benchmark, to stand beside as external; repeatable."),
    ] = None,
    rounds: Annotated[Path | None, typer.Option("--rounds", help="A Parquet file of every round.")] = None,
    requests: Annotated[Path | None, typer.Option("--requests", help="A Parquet file of every request.")] = None,
    json: JsonFlag = False,
) -> None:
    """Decode on this machine and judge the prediction; exit code 0 for pass, 1 for fail or inconclusive."""
    choices = {
        "drafter": drafter,
        "draft_length": draft_length,
        "parents": tree,
        "cut": cut,
        "domains": domain,
        "temperature": temperature,
        "acceptance": acceptance,
        "arithmetic": arithmetic,
        "replication": replication,
        "new_tokens": new_tokens,
        "n_prompts": prompts,
        "seed": seed,
    }
    with naming_options():
        plan = _plan(config, {name: value for name, value in choices.items() if value is not None}, hardware)
    _check_files(out, rounds, requests, [*plan.files, *(baseline or [])])
    verdict = _witness(plan, out, {"rounds": rounds, "requests": requests}, baseline or [], json)
    if verdict != "pass":
        raise typer.Exit(1)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is run, and what it was made from."""

    config: WitnessConfig
    hardware: HardwareProfile | None
    inputs: tuple[InputRecord, ...]
    files: tuple[Path, ...]


def _witness(plan: _Plan, out: Path, tables: Mapping[str, Path | None], baselines: Sequence[Path], json: bool) -> str:
    from specbook.display.tables import say
    from specbook.display.witness_terminal import show_receipt
    from specbook.parquet import write_parquet
    from specbook.witness.external import read_external
    from specbook.witness.receipt import receipt_of, write_receipt

    external = [read_external(path) for path in baselines]
    note_kernels()
    result = _run(plan)
    receipt = receipt_of(result, plan.inputs, external)
    write_receipt(receipt, out)
    frames: dict[str, pl.DataFrame] = {"rounds": result.rounds, "requests": result.requests}
    written = {name: path for name, path in tables.items() if path is not None}
    for name, path in written.items():
        write_parquet(path, frames[name])
    if json:
        emit(receipt.model_dump(mode="json", by_alias=True))
    else:
        show_receipt(receipt)
        for path in (out, *written.values()):
            say(f"wrote {path}")
    return receipt.verdict


def _run(plan: _Plan) -> WitnessResult:
    from specbook.witness.jobs import n_steps
    from specbook.witness.run import run_witness

    total = n_steps(plan.config, forecast=plan.hardware is not None)
    try:
        with working("witnessing", total) as progress:
            return run_witness(plan.config, hardware=plan.hardware, progress=progress)
    except KeyboardInterrupt:
        note("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from None


def _check_files(out: Path, rounds: Path | None, requests: Path | None, inputs: Sequence[Path]) -> None:
    """Refuse outputs that cannot be written, or that would go over an input or each other."""
    wanted = {"--out": out, "--rounds": rounds, "--requests": requests}
    taken: dict[Path, str] = {}
    for option, path in wanted.items():
        if path is None:
            continue
        check_out(path, option, inputs)
        place = path.resolve()
        if place in taken:
            problem = f"is the file of {taken[place]}"
            raise BadInput(problem, field=option, value=str(path), remedy=f"choose another {option}")
        taken[place] = option


def _plan(path: Path | None, choices: Mapping[str, Any], hardware: str | None) -> _Plan:
    from specbook.witness.receipt_parts import file_input, model_input

    if path is None:
        file, folder = _from_options(choices), Path()
        inputs, files = [model_input("config", "options", file)], []
    else:
        file, folder = _from_file(path, choices), path.parent
        inputs, files = [file_input("config", path)], [path]
    config, named = _config(file, folder, path)
    profiles = [folder / each.acceptance for each in file.configurations if each.acceptance is not None]
    inputs += [file_input("acceptance", each) for each in profiles]
    profile = _hardware(hardware, named, path)
    name = hardware or named
    if name is not None and profile is not None:
        is_file = Path(name).is_file()
        inputs.append(file_input("hardware", Path(name)) if is_file else model_input("hardware", name, profile))
        files += [Path(name)] if is_file else []
    return _Plan(config=config, hardware=profile, inputs=tuple(inputs), files=(*files, *profiles))


def _config(file: WitnessConfigFile, folder: Path, path: Path | None) -> tuple[WitnessConfig, str | None]:
    """What a file asks for; where it is made of options, they have but one configuration to be wrong."""
    from specbook.witness.config_file import config_of
    from specbook.witness.jobs import prompts_of

    try:
        config, named = config_of(file, folder, None if path is None else str(path))
        prompts_of(config)  # refuses more prompts than a domain has
    except BadInput as error:
        if path is not None and error.file is None:
            raise error.at(str(path)) from None
        if path is not None or error.field is None:
            raise
        field = error.field.removeprefix("configurations.0.")
        raise BadInput(error.problem, remedy=error.remedy, field=field, value=error.value) from None
    return config, named


def _hardware(hardware: str | None, named: str | None, path: Path | None) -> HardwareProfile | None:
    """The profile that the option or the file names; None where neither does."""
    from specbook.hardware.profile import load_hardware

    if hardware is not None and named is not None:
        problem, remedy = "is named by --config too", "leave one of them out"
        raise BadInput(problem, field="hardware", value=hardware, remedy=remedy)
    if hardware is not None:
        return load_hardware(hardware)
    try:
        return None if named is None else load_hardware(named)
    except BadInput as error:
        raise error if error.file is not None else error.at(str(path)) from None


def _from_file(path: Path, choices: Mapping[str, Any]) -> WitnessConfigFile:
    from specbook.files import read_model
    from specbook.witness.config_file import WitnessConfigFile

    for name, value in choices.items():
        problem, remedy = "means nothing beside --config", "leave it out, or write it into the file"
        raise BadInput(problem, field=name, value=value, remedy=remedy)
    return read_model(path, WitnessConfigFile)


# Fields of a configuration; the others are of the whole run.
_OF_CONFIGURATION = ("drafter", "draft_length", "parents", "cut", "domains", "temperature", "acceptance")
_DRAFT_LENGTH = 4


def _from_options(choices: Mapping[str, Any]) -> WitnessConfigFile:
    """The file that the options amount to."""
    from pydantic import ValidationError

    from specbook.files import first_problem
    from specbook.witness.config_file import ConfigurationEntry, WitnessConfigFile

    if "drafter" not in choices:
        raise BadInput("is missing", field="--config", remedy="name a file, or a --drafter for a quick start")
    if "parents" in choices and "draft_length" in choices:
        remedy = "leave --draft-length out"
        raise BadInput("has a depth of its own", field="parents", value=choices["parents"], remedy=remedy)
    entry = {name: value for name, value in choices.items() if name in _OF_CONFIGURATION}
    if "parents" in entry:
        entry["parents"] = list(tree_of(entry["parents"]).parents)
    else:
        entry.setdefault("draft_length", _DRAFT_LENGTH)
    rest = {name: value for name, value in choices.items() if name not in _OF_CONFIGURATION}
    try:
        return WitnessConfigFile(configurations=[ConfigurationEntry(**entry)], **rest)
    except ValidationError as error:
        problem = first_problem(error, "", "see specbook witness --help")
        raise BadInput(problem.problem, remedy=problem.remedy, field=problem.field, value=problem.value) from None
