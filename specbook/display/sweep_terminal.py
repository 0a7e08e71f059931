"""A sweep on a terminal: the three configurations of each context, then where drafting pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.roofline.sweep import SweepResult

# More devices than this are summarised by their break-even batches alone.
_MOST_DEVICES = 3


def show_sweep(result: SweepResult) -> None:
    """Top three by role and break-even, for each target and precision; long catalogues show one context of roles."""
    say(f"{result.n_configurations:,} configurations, {result.front.height:,} on the fronts")
    for (target, precision), top in result.top.group_by("target", "precision", maintain_order=True):
        _show_roles(f"{target} {precision}", _worth_showing(top))
    for (target, precision), edges in result.break_even.group_by("target", "precision", maintain_order=True):
        name = f"{target} {precision}"
        _show_break_even(name, edges)
        _say_what_is_too_large(name, edges, result.top.filter(target=target, precision=precision))


def _say_what_is_too_large(name: str, edges: pl.DataFrame, top: pl.DataFrame) -> None:
    """Devices that have no role at any context, since not even the weights and the smallest batch fit."""
    fitting = set(top["hardware"])
    without = [device for device in edges["hardware"].unique(maintain_order=True) if device not in fitting]
    if without:
        say(f"{name}: nothing of this grid fits in the memory of {', '.join(without)}")


def _worth_showing(top: pl.DataFrame) -> pl.DataFrame:
    if top["hardware"].n_unique() <= _MOST_DEVICES:
        return top
    return top.filter(pl.col("context") == top["context"].min())


def _show_roles(name: str, top: pl.DataFrame) -> None:
    columns = (
        "domain",
        "hardware",
        ">context",
        "role",
        "drafter",
        ">draft",
        ">batch",
        ">speedup",
        ">ms/token",
        ">tokens/s",
    )
    shown = [column for column in columns if column != "domain" or top["domain"].null_count() < top.height]
    table = plain_table(*shown, title=f"{name}: top three by role")
    place: object = None
    for row in top.iter_rows(named=True):
        here = (row["domain"], row["hardware"], row["context"])
        cells = _role_cells(row, first=here != place)
        place = here
        table.add_row(*(safe_text(cells[column]) for column in shown))
    open_console().print(table)


def _role_cells(row: Mapping[str, Any], *, first: bool) -> dict[str, str]:
    nodes = "" if row["tree_nodes"] is None else f", {row['tree_nodes']} nodes"
    return {
        "domain": (row["domain"] or "–") if first else "",
        "hardware": row["hardware"] if first else "",
        ">context": f"{row['context']:,}" if first else "",
        "role": row["role"],
        "drafter": row["drafter"] or "none",
        ">draft": f"K = {row['draft_length']}{nodes}",
        ">batch": str(row["batch"]),
        ">speedup": f"{row['speedup']:.2f}{_ends(row['speedup_low'], row['speedup_high'])}",
        ">ms/token": f"{1e3 * row['tpot_s']:.2f}",
        ">tokens/s": f"{row['throughput_tokens_per_s']:,.0f}",
    }


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None or low == high else f" ({low:.2f} to {high:.2f})"


def _show_break_even(name: str, edges: pl.DataFrame) -> None:
    with_interval = bool(edges["has_interval"].any())
    domains = ["domain"] if edges["domain"].null_count() < edges.height else []
    intervals = [">interval"] if with_interval else []
    headings = [*domains, "hardware", ">context", ">pays from batch", ">to below batch", *intervals]
    table = plain_table(*headings, title=f"{name}: where some draft pays, memory apart")
    for row in edges.iter_rows(named=True):
        cells = [*(row["domain"] for _ in domains), row["hardware"], f"{row['context']:,}", _first(row), _edge(row, "")]
        if with_interval:
            cells.append(_interval(row))
        table.add_row(*map(safe_text, cells))
    open_console().print(table)


def _interval(row: Mapping[str, Any]) -> str:
    if not row["has_interval"]:
        return "–"
    ends = list(dict.fromkeys(_edge(row, end) for end in ("_low", "_high")))
    return " to ".join(ends)


def _first(row: Mapping[str, Any]) -> str:
    return "never" if row["first_paying_batch"] is None else str(row["first_paying_batch"])


def _edge(row: Mapping[str, Any], end: str) -> str:
    """The batch from which on nothing pays, or that the grid ends before it."""
    edge = row[f"break_even_batch{end}"]
    return f"over {row['largest_batch']}" if edge is None else str(edge)
