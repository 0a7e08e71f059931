"""A receipt on a terminal: what was predicted beside what the clock said, the machine, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specbook.display.tables import fitting_table, open_console, plain_table, safe_text, say
from specbook.hardware.readers.rows import counted
from specbook.witness.external import ExternalBaseline
from specbook.witness.receipt import Receipt
from specbook.witness.receipt_configuration import ConfigurationRecord
from specbook.witness.receipt_parts import ControlRecord, ErrorRecord, P90Record
from specbook.witness.verdict import error_text

# What a narrow terminal does without, the first of them first.
_INTERVAL = ">95 %"
_SPARED = (_INTERVAL, ">speedup")
# Latencies that a baseline line shows, the first that a file states.
_SHOWN_FIGURES = ("p90_tpot_ms", "mean_tpot_ms", "predicted_per_token_ms", "avg_ts", "t/s", "output_throughput")
_SHOWN_RUNS = 3
_SHORT = 12


def show_receipt(receipt: Receipt) -> None:
    """Everything that a person reads of a receipt; the file holds the rest."""
    for line in _conditions(receipt):
        say(line)
    rows = [row for each in receipt.configurations for row in _rows(each)]
    open_console().print(fitting_table(rows, spared=_SPARED, title="measured and predicted"))
    for each in receipt.configurations:
        for line in _told(each, receipt.control):
            say(line)
    say(control_text(receipt.control))
    for baseline in receipt.baselines:
        for line in _baseline(baseline):
            say(line)
    say(f"verdict {receipt.verdict}; receipt {receipt.receipt_sha256[:_SHORT]}…")


def _conditions(receipt: Receipt) -> Iterator[str]:
    it, host = receipt.attestation, receipt.attestation.host
    threads = counted(it.n_threads, "thread")
    yield (
        f"native run of specbook {it.specbook_version}, {receipt.date}: {it.arithmetic} arithmetic, "
        f"{it.blas_kernel} kernels, {threads}, cost dial R = {it.replication}"
    )
    yield f"{host.get('processor', 'unknown processor')}, {host.get('cores', '?')} cores, {host.get('memory', '?')}"


def _rows(record: ConfigurationRecord) -> Iterator[dict[str, str | None]]:
    """A configuration: what was measured, and each prediction below it."""
    measured, forecast = _row("measured", record.measured_p90_tpot_s), record.forecast
    speedup = record.speedup
    known = f"{speedup.value:.2f} [{speedup.low:.2f}, {speedup.high:.2f}]"
    yield measured | {"configuration": record.name, ">speedup": known, "verdict": record.verdict}
    yield _row("replay", record.simulated_p90_tpot_s, record.error)
    if forecast is not None:
        yield _row("forecast", forecast.p90_tpot_s, forecast.error) | {">speedup": f"{forecast.speedup:.2f}"}
    yield _row("no drafts", record.autoregressive_p90_tpot_s)


def _row(name: str, p90: P90Record, error: ErrorRecord | None = None) -> dict[str, str | None]:
    return {
        "configuration": "",
        "P90 TPOT": name,
        ">ms": _ms(p90.value),
        _INTERVAL: f"[{_ms(p90.low)}, {_ms(p90.high)}]",
        ">error": "" if error is None else error_text(error.value, error.low, error.high),
        ">speedup": "",
        "verdict": "",
    }


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f}"


def _told(record: ConfigurationRecord, control: ControlRecord) -> Iterator[str]:
    """Tokens, and what the verdict follows from where it is not the machine."""
    parity = record.parity
    equal = f"{parity.n_equal_tokens:,} of {parity.n_tokens:,} greedy tokens equal to those without drafts"
    tokens = equal if parity.why_not is None else f"tokens not compared: {parity.why_not}"
    reasons = [] if record.reasons == control.reasons else record.reasons
    yield f"{record.name}: {'; '.join([tokens, *reasons])}"
    if (fresh := record.fresh_probe) is not None:
        errors = f"the error would be {fresh.error_after:+.1%}, it is {fresh.error_before:+.1%}"
        yield f"{record.name}: with a fresh probe {errors}; the verdict stays"


def control_text(control: ControlRecord) -> str:
    """Whether the machine was quiet, and by which figures, in one line.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> control_text(stored_receipt("epyc-zen5-2core").control).startswith("machine quiet: steps without drafts ")
    True
    """
    found = control.as_control()
    medians = ", ".join(_ms(block.median_s) for block in found.blocks)
    load = "" if control.load_average is None else f", {control.load_average:.1f} processes ran"
    figures = f"steps without drafts {medians} ms, drift {found.drift:.0%}, spread {found.spread:.0%}{load}"
    return (
        f"machine quiet: {figures}" if found.is_quiet else f"machine not quiet: {'; '.join(control.reasons)}; {figures}"
    )


def _baseline(baseline: ExternalBaseline) -> Iterator[str]:
    """Runs of another engine, each by the first latency or rate that it states."""
    for run in baseline.runs[:_SHOWN_RUNS]:
        name = next((name for name in _SHOWN_FIGURES if name in run.figures), next(iter(run.figures)))
        model = "" if run.model is None else f" {run.model}"
        figure = f"{name} {run.figures[name]:g}"
        yield f"external, not run here: {baseline.engine}{model}, {baseline.file}, run {run.name}: {figure}"
    if len(baseline.runs) > _SHOWN_RUNS:
        yield f"external, not run here: {counted(len(baseline.runs) - _SHOWN_RUNS, 'more run')} of {baseline.file}"


def show_check(receipt: Receipt, files: Mapping[str, str | None], weights: Mapping[str, bool]) -> None:
    """What a check found.

    Parameters
    ----------
    receipt : Receipt
        Whose own hash and verdict hold.
    files : mapping of str to str or None
        File → the role in which it went into the run; None if it did not, as it is.
    weights : mapping of str to bool
        Model → whether the weights are those of this installation.
    """
    table = plain_table("checked", "found")
    table.add_row(safe_text("receipt"), safe_text(f"as it was written, {receipt.receipt_sha256[:_SHORT]}…"))
    table.add_row(safe_text("verdict"), safe_text(f"{receipt.verdict}, as its figures give it"))
    for name, role in files.items():
        found = "is none of the inputs as it is" if role is None else f"the {role} of the run"
        table.add_row(safe_text(name), safe_text(found))
    for model, same in weights.items():
        found = "those of this installation" if same else "others than this installation has"
        table.add_row(safe_text(f"weights of {model}"), safe_text(found))
    open_console().print(table)
