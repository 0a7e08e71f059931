"""The Explorer: sliders and menus for what decides whether drafting pays, and one formula behind them.

In JupyterLab the sliders are ipywidgets and numpy computes; on the published page they are the chart's own controls and
the page computes. Both evaluate :func:`specbook.roofline.speedup.round_times` and
:func:`specbook.acceptance.yields.tokens_for_draft_length`.
"""

from __future__ import annotations

import html
from typing import Any

import ipywidgets as widgets
import numpy as np

from specbook.acceptance.yields import tokens_for_draft_length
from specbook.checks import printable
from specbook.display.charts import ACCENT, MIME, PALETTE
from specbook.display.explorer_config import (
    MAX_DRAFT_LENGTH,
    ExplorerConfig,
    drafting_pair,
    marginals,
    menus,
    sliders,
    step_time_label,
    weights_label,
)
from specbook.display.explorer_page import page_spec
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.speedup import RoundTimes, memory_bytes, round_times


class Explorer:
    """Sliders for K, B and L, and menus for hardware, evidence, method, the target's weights and the step time.

    Parameters
    ----------
    config : ExplorerConfig
    **start
        Where controls start: draft_length, batch, context, hardware, evidence, method, precision, and step_time,
        ``calibrated`` or ``ideal``.

    Attributes
    ----------
    controls : dict of str to widget
        By the names of ``start``; set a ``value`` and the readout follows.
    readout : str
        The answer under the live sliders, as HTML.

    Raises
    ------
    ValueError
        If ``start`` names no control, or an entry that a menu does not have.

    Examples
    --------
    >>> explorer = example_explorer()
    >>> explorer.controls["draft_length"].value = 6
    >>> print(f"{explorer.result().speedup:.2f}")
    1.85
    """

    def __init__(self, config: ExplorerConfig, **start: Any) -> None:
        self.config = config
        self.controls = _controls(config, {"draft_length": 4, "batch": 1, "context": 512, **start})
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

    def result(self, draft_length: Any = None) -> RoundTimes:
        """The round at the controls' settings, by numpy; for other draft lengths if given."""
        at, lengths = self.values(), self._lengths(draft_length)
        tokens = tokens_for_draft_length(lengths, marginals(self.config)[at["evidence"]])
        pair = drafting_pair(self.config, at, lengths)
        return round_times(lengths, lengths, float(at["batch"]), float(at["context"]), tokens, pair)

    def memory_bytes(self, draft_length: Any = None) -> Any:
        """Weights and cache at the controls' settings, by numpy; for other draft lengths if given."""
        at, lengths = self.values(), self._lengths(draft_length)
        pair = drafting_pair(self.config, at, lengths)
        return memory_bytes(lengths, float(at["batch"]), float(at["context"]), pair)

    def _lengths(self, draft_length: Any) -> Any:
        chosen = self.values()["draft_length"] if draft_length is None else draft_length
        return np.asarray(chosen, dtype=np.float64)

    def _device(self) -> HardwareProfile:
        return next(profile for profile in self.config.hardware if profile.name == self.values()["hardware"])

    def best_draft_length(self) -> int:
        """The draft length with the highest speedup at the controls' settings; 0 is not to speculate."""
        return int(np.argmax(self.result(np.arange(MAX_DRAFT_LENGTH + 1)).speedup))

    def spec(self) -> dict[str, Any]:
        """The page's view, starting where the controls stand."""
        return page_spec(self.config, self.values())

    def _update(self) -> None:
        answer, assumption = html.escape(self._answer()), html.escape(self._assumption())
        self._readout.value = f"{answer}<br>{assumption}"
        speedups = self.result(np.arange(MAX_DRAFT_LENGTH + 1)).speedup
        self._bars.value = _bars(speedups, self.values()["draft_length"])

    def _answer(self) -> str:
        at, chosen = self.values(), self.result()
        return (
            f"K = {at['draft_length']} at batch {at['batch']}, context {at['context']:,} on {at['hardware']} "
            f"({at['evidence']}): speedup {chosen.speedup:.4f}, {1e3 * chosen.tpot_s:.2f} ms a token "
            f"instead of {1e3 * chosen.baseline_tpot_s:.2f}; {self._verdict()}"
        )

    def _verdict(self) -> str:
        best, memory = self.best_draft_length(), self._device().memory_bytes.value
        verdict = "do not speculate" if best == 0 else f"best draft length {best}"
        if self.memory_bytes(best) > memory:
            verdict += " (does not fit)"
        if self.memory_bytes() > memory:
            verdict += f"; yours does not fit: {self.memory_bytes() / 1e9:,.0f} GB of {memory / 1e9:,.0f}"
        return verdict

    def _assumption(self) -> str:
        at = self.values()
        weights = weights_label(self.config, at["method"], at["precision"])
        return f"{weights}; step time: {step_time_label(self._device(), at['step_time'])}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the live view for JupyterLab and the page's view for the book, in one output."""
        del include, exclude
        where = " ".join(f"{name}={value}" for name, value in self.values().items())
        text = f"<Explorer {where} speedup={self.result().speedup:.4f}>"
        return {**self.box._repr_mimebundle_(), MIME: self.spec(), "text/plain": text}


