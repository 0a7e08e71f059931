"""An Explorer of load, draft length and burstiness over a grid of simulations that ran beforehand.

No formula gives a tail under load, so both views read one table: the ipywidgets in JupyterLab, and the chart's own
controls on the published page. Its figures are rounded once, before either of them sees it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import altair as alt
import ipywidgets as widgets
import numpy as np
import polars as pl

from specbook.checks import check_non_negative
from specbook.display.charts import ACCENT, MIME, PALETTE, QUIET, finish
from specbook.serving.compare import compare_serving
from specbook.serving.serving_config import ServingConfig
from specbook.serving.workload import Workload

_AXES = ["burstiness", "requests_per_s", "draft_length"]
_FIGURES = ["tpot_p90_s", "ttft_p90_s", "mean_batch_size", "peak_kv_use"]
_NOBODY = "no draft length keeps up with this load"


def load_grid(
    configs: Mapping[int, ServingConfig], workloads: Mapping[float, Workload], loads: Sequence[float], *, seed: int
) -> pl.DataFrame:
    """Simulate every draft length at every load and burstiness.

    Parameters
    ----------
    configs : mapping of int to ServingConfig
        By draft length.
    workloads : mapping of float to Workload
        By burstiness. A load is the same requests in less time, so that columns differ in nothing else.
    loads : sequence of float
        Requests per second.
    seed : int
        Of acceptance, the same everywhere.

    Returns
    -------
    polars.DataFrame
        Columns ``burstiness, requests_per_s, draft_length, tpot_p90_s, ttft_p90_s, mean_batch_size, peak_kv_use,
        stable``, one row a simulation.

    Examples
    --------
    >>> example_grid().height
    12
    """
    named = {str(length): config for length, config in configs.items()}
    frames = []
    for burstiness, workload in workloads.items():
        for load in loads:
            table = compare_serving(named, workload.at_rate(load), seed=seed)
            axes = (pl.lit(burstiness).alias("burstiness"), pl.lit(float(load)).alias("requests_per_s"))
            frames.append(table.select(*axes, pl.col("name").cast(int).alias("draft_length"), *_FIGURES, "stable"))
    return pl.concat(frames).sort(_AXES)


def best_by_load(grid: pl.DataFrame) -> pl.DataFrame:
    """The draft length of the lowest P90 TPOT among those that are stable, and what it gains.

    Parameters
    ----------
    grid : polars.DataFrame
        As :func:`load_grid` returns it.

    Returns
    -------
    polars.DataFrame
        Columns ``burstiness, requests_per_s, draft_length, tpot_p90_s, mean_batch_size, gain``: the P90 TPOT without
        speculation ÷ that of the best, null where it is not stable without. A load that nothing keeps up with has
        no row.

    Examples
    --------
    >>> best_by_load(example_grid())["draft_length"].to_list()
    [4, 4, 4, 4]
    """
    axes = ["burstiness", "requests_per_s"]
    stable = grid.filter("stable")
    plain = stable.filter(pl.col("draft_length") == 0).select(*axes, pl.col("tpot_p90_s").alias("plain_s"))
    best = stable.sort("tpot_p90_s", "draft_length").unique(axes, keep="first", maintain_order=True).sort(axes)
    gain = (pl.col("plain_s") / pl.col("tpot_p90_s")).alias("gain")
    joined = best.join(plain, on=axes, how="left", maintain_order="left")
    return joined.select(*axes, "draft_length", "tpot_p90_s", "mean_batch_size", gain)


class LoadExplorer:
    """Sliders for load and draft length, and a menu for burstiness, over a grid of simulations.

    Parameters
    ----------
    grid : polars.DataFrame
        As :func:`load_grid` returns it.
    **start
        Where controls start: requests_per_s, draft_length, burstiness; otherwise at the first of each.

    Attributes
    ----------
    controls : dict of str to widget
        By the names of ``start``; set a ``value`` and the readout follows.
    grid : polars.DataFrame
        What both views show, to five digits.

    Raises
    ------
    ValueError
        If the grid has no row, lacks a combination, or has loads or draft lengths that are not evenly spaced, which a
        slider cannot stop at; or if ``start`` names no control or a value that is not in the grid.

    Examples
    --------
    >>> explorer = LoadExplorer(example_grid(), requests_per_s=20.0)
    >>> explorer.controls["draft_length"].value = 4
    >>> explorer.best_draft_length()
    4
    """

    def __init__(self, grid: pl.DataFrame, **start: float) -> None:
        self.grid = _checked(grid)
        self.controls = _controls(self.grid, start)
        self._readout, self._bars = widgets.HTML(), widgets.HTML()
        for control in self.controls.values():
            control.observe(lambda _: self._update(), "value")
        self.box = widgets.VBox([*self.controls.values(), self._readout, self._bars])
        self._update()

    @property
    def readout(self) -> str:
        """The answer under the live sliders, as HTML."""
        return str(self._readout.value)

    def values(self) -> dict[str, Any]:
        """Where the controls stand."""
        return {name: control.value for name, control in self.controls.items()}

    def rows(self) -> pl.DataFrame:
        """The simulations of all draft lengths at the load and burstiness that the controls choose."""
        at = self.values()
        chosen = [pl.col(name) == at[name] for name in ("burstiness", "requests_per_s")]
        return self.grid.filter(*chosen)

    def best_draft_length(self) -> int | None:
        """The draft length of the lowest P90 TPOT; None if none is stable."""
        stable = self.rows().filter("stable").sort("tpot_p90_s", "draft_length")
        return int(stable["draft_length"][0]) if stable.height else None

    def sentences(self) -> list[str]:
        """What both views say, line by line: yours, its batch and cache, the best."""
        rows, best = self.rows(), self.best_draft_length()
        yours = rows.row(by_predicate=pl.col("draft_length") == self.values()["draft_length"], named=True)
        said = [_yours(yours), _load_of(yours)]
        if best is None:
            return [*said, f"◆ {_NOBODY}"]
        tpot_s = rows.filter(pl.col("draft_length") == best)["tpot_p90_s"][0]
        return [*said, f"◆ best: K = {best}, P90 TPOT {_fixed(1e3 * tpot_s, 2)} ms"]

    def spec(self) -> dict[str, Any]:
        """The page's view, starting where the controls stand."""
        return dict(_page(self.grid, self.values()).to_dict())

    def _update(self) -> None:
        self._readout.value = "<br>".join(html.escape(each) for each in self.sentences())
        self._bars.value = _bars(self.rows(), self.values()["draft_length"], float(self.grid["tpot_p90_s"].max()))  # type: ignore[arg-type]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the live view for JupyterLab and the page's view for the book, in one output."""
        del include, exclude
        where = " ".join(f"{name}={value:g}" for name, value in self.values().items())
        text = f"<LoadExplorer {where}: {self.sentences()[0][2:]}>"
        return {**self.box._repr_mimebundle_(), MIME: self.spec(), "text/plain": text}


