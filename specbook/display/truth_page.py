"""Charts of the published table: simpler rules beside the model, what a term is worth, and a menu of its series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import altair as alt
import polars as pl

from specbook.checks import printable
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish, inline
from specbook.validation.scores import CHOICE, GATE, best_draft_lengths, compared_rows

_LONGEST_NAME_PX = 165
_FEW_ROWS = 20


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """Compared rows with short words, for charts whose tooltips a page has to carry.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> compact(example_validation().frame)["hardware"][0]
    '1 × h200-sxm'
    """
    return compared_rows(frame).with_columns(
        pl.format("{} × {}", "n_devices", "device").alias("hardware"),
        pl.col("method").alias("series"),
        target="target_model",
        assumptions=pl.when(pl.col("devices_from") == "inferred").then(pl.lit("devices inferred")),
    )


def packed(chart: Any) -> Any:
    """The same chart with its longer data as lines of text, a fifth as large in a notebook.

    Parameters
    ----------
    chart : altair.LayerChart
        Whose layers hold their own data.

    Examples
    --------
    >>> rows = alt.InlineData(values=[{"x": x, "name": "a"} for x in range(50)])
    >>> chart = alt.layer(alt.Chart(rows).mark_point().encode(x="x:Q"), alt.Chart().mark_rule())
    >>> len(packed(chart).to_json()) < 0.5 * len(chart.to_json())
    True
    """
    small = chart.copy()
    for layer in small.layer:
        if isinstance(layer.data, alt.InlineData) and len(layer.data.values) > _FEW_ROWS:
            layer.data = _lines(pl.DataFrame(layer.data.values))
    return small


def _lines(frame: pl.DataFrame) -> alt.InlineData:
    numbers = {name: "number" for name, kind in frame.schema.items() if kind.is_numeric()}
    return alt.InlineData(values=frame.write_csv(), format=alt.CsvDataFormat(type="csv", parse=numbers))


def rules_chart(frame: pl.DataFrame, title: str) -> Any:
    """The median error of the speedup by each rule that gives one, beside the 8 % that was asked.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.yardsticks.yardsticks`.
    title : str

    Examples
    --------
    >>> frame = pl.DataFrame({"rule": ["a", "b"], "median_absolute_error": [0.06, None]})
    >>> len(rules_chart(frame, "Rules").to_dict()["layer"])
    3
    """
    rows = frame.select("rule", error="median_absolute_error").drop_nulls()
    y = alt.Y("rule:N", title=None, sort=rows["rule"].to_list(), axis=alt.Axis(labelLimit=_LONGEST_NAME_PX))
    room = alt.Scale(domain=[0.0, 1.3 * max(rows["error"], default=GATE)], nice=False)
    x = alt.X("error:Q", title="median |error|", scale=room, axis=alt.Axis(format="%", tickCount=6))
    base = alt.Chart(inline(rows, 4)).encode(x=x, y=y)
    bars = base.mark_bar(height=16, color=PALETTE[0]).encode(tooltip=["rule:N", alt.Tooltip("error:Q", format=".1%")])
    words = (
        base.transform_calculate(beside=f"max(datum.error, {GATE})")
        .mark_text(align="left", dx=5, fontSize=12, color=QUIET)
        .encode(x="beside:Q", text=alt.Text("error:Q", format=".1%"))
    )
    gate = alt.Chart(alt.InlineData(values=[{"error": GATE}])).mark_rule(color=ACCENT, strokeDash=[5, 4], size=1.5)
    about = alt.Title(title, subtitle=f"dashed: the {100 * GATE:.0f} % that was asked")
    return finish(alt.layer(bars, words, gate.encode(x=x), title=about), height=34 * rows.height + 20)


def terms_chart(frame: pl.DataFrame, title: str) -> Any:
    """Median error with each term, and fitted anew without it.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.ablations.ablated`.
    title : str

    Examples
    --------
    >>> row = {"term": ["a"], "n_rows": [3], "median_with": [0.05], "median_without": [0.08]}
    >>> [layer["mark"]["type"] for layer in terms_chart(pl.DataFrame(row), "Terms").to_dict()["layer"]]
    ['rule', 'point']
    """
    rows = frame.select("term", "n_rows", "median_with", "median_without")
    order = rows.sort(pl.col("median_without") - pl.col("median_with"), descending=True)["term"].to_list()
    label = alt.Axis(labelLimit=_LONGEST_NAME_PX, labelExpr=_IN_TWO_LINES)
    y = alt.Y("term:N", title=None, sort=order, axis=label)
    x = alt.X("median_with:Q", title="median |error|", axis=alt.Axis(format="%", tickCount=6))
    between = alt.Chart(inline(rows, 4)).mark_rule(color=QUIET, size=2).encode(x=x, x2="median_without:Q", y=y)
    kinds = {"with it": "median_with", "without it": "median_without"}
    ends = pl.concat(
        rows.select("term", "n_rows", pl.lit(kind).alias("model"), median_with=name) for kind, name in kinds.items()
    )
    scale = alt.Scale(domain=list(kinds), range=PALETTE[:2])
    tooltip = ["term:N", "model:N", "n_rows:Q", alt.Tooltip("median_with:Q", format=".1%", title="median")]
    points = alt.Chart(inline(ends, 4)).mark_point(size=90, filled=True, opacity=1)
    colour = alt.Color("model:N", title=None, scale=scale, legend=alt.Legend(symbolOpacity=1))
    layers = (between, points.encode(x=x, y=y, color=colour, tooltip=tooltip))
    return finish(alt.layer(*layers, title=title), height=46 * rows.height)


# Names of terms are long for a phone, and break at the space nearest their middle.
_IN_TWO_LINES = (
    "length(datum.label) < 24 ? datum.label : "
    "[slice(datum.label, 0, indexof(slice(datum.label, 12), ' ') + 12), "
    "slice(datum.label, indexof(slice(datum.label, 12), ' ') + 13)]"
)


def series_page(frame: pl.DataFrame, series: str | None = None) -> Any:
    """A menu of the series that vary K: measured speedups, predicted ones, and the interval.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`; at least one series varies K.
    series : str or None
        The entry of the menu to begin with, the first if none.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> chart = series_page(example_validation().frame).to_dict()
    >>> chart["params"][0]["bind"]["labels"]
    ['Llama-3.1-8B, chat']
    """
    labels = menu_labels(frame)
    shown = 0 if series is None else list(labels).index(series)
    choices = alt.binding_select(options=list(range(len(labels))), labels=list(labels), name="series ")
    rows = pl.concat(
        _rows(frame, key).with_columns(pl.lit(place).alias("place")) for place, key in enumerate(labels.values())
    )
    said = pl.DataFrame({"place": range(len(labels)), "sentence": [_sentence(frame, key) for key in labels.values()]})
    chart = alt.layer(*_curves(rows), _words(said), title=alt.Title("Speedup over the draft length", offset=30))
    return finish(chart.add_params(alt.param("series", value=shown, bind=choices)), height=300)


def menu_labels(frame: pl.DataFrame) -> dict[str, tuple[Any, ...]]:
    """Target and workload of each choice of a draft length, with what it stands for: series, drafter, workload, batch.

    A second head for the same target and workload is told apart by a number.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> menu_labels(example_validation().frame)
    {'Llama-3.1-8B, chat': ('example', 'EAGLE-3', 'chat', 1)}
    """
    compared = compared_rows(frame).unique(CHOICE, maintain_order=True)
    varying = best_draft_lengths(frame).select(CHOICE)
    rows = compared.join(varying, on=CHOICE, nulls_equal=True, maintain_order="left")
    ordered = rows.sort("target_model", "workload", "series").iter_rows(named=True)
    seen: Counter[str] = Counter()
    labels = {}
    for row in ordered:
        name = printable(f"{row['target_model']}, {row['workload'] or 'any text'}")
        seen[name] += 1
        labels[name if seen[name] == 1 else f"{name}, head {seen[name]}"] = tuple(row[each] for each in CHOICE)
    return labels


def _is(choice: tuple[Any, ...]) -> pl.Expr:
    return pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(CHOICE, choice, strict=True))


def _rows(frame: pl.DataFrame, choice: tuple[Any, ...]) -> pl.DataFrame:
    here = compared_rows(frame).filter(_is(choice))
    return here.sort("draft_length").select(
        K="draft_length", measured="measured_speedup", predicted="predicted_speedup", low="predicted_low",
        high="predicted_high",
    ).with_columns(pl.col(pl.Float64).round_sig_figs(4))  # fmt: skip


def _sentence(frame: pl.DataFrame, choice: tuple[Any, ...]) -> str:
    found = best_draft_lengths(frame).row(by_predicate=_is(choice), named=True)
    lost = "nothing lost" if not found["regret"] else f"{100 * found['regret']:.1f} % of the speed lost"
    return f"batch {found['batch']}; best K measured {found['measured']:g}, predicted {found['predicted']:g}: {lost}"


def _curves(rows: pl.DataFrame) -> Iterator[Any]:
    lengths = rows["K"].unique().sort().to_list()
    ends = alt.Scale(domain=[min(lengths) - 0.3, max(lengths) + 0.3], nice=False)
    x = alt.X("K:Q", title="draft length K (tokens)", scale=ends, axis=alt.Axis(values=lengths, format="~g"))
    scale = alt.Scale(zero=False, nice=True)
    tooltip = [alt.Tooltip(f"{name}:Q", format=".3~g") for name in rows.columns if name != "place"]
    base = alt.Chart(_lines(rows)).transform_filter(_CHOSEN).encode(x=x, tooltip=tooltip)
    predicted, measured = (alt.Y(f"{name}:Q", title="speedup", scale=scale) for name in ("predicted", "measured"))
    yield base.mark_area(color=PALETTE[0], opacity=0.18).encode(y=alt.Y("low:Q", title="speedup"), y2="high:Q")
    yield base.mark_line(color=PALETTE[0], point=alt.OverlayMarkDef(size=24, color=PALETTE[0])).encode(y=predicted)
    yield base.mark_point(size=80, filled=False, strokeWidth=2, opacity=1, color=ACCENT).encode(y=measured)


_CHOSEN = "datum.place == series"


def _words(said: pl.DataFrame) -> Any:
    words = alt.Chart(_lines(said)).transform_filter(_CHOSEN)
    return words.mark_text(align="left", fontSize=13, color=ACCENT, limit=alt.ExprRef("width")).encode(
        x=alt.value(0), y=alt.value(-14), text="sentence:N"
    )
