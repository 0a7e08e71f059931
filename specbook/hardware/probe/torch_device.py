"""The probe's kernels on a device, through torch, which is imported when a device is asked for and not before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Literal

from specbook.checks import BadInput
from specbook.hardware.probe import machine
from specbook.hardware.probe.backend import STREAM_FACTOR, Calls, DeviceFacts, Stream, Work
from specbook.hardware.probe.models import LLAMA_HEADS, LLAMA_WEIGHTS, ROOM_TOKENS, SCRATCH_MODELS, Heads, Weights
from specbook.hardware.probe.plan import ASSUMED_CACHE_BYTES
from specbook.hardware.probe.torch_model import TorchModel, attend, random_tensor

_ITEM_BYTES, _STREAM_ITEM_BYTES = 2, 4
_TINY, _TINY_CALLS = 8, 1000

# Launching a kernel and waiting for it takes as long as a short one runs, so that several are timed together.
_LEAST_CALLS, _CACHES = 8, 2


def import_torch(device: str) -> Any:
    """Torch, if it is there and drives the device.

    Parameters
    ----------
    device : str
        ``cuda`` or ``mps``.

    Raises
    ------
    BadInput
        If torch is not installed, or knows no such device here.
    """
    try:
        import torch
    except ImportError:
        remedy = "install it (pip install torch), or probe the processor with --device cpu"
        raise BadInput("needs torch, which is not installed", field="--device", value=device, remedy=remedy) from None
    available = torch.cuda.is_available() if device == "cuda" else torch.backends.mps.is_available()
    if not available:
        remedy = "probe the processor with --device cpu"
        raise BadInput("is no device that torch finds here", field="--device", value=device, remedy=remedy)
    return torch


class TorchBackend:
    """A device.

    Parameters
    ----------
    torch : module
        What :func:`import_torch` returns.
    device : str
        ``cuda`` or ``mps``.
    clock : callable
        Seconds.
    """

    product_arithmetics: tuple[str, ...] = ("bf16",)
    pass_arithmetics: tuple[str, ...] = ("bf16",)
    rate_precision: Literal["fp16", "fp32"] = "fp16"
    heads: Heads = LLAMA_HEADS
    further_weights: tuple[Weights, ...] = tuple(LLAMA_WEIGHTS)
    kv_value_bytes = _ITEM_BYTES
    square_factor = 5

    def __init__(self, torch: Any, device: str, clock: Callable[[], float] = perf_counter) -> None:
        self._torch, self.name, self._clock = torch, device, clock
        self.facts = _cuda_facts(torch) if device == "cuda" else _mps_facts(torch)
        self._cache_bytes = self.facts.last_level_cache_bytes or ASSUMED_CACHE_BYTES
        self._keys: Any = None
        self._values: Any = None
        self._next_value = 0

    def clock(self) -> float:
        """Seconds since some moment, of the host."""
        return self._clock()

    def synchronise(self) -> None:
        """Wait for the device."""
        getattr(self._torch, self.name).synchronize()

    def free_memory_bytes(self) -> int:
        """Memory of the device that nobody uses; in unified memory, what the system has left."""
        if self.name == "cuda":
            return int(self._torch.cuda.mem_get_info()[0])
        left = self._torch.mps.recommended_max_memory() - self._torch.mps.current_allocated_memory()
        return min(int(left), machine.available_memory_bytes())

    def engine_name(self, arithmetic: str) -> str:
        """Torch on this device."""
        return f"torch {self.name} {arithmetic}"

    def weight_bytes(self, arithmetic: str) -> int:
        """Bytes of a weight."""
        del arithmetic
        return _ITEM_BYTES

    def product_bytes(self, arithmetic: str, weights: Weights) -> int:
        """All copies."""
        return self._n_copies(weights) * weights.n_values * self.weight_bytes(arithmetic)

    def _n_copies(self, weights: Weights) -> int:
        """As many as together exceed the cache."""
        return -(-_CACHES * self._cache_bytes // (_ITEM_BYTES * weights.n_values))

    def stream(self, array_bytes: int) -> Stream:
        """STREAM's kernels and a read over float32 arrays, each one kernel of the device."""
        torch = self._torch
        n = array_bytes // _STREAM_ITEM_BYTES
        x, y, z = (torch.full((n,), value, dtype=torch.float32, device=self.name) for value in (1.0, 2.0, 0.0))
        works: dict[str, Work] = {
            "copy": lambda: z.copy_(x),
            "scale": lambda: torch.mul(x, STREAM_FACTOR, out=z),
            "add": lambda: torch.add(x, y, out=z),
            "triad": lambda: torch.add(x, y, alpha=STREAM_FACTOR, out=z),
            "read": lambda: torch.sum(x),
        }
        kernels = {name: _queued([work] * _LEAST_CALLS) for name, work in works.items()}
        return Stream(array_bytes=n * _STREAM_ITEM_BYTES, kernels=kernels)

    def square_product(self, size: int) -> Calls:
        """One bfloat16 product of two (size, size) matrices."""
        left, right = (random_tensor(self._torch, (size, size), self.name) for _ in range(2))
        return _queued([lambda: self._torch.matmul(left, right)] * _LEAST_CALLS)

    def tiny_product(self) -> Calls:
        """A thousand products of an (1, 8) and an (8, 8) matrix, queued one behind the other."""
        row = random_tensor(self._torch, (1, _TINY), self.name)
        square = random_tensor(self._torch, (_TINY, _TINY), self.name)
        return _queued([lambda: self._torch.matmul(row, square)] * _TINY_CALLS)

    def product(self, arithmetic: str, weights: Weights) -> Callable[[int], Calls]:
        """Copies of the weights that together exceed the cache, multiplied with in turn: each comes from memory."""
        del arithmetic
        shape = (weights.n_out, weights.n_in)
        first = random_tensor(self._torch, shape, self.name)
        copies = [first, *(first.clone() for _ in range(self._n_copies(weights) - 1))]
        turns = [copies[turn % len(copies)] for turn in range(max(_LEAST_CALLS, len(copies)))]
        linear = self._torch.nn.functional.linear

        def calls(n_rows: int) -> Calls:
            rows = random_tensor(self._torch, (n_rows, weights.n_in), self.name)
            return _queued([partial(linear, rows, copy) for copy in turns])

        return calls

    def fill_cache(self, n_values: int) -> None:
        """Random keys and values, which attention and passes share."""
        self._keys, self._values = (random_tensor(self._torch, (n_values,), self.name) for _ in range(2))

    def attention(self, arithmetic: str, batch: int, context: int, rows: int) -> Calls:
        """Torch's own attention, over parts of the cache that follow one another: each comes from memory."""
        del arithmetic
        return _queued([self._attention(batch, context, rows) for _ in range(_LEAST_CALLS)])

    def _attention(self, batch: int, context: int, rows: int) -> Work:
        torch, heads, capacity = self._torch, self.heads, context + ROOM_TOKENS
        n_values = batch * heads.kv_values_per_token * capacity
        start = self._next_value if self._next_value + n_values <= len(self._keys) else 0
        self._next_value = start + n_values
        shape = (batch, heads.n_kv_heads, capacity, heads.head_size)
        keys, values = (flat[start : start + n_values].reshape(shape) for flat in (self._keys, self._values))
        end = context + rows
        queries = random_tensor(torch, (batch, heads.n_heads, rows, heads.head_size), self.name)
        return lambda: attend(torch, queries, keys[:, :, :end], values[:, :, :end])

    def model(self, name: str, arithmetic: str) -> Callable[[int, int, int], Work]:
        """A scratch model in torch."""
        del arithmetic
        model = TorchModel(self._torch, SCRATCH_MODELS[name], self.name)
        return lambda batch, context, width: model.pass_work(self._keys, self._values, batch, context, width)


