"""Tables on a terminal. Every word that comes from a file is shown as it is and never acted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from specbook.acceptance.library import library_series, published_sources
from specbook.acceptance.profile import AcceptanceProfile
from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.funnel import FunnelResult
from specbook.hardware.profile import Figure, HardwareProfile
from specbook.roofline.frontier import EVIDENCE
from specbook.roofline.model_spec import ModelSpec

_NARROW, _MEDIUM = 86, 106


def show_library(profiles: Mapping[str, AcceptanceProfile]) -> None:
    """The names by source; profiles that differ in their draft length alone share a line."""
    sources = {profile.provenance[0].key for profile in profiles.values()}
    titles = {key: f"{title} ({key})" for key, title in published_sources().items() if key in sources}
    for key, title in [(None, "Runs read from public files"), *titles.items()]:
        names = [name for name, profile in profiles.items() if profile.provenance[0].key == key]
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        for short, members in library_series(names).items():
            table.add_row(safe_text(f"  {short}"), safe_text(_in_brief([profiles[member] for member in members])))
        say(title)
        open_console().print(table)
    say("Mean lengths, bonus token included; or acceptance by position, where they say conditional.")
    say("specbook profile library NAME shows a profile; the beginning of a name lists all that begin like it.")


def _in_brief(profiles: Sequence[AcceptanceProfile]) -> str:
    first = profiles[0]
    if first.mean_acceptance_length is None:
        positions = first.conditional_acceptance or []
        return "conditional " + " ".join("–" if value is None else f"{value:.2f}" for value in positions)
    lengths = " ".join(f"{profile.mean_acceptance_length:.2f}" for profile in profiles)
    return lengths if first.tree is None else f"{lengths} tree"


def show_library_names(profiles: Mapping[str, AcceptanceProfile]) -> None:
    """One row a profile; on a narrow terminal without the labels that the names repeat."""
    columns = ["name", "target", "method", "domain", ">K", ">rounds", ">mean length"]
    if open_console().width < _MEDIUM:
        columns = [column for column in columns if column not in ("target", "domain")]
    table = plain_table(*columns, title="acceptance library")
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
        table.add_row(*(safe_text(cells[column]) for column in columns))
    open_console().print(table)


def show_profiles(profiles: Mapping[str, AcceptanceProfile]) -> None:
    """One row a profile: what it holds and how long its rounds are."""
    columns = ("profile", "evidence", ">K", ">rounds", ">prompts", ">mean length", "95 % interval")
    table = plain_table(*columns, title="profiles")
    for name, profile in profiles.items():
        intervals, length = profile.intervals, profile.mean_acceptance_length
        table.add_row(
            safe_text(name),
            safe_text(profile.evidence),
            safe_text(profile.draft_length),
            safe_text(None if profile.n_rounds is None else f"{profile.n_rounds:,}"),
            safe_text(None if intervals is None else intervals.n_prompts),
            safe_text(None if length is None else f"{length:.3f}"),
            safe_text(None if intervals is None else _range(intervals.mean_acceptance_length)),
        )
    open_console().print(table)


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


def show_hardware(devices: Sequence[HardwareProfile]) -> None:
    """One row a device, scaled to readable units; full names only where there is room."""
    figures = (">memory GB", ">peak GB/s", ">sustained GB/s", ">16-bit TFLOP/s")
    with_names = open_console().width >= _MEDIUM
    table = plain_table("name", *(["device"] if with_names else []), *figures, title="hardware")
    for device in devices:
        values = (
            _scaled(device.memory_bytes, 1e9),
            _scaled(device.peak_bandwidth_bytes_per_s, 1e9),
            _scaled(device.sustained_bandwidth_bytes_per_s, 1e9),
            _scaled(device.peak_flops_per_s.fp16, 1e12),
        )
        names = [device.name, device.device] if with_names else [device.name]
        table.add_row(*map(safe_text, [*names, *values]))
    open_console().print(table)


def _scaled(figure: Figure | None, unit: float) -> str:
    return "–" if figure is None else f"{figure.value / unit:,.0f}"


def show_models(specs: Sequence[ModelSpec]) -> None:
    """One row a model."""
    columns = ("name", ">parameters (1e9)", ">layers", ">KV kB/token", ">experts")
    table = plain_table(*columns, title="models, cache in 16 bits")
    for spec in specs:
        experts = f"{spec.n_experts_per_token} of {spec.n_experts}" if spec.n_experts > 1 else "–"
        sizes = (
            f"{spec.n_parameters / 1e9:.2f}",
            str(spec.n_layers),
            f"{spec.kv_bytes_per_token() / 1e3:.0f}",
            experts,
        )
        table.add_row(safe_text(spec.name), *sizes)
    open_console().print(table)


def show_profile(profile: AcceptanceProfile) -> None:
    """Labels, totals and acceptance by position."""
    console = open_console()
    facts = plain_table("", "")
    facts.show_header = False
    for label in ("target", "drafter", "method", "domain", "temperature", "draft_length", "evidence"):
        facts.add_row(label, safe_text(getattr(profile, label)))
    for label in ("n_rounds", "n_drafted_tokens", "n_accepted_tokens"):
        value = getattr(profile, label)
        facts.add_row(label, safe_text(None if value is None else f"{value:,}"))
    for label in ("mean_acceptance_length", "mean_acceptance_length_per_request", "draft_acceptance_rate"):
        facts.add_row(
            label, safe_text(_with_interval(getattr(profile, label), getattr(profile.intervals, label, None)))
        )
    if profile.intervals is not None:
        facts.add_row("intervals", safe_text(f"95 %, {profile.intervals.method} ({profile.intervals.n_prompts:,})"))
    console.print(facts)
    if profile.marginal_acceptance or profile.conditional_acceptance:
        console.print(_positions(profile))


def _with_interval(value: float | None, ends: tuple[float, float] | None) -> str | None:
    if value is None:
        return None
    return f"{value:.4f}" if ends is None else f"{value:.4f} ({ends[0]:.4f} to {ends[1]:.4f})"


_SHOWN_POSITIONS = 12


def _positions(profile: AcceptanceProfile) -> Table:
    marginal, conditional = profile.marginal_acceptance or [], profile.conditional_acceptance or []
    intervals = [] if profile.intervals is None else profile.intervals.marginal_acceptance
    n_positions = max(len(marginal), len(conditional))
    title = "acceptance by position" + (
        f" (first {_SHOWN_POSITIONS} of {n_positions})" if n_positions > _SHOWN_POSITIONS else ""
    )
    columns = [">position", ">marginal", *(["95 % interval"] if intervals else []), ">conditional"]
    table = plain_table(*columns, title=title)
    for index in range(min(n_positions, _SHOWN_POSITIONS)):
        cells = [vector[index] if index < len(vector) else None for vector in (marginal, conditional)]
        shown = [safe_text(None if cell is None else f"{cell:.4f}") for cell in cells]
        if intervals:
            shown.insert(1, safe_text(_range(intervals[index]) if index < len(intervals) else None))
        table.add_row(str(index + 1), *shown)
    return table


def show_ranking(result: FunnelResult, top: int) -> None:
    """The fastest draft lengths of each cell, then where speculation stops paying, then what the figures assume."""
    config = result.config
    device = config.hardware[0]
    title = (
        f"{device.device}: {config.target.name} {config.precision} with {result.grids[0].drafter_name} "
        f"{config.draft_precision}, {config.step_time}"
    )
    width = open_console().width
    left_out = (_ONLY_WIDE if width < _MEDIUM else set()) | (_ONLY_MEDIUM if width < _NARROW else set())
    columns = [column for column in _RANKING if column not in left_out]
    if result.ranking["domain"].null_count() == result.ranking.height:
        columns.remove("domain")
    table = plain_table(*columns, title=title)
    cell: object = None
    for row in result.ranking.iter_rows(named=True):
        place = tuple(row[name] for name in (*EVIDENCE, "context", "batch"))
        first, cell = place != cell, place
        if first or (row["rank"] is not None and row["rank"] <= top):
            cells = _ranking_cells(row, first)
            table.add_row(*(safe_text(cells[column]) for column in columns))
    open_console().print(table)
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
        ">K": _draft(row),
        ">tokens/round": f"{row['expected_tokens']:.2f}",
        ">speedup": f"{row['speedup']:.2f}",
        ">ms/token": f"{1e3 * row['tpot_s']:.2f}",
        ">tokens/s": f"{row['throughput_tokens_per_s']:,.0f}",
        ">KV GB": f"{row['kv_bytes'] / 1e9:.2f}",
        "bound by": row["regime"],
        "verdict": _verdict(row),
    }


def _draft(row: Mapping[str, Any]) -> str:
    """K of a chain; depth and nodes of a tree."""
    nodes = row["tree_nodes"]
    return str(row["draft_length"]) if nodes is None else f"{row['draft_length']}, {nodes} nodes"


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
    upto = f"{last:,}, the largest looked at" if beyond is None else f"{last:,}"
    largest = row["largest_fitting_batch"]
    fits = f"; it fits up to batch {largest:,}" if largest < row["max_batch"] else ""
    return f"drafting pays from batch {first:,} to {upto}{gaps}{fits}"


def show_notes(result: FunnelResult) -> None:
    """What the figures assume, a line each."""
    for note in result.notes:
        say(f"note: {note}")
