"""The Explorer's formula on the published page: the functions that numpy runs, as expressions over fields of a row.

Numbers that a menu chooses are look-ups in constant tables; methods, which differ in more than numbers, are one
expression each, of which the page evaluates the chosen one. A row carries its whole setting, so that a test can
evaluate thousands of settings at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt

from specbook.acceptance.yields import tokens_for_draft_length
from specbook.display.explorer_config import (
    MAX_DRAFT_LENGTH,
    STEP_TIMES,
    ExplorerConfig,
    drafter_bytes,
    marginals,
    rates_of,
    roofline,
    step_time_label,
    weights_label,
)
from specbook.display.formula import VEGA, Column, Fields, chosen, lookup
from specbook.roofline.calibrated import CalibratedRates
from specbook.roofline.drafting import Drafter, MethodName, drafter_cost, drafter_of
from specbook.roofline.pass_cost import ProductCost, StepCost, step_cost
from specbook.roofline.speedup import DraftingPair, memory_bytes, round_times
from specbook.roofline.step_time import DeviceRates, StepTime

# Field of a row → the parameter of the chart that it holds.
SETTINGS = {"B": "batch", "L": "context"} | {
    name: name for name in ("hardware", "evidence", "method", "precision", "step_time")
}
OUTPUTS = ("tokens", "tpot_ms", "baseline_tpot_ms", "speedup", "needed_bytes")
Cost = TypeVar("Cost", StepCost, ProductCost)
LABELS = ("memory_bytes", "weights_label", "step_time_label")


@dataclass(frozen=True, kw_only=True, slots=True)
class _ChosenStep:
    """The step time that the menu names."""

    steps: Mapping[str, StepTime]
    kind: str = "chosen"

    @property
    def overhead_s(self) -> Any:
        return chosen(alt.datum.step_time, {name: step.overhead_s for name, step in self.steps.items()})

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = VEGA) -> Any:
        seconds = {name: step(tokens, batch, context, xp) for name, step in self.steps.items()}
        return chosen(alt.datum.step_time, seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class _TargetStep:
    """The target's step time, which a round needs twice: its seconds become fields, and the width of a verify pass."""

    step: StepTime
    fields: Fields
    kind: str = "chosen"

    @property
    def overhead_s(self) -> Any:
        return self.step.overhead_s

    def __call__(self, tokens: Any, batch: Any, context: Any, xp: Any = VEGA) -> Any:
        if isinstance(tokens, float):
            return self.fields.keep("baseline_s", self.step(tokens, batch, context, xp))
        width = self.fields.keep("verify_width", tokens)
        return self.fields.keep("verify_s", self.step(width, batch, context, xp))


@dataclass(frozen=True, kw_only=True, slots=True)
class _ChosenDrafter:
    """The drafter that the menu names."""

    drafters: Mapping[str, Drafter]
    fields: Fields

    def seconds(self, depth: Any, n_nodes: Any, batch: Any, context: Any, xp: Any = VEGA) -> Any:
        each = {name: one.seconds(depth, n_nodes, batch, context, xp) for name, one in self.drafters.items()}
        return self.fields.keep("draft_s", chosen(alt.datum.method, each))

    def verify_width(self, n_nodes: Any) -> Any:
        each = {name: one.verify_width(n_nodes) for name, one in self.drafters.items()}
        return chosen(alt.datum.method, each)


def page_fields(config: ExplorerConfig) -> dict[str, str]:
    """Fields of a row and their expressions, in order: the setting, then all that the setting and K give.

    Examples
    --------
    >>> from specbook.display.explorer import example_explorer
    >>> page_fields(example_explorer().config)["speedup"]
    '((datum.tokens * datum.baseline_s) / (datum.draft_s + datum.verify_s))'
    """
    fields = Fields()
    for name, parameter in SETTINGS.items():
        fields.keep(name, parameter)
    length, batch, context = alt.datum.K, alt.datum.B, alt.datum.L
    tokens = fields.keep("tokens", tokens_for_draft_length(length, _marginals(config, fields), VEGA))
    pair = _drafting_pair(config, fields)
    times = round_times(length, length, batch, context, tokens, pair, VEGA)
    fields.keep("tpot_ms", 1e3 * times.tpot_s)
    fields.keep("baseline_tpot_ms", 1e3 * times.baseline_tpot_s)
    fields.keep("speedup", times.speedup)
    fields.keep("needed_bytes", memory_bytes(length, batch, context, pair, VEGA))
    _keep_labels(config, fields)
    return fields.needed([*SETTINGS, *OUTPUTS, *LABELS])


def _marginals(config: ExplorerConfig, fields: Fields) -> list[Any]:
    rows = marginals(config)
    columns = [{label: row[index] for label, row in rows.items()} for index in range(MAX_DRAFT_LENGTH)]
    return [_looked_up(f"marginal_{i}", column, fields, "evidence") for i, column in enumerate(columns, start=1)]


