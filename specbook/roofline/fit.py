"""A calibrated model out of a probe: the parameters that meet its measured times, and how far they are from the rest.

Every third measured point is held out. The others are met in the logarithm, so that a microsecond counts as much in a
small product as a millisecond in a long pass; a pass counts more than the parts it is made of, since passes are what
the model is asked for. Whether the rows of a sequence share a read of its cache, and up to which size they find it
near, are properties of kernel and machine that do not vary smoothly: each answer is fitted and the best one kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from specbook.checks import BadInput, Floats
from specbook.hardware.calibration import Arithmetic, Calibration, FitError, ProductCalibration
from specbook.hardware.probe_record import ProbeRecord
from specbook.hardware.profile import HardwareProfile
from specbook.roofline.calibrated import (
    ALL_ROWS,
    CalibratedRates,
    attention_seconds,
    calibrated_seconds,
    product_seconds,
)
from specbook.roofline.model_spec import PRECISIONS, Precision, model
from specbook.roofline.pass_cost import StepCost, product_cost, step_cost

_HELD_OUT_EVERY = 3
_WEIGHT_OF_A_PASS = 3.0
_FEWEST_PASSES = 6

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
    "kv_near_gain": (2.0, 1.0, 16.0),
}


@dataclass(frozen=True, kw_only=True)
class _Times:
    """Measured times of one kind, and the function of the rates that should give them.

    ``at`` holds what the function takes beside the rates, one entry a time.
    """

    seconds: Floats
    weight: float
    at: tuple[Floats, ...]
    predict: Callable[[tuple[Floats, ...], CalibratedRates], Floats]

    def part(self, chosen: NDArray[np.bool_]) -> _Times:
        """Some of them."""
        return replace(self, seconds=self.seconds[chosen], at=tuple(values[chosen] for values in self.at))

    def ratios(self, rates: CalibratedRates) -> Floats:
        """Model ÷ measured."""
        return np.asarray(self.predict(self.at, rates) / self.seconds)


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
    passes = _passes(record, arithmetic)
    n_passes = sum(times.seconds.size for times in passes)
    if n_passes < _FEWEST_PASSES:
        raise BadInput(
            f"a fit needs at least {_FEWEST_PASSES} passes in that arithmetic and the probe holds {n_passes}",
            field="arithmetic",
            value=arithmetic,
            remedy="probe for longer",
        )
    times = [*_products(record, arithmetic), *_attention(record, arithmetic), *passes]
    fitted, held_out = ([part(each) for each in chosen] for part, chosen in ((_kept, times), (_held_out, passes)))
    sharing = [(rows, size) for rows in (ALL_ROWS, 1.0) for size in _near_sizes(record, arithmetic)]
    rates = min((_fit(fitted, *each) for each in sharing), key=lambda found: _loss(found, fitted))
    return _calibration(rates, _error(rates, held_out, fitted), arithmetic)


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


def _near_sizes(record: ProbeRecord, arithmetic: str) -> list[float]:
    """Bytes of one layer and sequence that may stay near: none, or up to each context that was measured."""
    measured = [each for each in record.attention if each.arithmetic == arithmetic]
    width = _format(arithmetic).activation_bytes
    return [0.0, *sorted({2.0 * each.n_kv_heads * each.head_size * width * each.context for each in measured})]


def _format(arithmetic: str) -> Precision:
    """The weight format of an arithmetic: the engine computes in 32 bits, a device in those of its name."""
    return PRECISIONS.get(arithmetic, PRECISIONS["fp32"])


def _is_held_out(times: _Times) -> NDArray[np.bool_]:
    return np.asarray(np.arange(times.seconds.size) % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1)


def _kept(times: _Times) -> _Times:
    return times.part(~_is_held_out(times))


def _held_out(times: _Times) -> _Times:
    return times.part(_is_held_out(times))


def _columns(rows: Sequence[tuple[float, ...]]) -> tuple[Floats, ...]:
    """Columns of rows in rising order, so that what is held out does not depend on the order of measuring."""
    return tuple(np.array(sorted(rows), dtype=np.float64).T)


def _products(record: ProbeRecord, arithmetic: str) -> list[_Times]:
    rows = [
        (each.n_out, each.n_in, each.rows, each.seconds.median)
        for each in record.products
        if each.arithmetic == arithmetic
    ]
    if not rows:
        return []
    n_out, n_in, n_rows, seconds = _columns(rows)
    return [
        _Times(
            seconds=seconds, weight=1.0, at=(n_out, n_in, n_rows), predict=partial(_product_times, _format(arithmetic))
        )
    ]


def _product_times(width: Precision, at: tuple[Floats, ...], rates: CalibratedRates) -> Floats:
    n_out, n_in, n_rows = at
    shape: tuple[Any, Any] = (n_out, n_in)  # of all products at once
    cost = product_cost(*shape, width.layer_bytes, 1.0, width.activation_bytes)
    return np.asarray(product_seconds(n_rows, cost, rates))


def _attention(record: ProbeRecord, arithmetic: str) -> list[_Times]:
    rows = [
        (
            each.batch,
            each.context,
            each.rows,
            2.0 * each.n_kv_heads * each.head_size * _format(arithmetic).activation_bytes,
            4.0 * each.n_heads * each.head_size,
            each.seconds.median,
        )
        for each in record.attention
        if each.arithmetic == arithmetic
    ]
    if not rows:
        return []
    *at, seconds = _columns(rows)
    return [_Times(seconds=seconds, weight=1.0, at=tuple(at), predict=_attention_times)]


def _attention_times(at: tuple[Floats, ...], rates: CalibratedRates) -> Floats:
    batch, context, n_rows, kv_bytes, flops = at
    layer: dict[str, Any] = {"kv_bytes_per_token": kv_bytes, "attention_flops_per_token_and_context": flops}
    cost = StepCost(products=(), n_layers=1.0, n_mixture_layers=0.0, hidden_bytes=0.0, **layer)
    return np.asarray(attention_seconds(n_rows, batch, context, cost, rates))


def _passes(record: ProbeRecord, arithmetic: str) -> list[_Times]:
    measured = [each for each in record.passes if each.arithmetic == arithmetic]
    found = []
    for name in sorted({each.model for each in measured}):
        rows = [(e.batch, e.context, e.width, e.seconds.median) for e in measured if e.model == name]
        *at, seconds = _columns(rows)
        predict = partial(_pass_times, step_cost(model(name), arithmetic if arithmetic in PRECISIONS else "fp32"))
        found.append(_Times(seconds=seconds, weight=_WEIGHT_OF_A_PASS, at=tuple(at), predict=predict))
    return found


def _pass_times(cost: StepCost, at: tuple[Floats, ...], rates: CalibratedRates) -> Floats:
    batch, context, width = at
    return np.asarray(calibrated_seconds(width, batch, context, cost, rates))


def _rates(logs: Floats, rows: float, near_bytes: float) -> CalibratedRates:
    values = dict(zip(_PARAMETERS, np.exp(logs).tolist(), strict=True))
    return CalibratedRates(
        **values,
        rows_per_kv_pass=rows,
        kv_near_bytes=near_bytes,
        expert_overhead_s=0.0,
        routing_exponent=1.0,
        link_latency_s=0.0,
        link_bandwidth_bytes_per_s=values["bandwidth_bytes_per_s"],
    )


def _residuals(rates: CalibratedRates, times: list[_Times]) -> Floats:
    return np.concatenate([each.weight * np.log(each.ratios(rates)) for each in times])


def _loss(rates: CalibratedRates, times: list[_Times]) -> float:
    return float(np.abs(_residuals(rates, times)).sum())


def _fit(times: list[_Times], rows: float, near_bytes: float) -> CalibratedRates:
    start, low, high = (np.log([limits[i] for limits in _PARAMETERS.values()]) for i in range(3))
    found = least_squares(
        lambda logs: _residuals(_rates(logs, rows, near_bytes), times),
        start,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.1,
    )
    return _rates(found.x, rows, near_bytes)


def _error(rates: CalibratedRates, held_out: list[_Times], fitted: list[_Times]) -> FitError:
    errors = np.abs(np.concatenate([each.ratios(rates) for each in held_out]) - 1.0)
    return FitError(
        n_fitted=sum(each.seconds.size for each in fitted),
        n_held_out=errors.size,
        median=float(np.median(errors)),
        worst=float(errors.max()),
    )


def _arithmetic(name: str) -> Arithmetic:
    return "fp16" if _format(name).arithmetic == "fp16" else "fp32"


def _calibration(rates: CalibratedRates, error: FitError, arithmetic: str) -> Calibration:
    product = ProductCalibration(
        launch_s=rates.launch_s,
        bandwidth_bytes_per_s=rates.bandwidth_bytes_per_s,
        flops_per_s=rates.flops_per_s,
        norm=rates.norm,
    )
    return Calibration(
        evidence="measured",
        source=f"fit to a probe, in {arithmetic}",
        products={_arithmetic(arithmetic): product},
        step_overhead_s=rates.step_overhead_s,
        layer_overhead_s=rates.layer_overhead_s,
        attention_launch_s=rates.attention_launch_s,
        attention_per_sequence_s=rates.attention_per_sequence_s,
        attention_bandwidth_bytes_per_s=rates.attention_bandwidth_bytes_per_s,
        attention_flops_per_s=rates.attention_flops_per_s,
        attention_norm=rates.attention_norm,
        rows_per_kv_pass=None if rates.rows_per_kv_pass == ALL_ROWS else int(rates.rows_per_kv_pass),
        kv_near_bytes=rates.kv_near_bytes,
        kv_near_gain=rates.kv_near_gain,
        error=error,
    )
