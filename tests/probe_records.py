"""Probe records worked out from a calibrated model, for tests of what is made of a probe."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from specbook.hardware.probe_record import (
    AttentionTime,
    PassTime,
    ProbeRecord,
    ProductTime,
    Spread,
    StreamBandwidth,
)
from specbook.roofline.calibrated import CalibratedRates, attention_seconds, calibrated_seconds, product_seconds
from specbook.roofline.model_spec import model
from specbook.roofline.pass_cost import StepCost, product_cost, step_cost

SHAPES = ((640, 384), (384, 384), (16384, 384), (384, 8192), (1024, 384))
WIDTHS = (1, 2, 3, 5, 9)


def spread(value: float) -> Spread:
    return Spread(median=value, low=0.99 * value, high=1.01 * value, n=9)


def record_of(rates: CalibratedRates, noise: float, rng: np.random.Generator, arithmetic: str = "fast") -> ProbeRecord:
    """What a probe would measure on a machine that the model describes, with log-normal noise."""

    def measured(seconds: float) -> Spread:
        return spread(float(seconds) * float(np.exp(noise * rng.standard_normal())))

    products = [
        ProductTime(
            arithmetic=arithmetic,
            n_out=n_out,
            n_in=n_in,
            rows=rows,
            seconds=measured(product_seconds(rows, product_cost(n_out, n_in, 4.0, 1.0, 4.0), rates)),
        )
        for n_out, n_in in SHAPES
        for rows in range(1, 18)
    ]
    layer = StepCost(
        products=(),
        n_layers=1.0,
        n_mixture_layers=0.0,
        kv_bytes_per_token=2.0 * 2 * 64 * 4,
        attention_flops_per_token_and_context=4.0 * 6 * 64,
        hidden_bytes=0.0,
    )
    attention = [
        AttentionTime(
            arithmetic=arithmetic,
            n_heads=6,
            n_kv_heads=2,
            head_size=64,
            batch=batch,
            context=context,
            rows=rows,
            seconds=measured(attention_seconds(rows, batch, context, layer, rates)),
        )
        for batch in (1, 4, 16)
        for context in (512, 4096, 16384)
        for rows in WIDTHS
    ]
    passes = [
        PassTime(
            model=name,
            arithmetic=arithmetic,
            batch=batch,
            context=context,
            width=width,
            seconds=measured(calibrated_seconds(width, batch, context, step_cost(model(name), "fp32"), rates)),
        )
        for name in ("specbook-target-r8", "specbook-target")
        for batch in (1, 4, 16)
        for context in (512, 4096, 16384)
        for width in WIDTHS
    ]
    names = list(StreamBandwidth.model_fields)
    return ProbeRecord(
        specbook="0.1.0",
        backend="numpy",
        processor="a processor",
        blas={"library": "openblas", "version": "0.3", "kernel": "SkylakeX", "threads": 1},
        n_processors=2,
        date="2026-11-30",
        budget_s=60.0,
        wall_s=58.0,
        scratch_bytes=10**9,
        array_bytes=10**8,
        last_level_cache_bytes=32 * 2**20,
        bandwidth=StreamBandwidth(**{name: spread(1.2e10) for name in names}),
        matmul_flops_per_s=spread(8e10),
        call_overhead_s=spread(1e-6),
        products=products,
        attention=attention,
        passes=passes,
        noise=0.02,
        drift=1.0,
    )


def rates_of_a_machine(**changes: float) -> CalibratedRates:
    """A processor with one slow memory and a launch of a few microseconds."""
    values = {
        "launch_s": 5e-6,
        "bandwidth_bytes_per_s": 1.1e10,
        "flops_per_s": 4e10,
        "norm": 1.6,
        "step_overhead_s": 4e-5,
        "layer_overhead_s": 6e-5,
        "attention_launch_s": 2e-5,
        "attention_per_sequence_s": 8e-6,
        "attention_bandwidth_bytes_per_s": 9e9,
        "attention_flops_per_s": 1.5e10,
        "attention_norm": 3.0,
        "rows_per_kv_pass": 1.0,
        "kv_near_bytes": 0.0,
        "kv_near_gain": 1.0,
        "expert_overhead_s": 0.0,
        "routing_exponent": 1.0,
        "link_latency_s": 0.0,
        "link_bandwidth_bytes_per_s": 1e10,
    }
    assert set(values) == {item.name for item in fields(CalibratedRates)}
    return CalibratedRates(**values | changes)