def _keep_labels(config: ExplorerConfig, fields: Fields) -> None:
    memory = {profile.name: profile.memory_bytes.value for profile in config.hardware}
    weights: Column = {
        method: {name: weights_label(config, method, name) for name in config.precisions} for method in config.methods
    }
    times = {profile.name: {name: step_time_label(profile, name) for name in STEP_TIMES} for profile in config.hardware}
    _looked_up("memory_bytes", memory, fields, "hardware")
    _looked_up("weights_label", weights, fields, "method", "precision")
    _looked_up("step_time_label", times, fields, "hardware", "step_time")


def _looked_up(name: str, column: Column, fields: Fields, *menus: str) -> Any:
    return fields.keep(name, lookup(column, *(f"datum.{menu}" for menu in menus)))


def _drafting_pair(config: ExplorerConfig, fields: Fields) -> DraftingPair:
    costs = {name: step_cost(config.target, name) for name in config.precisions}
    cost = _merged_step_cost(costs, fields)
    target = _step(config, "target", cost, config.precisions, fields)
    weights = {name: config.target.weight_bytes(name) for name in config.precisions}
    owns = {name: drafter_cost(name, config.target, config.draft, config.draft_precision) for name in config.methods}
    kv_bytes: Column = {name: 0.0 if own is None else own.kv_bytes_per_token for name, own in owns.items()}
    bytes_each: dict[str, Any] = {name: drafter_bytes(config, name, alt.datum.K) for name in config.methods}
    return DraftingPair(
        target=_TargetStep(step=target, fields=fields),
        drafter=_drafter(config, owns, fields),
        target_weight_bytes=_looked_up("target_weight_bytes", weights, fields, "precision"),
        draft_weight_bytes=chosen(alt.datum.method, bytes_each),
        target_kv_bytes_per_token=cost.kv_bytes_per_token,
        draft_kv_bytes_per_token=_looked_up("draft_kv_bytes_per_token", kv_bytes, fields, "method"),
    )


def _drafter(config: ExplorerConfig, owns: Mapping[MethodName, StepCost | None], fields: Fields) -> Drafter:
    steps = {
        name: None if own is None else _step(config, "draft", own, (config.draft_precision,), fields)
        for name, own in owns.items()
    }
    return _ChosenDrafter(drafters={name: drafter_of(name, step) for name, step in steps.items()}, fields=fields)


def _step(config: ExplorerConfig, model: str, cost: StepCost, precisions: tuple[str, ...], fields: Fields) -> StepTime:
    """Step times of one model, with the rates of the device that the menu names."""
    steps = {name: roofline(cost, _rates(config, name, f"{name}_{model}", precisions, fields)) for name in STEP_TIMES}
    return _ChosenStep(steps=steps)


def _rates(
    config: ExplorerConfig, step_time: str, prefix: str, precisions: tuple[str, ...], fields: Fields
) -> CalibratedRates | DeviceRates:
    """Rates as look-ups by device, and by weight format where it matters."""
    tables = {
        profile.name: {name: rates_of(step_time, profile, name) for name in precisions} for profile in config.hardware
    }
    found = next(iter(tables[config.hardware[0].name].values()))
    looked_up = {}
    for item in dataclasses.fields(found):
        table = {
            device: {name: getattr(rates, item.name) for name, rates in row.items()} for device, row in tables.items()
        }
        looked_up[item.name] = _by_device(f"{prefix}_{item.name}", table, fields)
    return dataclasses.replace(found, **looked_up)


def _by_device(name: str, table: Mapping[str, Mapping[str, float]], fields: Fields) -> Any:
    if all(len(set(row.values())) == 1 for row in table.values()):
        column = {device: next(iter(row.values())) for device, row in table.items()}
        return _looked_up(name, column, fields, "hardware")
    return _looked_up(name, table, fields, "hardware", "precision")


def _merged_step_cost(costs: Mapping[str, StepCost], fields: Fields) -> StepCost:
    """The cost in the weight format that the menu names; numbers that all formats share stay numbers."""
    products = [
        _merged(f"product_{index}", dict(zip(costs, each, strict=True)), fields)
        for index, each in enumerate(zip(*(cost.products for cost in costs.values()), strict=True), start=1)
    ]
    bare = {name: dataclasses.replace(cost, products=()) for name, cost in costs.items()}
    return dataclasses.replace(_merged("target", bare, fields), products=tuple(products))


def _merged(prefix: str, variants: Mapping[str, Cost], fields: Fields) -> Cost:
    first = next(iter(variants.values()))
    columns = {
        item.name: {name: getattr(variant, item.name) for name, variant in variants.items()}
        for item in dataclasses.fields(first)
    }
    varying = {
        name: _looked_up(f"{prefix}_{name}", column, fields, "precision")
        for name, column in columns.items()
        if len(set(column.values())) > 1
    }
    return dataclasses.replace(first, **varying)