def _checked(grid: pl.DataFrame) -> pl.DataFrame:
    """The grid's columns to five digits, sorted, or an error that says what a slider cannot show."""
    if not grid.height:
        raise ValueError("grid must have at least one row; got none")
    for name in _FIGURES:
        check_non_negative(name, grid[name].to_numpy())
    expected = int(np.prod([grid[name].n_unique() for name in _AXES]))
    if grid.height != expected or grid.select(_AXES).n_unique() != expected:
        raise ValueError(f"grid must have one row for every combination of {', '.join(_AXES)}; got {grid.height}")
    for name in ("requests_per_s", "draft_length"):
        steps = np.diff(_stops(grid, name))
        if np.ptp(steps) > 0.0 if steps.size else False:
            raise ValueError(f"{name} must be evenly spaced for a slider; got {_stops(grid, name)}")
    return grid.select(*_AXES, pl.col(_FIGURES).round_sig_figs(5), "stable").sort(_AXES)


def _stops(grid: pl.DataFrame, name: str) -> list[Any]:
    """Values of an axis in the order of its control: rising, but the steadiest arrivals first."""
    return grid[name].unique().sort(descending=name == "burstiness").to_list()


_LABELS = {"requests_per_s": "requests per s", "draft_length": "draft length K", "burstiness": "arrivals"}


def _burstiness_label(value: float) -> str:
    return "steady (Poisson)" if value == 1.0 else f"burstiness {value:g}"


