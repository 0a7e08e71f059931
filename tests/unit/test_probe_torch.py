"""The probe on a device, over a stand-in for torch: what is computed, counted, waited for; real torch where it is."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from specbook.checks import BadInput
from specbook.commands import probe as command
from specbook.hardware.probe import torch_device
from specbook.hardware.probe.backend import ARRAYS_MOVED, Calls, seconds_of
from specbook.hardware.probe.models import LLAMA_WEIGHTS, ROOM_TOKENS, SCRATCH_MODELS, Weights
from specbook.hardware.probe.plan import ASSUMED_CACHE_BYTES, cache_values
from specbook.hardware.probe.run import ProbeConfig, run_probe
from specbook.hardware.probe.torch_device import TorchBackend, import_torch
from specbook.hardware.probe.torch_model import TorchModel
from tests.fake_torch import LAUNCH_S, SECONDS_PER_BYTE, FakeTorch
from tests.tiny_models import tiny_spec

CONTEXT = 20


def _backend(device: str = "cuda") -> tuple[TorchBackend, FakeTorch]:
    torch = FakeTorch(device)
    return TorchBackend(torch, device, torch.clock), torch


def test_stream_kernels_compute_what_they_are_called():
    backend, torch = _backend()
    written = []
    full = torch.full
    torch.full = lambda *arguments, **named: written.append(full(*arguments, **named)) or written[-1]
    kernels = backend.stream(4096).kernels
    expected = {"copy": 1.0, "scale": 3.0, "add": 3.0, "triad": 7.0}
    assert {tuple(set(tensor.values.tolist())) for tensor in written} == {(1.0,), (2.0,), (0.0,)}
    for name, value in expected.items():
        kernels[name].work()
        assert set(written[2].values.tolist()) == {value}


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_bandwidth_counts_what_is_moved_and_waits_for_it(device: str):
    backend, torch = _backend(device)
    stream = backend.stream(2**30 + 3)
    assert stream.array_bytes == 2**30
    for name, calls in stream.kernels.items():
        waits = torch.n_waits
        seconds = seconds_of(backend, calls)
        assert calls.n_calls == 8
        moved = ARRAYS_MOVED[name] * stream.array_bytes
        assert seconds == pytest.approx(LAUNCH_S / 8 + SECONDS_PER_BYTE * moved, rel=1e-6), name
        assert torch.n_waits == waits + 2


def test_work_before_the_clock_starts_is_not_counted():
    backend, torch = _backend()
    torch.queue(10**12)
    assert seconds_of(backend, Calls(work=lambda: None)) == 0.0


def test_products_turn_over_more_copies_than_the_cache_holds():
    backend, torch = _backend()
    weights = Weights(n_out=512, n_in=256)
    calls = backend.product("bf16", weights)(5)
    assert calls.n_calls == 2 * 4 * 2**20 // (2 * weights.n_values)
    assert backend.product_bytes("bf16", weights) == 2 * 4 * 2**20
    moved = 2 * (weights.n_values + 5 * 256 + 5 * 512)
    torch.synchronize()
    assert moved * SECONDS_PER_BYTE < LAUNCH_S
    assert seconds_of(backend, calls) == pytest.approx(LAUNCH_S, rel=0.02)


def test_products_of_large_weights_are_not_copied_and_still_timed_together():
    backend, _ = _backend()
    largest = LLAMA_WEIGHTS[-1]
    assert backend.product_bytes("bf16", largest) == 2 * largest.n_values
    assert backend.product("bf16", largest)(1).n_calls == 8


def test_square_and_tiny_products():
    backend, _ = _backend()
    square = backend.square_product(32)
    assert seconds_of(backend, square) == pytest.approx(LAUNCH_S, rel=0.02)
    assert square.n_calls == 8
    tiny = backend.tiny_product()
    assert seconds_of(backend, tiny) == pytest.approx(LAUNCH_S, rel=0.01)


def test_attention_reads_the_context_and_its_rows_behind_what_was_read_last():
    backend, torch = _backend()
    n_values = 3 * 8 * 128 * (CONTEXT + ROOM_TOKENS)
    backend.fill_cache(3 * n_values + 1)
    calls = backend.attention("bf16", batch=3, context=CONTEXT, rows=5)
    assert backend._next_value == 2 * n_values
    calls.work()
    assert torch.attended == [((3, 32, 5, 128), (3, 8, CONTEXT + 5, 128))] * calls.n_calls


def test_pass_runs_every_layer_and_the_head():
    torch = FakeTorch()
    spec = tiny_spec()
    n_values = cache_values(spec, 2, CONTEXT)
    keys, values = (torch.randn((n_values,), dtype=torch.bfloat16, device="cuda") for _ in range(2))
    before = keys.values.copy()
    work = TorchModel(torch, spec, "cuda").pass_work(keys, values, batch=2, context=CONTEXT, width=3)
    logits = work()
    assert logits.shape == (2, 3, spec.n_vocab)
    assert np.isfinite(logits.values).all()
    assert torch.attended == [((2, 6, 3, 4), (2, 2, CONTEXT + 3, 4))] * spec.n_layers
    changed = (keys.values != before).reshape(spec.n_layers, 2, 2, CONTEXT + ROOM_TOKENS, 4).any(axis=(0, 1, 2, 4))
    assert changed.tolist() == [False] * CONTEXT + [True] * 3 + [False] * (ROOM_TOKENS - 3)
    assert np.array_equal(work().values, logits.values)


def test_whole_probe_on_a_device():
    backend, torch = _backend()
    profile = run_probe(ProbeConfig(name="model-t", budget_s=5.0, date="2026-12-01"), backend)
    record = profile.probe
    assert record is not None
    assert torch.now_s - 10.0 < 5.0
    assert (profile.kind, profile.device, profile.vendor) == ("gpu", "NVIDIA Model T", "NVIDIA")
    assert profile.memory_bytes.value == 80 * 2**30
    assert profile.sustained_bandwidth_bytes_per_s.value == pytest.approx(1.0 / SECONDS_PER_BYTE, rel=0.05)
    assert profile.peak_flops_per_s.fp32 is None
    assert profile.peak_flops_per_s.fp16 is not None
    assert (record.backend, record.blas["kernel"], record.n_processors) == ("cuda", "CUDA 13.0", 132)
    assert {time.arithmetic for time in record.products} == {"bf16"}
    assert {(time.n_out, time.n_in) for time in record.products} >= {(w.n_out, w.n_in) for w in LLAMA_WEIGHTS}
    assert {(time.n_heads, time.n_kv_heads, time.head_size) for time in record.attention} == {(32, 8, 128)}
    assert {(table.model, table.engine) for table in profile.step_times} == {
        (model, "torch cuda bf16") for model in SCRATCH_MODELS
    }


def test_facts_of_a_device_that_says_little():
    backend, _ = _backend("mps")
    assert (backend.name, backend.facts.kind, backend.facts.last_level_cache_bytes) == ("mps", "unified", 0)
    assert backend.free_memory_bytes() <= 9 * 2**30
    assert backend.product_bytes("bf16", Weights(n_out=1024, n_in=1024)) == 2 * ASSUMED_CACHE_BYTES


def test_facts_of_hip():
    torch = FakeTorch()
    torch.version = SimpleNamespace(cuda=None, hip="7.1")
    assert TorchBackend(torch, "cuda").facts.vendor == "AMD"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_device_without_torch_is_refused(monkeypatch: pytest.MonkeyPatch, device: str):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=f"--device = '{device}': needs torch, which is not installed; install it"):
        import_torch(device)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_device_that_torch_does_not_find_is_refused(monkeypatch: pytest.MonkeyPatch, device: str):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(device, available=False))
    with pytest.raises(BadInput, match=f"--device = '{device}': is no device that torch finds here; probe the proc"):
        import_torch(device)


def test_command_probes_the_device_that_is_asked_for(cli, monkeypatch: pytest.MonkeyPatch, tmp_path):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(torch_device, "perf_counter", torch.clock)
    monkeypatch.setattr(TorchBackend.__init__, "__defaults__", (torch.clock,))
    monkeypatch.setattr(command, "perf_counter", torch.clock)
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--seconds", 5, "--device", "cuda")
    assert outcome.code == 0
    assert "nvidia-model-t: NVIDIA Model T" in outcome.out


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_kernels_are_what_torch_takes(monkeypatch: pytest.MonkeyPatch):
    import torch

    facts = TorchBackend(FakeTorch(), "cuda").facts
    monkeypatch.setattr(torch_device, "_mps_facts", lambda _: facts)
    backend = TorchBackend(torch, "cpu")
    stream = backend.stream(4096)
    for calls in stream.kernels.values():
        calls.work()
    backend.fill_cache(max(cache_values(SCRATCH_MODELS["specbook-target"], 2, CONTEXT), 2 * 8 * 128 * 36))
    backend.attention("bf16", 2, CONTEXT, 3).work()
    backend.square_product(64).work()
    backend.tiny_product().work()
    logits = backend.model("specbook-target", "bf16")(2, CONTEXT, 3)()
    assert (logits.shape, logits.dtype) == ((2, 3, 1024), torch.bfloat16)
    assert torch.isfinite(logits.float()).all()
    backend.product("bf16", Weights(n_out=640, n_in=384))(5).work()
