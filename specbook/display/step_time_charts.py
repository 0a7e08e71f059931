"""Charts of step times and of what follows from them: ideal, calibrated, measured and published, side by side."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from specbook.display.charts import QUIET, finish, inline
from specbook.roofline.step_time import StepTime

_BATCH = alt.X("batch:Q", title="batch (sequences)", scale=alt.Scale(type="log", base=2), axis=alt.Axis(format="d"))


def passes_frame(
    steps: dict[str, StepTime], widths: tuple[int, ...], batches: np.ndarray, context: int
) -> pl.DataFrame:
    """Milliseconds of a pass by kind of step time, width and batch.

    Parameters
    ----------
    steps : dict of str to StepTime
        By the name that the chart shows.
    widths : tuple of int
        Positions of each sequence.
    batches : (n_batches,) ndarray of int
    context : int
        Tokens of context in each sequence.

    Returns
    -------
    polars.DataFrame
        Columns ``step_time, width, batch, ms``.

    Examples
    --------
    >>> from specbook.roofline.grid import drafting_pair, example_grid
    >>> frame = passes_frame({"calibrated": drafting_pair(example_grid()).target}, (1, 5), np.array([1, 2]), 512)
    >>> frame.shape
    (4, 4)
    """
    frames = [
        pl.DataFrame(
            {"batch": batches, "ms": 1e3 * np.ravel(step(float(width), batches.astype(float), float(context)))}
        )
        .with_columns(pl.lit(name).alias("step_time"), pl.lit(width).alias("width"))
        .select("step_time", "width", "batch", "ms")
        for name, step in steps.items()
        for width in widths
    ]
    return pl.concat(frames)


def passes_chart(frame: pl.DataFrame, title: str) -> Any:
    """Milliseconds of a pass over the batch, one line a kind of step time, dashed by width.

    Examples
    --------
    >>> row = {"step_time": ["ideal"], "width": [1], "batch": [1], "ms": [5.0]}
    >>> passes_chart(pl.DataFrame(row), "Passes").to_dict()["mark"]["type"]
    'line'
    """
    kinds = frame["step_time"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(inline(frame, 4), title=title)
        .mark_line(point=alt.OverlayMarkDef(size=22))
        .encode(
            x=_BATCH,
            y=alt.Y("ms:Q", title="pass (ms)", scale=alt.Scale(type="log", nice=False)),
            color=alt.Color("step_time:N", title=None, sort=kinds),
            strokeDash=alt.StrokeDash("width:N", title="positions"),
            tooltip=["step_time:N", "width:Q", "batch:Q", alt.Tooltip("ms:Q", format=".2f")],
        )
    )
    return finish(chart, height=300)


def published_chart(frame: pl.DataFrame, title: str, by: str, value: str) -> Any:
    """What was published, as points, and what the model says, as lines, over the batch.

    Parameters
    ----------
    frame : polars.DataFrame
        As :func:`~specbook.roofline.published.published_curve` returns it, with a column ``by``.
    title : str
    by : str
        Column that tells the lines apart.
    value : str
        Title of the vertical axis.

    Examples
    --------
    >>> rows = {"drafter": ["EAGLE"] * 2, "batch": [2, 2], "source": ["published", "model"], "value": [1.4, 1.8]}
    >>> len(published_chart(pl.DataFrame(rows), "Gain", "drafter", "gain").to_dict()["layer"])
    3
    """
    lines_of = frame[by].unique(maintain_order=True).to_list()
    batches = [batch for batch in frame["batch"].unique().sort().to_list() if batch.bit_count() == 1]
    base = alt.Chart(inline(frame.select(by, "batch", "source", "value"), 4)).encode(
        x=alt.X(
            "batch:Q",
            title="batch (sequences)",
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(format="d", values=batches),
        ),
        y=alt.Y("value:Q", title=value, scale=alt.Scale(zero=False)),
        color=alt.Color(f"{by}:N", title=None, sort=lines_of, legend=alt.Legend(columns=1, labelLimit=420)),
        tooltip=[f"{by}:N", "source:N", "batch:Q", alt.Tooltip("value:Q", format=".2f")],
    )
    lines = base.transform_filter("datum.source == 'model'").mark_line()
    points = base.transform_filter("datum.source == 'published'").mark_point(size=70, filled=False, strokeWidth=2)
    one = alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(strokeDash=[5, 4], color=QUIET).encode(y="one:Q")
    text = alt.Title(title, subtitle="lines: model; circles: published")
    return finish(alt.layer(lines, points, one, title=text), height=300)


def tree_chart(frame: pl.DataFrame, title: str) -> Any:
    """Speedup over the number of drafted tokens, trees against chains, one panel of lines a batch.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``shape`` (tree or chain), ``batch``, ``n_nodes``, ``speedup``.
    title : str

    Examples
    --------
    >>> row = {"shape": ["tree"], "batch": [1], "n_nodes": [8], "speedup": [2.0]}
    >>> len(tree_chart(pl.DataFrame(row), "Trees").to_dict()["layer"])
    2
    """
    labelled = frame.with_columns(batch=pl.format("batch {}", "batch"))
    lines = (
        alt.Chart(inline(labelled, 4))
        .mark_line(point=alt.OverlayMarkDef(size=30))
        .encode(
            x=alt.X("n_nodes:Q", title="drafted tokens (nodes)", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("speedup:Q", title="speedup", scale=alt.Scale(zero=False)),
            color=alt.Color("batch:N", title=None, sort=labelled["batch"].unique(maintain_order=True).to_list()),
            strokeDash=alt.StrokeDash("shape:N", title=None, sort=["tree", "chain"]),
            tooltip=["shape:N", "batch:N", "n_nodes:Q", alt.Tooltip("speedup:Q", format=".2f")],
        )
    )
    one = alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(strokeDash=[5, 4], color=QUIET).encode(y="one:Q")
    return finish(alt.layer(lines, one, title=title), height=300)


def front_chart(front: pl.DataFrame, top: pl.DataFrame, title: str) -> Any:
    """A Pareto front, latency against throughput, with the three roles marked.

    Parameters
    ----------
    front, top : polars.DataFrame
        Of one device, context and domain, as :func:`~specbook.roofline.sweep.sweep` returns them.
    title : str

    Examples
    --------
    >>> row = {"method": ["eagle"], "batch": [1], "tpot_s": [0.003], "throughput_tokens_per_s": [330.0]}
    >>> role = {"role": ["balanced"], **row}
    >>> len(front_chart(pl.DataFrame(row), pl.DataFrame(role), "Front").to_dict()["layer"])
    4
    """
    x = alt.X("tpot_ms:Q", title="time per token (ms)", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("throughput_tokens_per_s:Q", title="throughput (tokens/s)", scale=alt.Scale(type="log"))
    columns = ("method", "batch", "tpot_ms", "throughput_tokens_per_s")
    points = front.with_columns(tpot_ms=1e3 * pl.col("tpot_s")).select(columns)
    roles = top.with_columns(tpot_ms=1e3 * pl.col("tpot_s")).select("role", *columns)
    tooltip = ["method:N", "batch:Q", alt.Tooltip("tpot_ms:Q", format=".2f"), "throughput_tokens_per_s:Q"]
    marks = alt.Chart(inline(points, 4)).mark_point(size=40).encode(x=x, y=y, color=alt.Color("method:N", title=None))
    rings = alt.Chart(inline(roles, 4)).mark_point(size=200, filled=False, strokeWidth=2, color=QUIET).encode(x=x, y=y)
    words = alt.Chart(inline(roles, 4)).encode(x=x, y=y, text="role:N")
    last = "datum.role == 'high-load fallback'"  # at the right edge, where words must run to the left
    left = words.transform_filter(last).mark_text(align="right", dx=4, dy=18, fontSize=12, color=QUIET)
    right = words.transform_filter(f"!({last})").mark_text(align="left", dx=12, dy=20, fontSize=12, color=QUIET)
    return finish(alt.layer(marks.encode(tooltip=tooltip), rings, left, right, title=title), height=320)
