"""A funnel on a terminal: what each gate let through, what was simulated, where drafting pays, and the witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbook.display.funnel_rows import (
    COMPARISON,
    MOST_ROWS,
    WITNESS,
    comparison_row,
    gate_rows,
    handed_on_edges,
    headline,
    ranked,
    witness_reasons,
    witness_rows,
)
from specbook.display.tables import fitting_table, open_console, plain_table, safe_text, say
from specbook.display.terminal import paying_batches
from specbook.display.witness_terminal import control_text
from specbook.stages.plan import STAGE_NAMES
from specbook.stages.run import FunnelRun
from specbook.stages.witness import read_own_receipt

# Lines of break-even; more are in the file.
_MOST_EDGES = 12
# What a narrow terminal does without, the first of them first.
_SPARED = (">requests/s", ">projected", ">p90 TPOT ms")
_SPARED_FIGURES = (">speedup", ">forecast ms", ">simulated ms", ">its error")


def show_run(run: FunnelRun) -> None:
    """Everything that a person reads of a funnel; the folder holds the rest."""
    table = plain_table("stage", ">entered", ">left", "dropped", title="funnel")
    for cells in gate_rows(run):
        table.add_row(*map(safe_text, cells))
    open_console().print(table)
    if STAGE_NAMES[3] in run.gates:
        _show_comparison(run)
    _show_break_even(run)
    if run.document["witness"] is not None and run.document["witness"]["configurations"]:
        _show_witness(run)
    say(headline(run))


def _show_comparison(run: FunnelRun) -> None:
    frame = ranked(run)
    if frame.is_empty():
        return
    rows = [comparison_row(row) for row in frame.head(MOST_ROWS).iter_rows(named=True)]
    _print(rows, COMPARISON, _SPARED, "under the load")
    if frame.height > MOST_ROWS:
        say(f"{frame.height - MOST_ROWS} more in {run.folder / STAGE_NAMES[3] / 'comparison.parquet'}")


def _print(rows: Sequence[Sequence[str]], columns: Sequence[str], spared: Sequence[str], title: str) -> None:
    named: list[Mapping[str, object]] = [dict(zip(columns, row, strict=True)) for row in rows]
    open_console().print(fitting_table(named, spared=spared, title=title))


def _show_break_even(run: FunnelRun) -> None:
    """Where drafting pays on the devices and prompts that were handed on; on all of them if there are none."""
    edges = handed_on_edges(run) or run.document["break_even"]
    for row in edges[:_MOST_EDGES]:
        where = f"{row['domain']}, " if row["domain"] else ""
        say(f"{row['hardware']}, {where}context {row['context']:,}: {paying_batches(row)}")
    if len(edges) > _MOST_EDGES:
        say(f"{len(edges) - _MOST_EDGES} more in {run.folder / STAGE_NAMES[2] / 'break_even.parquet'}")


def _show_witness(run: FunnelRun) -> None:
    receipt = read_own_receipt(run.folder)
    if receipt is not None:
        _print(list(witness_rows(run)), WITNESS, _SPARED_FIGURES, "witness, P90 TPOT")
    for text in witness_reasons(run):
        say(text)
    if receipt is not None and not receipt.control.reasons:  # which the reasons of the verdicts have said already
        say(control_text(receipt.control))
