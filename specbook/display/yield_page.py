"""A slider for acceptance and one for draft length: tokens per round, computed on the page by the shared formula."""

from __future__ import annotations

from typing import Any

import altair as alt

from specbook.acceptance.yields import tokens_for_draft_length
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.display.formula import VEGA

MAX_DRAFT_LENGTH = 16


def yield_chart(conditional_acceptance: float = 0.8, draft_length: int = 4) -> Any:
    """Tokens per round by draft length, for one acceptance at every position, with sliders for both.

    Parameters
    ----------
    conditional_acceptance : float
        Where its slider starts, in [0, 1].
    draft_length : int
        Where its slider starts, in tokens.

    Examples
    --------
    >>> [parameter["name"] for parameter in yield_chart().to_dict()["params"]]
    ['conditional_acceptance', 'draft_length']
    """
    alpha = alt.datum.alpha
    marginal = [VEGA.power(alpha, position) for position in range(1, MAX_DRAFT_LENGTH + 1)]
    tokens = tokens_for_draft_length(alt.datum.K, marginal, VEGA)
    x = alt.X("K:Q", title="draft length K (tokens)", axis=alt.Axis(format="d", tickMinStep=1))
    y = alt.Y("tokens:Q", title="tokens per round", scale=alt.Scale(domain=[0, MAX_DRAFT_LENGTH + 1]))
    base = alt.Chart().encode(x=x, y=y)
    chosen = base.transform_filter("datum.K == draft_length")
    sentence = "'K = ' + datum.K + ': ' + format(datum.tokens, '.4f') + ' of at most ' + (datum.K + 1) + ' tokens'"
    layers = [
        base.mark_line(color=QUIET, strokeDash=[5, 4]).encode(y="bound:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=30), color=PALETTE[0]),
        chosen.mark_point(size=150, color=ACCENT),
        chosen.transform_calculate(sentence=sentence)
        .mark_text(align="left", fontSize=13, color=ACCENT)
        .encode(x=alt.value(12), y=alt.value(14), text="sentence:N"),
    ]
    acceptance = alt.binding_range(min=0, max=1, step=0.01, name="acceptance α ")
    length = alt.binding_range(min=0, max=MAX_DRAFT_LENGTH, step=1, name="draft length K ")
    chart = (
        alt.layer(*layers, data=alt.sequence(0, MAX_DRAFT_LENGTH + 1, as_="K"), title="Tokens per round")
        .transform_calculate(alpha="conditional_acceptance")
        .transform_calculate(tokens=str(tokens), bound="datum.K + 1")
        .add_params(
            alt.param("conditional_acceptance", value=conditional_acceptance, bind=acceptance),
            alt.param("draft_length", value=draft_length, bind=length),
        )
    )
    return finish(chart)
