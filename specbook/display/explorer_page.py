"""The Explorer on the published page: the shared formula as expressions, and the chart that evaluates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from specbook.acceptance.profile import AcceptanceProfile
from specbook.acceptance.yields import tokens_for_draft_length
from specbook.checks import printable
from specbook.display.charts import ACCENT, PALETTE, QUIET, finish
from specbook.display.formula import VEGA, lookup
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.drafting import SequentialDrafter
from specbook.roofline.model_spec import ModelSpec
from specbook.roofline.pass_cost import step_cost
from specbook.roofline.speedup import DraftingPair, memory_bytes, round_times
from specbook.roofline.step_time import DeviceRates, DoctrineRoofline, device_rates

MAX_DRAFT_LENGTH = 16

Range = tuple[str, int, int, int]


@dataclass(frozen=True, kw_only=True)
class ExplorerConfig:
    """What an Explorer offers.

    Attributes
    ----------
    target, draft : ModelSpec
    hardware : tuple of HardwareProfile
        Entries of the hardware menu.
    evidence : dict of str to AcceptanceProfile
        Entries of the evidence menu; each needs acceptance by position, and is truncated to shorter drafts.
    precision, draft_precision : str

    Raises
    ------
    ValueError
        If there is no hardware or evidence, or evidence of a tree or without positions.
    """

    target: ModelSpec
    draft: ModelSpec
    hardware: tuple[HardwareProfile, ...]
    evidence: Mapping[str, AcceptanceProfile]
    precision: str = "bf16"
    draft_precision: str = "bf16"

    def __post_init__(self) -> None:
        if not self.hardware or not self.evidence:
            raise ValueError("an Explorer needs at least one device and one piece of evidence")
        for label, profile in self.evidence.items():
            if profile.tree is not None:
                raise ValueError(f"evidence {label!r} is of a tree drafter; the Explorer computes chains")
            if not profile.marginal_acceptance:
                raise ValueError(f"evidence {label!r} has no acceptance by position")


def sliders(config: ExplorerConfig) -> dict[str, Range]:
    """Label, smallest, largest and step of each slider; the context ends where the target's does.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> sliders(example_explorer().config)["context"]
    ('context L', 128, 2048, 128)
    """
    longest = min(config.target.max_context or _LONGEST_CONTEXT, _LONGEST_CONTEXT)
    step = max(longest // 64, 128)
    return {
        "draft_length": ("draft length K", 0, MAX_DRAFT_LENGTH, 1),
        "batch": ("batch B", 1, 256, 1),
        "context": ("context L", step, longest, step),
    }


_LONGEST_CONTEXT = 32768


def marginals(config: ExplorerConfig) -> dict[str, list[float]]:
    """Marginal acceptance at positions 1 to :data:`MAX_DRAFT_LENGTH` by evidence, 0 beyond what was seen.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> len(marginals(example_explorer().config)["math"])
    16
    """
    padding = [0.0] * MAX_DRAFT_LENGTH
    return {
        printable(label): [*(profile.marginal_acceptance or []), *padding][:MAX_DRAFT_LENGTH]
        for label, profile in config.evidence.items()
    }


def drafting_pair(config: ExplorerConfig, target_device: DeviceRates, draft_device: DeviceRates) -> DraftingPair:
    """Step times of the two models, with rates as numbers or as expressions."""
    target, draft = step_cost(config.target, config.precision), step_cost(config.draft, config.draft_precision)
    return DraftingPair(
        target=DoctrineRoofline(cost=target, device=target_device),
        drafter=SequentialDrafter(step=DoctrineRoofline(cost=draft, device=draft_device)),
        target_weight_bytes=config.target.weight_bytes(config.precision),
        draft_weight_bytes=config.draft.weight_bytes(config.draft_precision),
        target_kv_bytes_per_token=target.kv_bytes_per_token,
        draft_kv_bytes_per_token=draft.kv_bytes_per_token,
    )


def page_spec(config: ExplorerConfig, at: Mapping[str, Any]) -> dict[str, Any]:
    """Vega-Lite specification of the Explorer, starting at the settings ``at``.

    Parameters
    ----------
    config : ExplorerConfig
    at : mapping
        Values of draft_length, batch, context, hardware and evidence.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> explorer = example_explorer()
    >>> [parameter["name"] for parameter in page_spec(explorer.config, explorer.values())["params"]]
    ['draft_length', 'batch', 'context', 'hardware', 'evidence']
    """
    return dict(_chart(config, at).to_dict())


def _parameters(config: ExplorerConfig, at: Mapping[str, Any]) -> list[alt.Parameter]:
    binds: dict[str, Any] = {
        name: alt.binding_range(min=low, max=high, step=step, name=f"{label} ")
        for name, (label, low, high, step) in sliders(config).items()
    }
    menus = {"hardware": [profile.name for profile in config.hardware], "evidence": list(marginals(config))}
    binds |= {name: alt.binding_select(options=options, name=f"{name} ") for name, options in menus.items()}
    return [alt.param(name, value=at[name], bind=bind) for name, bind in binds.items()]


def _page_rates(config: ExplorerConfig, precision_name: str, prefix: str) -> tuple[DeviceRates, dict[str, str]]:
    """Rates as fields of the chart's rows, and the look-ups that fill those fields."""
    names = ("flops_per_s", "bandwidth_bytes_per_s", "overhead_s")
    rates = {profile.name: device_rates(profile, precision_name) for profile in config.hardware}
    fields = {
        f"{prefix}_{name}": lookup({device: getattr(rate, name) for device, rate in rates.items()}, "hardware")
        for name in names
    }
    return DeviceRates(**{name: alt.datum[f"{prefix}_{name}"] for name in names}), fields


