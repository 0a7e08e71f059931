"""Sliders over stored measurements: draft length, drafter, domain and temperature, each cell measured by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from specbook.acceptance.profile import AcceptanceProfile
from specbook.display.charts import ACCENT, PALETTE, finish
from specbook.measuring.traces import book_profile

LENGTHS = (1, 2, 4, 8)
DRAFTERS = ("small", "eagle")


def measured_page(domains: Sequence[str], temperatures: Sequence[float] = (0.0, 1.0)) -> Any:
    """Marginal acceptance of the cell that the controls choose, with its interval, and its tokens per round.

    Nothing is interpolated and no longer draft is cut: every draft length was decoded.

    Parameters
    ----------
    domains : sequence of str
    temperatures : sequence of float

    Examples
    --------
    >>> chart = measured_page(["code"])
    >>> [parameter["name"] for parameter in chart.to_dict()["params"]]
    ['log2_length', 'drafter', 'domain', 'temperature']
    """
    rows = [
        _row(drafter, domain, temperature, length)
        for drafter in DRAFTERS
        for domain in domains
        for temperature in temperatures
        for length in LENGTHS
    ]
    menus = {"drafter": list(DRAFTERS), "domain": list(domains), "temperature": [f"{t:g}" for t in temperatures]}
    chosen = " && ".join(f"datum.{name} == {name}" for name in menus)
    chart = (
        alt.layer(*_layers(), data=alt.InlineData(values=rows), title=alt.Title("Measured acceptance", offset=44))
        .transform_filter(f"datum.length == pow(2, log2_length) && {chosen}")
        .transform_flatten(["marginal", "lower", "upper"])
        .transform_window(position="row_number()")
        .add_params(*_parameters(menus))
    )
    return finish(chart)


def _row(drafter: str, domain: str, temperature: float, length: int) -> dict[str, Any]:
    profile = book_profile(drafter, f"chain {length}", domain, temperature)
    marginal = profile.marginal_acceptance or []
    ends = _ends(profile, len(marginal))
    return {
        "drafter": drafter,
        "domain": domain,
        "temperature": f"{temperature:g}",
        "length": length,
        "tokens": round(profile.mean_acceptance_length or 1.0, 4),
        "from": round(profile.intervals.mean_acceptance_length[0], 3) if profile.intervals else None,
        "to": round(profile.intervals.mean_acceptance_length[1], 3) if profile.intervals else None,
        "marginal": [round(value, 4) for value in marginal],
        "lower": [round(low, 4) for low, _ in ends],
        "upper": [round(high, 4) for _, high in ends],
    }


def _ends(profile: AcceptanceProfile, n_positions: int) -> list[tuple[float, float]]:
    intervals = profile.intervals.marginal_acceptance if profile.intervals else []
    points = [(value, value) for value in profile.marginal_acceptance or []]
    return [*intervals, *points[len(intervals) :]][:n_positions]


def _parameters(menus: dict[str, list[str]]) -> list[alt.Parameter]:
    length = alt.binding_range(min=0, max=3, step=1, name="draft length K = 2^ ")
    selects = [
        alt.param(name, value=options[0], bind=alt.binding_select(options=options, name=f"{name} "))
        for name, options in menus.items()
    ]
    return [alt.param("log2_length", value=2, bind=length), *selects]


def _layers() -> list[Any]:
    x = alt.X("position:O", title="draft position", axis=alt.Axis(labelAngle=0))
    y = alt.Y("marginal:Q", title="marginal acceptance", scale=alt.Scale(domain=[0, 1]))
    tooltip = ["position:O", *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("marginal", "lower", "upper"))]
    bars = alt.Chart().mark_bar(color=PALETTE[0], opacity=0.75).encode(x=x, y=y, tooltip=tooltip)
    rules = alt.Chart().mark_rule(strokeWidth=2).encode(x=x, y=alt.Y("lower:Q"), y2="upper:Q")
    sentence = (
        alt.Chart()
        .transform_filter("datum.position == 1")
        .transform_calculate(sentence=_SENTENCE)
        .mark_text(align="left", fontSize=13, color=ACCENT)
        .encode(x=alt.value(0), y=alt.value(-14), text="sentence:N")
    )
    return [bars, rules, sentence]


_SENTENCE = (
    "'K = ' + datum.length + ': ' + format(datum.tokens, '.2f') + ' tokens a round (' + format(datum.from, '.2f') "
    "+ ' to ' + format(datum.to, '.2f') + ')'"
)