def _controls(grid: pl.DataFrame, start: Mapping[str, float]) -> dict[str, Any]:
    unknown = set(start) - set(_LABELS)
    if unknown:
        raise ValueError(f"no such control: {', '.join(sorted(unknown))}")
    look = {"style": {"description_width": "8em"}, "layout": widgets.Layout(width="95%")}
    controls: dict[str, Any] = {}
    for name, label in _LABELS.items():
        stops = _stops(grid, name)
        value = start.get(name, stops[0])
        if value not in stops:
            raise ValueError(f"{name} must be one of {', '.join(f'{stop:g}' for stop in stops)}; got {value}")
        if name == "burstiness":
            options = [(_burstiness_label(stop), stop) for stop in stops]
            controls[name] = widgets.Dropdown(options=options, value=value, description=label, **look)
        else:
            options = [(f"{stop:g}", stop) for stop in stops]
            controls[name] = widgets.SelectionSlider(options=options, value=value, description=label, **look)
    return controls


def _fixed(value: float, digits: int) -> str:
    """A number as the page writes it: halves go up, where Python's format takes the even neighbour."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))


def _yours(row: Mapping[str, Any]) -> str:
    if not row["stable"]:
        return f"✕ yours: K = {row['draft_length']} cannot keep up, the queue grows"
    tails = f"P90 TPOT {_fixed(1e3 * row['tpot_p90_s'], 2)} ms, TTFT {_fixed(1e3 * row['ttft_p90_s'], 0)} ms"
    return f"● yours: K = {row['draft_length']}, {tails}"


def _load_of(row: Mapping[str, Any]) -> str:
    return f"mean batch {_fixed(row['mean_batch_size'], 1)}, cache at most {_fixed(100 * row['peak_kv_use'], 0)} % full"


def _bars(rows: pl.DataFrame, chosen: int, widest_s: float) -> str:
    """One horizontal bar for each draft length, grey where the queue grows."""
    cells = []
    for row in rows.iter_rows(named=True):
        colour = QUIET if not row["stable"] else ACCENT if row["draft_length"] == chosen else PALETTE[0]
        bar = f"background:{colour};width:{100 * row['tpot_p90_s'] / widest_s:.1f}%"
        shown = _fixed(1e3 * row["tpot_p90_s"], 2) if row["stable"] else "✕"
        cells.append(f'<div>{row["draft_length"]}</div><div style="{bar}">&nbsp;</div><div>{shown}</div>')
    grid = "display:grid;grid-template-columns:2em minmax(6em,30em) 4em;gap:2px .6em;line-height:1.1;font-size:13px"
    return f'<div style="{grid}"><div>K</div><div></div><div>P90 TPOT (ms)</div>{"".join(cells)}</div>'


def _page(grid: pl.DataFrame, at: Mapping[str, Any]) -> Any:
    """One row for each load and burstiness with arrays over K, of which the controls choose one, laid out as rows."""
    arrays = grid.group_by("burstiness", "requests_per_s", maintain_order=True).agg(
        pl.col("draft_length").alias("K"), *(pl.col(name) for name in (*_FIGURES, "stable"))
    )
    chosen = "datum.burstiness == burstiness && datum.requests_per_s == requests_per_s"
    data = alt.InlineData(values=arrays.to_dicts())
    title = alt.Title("P90 TPOT by draft length under load", offset=14)
    ranked = (
        alt.layer(*_layers(grid), data=data, title=title)
        .transform_filter(chosen)
        .transform_flatten(["K", *_FIGURES, "stable"])
        .transform_calculate(tpot_ms="1000 * datum.tpot_p90_s", ttft_ms="1000 * datum.ttft_p90_s", score=_SCORE)
        .transform_window(place="rank()", sort=[alt.SortField("score", "ascending"), alt.SortField("K", "ascending")])
    )
    return finish(ranked.add_params(*_parameters(grid, at)), height=330)


# The unstable come last, whatever their TPOT.
_SCORE = "datum.stable ? datum.tpot_p90_s : 1e9"


def _parameters(grid: pl.DataFrame, at: Mapping[str, Any]) -> list[alt.Parameter]:
    binds: dict[str, Any] = {}
    for name in ("requests_per_s", "draft_length"):
        stops = _stops(grid, name)
        step = stops[1] - stops[0] if len(stops) > 1 else 1
        binds[name] = alt.binding_range(min=stops[0], max=stops[-1], step=step, name=f"{_LABELS[name]} ")
    kinds = _stops(grid, "burstiness")
    labels = [_burstiness_label(kind) for kind in kinds]
    binds["burstiness"] = alt.binding_select(options=kinds, labels=labels, name=f"{_LABELS['burstiness']} ")
    return [alt.param(name, value=at[name], bind=bind) for name, bind in binds.items()]


def _layers(grid: pl.DataFrame) -> list[Any]:
    lengths = _stops(grid, "draft_length")
    axis = alt.Axis(values=lengths, format="d")
    x = alt.X("K:Q", title="draft length K (tokens)", axis=axis, scale=alt.Scale(domain=[lengths[0], lengths[-1]]))
    most_ms = float(np.ceil(1e3 * float(grid["tpot_p90_s"].max())))  # type: ignore[arg-type]
    y = alt.Y("tpot_ms:Q", title="P90 TPOT (ms)", scale=alt.Scale(domain=[0, most_ms]))
    base = alt.Chart().encode(x=x, y=y)
    tooltip = [alt.Tooltip("K:Q"), *(alt.Tooltip(f"{n}:Q", format=".2f") for n in ("tpot_ms", "ttft_ms")), "stable:N"]
    stable, best = base.transform_filter("datum.stable"), base.transform_filter("datum.place == 1")
    yours = base.transform_filter("datum.K == draft_length")
    return [
        base.mark_line(color=PALETTE[0], opacity=0.4),
        stable.mark_point(size=60, color=PALETTE[0]).encode(tooltip=tooltip),
        base.transform_filter("!datum.stable").mark_point(shape="cross", size=90, angle=45, color=QUIET),
        best.transform_filter("datum.stable").mark_point(shape="diamond", size=160, color=PALETTE[2]),
        yours.transform_filter("datum.stable").mark_point(size=160, color=ACCENT),
        _sentence(yours, 0, _YOURS, ACCENT),
        _sentence(yours, 1, _LOAD, ACCENT),
        _sentence(best, 2, _BEST, PALETTE[2]),
    ]


_YOURS = (
    "datum.stable ? '● yours: K = ' + datum.K + ', P90 TPOT ' + format(datum.tpot_ms, '.2f') + ' ms, TTFT ' "
    "+ format(datum.ttft_ms, '.0f') + ' ms' : '✕ yours: K = ' + datum.K + ' cannot keep up, the queue grows'"
)
_LOAD = (
    "'mean batch ' + format(datum.mean_batch_size, '.1f') + ', cache at most ' "
    "+ format(100 * datum.peak_kv_use, '.0f') + ' % full'"
)
_BEST = (
    f"datum.stable ? '◆ best: K = ' + datum.K + ', P90 TPOT ' + format(datum.tpot_ms, '.2f') + ' ms' : '◆ {_NOBODY}'"
)


def _sentence(chart: Any, line: int, expression: str, color: str) -> Any:
    """One of three lines of text above the plot, computed from the row that is left; left of its axis."""
    return (
        chart.transform_calculate(sentence=expression)
        .mark_text(align="left", baseline="middle", fontSize=13)
        .encode(x=alt.value(-40), y=alt.value(17 * line - 46), text="sentence:N", color=alt.value(color))
    )


def example_grid() -> pl.DataFrame:
    """A small grid of a clock that does not know the batch, for examples.

    Examples
    --------
    >>> example_grid()["draft_length"].unique().sort().to_list()
    [0, 2, 4]
    """
    from specbook.serving.draft_policy import FixedDraft
    from specbook.serving.iteration_time import ConstantIterationTime
    from specbook.serving.kv_blocks import KvConfig
    from specbook.serving.round_law import chain_law

    clock = ConstantIterationTime(seconds=0.01)
    configs = {
        length: ServingConfig(
            kv=KvConfig(n_blocks=500), iteration_time=clock, policy=FixedDraft(law=chain_law([0.7] * length))
        )
        for length in (0, 2, 4)
    }
    arrivals = {1.0: np.arange(20.0), 0.25: np.repeat(np.arange(5.0), 4)}
    prompts, outputs = np.full(20, 100), np.full(20, 40)
    workloads = {
        kind: Workload(arrival_s=times, prompt_tokens=prompts, output_tokens=outputs)
        for kind, times in arrivals.items()
    }
    return load_grid(configs, workloads, (10.0, 20.0), seed=0)