def _quantities(config: ExplorerConfig) -> tuple[dict[str, str], dict[str, str]]:
    """Expressions of the page: the inputs of the formula, then what it gives, from the same Python functions."""
    target_rates, target_fields = _page_rates(config, config.precision, "target")
    draft_rates, draft_fields = _page_rates(config, config.draft_precision, "draft")
    rows = marginals(config)
    memory = lookup({profile.name: profile.memory_bytes.value for profile in config.hardware}, "hardware")
    inputs = {"B": "batch", "L": "context", "memory_bytes": memory, **target_fields, **draft_fields}
    for index in range(MAX_DRAFT_LENGTH):
        inputs[f"marginal_{index + 1}"] = lookup({label: row[index] for label, row in rows.items()}, "evidence")
    marginal = [alt.datum[f"marginal_{index + 1}"] for index in range(MAX_DRAFT_LENGTH)]
    tokens = tokens_for_draft_length(alt.datum.K, marginal, VEGA)
    pair = drafting_pair(config, target_rates, draft_rates)
    each = round_times(alt.datum.K, alt.datum.K, alt.datum.B, alt.datum.L, alt.datum.tokens, pair, VEGA)
    return inputs, {
        "tokens": str(tokens),
        "tpot_ms": str(1e3 * each.tpot_s),
        "baseline_tpot_ms": str(1e3 * each.baseline_tpot_s),
        "speedup": str(each.speedup),
        "needed_bytes": str(memory_bytes(alt.datum.K, alt.datum.B, alt.datum.L, pair, VEGA)),
    }


def _chart(config: ExplorerConfig, at: Mapping[str, Any]) -> Any:
    inputs, outputs = _quantities(config)
    longest = max(1.0 + sum(row) for row in marginals(config).values())
    x = alt.X(
        "K:Q",
        title="draft length K (tokens)",
        axis=alt.Axis(format="d", tickMinStep=1),
        scale=alt.Scale(domain=[0, MAX_DRAFT_LENGTH]),
    )
    y = alt.Y("speedup:Q", title="speedup", scale=alt.Scale(domain=[0, float(np.ceil(longest * 2) / 2)]))
    base = alt.Chart().encode(x=x, y=y)
    tooltip = [alt.Tooltip("K:Q"), *(alt.Tooltip(f"{name}:Q", format=".3f") for name in outputs)]
    best = base.transform_filter("datum.place == 1")
    chosen = base.transform_filter("datum.K == draft_length")
    layers = [
        alt.Chart(alt.InlineData(values=[{"one": 1}])).mark_rule(strokeDash=[5, 4], color=QUIET).encode(y="one:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=30), color=PALETTE[0]).encode(tooltip=tooltip),
        best.mark_point(shape="diamond", size=150, color=PALETTE[2]),
        chosen.mark_point(size=150, color=ACCENT),
        _sentence(best, -38, PALETTE[2], _BEST),
        _sentence(chosen, -22, ACCENT, _YOURS),
        _sentence(chosen, -6, ACCENT, _COST),
        _sentence(chosen.transform_filter("datum.needed_bytes > datum.memory_bytes"), 12, "#c0392b", _NO_FIT),
    ]
    layered = (
        alt.layer(*layers, data=alt.sequence(0, MAX_DRAFT_LENGTH + 1, as_="K"), title=_title(config))
        .transform_calculate(**inputs)
        .transform_calculate(**outputs)
        .transform_window(
            place="rank()", sort=[alt.SortField("speedup", "descending"), alt.SortField("K", "ascending")]
        )
    )
    return finish(layered.add_params(*_parameters(config, at)), height=320)


_BEST = (
    "datum.K == 0 ? '◆ best: do not speculate (K = 0)' "
    ": '◆ best: K = ' + datum.K + ', speedup ' + format(datum.speedup, '.4f')"
    " + (datum.needed_bytes > datum.memory_bytes ? ' (does not fit)' : '')"
)
_YOURS = "'● yours: K = ' + datum.K + ', speedup ' + format(datum.speedup, '.4f')"
_COST = "format(datum.tpot_ms, '.2f') + ' ms a token instead of ' + format(datum.baseline_tpot_ms, '.2f') + ' ms'"


_NO_FIT = (
    "'✕ does not fit: ' + format(datum.needed_bytes / 1e9, ',.0f') + ' GB of '"
    " + format(datum.memory_bytes / 1e9, ',.0f')"
)


def _title(config: ExplorerConfig) -> alt.Title:
    target, draft = config.target.name, config.draft.name
    return alt.Title(
        f"{target} verifying {draft}",
        subtitle=f"{precision_label(config)}, ideal roofline (optimistic)",
        offset=14,
    )


def precision_label(config: ExplorerConfig) -> str:
    """Weight formats of target and draft.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> precision_label(example_explorer().config)
    'bf16 weights'
    """
    if config.precision == config.draft_precision:
        return f"{config.precision} weights"
    return f"{config.precision} and {config.draft_precision} weights"


def _sentence(chart: Any, y: int, color: str, expression: str) -> Any:
    """A line of text above the plot, computed from the row that is left."""
    return (
        chart.transform_calculate(sentence=expression)
        .mark_text(align="left", baseline="middle", fontSize=13, color=color)
        .encode(x=alt.value(0), y=alt.value(y), text="sentence:N")
    )
