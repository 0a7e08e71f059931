"""The load of a funnel: as fast as a device can take it, or as it was recorded; out of options, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.commands.funnel_plan import funnel_load, quick_plan
from specbook.commands.serving_options import ArrivalsChoice, LoadOptions
from specbook.serving.iteration_time import AffineIterationTime
from specbook.serving.kv_blocks import KvConfig
from specbook.serving.result import simulate_serving
from specbook.serving.serving_config import ServingConfig
from specbook.stages.load import example_load, rate_for_batch

SLOW = AffineIterationTime(c0_ms=20.0, c1_ms=0.05, c2_ms=0.0004, c3_ms=0.00002)


def _trace(path: Path) -> Path:
    rows = "\n".join(f"{10 * number},{100 + number},{20 + number}" for number in range(40))
    path.write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("mean_batch", [0.5, 2.0, 8.0, 24.0])
def test_a_device_runs_about_as_many_requests_as_was_asked_for(mean_batch: float):
    load = funnel_load(LoadOptions(requests=3000), mean_batch, 0)
    config = ServingConfig(kv=KvConfig(n_blocks=40_000), iteration_time=SLOW)
    result = simulate_serving(config, load.on(SLOW), rng=np.random.default_rng(0))
    in_flight = result.summary.mean_batch_size * result.summary.utilisation
    assert in_flight == pytest.approx(mean_batch, rel=0.25)


def test_a_device_twice_as_slow_gets_half_the_rate():
    load = example_load()
    slower = AffineIterationTime(**{f"c{n}_ms": 2.0 * getattr(SLOW, f"c{n}_ms") for n in range(4)})
    assert rate_for_batch(slower, load, 8.0) == pytest.approx(rate_for_batch(SLOW, load, 8.0) / 2.0)


def test_a_load_without_a_mean_batch_comes_as_it_is():
    load = replace(example_load(), mean_batch=None)
    assert load.on(SLOW) is load.workload


def test_a_trace_keeps_its_times_unless_the_device_decides_the_rate(tmp_path: Path):
    options = LoadOptions(trace=_trace(tmp_path / "trace.csv"))
    as_it_came, by_device = funnel_load(options, None, 0), funnel_load(options, 4.0, 0)
    assert as_it_came.workload.arrival_s[-1] == 390.0
    assert by_device.workload.arrival_s[-1] == pytest.approx(39.0)  # one a second
    rate = rate_for_batch(SLOW, by_device, 4.0)
    assert by_device.on(SLOW).arrival_s[-1] == pytest.approx(39.0 / rate)
    trace = as_it_came.about["trace"]
    assert (trace["file"], len(trace["sha256"])) == ("trace.csv", 64)
    assert as_it_came.inputs["requests_sha256"] != by_device.inputs["requests_sha256"]


def test_a_rate_is_the_same_on_every_device():
    load = funnel_load(LoadOptions(requests=50, rate=2.0), None, 0)
    assert load.mean_batch is None
    assert load.on(SLOW) is load.workload


def test_the_seed_decides_what_is_drawn():
    first, again, other = (funnel_load(LoadOptions(requests=50), None, seed) for seed in (0, 0, 1))
    assert first.inputs == again.inputs
    assert first.inputs["requests_sha256"] != other.inputs["requests_sha256"]


@pytest.mark.parametrize(
    ("options", "mean_batch", "part"),
    [
        (LoadOptions(arrivals=ArrivalsChoice.closed), None, "is no load for a funnel"),
        (LoadOptions(rate=2.0), 4.0, "--rate = 2.0"),
        (LoadOptions(at_rate=2.0), 4.0, "--at-rate = 2.0"),
        (LoadOptions(), -1.0, "--mean-batch = -1.0"),
        (LoadOptions(), float("nan"), "--mean-batch = nan"),
        (LoadOptions(lenient=True), None, "--lenient"),
        (LoadOptions(prompt_tokens="many"), None, "--prompt-tokens = 'many'"),
    ],
)
def test_a_load_that_is_none_is_refused(options: LoadOptions, mean_batch: float | None, part: str):
    with pytest.raises(BadInput) as refused:
        funnel_load(options, mean_batch, 0)
    assert part in str(refused.value)


def test_the_quick_plan_measures_everything_on_prompts_that_its_witness_leaves():
    plan = quick_plan()
    assert plan.choices.profiles == plan.choices.hardware == ()
    assert plan.measure is not None
    assert plan.probe is not None
    assert plan.witness.n_prompts + plan.measure.n_prompts <= 40
    assert plan.choices.backend == plan.witness.arithmetic == plan.measure.arithmetic
