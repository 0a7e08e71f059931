"""The command ``specbook parity``: the four gates on the shipped pair."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from specbook.checks import BadInput
from specbook.commands.output import JsonFlag, emit, working

if TYPE_CHECKING:
    from specbook.parity.gates import ParityConfig


class GateChoice(StrEnum):
    """Gates, or all of them."""

    greedy = "greedy"
    distribution = "distribution"
    rollback = "rollback"
    tree_mask = "tree-mask"
    every = "all"


class ArithmeticChoice(StrEnum):
    """Arithmetics, or all of them."""

    exact = "exact"
    fast = "fast"
    ref64 = "ref64"
    naive = "naive"
    every = "all"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("parity")(parity)


def parity(
    gate: Annotated[GateChoice, typer.Option(help="The gate to run.")] = GateChoice.every,
    tokens: Annotated[
        int,
        typer.Option(
            min=1, help="Tokens compared by greedy; a tenth as many samples and rollbacks, a hundredth as many trees."
        ),
    ] = 2000,
    arithmetic: Annotated[
        ArithmeticChoice, typer.Option(help="exact and ref64 demand equal bits, fast and naive equal tokens.")
    ] = ArithmeticChoice.exact,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="small, eagle, medusa, early_exit, prompt_lookup, ngram or lookahead; repeatable. Without it, all.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**53, help="Random seed.")] = 0,
    fault: Annotated[
        str | None, typer.Option(metavar="NAME", help="Plant this fault into the engine, to see the gates fail.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Check that speculation changes nothing but the time; exit code 1 if a gate fails."""
    from specbook.display.parity_terminal import show_parity
    from specbook.display.tables import say
    from specbook.measuring.subjects import own_prompt_tokens
    from specbook.parity.gates import run_parity

    config = _config(gate, arithmetic, drafter, tokens, seed)
    with _planted(fault), working("checking", config.n_steps) as advance:
        try:
            report = run_parity(config, own_prompt_tokens(), advance)
        except BadInput:
            raise
        except ValueError as error:
            raise BadInput(str(error), field="--tokens", value=tokens, remedy="compare fewer tokens") from None
    if json:
        emit({**report.to_json(), "fault": fault})
    else:
        if fault is not None:
            say(f"planted on purpose: {fault}")
        show_parity(report)
    if not report.passed:
        raise typer.Exit(1)


def _planted(fault: str | None) -> AbstractContextManager[object]:
    """The engine with a fault in it, or as it is."""
    from specbook.parity.faults import fault_names, planted

    if fault is None:
        return nullcontext()
    if fault not in fault_names():
        raise BadInput("no such fault", field="--fault", value=fault, remedy=f"one of {', '.join(fault_names())}")
    return planted(fault)


def _config(
    gate: GateChoice, arithmetic: ArithmeticChoice, drafters: list[str] | None, tokens: int, seed: int
) -> ParityConfig:
    from specbook.engine.arithmetic import ARITHMETICS
    from specbook.engine.library.drafters import DRAFTER_NAMES, drafter_name
    from specbook.parity.gates import ParityConfig
    from specbook.parity.report import GATE_NAMES

    for name in drafters or ():
        try:
            drafter_name(name)
        except ValueError:
            remedy = f"one of {', '.join(DRAFTER_NAMES)}"
            raise BadInput("no such drafter", field="--drafter", value=name, remedy=remedy) from None
    return ParityConfig(
        gates=tuple(name for name in GATE_NAMES if gate.value in (name, "all")),
        arithmetics=tuple(name for name in ARITHMETICS if arithmetic.value in (name, "all")),
        drafters=tuple(drafters or DRAFTER_NAMES),
        n_tokens=tokens,
        seed=seed,
    )
