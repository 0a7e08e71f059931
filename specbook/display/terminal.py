"""Tables on a terminal. Every word that comes from a file is shown as it is and never acted on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specbook.acceptance.profile import AcceptanceProfile
from specbook.checks import printable
from specbook.funnel import FunnelResult
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.frontier import EVIDENCE
from specbook.roofline.model_spec import ModelSpec

# Wide enough for every table when nobody says how wide the output is, as in a pipe or a file.
_WIDTH_OFF_TERMINAL = 120
_NARROW, _MEDIUM = 86, 106


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, markup=False, width=_WIDTH_OFF_TERMINAL)
    return console


def _text(value: object) -> Text:
    """Text that the terminal shows and never acts on."""
    return Text("–" if value is None else printable(str(value)))


def say(text: str) -> None:
    """Print one line, escaped."""
    _console().print(_text(text), soft_wrap=True)


def show_library(profiles: Mapping[str, AcceptanceProfile]) -> None:
    """One row a profile; on a narrow terminal without the labels that the names repeat."""
    columns = ["name", "target", "method", "domain", ">K", ">rounds", ">mean length"]
    if _console().width < _MEDIUM:
        columns = [column for column in columns if column not in ("target", "domain")]
    table = _table(*columns, title="acceptance library")
    for known, profile in profiles.items():
        cells = {
            "name": known,
            "target": profile.target,
            "method": profile.method,
            "domain": profile.domain,
            ">K": profile.draft_length,
            ">rounds": None if profile.n_rounds is None else f"{profile.n_rounds:,}",
            ">mean length": f"{profile.mean_acceptance_length:.3f}" if profile.mean_acceptance_length else None,
        }
        table.add_row(*(_text(cells[column]) for column in columns))
    _console().print(table)


def show_hardware(devices: Sequence[HardwareProfile]) -> None:
    """One row a device, scaled to readable units; full names only where there is room."""
    figures = (">memory GB", ">peak GB/s", ">sustained GB/s", ">16-bit TFLOP/s")
    with_names = _console().width >= _MEDIUM
    table = _table("name", *(["device"] if with_names else []), *figures, title="hardware")
    for device in devices:
        values = (
            device.memory_bytes.value / 1e9,
            device.peak_bandwidth_bytes_per_s.value / 1e9,
            device.sustained_bandwidth_bytes_per_s.value / 1e9,
            device.peak_flops_per_s.fp16.value / 1e12,
        )
        names = [device.name, device.device] if with_names else [device.name]
        table.add_row(*map(_text, names), *(f"{value:,.0f}" for value in values))
    _console().print(table)


def show_models(specs: Sequence[ModelSpec]) -> None:
    """One row a model."""
    table = _table("name", ">parameters (1e9)", ">layers", ">KV kB/token", ">experts", title="models, cache in 16 bits")
    for spec in specs:
        experts = f"{spec.n_experts_per_token} of {spec.n_experts}" if spec.n_experts > 1 else "–"
        sizes = (
            f"{spec.n_parameters / 1e9:.2f}",
            str(spec.n_layers),
            f"{spec.kv_bytes_per_token() / 1e3:.0f}",
            experts,
        )
        table.add_row(_text(spec.name), *sizes)
    _console().print(table)


# Columns that may break into lines when the terminal is narrow; names and numbers never do.
_WRAPPING = {"device", "dropped", "target", ""}


def _table(*columns: str, title: str | None = None) -> Table:
    """A plain table; ``>`` before a heading aligns it to the right."""
    caption = None if title is None else Text(printable(title))
    table = Table(
        title=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        collapse_padding=True,
    )
    for column in columns:
        heading = column.removeprefix(">")
        wraps = heading in _WRAPPING
        table.add_column(
            heading, justify="right" if column.startswith(">") else "left", no_wrap=not wraps, overflow="fold"
        )
    return table


def show_profile(profile: AcceptanceProfile) -> None:
    """Labels, totals and acceptance by position."""
    console = _console()
    facts = _table("", "")
    facts.show_header = False
    for label in ("target", "drafter", "method", "domain", "temperature", "draft_length", "evidence"):
        facts.add_row(label, _text(getattr(profile, label)))
    for label in ("n_rounds", "n_drafted_tokens", "n_accepted_tokens"):
        value = getattr(profile, label)
        facts.add_row(label, _text(None if value is None else f"{value:,}"))
    for label in ("mean_acceptance_length", "mean_acceptance_length_per_request", "draft_acceptance_rate"):
        value = getattr(profile, label)
        facts.add_row(label, _text(None if value is None else f"{value:.4f}"))
    console.print(facts)
    marginal, conditional = profile.marginal_acceptance or [], profile.conditional_acceptance or []
    if marginal or conditional:
        console.print(_positions(marginal, conditional))


_SHOWN_POSITIONS = 12


def _positions(marginal: Sequence[float], conditional: Sequence[float | None]) -> Table:
    n_positions = max(len(marginal), len(conditional))
    title = "acceptance by position" + (
        f" (first {_SHOWN_POSITIONS} of {n_positions})" if n_positions > _SHOWN_POSITIONS else ""
    )
    table = _table(">position", ">marginal", ">conditional", title=title)
    for index in range(min(n_positions, _SHOWN_POSITIONS)):
        cells = [vector[index] if index < len(vector) else None for vector in (marginal, conditional)]
        table.add_row(str(index + 1), *(_text(None if cell is None else f"{cell:.4f}") for cell in cells))
    return table


def show_ranking(result: FunnelResult, top: int) -> None:
    """The fastest draft lengths of each cell, then where speculation stops paying, then what the figures assume."""
    config = result.config
    device = config.hardware[0]
    title = (
        f"{device.device}: {config.target.name} {config.precision} with {config.draft.name} {config.draft_precision}"
    )
    width = _console().width
    left_out = (_ONLY_WIDE if width < _MEDIUM else set()) | (_ONLY_MEDIUM if width < _NARROW else set())
    columns = [column for column in _RANKING if column not in left_out]
    if result.ranking["domain"].null_count() == result.ranking.height:
        columns.remove("domain")
    table = _table(*columns, title=title)
    cell: object = None
    for row in result.ranking.iter_rows(named=True):
        place = tuple(row[name] for name in (*EVIDENCE, "context", "batch"))
        first, cell = place != cell, place
        if first or (row["rank"] is not None and row["rank"] <= top):
            cells = _ranking_cells(row, first)
            table.add_row(*(_text(cells[column]) for column in columns))
    _console().print(table)
    _show_break_even(result)
    show_notes(result)


_RANKING = (
    "domain", ">context", ">batch", ">rank", ">K", ">tokens/round", ">speedup", ">ms/token", ">tokens/s", ">KV GB",
    "bound by", "verdict",
)  # fmt: skip
_ONLY_WIDE = {">tokens/round", ">KV GB"}
_ONLY_MEDIUM = {">rank", "bound by"}


def _ranking_cells(row: Mapping[str, Any], first: bool) -> dict[str, str]:
    return {
        "domain": (row["domain"] or "–") if first else "",
        ">context": f"{row['context']:,}" if first else "",
        ">batch": str(row["batch"]) if first else "",
        ">rank": "–" if row["rank"] is None else str(row["rank"]),
        ">K": str(row["draft_length"]),
        ">tokens/round": f"{row['expected_tokens']:.2f}",
        ">speedup": f"{row['speedup']:.2f}",
        ">ms/token": f"{1e3 * row['tpot_s']:.2f}",
        ">tokens/s": f"{row['throughput_tokens_per_s']:,.0f}",
        ">KV GB": f"{row['kv_bytes'] / 1e9:.2f}",
        "bound by": row["regime"],
        "verdict": _verdict(row),
    }


def _verdict(row: Mapping[str, Any]) -> str:
    if not row["fits_memory"]:
        return "does not fit"
    if row["draft_length"] == 0:
        return "bypass" if row["rank"] == 1 else "baseline"
    return "speculate" if row["viable"] else "slower"


def _show_break_even(result: FunnelResult) -> None:
    for row in result.break_even.iter_rows(named=True):
        where = f"{row['domain']}, " if row["domain"] else ""
        say(f"{where}context {row['context']:,}: {paying_batches(row)}")


def paying_batches(row: Mapping[str, Any]) -> str:
    """A row of break-even in words: where drafting pays, and up to where it fits.

    Examples
    --------
    >>> row = {"first_paying_batch": 3, "break_even_batch": 80, "n_paying_batches": 77, "max_batch": 1024}
    >>> paying_batches(row | {"largest_fitting_batch": 40})
    'drafting pays from batch 3 to 79; it fits up to batch 40'
    """
    first, beyond = row["first_paying_batch"], row["break_even_batch"]
    if row["largest_fitting_batch"] == 0:
        return "nothing fits in memory"
    if first is None:
        return "drafting never pays"
    last = row["max_batch"] if beyond is None else beyond - 1
    gaps = "" if row["n_paying_batches"] == last - first + 1 else ", with gaps"
    upto = f"{last:,} and beyond" if beyond is None else f"{last:,}"
    largest = row["largest_fitting_batch"]
    fits = f"; it fits up to batch {largest:,}" if largest < row["max_batch"] else ""
    return f"drafting pays from batch {first:,} to {upto}{gaps}{fits}"


def show_gates(result: FunnelResult) -> None:
    """How many configurations entered and left each stage, and why."""
    table = _table("stage", ">entered", ">left", "dropped", title="funnel")
    for gate in result.gates:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in gate.dropped.items() if count)
        table.add_row(gate.stage, f"{gate.entered:,}", f"{gate.left:,}", _text(reasons or "–"))
    _console().print(table)


def show_notes(result: FunnelResult) -> None:
    """What the figures assume, a line each."""
    for note in result.notes:
        say(f"note: {note}")
