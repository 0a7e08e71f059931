"""Passes of many models as one array, whose times follow from five constants of a backend.

A fit asks for the same passes hundreds of times, and nothing of them changes but the constants. So every distinct pass
is taken apart once, into its products, its attention and what no constant touches; the formulas are those of
:mod:`specbook.roofline.calibrated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from specbook.checks import Floats
from specbook.roofline.calibrated import (
    CalibratedRates,
    CalibratedRoofline,
    attention_seconds,
    product_seconds,
    state_seconds,
)
from specbook.roofline.pass_cost import ProductCost, StepCost, expert_coverage
from specbook.validation.fleet_constants import MBU, MFU


@dataclass(frozen=True, kw_only=True, slots=True)
class PassAt:
    """One forward pass of one model.

    Attributes
    ----------
    step : CalibratedRoofline
    tokens, batch, context : float
        Positions per sequence, sequences, tokens of context in each.
    """

    step: CalibratedRoofline
    tokens: float
    batch: float
    context: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StackedPasses:
    """n distinct passes.

    Attributes
    ----------
    tokens, batch, context : (n,) ndarray of float64
    cost : StepCost
        Each figure (n,), but for one product whose figures are (p, n); rows beyond those of a pass are zero. Of
        experts, what the pass touches of them.
    rates : CalibratedRates
        Each (n,), before the fit.
    fixed_s : (n,) ndarray of float64
        What none of the constants touches, such as communication.
    before : (5,) ndarray of float64
        Constants that the rates belong to.
    """

    tokens: Floats
    batch: Floats
    context: Floats
    cost: StepCost
    rates: CalibratedRates
    fixed_s: Floats
    before: Floats

    def seconds(self, constants: ArrayLike) -> Floats:
        """Times of the passes under other constants.

        Parameters
        ----------
        constants : (..., 5) array_like of float64
            In the order of ``CONSTANTS``.

        Returns
        -------
        (..., n) ndarray of float64
        """
        vectors = np.asarray(constants, dtype=np.float64)
        step_s, layer_s, _, _, _ = np.moveaxis(vectors, -1, 0)[..., None]
        rates = self._rates(vectors)
        products = product_seconds(self.batch * self.tokens, self.cost.products[0], rates).sum(axis=-2)
        attention = attention_seconds(self.tokens, self.batch, self.context, self.cost, rates)[..., 0, :]
        states = state_seconds(self.batch, self.cost, rates)[..., 0, :]
        return np.asarray(self.fixed_s + step_s + self.cost.n_layers * layer_s + products + attention + states)

    def _rates(self, vectors: Floats) -> CalibratedRates:
        """Rates under other constants, (..., 1, n)."""
        _, _, rows, mbu, mfu = np.moveaxis(vectors, -1, 0)[..., None, None]
        faster, denser = mbu / self.before[MBU], mfu / self.before[MFU]
        return replace(
            self.rates,
            rows_per_kv_pass=rows,
            bandwidth_bytes_per_s=self.rates.bandwidth_bytes_per_s * faster,
            attention_bandwidth_bytes_per_s=self.rates.attention_bandwidth_bytes_per_s * faster,
            flops_per_s=self.rates.flops_per_s * denser,
            attention_flops_per_s=self.rates.attention_flops_per_s * denser,
        )


def stacked(passes: Sequence[PassAt], before: Floats) -> StackedPasses:
    """Passes of calibrated step times as one array.

    Parameters
    ----------
    passes : sequence of PassAt
        At least one, all with the rates of one device.
    before : (5,) ndarray of float64
        Of :func:`constants_before`.

    Examples
    --------
    >>> from specbook.validation.fleet_constants import constants_before
    >>> from specbook.validation.settings import example_setting
    >>> from specbook.validation.step_times import StepTimes
    >>> setting = example_setting()
    >>> step = StepTimes().target(setting.device, setting.target, setting.precision, 1)
    >>> before = constants_before(setting.device)
    >>> found = stacked([PassAt(step=step, tokens=4.0, batch=1.0, context=512.0)], before)
    >>> bool(abs(found.seconds(before)[0] / step(4.0, 1.0, 512.0) - 1) < 1e-12)
    True
    """
    tokens, batch, context = np.array([(each.tokens, each.batch, each.context) for each in passes], dtype=np.float64).T
    return StackedPasses(
        tokens=tokens,
        batch=batch,
        context=context,
        cost=_stacked_costs(passes),
        rates=_stacked_rates(passes),
        fixed_s=np.array([_fixed_seconds(each) for each in passes], dtype=np.float64),
        before=before,
    )


def _fixed_seconds(at: PassAt) -> float:
    """What is left of a pass without its overheads, products, attention and states."""
    cost, rates = at.step.cost, at.step.rates
    products = sum(product_seconds(at.batch * at.tokens, each, rates) for each in cost.products)
    attention = attention_seconds(at.tokens, at.batch, at.context, cost, rates)
    overheads = rates.step_overhead_s + cost.n_layers * rates.layer_overhead_s
    states = state_seconds(at.batch, cost, rates)
    return float(at.step(at.tokens, at.batch, at.context) - overheads - products - attention - states)


def _stacked_costs(passes: Sequence[PassAt]) -> StepCost:
    names = [item.name for item in fields(StepCost) if item.name != "products"]
    columns: dict[str, Any] = {name: np.array([getattr(each.step.cost, name) for each in passes]) for name in names}
    return StepCost(products=(_stacked_products(passes),), **columns)


def _stacked_products(passes: Sequence[PassAt]) -> ProductCost:
    names = ("count", "weight_bytes", "flops_per_row", "activation_bytes_per_row")
    table = np.zeros((len(names), max(len(each.step.cost.products) for each in passes), len(passes)))
    for column, at in enumerate(passes):
        for row, product in enumerate(at.step.cost.products):
            touched = replace(product, weight_bytes=product.weight_bytes * _coverage(at, product))
            table[:, row, column] = [getattr(touched, name) for name in names]
    columns: dict[str, Any] = dict(zip(names, table, strict=True))
    return ProductCost(**columns)


def _coverage(at: PassAt, product: ProductCost) -> float:
    if product.n_experts == 1.0:
        return 1.0
    exponent, rows = at.step.rates.routing_exponent, at.batch * at.tokens
    return float(expert_coverage(rows, product.n_experts, product.n_experts_per_token, exponent))


def _stacked_rates(passes: Sequence[PassAt]) -> CalibratedRates:
    columns = {
        item.name: np.array([getattr(each.step.rates, item.name) for each in passes], dtype=np.float64)
        for item in fields(CalibratedRates)
    }
    # Whether a cache is near does not depend on the constants, so that its gain is part of the bandwidth.
    gains = np.array([_near_gain(each) for each in passes], dtype=np.float64)
    columns["attention_bandwidth_bytes_per_s"] = columns["attention_bandwidth_bytes_per_s"] * gains
    columns["kv_near_bytes"] = np.zeros(len(passes))
    return CalibratedRates(**columns)


def _near_gain(at: PassAt) -> float:
    rates = at.step.rates
    is_near = at.context * at.step.cost.kv_bytes_per_token_and_layer <= rates.kv_near_bytes
    return float(rates.kv_near_gain) if rates.kv_near_bytes and is_near else 1.0
