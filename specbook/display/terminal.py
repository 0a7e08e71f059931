"""Tables on a terminal. Every word that comes from a file is shown as it is and never acted on."""

from __future__ import annotations

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


def _console() -> Console:
    return Console(highlight=False, markup=False)


def _text(value: object) -> Text:
    """Text that the terminal shows and never acts on."""
    return Text("–" if value is None else printable(str(value)))


def say(text: str) -> None:
    """Print one line, escaped."""
    _console().print(_text(text), soft_wrap=True)


def show_library(profiles: Mapping[str, AcceptanceProfile]) -> None:
    """One row a profile."""
    table = _table("name", "target", "method", "domain", ">K", ">rounds", ">mean length", title="acceptance library")
    for known, profile in profiles.items():
        mean = f"{profile.mean_acceptance_length:.3f}" if profile.mean_acceptance_length else None
        rounds = None if profile.n_rounds is None else f"{profile.n_rounds:,}"
        labels = (known, profile.target, profile.method, profile.domain, profile.draft_length, rounds, mean)
        table.add_row(*map(_text, labels))
    _console().print(table)


def show_hardware(devices: Sequence[HardwareProfile]) -> None:
    """One row a device, scaled to readable units."""
    table = _table("name", "device", ">memory GB", ">peak GB/s", ">sustained GB/s", ">16-bit TFLOP/s", title="hardware")
    for device in devices:
        figures = (
            device.memory_bytes.value / 1e9,
            device.peak_bandwidth_bytes_per_s.value / 1e9,
            device.sustained_bandwidth_bytes_per_s.value / 1e9,
            device.peak_flops_per_s.fp16.value / 1e12,
        )
        table.add_row(_text(device.name), _text(device.device), *(f"{figure:,.0f}" for figure in figures))
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


def _table(*columns: str, title: str | None = None) -> Table:
    """A plain table; ``>`` before a heading aligns it to the right."""
    caption = None if title is None else Text(printable(title))
    table = Table(title=caption, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        heading = column.removeprefix(">")
        table.add_column(heading, justify="right" if column.startswith(">") else "left", overflow="fold")
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
    table = _table(
        "domain", ">context", ">batch", ">rank", ">K", ">tokens/round", ">speedup", ">ms/token", ">tokens/s", ">KV GB",
        "bound by", "verdict", title=title,
    )  # fmt: skip
    cell: object = None
    for row in result.ranking.iter_rows(named=True):
        place = tuple(row[name] for name in (*EVIDENCE, "context", "batch"))
        first, cell = place != cell, place
        if not first and (row["rank"] is None or row["rank"] > top):
            continue
        verdict = _verdict(row)
        where = (_text(row["domain"]), f"{row['context']:,}", str(row["batch"])) if first else ("", "", "")
        figures = (
            "–" if row["rank"] is None else str(row["rank"]),
            str(row["draft_length"]),
            f"{row['expected_tokens']:.2f}",
            f"{row['speedup']:.2f}",
            f"{1e3 * row['tpot_s']:.2f}",
            f"{row['throughput_tokens_per_s']:,.0f}",
            f"{row['kv_bytes'] / 1e9:.2f}",
        )
        table.add_row(*where, *figures, row["regime"], verdict)
    _console().print(table)
    _show_break_even(result)
    show_notes(result)


def _verdict(row: dict[str, Any]) -> str:
    if not row["fits_memory"]:
        return "does not fit"
    if row["draft_length"] == 0:
        return "bypass" if row["rank"] == 1 else "baseline"
    return "speculate" if row["viable"] else "slower"


def _show_break_even(result: FunnelResult) -> None:
    for row in result.break_even.iter_rows(named=True):
        batch = row["break_even_batch"]
        text = f"pays at every batch up to {row['max_batch']}" if batch is None else f"pays below batch {batch}"
        text = "never pays" if batch == 1 else text
        where = f"{row['domain']}, " if row["domain"] else ""
        say(f"{where}context {row['context']:,}: speculation {text}, memory capacity apart")


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
