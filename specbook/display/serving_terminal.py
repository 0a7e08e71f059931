"""A serving simulation on a terminal: latencies, then what came out, what was wasted, and how full the engine was."""

from __future__ import annotations

from collections.abc import Iterator

from specbook.display.tables import fitting_table, open_console, say
from specbook.hardware.readers.rows import counted
from specbook.serving.draft_policy import policy_in_words
from specbook.serving.gate import GateVerdict, tail
from specbook.serving.percentiles import LatencySummary
from specbook.serving.serving_config import ServingConfig
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
# What a narrow terminal does without, the first of them first.
_SPARED_POINTS = (">mean", ">p50")
_SPARED_FIGURES = (">KV peak", ">busy", ">goodput", ">tokens/s")
# Latencies that reach this are shown in seconds.
_LONG_S = 10.0
# Of fewer requests, p99 is made of the largest values alone.
_FEW_REQUESTS = 100


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
    unstable = instability(summary, setup.config)
    for line in (*_certainty(summary, slo), *_lines(summary, slo)):
        say(line)
    if baseline is None or verdict is None:
        if unstable is not None:
            say(unstable)
        return
    name = policy_in_words(setup.config.policy)
    _show_comparison(name, summary, baseline, slo)
    if not baseline.stable:
        say("no speculation is itself unstable under this load: tails were not compared with it")
    say(_judgement(name, verdict, unstable))


def instability(summary: ServingSummary, config: ServingConfig) -> str | None:
    """Why a run says nothing of a longer one, in one line; None if it was stable."""
    if summary.stable:
        return None
    if summary.n_unfinished:
        return f"unstable: stopped with more than {config.max_waiting:,} waiting at a replica"
    return "unstable: the load is above what the engine can serve, and latencies grow with its length"


def _judgement(name: str, verdict: GateVerdict, unstable: str | None) -> str:
    if verdict.stays:
        return f"{name} stays: nothing speaks against it"
    found = [reason for reason in verdict.reasons if unstable is None or not reason.startswith("unstable")]
    return f"{name} is dropped: {'; '.join(found if unstable is None else [unstable, *found])}"


def _title(setup: ServingSetup) -> str:
    config = setup.config
    engines = f"{config.n_replicas} × " if config.n_replicas > 1 else ""
    return f"{engines}{config.scheduler}, {config.iteration_time.kind} step times, {policy_in_words(config.policy)}"


def _show_latencies(title: str, summary: ServingSummary) -> None:
    rows = []
    for name, text in _LATENCIES.items():
        latency: LatencySummary = getattr(summary, name)
        unit, scale = _unit(latency.p99)
        points = {f">{point}": _scaled(getattr(latency, point), scale) for point in _POINTS}
        rows.append({"latency": text, "unit": unit, **points})
    open_console().print(fitting_table(rows, spared=_SPARED_POINTS, title=title))


def _unit(*seconds: float | None) -> tuple[str, float]:
    """The unit in which people read such times, and how many of it are a second."""
    return ("s", 1.0) if max((each or 0.0 for each in seconds), default=0.0) >= _LONG_S else ("ms", 1e3)


def _scaled(seconds: float | None, scale: float) -> str | None:
    return None if seconds is None else f"{scale * seconds:,.1f}"


def _certainty(summary: ServingSummary, slo: Slo) -> Iterator[str]:
    """What keeps a person from reading noise as a difference."""
    if 0 < summary.n_requests < _FEW_REQUESTS:
        yield f"p99 of {counted(summary.n_requests, 'request')} is made of the largest one or two values"
    point = f"p{slo.percentile}"
    known = []
    for name in ("ttft_s", "tpot_s"):
        ends = getattr(getattr(summary, name), f"{point}_interval")
        if ends is not None:
            unit, scale = _unit(ends[1])
            known.append(f"{point} {_short(name)} {_scaled(ends[0], scale)} to {_scaled(ends[1], scale)} {unit}")
    if known:
        yield f"95 % intervals: {', '.join(known)}"


def _short(name: str) -> str:
    return name.removesuffix("_s").upper()


def _lines(summary: ServingSummary, slo: Slo) -> Iterator[str]:
    rate = summary.throughput_requests_per_s
    unfinished = f", {summary.n_unfinished:,} more had arrived and not ended" if summary.n_unfinished else ""
    yield (
        f"throughput {summary.throughput_tokens_per_s:,.0f} tokens/s, {rate:,.2f} requests/s: "
        f"{counted(summary.n_requests, 'request')} in {summary.wall_s:,.1f} s{unfinished}"
    )
    if summary.goodput_requests_per_s is not None:
        share = summary.goodput_requests_per_s / rate if rate else 0.0
        kept = ", ".join(f"{_short(name)} ≤ {limit:g} s" for name, limit in slo.limits.items())
        yield f"goodput {summary.goodput_requests_per_s:,.2f} requests/s, {share:.1%} of them: {kept}"
    yield from _waste(summary)
    yield (
        f"KV cache {summary.mean_kv_use:.1%} in use, {summary.peak_kv_use:.1%} at most; "
        f"{counted(summary.n_preemptions, 'preemption')}; busy {summary.utilisation:.1%} of the time, mean batch "
        f"{summary.mean_batch_size:,.1f} over {counted(summary.n_iterations, 'iteration')}"
    )


def _waste(summary: ServingSummary) -> Iterator[str]:
    waste = summary.waste
    if not waste.drafted_tokens:
        return
    flops = "" if waste.rejected_flops is None else f", {waste.rejected_flops:.2g} FLOP of verify passes"
    yield (
        f"waste {waste.rejected_tokens:,} of {counted(waste.drafted_tokens, 'drafted token')}, "
        f"{waste.rejected_tokens / waste.drafted_tokens:.1%}: {waste.rejected_slot_seconds:,.0f} slot-seconds of "
        f"cache{flops}"
    )


def _show_comparison(name: str, summary: ServingSummary, baseline: ServingSummary, slo: Slo) -> None:
    point = f"p{slo.percentile}"
    engines = {"no speculation": baseline, name: summary}
    rows: list[dict[str, str | None]] = [{"engine": text} for text in engines]
    for key, text in (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("e2e_s", "request")):
        tails = [tail(getattr(each, key), slo.percentile) for each in engines.values()]
        unit, scale = _unit(*tails)
        for row, seconds in zip(rows, tails, strict=True):
            row[f">{text} {point} {unit}"] = _scaled(seconds, scale)
    for row, each in zip(rows, engines.values(), strict=True):
        good = each.goodput_requests_per_s
        row[">tokens/s"] = f"{each.throughput_tokens_per_s:,.0f}"
        row[">goodput"] = None if good is None else f"{good:,.2f}"
        row[">busy"], row[">KV peak"] = f"{each.utilisation:.1%}", f"{each.peak_kv_use:.1%}"
    open_console().print(fitting_table(rows, spared=_SPARED_FIGURES, title="the same load and luck"))
