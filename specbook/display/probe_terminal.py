"""A probe on a terminal: bandwidth, rates, what a verify pass costs, and the matrix of passes."""

from __future__ import annotations

from collections.abc import Mapping

from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.hardware.probe.backend import STREAM_KERNELS
from specbook.hardware.probe.models import DIALLED, SCRATCH_MODELS, head_weights, layer_weights
from specbook.hardware.probe_record import PassTime, ProbeRecord, Spread
from specbook.hardware.profile import HardwareProfile

_VERIFY_WIDTH = 5


def show_probe(profile: HardwareProfile) -> None:
    """Everything that a person reads of a probe; the file holds the rest."""
    record = profile.probe
    if record is None:
        raise ValueError(f"profile {profile.name} holds no probe; got one of the catalogue")
    _show_conditions(profile, record)
    _show_rates(profile, record)
    _show_verify(record)
    _show_passes(record)


def _show_conditions(profile: HardwareProfile, record: ProbeRecord) -> None:
    blas, threads = record.blas, record.blas["threads"]
    used = "1 thread" if threads == 1 else f"{threads} threads"
    say(f"{profile.name}: {profile.device}, {used} of {record.n_processors} processors")
    say(f"{blas['library']} {blas['version']}, {blas['kernel']} kernels; specbook {record.specbook}, {record.date}")
    sizes = f"arrays of {record.array_bytes / 1e6:,.0f} MB, scratch of {record.scratch_bytes / 1e6:,.0f} MB at most"
    say(f"{record.wall_s:.1f} s of {record.budget_s:g} s; {sizes}")
    say(f"noise {record.noise:.1%} of the median, bandwidth at the end ÷ at the start {record.drift:.2f}")


def _show_rates(profile: HardwareProfile, record: ProbeRecord) -> None:
    table = plain_table("measured", ">median", ">10 %", ">90 %", ">n", "unit", title="rates")
    rows: dict[str, tuple[Spread, float, str]] = {
        name: (getattr(record.bandwidth, f"{name}_bytes_per_s"), 1e9, "GB/s") for name in STREAM_KERNELS
    }
    rows["large product"] = (record.matmul_flops_per_s, 1e9, "GFLOP/s")
    rows["call of no size"] = (record.call_overhead_s, 1e-6, "µs")
    for name, (spread, unit, symbol) in rows.items():
        scaled = [f"{value / unit:,.2f}" for value in (spread.median, spread.low, spread.high)]
        table.add_row(name, *scaled, str(spread.n), symbol)
    open_console().print(table)
    peak = profile.peak_bandwidth_bytes_per_s
    if peak is not None:
        say(f"MBU {profile.mbu:.2f}: read ÷ {peak.value / 1e9:,.1f} GB/s ({peak.source})")


def _show_verify(record: ProbeRecord) -> None:
    """Verify passes of five rows beside single steps, in every arithmetic."""
    columns = ("arithmetic", ">weights, 1 row ms", ">5 rows ÷ 1", ">pass, 1 row ms", ">5 rows ÷ 1")
    table = plain_table(*columns, title=f"{DIALLED}: verify(5) ÷ step(1), batch 1")
    passes = {(p.arithmetic, p.width): p.seconds.median for p in _smallest(record)}
    for arithmetic in dict.fromkeys(time.arithmetic for time in record.products):
        weights = _weights_s(record, arithmetic)
        whole = {rows: passes[arithmetic, rows] for rows in (1, _VERIFY_WIDTH) if (arithmetic, rows) in passes}
        table.add_row(*map(safe_text, (arithmetic, *_cells(weights), *_cells(whole))))
    if table.row_count:
        open_console().print(table)


def _cells(seconds: Mapping[int, float]) -> tuple[str | None, str | None]:
    if 1 not in seconds:
        return None, None
    ratio = f"{seconds[_VERIFY_WIDTH] / seconds[1]:.2f}" if _VERIFY_WIDTH in seconds else None
    return f"{1e3 * seconds[1]:.2f}", ratio


def _smallest(record: ProbeRecord) -> list[PassTime]:
    """Passes at batch 1 over the shortest context."""
    single = [time for time in record.passes if time.model == DIALLED and time.batch == 1]
    shortest = min((time.context for time in single), default=0)
    return [time for time in single if time.context == shortest]


def _weights_s(record: ProbeRecord, arithmetic: str) -> dict[int, float]:
    """Seconds of all products of a pass by rows, where each of its matrices was measured."""
    spec = SCRATCH_MODELS[DIALLED]
    found = {
        (time.n_out, time.n_in, time.rows): time.seconds.median
        for time in record.products
        if time.arithmetic == arithmetic
    }
    counted = {(head_weights(spec).n_out, head_weights(spec).n_in): 1}
    counted |= {(weights.n_out, weights.n_in): spec.n_layers for weights in layer_weights(spec)}
    return {
        rows: sum(n * found[*shape, rows] for shape, n in counted.items())
        for rows in (1, _VERIFY_WIDTH)
        if all((*shape, rows) in found for shape in counted)
    }


def _show_passes(record: ProbeRecord) -> None:
    """One table a model: batch and context down, widths across, milliseconds."""
    for model in dict.fromkeys(time.model for time in record.passes):
        times = [time for time in record.passes if time.model == model]
        widths = sorted({time.width for time in times})
        columns = [f">width {width}" for width in widths]
        table = plain_table("arithmetic", ">batch", ">context", *columns, title=f"{model}: ms a pass")
        rows: dict[tuple[str, int, int], dict[int, float]] = {}
        for time in times:
            rows.setdefault((time.arithmetic, time.batch, time.context), {})[time.width] = time.seconds.median
        for (arithmetic, batch, context), seconds in rows.items():
            cells = [f"{1e3 * seconds[width]:,.2f}" if width in seconds else None for width in widths]
            table.add_row(*map(safe_text, (arithmetic, batch, f"{context:,}", *cells)))
        open_console().print(table)
