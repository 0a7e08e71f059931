"""Sliders for errors of the parts of a round: how far off the whole is, and what the gate says."""

from __future__ import annotations

from typing import Any

import altair as alt

from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.witness.composition import composed_error
from specbook.witness.receipt_configuration import ConfigurationRecord
from specbook.witness.result import GATE

# Parts that can be off, and what the sliders call them.
_PARTS = {
    "verify": "verify off by (%) ",
    "draft": "draft off by (%) ",
    "acceptance": "rounds off by (%) ",
}
_MOST_PERCENT = 30


def shares_of(record: ConfigurationRecord) -> dict[str, float]:
    """Shares of a measured round: ``verify``, ``draft`` and ``overhead``.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> shares = shares_of(stored_receipt("epyc-zen5-2core").configurations[0])
    >>> round(sum(shares.values()), 6), max(shares, key=shares.get)
    (1.0, 'verify')
    """
    measured_s = {term.name: term.measured_s for term in record.attribution if term.name != "acceptance"}
    return {name: seconds / sum(measured_s.values()) for name, seconds in measured_s.items()}


def terms_page(record: ConfigurationRecord, **errors: int) -> Any:
    """Error of each part alone and of all together, beside the gate.

    Parameters
    ----------
    record : ConfigurationRecord
        Whose round is taken apart.
    **errors : int
        Where the sliders start, in percent: ``verify``, ``draft``, ``acceptance``; 0 if not given.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> chart = terms_page(stored_receipt("epyc-zen5-2core").configurations[0], verify=10)
    >>> [parameter["name"] for parameter in chart.to_dict()["params"]]
    ['verify', 'draft', 'acceptance']
    """
    shares = shares_of(record)
    rows = [{"part": name, "index": index} for index, name in enumerate((*_PARTS, "all together"))]
    chart = (
        alt.layer(*_layers(), data=alt.InlineData(values=rows), title=alt.Title("Error of a token's time", offset=44))
        .transform_calculate(**{f"{name}_error": f"{name} / 100" for name in _PARTS})
        .transform_calculate(error=f"[{','.join(_errors(shares))}][datum.index]")
        .transform_calculate(passes=f"abs(datum.error) <= {GATE}")
        .add_params(*(_slider(name, label, errors.get(name, 0)) for name, label in _PARTS.items()))
    )
    return finish(chart, height=190)


def _errors(shares: dict[str, float]) -> list[str]:
    """An expression for each part alone, and for all of them."""
    verify, draft, acceptance = alt.datum.verify_error, alt.datum.draft_error, alt.datum.acceptance_error
    alone: tuple[tuple[Any, Any, Any], ...] = ((verify, 0, 0), (0, draft, 0), (0, 0, acceptance))
    cases = (*alone, (verify, draft, acceptance))
    return [f"({composed_error(*case, round(shares['verify'], 6), round(shares['draft'], 6))})" for case in cases]


def _slider(name: str, label: str, value: int) -> Any:
    bind = alt.binding_range(min=-_MOST_PERCENT, max=_MOST_PERCENT, step=1, name=label)
    return alt.param(name, value=value, bind=bind)


def _layers() -> list[Any]:
    y = alt.Y("part:N", title=None, sort=[*_PARTS, "all together"])
    axis = alt.Axis(format="+%")
    x = alt.X("error:Q", title="predicted ÷ measured − 1", scale=alt.Scale(domain=[-0.4, 0.7]), axis=axis)
    gate = alt.Chart(alt.InlineData(values=[{"low": -GATE, "high": GATE}]))
    band = gate.mark_rect(color=QUIET, opacity=0.2).encode(x=alt.X("low:Q"), x2="high:Q")
    colour = alt.condition("datum.passes", alt.value(PALETTE[2]), alt.value(ACCENT))
    tooltip = ["part:N", alt.Tooltip("error:Q", format="+.2%")]
    bars = alt.Chart().mark_bar(height=18).encode(x=x, y=y, color=colour, tooltip=tooltip)
    sentence = (
        alt.Chart()
        .transform_filter("datum.part == 'all together'")
        .transform_calculate(sentence=_SENTENCE)
        .mark_text(align="left", fontSize=13, color=ACCENT)
        .encode(x=alt.value(0), y=alt.value(-14), text="sentence:N")
    )
    return [band, bars, sentence]


_SENTENCE = "'all together ' + format(datum.error, '+.1%') + (datum.passes ? ': within the gate' : ': beyond the gate')"
