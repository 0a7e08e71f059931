"""Charts of what the native engine measured: frames in, Altair charts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from specbook.acceptance.profile import AcceptanceProfile
from specbook.display.charts import PALETTE, QUIET, finish, inline


def cells_frame(profiles: Mapping[tuple[str, str], AcceptanceProfile]) -> pl.DataFrame:
    """Mean acceptance length with its interval, one row a drafter and domain.

    Parameters
    ----------
    profiles : mapping of (str, str) to AcceptanceProfile
        (drafter, domain) → profile with intervals.

    Examples
    --------
    >>> from specbook.measuring.traces import book_profile
    >>> frame = cells_frame({("small", "code"): book_profile("small", "chain 4", "code", 0.0)})
    >>> frame.columns
    ['drafter', 'domain', 'tokens_per_round', 'lower', 'upper']
    """
    rows = []
    for (drafter, domain), profile in profiles.items():
        ends = (None, None) if profile.intervals is None else profile.intervals.mean_acceptance_length
        rows.append((drafter, domain, profile.mean_acceptance_length, *ends))
    columns = ["drafter", "domain", "tokens_per_round", "lower", "upper"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def cells_chart(frame: pl.DataFrame, title: str) -> Any:
    """Tokens per round by domain, one colour a drafter, with intervals; a frame of :func:`cells_frame`.

    Examples
    --------
    >>> row = {"drafter": ["a"], "domain": ["code"], "tokens_per_round": [2.0], "lower": [1.9], "upper": [2.1]}
    >>> cells_chart(pl.DataFrame(row), "Lengths").to_dict()["layer"][1]["mark"]["type"]
    'point'
    """
    order = frame["drafter"].unique(maintain_order=True).to_list()
    domains = frame["domain"].unique(maintain_order=True).to_list()
    encoding: dict[str, Any] = {
        "y": alt.Y("domain:N", title=None, sort=domains, axis=alt.Axis(labelLimit=160)),
        "yOffset": alt.YOffset("drafter:N", sort=order),
        "color": alt.Color("drafter:N", title=None, sort=order),
        "tooltip": ["drafter:N", "domain:N", *(alt.Tooltip(f"{name}:Q", format=".2f") for name in frame.columns[2:])],
    }
    base = alt.Chart(inline(frame)).encode(**encoding)
    axis = alt.Axis(tickCount=6)
    scale = alt.Scale(zero=False, domainMin=1)
    x = alt.X("lower:Q", title="tokens per round, bonus token included", scale=scale, axis=axis)
    rules = base.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="upper:Q")
    points = base.mark_point(size=60, filled=True).encode(x="tokens_per_round:Q")
    return finish(alt.layer(rules, points, title=title), height=18 * len(order) * len(domains) + 40)


def conditional_frame(profiles: Mapping[str, AcceptanceProfile]) -> pl.DataFrame:
    """Conditional acceptance by position with its interval, one row a label and position.

    Examples
    --------
    >>> from specbook.measuring.traces import book_profile
    >>> conditional_frame({"code": book_profile("small", "chain 4", "code", 0.0)}).height
    4
    """
    rows = []
    for label, profile in profiles.items():
        intervals = [] if profile.intervals is None else profile.intervals.conditional_acceptance
        for index, value in enumerate(profile.conditional_acceptance or []):
            ends = intervals[index] if index < len(intervals) else None
            rows.append((label, index + 1, value, *(ends or (None, None))))
    return pl.DataFrame(rows, schema=["evidence", "position", "acceptance", "lower", "upper"], orient="row")


def conditional_chart(frame: pl.DataFrame, title: str) -> Any:
    """Conditional acceptance by position with intervals as bands; a frame of :func:`conditional_frame`.

    Examples
    --------
    >>> row = {"evidence": ["code"], "position": [1], "acceptance": [0.6], "lower": [0.5], "upper": [0.7]}
    >>> conditional_chart(pl.DataFrame(row), "Positions").to_dict()["layer"][0]["mark"]["type"]
    'area'
    """
    order = frame["evidence"].unique(maintain_order=True).to_list()
    x = alt.X("position:Q", title="draft position", axis=alt.Axis(format="d", tickMinStep=1))
    y = alt.Y("acceptance:Q", title="conditional acceptance", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(inline(frame)).encode(x=x, color=alt.Color("evidence:N", title=None, sort=order))
    bands = base.mark_area(opacity=0.18).encode(y=alt.Y("lower:Q", title="conditional acceptance"), y2="upper:Q")
    lines = base.mark_line(point=True).encode(y=y, tooltip=["evidence:N", "position:Q", "acceptance:Q"])
    return finish(alt.layer(bands, lines, title=title))


def passes_chart(frame: pl.DataFrame, title: str) -> Any:
    """Time of a pass by its rows, in passes of a single row, one line an arithmetic.

    Parameters
    ----------
    frame : DataFrame
        Columns arithmetic, rows, pass_s.
    title : str

    Examples
    --------
    >>> frame = pl.DataFrame({"arithmetic": ["fast", "fast"], "rows": [1, 5], "pass_s": [0.002, 0.003]})
    >>> passes_chart(frame, "Passes").to_dict()["layer"][0]["encoding"]["y"]["title"]
    'time ÷ a pass of one row'
    """
    single = pl.col("pass_s").filter(pl.col("rows") == 1).first().over("arithmetic")
    scaled = frame.with_columns(ratio=pl.col("pass_s") / single, ms=1e3 * pl.col("pass_s"))
    order = frame["arithmetic"].unique(maintain_order=True).to_list()
    top = float(scaled["ratio"].to_numpy().max())
    ideal = pl.DataFrame({"rows": [1, int(frame["rows"].to_numpy().max())]})
    x = alt.X("rows:Q", title="rows of the pass: drafts and the last token", axis=alt.Axis(format="d", tickMinStep=1))
    y = alt.Y("ratio:Q", title="time ÷ a pass of one row", scale=alt.Scale(domain=[0, top * 1.05]))
    lines = (
        alt.Chart(inline(scaled))
        .mark_line(point=True)
        .encode(
            x=x,
            y=y,
            color=alt.Color("arithmetic:N", title=None, sort=order),
            tooltip=["arithmetic:N", "rows:Q", "ms:Q"],
        )
    )
    rows_alone = (
        alt.Chart(inline(ideal))
        .mark_line(strokeDash=[4, 4], color=QUIET)
        .encode(x=x, y=alt.Y("rows:Q", title="time ÷ a pass of one row"))
        .transform_filter(f"datum.rows <= {top * 1.05}")
    )
    return finish(alt.layer(lines, rows_alone, title=title))


def speedups_chart(frame: pl.DataFrame, title: str) -> Any:
    """Speedups by the clock with intervals, and the line where nothing is gained.

    Parameters
    ----------
    frame : DataFrame
        Columns label, group, speedup, low, high.
    title : str

    Examples
    --------
    >>> row = {"label": ["code"], "group": ["greedy"], "speedup": [1.5], "low": [1.4], "high": [1.6]}
    >>> len(speedups_chart(pl.DataFrame(row), "Speedups").to_dict()["layer"])
    3
    """
    labels, groups = (frame[name].unique(maintain_order=True).to_list() for name in ("label", "group"))
    encoding: dict[str, Any] = {
        "y": alt.Y("label:N", title=None, sort=labels, axis=alt.Axis(labelLimit=180)),
        "yOffset": alt.YOffset("group:N", sort=groups),
        "color": alt.Color("group:N", title=None, sort=groups),
        "tooltip": [
            "label:N",
            "group:N",
            *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("speedup", "low", "high")),
        ],
    }
    base = alt.Chart(inline(frame)).encode(**encoding)
    axis = alt.Axis(tickCount=6)
    x = alt.X("low:Q", title="time per token without ÷ with drafts", scale=alt.Scale(zero=False), axis=axis)
    rules = base.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="high:Q")
    points = base.mark_point(size=60, filled=True).encode(x="speedup:Q")
    even = alt.Chart(inline(pl.DataFrame({"one": [1.0]}))).mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="one:Q")
    height = 22 * len(labels) * len(groups) + 40
    return finish(alt.layer(even, rules, points, title=title), height=height)


def mask_chart(mask: Sequence[Sequence[bool]], labels: Sequence[str], title: str) -> Any:
    """Which row sees which, as a square of cells.

    Parameters
    ----------
    mask : (n_rows, n_rows) sequence of bool
    labels : (n_rows,) sequence of str
        Names of rows, all different.
    title : str

    Examples
    --------
    >>> mask_chart([[True]], ["root"], "Mask").to_dict()["mark"]["type"]
    'rect'
    """
    rows = [
        {"row": labels[i], "column": labels[j], "seen": "seen" if mask[i][j] else "hidden"}
        for i in range(len(labels))
        for j in range(len(labels))
    ]
    scale = alt.Scale(domain=["seen", "hidden"], range=[PALETTE[0], "#8a8f9833"])
    return finish(
        alt.Chart(alt.InlineData(values=rows), title=title)
        .mark_rect(stroke="#8a8f98", strokeWidth=0.5)
        .encode(
            x=alt.X("column:N", sort=list(labels), title="seen row", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("row:N", sort=list(labels), title="row that looks"),
            color=alt.Color("seen:N", title=None, scale=scale),
            tooltip=["row:N", "column:N", "seen:N"],
        ),
        height=34 * len(labels) + 20,
    )


def caught_chart(frame: pl.DataFrame, title: str) -> Any:
    """Which gate caught which fault.

    Parameters
    ----------
    frame : DataFrame
        Columns fault, gate, verdict (``caught`` or ``passed``).
    title : str

    Examples
    --------
    >>> row = {"fault": ["off by one"], "gate": ["greedy"], "verdict": ["caught"]}
    >>> len(caught_chart(pl.DataFrame(row), "Faults").to_dict()["layer"])
    2
    """
    faults, gates = (frame[name].unique(maintain_order=True).to_list() for name in ("fault", "gate"))
    base = alt.Chart(inline(frame)).encode(
        x=alt.X("gate:N", sort=gates, title=None, axis=alt.Axis(labelAngle=-70, orient="top")),
        y=alt.Y("fault:N", sort=faults, title=None, axis=alt.Axis(labelLimit=200)),
        tooltip=["fault:N", "gate:N", "verdict:N"],
    )
    scale = alt.Scale(domain=["caught", "passed"], range=[PALETTE[1], "#8a8f9833"])
    cells = base.mark_rect(stroke="#8a8f98", strokeWidth=0.5).encode(
        color=alt.Color("verdict:N", title=None, scale=scale)
    )
    words = base.mark_text(fontSize=12).encode(text="verdict:N")
    return finish(alt.layer(cells, words, title=title), height=34 * len(faults) + 30)


def slots_chart(frame: pl.DataFrame, title: str) -> Any:
    """Slots of the cache, round by round.

    Parameters
    ----------
    frame : DataFrame
        Columns round, slot, state (``committed``, ``kept`` or ``dropped``).
    title : str

    Examples
    --------
    >>> row = {"round": [1], "slot": [0], "state": ["kept"]}
    >>> slots_chart(pl.DataFrame(row), "Cache").to_dict()["mark"]["type"]
    'rect'
    """
    states = ["committed", "kept", "dropped"]
    scale = alt.Scale(domain=states, range=["#8a8f9855", PALETTE[0], PALETTE[1]])
    return finish(
        alt.Chart(inline(frame), title=title)
        .mark_rect(stroke="#8a8f98", strokeWidth=0.5)
        .encode(
            x=alt.X("slot:O", title="slot of the cache", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("round:O", title="round"),
            color=alt.Color("state:N", title=None, sort=states, scale=scale),
            tooltip=["round:O", "slot:O", "state:N"],
        ),
        height=30 * frame["round"].n_unique() + 30,
    )
