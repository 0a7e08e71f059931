"""A serving simulation on a terminal: latencies, then what came out, what was wasted, and how full the engine was."""

from __future__ import annotations

from collections.abc import Iterator

from specbook.display.tables import open_console, plain_table, safe_text, say
from specbook.serving.gate import GateVerdict, tail
from specbook.serving.percentiles import LatencySummary
from specbook.serving.slo import Slo
from specbook.serving.summary import ServingSummary
from specbook.serving_setup import ServingSetup

_LATENCIES = {
    "ttft_s": "time to first token (TTFT)",
    "tpot_s": "time per output token (TPOT)",
    "itl_s": "gap before a burst (ITL)",
    "e2e_s": "whole request",
    "wait_s": "waiting, of it",
}
_POINTS = ("p50", "p90", "p99", "mean")
# Latencies that reach this are shown in seconds.
_LONG_S = 10.0


def show_serving(
    setup: ServingSetup,
    summary: ServingSummary,
    slo: Slo,
    baseline: ServingSummary | None = None,
    verdict: GateVerdict | None = None,
) -> None:
    """Everything that a person reads of a run; the folder holds the rest.

    Parameters
    ----------
    setup : ServingSetup
    summary : ServingSummary
        Of its engine.
    slo : Slo
    baseline : ServingSummary or None
        Of the same engine without speculation, under the same load.
    verdict : GateVerdict or None
        On the two.
    """
    say(setup.kv_text)
    _show_latencies(_title(setup), summary)
    for line in _lines(summary, slo):
        say(line)
    if baseline is not None and verdict is not None:
        _show_comparison(_name(setup), summary, baseline, slo, verdict)


def _title(setup: ServingSetup) -> str:
    config = setup.config
    engines = f"{config.n_replicas} × " if config.n_replicas > 1 else ""
    return f"{engines}{config.scheduler}, {config.iteration_time.kind} step times, {_name(setup)}"


def _name(setup: ServingSetup) -> str:
    laws = setup.config.policy.laws
    if not any(law.n_nodes for law in laws):
        return "no speculation"
    lengths = " or ".join(str(law.draft_length) for law in laws)
    trees = [str(law.n_nodes) for law in laws if law.n_nodes != law.draft_length]
    return f"K = {lengths}" + (f", {' or '.join(trees)} nodes" if trees else "")


def _show_latencies(title: str, summary: ServingSummary) -> None:
    table = plain_table("latency", "unit", *(f">{point}" for point in _POINTS), title=title)
    for name, text in _LATENCIES.items():
        latency: LatencySummary = getattr(summary, name)
        unit, scale = _unit(latency)
        table.add_row(text, unit, *(safe_text(_scaled(getattr(latency, point), scale)) for point in _POINTS))
    open_console().print(table)


def _unit(latency: LatencySummary) -> tuple[str, float]:
    return ("s", 1.0) if (latency.p99 or 0.0) >= _LONG_S else ("ms", 1e3)


def _scaled(seconds: float | None, scale: float) -> str | None:
    return None if seconds is None else f"{scale * seconds:,.1f}"


def _lines(summary: ServingSummary, slo: Slo) -> Iterator[str]:
    rate = summary.throughput_requests_per_s
    yield (
        f"throughput {summary.throughput_tokens_per_s:,.0f} tokens/s, {rate:,.2f} requests/s: "
        f"{summary.n_requests:,} requests in {summary.wall_s:,.1f} s"
    )
    if summary.goodput_requests_per_s is not None:
        share = summary.goodput_requests_per_s / rate if rate else 0.0
        kept = ", ".join(f"{name.removesuffix('_s').upper()} ≤ {limit:g} s" for name, limit in slo.limits.items())
        yield f"goodput {summary.goodput_requests_per_s:,.2f} requests/s, {share:.1%} of them: {kept}"
    yield from _waste(summary)
    yield (
        f"KV cache {summary.mean_kv_use:.1%} in use, {summary.peak_kv_use:.1%} at most; {summary.n_preemptions:,} "
        f"preemptions; busy {summary.utilisation:.1%} of the time, mean batch {summary.mean_batch_size:,.1f} over "
        f"{summary.n_iterations:,} iterations"
    )
    if not summary.stable:
        yield "unstable: the load is above what the engine can serve, and latencies grow with its length"


def _waste(summary: ServingSummary) -> Iterator[str]:
    waste = summary.waste
    if not waste.drafted_tokens:
        return
    flops = "" if waste.rejected_flops is None else f", {waste.rejected_flops:.2g} FLOP of verify passes"
    yield (
        f"waste {waste.rejected_tokens:,} of {waste.drafted_tokens:,} drafted tokens, "
        f"{waste.rejected_tokens / waste.drafted_tokens:.1%}: {waste.rejected_slot_seconds:,.0f} slot-seconds of "
        f"cache{flops}"
    )


def _show_comparison(
    name: str, summary: ServingSummary, baseline: ServingSummary, slo: Slo, verdict: GateVerdict
) -> None:
    point = f"p{slo.percentile}"
    headings = [f">{text} {point} ms" for text in ("TTFT", "TPOT", "request")]
    title = "the same load and luck"
    table = plain_table("engine", *headings, ">tokens/s", ">goodput", ">busy", ">KV peak", title=title)
    for text, each in (("no speculation", baseline), (name, summary)):
        tails = [_scaled(tail(getattr(each, key), slo.percentile), 1e3) for key in ("ttft_s", "tpot_s", "e2e_s")]
        good = None if each.goodput_requests_per_s is None else f"{each.goodput_requests_per_s:,.2f}"
        rest = (f"{each.throughput_tokens_per_s:,.0f}", good, f"{each.utilisation:.1%}", f"{each.peak_kv_use:.1%}")
        table.add_row(*map(safe_text, (text, *tails, *rest)))
    open_console().print(table)
    reasons = "; ".join(verdict.reasons)
    say(f"{name} stays: nothing speaks against it" if verdict.stays else f"{name} is dropped: {reasons}")
