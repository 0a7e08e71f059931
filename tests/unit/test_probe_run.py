"""A probe from beginning to end, on a device whose clock only work moves, and once on this machine."""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbook import __version__
from specbook.checks import BadInput
from specbook.engine.threads import blas_threads
from specbook.files import dump_model, write_text
from specbook.hardware.probe.models import SCRATCH_MODELS
from specbook.hardware.probe.numpy_backend import NumpyBackend
from specbook.hardware.probe.plan import plan_probe
from specbook.hardware.probe.record import hardware_profile
from specbook.hardware.probe.run import RESERVE_S, ProbeConfig, run_probe
from specbook.hardware.probe_record import ProbeRecord, Spread
from specbook.hardware.profile import Figure, HardwareProfile, load_hardware
from tests.fake_devices import MEBIBYTE, FakeBackend, fake_backend

CONFIG = ProbeConfig(name="model-t", budget_s=60.0, date="2026-12-01")


@pytest.fixture(scope="module")
def profile() -> HardwareProfile:
    """A probe without noise: ten GB/s, a hundred GFLOP/s, a microsecond a call."""
    return run_probe(CONFIG, fake_backend())


def _record(profile: HardwareProfile) -> ProbeRecord:
    assert profile.probe is not None
    return profile.probe


def test_bandwidth_counts_the_arrays_that_stream_counts(profile: HardwareProfile):
    for name in ("copy", "scale", "add", "triad", "read"):
        spread = getattr(_record(profile).bandwidth, f"{name}_bytes_per_s")
        assert spread.median == pytest.approx(1e10, rel=1e-3)
        assert spread.n >= 6
    assert profile.sustained_bandwidth_bytes_per_s.value == _record(profile).bandwidth.read_bytes_per_s.median


def test_rates_are_those_of_the_device(profile: HardwareProfile):
    record = _record(profile)
    assert record.matmul_flops_per_s.median == pytest.approx(1e11, rel=1e-3)
    assert record.call_overhead_s.median == pytest.approx(1e-7)
    peaks = profile.peak_flops_per_s
    assert (peaks.fp32.value if peaks.fp32 else None, peaks.fp16) == (record.matmul_flops_per_s.median, None)


def test_every_case_of_the_plan_is_measured_as_the_device_takes(profile: HardwareProfile):
    record, plan = _record(profile), plan_probe(60.0, fake_backend())
    counts = [len(record.products), len(record.attention), len(record.passes)]
    assert counts == [len(plan.products), len(plan.attention), len(plan.passes)]
    for time_ in record.products:
        n_values = time_.n_out * time_.n_in
        assert time_.seconds.median == pytest.approx(1e-6 + n_values * (4e-10 + 2e-11 * time_.rows), rel=1e-4)
    for pass_ in record.passes:
        spec = SCRATCH_MODELS[pass_.model]
        cached = 8.0 * pass_.batch * pass_.context * spec.n_layers * spec.n_kv_heads * spec.head_size
        flops = 2.0 * pass_.batch * pass_.width * spec.n_parameters
        expected = 1e-6 + (4.0 * spec.n_parameters + cached) / 1e10 + flops / 1e11
        assert pass_.seconds.median == pytest.approx(expected, rel=1e-4)
    assert all(time_.seconds.n >= 1 for time_ in [*record.products, *record.attention, *record.passes])


def test_attention_names_its_heads(profile: HardwareProfile):
    assert {(t.n_heads, t.n_kv_heads, t.head_size) for t in _record(profile).attention} == {(6, 2, 64)}


def test_medians_of_passes_stand_in_tables_of_step_times():
    profile = run_probe(ProbeConfig(name="model-t", date="2026-12-01"), fake_backend(noise=_noisy(0.1)))
    tables = {(table.model, table.engine): table for table in profile.step_times}
    models = ("specbook-target-r8", "specbook-target", "specbook-draft")
    assert set(tables) == {(model, f"fake {arithmetic}") for model in models for arithmetic in ("fast", "exact")}
    for table in profile.step_times:
        assert (table.measures, table.unit, table.hardware) == ("pass", "seconds", "model-t")
        assert "probe of 2026-12-01" in table.source
    seconds = {
        (t.model, f"fake {t.arithmetic}", t.batch, t.context, t.width): t.seconds.median
        for t in _record(profile).passes
    }
    points = {
        (table.model, table.engine, p.batch, p.context, p.width): p.seconds
        for table in profile.step_times
        for p in table.points
    }
    assert points == seconds


def test_a_device_without_noise_has_none(profile: HardwareProfile):
    record = _record(profile)
    assert record.noise == pytest.approx(0.0, abs=1e-5)
    assert record.drift == pytest.approx(1.0)
    assert record.warnings == []


