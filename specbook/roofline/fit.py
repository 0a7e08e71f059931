"""A calibrated model out of a probe: the parameters that meet its measured times, and how far they are from the rest.

Every third measured point is held out. The others are met in the logarithm, so that a microsecond counts as much in a
small product as a millisecond in a long pass; a pass counts more than the parts it is made of, since passes are what
the model is asked for. Whether the rows of a sequence share a read of its cache, and up to which size they find it
near, are properties of kernel and machine that do not vary smoothly: each answer is fitted and the best one kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from specbook.checks import BadInput, Floats
from specbook.hardware.calibration import Calibration, FitError, ProductCalibration
from specbook.hardware.probe_record import ProbeRecord, Spread
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import (
    ALL_ROWS,
    CalibratedRates,
    attention_seconds,
    calibrated_seconds,
    product_seconds,
)
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import StepCost, product_cost, step_cost

_HELD_OUT_EVERY = 3
_WEIGHT_OF_A_PASS = 3.0
_FEWEST_PASSES = 6
_BYTES = 4.0  # the engine computes in 32 bits

# Parameters in the order of the vector that is fitted: each with a start, a smallest and a largest value.
_PARAMETERS = {
    "launch_s": (2e-6, 1e-8, 1e-3),
    "bandwidth_bytes_per_s": (1e10, 1e7, 1e14),
    "flops_per_s": (3e10, 1e7, 1e16),
    "norm": (2.0, 1.0, 12.0),
    "step_overhead_s": (1e-5, 1e-9, 1e-2),
    "layer_overhead_s": (2e-5, 1e-9, 1e-2),
    "attention_launch_s": (1e-5, 1e-9, 1e-2),
    "attention_per_sequence_s": (1e-6, 1e-10, 1e-2),
    "attention_bandwidth_bytes_per_s": (1e10, 1e7, 1e14),
    "attention_flops_per_s": (1e10, 1e7, 1e16),
    "attention_norm": (2.0, 1.0, 12.0),
}


@dataclass(frozen=True, kw_only=True)
class _Point:
    """One measured time and the function of the rates that should give it."""

    seconds: float
    weight: float
    predict: Any


def fit_calibration(record: ProbeRecord, arithmetic: str) -> Calibration:
    """Fit a calibrated step time to what a probe measured in one arithmetic.

    Parameters
    ----------
    record : ProbeRecord
        With products, attention and passes of known models.
    arithmetic : str
        Which of the engine's arithmetics, such as ``fast``.

    Returns
    -------
    Calibration
        With its error on the held-out passes.

    Raises
    ------
    BadInput
        If the probe holds too few passes in that arithmetic.

    References
    ----------
    aiconfigurator
    """
    points = [*_products(record, arithmetic), *_attention(record, arithmetic)]
    passes = _passes(record, arithmetic)
    if len(passes) < _FEWEST_PASSES:
        raise BadInput(
            f"a fit needs at least {_FEWEST_PASSES} passes in that arithmetic and the probe holds {len(passes)}",
            field="arithmetic",
            value=arithmetic,
            remedy="probe for longer",
        )
    fitted = _kept(points) + _kept(passes)
    held_out = passes[_HELD_OUT_EVERY - 1 :: _HELD_OUT_EVERY]
    sharing = [(ALL_ROWS, 0.0), *((1.0, size) for size in _reuse_sizes(record, arithmetic))]
    rates = min((_fit(fitted, *each) for each in sharing), key=lambda found: _loss(found, fitted))
    return _calibration(rates, _error(rates, held_out, len(fitted)), arithmetic)


def with_calibrations(profile: HardwareProfile) -> HardwareProfile:
    """The profile with a calibration for each arithmetic that its probe measured often enough; others are left out.

    Raises
    ------
    BadInput
        If the profile has no probe, or no arithmetic has enough passes.
    """
    if profile.probe is None:
        remedy = "make one with specbook probe"
        raise BadInput("holds no probe", field="probe", value=None, remedy=remedy)
    counts: dict[str, int] = {}
    for each in profile.probe.passes:
        counts[each.arithmetic] = counts.get(each.arithmetic, 0) + 1
    usable = [name for name, count in counts.items() if count >= _FEWEST_PASSES]
    if not usable:
        raise BadInput("too few passes to fit", field="probe.passes", value=counts, remedy="probe for longer")
    fits = {name: fit_calibration(profile.probe, name) for name in usable}
    return profile.model_copy(update={"calibrations": {**fits, **profile.calibrations}})


def _reuse_sizes(record: ProbeRecord, arithmetic: str) -> list[float]:
    """Bytes of one layer and sequence that may stay near: none, or up to each context that was measured."""
    measured = [each for each in record.attention if each.arithmetic == arithmetic]
    return [0.0, *sorted({2.0 * each.n_kv_heads * each.head_size * _BYTES * each.context for each in measured})]


def _kept(points: list[_Point]) -> list[_Point]:
    return [point for index, point in enumerate(points) if index % _HELD_OUT_EVERY != _HELD_OUT_EVERY - 1]


def _products(record: ProbeRecord, arithmetic: str) -> list[_Point]:
    measured = [each for each in record.products if each.arithmetic == arithmetic]
    measured.sort(key=lambda each: (each.n_out, each.n_in, each.rows))
    return [
        _product_point(product_cost(each.n_out, each.n_in, _BYTES, 1.0, _BYTES), each.rows, each.seconds)
        for each in measured
    ]


def _product_point(cost: Any, rows: int, seconds: Spread) -> _Point:
    return _Point(seconds=seconds.median, weight=1.0, predict=lambda rates: product_seconds(rows, cost, rates))


def _attention(record: ProbeRecord, arithmetic: str) -> list[_Point]:
    measured = [each for each in record.attention if each.arithmetic == arithmetic]
    measured.sort(key=lambda each: (each.batch, each.context, each.rows))
    points = []
    for each in measured:
        cost = StepCost(
            products=(),
            n_layers=1.0,
            n_mixture_layers=0.0,
            kv_bytes_per_token=2.0 * each.n_kv_heads * each.head_size * _BYTES,
            attention_flops_per_token_and_context=4.0 * each.n_heads * each.head_size,
            hidden_bytes=0.0,
        )
        points.append(_attention_point(cost, (each.rows, each.batch, each.context), each.seconds))
    return points


def _attention_point(cost: StepCost, at: tuple[int, int, int], seconds: Spread) -> _Point:
    return _Point(seconds=seconds.median, weight=1.0, predict=lambda rates: attention_seconds(*at, cost, rates))


def _passes(record: ProbeRecord, arithmetic: str) -> list[_Point]:
    measured = [each for each in record.passes if each.arithmetic == arithmetic]
    measured.sort(key=lambda each: (each.model, each.batch, each.context, each.width))
    points = []
    for each in measured:
        cost = step_cost(model(each.model), "fp32")
        points.append(_pass_point(cost, (each.width, each.batch, each.context), each.seconds))
    return points


def _pass_point(cost: StepCost, at: tuple[int, int, int], seconds: Spread) -> _Point:
    weight = _WEIGHT_OF_A_PASS
    return _Point(seconds=seconds.median, weight=weight, predict=lambda rates: calibrated_seconds(*at, cost, rates))


def _rates(logs: Floats, rows: float, reuse_bytes: float) -> CalibratedRates:
    values = dict(zip(_PARAMETERS, np.exp(logs).tolist(), strict=True))
    return CalibratedRates(
        **values,
        rows_per_kv_pass=rows,
        kv_reuse_bytes=reuse_bytes,
        expert_overhead_s=0.0,
        routing_exponent=1.0,
        link_latency_s=0.0,
        link_bandwidth_bytes_per_s=values["bandwidth_bytes_per_s"],
    )


def _residuals(rates: CalibratedRates, points: list[_Point]) -> Floats:
    return np.array([point.weight * np.log(point.predict(rates) / point.seconds) for point in points])


def _loss(rates: CalibratedRates, points: list[_Point]) -> float:
    return float(np.abs(_residuals(rates, points)).sum())


def _fit(points: list[_Point], rows: float, reuse_bytes: float) -> CalibratedRates:
    start, low, high = (np.log([limits[i] for limits in _PARAMETERS.values()]) for i in range(3))
    found = least_squares(
        lambda logs: _residuals(_rates(logs, rows, reuse_bytes), points),
        start,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.1,
    )
    return _rates(found.x, rows, reuse_bytes)


def _error(rates: CalibratedRates, held_out: list[_Point], n_fitted: int) -> FitError:
    errors = np.abs([point.predict(rates) / point.seconds - 1.0 for point in held_out])
    return FitError(
        n_fitted=n_fitted, n_held_out=len(held_out), median=float(np.median(errors)), worst=float(errors.max())
    )


def _calibration(rates: CalibratedRates, error: FitError, arithmetic: str) -> Calibration:
    product = ProductCalibration(
        launch_s=rates.launch_s,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        flops_per_s=rates.flops_per_s,
        norm=rates.norm,
    )
    return Calibration(
        evidence="measured",
        source=f"fit to a probe, the native engine in {arithmetic}",
        products={"fp32": product},
        step_overhead_s=rates.step_overhead_s,
        layer_overhead_s=rates.layer_overhead_s,
        attention_launch_s=rates.attention_launch_s,
        attention_per_sequence_s=rates.attention_per_sequence_s,
        attention_bandwidth_bytes_per_s=rates.attention_bandwidth_bytes_per_s,
        attention_flops_per_s=rates.attention_flops_per_s,
        attention_norm=rates.attention_norm,
        rows_per_kv_pass=None if rates.rows_per_kv_pass == ALL_ROWS else int(rates.rows_per_kv_pass),
        kv_reuse_bytes=rates.kv_reuse_bytes,
        error=error,
    )
