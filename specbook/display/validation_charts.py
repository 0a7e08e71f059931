"""A chart of a validation: predicted over measured speedups, and what charts of single rows have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import polars as pl

from specbook.checks import printable
from specbook.display.charts import PALETTE, QUIET, finish, inline
from specbook.validation.scores import GATE

# More points than this say no more and make a page slow.
MOST_POINTS = 4000
# Two columns of names, also on a phone.
_NAME_PX = 118
_NOT_STATED = "not stated"
_SPEEDUPS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
_SHARES = ("error", "measured_speedup", "predicted_speedup", "predicted_low", "predicted_high")


def compared_frame(frame: pl.DataFrame, by: str = "engine") -> pl.DataFrame:
    """The rows of a validation that were compared, with words where the file says nothing.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`.
    by : str
        A column that tells groups apart, such as ``engine`` or ``target_model``.

    Returns
    -------
    polars.DataFrame
        Columns ``group, line, series, target, hardware, workload, K, batch, assumptions, measured_speedup,
        predicted_speedup, predicted_low, predicted_high, error``. The groups with the most rows keep their names, as
        many as there are colours; the rest is one group. Of more than ``MOST_POINTS`` rows, evenly many are left out.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> compared_frame(example_validation().frame).select("group", "K", "batch").row(0)
    ('SGLang', '3', '1')
    """
    compared = frame.filter(pl.col("error").is_not_null())
    step = -(-compared.height // MOST_POINTS) or 1
    texts = [words(pl.col(name), name) for name in ("series", "target", "hardware", "workload", "assumptions")]
    numbers = [words(plain(pl.col(name)), label) for name, label in (("draft_length", "K"), ("batch", "batch"))]
    named = compared.with_columns(group=words(pl.col(by), "group"))
    rows = named.with_columns(group=_leading(named["group"])).select("group", "line", *texts, *numbers, *_SHARES)
    return inert(rows.gather_every(step))


def inert(frame: pl.DataFrame) -> pl.DataFrame:
    r"""The same rows with words that nothing acts on and that every drawing can hold.

    Examples
    --------
    >>> inert(pl.DataFrame({"series": ["a\x1b[1m"], "line": [2]}))["series"].item()
    'a\\x1b[1m'
    """
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return frame.with_columns(pl.col(texts).map_elements(printable, return_dtype=pl.String))


def words(column: pl.Expr, name: str) -> pl.Expr:
    """A column as text that says so where nothing is stated."""
    text = column.cast(pl.String).fill_null("")
    return pl.when(text == "").then(pl.lit(_NOT_STATED)).otherwise(text).alias(name)


def plain(column: pl.Expr) -> pl.Expr:
    """Whole numbers without a point, others with two digits behind it."""
    rounded = column.cast(pl.Float64).round(2)
    whole = pl.when(rounded == rounded.round()).then(rounded)
    return pl.coalesce(whole.cast(pl.Int64).cast(pl.String), rounded.cast(pl.String))


def _leading(groups: pl.Series) -> pl.Expr:
    """Names of the largest groups; the others together, where there are more than colours."""
    names = by_size(groups)
    others = names[len(PALETTE) :]
    return pl.when(pl.col("group").is_in(others)).then(pl.lit(f"{len(others)} others")).otherwise(pl.col("group"))


def by_size(groups: pl.Series) -> list[str]:
    """Names of groups, those of the most rows first.

    Examples
    --------
    >>> by_size(pl.Series("group", ["a", "b", "b"]))
    ['b', 'a']
    """
    counts = groups.value_counts().sort("count", groups.name, descending=[True, False])
    return [str(name) for name in counts[groups.name]]


def predictions_chart(frame: pl.DataFrame, title: str, by: str = "engine") -> Any:
    """Predicted over measured speedup, with the diagonal, a band of ±8 %, and lines between winning and losing.

    Parameters
    ----------
    frame : polars.DataFrame
        Of :func:`~specbook.validation.validate.validate`; at least one row was compared.
    title : str
    by : str
        Column that gives the colours.

    Examples
    --------
    >>> from specbook.validation.validate import example_validation
    >>> len(predictions_chart(example_validation().frame, "Predicted over measured").to_dict()["layer"])
    7
    """
    rows = compared_frame(frame, by)
    low, high = _range([*rows["measured_speedup"], *rows["predicted_speedup"]])
    x, y = (_speedup_axis(channel, low, high) for channel in (alt.X, alt.Y))
    text = alt.Title(title, subtitle=f"{_drawn(frame, rows)}; band: within {100 * GATE:.0f} %")
    layers = [*_diagonal(low, high, x, y), *_unity(x, y), _points(rows, x, y), *_quadrants(x)]
    return finish(alt.layer(*layers, title=text), height=420)


def _drawn(frame: pl.DataFrame, rows: pl.DataFrame) -> str:
    n_compared = frame["error"].is_not_null().sum()
    return f"{n_compared:,} rows" if rows.height == n_compared else f"{rows.height:,} of {n_compared:,} rows"


def _range(speedups: Sequence[float]) -> tuple[float, float]:
    """Ends of both axes, so that winning and losing have some room each."""
    return min(0.65, *(0.93 * value for value in speedups)), max(1.55, *(1.07 * value for value in speedups))


def _speedup_axis(channel: Any, low: float, high: float) -> Any:
    kind = "measured" if channel is alt.X else "predicted"
    values = [value for value in _SPEEDUPS if low <= value <= high]
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(values=values, format="~g")
    return channel(f"{kind}_speedup:Q", title=f"{kind} speedup", scale=scale, axis=axis)


def _diagonal(low: float, high: float, x: Any, y: Any) -> list[Any]:
    ends = pl.DataFrame({"measured_speedup": [low, high]}).with_columns(
        predicted_speedup=pl.col("measured_speedup"),
        under=pl.col("measured_speedup") * (1.0 - GATE),
        over=pl.col("measured_speedup") * (1.0 + GATE),
    )
    base = alt.Chart(inline(ends)).encode(x=x)
    band = base.mark_area(color=QUIET, opacity=0.2, clip=True).encode(y="under:Q", y2="over:Q")
    return [band, base.mark_line(color=QUIET, size=1.5).encode(y=y)]


def _unity(x: Any, y: Any) -> list[Any]:
    one = alt.Chart(alt.InlineData(values=[{"measured_speedup": 1, "predicted_speedup": 1}]))
    rule = one.mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5)
    return [rule.encode(x=x), rule.encode(y=y)]


_LIST = ("series", "target", "hardware", "workload", "K", "batch", "assumptions")
TOOLTIP: list[Any] = [
    *(alt.Tooltip(f"{name}:N") for name in ("line", *_LIST)),
    *(alt.Tooltip(f"{name}:Q", format=".2f", title=name.replace("_", " ")) for name in _SHARES[1:]),
    alt.Tooltip("error:Q", format="+.1%"),
]


def _points(rows: pl.DataFrame, x: Any, y: Any) -> Any:
    base = alt.Chart(inline(rows, 4)).mark_point(size=45, filled=True, opacity=0.75)
    return base.encode(x=x, y=y, color=_colours(rows["group"]), tooltip=TOOLTIP)


def _colours(groups: pl.Series) -> Any:
    """A colour for each of the largest groups, grey for the rest."""
    names = [name for name in by_size(groups) if not _is_rest(name)]
    rest = [name for name in groups.unique() if _is_rest(name)]
    scale = alt.Scale(domain=[*names, *rest], range=[*PALETTE[: len(names)], *[QUIET for _ in rest]])
    return alt.Color(
        "group:N", title=None, scale=scale, legend=alt.Legend(columns=2, labelLimit=_NAME_PX, symbolOpacity=1)
    )


def _is_rest(name: str) -> bool:
    return name.endswith(" others") and name.removesuffix(" others").isdigit()


# On either side of the line between losing and winning, above and below that between their predictions.
_QUADRANTS = {
    "top": (0, ("lost,", "not foreseen"), ("won,", "as foreseen")),
    "bottom": ("height", ("lost,", "as foreseen"), ("won,", "not foreseen")),
}


def _quadrants(x: Any) -> Iterator[Any]:
    """What a point in each quarter means; the first word alone where the chart is as narrow as a phone."""
    for edge, (y, left, right) in _QUADRANTS.items():
        values = [
            {"measured_speedup": 1, "words": list(words), "is_left": is_left}
            for words, is_left in ((left, True), (right, False))
        ]
        shown = "width < 420 && datum.is_left ? split(datum.words[0], ',')[0] : datum.words"
        yield (
            alt.Chart(alt.InlineData(values=values))
            .transform_calculate(shown=shown)
            .mark_text(
                align=alt.ExprRef("datum.is_left ? 'right' : 'left'"),
                dx=alt.ExprRef("datum.is_left ? -6 : 6"),
                dy=4 if edge == "top" else -18,
                baseline="top" if edge == "top" else "bottom",
                fontSize=11,
                color=QUIET,
            )
            .encode(x=x, y=alt.value(y), text="shown:N")
        )
