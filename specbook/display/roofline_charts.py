"""Charts of the roofline and of what follows from it: frame in, Altair chart out."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from specbook.display.charts import QUIET, finish, inline
from specbook.roofline.pass_cost import StepCost
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, arithmetic_seconds, memory_seconds


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
        alt.Chart(inline(frame.select("device", "batch", "speedup", "draft_length"), 4))
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
    )
    base = alt.Chart(inline(labelled, 4)).encode(
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
    text = _text_that_fits(base, "draft_length").mark_text(fontSize=11).encode(text="shown:N", color=ink)
    return finish(alt.layer(cells, text, title=title), height=30 * len(order) + 60)


def _text_that_fits(chart: Any, length: str) -> Any:
    """The label of a cell, or its draft length alone where the chart is as narrow as a phone."""
    short = f"datum.{length} == 0 ? '–' : '' + datum.{length}"
    return chart.transform_calculate(shown=f"width < 420 ? ({short}) : datum.label")


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
    labelled = frame.drop("hardware", strict=False).with_columns(label=label)
    base = alt.Chart(inline(labelled, 4)).encode(
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
    text = _text_that_fits(base, "best_draft_length").mark_text(fontSize=12).encode(text="shown:N", color=ink)
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
    >>> from specbook.roofline.pass_cost import step_cost
    >>> from specbook.roofline.step_time import device_rates
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
    intensities = np.array([0.5, device.flops_per_s / device.bandwidth_bytes_per_s, 4000.0])
    roof_flops = np.minimum(device.flops_per_s, intensities * device.bandwidth_bytes_per_s)
    roof = pl.DataFrame({"flops_per_byte": intensities, "tflops_per_s": roof_flops / 1e12})
    points = frame.with_columns(tflops_per_s=pl.col("flops_per_s") / 1e12).drop("flops_per_s")
    marks = (
        alt.Chart(inline(points, 4))
        .mark_point(size=70, opacity=0.9)
        .encode(
            x=x,
            y=y,
            color=alt.Color("step:N", title=None),
            shape=alt.Shape("step:N", title=None),
            tooltip=["step:N", "batch:Q", alt.Tooltip("flops_per_byte:Q", format=".1f")],
        )
    )
    text = alt.Chart(inline(points, 4)).mark_text(dy=-11, fontSize=11, color=QUIET).encode(x=x, y=y, text="batch:Q")
    line = alt.Chart(inline(roof)).mark_line(color=QUIET).encode(x=x, y=y)
    return finish(alt.layer(line, marks, text, title=title), height=300)
