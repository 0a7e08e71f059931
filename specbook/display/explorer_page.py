"""The Explorer on the published page: a chart whose controls choose, and whose rows evaluate the shared formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np

from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.display.explorer_config import MAX_DRAFT_LENGTH, ExplorerConfig, marginals, menus, sliders
from specbook.display.explorer_formula import OUTPUTS, page_fields


def page_spec(config: ExplorerConfig, at: Mapping[str, Any]) -> dict[str, Any]:
    """Vega-Lite specification of the Explorer, starting at the settings ``at``.

    Parameters
    ----------
    config : ExplorerConfig
    at : mapping
        Values of all controls.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> explorer = example_explorer()
    >>> [parameter["name"] for parameter in page_spec(explorer.config, explorer.values())["params"]][-3:]
    ['method', 'precision', 'step_time']
    """
    return dict(_chart(config, at).to_dict())


def _parameters(config: ExplorerConfig, at: Mapping[str, Any]) -> list[alt.Parameter]:
    binds: dict[str, Any] = {
        name: alt.binding_range(min=low, max=high, step=step, name=f"{label} ")
        for name, (label, low, high, step) in sliders(config).items()
    }
    for name, (label, entries) in menus(config).items():
        binds[name] = alt.binding_select(options=list(entries), labels=list(entries.values()), name=f"{label} ")
    return [alt.param(name, value=at[name], bind=bind) for name, bind in binds.items()]


def _chart(config: ExplorerConfig, at: Mapping[str, Any]) -> Any:
    layered = (
        alt.layer(*_layers(config), data=alt.sequence(0, MAX_DRAFT_LENGTH + 1, as_="K"), title=_title(config))
        .transform_calculate(**page_fields(config))
        .transform_window(
            place="rank()", sort=[alt.SortField("speedup", "descending"), alt.SortField("K", "ascending")]
        )
    )
    return finish(layered.add_params(*_parameters(config, at)), height=350)


def _layers(config: ExplorerConfig) -> list[Any]:
    base = _base(config)
    tooltip = [alt.Tooltip("K:Q"), *(alt.Tooltip(f"{name}:Q", format=".3f") for name in OUTPUTS)]
    best = base.transform_filter("datum.place == 1")
    yours = base.transform_filter("datum.K == draft_length")
    return [
        alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(strokeDash=[5, 4], color=QUIET).encode(y="one:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=30), color=PALETTE[0]).encode(tooltip=tooltip),
        best.mark_point(shape="diamond", size=150, color=PALETTE[2]),
        yours.mark_point(size=150, color=ACCENT),
        _sentence(yours, 0, "datum.weights_label"),
        _sentence(yours, 1, _STEP_TIME),
        _sentence(best, 2, _BEST, PALETTE[2]),
        _sentence(yours, 3, _YOURS, ACCENT),
        _sentence(yours, 4, _COST, ACCENT),
        _sentence(yours.transform_filter("datum.needed_bytes > datum.memory_bytes"), 5, _NO_FIT, "#c0392b"),
    ]


def _base(config: ExplorerConfig) -> Any:
    most = max(1.0 + sum(row) for row in marginals(config).values())  # tokens a round: no speedup is higher
    axis = alt.Axis(format="d", tickMinStep=1)
    x = alt.X("K:Q", title="draft length K (tokens)", axis=axis, scale=alt.Scale(domain=[0, MAX_DRAFT_LENGTH]))
    y = alt.Y("speedup:Q", title="speedup", scale=alt.Scale(domain=[0, float(np.ceil(most * 2) / 2)]))
    return alt.Chart().encode(x=x, y=y)


# A phone has no room for what the menu says anyway.
_STEP_TIME = "width < 400 ? replace(datum.step_time_label, 'calibrated, ', '') : datum.step_time_label"
_BEST = (
    "datum.K == 0 ? '◆ best: do not speculate (K = 0)' "
    ": '◆ best: K = ' + datum.K + ', speedup ' + format(datum.speedup, '.4f')"
    " + (datum.needed_bytes > datum.memory_bytes ? ' (does not fit)' : '')"
)
_YOURS = "'● yours: K = ' + datum.K + ', speedup ' + format(datum.speedup, '.4f')"
_COST = "format(datum.tpot_ms, '.2f') + ' ms a token instead of ' + format(datum.baseline_tpot_ms, '.2f') + ' ms'"
_NO_FIT = (
    "'✕ does not fit: ' + format(datum.needed_bytes / 1e9, ',.0f') + ' GB of '"
    " + format(datum.memory_bytes / 1e9, ',.0f')"
)


def _title(config: ExplorerConfig) -> alt.Title:
    return alt.Title(f"What drafting gains {config.target.name}", offset=14)


def _sentence(chart: Any, line: int, expression: str, color: Any = alt.Undefined) -> Any:
    """One of six lines of text above the plot, computed from the row that is left; left of its axis."""
    return (
        chart.transform_calculate(sentence=expression)
        .mark_text(align="left", baseline="middle", fontSize=13, color=color)
        .encode(x=alt.value(-40), y=alt.value(17 * line - 95), text="sentence:N")
    )
