"""Charts of single rows of a validation: speedup over the draft length, and the terms of a round beside the clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import polars as pl

from specbook.checks import printable
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish, inline
from specbook.display.validation_charts import inert
from specbook.display.validation_words import place_of, signed
from specbook.validation.explain import measured_round_s
from specbook.validation.rounds import TERMS

MOST_SERIES = 6
_ROW_PX, _AROUND_PX = 44, 150
# Names of series are long, and what tells them apart is often their end.
_LINE_OF_A_NAME = 44
# Terms of a round in the words of a chart; one that is not here goes by its name.
_WORDS = {
    "draft_s": "draft passes",
    "draft_floor_s": "engine, per draft pass",
    "verify_s": "verify pass",
    "verify_rows_s": "kernels for few rows",
    "step_residual_s": "step beyond the model",
    "round_overhead_s": "engine, per round",
}
_CURVE = ("K", "kind", "speedup", "low", "high")


def varying_series(frame: pl.DataFrame, n: int = MOST_SERIES) -> list[tuple[str, int]]:
    """Series and batches at which the draft length varies: one of each target, then a second, and so on.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    n : int
        The most to return; of a target, those with the most lengths come first.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> varying_series(example_validation().frame)
    [('example', 1)]
    """
    compared = frame.filter(pl.col("error").is_not_null(), pl.col("series").is_not_null())
    found = compared.group_by("target_model", "series", "batch", maintain_order=True).agg(
        pl.col("draft_length").n_unique()
    )
    several = found.filter(pl.col("draft_length") > 1).sort("draft_length", descending=True, maintain_order=True)
    turn = pl.int_range(pl.len()).over("target_model")
    in_turn = several.sort(turn, maintain_order=True).head(n)
    return [(row["series"], row["batch"]) for row in in_turn.iter_rows(named=True)]


def draft_lengths_frame(frame: pl.DataFrame, series: str, batch: int) -> pl.DataFrame:
    """Measured and predicted speedups of one series at one batch, by draft length.

    Returns
    -------
    polars.DataFrame
        Columns ``K, kind, speedup, low, high, workload``; ``kind`` is measured or predicted, and the interval that of
        the prediction.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> draft_lengths_frame(example_validation().frame, "example", 1)["kind"].unique().sort().to_list()
    ['measured', 'predicted']
    """
    rows = frame.filter(pl.col("error").is_not_null(), pl.col("series") == series, pl.col("batch") == batch)
    length, workload = pl.col("draft_length").alias("K"), pl.col("workload").fill_null("")
    nothing = pl.lit(None, dtype=pl.Float64)
    measured = rows.select(
        length,
        pl.lit("measured").alias("kind"),
        speedup="measured_speedup",
        low=nothing,
        high=nothing,
        workload=workload,
    )
    predicted = rows.select(
        length,
        pl.lit("predicted").alias("kind"),
        speedup="predicted_speedup",
        low="predicted_low",
        high="predicted_high",
        workload=workload,
    )
    return inert(pl.concat([measured, predicted]).sort("kind", "K", maintain_order=True))


def draft_lengths_chart(frame: pl.DataFrame, series: str, batch: int) -> Any:
    """Speedup over the draft length of one series: circles measured, a line predicted, its interval shaded.

    A page shows several side by side; each is small, and says which series it is.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    series : str
    batch : int

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> chart = draft_lengths_chart(example_validation().frame, "example", 1)
    >>> [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]
    ['area', 'rule', 'line', 'point']
    """
    curves = draft_lengths_frame(frame, series, batch)
    lengths = curves["K"].unique().sort().to_list()
    ends = alt.Scale(domain=[min(lengths) - 0.3, max(lengths) + 0.3], nice=False)
    x = alt.X("K:Q", title="draft length K (tokens)", scale=ends, axis=alt.Axis(values=lengths, format="~g"))
    y = alt.Y("speedup:Q", title="speedup", scale=alt.Scale(zero=False, nice=True))
    tooltip: list[Any] = [
        "kind:N",
        "workload:N",
        *(alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("K", *_CURVE[2:])),
    ]
    base = alt.Chart(inline(curves, 4)).encode(x=x, y=y, tooltip=tooltip)
    predicted, measured = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("predicted", "measured"))
    one = alt.Chart(alt.InlineData(values=[{"speedup": 1}])).mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5)
    layers = [
        predicted.mark_area(color=PALETTE[0], opacity=0.18).encode(y=alt.Y("low:Q", title="speedup"), y2="high:Q"),
        one.encode(y=y),
        predicted.mark_line(color=PALETTE[0], point=alt.OverlayMarkDef(size=22, color=PALETTE[0])),
        measured.mark_point(size=70, filled=False, strokeWidth=2, opacity=1, color=ACCENT),
    ]
    return finish(alt.layer(*layers, title=_series_title(frame, series, batch)), height=240)


def _series_title(frame: pl.DataFrame, series: str, batch: int) -> alt.Title:
    row = frame.filter(pl.col("error").is_not_null(), pl.col("series") == series, pl.col("batch") == batch).row(
        0, named=True
    )
    where = ", ".join(str(row[name]) for name in ("device", "engine") if row[name])
    shown = printable(series)
    name = [shown[:_LINE_OF_A_NAME], _shortened(shown[_LINE_OF_A_NAME:])]
    text = printable(f"{row['target_model']}, batch {batch:,}")
    return alt.Title(
        text, subtitle=[*filter(None, name), printable(where)], limit=alt.ExprRef("width + 40"), fontSize=13
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LINE_OF_A_NAME else f"{text[: _LINE_OF_A_NAME - 1]}…"


def rounds_frame(frame: pl.DataFrame, lines: Iterable[int]) -> pl.DataFrame:
    """The terms of the predicted rounds of some rows, as shares of their measured rounds.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    lines : iterable of int
        Of the series file; rows that were not compared, or whose measured round cannot be told, are left out.

    Returns
    -------
    polars.DataFrame
        Columns ``label, row, term, ms, measured_ms, start, end``; the terms of a row follow each other.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> rounds_frame(example_validation().frame, [2]).select("term").head(2).to_series().to_list()
    ['draft passes', 'engine, per draft pass']
    """
    compared = {row["line"]: row for row in frame.filter(pl.col("error").is_not_null()).iter_rows(named=True)}
    found = [compared[line] for line in lines if line in compared and measured_round_s(compared[line]) > 0.0]
    rows = [part for index, row in enumerate(found) for part in _terms_of(index, row)]
    return inert(pl.DataFrame(rows, schema=_ROUNDS, orient="row"))


_ROUNDS: dict[str, Any] = {
    "label": pl.String, "row": pl.Int64, "term": pl.String, "ms": pl.Float64, "measured_ms": pl.Float64,
    "start": pl.Float64, "end": pl.Float64,
}  # fmt: skip


def _terms_of(index: int, row: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
    measured_s, start = measured_round_s(row), 0.0
    label = f"line {row['line']}: {signed(row['error'], 0)}, {place_of(row)}"
    for name in TERMS:
        end = start + row[name] / measured_s
        yield label, index, _term(name), 1e3 * row[name], 1e3 * measured_s, start, end
        start = end


def _term(name: str) -> str:
    return _WORDS.get(name, name.removesuffix("_s").replace("_", " "))


def rounds_chart(frame: pl.DataFrame, lines: Sequence[int], title: str) -> Any:
    """Predicted rounds of some rows, term by term, over the rounds that were measured.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    lines : sequence of int
        Such as those of :func:`~specbook.validation.explain.explained`.
    title : str

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> [layer["mark"]["type"] for layer in rounds_chart(example_validation().frame, [2], "A").to_dict()["layer"]]
    ['bar', 'tick', 'text']
    """
    rounds = rounds_frame(frame, lines)
    spent = [term for term in map(_term, TERMS) if rounds.filter(pl.col("term") == term)["ms"].sum() > 0.0]
    drawn = rounds.filter(pl.col("term").is_in(spent))
    scale = alt.Scale(domain=spent, range=[*PALETTE, QUIET][: len(spent)])
    legend = alt.Legend(columns=2, labelLimit=145)
    base = alt.Chart(inline(drawn, 4)).encode(
        y=alt.Y("row:O", axis=None, scale=alt.Scale(paddingInner=0.0, paddingOuter=0.0))
    )
    x = alt.X(
        "start:Q", title="predicted round ÷ measured round", axis=alt.Axis(format="~g"), scale=alt.Scale(zero=True)
    )
    tooltip: list[Any] = [
        "label:N",
        "term:N",
        *(alt.Tooltip(f"{name}:Q", format=",.2f") for name in ("ms", "measured_ms")),
    ]
    bars = base.mark_bar(height=13, yOffset=9).encode(
        x=x, x2="end:Q", color=alt.Color("term:N", title=None, scale=scale, legend=legend), tooltip=tooltip
    )
    each = base.transform_filter(f"datum.term == '{spent[0]}'").transform_calculate(one="1")
    tick = each.mark_tick(size=19, thickness=4, yOffset=9, color=QUIET, opacity=1)
    clock = tick.encode(x=alt.X("one:Q"), tooltip=tooltip[-1:])
    words = each.mark_text(align="left", yOffset=-8, fontSize=12, limit=alt.ExprRef("width - 4"))
    text = words.encode(x=alt.value(0), text="label:N", tooltip=["label:N"])
    about = alt.Title(title, subtitle=["tick: the measured round; a bar that ends before it", "was predicted too fast"])
    return finish(alt.layer(bars, clock, text, title=about), height=_ROW_PX * rounds["row"].n_unique() + _AROUND_PX)
