"""Tables of the cycle simulator on a terminal: simulated figures beside exact ones."""

from __future__ import annotations

from typing import Any

import polars as pl

from specbook.acceptance.cycle_audit import best_row, losing, optimal_draft_lengths
from specbook.acceptance.cycle_config import CycleConfig
from specbook.acceptance.cycles import CyclesResult
from specbook.acceptance.draft_models import draft_model_parameters
from specbook.display.tables import open_console, plain_table, safe_text, say


def show_cycles(result: CyclesResult) -> None:
    """One configuration: what was simulated, its interval, and the exact value."""
    config = result.config
    say(_description(config))
    table = plain_table("", ">simulated", ">95 % interval", ">exact")
    for label, *cells in _figures(result):
        table.add_row(label, *(safe_text(cell) for cell in cells))
    open_console().print(table)
    say(f"endless sequences, whose last round is not cut: speedup {result.untruncated_speedup:.4f}")


def _description(config: CycleConfig) -> str:
    known = {name: value for name, value in draft_model_parameters(config.draft_model).items() if value is not None}
    model = known.pop("draft_model")
    words = ", ".join(f"{name} {value}" for name, value in known.items())
    costs = f"draft {1e6 * config.draft_s:g} µs, verify {1e6 * config.verify_s:g} µs"
    size = f"{config.n_sequences:,} sequences of {config.tokens_per_sequence:,} tokens"
    return f"{model} ({words}), K {config.draft_length}, {costs}; {size}, seed {config.seed}"


def _figures(result: CyclesResult) -> list[tuple[str | None, ...]]:
    """Label, simulated, interval, exact."""
    row = result.row()
    emitted = result.config.tokens_per_sequence / result.expected_rounds
    simulated = [
        ("speedup", row["speedup"], _span(row, "speedup"), row["expected_speedup"]),
        ("rounds a sequence", row["mean_rounds"], _span(row, "mean_rounds"), row["expected_rounds"]),
        ("tokens a whole round", row["mean_acceptance_length"], None, row["expected_tokens"]),
        ("tokens a round, last one cut", row["emitted_tokens_per_round"], None, emitted),
        ("draft acceptance rate", row["draft_acceptance_rate"], None, row["expected_draft_acceptance_rate"]),
        ("waste, rejected ÷ drafted", row["waste"], None, row["expected_waste"]),
        ("overhead, drafting ÷ round", None, None, row["overhead"]),
    ]
    return [(label, _four(value), span, _four(exact)) for label, value, span, exact in simulated]


def _four(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _span(row: dict[str, Any], name: str) -> str | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else f"{low:.4f} to {high:.4f}"


def show_sweep(sweep: pl.DataFrame) -> None:
    """The best configuration, how many lose, and the fastest draft lengths of the fixed model."""
    best = best_row(sweep)
    place = f"{best['draft_model']}, K {best['draft_length']}, acceptance {best['swept_acceptance']:g}"
    speedups = f"{best['speedup']:.2f}×, exact {best['expected_speedup']:.2f}×"
    say(f"fastest: {speedups}: {place}, draft {1e6 * best['draft_s']:g} µs")
    n_losing, exact = losing(sweep, "speedup").height, losing(sweep).height
    say(f"slower than no drafts: {n_losing} of {sweep.height} ({n_losing / sweep.height:.1%}; exact {exact})")
    distinct = sweep.unique(sweep.columns[2 : sweep.columns.index("seed")]).height
    if distinct < sweep.height:
        say(f"{distinct} of the configurations differ: acceptance varies for the fixed model only")
    _show_optima(optimal_draft_lengths(sweep.filter(pl.col("draft_model") == "fixed")))


def _show_optima(optima: pl.DataFrame) -> None:
    costs = optima["draft_s"].unique().sort().to_list()
    columns = [f">{1e6 * cost:g} µs" for cost in costs]
    say("fastest K of the fixed model by acceptance and draft cost, exact; – where every K loses")
    table = plain_table(">acceptance", *columns)
    for (acceptance,), rows in optima.group_by("swept_acceptance", maintain_order=True):
        table.add_row(
            f"{acceptance:g}", *(safe_text(best or None) for best in rows.sort("draft_s")["best_draft_length"])
        )
    open_console().print(table)