def _controls(config: ExplorerConfig, start: dict[str, Any]) -> dict[str, Any]:
    ranges, choices = sliders(config), menus(config)
    unknown = set(start) - set(ranges) - set(choices)
    if unknown:
        raise ValueError(f"no such control: {', '.join(sorted(unknown))}")
    look = {"style": {"description_width": "8em"}, "layout": widgets.Layout(width="95%")}
    controls: dict[str, Any] = {
        name: widgets.IntSlider(start[name], low, high, step, description=label, **look)
        for name, (label, low, high, step) in ranges.items()
    }
    for name, (label, entries) in choices.items():
        value = printable(start[name]) if name in start else next(iter(entries))
        if value not in entries:
            raise ValueError(f"{name} must be one of {', '.join(entries)}; got {value}")
        options = [(shown, value) for value, shown in entries.items()]
        controls[name] = widgets.Dropdown(options=options, value=value, description=label, **look)
    return controls


def _bars(speedups: Any, chosen: int) -> str:
    """One horizontal bar for each draft length, drawn with nothing but HTML, so that a slider feels instant."""
    widest = max(float(np.max(speedups)), 1.0)
    rows = []
    for length, value in enumerate(np.asarray(speedups).tolist()):
        colour = ACCENT if length == chosen else PALETTE[0]
        bar = f"background:{colour};width:{100 * value / widest:.1f}%"
        rows.append(f'<div>{length}</div><div style="{bar}">&nbsp;</div><div>{value:.2f}</div>')
    grid = "display:grid;grid-template-columns:2em minmax(6em,30em) 4em;gap:2px .6em;line-height:1.1;font-size:13px"
    return f'<div style="{grid}"><div>K</div><div></div><div>speedup</div>{"".join(rows)}</div>'


def example_explorer() -> Explorer:
    """An Explorer over three devices on shipped evidence, for examples.

    Examples
    --------
    >>> list(example_explorer().controls)
    ['draft_length', 'batch', 'context', 'hardware', 'evidence', 'method', 'precision', 'step_time']
    """
    from specbook.acceptance.library import library_profile
    from specbook.hardware.profile import catalogue_device
    from specbook.roofline.model_spec import model

    return Explorer(
        ExplorerConfig(
            target=model("Vicuna-7B-v1.3"),
            draft=model("Llama-68M"),
            hardware=tuple(catalogue_device(name) for name in ("h100-sxm5", "l4", "m3-max")),
            evidence={"math": library_profile("spec-bench-sps-vicuna-7b-math")},
        )
    )
