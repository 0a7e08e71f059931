"""A device that computes nothing: work moves a clock forward, and what was asked for is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from specbook.hardware.probe.backend import STREAM_KERNELS, Calls, DeviceFacts, Stream, Work
from specbook.hardware.probe.models import SCRATCH_MODELS, TARGET_HEADS, Heads, Weights

MEBIBYTE = 2**20

FACTS = DeviceFacts(
    device="Model T",
    vendor="unknown",
    kind="cpu",
    memory_bytes=16 * 2**30,
    last_level_cache_bytes=8 * MEBIBYTE,
    n_processors=4,
    blas={"library": "none", "version": "0", "kernel": "fake", "threads": 1},
)


def exactly(_: str) -> float:
    """No noise."""
    return 1.0


@dataclass
class FakeBackend:
    """Ten GB/s and a hundred GFLOP/s by a clock that only work moves; ``noise`` multiplies each piece of work."""

    facts: DeviceFacts = FACTS
    free_bytes: int = 12 * 2**30
    bytes_per_s: float = 1e10
    flops_per_s: float = 1e11
    noise: Callable[[str], float] = exactly
    now_s: float = 100.0
    done: list[str] = field(default_factory=list)

    name: str = "numpy"
    product_arithmetics: tuple[str, ...] = ("exact", "fast")
    pass_arithmetics: tuple[str, ...] = ("fast", "exact")
    rate_precision: Literal["fp16", "fp32"] = "fp32"
    heads: Heads = TARGET_HEADS
    further_weights: tuple[Weights, ...] = ()
    kv_value_bytes: int = 4
    square_factor: int = 1

    def clock(self) -> float:
        return self.now_s

    def synchronise(self) -> None:
        pass

    def free_memory_bytes(self) -> int:
        return self.free_bytes

    def engine_name(self, arithmetic: str) -> str:
        return f"fake {arithmetic}"

    def weight_bytes(self, _arithmetic: str) -> int:
        return 4

    def product_bytes(self, _arithmetic: str, weights: Weights) -> int:
        return 4 * weights.n_values

    def _takes(self, what: str, n_bytes: float = 0.0, n_flops: float = 0.0) -> Work:
        def work() -> None:
            self.done.append(what)
            self.now_s += self.noise(what) * (1e-6 + n_bytes / self.bytes_per_s + n_flops / self.flops_per_s)

        return work

    def stream(self, array_bytes: int) -> Stream:
        n_arrays = {"copy": 2, "scale": 2, "add": 3, "triad": 3, "read": 1}
        kernels = {name: Calls(work=self._takes(name, n_arrays[name] * array_bytes)) for name in STREAM_KERNELS}
        return Stream(array_bytes=array_bytes, kernels=kernels)

    def square_product(self, size: int) -> Calls:
        return Calls(work=self._takes("square", 0.0, 2.0 * size**3))

    def tiny_product(self) -> Calls:
        return Calls(work=self._takes("tiny"), n_calls=10)

    def product(self, _arithmetic: str, weights: Weights) -> Callable[[int], Calls]:
        self._takes("prepare product", 4 * weights.n_values)()
        n_flops = 2.0 * weights.n_values
        return lambda rows: Calls(work=self._takes("product", 4 * weights.n_values, rows * n_flops))

    def fill_cache(self, n_values: int) -> None:
        self._takes(f"fill {n_values}", 8.0 * n_values)()

    def attention(self, _arithmetic: str, batch: int, context: int, rows: int) -> Calls:
        n_values = 2 * batch * context * self.heads.kv_values_per_token
        n_flops = 4.0 * rows * batch * context * self.heads.n_heads * self.heads.head_size
        return Calls(work=self._takes("attention", 4 * n_values, n_flops))

    def model(self, name: str, _arithmetic: str) -> Callable[[int, int, int], Work]:
        spec = SCRATCH_MODELS[name]
        self._takes(f"prepare {name}", 4 * spec.n_parameters)()
        weights = 4.0 * spec.n_parameters

        def work_of(batch: int, context: int, width: int) -> Work:
            cached = 8.0 * batch * context * spec.n_layers * spec.n_kv_heads * spec.head_size
            return self._takes(f"pass {name}", weights + cached, 2.0 * batch * width * spec.n_parameters)

        return work_of


def fake_backend(**changes: object) -> FakeBackend:
    """A device with these fields of :class:`FakeBackend` or of its facts."""
    facts = {name: value for name, value in changes.items() if name in DeviceFacts.__dataclass_fields__}
    others = {name: value for name, value in changes.items() if name not in facts}
    return FakeBackend(facts=replace(FACTS, **facts), **others)
