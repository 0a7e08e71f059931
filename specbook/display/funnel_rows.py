"""What people read of a funnel, as rows of words: one place for the terminal, the report and the book."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from specbook.stages.plan import STAGE_NAMES, THINGS
from specbook.stages.run import FunnelRun
from specbook.stages.serving import read_comparison

# More rows of the comparison are in its file.
MOST_ROWS = 24


def headline(run: FunnelRun) -> str:
    """What came out, in one sentence.

    Examples
    --------
    >>> from pathlib import Path
    >>> from specbook.stage_folder import Gate
    >>> gates = {"4-serving": Gate(entered=4, left=2, dropped={"too slow": 2})}
    >>> headline(FunnelRun(folder=Path(), gates=gates, document={"handed_on": [{}, {}], "witness": None}))
    '2 configurations are left after the load.'
    """
    document = run.document
    if STAGE_NAMES[3] not in run.gates:
        last = list(run.gates)[-1]
        return f"{run.gates[last].left:,} {THINGS[last]} are left after stage {last[0]}."
    n = len(document["handed_on"])
    left = f"{n} configuration{'' if n == 1 else 's'} {'is' if n == 1 else 'are'} left after the load"
    if document["witness"] is None or not n:
        return f"{left if n else 'No configuration is left: do not speculate there'}."
    return f"{left}; {_verdicts(document['witness']['configurations'])}."


def _verdicts(outcomes: list[dict[str, Any]]) -> str:
    """How many of each verdict."""
    texts = {
        "pass": "passed the witness",
        "fail": "failed the witness",
        "inconclusive": "could not be judged on this machine",
        "not witnessed": "cannot be run by the native engine here",
    }
    counts = {name: sum(each["verdict"] == name for each in outcomes) for name in texts}
    return ", ".join(f"{count} {texts[name]}" for name, count in counts.items() if count)


def gate_rows(run: FunnelRun) -> Iterator[tuple[str, str, str, str]]:
    """Stage with what goes through it, how many entered and left, and why the others did not."""
    for name, gate in run.gates.items():
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in gate.dropped.items() if count)
        yield f"{name.replace('-', ' ', 1)}, {THINGS[name]}", f"{gate.entered:,}", f"{gate.left:,}", reasons or "–"


def ranked(run: FunnelRun) -> pl.DataFrame:
    """The comparison under the load: what was handed on first, then by gain of the tail, what cannot stay last."""
    comparison = read_comparison(run.folder)
    if comparison.is_empty():
        return comparison
    return comparison.sort("handed_on", "viable", "tail_gain", descending=True, nulls_last=True, maintain_order=True)


COMPARISON = ("configuration", ">projected", ">requests/s", ">p90 TPOT ms", ">gain", "verdict")


def comparison_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """One configuration under the load, as :data:`COMPARISON` names it."""
    return (
        row["name"],
        _number(row["projected_speedup"], "{:.2f}×"),
        _number(row.get("requests_per_s"), "{:.3g}"),
        _number(row.get("tpot_p90_s"), "{:,.2f}", 1e3),
        _number(row.get("tail_gain"), "{:.2f}×"),
        _judged(row),
    )


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "–" if value is None else form.format(scale * value)


def _judged(row: Mapping[str, Any]) -> str:
    if row["handed_on"]:
        return f"handed on: {row['roles']}"
    if row["kind"] == "no speculation":
        return "for comparison" if row["viable"] else row["reason"]
    return "stays" if row["viable"] else row["reason"]


def handed_on_edges(run: FunnelRun) -> list[dict[str, Any]]:
    """Break-even of the devices and prompts that were handed on."""
    places = {(row["hardware"], row["domain"]) for row in run.document["handed_on"]}
    return [row for row in run.document["break_even"] if (row["hardware"], row["domain"]) in places]


WITNESS = (
    "configuration", "verdict", ">measured ms", ">simulated ms", ">error", ">forecast ms", ">its error", ">speedup"
)  # fmt: skip


def witness_rows(run: FunnelRun) -> Iterator[tuple[str, ...]]:
    """What became of each configuration that was handed on, as :data:`WITNESS` names it."""
    for each in run.document["witness"]["configurations"]:
        yield (
            each["name"],
            each["verdict"],
            _number(each.get("measured_p90_tpot_s"), "{:,.2f}", 1e3),
            _number(each.get("simulated_p90_tpot_s"), "{:,.2f}", 1e3),
            _number(each.get("error"), "{:+.1%}"),
            _number(each.get("forecast_p90_tpot_s"), "{:,.2f}", 1e3),
            _number(each.get("forecast_error"), "{:+.1%}"),
            _number(each.get("speedup"), "{:.2f}×"),
        )


def witness_reasons(run: FunnelRun) -> Iterator[str]:
    """Why each verdict is what it is, and what to do where nothing could be run; what holds for several said once."""
    names: dict[str, list[str]] = {}
    for each in run.document["witness"]["configurations"]:
        remedy = "" if each["remedy"] is None else f"; {each['remedy']}"
        names.setdefault(f"{'; '.join(each['reasons'])}{remedy}", []).append(each["name"])
    everything = len(run.document["witness"]["configurations"])
    for text, who in names.items():
        yield text if len(who) == everything else f"{', '.join(who)}: {text}"
