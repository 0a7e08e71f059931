"""Charts of acceptance: frame in, Altair chart out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from specbook.acceptance.profile import AcceptanceProfile
from specbook.display.charts import PALETTE, finish, inline


def positions_frame(profiles: Mapping[str, AcceptanceProfile], n_positions: int = 8) -> pl.DataFrame:
    """Marginal and conditional acceptance by position, one row a profile and position.

    Parameters
    ----------
    profiles : mapping of str to AcceptanceProfile
        Label → profile.
    n_positions : int
        Positions to show.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> positions_frame({"K = 1": library_profile("vllm-48892-mtp-k1")}).rows()
    [('K = 1', 1, 0.8339, 0.8339)]
    """
    rows = [
        (label, position, marginal, conditional)
        for label, profile in profiles.items()
        for position, (marginal, conditional) in enumerate(
            zip(profile.marginal_acceptance or [], profile.conditional_acceptance or [], strict=False), start=1
        )
        if position <= n_positions
    ]
    return pl.DataFrame(rows, schema=["evidence", "position", "marginal", "conditional"], orient="row")


def positions_chart(frame: pl.DataFrame, quantity: str, title: str) -> Any:
    """Acceptance by draft position, one line a profile; ``quantity`` is ``marginal`` or ``conditional``.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> frame = positions_frame({"K = 8": library_profile("vllm-48892-mtp-k8")})
    >>> positions_chart(frame, "marginal", "Acceptance").to_dict()["encoding"]["y"]["title"]
    'marginal acceptance'
    """
    order = frame["evidence"].unique(maintain_order=True).to_list()
    return finish(
        alt.Chart(inline(frame), title=title)
        .mark_line(point=True)
        .encode(
            x=alt.X("position:Q", title="draft position", axis=alt.Axis(format="d", tickMinStep=1)),
            y=alt.Y(
                f"{quantity}:Q",
                title=quantity if quantity == "acceptance" else f"{quantity} acceptance",
                scale=alt.Scale(domain=[0, 1]),
            ),
            color=alt.Color("evidence:N", title=None, sort=order),
            tooltip=["evidence:N", "position:Q", alt.Tooltip(f"{quantity}:Q", format=".3f")],
        )
    )


def lengths_frame(profiles: Mapping[str, AcceptanceProfile]) -> pl.DataFrame:
    """Mean acceptance length with its interval, one row a profile; null ends where a profile has none.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> frame = lengths_frame({"math": library_profile("spec-bench-sps-vicuna-7b-math")})
    >>> frame.select(pl.exclude("evidence").round(2)).row(0)
    (2.09, 1.96, 2.29, 80)
    """
    rows = []
    for label, profile in profiles.items():
        intervals = profile.intervals
        ends = (None, None) if intervals is None else intervals.mean_acceptance_length
        n_prompts = None if intervals is None else intervals.n_prompts
        rows.append((label, profile.mean_acceptance_length, *ends, n_prompts))
    columns = {"evidence": pl.String, "tokens_per_round": pl.Float64, "lower": pl.Float64, "upper": pl.Float64}
    return pl.DataFrame(rows, schema={**columns, "prompts": pl.Int64}, orient="row")


def intervals_chart(frame: pl.DataFrame, title: str) -> Any:
    """Tokens per round as points with their intervals; a frame of :func:`lengths_frame`.

    Examples
    --------
    >>> from specbook.acceptance.library import library_profile
    >>> frame = lengths_frame({"math": library_profile("spec-bench-sps-vicuna-7b-math")})
    >>> intervals_chart(frame, "Tokens per round").to_dict()["layer"][0]["mark"]["type"]
    'rule'
    """
    y = alt.Y("evidence:N", title=None, sort=frame["evidence"].to_list(), axis=alt.Axis(labelLimit=200))
    ends = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("lower", "upper")]
    tooltip = [alt.Tooltip("evidence:N"), alt.Tooltip("prompts:Q"), *ends]
    base = alt.Chart(inline(frame)).encode(y=y, tooltip=tooltip)
    title_x = "tokens per round, bonus token included"
    scale = alt.Scale(zero=False, padding=12)
    rules = base.mark_rule(strokeWidth=3, opacity=0.55, color=PALETTE[0]).encode(
        x=alt.X("lower:Q", title=title_x, scale=scale, axis=alt.Axis(tickCount=6)), x2="upper:Q"
    )
    points = base.mark_point(size=90, color=PALETTE[0]).encode(x="tokens_per_round:Q")
    text = base.mark_text(dy=-12, fontSize=12).encode(
        x="tokens_per_round:Q", text=alt.Text("tokens_per_round:Q", format=".2f")
    )
    return finish(alt.layer(rules, points, text, title=title), height=40 * frame.height + 40)


def curves_chart(frame: pl.DataFrame, title: str) -> Any:
    """Tokens per round by draft length, one line a piece of evidence.

    Parameters
    ----------
    frame : DataFrame
        Columns ``evidence``, ``draft_length``, ``tokens_per_round``.
    title : str

    Examples
    --------
    >>> frame = pl.DataFrame({"evidence": ["a", "a"], "draft_length": [1, 2], "tokens_per_round": [1.8, 2.3]})
    >>> curves_chart(frame, "Golden lengths").to_dict()["encoding"]["x"]["title"]
    'draft length K (tokens)'
    """
    order = frame["evidence"].unique(maintain_order=True).to_list()
    return finish(
        alt.Chart(inline(frame), title=title)
        .mark_line(point=True)
        .encode(
            x=alt.X("draft_length:Q", title="draft length K (tokens)", axis=alt.Axis(format="d", tickMinStep=1)),
            y=alt.Y("tokens_per_round:Q", title="tokens per round", scale=alt.Scale(zero=False)),
            color=alt.Color("evidence:N", title=None, sort=order),
            tooltip=["evidence:N", "draft_length:Q", alt.Tooltip("tokens_per_round:Q", format=".2f")],
        )
    )
