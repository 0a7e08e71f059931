"""A probe as tables and charts: medians with their spread, and the calibrated model beside them."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from specbook.display.charts import QUIET, finish, inline
from specbook.hardware.probe_record import ProbeRecord, Spread
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import calibrated_seconds
from specbook.roofline.calibrations import calibrated_rates
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import step_cost

_ARITHMETICS = ["fast", "exact", "naive", "ref64"]


def _spread(spread: Spread, unit: float) -> dict[str, float]:
    return {"median": spread.median / unit, "low": spread.low / unit, "high": spread.high / unit}


def bandwidth_frame(record: ProbeRecord) -> pl.DataFrame:
    """Bandwidth of each kernel in GB/s: columns ``kernel, median, low, high``.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> bandwidth_frame(stored_probe("epyc-zen4-2core").probe)["kernel"].to_list()
    ['copy', 'scale', 'add', 'triad', 'read']
    """
    kernels = ("copy", "scale", "add", "triad", "read")
    rows = [{"kernel": name} | _spread(getattr(record.bandwidth, f"{name}_bytes_per_s"), 1e9) for name in kernels]
    return pl.DataFrame(rows)


def bandwidth_chart(frame: pl.DataFrame, title: str) -> Any:
    """Medians as points on their spread from the 10th to the 90th percentile.

    Examples
    --------
    >>> row = {"kernel": ["copy"], "median": [25.0], "low": [24.0], "high": [26.0]}
    >>> len(bandwidth_chart(pl.DataFrame(row), "Bandwidth").to_dict()["layer"])
    2
    """
    order = frame["kernel"].to_list()
    base = alt.Chart(inline(frame)).encode(y=alt.Y("kernel:N", title=None, sort=order))
    axis = alt.X("low:Q", title="bandwidth (GB/s)", scale=alt.Scale(zero=True))
    spread = base.mark_rule(size=5, opacity=0.5).encode(x=axis, x2="high:Q")
    tooltip = ["kernel:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("low", "median", "high"))]
    points = base.mark_point(size=90).encode(x="median:Q", tooltip=tooltip)
    return finish(alt.layer(spread, points, title=title), height=170)


def width_frame(record: ProbeRecord, shape: tuple[int, int]) -> pl.DataFrame:
    """Time of a product by rows, relative to one row: ``arithmetic, rows, us, relative``.

    Parameters
    ----------
    record : ProbeRecord
    shape : (n_out, n_in)
        Of the weights.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> width_frame(stored_probe("epyc-zen4-2core").probe, (384, 8192)).columns
    ['arithmetic', 'rows', 'us', 'relative']
    """
    rows = [
        {"arithmetic": each.arithmetic, "rows": each.rows, "us": 1e6 * each.seconds.median}
        for each in record.products
        if (each.n_out, each.n_in) == shape
    ]
    first = pl.col("us").filter(pl.col("rows") == 1).first().over("arithmetic")
    ordered = pl.DataFrame(rows).with_columns(pl.col("arithmetic").cast(pl.Enum(_ARITHMETICS)))
    return ordered.sort("arithmetic", "rows").with_columns(
        pl.col("arithmetic").cast(pl.String), relative=pl.col("us") / first
    )


def width_chart(frame: pl.DataFrame, title: str) -> Any:
    """Relative time of a product over its rows, one line an arithmetic.

    Examples
    --------
    >>> row = {"arithmetic": ["fast"], "rows": [1], "us": [10.0], "relative": [1.0]}
    >>> width_chart(pl.DataFrame(row), "Widths").to_dict()["mark"]["type"]
    'line'
    """
    chart = (
        alt.Chart(inline(frame, 4), title=title)
        .mark_line(point=alt.OverlayMarkDef(size=24))
        .encode(
            x=alt.X("rows:Q", title="rows (positions in the pass)", axis=alt.Axis(format="d")),
            y=alt.Y("relative:Q", title="time ÷ one row"),
            color=alt.Color("arithmetic:N", title=None, sort=_ARITHMETICS),
            tooltip=[
                "arithmetic:N",
                "rows:Q",
                alt.Tooltip("us:Q", format=".0f"),
                alt.Tooltip("relative:Q", format=".2f"),
            ],
        )
    )
    return finish(chart, height=280)


def attention_frame(record: ProbeRecord, batch: int) -> pl.DataFrame:
    """Attention of one layer: ``arithmetic, context, rows, us_per_row``.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> attention_frame(stored_probe("epyc-zen4-2core").probe, 1)["arithmetic"].unique().sort().to_list()
    ['exact', 'fast']
    """
    rows = [
        {
            "arithmetic": each.arithmetic,
            "context": each.context,
            "rows": each.rows,
            "us_per_row": 1e6 * each.seconds.median / each.rows,
        }
        for each in record.attention
        if each.batch == batch
    ]
    return pl.DataFrame(rows).sort("arithmetic", "rows", "context")


def attention_chart(frame: pl.DataFrame, title: str) -> Any:
    """Attention for each row over the context; dashed by arithmetic.

    Examples
    --------
    >>> row = {"arithmetic": ["fast"], "context": [512], "rows": [1], "us_per_row": [10.0]}
    >>> attention_chart(pl.DataFrame(row), "Attention").to_dict()["mark"]["type"]
    'line'
    """
    chart = (
        alt.Chart(inline(frame, 4), title=title)
        .mark_line(point=alt.OverlayMarkDef(size=24))
        .encode(
            x=alt.X(
                "context:Q", title="context (tokens)", scale=alt.Scale(type="log", base=2), axis=alt.Axis(format="d")
            ),
            y=alt.Y("us_per_row:Q", title="µs for each row", scale=alt.Scale(type="log")),
            color=alt.Color("rows:N", title="rows"),
            strokeDash=alt.StrokeDash("arithmetic:N", title=None, sort=_ARITHMETICS),
            tooltip=["arithmetic:N", "rows:Q", "context:Q", alt.Tooltip("us_per_row:Q", format=".0f")],
        )
    )
    return finish(chart, height=280)


def agreement_frame(profile: HardwareProfile, backend: str) -> pl.DataFrame:
    """Measured passes and the calibrated model: ``model, batch, context, width, measured_ms, low, high, model_ms``.

    Raises
    ------
    BadInput
        If the profile has no calibration of that name.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> agreement_frame(stored_probe("epyc-zen4-2core"), "fast").height > 50
    True
    """
    rates = calibrated_rates(profile, "fp32", backend)
    passes = [] if profile.probe is None else profile.probe.passes
    rows = []
    for each in passes:
        if each.arithmetic == backend:
            cost = step_cost(model(each.model), "fp32")
            seconds = calibrated_seconds(each.width, each.batch, each.context, cost, rates)
            place = {"model": each.model, "batch": each.batch, "context": each.context, "width": each.width}
            ends = {"low": 1e3 * each.seconds.low, "high": 1e3 * each.seconds.high}
            rows.append(place | {"measured_ms": 1e3 * each.seconds.median, **ends, "model_ms": 1e3 * float(seconds)})
    return pl.DataFrame(rows).sort("model", "batch", "context", "width")


def agreement_chart(frame: pl.DataFrame, title: str) -> Any:
    """The model over the measurement, with the diagonal.

    Examples
    --------
    >>> row = {"model": ["m"], "batch": [1], "context": [512], "width": [1], "measured_ms": [8.0], "model_ms": [8.1]}
    >>> len(agreement_chart(pl.DataFrame(row), "Agreement").to_dict()["layer"])
    2
    """
    low, high = frame["measured_ms"].min(), frame["measured_ms"].max()
    diagonal = alt.Chart(alt.InlineData(values=[{"ms": low}, {"ms": high}]))
    scale = alt.Scale(type="log", nice=False)
    line = diagonal.mark_line(color=QUIET, strokeDash=[5, 4]).encode(
        x=alt.X("ms:Q", scale=scale, title="measured (ms a pass)"),
        y=alt.Y("ms:Q", scale=scale, title="calibrated model (ms a pass)"),
    )
    names = frame["model"].unique(maintain_order=True).to_list()
    points = (
        alt.Chart(inline(frame.drop("low", "high", strict=False), 4))
        .mark_point(size=40, opacity=0.8)
        .encode(
            x="measured_ms:Q",
            y="model_ms:Q",
            color=alt.Color("model:N", title=None, sort=names),
            tooltip=["model:N", "batch:Q", "context:Q", "width:Q", "measured_ms:Q", "model_ms:Q"],
        )
    )
    return finish(alt.layer(line, points, title=title), height=320)


def pass_table(record: ProbeRecord, name: str, arithmetic: str) -> pl.DataFrame:
    """Milliseconds of a model's passes, one row a batch and context, one column a width.

    Examples
    --------
    >>> from specbook.hardware.probe.stored import stored_probe
    >>> pass_table(stored_probe("epyc-zen4-2core").probe, "specbook-target-r8", "fast").columns[:3]
    ['batch', 'context', 'width 1']
    """
    rows = [
        {"batch": each.batch, "context": each.context, "width": each.width, "ms": round(1e3 * each.seconds.median, 1)}
        for each in record.passes
        if (each.model, each.arithmetic) == (name, arithmetic)
    ]
    frame = pl.DataFrame(rows).sort("batch", "context", "width").with_columns(pl.format("width {}", "width"))
    return frame.pivot("width", index=["batch", "context"], values="ms")
