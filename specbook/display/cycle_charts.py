"""Charts of the cycle simulator: rows of a sweep in, Altair chart out.

Lines are exact expectations; points are what was simulated. Every function takes rows of
:func:`~specbook.acceptance.cycle_sweep.sweep_cycles`, and says which of them it is made for.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from specbook.acceptance.cycle_audit import optimal_draft_lengths, pareto_front
from specbook.display.charts import QUIET, finish, inline
from specbook.roofline.speedup import round_seconds, speedup

_SPEEDUP = ("expected_speedup", "speedup", "speedup (×)")


def speedup_by_draft_length_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Speedup against draft length, one line an acceptance, with the line that separates gain from loss.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one draft model and one draft cost.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(1, 2), acceptances=(0.8,), draft_costs_s=(20e-6,)))
    >>> len(speedup_by_draft_length_chart(sweep[:2], "Speedup").to_dict()["layer"])
    3
    """
    lines, points = _exact_and_simulated(sweep, _draft_length(sweep), _SPEEDUP, _acceptance(sweep))
    return finish(alt.layer(_unity_line(), lines, points, title=title), height=300)


def acceptance_by_draft_length_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Share of drafted tokens that is accepted against draft length, one line a draft model.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one acceptance and one draft cost.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(1, 2), acceptances=(0.8,), draft_costs_s=(20e-6,)))
    >>> acceptance_by_draft_length_chart(sweep, "Accepted").to_dict()["layer"][0]["encoding"]["color"]["field"]
    'model'
    """
    named = sweep.with_columns(model=pl.col("draft_model").str.replace("_", " "))
    models = alt.Color("model:N", title=None, sort=named["model"].unique(maintain_order=True).to_list())
    names = ("expected_draft_acceptance_rate", "draft_acceptance_rate", "accepted ÷ drafted tokens")
    lines, points = _exact_and_simulated(named, _draft_length(sweep), names, models, alt.Scale(domain=[0, 1]))
    return finish(alt.layer(lines, points, title=title))


def waste_by_draft_length_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Share of drafted tokens that is rejected against draft length, one line an acceptance.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one draft model and one draft cost.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(1, 2), acceptances=(0.8,), draft_costs_s=(20e-6,)))
    >>> waste_by_draft_length_chart(sweep[:2], "Waste").to_dict()["layer"][0]["encoding"]["y"]["title"]
    'rejected ÷ drafted tokens'
    """
    names = ("expected_waste", "waste", "rejected ÷ drafted tokens")
    scale = alt.Scale(domain=[0, 1])
    lines, points = _exact_and_simulated(sweep, _draft_length(sweep), names, _acceptance(sweep), scale)
    return finish(alt.layer(lines, points, title=title))


def speedup_by_cost_ratio_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Speedup against the cost of a draft pass in verify passes, one line an acceptance, with the line at 1.

    Lines follow the law between the costs of the sweep, so that they cross 1 at the break-even cost ratio.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one draft model and one draft length.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(5,), acceptances=(0.8,)))
    >>> speedup_by_cost_ratio_chart(sweep[:4], "Speedup").to_dict()["layer"][1]["encoding"]["x"]["field"]
    'cost_ratio'
    """
    axis = alt.Axis(values=sweep["cost_ratio"].unique().sort().to_list(), format=".3~r")
    ratio = alt.X("cost_ratio:Q", title="cost ratio (draft pass ÷ verify pass)", scale=alt.Scale(zero=True), axis=axis)
    _, points = _exact_and_simulated(sweep, ratio, _SPEEDUP, _acceptance(sweep))
    lines = _law_by_cost_ratio(sweep).encode(
        x=ratio, y=alt.Y("expected_speedup:Q", title=_SPEEDUP[2]), color=_acceptance(sweep)
    )
    return finish(alt.layer(_unity_line(), lines, points, title=title), height=300)


def _law_by_cost_ratio(sweep: pl.DataFrame) -> Any:
    """Lines of the exact speedup up to the largest swept cost ratio; tokens per round do not depend on the cost."""
    cheapest = sweep.filter(pl.col("cost_ratio") == pl.col("cost_ratio").min())
    tokens = pl.col("expected_speedup") * (1.0 + pl.col("draft_length") * pl.col("cost_ratio"))
    largest = float(sweep["cost_ratio"].to_numpy().max())
    law = speedup(alt.datum.tokens, 1.0, round_seconds(alt.datum.draft_length, alt.datum.cost_ratio, 1.0))
    return (
        alt.Chart(inline(cheapest.select("swept_acceptance", "draft_length", tokens=tokens)))
        .transform_calculate(cost_ratio=f"sequence(0, {1.01 * largest:g}, {largest / 50:g})")
        .transform_flatten(["cost_ratio"])
        .transform_calculate(expected_speedup=str(law))
        .mark_line()
    )


def speedup_and_overhead_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Exact speedup against the share of a round spent drafting; lines join what nothing else of an acceptance beats.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one draft model.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(1, 5), acceptances=(0.8,)))
    >>> speedup_and_overhead_chart(sweep[:8], "Pareto").to_dict()["layer"][1]["mark"]["type"]
    'line'
    """
    shown = ("swept_acceptance", "draft_length", "cost_ratio", "expected_speedup")
    drafting = alt.datum.draft_length * alt.datum.cost_ratio  # in verify passes
    x = alt.X("overhead:Q", title="time spent drafting (share of a round)", axis=alt.Axis(format="%"))
    y = alt.Y("expected_speedup:Q", title=_SPEEDUP[2])
    tooltip = ["swept_acceptance:N", "draft_length:Q", "cost_ratio:Q", alt.Tooltip("overhead:Q", format=".1%"),
               alt.Tooltip("expected_speedup:Q", format=".2f")]  # fmt: skip
    points = alt.Chart(inline(sweep.select(shown))).mark_point(size=28, opacity=0.55)
    front = alt.Chart(inline(pareto_front(sweep).select(shown))).mark_line(point=alt.OverlayMarkDef(size=40))
    layers = [
        chart.transform_calculate(overhead=str(drafting / (1 + drafting))).encode(
            x=x, y=y, color=_acceptance(sweep), tooltip=tooltip
        )
        for chart in (points, front)
    ]
    return finish(alt.layer(_unity_line(), layers[1], layers[0], title=title), height=320)


