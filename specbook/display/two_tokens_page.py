"""Sliders for two distributions over two tokens: what comes out by the rule of acceptance, and by two wrong ones."""

from __future__ import annotations

from typing import Any

import altair as alt

from specbook.display.charts import ACCENT, PALETTE, finish
from specbook.display.formula import VEGA
from specbook.parity.two_tokens import RULES


def two_tokens_page(target: float = 0.7, draft: float = 0.4) -> Any:
    """Probability of token A by each rule, beside the target's.

    Parameters
    ----------
    target, draft : float
        Where the sliders start: P(A) and Q(A).

    Examples
    --------
    >>> chart = two_tokens_page()
    >>> [parameter["name"] for parameter in chart.to_dict()["params"]]
    ['target', 'draft']
    """
    laws = [f"({rule(alt.datum.p, alt.datum.q, VEGA)})" for rule in RULES.values()]
    values = [{"rule": name, "index": index} for index, name in enumerate(RULES)]
    chart = (
        alt.layer(*_layers(), data=alt.InlineData(values=values), title=alt.Title("What comes out", offset=44))
        .transform_calculate(p="target", q="draft")
        .transform_calculate(law=f"[{','.join(laws)}][datum.index]")
        .transform_calculate(error="abs(datum.law - datum.p)")
        .add_params(_slider("target", target, "target's P(A) "), _slider("draft", draft, "draft's Q(A) "))
    )
    return finish(chart, height=180)


def _slider(name: str, value: float, label: str) -> Any:
    return alt.param(name, value=value, bind=alt.binding_range(min=0.01, max=0.99, step=0.01, name=label))


def _layers() -> list[Any]:
    y = alt.Y("rule:N", title=None, sort=list(RULES), axis=alt.Axis(labelLimit=180))
    axis = alt.Axis(tickCount=5)
    x = alt.X("law:Q", title="probability of token A in the text", scale=alt.Scale(domain=[0, 1]), axis=axis)
    tooltip = ["rule:N", *(alt.Tooltip(f"{name}:Q", format=".4f") for name in ("law", "p", "error"))]
    bars = alt.Chart().mark_bar(color=PALETTE[0], opacity=0.75).encode(x=x, y=y, tooltip=tooltip)
    wanted = alt.Chart().mark_tick(color=ACCENT, thickness=3, size=34).encode(x="p:Q", y=y)
    labels = alt.Chart().mark_text(align="left", dx=6).encode(x="law:Q", y=y, text=alt.Text("law:Q", format=".3f"))
    sentence = (
        alt.Chart()
        .transform_filter("datum.index == 0")
        .transform_calculate(sentence=_SENTENCE)
        .mark_text(align="left", fontSize=13, color=ACCENT)
        .encode(x=alt.value(0), y=alt.value(-14), text="sentence:N")
    )
    return [bars, wanted, labels, sentence]


_SENTENCE = "'accepted: ' + format(1 - abs(datum.p - datum.q), '.3f') + ', target ' + format(datum.p, '.2f')"