def test_conditions_are_recorded(profile: HardwareProfile):
    record = _record(profile)
    assert (record.specbook, record.backend, record.date, record.budget_s) == (__version__, "numpy", "2026-12-01", 60.0)
    assert record.array_bytes == 64 * MEBIBYTE
    assert record.last_level_cache_bytes == 8 * MEBIBYTE
    assert record.scratch_bytes == plan_probe(60.0, fake_backend()).scratch_bytes
    assert profile.memory_bytes.value == 16 * 2**30
    assert profile.memory_bytes.evidence == profile.sustained_bandwidth_bytes_per_s.evidence == "measured"
    assert (profile.peak_bandwidth_bytes_per_s, profile.mbu, profile.step_overhead_s) == (None, None, None)


def test_profile_survives_the_round_trip(profile: HardwareProfile, tmp_path: Path):
    write_text(tmp_path / "hw.json", dump_model(profile))
    assert load_hardware(str(tmp_path / "hw.json")) == profile


def test_same_seed_same_order():
    orders = []
    for seed in (0, 0, 1):
        backend = fake_backend()
        run_probe(ProbeConfig(name="a", budget_s=5.0, date="2026-12-01", seed=seed), backend)
        orders.append(backend.done)
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.parametrize("budget_s", [5.0, 20.0, 60.0])
def test_budget_is_kept_and_used(budget_s: float):
    backend = fake_backend()
    record = _record(run_probe(ProbeConfig(name="a", budget_s=budget_s), backend))
    elapsed = backend.now_s - 100.0
    assert record.wall_s == pytest.approx(elapsed, abs=0.01)
    assert budget_s - RESERVE_S - 1.5 < elapsed <= budget_s - RESERVE_S


def test_what_was_spent_before_counts():
    backend = fake_backend()
    record = _record(run_probe(ProbeConfig(name="a", budget_s=20.0, spent_s=8.0), backend))
    assert backend.now_s - 100.0 <= 20.0 - 8.0 - RESERVE_S
    assert record.wall_s == pytest.approx(backend.now_s - 100.0 + 8.0, abs=0.01)


@settings(max_examples=15)
@given(st.lists(st.floats(0.7, 1.05), min_size=1, max_size=40), st.floats(5.0, 60.0))
def test_budget_is_kept_and_percentiles_are_ordered_under_noise(factors: list[float], budget_s: float):
    turn = iter(range(10**9))
    backend = fake_backend(noise=lambda _: factors[next(turn) % len(factors)])
    profile = run_probe(ProbeConfig(name="a", budget_s=budget_s, date="2026-12-01"), backend)
    record = _record(profile)
    assert backend.now_s - 100.0 <= budget_s
    for spread in _spreads(record):
        assert spread.low <= spread.median <= spread.high
    assert 0.0 <= record.noise <= 0.6


def _spreads(record: ProbeRecord) -> list[Spread]:
    times = [time_.seconds for time_ in [*record.products, *record.attention, *record.passes]]
    rates = [getattr(record.bandwidth, name) for name in type(record.bandwidth).model_fields]
    return [*times, *rates, record.matmul_flops_per_s, record.call_overhead_s]


def test_a_slow_machine_measures_what_matters_and_names_the_rest():
    backend = fake_backend(bytes_per_s=8e8, flops_per_s=1e10)
    record = _record(run_probe(ProbeConfig(name="a", budget_s=60.0), backend))
    assert backend.now_s - 100.0 <= 60.0
    assert record.warnings[-1].startswith("no time for: ")
    assert record.warnings[-1].endswith(" more")
    single = {(time_.model, time_.arithmetic, time_.width) for time_ in record.passes if time_.batch == 1}
    assert single >= {
        (model, name, width) for model in SCRATCH_MODELS for name in ("fast", "exact") for width in (1, 5)
    }
    assert len(record.passes) < len(plan_probe(60.0, fake_backend()).passes)


def test_a_machine_too_slow_for_anything_still_has_its_bandwidth():
    backend = fake_backend(bytes_per_s=2e8, flops_per_s=1e9)
    profile = run_probe(ProbeConfig(name="a", budget_s=5.0), backend)
    record = _record(profile)
    assert record.bandwidth.read_bytes_per_s.median == pytest.approx(2e8, rel=1e-3)
    assert (record.passes, profile.step_times) == ([], [])
    assert any(warning.startswith("no time for: bandwidth and rates; ") for warning in record.warnings)


def _noisy(size: float):
    rng = np.random.default_rng(0)
    return lambda _: float(np.exp(size * rng.standard_normal()))


def test_noise_is_reported_and_not_hidden():
    quiet = _record(run_probe(CONFIG, fake_backend(noise=_noisy(0.01))))
    loud = _record(run_probe(CONFIG, fake_backend(noise=_noisy(0.2))))
    assert 0.005 < quiet.noise < 0.05
    assert quiet.warnings == []
    assert 0.2 < loud.noise < 0.7
    assert any(
        warning.startswith(f"noisy: the middle 80 % of repeats span {loud.noise:.0%}") for warning in loud.warnings
    )


