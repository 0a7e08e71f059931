"""Rows of a fleet whose constants are known: measured by the model itself, with noise if asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from specbook.hardware.calibration import FitError
from specbook.hardware.profile import HardwareProfile, catalogue_device
from specbook.roofline.calibrations import assumed_calibration, calibration_of
from specbook.roofline.drafting import MethodName
from specbook.roofline.model_spec import model
from specbook.validation.passes import passes_of
from specbook.validation.rounds import constants_of, predict_rounds
from specbook.validation.series import SeriesRow
from specbook.validation.setting_overheads import overheads_of
from specbook.validation.settings import Setting

AN_ERROR = FitError(n_fitted=8, n_held_out=4, median=0.03, worst=0.1)
DENSE, LARGE, MIXTURE = "Llama-3.1-8B", "Llama-3.1-70B", "Qwen3-30B-A3B"
MODELS = (DENSE, LARGE, MIXTURE)


def a_setting(**changes: Any) -> Setting:
    """One setting, whose row is filled by :func:`measured`."""
    line, series = changes.pop("line", 2), changes.pop("series", "fleet")
    target = model(changes.pop("target", DENSE))
    row = SeriesRow(line=line, series=series, source="own", workload=changes.pop("workload", "chat"))
    known: dict[str, Any] = {
        "row": row,
        "device": catalogue_device("h200-sxm"),
        "n_devices": 1,
        "target": target,
        "draft": None,
        "precision": "bf16",
        "draft_precision": "bf16",
        "method": "eagle3",
        "depth": 3.0,
        "n_nodes": changes.get("depth", 3.0),
        "tokens_per_round": 1.0 + 0.6 * changes.get("depth", 3.0),
        "batch": 1,
        "context_tokens": 512.0,
        "engine": "sglang",
        "assumptions": (),
    }
    return Setting(**known | changes)


def a_fleet(
    *,
    targets: Iterable[str] = MODELS,
    batches: Iterable[int] = (1, 8, 64),
    contexts: Iterable[float] = (512.0, 8192.0),
    depths: Iterable[float] = (2.0, 4.0, 6.0),
    **changes: Any,
) -> list[Setting]:
    """A series for each target, batch and context, over the draft lengths."""
    found = []
    for target, batch, context in product(targets, batches, contexts):
        for depth in depths:
            method: MethodName = changes.get("method", "eagle3")
            setting = a_setting(
                line=len(found) + 2,
                series=f"{target} {batch} {context:.0f}",
                target=target,
                batch=batch,
                context_tokens=context,
                **changes | {"depth": depth, "method": method},
            )
            found.append(setting)
    return found


def device_with(
    name: str = "h200-sxm",
    *,
    step: float = 0.0,
    layer: float = 2e-5,
    rows_per_kv_pass: int | None = None,
    mbu: float = 0.7,
    mfu: float = 0.5,
) -> HardwareProfile:
    """A device whose constants are those given; MBU and MFU of the first of its products."""
    device = catalogue_device(name)
    base = calibration_of(device) or assumed_calibration(device)
    peak = device.peak_bandwidth_bytes_per_s or device.sustained_bandwidth_bytes_per_s
    arithmetic, first = next(iter(base.products.items()))
    faster = mbu * peak.value / first.bandwidth_bytes_per_s
    denser = mfu * device.flops_per_s(arithmetic) / first.flops_per_s
    products = {
        each: known.model_copy(
            update={
                "bandwidth_bytes_per_s": faster * known.bandwidth_bytes_per_s,
                "flops_per_s": denser * known.flops_per_s,
            }
        )
        for each, known in base.products.items()
    }
    changes = {
        "products": products,
        "step_overhead_s": step,
        "layer_overhead_s": layer,
        "rows_per_kv_pass": rows_per_kv_pass,
        "attention_bandwidth_bytes_per_s": faster * base.attention_bandwidth_bytes_per_s,
        "attention_flops_per_s": denser * base.attention_flops_per_s,
    }
    return device.model_copy(update={"calibrations": {"truth": base.model_copy(update=changes)}})


def measured(
    found: Iterable[Setting], truth: HardwareProfile, noise: float = 0.0, rng: np.random.Generator | None = None
) -> list[Setting]:
    """The same settings with the speeds that a device would have shown; a series has one run without speculation."""
    settings = list(found)
    times = passes_of([replace(each, device=truth) for each in settings])
    unknown = np.full(len(settings), np.nan)
    overheads = [overheads_of(each) for each in settings]
    constants = np.array([constants_of(each) for each in overheads])
    rounds = predict_rounds(replace(times, baseline_tpot_s=unknown, fastest_tpot_s=unknown), constants)
    shares = np.array([each.outside_share for each in overheads])
    tokens = np.array([each.tokens_per_round for each in settings])
    baseline_s = times.step_s / (1.0 - shares)
    round_s = rounds.round_s + tokens * shares * baseline_s
    draws = np.random.default_rng(0) if rng is None else rng
    round_s = round_s * np.exp(noise * draws.standard_normal(len(settings)))
    series = [each.row.series for each in settings]
    errors = {name: float(np.exp(noise * draws.standard_normal())) for name in dict.fromkeys(series)}
    return [
        replace(
            each,
            row=replace(
                each.row,
                tokens_per_s=float(each.tokens_per_round * each.batch / seconds),
                baseline_tokens_per_s=float(each.batch / (baseline * errors[each.row.series])),
            ),
        )
        for each, seconds, baseline in zip(settings, round_s, baseline_s, strict=True)
    ]
