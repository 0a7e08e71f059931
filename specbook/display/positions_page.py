"""A slider for the draft length over measured positions: what each draft adds, and the share that is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt

from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import draft_acceptance_rate, tokens_for_draft_length
from specbook.checks import printable
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.display.formula import VEGA, lookup

MAX_DRAFT_LENGTH = 8


def positions_page(evidence: Mapping[str, AcceptanceProfile], draft_length: int = 4) -> Any:
    """Marginal acceptance by position as bars, with a slider for how many of them are drafted.

    Parameters
    ----------
    evidence : mapping of str to AcceptanceProfile
        Entries of the menu; each needs acceptance by position.
    draft_length : int
        Where the slider starts, in tokens.

    Raises
    ------
    ValueError
        If a profile has no positions.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> chart = positions_page({"K = 8": library_profile("vllm-48892-mtp-k8")})
    >>> [parameter["name"] for parameter in chart.to_dict()["params"]]
    ['draft_length', 'evidence']
    """
    rows = {printable(label): _padded(label, profile) for label, profile in evidence.items()}
    columns = [lookup({label: row[index] for label, row in rows.items()}, "evidence") for index in _POSITIONS]
    fields = {f"m{index + 1}": column for index, column in zip(_POSITIONS, columns, strict=True)}
    marginal = [alt.datum[f"m{index + 1}"] for index in _POSITIONS]
    length = alt.datum.drafted
    quantities = {
        "marginal": f"[{','.join(f'datum.{name}' for name in fields)}][datum.position - 1]",
        "tokens": str(tokens_for_draft_length(length, marginal, VEGA)),
        "rate": str(draft_acceptance_rate(length, marginal, VEGA)),
    }
    data = alt.sequence(1, MAX_DRAFT_LENGTH + 1, as_="position")
    chart = (
        alt.layer(*_layers(), data=data, title=alt.Title("What each draft adds", offset=44))
        .transform_calculate(drafted="draft_length", **fields)
        .transform_calculate(**quantities)
        .add_params(*_parameters(list(rows), draft_length))
    )
    return finish(chart)


_POSITIONS = range(MAX_DRAFT_LENGTH)


def _padded(label: str, profile: AcceptanceProfile) -> list[float]:
    if not profile.marginal_acceptance:
        raise ValueError(f"evidence {label!r} has no acceptance by position")
    return [*profile.marginal_acceptance, *[0.0] * MAX_DRAFT_LENGTH][:MAX_DRAFT_LENGTH]


def _parameters(labels: list[str], draft_length: int) -> list[alt.Parameter]:
    length = alt.binding_range(min=1, max=MAX_DRAFT_LENGTH, step=1, name="draft length K ")
    menu = alt.binding_select(options=labels, name="evidence ")
    return [
        alt.param("draft_length", value=draft_length, bind=length),
        alt.param("evidence", value=labels[0], bind=menu),
    ]


def _layers() -> list[Any]:
    x = alt.X("position:O", title="draft position", axis=alt.Axis(labelAngle=0))
    y = alt.Y("marginal:Q", title="marginal acceptance", scale=alt.Scale(domain=[0, 1]))
    color = alt.condition("datum.position <= draft_length", alt.value(PALETTE[0]), alt.value(QUIET))
    tooltip = ["position:O", alt.Tooltip("marginal:Q", format=".4f")]
    bars = alt.Chart().mark_bar().encode(x=x, y=y, color=color, tooltip=tooltip)
    last = bars.transform_filter("datum.position == draft_length").encode(color=alt.value(ACCENT))
    return [bars, last, _sentence(last, -26, _YIELD), _sentence(last, -9, _KEPT)]


_YIELD = "'K = ' + datum.drafted + ': ' + format(datum.tokens, '.4f') + ' tokens per round'"
_KEPT = (
    "format(100 * datum.rate, '.1f') + ' % of drafts kept; the last one adds ' "
    "+ format(datum.marginal, '.4f') + ' tokens'"
)


def _sentence(chart: Any, y: int, expression: str) -> Any:
    return (
        chart.transform_calculate(sentence=expression)
        .mark_text(align="left", fontSize=13, color=ACCENT)
        .encode(x=alt.value(0), y=alt.value(y), text="sentence:N", color=alt.value(ACCENT))
    )