def optimal_draft_length_chart(sweep: pl.DataFrame, title: str) -> Any:
    """Fastest swept draft length by acceptance and draft cost, and its speedup, exact; grey: every one of them loses.

    Parameters
    ----------
    sweep : polars.DataFrame
        Rows of one draft model and one time of a verify pass.
    title : str

    Examples
    --------
    >>> from specbook.acceptance.cycle_sweep import SweepConfig, sweep_cycles
    >>> sweep = sweep_cycles(SweepConfig(draft_lengths=(1, 5), acceptances=(0.5, 0.8)))
    >>> len(optimal_draft_length_chart(sweep[:16], "Best K").to_dict()["layer"])
    2
    """
    none = pl.col("best_draft_length") == 0
    gain = pl.col("best_speedup").map_elements("{:.2f}".format, return_dtype=pl.String)
    figures = pl.format("{} · {}×", "best_draft_length", gain)
    label = pl.when(none).then(pl.lit("none")).otherwise(figures)
    short = pl.when(none).then(pl.lit("–")).otherwise(pl.col("best_draft_length").cast(pl.String))
    optima = optimal_draft_lengths(sweep).with_columns(
        draft_us=(1e6 * pl.col("draft_s")).round(3), label=label, short=short
    )
    columns = ("swept_acceptance", "draft_us", "best_draft_length", "best_speedup", "label", "short")
    costs = f"draft pass (µs); verify pass: {1e6 * sweep['verify_s'][0]:g} µs"
    base = alt.Chart(inline(optima.select(columns))).encode(
        x=alt.X("draft_us:O", title=costs, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("swept_acceptance:O", title="acceptance", sort="descending"),
        tooltip=[
            "swept_acceptance:O",
            "draft_us:O",
            "best_draft_length:Q",
            alt.Tooltip("best_speedup:Q", format=".2f"),
        ],
    )
    longest = max(2, *optima["best_draft_length"])
    scale = alt.Scale(type="log", domain=[1, longest], range=["#e8f1f8", "#0072B2"], clamp=True)
    shade = alt.Color("best_draft_length:Q", scale=scale, legend=None)
    cells = base.mark_rect(stroke="white", strokeWidth=2, cornerRadius=3).encode(
        color=alt.condition("datum.best_draft_length == 0", alt.value("#d3d6da"), shade)
    )
    # White from where the shade is dark enough for it.
    ink = alt.condition(f"datum.best_draft_length > {longest**0.75:.1f}", alt.value("white"), alt.value("#24292f"))
    text = base.transform_calculate(shown="width < 420 ? datum.short : datum.label").mark_text(fontSize=12)
    layers = alt.layer(cells, text.encode(text="shown:N", color=ink), title=title)
    return finish(layers, height=34 * optima["swept_acceptance"].n_unique() + 40)


def _exact_and_simulated(
    sweep: pl.DataFrame, x: alt.X, names: tuple[str, str, str], color: alt.Color, scale: Any = alt.Undefined
) -> tuple[Any, Any]:
    """A line for the exact figure and points for the simulated one; ``names`` are their columns and the title."""
    exact, simulated, title = names
    by = [str(channel["shorthand"]) for channel in (color, x)]
    columns = [shorthand.split(":")[0] for shorthand in by]
    base = alt.Chart(inline(sweep.select(*columns, exact, simulated))).encode(x=x, color=color)
    figures = [alt.Tooltip(f"{name}:Q", format=".3f") for name in (simulated, exact)]
    lines = base.mark_line().encode(y=alt.Y(f"{exact}:Q", title=title, scale=scale))
    points = base.mark_point().encode(y=alt.Y(f"{simulated}:Q", title=title, scale=scale), tooltip=[*by, *figures])
    return lines, points


def _draft_length(sweep: pl.DataFrame) -> alt.X:
    lengths = sweep["draft_length"].unique().sort().to_list()
    return alt.X("draft_length:Q", title="draft length K (tokens)", axis=alt.Axis(values=lengths, format="d"))


def _acceptance(sweep: pl.DataFrame) -> alt.Color:
    acceptances = sweep["swept_acceptance"].unique().sort().to_list()
    return alt.Color("swept_acceptance:N", title="acceptance", sort=acceptances, legend=alt.Legend(columns=6))


def _unity_line() -> Any:
    """Where drafting neither gains nor loses."""
    one = alt.InlineData(values=[{"one": 1}])
    return alt.Chart(one).mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5).encode(y="one:Q")
