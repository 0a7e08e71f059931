"""A chart of a validation: errors of the predicted speedups by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from specbook.display.charts import PALETTE, QUIET, finish, inline
from specbook.display.validation_charts import MOST_POINTS, TOOLTIP, by_size, inert, plain, words
from specbook.validation.scores import GATE

MOST_GROUPS = 12
_ERRORS = (-0.9, -0.75, -0.5, -0.25, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


def errors_frame(frame: pl.DataFrame, by: str = "target_model") -> pl.DataFrame:
    """Errors of the compared rows by group, the groups with the most rows first.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    by : str
        A column that tells groups apart.

    Returns
    -------
    polars.DataFrame
        Columns ``group, n_rows, line, series, K, batch, ratio, error, low, middle, high``: predicted ÷ measured and its
        quartiles in the group; of the ``MOST_GROUPS`` largest groups, the count of rows stands before the name.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> errors_frame(example_validation().frame)["group"][0]
    '3 × Llama-3.1-8B'
    """
    compared = frame.filter(pl.col("error").is_not_null())
    named = compared.with_columns(words(pl.col(by), "group"), ratio=1.0 + pl.col("error"))
    largest = by_size(named["group"])[:MOST_GROUPS]
    quartiles = {name: pl.col("ratio").quantile(q, "linear").over("group") for name, q in _QUARTILES.items()}
    rows = named.filter(pl.col("group").is_in(largest)).with_columns(n_rows=pl.len().over("group"), **quartiles)
    length, batch = words(plain(pl.col("draft_length")), "K"), words(plain(pl.col("batch")), "batch")
    return inert(rows.select(
        pl.format("{} × {}", "n_rows", "group").alias("group"), "n_rows", "line", words(pl.col("series"), "series"),
        length, batch, "ratio", "error", *_QUARTILES,
    ).sort("n_rows", "group", descending=[True, False], maintain_order=True))  # fmt: skip


_QUARTILES = {"low": 0.25, "middle": 0.5, "high": 0.75}


def errors_chart(frame: pl.DataFrame, title: str, by: str = "target_model") -> Any:
    """Errors by group on a scale where half and twice are equally far: each row, the quartiles, and the median.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`; at least one row was compared.
    title : str
    by : str
        Column that tells the groups apart; the counts of rows stand before their names.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> [layer["mark"]["type"] for layer in errors_chart(example_validation().frame, "Errors").to_dict()["layer"]]
    ['rect', 'rule', 'point', 'rule', 'tick']
    """
    rows = errors_frame(frame, by)
    order = rows["group"].unique(maintain_order=True).to_list()
    y = alt.Y("group:N", title=None, sort=order, axis=alt.Axis(labelLimit=150))
    x = _ratio_axis([*rows["ratio"]])
    drawn = rows.gather_every(-(-rows.height // MOST_POINTS) or 1).with_row_index("place")
    boxes = alt.Chart(inline(rows.unique("group", maintain_order=True).select("group", *_QUARTILES), 4)).encode(y=y)
    return finish(
        alt.layer(
            *_gate_band(x),
            _strip(drawn, x, y),
            boxes.mark_rule(size=9, opacity=0.45, color=PALETTE[0]).encode(x="low:Q", x2="high:Q"),
            boxes.mark_tick(size=20, thickness=3, color=PALETTE[1]).encode(x="middle:Q"),
            title=alt.Title(title, subtitle="points: rows; bar: middle half; tick: median"),
        ),
        height=30 * len(order) + 110,
    )


_AS_ERROR = "datum.value == 1 ? '0' : format(datum.value - 1, '+.0%')"


def _ratio_axis(ratios: Sequence[float]) -> Any:
    low, high = min(0.8, *(0.97 * value for value in ratios)), max(1.25, *(1.03 * value for value in ratios))
    values = [1.0 + error for error in _ERRORS if low <= 1.0 + error <= high]
    axis = alt.Axis(values=values, labelExpr=_AS_ERROR, labelSeparation=4)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return alt.X("ratio:Q", title="predicted ÷ measured − 1", scale=scale, axis=axis)


def _gate_band(x: Any) -> list[Any]:
    ends = alt.Chart(alt.InlineData(values=[{"ratio": 1 - GATE, "over": 1 + GATE}]))
    one = alt.Chart(alt.InlineData(values=[{"ratio": 1}]))
    return [
        ends.mark_rect(color=QUIET, opacity=0.2).encode(x=x, x2="over:Q"),
        one.mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5).encode(x=x),
    ]


def _strip(rows: pl.DataFrame, x: Any, y: Any) -> Any:
    """Points of a group beside each other, each at a place that follows from its row and not from chance."""
    golden = 0.6180339887
    aside = alt.YOffset("aside:Q", scale=alt.Scale(domain=[-0.2, 1.2]))
    tooltip = ["group:N", *(alt.Tooltip(f"{name}:N") for name in ("line", "series", "K", "batch")), TOOLTIP[-1]]
    base = alt.Chart(inline(rows.with_columns(aside=(pl.col("place") * golden) % 1.0), 4))
    points = base.mark_point(size=26, filled=True, opacity=0.55, color=PALETTE[0])
    return points.encode(x=x, y=y, yOffset=aside, tooltip=tooltip)
