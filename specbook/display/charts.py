"""Charts of the book: frame in, Altair chart out; one look, readable in light and dark, at desk and phone width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from specbook.acceptance.profile import AcceptanceProfile
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, StepCost, arithmetic_seconds, memory_seconds

# JupyterLab 4 draws this type, nbformat accepts it, and the book has a renderer for it.
MIME = "application/vnd.vegalite.v5+json"

# Okabe and Ito's palette without its yellow: told apart by colour-blind readers, on white and on dark grey.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
ACCENT = "#D55E00"
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


def _inline(frame: pl.DataFrame, digits: int = 5) -> alt.InlineData:
    """Rows with floats to ``digits`` significant digits, so that stored outputs agree between versions of numpy."""
    floats = [name for name, kind in frame.schema.items() if kind.is_float()]
    return alt.InlineData(values=frame.with_columns(pl.col(floats).round_sig_figs(digits)).to_dicts())


def positions_frame(profiles: Mapping[str, AcceptanceProfile], n_positions: int = 8) -> pl.DataFrame:
    """Marginal and conditional acceptance by position, one row a profile and position.

    Parameters
    ----------
    profiles : mapping of str to AcceptanceProfile
        Label → profile.
    n_positions : int
        Positions to show.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> positions_frame({"K = 1": library_profile("vllm-48892-mtp-k1")}).rows()
    [('K = 1', 1, 0.8339, 0.8339)]
    """
    rows = [
        (label, position, marginal, conditional)
        for label, profile in profiles.items()
        for position, (marginal, conditional) in enumerate(
            zip(profile.marginal_acceptance or [], profile.conditional_acceptance or [], strict=False), start=1
        )
        if position <= n_positions
    ]
    return pl.DataFrame(rows, schema=["evidence", "position", "marginal", "conditional"], orient="row")


def positions_chart(frame: pl.DataFrame, quantity: str, title: str) -> Any:
    """Acceptance by draft position, one line a profile; ``quantity`` is ``marginal`` or ``conditional``.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> frame = positions_frame({"K = 8": library_profile("vllm-48892-mtp-k8")})
    >>> positions_chart(frame, "marginal", "Acceptance").to_dict()["encoding"]["y"]["title"]
    'marginal acceptance'
    """
    order = frame["evidence"].unique(maintain_order=True).to_list()
    return finish(
        alt.Chart(_inline(frame), title=title)
        .mark_line(point=True)
        .encode(
            x=alt.X("position:Q", title="draft position", axis=alt.Axis(format="d", tickMinStep=1)),
            y=alt.Y(
                f"{quantity}:Q",
                title=quantity if quantity == "acceptance" else f"{quantity} acceptance",
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=alt.Color("evidence:N", title=None, sort=order),
            tooltip=["evidence:N", "position:Q", alt.Tooltip(f"{quantity}:Q", format=".3f")],
        )
    )


def lengths_chart(frame: pl.DataFrame, title: str) -> Any:
    """Bars of tokens per round; columns ``evidence`` and ``tokens_per_round``.

    Examples
    --------
    >>> frame = pl.DataFrame({"evidence": ["code"], "tokens_per_round": [2.9]})
    >>> lengths_chart(frame, "Tokens per round").to_dict()["layer"][0]["mark"]["type"]
    'bar'
    """
    base = alt.Chart(_inline(frame)).encode(
        x=alt.X("tokens_per_round:Q", title="tokens per round, bonus token included"),
        y=alt.Y("evidence:N", title=None, sort="-x", axis=alt.Axis(labelLimit=200)),
    )
    bars = base.mark_bar(color=PALETTE[0])
    text = base.mark_text(align="right", dx=-5, color="white").encode(text=alt.Text("tokens_per_round:Q", format=".2f"))
    return finish(alt.layer(bars, text, title=title), height=32 * frame.height + 40)


def speedup_by_batch_chart(frame: pl.DataFrame, title: str) -> Any:
    """Speedup of the best draft length by batch, one line a device, with the line that separates gain from loss.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``device, batch, speedup, draft_length``.
    title : str

    Examples
    --------
    >>> frame = pl.DataFrame({"device": ["L4"], "batch": [1], "speedup": [1.9], "draft_length": [4]})
    >>> len(speedup_by_batch_chart(frame, "Speedup").to_dict()["layer"])
    2
    """
    order = frame["device"].unique(maintain_order=True).to_list()
    lines = (
        alt.Chart(_inline(frame))
        .mark_line(point=alt.OverlayMarkDef(size=24))
        .encode(
            x=alt.X(
                "batch:Q", title="batch (sequences)", scale=alt.Scale(type="log", base=2), axis=alt.Axis(format="d")
            ),
            y=alt.Y("speedup:Q", title="speedup, best K of at least 1", scale=alt.Scale(zero=True)),
            color=alt.Color("device:N", title=None, sort=order),
            tooltip=["device:N", "batch:Q", alt.Tooltip("speedup:Q", format=".2f"), "draft_length:Q"],
        )
    )
    return finish(alt.layer(lines, _unity_line(), title=title), height=300)


def device_batch_chart(frame: pl.DataFrame, title: str) -> Any:
    """Best draft length and its speedup by device and batch; grey: not drafting is fastest; blank: cannot fit.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``device, batch, draft_length, speedup``; devices are drawn in order of appearance.
    title : str

    Examples
    --------
    >>> row = {"device": ["l4"], "batch": [1], "draft_length": [0], "speedup": [1.0]}
    >>> device_batch_chart(pl.DataFrame(row), "Answer").to_dict()["layer"][1]["encoding"]["text"]["field"]
    'shown'
    """
    order = frame["device"].unique(maintain_order=True).to_list()
    figures = pl.format("{} · {}×", "draft_length", pl.col("speedup").round(1).cast(pl.String))
    drafts = pl.col("draft_length") > 0
    labelled = frame.with_columns(
        label=pl.when(drafts).then(figures).otherwise(pl.lit("none")),
        short=pl.when(drafts).then(pl.col("draft_length").cast(pl.String)).otherwise(pl.lit("–")),
    )
    base = alt.Chart(_inline(labelled)).encode(
        x=alt.X("batch:O", title="batch (sequences)", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("device:N", title=None, sort=order, axis=alt.Axis(labelLimit=160)),
        tooltip=["device:N", "batch:O", "draft_length:Q", alt.Tooltip("speedup:Q", format=".2f")],
    )
    scale = alt.Scale(domain=[1.0, 2.5], range=["#e8f1f8", "#0072B2"], clamp=True)
    colour = alt.condition(
        "datum.draft_length == 0", alt.value("#d3d6da"), alt.Color("speedup:Q", scale=scale, legend=None)
    )
    cells = base.mark_rect(stroke="white", strokeWidth=2, cornerRadius=3).encode(color=colour)
    ink = alt.condition("datum.speedup > 1.75", alt.value("white"), alt.value("#24292f"))
    text = _text_that_fits(base).mark_text(fontSize=11).encode(text="shown:N", color=ink)
    return finish(alt.layer(cells, text, title=title), height=30 * len(order) + 60)


def _text_that_fits(chart: Any) -> Any:
    """The long label of a cell, or the short one where the chart is as narrow as a phone."""
    return chart.transform_calculate(shown="width < 420 ? datum.short : datum.label")


def _unity_line() -> Any:
    """Where speculation neither gains nor loses."""
    one = alt.InlineData(values=[{"one": 1}])
    return alt.Chart(one).mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5).encode(y="one:Q")


def bypass_chart(frame: pl.DataFrame, title: str) -> Any:
    """Best draft length over batch and context; grey where speculation must be bypassed.

    Parameters
    ----------
    frame : polars.DataFrame
        As :func:`~specbook.roofline.frontier.bypass_region` returns it, for one device.
    title : str

    Examples
    --------
    >>> row = {"batch": [1], "context": [512], "best_draft_length": [0], "speedup": [1.0], "bypass": [True]}
    >>> len(bypass_chart(pl.DataFrame(row), "Best draft length").to_dict()["layer"])
    2
    """
    label = pl.when("bypass").then(pl.lit("none")).otherwise(pl.format("K = {}", "best_draft_length"))
    short = pl.when("bypass").then(pl.lit("–")).otherwise(pl.col("best_draft_length").cast(pl.String))
    labelled = frame.drop("hardware", strict=False).with_columns(label=label, short=short)
    base = alt.Chart(_inline(labelled)).encode(
        x=alt.X("batch:O", title="batch (sequences)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("context:O", title="context (tokens)", sort="descending"),
        tooltip=["batch:O", "context:O", "best_draft_length:Q", alt.Tooltip("speedup:Q", format=".2f")],
    )
    scale = alt.Scale(domain=[0, 12], range=["#e8f1f8", "#0072B2"], clamp=True)
    shade = alt.Color("best_draft_length:Q", scale=scale, legend=None)
    cells = base.mark_rect(stroke="white", strokeWidth=2, cornerRadius=3).encode(
        color=alt.condition("datum.bypass", alt.value("#d3d6da"), shade)
    )
    ink = alt.condition("datum.best_draft_length > 5", alt.value("white"), alt.value("#24292f"))
    text = _text_that_fits(base).mark_text(fontSize=12).encode(text="shown:N", color=ink)
    return finish(alt.layer(cells, text, title=title), height=34 * frame["context"].n_unique() + 70)


def roofline_frame(
    cost: StepCost, device: DeviceRates, batches: np.ndarray, draft_length: int, context: int
) -> pl.DataFrame:
    """Arithmetic intensity and attainable rate of decode and verify passes, one row a batch and pass.

    Parameters
    ----------
    cost : StepCost
    device : DeviceRates
    batches : (n_batches,) ndarray of int
    draft_length, context : int

    Returns
    -------
    polars.DataFrame
        Columns ``step, batch, flops_per_byte, flops_per_s``; the launch overhead is left out.

    Examples
    --------
    >>> from specbook.hardware.profile import catalogue_device
    >>> from specbook.roofline.model_spec import model
    >>> from specbook.roofline.step_time import device_rates, step_cost
    >>> rates = device_rates(catalogue_device("l4"), "bf16")
    >>> frame = roofline_frame(step_cost(model("Llama-3.1-8B"), "bf16"), rates, np.array([1]), 4, 512)
    >>> frame["flops_per_byte"].round(2).to_list()
    [1.01, 5.07]
    """
    frames = []
    for step, tokens in (("decode, 1 token", 1), (f"verify, {draft_length + 1} tokens", draft_length + 1)):
        flops = arithmetic_seconds(tokens, batches, context, cost, device) * device.flops_per_s
        moved = memory_seconds(tokens, batches, context, cost, device) * device.bandwidth_bytes_per_s
        ideal = DoctrineRoofline(cost=cost, device=device)(tokens, batches, context) - device.overhead_s
        columns = {"batch": batches, "flops_per_byte": flops / moved, "flops_per_s": flops / ideal}
        frames.append(pl.DataFrame(columns).select(pl.lit(step).alias("step"), pl.all()))
    return pl.concat(frames)


def roofline_chart(frame: pl.DataFrame, device: DeviceRates, title: str) -> Any:
    """Points on the roof of one device; axes in FLOP per byte and TFLOP/s.

    Examples
    --------
    >>> row = {"step": ["decode"], "batch": [1], "flops_per_byte": [1.0], "flops_per_s": [3e12]}
    >>> device = DeviceRates(flops_per_s=1e15, bandwidth_bytes_per_s=3e12, overhead_s=0.0)
    >>> len(roofline_chart(pl.DataFrame(row), device, "Roofline").to_dict()["layer"])
    3
    """
    x = alt.X("flops_per_byte:Q", title="arithmetic intensity (FLOP per byte)", scale=alt.Scale(type="log"))
    y = alt.Y("tflops_per_s:Q", title="attainable rate (TFLOP/s)", scale=alt.Scale(type="log"))
    intensities = np.geomspace(0.5, 4000.0, 60)
    roof_flops = np.minimum(device.flops_per_s, intensities * device.bandwidth_bytes_per_s)
    roof = pl.DataFrame({"flops_per_byte": intensities, "tflops_per_s": roof_flops / 1e12})
    points = frame.with_columns(tflops_per_s=pl.col("flops_per_s") / 1e12).drop("flops_per_s")
    marks = (
        alt.Chart(_inline(points))
        .mark_point(size=70, opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=alt.Color("step:N", title=None),
            shape=alt.Shape("step:N", title=None),
            tooltip=["step:N", "batch:Q", alt.Tooltip("flops_per_byte:Q", format=".1f")],
        )
    )
    text = alt.Chart(_inline(points)).mark_text(dy=-11, fontSize=11, color=QUIET).encode(x=x, y=y, text="batch:Q")
    line = alt.Chart(_inline(roof)).mark_line(color=QUIET).encode(x=x, y=y)
    return finish(alt.layer(line, marks, text, title=title), height=300)


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
    return str(vl_convert.vegalite_to_svg(sized, vl_version="6.4"))
