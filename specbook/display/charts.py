"""The look of every chart: readable in light and dark, at desk and phone width; JSON that can be checked."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

# JupyterLab 4 draws this type, nbformat accepts it, and the book has a renderer for it.
MIME = "application/vnd.vegalite.v5+json"

# Okabe and Ito's palette without its yellow: told apart by colour-blind readers, on white and on dark grey.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
ACCENT = "#D55E00"
_VEGA_LITE_VERSION = "6.4"
QUIET = "#8a8f98"

_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "gridOpacity": 0.35},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "orient": "top", "columns": 3,
               "labelLimit": 180},
    "title": {"anchor": "start", "fontSize": 14, "fontWeight": 600, "subtitleFontSize": 12, "offset": 8},
    "range": {"category": PALETTE},
    "line": {"strokeWidth": 2},
    "point": {"size": 45, "filled": True},
}  # fmt: skip


def _bundle(spec: dict[str, Any], **_: Any) -> dict[str, Any]:
    title = spec.get("title")
    text = title.get("text") if isinstance(title, dict) else title
    return {MIME: spec, "text/plain": f"<Chart: {text}>" if isinstance(text, str) else "<Chart>"}


def enable() -> None:
    """Set a notebook up: charts as JSON that JupyterLab, the book and tests understand; tables without type rows."""
    alt.renderers.register("specbook", _bundle)
    alt.renderers.enable("specbook")
    pl.Config(tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True, fmt_str_lengths=60, tbl_rows=20)


def finish(chart: Any, height: int = 280) -> Any:
    """Give a chart the book's look, at a width that suits a notebook.

    The published page stretches it to its column (``assets/charts.js``). The specification itself must not ask for the
    width of its container: JupyterLab draws outputs before they have one, and stops responding.

    Examples
    --------
    >>> chart = finish(alt.Chart(alt.InlineData(values=[{"x": 1}])).mark_point().encode(x="x:Q"))
    >>> chart.to_dict()["width"]
    600
    """
    return chart.properties(width=600, height=height).configure(**_CONFIG)


def inline(frame: pl.DataFrame, digits: int = 5) -> alt.InlineData:
    """Rows with floats to ``digits`` significant digits, so that stored outputs agree between versions of numpy."""
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return alt.InlineData(values=frame.with_columns(pl.col(floats).round_sig_figs(digits)).to_dicts())


def to_svg(spec: dict[str, Any], width: int = 640) -> str:
    """A chart as SVG text, drawn without a browser.

    Examples
    --------
    >>> chart = alt.Chart(alt.InlineData(values=[{"x": 1}])).mark_point().encode(x="x:Q")
    >>> to_svg(finish(chart).to_dict())[:4]
    '<svg'
    """
    import vl_convert

    sized = spec | {"width": width, "autosize": {"type": "fit", "contains": "padding"}}
    return str(vl_convert.vegalite_to_svg(sized, vl_version=_VEGA_LITE_VERSION))


def vega_script() -> str:
    """What draws charts in a browser, as one script that needs nothing else: ``vega`` and ``vegaEmbed`` of the window.

    Not a module, which would fail on a ``file://`` address.
    """
    import vl_convert

    code = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;window.vega=vega;", vl_version=_VEGA_LITE_VERSION)
    return "(()=>{" + code + "})();\n"
