"""Charts of the funnel: what each gate let through and what it dropped, and what came out at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from specbook.deploy.deployment import ContextSchedule
from specbook.display.charts import PALETTE, QUIET, finish, inline
from specbook.stage_folder import Gate
from specbook.stages.plan import THINGS

_LEFT, _DROPPED, _OF_NONE = "left", "dropped", "nothing entered"
_ROW_PX = 34
_SHADES = ["#e8f1f8", "#0072B2"]


def gates_frame(gates: Mapping[str, Gate]) -> pl.DataFrame:
    """Gates as rows: of each stage what left, then each reason for which something was dropped.

    Parameters
    ----------
    gates : mapping of str to Gate
        By stage, in order.

    Returns
    -------
    polars.DataFrame
        Columns ``stage, outcome, count, start, end, text``; from start to end is the row's share of what entered the
        stage, behind that of the row before it, and nothing where nothing entered.

    Examples
    --------
    >>> gates_frame({"3-roofline": Gate(entered=8, left=2, dropped={"too slow": 6})})["text"].to_list()
    ['3 roofline: 2 of 8 configurations', '6 too slow']
    """
    rows = []
    for name, gate in gates.items():
        stage = name.replace("-", " ", 1)
        head = f"{stage}: {gate.left:,} of {gate.entered:,} {THINGS[name]}" if gate.entered else f"{stage}: {_OF_NONE}"
        rows.append((stage, _LEFT, gate.left, head))
        rows += [(stage, _DROPPED, count, f"{count:,} {reason}") for reason, count in gate.dropped.items() if count]
    schema = {"stage": pl.String, "outcome": pl.String, "count": pl.Int64, "text": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    total = pl.col("count").sum().over("stage")
    end = pl.when(total > 0).then(pl.col("count").cum_sum().over("stage") / total).otherwise(0.0)
    start = end.shift(1, fill_value=0.0).over("stage")
    return frame.select("stage", "outcome", "count", start.alias("start"), end.alias("end"), "text")


def gates_chart(gates: Mapping[str, Gate], title: str = "What each gate let through") -> Any:
    """Bars of what left each stage and of what was dropped, with the reasons written out.

    Stages count different things (profiles, devices, configurations), so that a bar is a share of what entered its own
    stage; the counts are in the text. Bars continue where the one above them ends.

    Parameters
    ----------
    gates : mapping of str to Gate
        By stage, in order.
    title : str

    Examples
    --------
    >>> gates = {"3-roofline": Gate(entered=8, left=2, dropped={"too slow": 6})}
    >>> [layer["mark"]["type"] for layer in gates_chart(gates).to_dict()["layer"]]
    ['bar', 'bar', 'text', 'text']
    """
    frame = gates_frame(gates).with_row_index("row")
    rows = inline(frame.with_columns(whole=pl.lit(1.0)))
    return finish(alt.layer(*_gate_layers(rows), title=title), height=_ROW_PX * frame.height)


def _gate_layers(data: alt.InlineData) -> list[Any]:
    """The whole of what entered, the part that each row is, and the text above it."""
    step = alt.Scale(paddingInner=0.0, paddingOuter=0.0)
    base = alt.Chart(data).encode(y=alt.Y("row:O", axis=None, scale=step))
    x = alt.X("start:Q", axis=None, scale=alt.Scale(domain=[0, 1]))
    bar: dict[str, Any] = {"height": 9, "yOffset": 8, "cornerRadius": 2}
    colour = alt.condition(f"datum.outcome == '{_LEFT}'", alt.value(PALETTE[0]), alt.value(PALETTE[1]))
    tooltip = ["stage:N", "outcome:N", "count:Q", "text:N"]
    told = base.transform_calculate(shown="width < 420 ? split(datum.text, ', ')[0] : datum.text")
    text = told.encode(x=alt.value(0), text="shown:N", tooltip=["text:N"]).mark_text
    placed: dict[str, Any] = {"align": "left", "yOffset": -6, "limit": alt.ExprRef("width - 10")}
    return [
        base.mark_bar(color=QUIET, opacity=0.25, **bar).encode(x=alt.X("whole:Q", axis=None)),
        base.mark_bar(**bar).encode(x=x, x2="end:Q", color=colour, tooltip=tooltip),
        text(fontSize=13, fontWeight=600, **placed).transform_filter(f"datum.outcome == '{_LEFT}'"),
        text(fontSize=12, dx=10, **placed).transform_filter(f"datum.outcome == '{_DROPPED}'"),
    ]


def schedule_frame(schedules: Sequence[ContextSchedule]) -> pl.DataFrame:
    """The ranges of a schedule, one row each.

    Parameters
    ----------
    schedules : sequence of ContextSchedule

    Returns
    -------
    polars.DataFrame
        Columns ``context, first_batch, last_batch, draft_length, smallest_speedup, largest_loss``.

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> schedule_frame(example_plan().schedules)["draft_length"].to_list()
    [4, 2, 0]
    """
    names = ("first_batch", "last_batch", "draft_length", "smallest_speedup", "largest_loss")
    return pl.DataFrame(
        [
            {"context": place.first_context} | {name: getattr(each, name) for name in names}
            for place in schedules
            for each in place.ranges
        ]
    )


def gains_frame(comparison: pl.DataFrame) -> pl.DataFrame:
    """What each draft was projected to gain, and what it gained under the load.

    Parameters
    ----------
    comparison : polars.DataFrame
        Of stage 4, as :func:`~specbook.stages.serving.read_comparison` returns it.

    Returns
    -------
    polars.DataFrame
        Columns ``hardware, draft, projected, under_load, viable, reason``; drafts and schedules
        alone. ``projected`` is a speedup at the batch of the draft's first role, null for a schedule; ``under_load`` is
        the tail of TPOT without ÷ with speculation, null for what could not be simulated.

    Examples
    --------
    >>> gains_frame(example_comparison())["draft"].to_list()
    ['K = 4', 'schedule']
    """
    drafting = comparison.filter(pl.col("kind").is_in(["draft", "schedule"]))
    chain = pl.format("K = {}", "draft_length") + pl.format(", {} nodes", "tree_nodes").fill_null("")
    return drafting.select(
        "hardware",
        pl.when(pl.col("kind") == "draft").then(chain).otherwise(pl.lit("schedule")).alias("draft"),
        pl.col("projected_speedup").alias("projected"),
        pl.col("tail_gain").alias("under_load"),
        "viable",
        "reason",
    )


def gains_chart(frame: pl.DataFrame, title: str) -> Any:
    """What was projected as a ring and what was left under the load as a dot; grey where the gate dropped it.

    Parameters
    ----------
    frame : polars.DataFrame
        As :func:`gains_frame` returns it.
    title : str

    Examples
    --------
    >>> chart = gains_chart(gains_frame(example_comparison()), "Gain")
    >>> [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]
    ['rule', 'rule', 'point', 'point', 'text']
    """
    rows = frame.with_row_index("row").with_columns(text=pl.format("{}, {}", "hardware", "draft"))
    base = alt.Chart(inline(rows, 4)).encode(y=alt.Y("row:O", axis=None))
    scale, axis = alt.Scale(zero=False, padding=12), alt.Axis(grid=False)
    title_x = "times faster than without speculation"
    x = alt.X("projected:Q", title=title_x, scale=scale, axis=axis)
    colour = alt.condition("datum.viable", alt.value(PALETTE[0]), alt.value(QUIET))
    figures = [alt.Tooltip(f"{name}:Q", format=".2f") for name in ("projected", "under_load")]
    tooltip = ["text:N", *figures, "reason:N"]
    both = base.transform_filter("datum.projected !== null && datum.under_load !== null")
    kept = alt.X("under_load:Q", title=title_x)
    layers = [
        alt.Chart(alt.InlineData(values=[{"one": 1}]))
        .mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5)
        .encode(x=alt.X("one:Q", title=title_x)),
        both.mark_rule(yOffset=9, size=1.5, opacity=0.6).encode(x=x, x2="under_load:Q", color=colour),
        both.mark_point(yOffset=9, size=70, filled=False, strokeWidth=2).encode(x=x, color=colour, tooltip=tooltip),
        base.mark_point(yOffset=9, size=90).encode(x=kept, color=colour, tooltip=tooltip),
        base.mark_text(align="left", yOffset=-6, fontSize=12).encode(x=alt.value(0), text="text:N"),
    ]
    return finish(alt.layer(*layers, title=title), height=_ROW_PX * frame.height + 10)


def schedules_chart(frames: Mapping[str, pl.DataFrame], title: str) -> Any:
    """Draft length of each range of batches, one row a schedule; grey where nothing is drafted.

    Parameters
    ----------
    frames : mapping of str to polars.DataFrame
        Schedules of one context by what the chart calls them, as :func:`schedule_frame` returns them.
    title : str

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> chart = schedules_chart({"3 %": schedule_frame(example_plan().schedules)}, "Schedule")
    >>> [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]
    ['bar', 'text']
    """
    rows = pl.concat(each.select(pl.lit(name).alias("run"), pl.all()) for name, each in frames.items())
    is_open = pl.col("last_batch") == pl.col("last_batch").max().over("run")
    end = pl.when(is_open).then(1.4 * pl.col("last_batch")).otherwise(pl.col("last_batch") + 1)
    placed = rows.with_columns(end=end, middle=(pl.col("first_batch") * end).sqrt())
    y = alt.Y("run:N", title=None, sort=list(frames), axis=alt.Axis(labelLimit=90, domain=False, ticks=False))
    base = alt.Chart(inline(placed, 4)).encode(y=y)
    scale = alt.Scale(type="log", base=2, nice=False, domain=[1, float(placed["end"].to_numpy().max())])
    x = alt.X("first_batch:Q", title="requests at once", scale=scale, axis=alt.Axis(format="d", grid=False))
    shade = alt.Color("draft_length:Q", scale=alt.Scale(domain=[0, 6], range=_SHADES, clamp=True), legend=None)
    colour = alt.condition("datum.draft_length == 0", alt.value("#d3d6da"), shade)
    tooltip = ["run:N", "first_batch:Q", "last_batch:Q", "draft_length:Q"]
    ink = alt.condition("datum.draft_length > 3", alt.value("white"), alt.value("#24292f"))
    bars = base.mark_bar(stroke="white", strokeWidth=2, height=28).encode(
        x=x, x2="end:Q", color=colour, tooltip=tooltip
    )
    labels = base.mark_text(fontSize=12).encode(x="middle:Q", text="draft_length:Q", color=ink)
    return finish(alt.layer(bars, labels, title=title), height=40 * len(frames) + 60)


def example_comparison() -> pl.DataFrame:
    """A device's rows of stage 4, without most of their figures, for examples.

    Examples
    --------
    >>> example_comparison().height
    3
    """
    return pl.DataFrame(
        {
            "hardware": ["l4"] * 3,
            "kind": ["no speculation", "draft", "schedule"],
            "draft_length": [0, 4, None],
            "tree_nodes": pl.Series([None] * 3, dtype=pl.Int64),
            "projected_speedup": [None, 1.9, None],
            "tail_gain": [1.0, 0.9, 1.2],
            "viable": [True, False, True],
            "reason": ["", "p90 TPOT 31.0 ms, without speculation 28.0 ms", ""],
        }
    )