def _queued(works: Sequence[Work]) -> Calls:
    """All of it, one behind the other, without waiting in between."""

    def work() -> None:
        for each in works:
            each()

    return Calls(work=work, n_calls=len(works))


def _cuda_facts(torch: Any) -> DeviceFacts:
    properties = torch.cuda.get_device_properties(0)
    return DeviceFacts(
        device=str(properties.name),
        vendor="AMD" if torch.version.hip else "NVIDIA",
        kind="gpu",
        memory_bytes=int(properties.total_memory),
        last_level_cache_bytes=int(getattr(properties, "L2_cache_size", 0)),
        n_processors=int(properties.multi_processor_count),
        blas=_library(torch, f"CUDA {torch.version.cuda}" if torch.version.cuda else f"HIP {torch.version.hip}"),
    )


def _mps_facts(torch: Any) -> DeviceFacts:
    device = machine.processor()
    return DeviceFacts(
        device=device,
        vendor=machine.vendor(device),
        kind="unified",
        memory_bytes=machine.total_memory_bytes(),
        last_level_cache_bytes=0,
        n_processors=machine.n_processors(),
        blas=_library(torch, "Metal"),
    )


def _library(torch: Any, kernel: str) -> dict[str, str | int]:
    return {"library": "torch", "version": str(torch.__version__), "kernel": kernel, "threads": 1}
