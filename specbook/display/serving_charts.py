"""Charts of the serving simulation: time lines, queues against their formulas, cliffs, and latency under load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from specbook.display.charts import ACCENT, PALETTE, QUIET, finish, inline
from specbook.serving.result import ServingResult

_PROMPT, _ROUND = "chunk of the prompt", "decode round"


def timeline_frame(results: Mapping[str, ServingResult]) -> pl.DataFrame:
    """Iterations of small runs, one row each.

    Parameters
    ----------
    results : mapping of str to ServingResult
        By what the chart calls them.

    Returns
    -------
    polars.DataFrame
        Columns ``run, start_ms, end_ms, work, tokens``; tokens are those that come out.

    Examples
    --------
    >>> timeline_frame({"plain": example_result()})["work"].to_list()
    ['chunk of the prompt', 'chunk of the prompt', 'decode round']
    """
    work = pl.when(pl.col("prefill_tokens") > 0).then(pl.lit(_PROMPT)).otherwise(pl.lit(_ROUND))
    columns = [
        (1e3 * pl.col("start_s")).alias("start_ms"),
        (1e3 * pl.col("end_s")).alias("end_ms"),
        work.alias("work"),
        pl.col("emitted_tokens").alias("tokens"),
    ]
    return pl.concat(
        each.iterations.select(pl.lit(name).alias("run"), *columns).sort("start_ms") for name, each in results.items()
    )


def timeline_chart(frame: pl.DataFrame, title: str) -> Any:
    """Iterations as bars on the clock, with the tokens that each brings.

    Examples
    --------
    >>> chart = timeline_chart(timeline_frame({"plain": example_result()}), "One request")
    >>> len(chart.to_dict()["layer"])
    2
    """
    order = frame["run"].unique(maintain_order=True).to_list()
    label = pl.when(pl.col("tokens") > 0).then(pl.format("+{}", "tokens")).otherwise(pl.lit(""))
    middle = (pl.col("start_ms") + pl.col("end_ms")) / 2
    base = alt.Chart(inline(frame.with_columns(label=label, middle_ms=middle))).encode(
        y=alt.Y("run:N", title=None, sort=order, axis=alt.Axis(labelLimit=160))
    )
    colour = alt.Color("work:N", title=None, scale=alt.Scale(domain=[_PROMPT, _ROUND], range=[PALETTE[4], PALETTE[0]]))
    tooltip = ["run:N", "start_ms:Q", "end_ms:Q", "work:N", "tokens:Q"]
    bars = base.mark_bar(stroke="white", strokeWidth=2, height=26).encode(
        x=alt.X("start_ms:Q", title="time (ms)"), x2="end_ms:Q", color=colour, tooltip=tooltip
    )
    text = base.mark_text(fontSize=12, color="white").encode(x="middle_ms:Q", text="label:N", color=alt.value("white"))
    return finish(alt.layer(bars, text, title=title), height=56 * len(order) + 90)


def wait_chart(curve: pl.DataFrame, points: pl.DataFrame, title: str) -> Any:
    """Mean wait by load: a formula as a line, simulations as points with their intervals.

    Parameters
    ----------
    curve : polars.DataFrame
        Columns ``requests_per_s, wait_ms``.
    points : polars.DataFrame
        Columns ``requests_per_s, wait_ms, low_ms, high_ms``.
    title : str

    Examples
    --------
    >>> point = {"requests_per_s": [2.0], "wait_ms": [3.2], "low_ms": [3.1], "high_ms": [3.3]}
    >>> frame = pl.DataFrame(point)
    >>> len(wait_chart(frame.select("requests_per_s", "wait_ms"), frame, "Wait").to_dict()["layer"])
    3
    """
    x = alt.X("requests_per_s:Q", title="load (requests per second)", scale=alt.Scale(type="log"), axis=_PLAIN)
    y = alt.Y("wait_ms:Q", title="mean wait (ms)", scale=alt.Scale(zero=True))
    line = alt.Chart(inline(curve)).mark_line(color=QUIET).encode(x=x, y=y)
    base = alt.Chart(inline(points)).encode(x=x)
    spread = base.mark_rule(size=3, color=PALETTE[0], opacity=0.5).encode(y="low_ms:Q", y2="high_ms:Q")
    tooltip = ["requests_per_s:Q", *(alt.Tooltip(f"{n}:Q", format=".2f") for n in ("low_ms", "wait_ms", "high_ms"))]
    marks = base.mark_point(size=70, color=PALETTE[0]).encode(y=y, tooltip=tooltip)
    return finish(alt.layer(line, spread, marks, title=title), height=260)


_PLAIN = alt.Axis(format="~g")


def little_frame(results: Mapping[str, ServingResult]) -> pl.DataFrame:
    r"""Requests that run, from the iterations, and rate times time, from the requests.

    Parameters
    ----------
    results : mapping of str to ServingResult
        Runs in which nobody was preempted: a request that waits again does not run.

    Returns
    -------
    polars.DataFrame
        Columns ``run, running, rate_times_time``.

    Notes
    -----
    .. math:: L = \frac{1}{T} \sum_i B_i\,(t_i' - t_i), \qquad \lambda W = \frac{1}{T} \sum_r (e_r - s_r)

    Over a run that starts and ends empty the two are equal, whatever the load and the order of service.

    References
    ----------
    little1961

    Examples
    --------
    >>> little_frame({"plain": example_result()}).rows()
    [('plain', 1.0, 1.0)]
    """
    rows = []
    for name, each in results.items():
        lasted = each.iterations["end_s"] - each.iterations["start_s"]
        held = each.requests["end_s"] - each.requests["scheduled_s"]
        running = float((each.iterations["batch_size"] * lasted).sum()) / each.summary.wall_s
        rows.append((name, running, float(held.sum()) / each.summary.wall_s))
    return pl.DataFrame(rows, schema=["run", "running", "rate_times_time"], orient="row")


def little_chart(frame: pl.DataFrame, title: str) -> Any:
    """Runs as points on the diagonal.

    Examples
    --------
    >>> chart = little_chart(little_frame({"plain": example_result()}), "Little")
    >>> len(chart.to_dict()["layer"])
    2
    """
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("rate_times_time:Q", title="requests per second × seconds in the batch", scale=scale, axis=_PLAIN)
    y = alt.Y("running:Q", title="mean requests that run", scale=scale, axis=_PLAIN)
    ends = pl.DataFrame({"running": [frame["running"].min(), frame["running"].max()]})
    line = alt.Chart(inline(ends.with_columns(rate_times_time="running"))).mark_line(color=QUIET).encode(x=x, y=y)
    tooltip = ["run:N", alt.Tooltip("running:Q", format=".2f"), alt.Tooltip("rate_times_time:Q", format=".2f")]
    marks = alt.Chart(inline(frame)).mark_point(size=60, color=PALETTE[0]).encode(x=x, y=y, tooltip=tooltip)
    return finish(alt.layer(line, marks, title=title), height=260)


def cliff_chart(frame: pl.DataFrame, bound_blocks: float, title: str) -> Any:
    """P99 TTFT by blocks of the cache, one line a run, with the blocks below which no queue settles.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``run, n_blocks, ttft_p99_s, preemptions``.
    bound_blocks : float
        By Little's law, for the first run.
    title : str

    Examples
    --------
    >>> row = {"run": ["plain"], "n_blocks": [900], "ttft_p99_s": [0.5], "preemptions": [12]}
    >>> len(cliff_chart(pl.DataFrame(row), 800.0, "Cliff").to_dict()["layer"])
    2
    """
    order = frame["run"].unique(maintain_order=True).to_list()
    lines = (
        alt.Chart(inline(frame, 4))
        .mark_line(point=alt.OverlayMarkDef(size=30))
        .encode(
            x=alt.X("n_blocks:Q", title="KV blocks", scale=alt.Scale(zero=False), axis=alt.Axis(format=",d")),
            y=alt.Y("ttft_p99_s:Q", title="P99 TTFT (s)", scale=alt.Scale(type="log"), axis=_PLAIN),
            color=alt.Color("run:N", title=None, sort=order),
            tooltip=["run:N", "n_blocks:Q", alt.Tooltip("ttft_p99_s:Q", format=".3f"), "preemptions:Q"],
        )
    )
    bound = alt.Chart(alt.InlineData(values=[{"n_blocks": round(bound_blocks)}]))
    return finish(
        alt.layer(lines, bound.mark_rule(strokeDash=[5, 4], color=QUIET, size=1.5).encode(x="n_blocks:Q"), title=title),
        height=280,
    )


def load_chart(frame: pl.DataFrame, title: str) -> Any:
    """P90 TPOT by load, one line a policy; hollow where the system was not stable.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``policy, requests_per_s, tpot_p90_s, stable``; policies are drawn in order of appearance.
    title : str

    Examples
    --------
    >>> row = {"policy": ["K = 2"], "requests_per_s": [8.0], "tpot_p90_s": [0.004], "stable": [True]}
    >>> len(load_chart(pl.DataFrame(row), "Load").to_dict()["layer"])
    2
    """
    order = frame["policy"].unique(maintain_order=True).to_list()
    shown = frame.select("policy", "requests_per_s", (1e3 * pl.col("tpot_p90_s")).alias("tpot_ms"), "stable")
    loads = alt.Axis(values=frame["requests_per_s"].unique().sort().to_list(), format="~f")
    base = alt.Chart(inline(shown, 4)).encode(
        x=alt.X("requests_per_s:Q", title="load (requests per second)", axis=loads),
        y=alt.Y("tpot_ms:Q", title="P90 TPOT (ms)", scale=alt.Scale(zero=True)),
        color=alt.Color("policy:N", title=None, sort=order, legend=alt.Legend(columns=len(order), symbolType="stroke")),
    )
    fill = alt.condition("datum.stable", alt.Fill("policy:N", sort=order, legend=None), alt.value("transparent"))
    tooltip = ["policy:N", "requests_per_s:Q", alt.Tooltip("tpot_ms:Q", format=".2f"), "stable:N"]
    points = base.mark_point(size=45, filled=False).encode(fill=fill, tooltip=tooltip)
    return finish(alt.layer(base.mark_line(), points, title=title), height=300)


def use_frame(results: Mapping[str, ServingResult], bin_s: float) -> pl.DataFrame:
    """Share of the KV blocks in use over time, averaged over bins.

    Parameters
    ----------
    results : mapping of str to ServingResult
    bin_s : float
        Width of a bin, in seconds.

    Returns
    -------
    polars.DataFrame
        Columns ``run, time_s, kv_use``; an iteration counts in the bin in which it starts, by its length.

    Examples
    --------
    >>> use_frame({"plain": example_result()}, 1.0).rows()
    [('plain', 0.5, 0.109375)]
    """
    frames = []
    for name, each in results.items():
        lasted = pl.col("end_s") - pl.col("start_s")
        used = pl.col("kv_blocks_used") / each.config.kv.n_blocks
        time = ((pl.col("start_s") / bin_s).floor() + 0.5) * bin_s
        binned = each.iterations.group_by(time.alias("time_s"), maintain_order=True).agg(
            ((used * lasted).sum() / lasted.sum()).alias("kv_use")
        )
        frames.append(binned.select(pl.lit(name).alias("run"), "time_s", "kv_use").sort("time_s"))
    return pl.concat(frames)


def use_chart(frame: pl.DataFrame, title: str) -> Any:
    """Share of the cache in use over time, one line a run.

    Examples
    --------
    >>> use_chart(use_frame({"plain": example_result()}, 1.0), "Use").to_dict()["mark"]["type"]
    'line'
    """
    order = frame["run"].unique(maintain_order=True).to_list()
    chart = (
        alt.Chart(inline(frame, 3), title=title)
        .mark_line()
        .encode(
            x=alt.X("time_s:Q", title="time (s)"),
            y=alt.Y("kv_use:Q", title="KV blocks in use", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("run:N", title=None, sort=order),
            tooltip=["run:N", "time_s:Q", alt.Tooltip("kv_use:Q", format=".1%")],
        )
    )
    return finish(chart, height=260)


def best_chart(best: pl.DataFrame, title: str) -> Any:
    """Best draft length by load and kind of arrivals, and how much shorter it makes the P90 TPOT.

    Parameters
    ----------
    best : polars.DataFrame
        As :func:`~specbook.display.load_explorer.best_by_load` returns it.
    title : str

    Examples
    --------
    >>> row = {"burstiness": [1.0], "requests_per_s": [8.0], "draft_length": [4], "gain": [2.1]}
    >>> len(best_chart(pl.DataFrame(row), "Best").to_dict()["layer"])
    2
    """
    arrivals = pl.when(pl.col("burstiness") == 1.0).then(pl.lit("steady")).otherwise(pl.lit("bursty"))
    gain = pl.when(pl.col("gain").is_finite()).then(pl.format(" · {}×", pl.col("gain").round(1)))
    text = pl.format("{}{}", "draft_length", gain.fill_null(" · only"))
    rows = best.with_columns(arrivals=arrivals, label=text.fill_null("none"), short=pl.col("draft_length").cast(str))
    base = alt.Chart(inline(rows.select("arrivals", "requests_per_s", "draft_length", "label", "short"), 4)).encode(
        x=alt.X("requests_per_s:O", title="load (requests per second)", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("arrivals:N", title=None, sort=["steady", "bursty"]),
        tooltip=["arrivals:N", "requests_per_s:O", "label:N"],
    )
    scale = alt.Scale(domain=[0, int(np.nanmax(best["draft_length"].to_numpy()))], range=["#e8f1f8", "#0072B2"])
    cells = base.mark_rect(stroke="white", strokeWidth=2, cornerRadius=3).encode(
        color=alt.Color("draft_length:Q", scale=scale, legend=None)
    )
    ink = alt.condition("datum.draft_length > 2", alt.value("white"), alt.value("#24292f"))
    labels = base.transform_calculate(shown="width < 420 ? datum.short : datum.label")
    marks = labels.mark_text(fontSize=12).encode(text="shown:N", color=ink)
    return finish(alt.layer(cells, marks, title=title), height=150)


def goodput_chart(frame: pl.DataFrame, title: str) -> Any:
    """Goodput of each configuration as a bar; in colour those that the gate keeps.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns ``name, goodput_requests_per_s, viable, reason``.
    title : str

    Examples
    --------
    >>> row = {"name": ["K = 2"], "goodput_requests_per_s": [30.0], "viable": [True], "reason": [""]}
    >>> goodput_chart(pl.DataFrame(row), "Goodput").to_dict()["mark"]["type"]
    'bar'
    """
    chart = (
        alt.Chart(inline(frame.select("name", "goodput_requests_per_s", "viable", "reason"), 4), title=title)
        .mark_bar(height=18)
        .encode(
            x=alt.X("goodput_requests_per_s:Q", title="goodput (requests per second)"),
            y=alt.Y("name:N", title=None, sort=frame["name"].to_list()),
            color=alt.condition("datum.viable", alt.value(ACCENT), alt.value(QUIET)),
            tooltip=["name:N", alt.Tooltip("goodput_requests_per_s:Q", format=".1f"), "reason:N"],
        )
    )
    return finish(chart, height=28 * frame.height + 20)


def example_result() -> ServingResult:
    """A run of one request of two chunks and one round, for examples.

    Examples
    --------
    >>> example_result().summary.wall_s
    0.75
    """
    from specbook.serving.iteration_time import ConstantIterationTime
    from specbook.serving.kv_blocks import KvConfig
    from specbook.serving.result import simulate_serving
    from specbook.serving.serving_config import ServingConfig
    from specbook.serving.workload import Workload

    clock = ConstantIterationTime(seconds=0.25)
    config = ServingConfig(kv=KvConfig(n_blocks=64), iteration_time=clock, chunk_tokens=64)
    workload = Workload(arrival_s=np.zeros(1), prompt_tokens=np.array([128]), output_tokens=np.array([2]))
    return simulate_serving(config, workload, rng=np.random.default_rng(0))
