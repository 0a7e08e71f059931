"""Charts of receipts: predictions against the clock, request by request, and what the machine did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl

from specbook.display.charts import PALETTE, QUIET, finish, inline
from specbook.witness.receipt import Receipt
from specbook.witness.result import GATE

_REPLAY, _FORECAST = "replay", "forecast"
# Milliseconds beside an error, where there is room for them.
_LABEL = "width < 400 ? '' : format(datum.predicted_ms, '.1f') + ' of ' + format(datum.measured_ms, '.1f') + ' ms'"
_LABEL_SHARE = 0.5  # of the errors' range, kept free for it
_MILLISECONDS = alt.Axis(format="~g", tickCount=8)
_VERDICT_COLOURS = {"pass": PALETTE[2], "inconclusive": PALETTE[5], "fail": PALETTE[1]}


def predictions_frame(receipt: Receipt) -> pl.DataFrame:
    """P90 TPOT of each configuration, measured and predicted, one row a prediction.

    Returns
    -------
    polars.DataFrame
        Columns ``configuration, prediction, measured_ms, predicted_ms, error, low, high``; predictions are ``replay``
        and ``forecast``, errors predicted ÷ measured − 1 with their intervals of 95 %.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> predictions_frame(stored_receipt("epyc-zen5-2core"))["prediction"].unique().sort().to_list()
    ['forecast', 'replay']
    """
    rows = []
    for each in receipt.configurations:
        found = {_REPLAY: (each.simulated_p90_tpot_s, each.error)}
        if each.forecast is not None:
            found[_FORECAST] = (each.forecast.p90_tpot_s, each.forecast.error)
        for prediction, (p90, error) in found.items():
            milliseconds = {"measured_ms": 1e3 * each.measured_p90_tpot_s.value, "predicted_ms": 1e3 * p90.value}
            errors = {"error": error.value, "low": error.low, "high": error.high}
            rows.append({"configuration": each.name, "prediction": prediction, **milliseconds, **errors})
    return pl.DataFrame(rows)


def predictions_chart(frame: pl.DataFrame, title: str) -> Any:
    """Errors of the predictions with their intervals, on the band of the gate; milliseconds beside them.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> chart = predictions_chart(predictions_frame(stored_receipt("epyc-zen5-2core")), "Predictions")
    >>> len(chart.to_dict()["layer"])
    4
    """
    order = frame["configuration"].unique(maintain_order=True).to_list()
    low, high = min(-GATE, *frame["low"]), max(GATE, *frame["high"])
    room = alt.Scale(domain=[low, high + _LABEL_SHARE * (high - low)])
    axis = alt.Axis(format="+%", tickCount=8)
    x = alt.X("low:Q", title="predicted ÷ measured − 1", scale=room, axis=axis)
    gate = alt.Chart(alt.InlineData(values=[{"low": -GATE, "high": GATE}]))
    names = [_REPLAY, _FORECAST]
    base = alt.Chart(inline(frame)).encode(
        y=alt.Y("configuration:N", title=None, sort=order, axis=alt.Axis(labelLimit=170)),
        yOffset=alt.YOffset("prediction:N", sort=names),
        color=alt.Color("prediction:N", title=None, sort=names, legend=alt.Legend(symbolOpacity=1)),
    )
    spread = base.mark_rule(size=3, opacity=0.45).encode(x=x, x2="high:Q")
    tooltip = [
        "configuration:N",
        "prediction:N",
        *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("measured_ms", "predicted_ms")),
        *(alt.Tooltip(f"{name}:Q", format="+.1%") for name in ("error", "low", "high")),
    ]
    marks = base.mark_point(size=80, filled=True, opacity=1).encode(x="error:Q", tooltip=tooltip)
    text = base.transform_calculate(label=_LABEL).mark_text(align="left", dx=8).encode(x="high:Q", text="label:N")
    band = gate.mark_rect(color=QUIET, opacity=0.2).encode(x="low:Q", x2="high:Q")
    return finish(alt.layer(band, spread, marks, text, title=title), height=70 * len(order))


def requests_frame(receipt: Receipt) -> pl.DataFrame:
    """TPOT of every request, on the clock and in the replay.

    Returns
    -------
    polars.DataFrame
        Columns ``configuration, prompt, measured_ms, simulated_ms, alone_ms``; the last without drafts.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> requests_frame(stored_receipt("epyc-zen5-2core")).columns
    ['configuration', 'prompt', 'measured_ms', 'simulated_ms', 'alone_ms']
    """
    rows = [
        {
            "configuration": each.name,
            "prompt": request.prompt,
            "measured_ms": 1e3 * request.measured_tpot_s,
            "simulated_ms": 1e3 * request.simulated_tpot_s,
            "alone_ms": 1e3 * request.autoregressive_tpot_s,
        }
        for each in receipt.configurations
        for request in each.requests
    ]
    return pl.DataFrame(rows)


def requests_chart(frame: pl.DataFrame, title: str) -> Any:
    """Each request in the replay over the same request on the clock, with the diagonal.

    Examples
    --------
    >>> row = {"configuration": ["code"], "prompt": ["code-001"], "measured_ms": [8.0], "simulated_ms": [8.1]}
    >>> len(requests_chart(pl.DataFrame(row), "Requests").to_dict()["layer"])
    2
    """
    order = frame["configuration"].unique(maintain_order=True).to_list()
    ends = pl.DataFrame({"ms": [frame["measured_ms"].min(), frame["measured_ms"].max()]})
    scale = alt.Scale(zero=False)
    x = alt.X("measured_ms:Q", title="measured TPOT of a request (ms)", scale=scale, axis=_MILLISECONDS)
    y = alt.Y("simulated_ms:Q", title="in the replay (ms)", scale=scale, axis=_MILLISECONDS)
    line = alt.Chart(inline(ends)).mark_line(color=QUIET, strokeDash=[5, 4], size=1.5)
    tooltip: list[Any] = ["configuration:N", "prompt:N"]
    tooltip += [alt.Tooltip(f"{name}:Q", format=".2f") for name in ("measured_ms", "simulated_ms")]
    marks = (
        alt.Chart(inline(frame))
        .mark_point(size=45, filled=True, opacity=0.85)
        .encode(x=x, y=y, color=alt.Color("configuration:N", title=None, sort=order), tooltip=tooltip)
    )
    diagonal = line.encode(x=alt.X("ms:Q", scale=scale), y=alt.Y("ms:Q", scale=scale))
    return finish(alt.layer(diagonal, marks, title=title), height=320)


def control_frame(receipts: Mapping[str, Receipt]) -> pl.DataFrame:
    """Control blocks of runs, one row each.

    Parameters
    ----------
    receipts : mapping of str to Receipt
        By what the chart calls them.

    Returns
    -------
    polars.DataFrame
        Columns ``run, when, median_ms, p90_ms, processor_share, verdict``.

    Examples
    --------
    >>> from specbook.witness.stored import stored_receipt
    >>> control_frame({"alone": stored_receipt("epyc-zen5-2core")})["when"].to_list()
    ['before', 'middle', 'after']
    """
    rows = [
        {
            "run": name,
            "when": block.when,
            "median_ms": 1e3 * block.median_s,
            "p90_ms": 1e3 * block.p90_s,
            "processor_share": block.processor_share,
            "verdict": receipt.verdict,
        }
        for name, receipt in receipts.items()
        for block in receipt.control.blocks
    ]
    return pl.DataFrame(rows)


def control_chart(frame: pl.DataFrame, title: str) -> Any:
    """Median and P90 of steps without drafts in each control block, in the colour of the run's verdict.

    Examples
    --------
    >>> row = {"run": ["alone"], "when": ["before"], "median_ms": [13.0], "p90_ms": [14.0], "verdict": ["pass"]}
    >>> len(control_chart(pl.DataFrame(row), "Control").to_dict()["layer"])
    2
    """
    runs = frame["run"].unique(maintain_order=True).to_list()
    verdicts = [name for name in _VERDICT_COLOURS if name in frame["verdict"].to_list()]
    colours = alt.Scale(domain=verdicts, range=[_VERDICT_COLOURS[name] for name in verdicts])
    label = pl.format("{}, {}", "run", "when")
    order = frame.select(label.alias("block"))["block"].to_list()
    base = alt.Chart(inline(frame.with_columns(block=label))).encode(
        y=alt.Y("block:N", title=None, sort=order, axis=alt.Axis(labelLimit=200)),
        color=alt.Color("verdict:N", title=None, scale=colours, legend=alt.Legend(symbolOpacity=1)),
    )
    x = alt.X("median_ms:Q", title="ms a step, median to P90", scale=alt.Scale(zero=True))
    spread = base.mark_rule(size=5, opacity=0.4).encode(x=x, x2="p90_ms:Q")
    tooltip = ["run:N", "when:N", *(alt.Tooltip(f"{name}:Q", format=".2f") for name in ("median_ms", "p90_ms"))]
    points = base.mark_point(size=80, filled=True, opacity=1).encode(x=x, tooltip=[*tooltip, "verdict:N"])
    return finish(alt.layer(spread, points, title=title), height=26 * len(order) + 20 * len(runs))
