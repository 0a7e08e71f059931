"""Sliders for acceptance, cost ratio and draft length: what drafting gains, computed on the page by shared formulas."""

from __future__ import annotations

from typing import Any

import altair as alt

from specbook.acceptance.yields import draft_acceptance_rate, tokens_for_draft_length
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.display.formula import VEGA
from specbook.roofline.speedup import round_seconds, speedup

MAX_DRAFT_LENGTH = 24


def cycle_page(conditional_acceptance: float = 0.8, cost_ratio: float = 0.1, draft_length: int = 4) -> Any:
    """Speedup by draft length, for one acceptance at every position, with the best draft length and break-even.

    Parameters
    ----------
    conditional_acceptance : float
        Where its slider starts, in [0, 1].
    cost_ratio : float
        Time of a draft pass ÷ that of a verify pass; where its slider starts, in [0, 1].
    draft_length : int
        Where its slider starts, in tokens.

    Notes
    -----
    Sequences are endless, and a verify pass takes as long as a pass of one token.

    Examples
    --------
    >>> [parameter["name"] for parameter in cycle_page().to_dict()["params"]]
    ['conditional_acceptance', 'cost_ratio', 'draft_length']
    """
    length = alt.datum.K
    marginal = [VEGA.power(alt.datum.alpha, position) for position in range(1, MAX_DRAFT_LENGTH + 1)]
    seconds = round_seconds(length, alt.datum.ratio, 1.0)  # in verify passes
    fastest = VEGA.where(alt.datum.speedup >= alt.datum.best_speedup, length, MAX_DRAFT_LENGTH)
    data = alt.sequence(0, MAX_DRAFT_LENGTH + 1, as_="K")
    chart = (
        alt.layer(*_layers(), data=data, title=alt.Title("What drafting gains", offset=48))
        .transform_calculate(alpha="conditional_acceptance", ratio="cost_ratio")
        .transform_calculate(tokens=str(tokens_for_draft_length(length, marginal, VEGA)))
        .transform_calculate(
            speedup=str(speedup(alt.datum.tokens, 1.0, seconds)),
            break_even=str(draft_acceptance_rate(length, marginal, VEGA)),
        )
        .transform_joinaggregate(best_speedup="max(speedup)")
        .transform_calculate(fastest=str(fastest))
        .transform_joinaggregate(best_draft_length="min(fastest)")
        .add_params(*_parameters(conditional_acceptance, cost_ratio, draft_length))
    )
    return finish(chart, height=300)


def _parameters(conditional_acceptance: float, cost_ratio: float, draft_length: int) -> list[alt.Parameter]:
    acceptance = alt.binding_range(min=0, max=1, step=0.01, name="acceptance α ")
    ratio = alt.binding_range(min=0, max=1, step=0.01, name="cost ratio c ")
    length = alt.binding_range(min=0, max=MAX_DRAFT_LENGTH, step=1, name="draft length K ")
    return [
        alt.param("conditional_acceptance", value=conditional_acceptance, bind=acceptance),
        alt.param("cost_ratio", value=cost_ratio, bind=ratio),
        alt.param("draft_length", value=draft_length, bind=length),
    ]


def _layers() -> list[Any]:
    x = alt.X("K:Q", title="draft length K (tokens)", axis=alt.Axis(values=list(range(0, MAX_DRAFT_LENGTH + 1, 3))))
    y = alt.Y("speedup:Q", title="speedup (×)", scale=alt.Scale(zero=True))
    base = alt.Chart().encode(x=x, y=y)
    chosen = base.transform_filter("datum.K == draft_length")
    best = base.transform_filter("datum.K == datum.best_draft_length")
    one = alt.Chart(alt.InlineData(values=[{"one": 1}])).encode(y="one:Q")
    losing = alt.condition("datum.speedup < 1", alt.value(QUIET), alt.value(PALETTE[0]))
    return [
        one.mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5),
        base.mark_line(color=PALETTE[0]),
        base.mark_point(size=36, opacity=1).encode(color=losing, tooltip=["K:Q", *_TOOLTIP]),
        best.mark_point(size=260, color=PALETTE[2], filled=False, strokeWidth=3, opacity=1),
        chosen.mark_point(size=110, color=ACCENT, opacity=1),
        _sentence(chosen, -34, _CHOSEN, ACCENT),
        _sentence(best, -17, _BEST, PALETTE[2]),
    ]


_TOOLTIP = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("tokens", "speedup", "break_even")]
_CHOSEN = (
    "'K = ' + datum.K + ': ' + format(datum.speedup, '.4f') + '×' "
    "+ (datum.K > 0 ? ', pays while c < ' + format(datum.break_even, '.4f') : ', nothing is drafted')"
)
_BEST = (
    "datum.K > 0 ? 'best: K = ' + datum.K + ', ' + format(datum.speedup, '.4f') + '×' : 'best: draft nothing, as c ≥ α'"
)


def _sentence(chart: Any, y: int, expression: str, color: str) -> Any:
    return (
        chart.transform_calculate(sentence=expression)
        .mark_text(align="left", fontSize=13, color=color)
        .encode(x=alt.value(0), y=alt.value(y), text="sentence:N")
    )