@pytest.mark.parametrize(("factor", "drifted"), [(1.3, True), (1.05, False), (0.8, True)])
def test_drift_is_reported_and_not_hidden(factor: float, drifted: bool):
    backend = fake_backend()
    backend.noise = lambda _: 1.0 if backend.now_s < 130.0 else factor
    record = _record(run_probe(CONFIG, backend))
    assert record.drift == pytest.approx(1.0 / factor, rel=1e-3)
    assert (
        any(warning.startswith(f"drifted: bandwidth at the end was {record.drift:.2f}") for warning in record.warnings)
        == drifted
    )


def test_weights_come_from_memory():
    """A cache that holds all weights is emptied before each round of products, and a small model is warmed up."""
    large = fake_backend(last_level_cache_bytes=600 * MEBIBYTE)
    small = fake_backend(last_level_cache_bytes=2 * MEBIBYTE)
    for backend in (large, small):
        run_probe(ProbeConfig(name="a", budget_s=60.0), backend)
    assert _reads_before_products(large)
    assert not _reads_before_products(small)
    assert set(_runs(large, "specbook-draft")) == {5}
    assert min(_runs(small, "specbook-target")) == 1


def _reads_before_products(backend: FakeBackend) -> bool:
    pairs = list(zip(backend.done, backend.done[1:], strict=False))
    return any(pair == ("read", "product") for pair in pairs) and not any(
        after == "product" and before in {"attention", "square", "tiny"} for before, after in pairs
    )


def _runs(backend: FakeBackend, model: str) -> list[int]:
    """How many passes of a model come in a row, where another task lies before and behind them."""
    groups = [(what, len(list(group))) for what, group in groupby(backend.done)]
    lengths = [length for what, length in groups if what == f"pass {model}"]
    return [5 if length % 5 == 0 else length for length in lengths]


def test_little_memory_is_used_and_it_is_said_before_any_is_taken():
    backend = fake_backend(free_bytes=4 * 2**30)
    announced = []
    profile = run_probe(CONFIG, backend, announce=lambda plan: announced.append((plan, list(backend.done))))
    ((plan, done),) = announced
    assert done == []
    record = _record(profile)
    assert plan.scratch_bytes == record.scratch_bytes <= 2 * 2**30
    assert f"fill {plan.kv_values}" in backend.done
    assert (16, 16384) not in {(time_.batch, time_.context) for time_ in record.passes}
    assert "left out for want of memory: batch 16 × context 16,384" in record.warnings


@pytest.mark.parametrize(("peak", "mbu"), [(2e10, 0.5), (1.0001e10, 1.0)])
def test_mbu_is_read_over_the_stated_peak(peak: float, mbu: float):
    stated = Figure(value=peak, evidence="catalogue", source="stated by the user")
    profile = run_probe(ProbeConfig(name="a", budget_s=5.0, peak=stated), fake_backend())
    assert profile.peak_bandwidth_bytes_per_s == stated
    assert profile.mbu == pytest.approx(mbu, rel=1e-3)


def test_a_low_mbu_says_whose_peak_it_is():
    stated = Figure(value=1e11, evidence="catalogue", source="catalogue genoa")
    record = _record(run_probe(ProbeConfig(name="a", budget_s=5.0, peak=stated), fake_backend()))
    assert record.warnings == ["MBU 0.10: 1 of 4 processors measured, the peak is the whole device's"]


def test_more_than_the_stated_peak_is_refused():
    stated = Figure(value=9e9, evidence="catalogue", source="stated by the user")
    with pytest.raises(BadInput) as caught:
        run_probe(ProbeConfig(name="a", budget_s=5.0, peak=stated), fake_backend())
    stated_text = "peak bandwidth = '9 GB/s, stated by the user'"
    assert str(caught.value) == f"{stated_text}: is below the 10.0 GB/s that the probe sustained; correct the peak"


def test_a_device_rate_is_of_sixteen_bits(profile: HardwareProfile):
    backend = fake_backend(rate_precision="fp16", name="cuda", kind="gpu")
    found = hardware_profile("d", None, backend, _record(profile))
    assert found.kind == "gpu"
    assert (found.peak_flops_per_s.fp32, found.flops_per_s("fp16")) == (None, pytest.approx(1e11, rel=1e-3))


def test_five_seconds_on_this_machine(tmp_path: Path):
    start = time.perf_counter()
    with blas_threads(1):
        profile = run_probe(ProbeConfig(name="here", budget_s=5.0), NumpyBackend())
    assert time.perf_counter() - start < 30.0
    write_text(tmp_path / "hw.json", dump_model(profile))
    read = load_hardware(str(tmp_path / "hw.json"))
    assert read == profile
    record = _record(read)
    assert record.blas["threads"] == 1
    assert record.bandwidth.read_bytes_per_s.median > 1e8
    assert record.matmul_flops_per_s.median > 1e8
    for spread in _spreads(record):
        assert 0.0 < spread.low <= spread.median <= spread.high
